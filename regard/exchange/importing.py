"""import_model: a Hugging Face folder or a GGUF file as a model folder, verified before it appears."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from regard.checkpoints.atomic_folders import new_folder, write_json
from regard.checkpoints.chat_templates import GENERATION as GENERATION_CONFIG
from regard.checkpoints.folder import WEIGHTS, as_arrays, stored_weights, write_model
from regard.checkpoints.foreign import GENERATION
from regard.checkpoints.huggingface import HuggingFaceFolder
from regard.checkpoints.locations import is_gguf, is_huggingface
from regard.checkpoints.reading import read_model
from regard.checkpoints.untrusted_files import FolderFiles, MappedWeights
from regard.errors import CheckpointError
from regard.exchange.huggingface import check_new
from regard.exchange.report import REPORT, Report, digests
from regard.exchange.verification import TextModel, verify
from regard.inference.loading import load, model_folder
from regard.inference.translator import Translator
from regard.text.tokenizer import JOINT, SOURCE, TARGET, Tokenizer, Tokenizers

NEUTRAL = (None, False, 0, 1, 1.0)  # values of settings that change no text


def import_model(folder: str | Path, out: str | Path) -> Report:
    """Write a Hugging Face folder or a GGUF file as a model folder; raise and write nothing if it differs."""
    folder, out = model_folder(folder), Path(out)
    if not is_huggingface(folder) and not is_gguf(folder):
        raise CheckpointError(
            f"{folder} is neither a GGUF file nor a Hugging Face folder, whose config.json names a model_type"
        )
    check_new(out)
    read = read_model(folder)
    assert isinstance(read, HuggingFaceFolder)
    model = load(folder)
    report = verify("import", model, read)
    report.notes.extend(_unused_settings(read))
    with new_folder(out) as temporary:
        _write(temporary, model, read)
        report.files.update(digests(temporary))
        write_json(temporary / REPORT, report.as_dict())
    return report


def _unused_settings(read: HuggingFaceFolder) -> list[str]:
    """A note that names the settings of transformers' search in a folder that change what it writes."""
    if read.path.is_file() or read.config.family == "encoder-only":
        return []
    files = FolderFiles(read.path)
    values = read.values | (files.json(GENERATION_CONFIG) if GENERATION_CONFIG in files else {})
    named = sorted(name for name in GENERATION if values.get(name) not in NEUTRAL)
    return [f"transformers' settings of search are not used: {', '.join(named)}"] if named else []


def _write(folder: Path, model: TextModel, read: HuggingFaceFolder) -> None:
    tokenizers = model.tokenizers if isinstance(model, Translator) else Tokenizers.joint(model.tokenizer)
    extra = dict(read.extra, specials=_specials(tokenizers))
    weights = stored_weights(model.model)
    write_model(folder, read.config, weights, tokenizers, extra=extra)
    written = MappedWeights(folder / WEIGHTS)
    for name, array in as_arrays(weights).items():
        if not np.array_equal(written[name], array):
            raise CheckpointError(f"{name} was not written as it is; check the disk")


def _specials(tokenizers: Tokenizers) -> dict[str, dict[str, str]]:
    """The spelling of each role, for each tokenizer file."""
    both = {SOURCE: tokenizers.source, TARGET: tokenizers.target}
    files: dict[str, Tokenizer] = {JOINT: tokenizers.source} if tokenizers.are_joint else both
    return {name: tokenizer.spellings() for name, tokenizer in files.items()}
