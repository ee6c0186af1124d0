"""Regard: the Transformer as software to build, use and look inside.

Each public name is imported from its package on first use, so that `import regard` is fast.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from regard.errors import RegardError
    from regard.inference.loading import load
    from regard.inference.reader import Reader
    from regard.inference.translator import Translator
    from regard.inference.writer import Writer
    from regard.inspection.inspection import inspect
    from regard.model.config import ModelConfig
    from regard.model.transformer import build_model
    from regard.model.watch import watch
    from regard.runs.run import resume, train
    from regard.text.tokenizer import Tokenizer
    from regard.training.trainer import Trainer

__all__ = [
    "ModelConfig",
    "Reader",
    "RegardError",
    "Tokenizer",
    "Trainer",
    "Translator",
    "Writer",
    "build_model",
    "inspect",
    "load",
    "resume",
    "train",
    "watch",
]

_HOMES = {
    "ModelConfig": "regard.model.config",
    "Reader": "regard.inference.reader",
    "RegardError": "regard.errors",
    "Tokenizer": "regard.text.tokenizer",
    "Trainer": "regard.training.trainer",
    "Translator": "regard.inference.translator",
    "Writer": "regard.inference.writer",
    "build_model": "regard.model.transformer",
    "inspect": "regard.inspection.inspection",
    "load": "regard.inference.loading",
    "resume": "regard.runs.run",
    "train": "regard.runs.run",
    "watch": "regard.model.watch",
}


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version

        value = version("regard")
    elif name in _HOMES:
        from importlib import import_module

        if name == "load":  # it takes the names of the demo's models
            import_module("regard.demo.story.model_store")
        value = getattr(import_module(_HOMES[name]), name)
    else:
        raise AttributeError(f"module 'regard' has no attribute {name!r}; it offers {', '.join(__all__)}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, "__version__"})
