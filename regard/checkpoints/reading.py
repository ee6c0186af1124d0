"""Reading a model folder of any supported kind: one that regard saved, one of Hugging Face, a GGUF file."""

from __future__ import annotations

from pathlib import Path

from regard.checkpoints.atomic_folders import MANIFEST, readable_folder
from regard.checkpoints.folder import ModelFolder, read_folder
from regard.checkpoints.locations import has_file, is_gguf, is_huggingface


def read_model(folder: str | Path) -> ModelFolder:
    """Read a folder that holds a model, or a GGUF file; imports no torch, except for pytorch_model.bin."""
    folder = Path(folder)
    if is_gguf(folder):
        from regard.checkpoints.gguf_llama import read_gguf

        return read_gguf(folder)
    if not has_file(readable_folder(folder), MANIFEST) and is_huggingface(folder):
        from regard.checkpoints.huggingface import read_huggingface  # its families take a tenth of a second

        return read_huggingface(folder)
    return read_folder(folder)
