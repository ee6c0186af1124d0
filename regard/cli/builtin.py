"""The names that may stand where a model's folder does: demo and its like."""

from __future__ import annotations

NAMES = ("demo", "demo-reverse", "demo-writing")


def folder_of(model: str | None) -> str | None:
    """The folder of a built-in model by its name, anything else as it is; ./demo is a folder of one's own."""
    if model not in NAMES:
        return model
    from regard.demo.story.model_store import trained_folder

    return str(trained_folder(model))
