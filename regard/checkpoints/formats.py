"""The formats of other projects, by the `model_type` in their config.json."""

from __future__ import annotations

from regard.checkpoints import (
    bert,
    distilbert,
    gpt2,
    llama,
    marian,
    mistral,
    pegasus,
    qwen2,
    qwen3,
    roberta,
    vit,
)
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
        "mistral": mistral.FORMAT,
        "qwen2": qwen2.FORMAT,
        "qwen3": qwen3.FORMAT,
        "distilbert": distilbert.FORMAT,
        "roberta": roberta.FORMAT,
        "xlm-roberta": roberta.MULTILINGUAL,
        "vit": vit.FORMAT,
    },
)
