"""The formats of other projects, by the `model_type` in their config.json."""

from __future__ import annotations

from regard.checkpoints import bert, gpt2, llama, marian, pegasus
from regard.checkpoints.naming import Format
from regard.registry import Registry

FORMATS: Registry[Format] = Registry(
    "model_type",
    {
        "gpt2": gpt2.FORMAT,
        "bert": bert.FORMAT,
        "marian": marian.FORMAT,
        "pegasus": pegasus.FORMAT,
        "llama": llama.FORMAT,
    },
)
