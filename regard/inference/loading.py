"""load: a model folder as a Translator, a Writer or a Reader, depending on its family."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard.checkpoints.atomic_folders import MANIFEST
from regard.checkpoints.folder import CONFIG, ModelFolder, load_model, read_folder
from regard.checkpoints.locations import RECIPE, has_file, locate_model
from regard.checkpoints.untrusted_files import FolderFiles, shorten_name
from regard.errors import CheckpointError, SettingError, UnknownName, UsageError, nearest
from regard.model.config import ModelConfig

if TYPE_CHECKING:
    from regard.inference.reader import Reader
    from regard.inference.translator import Translator
    from regard.inference.writer import Writer
    from regard.model.transformer import Transformer

DTYPES = ("float32", "bfloat16")


def load(
    path: str | Path, device: str = "cpu", dtype: str | None = None, threads: int | None = None
) -> Translator | Writer | Reader:
    """Load a model folder or the model of a run, as a Translator, a Writer or a Reader.

    `dtype` is float32, or bfloat16 on accelerators. `threads` sets the number of threads of torch.
    """
    return _loaded(_read(Path(path)), device, dtype, threads)


def load_for(
    command: str, path: str | Path, device: str = "cpu", dtype: str | None = None, threads: int | None = None
) -> Any:
    """Load a model for a command; raise before loading if the command cannot use it."""
    folder = _read(Path(path))
    if command not in commands_for(folder.config):
        raise UsageError(
            f"{path} holds {holds(folder.config)}, which cannot {command}; "
            f"use regard {' or regard '.join(commands_for(folder.config))}"
        )
    return _loaded(folder, device, dtype, threads)


def holds(config: ModelConfig) -> str:
    """What a model is, for messages."""
    kinds = {"encoder-decoder": "a model that translates", "decoder-only": "a model that continues text"}
    readers = {
        "masked": "fills masks",
        "words": "fills masks",
        "classes": f"tells {config.classes} classes apart",
    }
    reading = f"a model that reads text and {readers.get(config.output, 'gives vectors')}"
    return f"{kinds.get(config.family, reading)} ({config.family})"


def commands_for(config: ModelConfig) -> list[str]:
    """The commands that can use a model."""
    writing = {"encoder-decoder": ["translate"], "decoder-only": ["complete"]}
    reading = {"masked": ["fill", "embed"], "words": ["fill", "embed"], "classes": ["classify", "embed"]}
    return writing.get(config.family) or reading.get(config.output, ["embed"])


def model_folder(path: str | Path) -> Path:
    """The model folder that a path means; a path without a model is returned as it is."""
    path = Path(path)
    location = locate_model(path)
    if location is None and has_file(path, RECIPE):
        raise CheckpointError(
            f"{path} is a run that has no model before its first checkpoint; wait for it, or continue it "
            f"with regard train --resume {path}"
        )
    return path if location is None else location.model


def _read(path: Path) -> ModelFolder:
    """The contents of a model folder; imports no torch."""
    folder = model_folder(path)
    if not has_file(folder, MANIFEST) and has_file(folder, CONFIG):
        kind = FolderFiles(folder).json(CONFIG).get("model_type")
        if isinstance(kind, str):
            raise CheckpointError(
                f"{path} is a Hugging Face folder ({shorten_name(kind)}), which regard cannot load yet; "
                "give a folder that regard has saved"
            )
    return read_folder(folder)


def _loaded(folder: ModelFolder, device: str, dtype: str | None, threads: int | None) -> Any:
    _check_dtype(device, dtype)
    tokenizers = folder.tokenizers()
    model = _placed(folder, device, dtype, threads)
    if folder.config.family == "encoder-decoder":
        from regard.inference.translator import Translator

        return Translator(model, tokenizers)  # pyright: ignore[reportArgumentType]
    if folder.config.family == "decoder-only":
        from regard.inference.writer import Writer

        return Writer(model, tokenizers.target)  # pyright: ignore[reportArgumentType]
    from regard.inference.reader import Reader

    return Reader(model, tokenizers.source, folder.labels)  # pyright: ignore[reportArgumentType]


def _placed(folder: ModelFolder, device: str, dtype: str | None, threads: int | None) -> Transformer:
    """The model with its weights, on its device."""
    import torch

    from regard.engine.device import find_device

    if threads is not None:
        if threads < 1:
            raise SettingError(f"threads ({threads}) must be 1 or more; leave it out for torch's choice")
        torch.set_num_threads(threads)
    device = find_device(device)
    model = load_model(folder).eval()
    if device == "cpu" and dtype is None:
        return model
    return model.to(device, getattr(torch, dtype or "float32"))


def _check_dtype(device: str, dtype: str | None) -> None:
    if dtype is not None and dtype not in DTYPES:
        raise UnknownName(f"unknown dtype {dtype!r}; {nearest(dtype, DTYPES)}")
    if dtype == "bfloat16" and str(device).startswith("cpu"):
        raise SettingError("dtype (bfloat16) is for accelerators, and slow on a cpu; leave it out")
