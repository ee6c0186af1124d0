"""The settings of embeddings in a folder of sentence-transformers: pooling, normalisation, longest text.

modules.json lists the steps, 1_Pooling/config.json has the pooling, sentence_bert_config.json or
tokenizer_config.json the limit, config_sentence_transformers.json the text to write before every input.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from regard.checkpoints.atomic_folders import write_json
from regard.checkpoints.foreign import ForeignConfig, short_repr
from regard.checkpoints.huggingface_tokenizers import SETTINGS as TOKENIZER_SETTINGS
from regard.checkpoints.locations import CONFIG
from regard.checkpoints.untrusted_files import FolderFiles, parse_json
from regard.errors import CheckpointError
from regard.model.config import ModelConfig
from regard.opener import read_regular

MODULES, SETTINGS, PROMPTS = "modules.json", "sentence_bert_config.json", "config_sentence_transformers.json"
LARGEST = 1 << 20
# Their poolings as those of Reader.embed: by the name of the flag, and by the mode that replaced the flags.
FLAGS = {"pooling_mode_cls_token": "first", "pooling_mode_mean_tokens": "mean"}
POOLINGS = FLAGS | {"cls": "first", "mean": "mean"}
# Arguments for classes of transformers, and names of values that pass from step to step.
HARMLESS = ("config_args", "modality_config", "model_args", "module_output_name", "tokenizer_args",
            "unpad_inputs")  # fmt: skip
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
    limit = _limit(files, config)
    _check_prompt(files)
    normalise = any(kind == "Normalize" for kind, _ in steps)
    return {"embedding": {"pooling": pooling, "normalise": normalise, "limit": limit}}


def _limit(files: FolderFiles, config: ModelConfig) -> int:
    """The longest text in tokens."""
    theirs = ForeignConfig(str(files.folder / SETTINGS), files.json(SETTINGS) if SETTINGS in files else {})
    theirs.require("do_lower_case", False)  # the tokenizer decides
    theirs.require("transformer_task", "feature-extraction")
    if theirs.has("max_seq_length"):
        limit = theirs.size("max_seq_length")
        if limit < 3:
            raise theirs.error("max_seq_length", "is not supported; it must be an integer above 2")
    else:
        settings = files.json(TOKENIZER_SETTINGS) if TOKENIZER_SETTINGS in files else {}
        limit = settings.get("model_max_length")
        limit = limit if type(limit) is int and limit > 2 else config.context
    theirs.check_unread(HARMLESS)
    return min(limit, config.context)


def _check_prompt(files: FolderFiles) -> None:
    """Raise if a text is to be written before every input."""
    values = files.json(PROMPTS) if PROMPTS in files else {}
    name, prompts = values.get("default_prompt_name"), values.get("prompts")
    prompt = prompts.get(name) if isinstance(prompts, dict) and isinstance(name, str) else name
    if prompt:
        rule = "must be null; set it to null, and write the prompt before each text yourself"
        raise _unsupported(files, PROMPTS, "default_prompt_name", name, rule)


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
    modes = {name: ours == pooling for name, ours in FLAGS.items()}
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
    if Path(folder).is_symlink():
        raise CheckpointError(f"{folder} is a link; copy the folder itself there")
    values = FolderFiles(folder).json(CONFIG)
    for name in ("word_embedding_dimension", "embedding_dimension"):
        if values.get(name, config.width) != config.width:
            rule = f"must be {config.width}, the width of the model"
            raise _unsupported(files, f"{place}/config.json", name, values[name], rule)
    named = values.get("pooling_mode")
    if named is None:
        named = [name for name, value in values.items() if name.startswith("pooling_mode_") and value]
    modes = named if isinstance(named, list) else [named]
    if len(modes) != 1 or not isinstance(modes[0], str) or modes[0] not in POOLINGS:
        rule = f"must be one of {', '.join(POOLINGS)}"
        raise _unsupported(files, f"{place}/config.json", "pooling_mode", named, rule)
    return POOLINGS[modes[0]]


def _unsupported(files: FolderFiles, file: str, name: str, value: Any, rule: str) -> CheckpointError:
    return CheckpointError(f"{files.folder / file}: {name} ({short_repr(value)}) is not supported; it {rule}")
