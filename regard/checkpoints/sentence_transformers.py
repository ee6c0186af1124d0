"""The settings of embeddings in a folder of sentence-transformers: pooling, normalisation, longest text.

modules.json lists the steps, 1_Pooling/config.json has the pooling, sentence_bert_config.json the limit.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from regard.checkpoints.atomic_folders import write_json
from regard.checkpoints.foreign import short_repr
from regard.checkpoints.locations import CONFIG
from regard.checkpoints.untrusted_files import FolderFiles, parse_json
from regard.errors import CheckpointError
from regard.model.config import ModelConfig
from regard.opener import read_regular

MODULES, SETTINGS = "modules.json", "sentence_bert_config.json"
LARGEST = 1 << 20
# Their poolings by the name of the flag, as those of Reader.embed.
POOLINGS = {"pooling_mode_cls_token": "first", "pooling_mode_mean_tokens": "mean"}
STEPS = ("Transformer", "Pooling", "Normalize")


def read_embedding(files: FolderFiles, config: ModelConfig) -> dict[str, Any]:
    """The settings as metadata of a model folder; nothing for a folder of another kind."""
    if MODULES not in files:
        return {}
    steps = _steps(files)
    pooling = "mean"
    for kind, place in steps:
        if kind == "Pooling":
            pooling = _pooling(files, place, config)
    settings = files.json(SETTINGS) if SETTINGS in files else {}
    limit = settings.get("max_seq_length")
    if limit is not None and (type(limit) is not int or limit < 3):
        raise _unsupported(files, SETTINGS, "max_seq_length", limit, "must be an integer above 2")
    if settings.get("do_lower_case") not in (None, False):
        raise _unsupported(files, SETTINGS, "do_lower_case", True, "must be false; the tokenizer decides")
    limit = min(limit or config.context, config.context)
    normalise = any(kind == "Normalize" for kind, _ in steps)
    return {"embedding": {"pooling": pooling, "normalise": normalise, "limit": limit}}


def write_embedding(
    folder: Path, pooling: str, normalise: bool, limit: int | None, config: ModelConfig
) -> None:
    """Write the settings as files of sentence-transformers; without a limit it is the model's context."""
    steps = STEPS if normalise else STEPS[:2]
    modules = [
        {"idx": number, "name": str(number), "path": f"{number}_{kind}" if number else "",
         "type": f"sentence_transformers.models.{kind}"}
        for number, kind in enumerate(steps)
    ]  # fmt: skip
    write_json(folder / MODULES, modules)
    write_json(folder / SETTINGS, {"max_seq_length": limit or config.context, "do_lower_case": False})
    modes = {name: ours == pooling for name, ours in POOLINGS.items()}
    (folder / "1_Pooling").mkdir()
    write_json(folder / "1_Pooling" / CONFIG, modes | {"word_embedding_dimension": config.width})


def _steps(files: FolderFiles) -> list[tuple[str, str]]:
    """Kind and folder of each module, in order."""
    try:
        modules = parse_json(read_regular(files.path(MODULES), LARGEST))
    except OSError as error:
        raise CheckpointError(f"cannot read {files.folder / MODULES}: {error.strerror or error}") from None
    except (ValueError, RecursionError):
        modules = None
    if not isinstance(modules, list) or not all(isinstance(module, dict) for module in modules):
        raise CheckpointError(f"{files.folder / MODULES} is damaged: it is not a list of modules")
    steps = [(str(module.get("type")).rpartition(".")[2], str(module.get("path"))) for module in modules]
    for kind, _ in steps:
        if kind not in STEPS:
            raise _unsupported(files, MODULES, "type", kind, f"must be one of {', '.join(STEPS)}")
    return steps


def _pooling(files: FolderFiles, place: str, config: ModelConfig) -> str:
    folder = files.path(place)
    if folder.is_symlink():
        raise CheckpointError(f"{folder} is a link; copy the folder itself there")
    values = FolderFiles(folder).json(CONFIG)
    chosen = [name for name, value in values.items() if name.startswith("pooling_mode_") and value]
    if len(chosen) != 1 or chosen[0] not in POOLINGS:
        name = ", ".join(chosen) or "pooling_mode"
        raise _unsupported(files, f"{place}/config.json", name, True, f"must be one of {', '.join(POOLINGS)}")
    width = values.get("word_embedding_dimension", config.width)
    if width != config.width:
        rule = f"must be {config.width}, the width of the model"
        raise _unsupported(files, f"{place}/config.json", "word_embedding_dimension", width, rule)
    return POOLINGS[chosen[0]]


def _unsupported(files: FolderFiles, file: str, name: str, value: Any, rule: str) -> CheckpointError:
    return CheckpointError(f"{files.folder / file}: {name} ({short_repr(value)}) is not supported; it {rule}")
