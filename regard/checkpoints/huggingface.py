"""A folder in the layout of Hugging Face, read as a model folder: config.json, weights, tokenizer files.

    config.json                     the architecture; formats.py has the families
    model.safetensors               or model.safetensors.index.json with several files, or pytorch_model.bin
    tokenizer.json                  or the files of older tokenizers, see huggingface_tokenizers.py
    modules.json                    of sentence-transformers: the pooling of embeddings

No code of the folder runs, and there is no network. Reading safetensors imports no torch.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from regard.checkpoints.chat_templates import read_chat
from regard.checkpoints.folder import (
    CONFIG,
    WEIGHTS,
    ModelFolder,
    StoredWeights,
    check_labels,
    check_plausible,
)
from regard.checkpoints.foreign import short_repr
from regard.checkpoints.formats import FORMATS
from regard.checkpoints.huggingface_tokenizers import read_tokenizers
from regard.checkpoints.name_report import report_names
from regard.checkpoints.naming import Format, Origin
from regard.checkpoints.pytorch_files import read_pickled
from regard.checkpoints.sentence_transformers import read_embedding
from regard.checkpoints.untrusted_files import FolderFiles, shorten_name
from regard.checkpoints.vit import read_preprocessing
from regard.errors import CheckpointError, SettingError
from regard.model.config import ModelConfig
from regard.model.weight_shapes import Shapes
from regard.text.tokenizer import JOINT, SOURCE, TARGET, Tokenizers

INDEX = "model.safetensors.index.json"
PICKLE, PICKLE_INDEX = "pytorch_model.bin", "pytorch_model.bin.index.json"
LARGEST_HEADER = 1 << 22  # bytes; about the header of a file with forty thousand arrays


class Shard(StoredWeights, Protocol):
    """The weights of one file."""

    @property
    def dtypes(self) -> dict[str, str]:
        """The type of each array in the terms of safetensors, such as F16."""
        ...


class ForeignWeights(Mapping[str, np.ndarray]):
    """Their weights under our names, each converted when it is read; a tied one has its first name alone."""

    def __init__(self, stored: Sequence[Shard], form: Format, config: ModelConfig):
        self._stored, self._form, self._config = stored, form, config
        self._shards = {name: shard for shard in stored for name in shard}

    @cached_property
    def stored_shapes(self) -> Shapes:
        """The shape of each stored array, under their names."""
        return {name: shape for shard in self._stored for name, shape in shard.shapes.items()}

    @cached_property
    def shapes(self) -> Shapes:
        """The shape of each weight; raise if the names and shapes are not those that the config implies."""
        return {name: origin.shape for name, origin in self._origins.items()}

    @cached_property
    def _origins(self) -> dict[str, Origin]:
        origins = self._form.origins(self.stored_shapes, self._config)
        return {origin.names[0]: origin for origin in origins}

    @property
    def is_half(self) -> bool:
        """Whether all matrices have 16 bits for each number."""
        dtypes = {name: dtype for shard in self._stored for name, dtype in shard.dtypes.items()}
        matrices = [name for name, shape in self.stored_shapes.items() if len(shape) == 2]
        return all(dtypes[name] in ("F16", "BF16") for name in matrices)

    def stored_items(self) -> Iterator[tuple[str, np.ndarray]]:
        """Their weights under their names."""
        yield from ((name, shard[name]) for name, shard in self._shards.items())

    def read(self, name: str) -> np.ndarray:
        """A weight from copies of its parts, which are read without the memory map."""
        return self._origins[name].convert(lambda part: self._shards[part].read(part))

    def __getitem__(self, name: str) -> np.ndarray:
        return self._origins[name].convert(lambda part: self._shards[part][part])

    def __iter__(self) -> Iterator[str]:
        return iter(self._origins)

    def __len__(self) -> int:
        return len(self._origins)


@dataclass(frozen=True)
class HuggingFaceFolder(ModelFolder):
    """The contents of a Hugging Face folder; `values` is its config.json and `form` its family."""

    weights: ForeignWeights  # pyright: ignore[reportIncompatibleVariableOverride] the class is frozen
    values: dict[str, Any]
    form: Format

    @property
    def dtype(self) -> str:
        """How matrices are stored: float16 for all types of 16 bits, otherwise float32."""
        return "float16" if self.weights.is_half else "float32"

    def check_weights(self) -> None:
        """Compare names and shapes of the weights with those that the config implies."""
        try:
            _ = self.weights.shapes
        except (CheckpointError, SettingError, RuntimeError) as error:
            line = (str(error).splitlines() or [type(error).__name__])[0]
            raise CheckpointError(f"{self.path}: {line[:600]}") from None

    def _read_tokenizers(self, folder: Path) -> Tokenizers:
        return read_tokenizers(FolderFiles(folder), self.config, self.values)


def read_huggingface(folder: Path) -> HuggingFaceFolder:
    """Read a Hugging Face folder; raise if its architecture or one of its options is not supported."""
    files = FolderFiles(folder)
    values = files.json(CONFIG)
    form = _find_format(folder, values)
    try:
        config = form.to_config(values)
    except (CheckpointError, SettingError) as error:
        raise CheckpointError(f"{folder / CONFIG}: {error}") from None
    stored = _read_weights(files)
    names = [name for shard in stored for name in shard]
    if config.output == "pooled" and not any(name.endswith("pooler.dense.weight") for name in names):
        config = config.changed(output="vectors")
    weights = ForeignWeights(stored, form, config)
    check_plausible(folder, config, weights.stored_shapes)
    extra = {"imported": values["model_type"]}
    extra |= _labels(folder, config, values) | read_embedding(files, config)
    extra |= read_preprocessing(files, values) if config.patches else {}
    extra |= read_chat(files, values) if config.family == "decoder-only" else {}
    tokenizers = [SOURCE, TARGET] if "source.spm" in files and JOINT not in files else [JOINT]
    return HuggingFaceFolder(
        folder, config, "", extra, weights, tokenizers, values, form, shares_weights=True
    )


def _find_format(folder: Path, values: dict[str, Any]) -> Format:
    kind = values.get("model_type")
    if not isinstance(kind, str) or kind not in FORMATS:
        raise CheckpointError(
            f"{folder / CONFIG}: model_type ({short_repr(kind)}) is not supported; "
            f"regard reads {', '.join(sorted(FORMATS))}"
        )
    return FORMATS[kind]


def _labels(folder: Path, config: ModelConfig, values: dict[str, Any]) -> dict[str, Any]:
    """The names of the classes in the order of their ids, as metadata of a model folder."""
    named = values.get("id2label")
    if config.output != "classes" or not isinstance(named, dict):
        return {}
    by_number = {str(number): name for number, name in named.items()}
    labels = [by_number.get(str(number)) for number in range(config.classes)]
    check_labels(folder, config, labels)
    return {"labels": labels}


def _read_weights(files: FolderFiles) -> list[Shard]:
    """The weights under their names, from the first kind of file that the folder has."""
    if WEIGHTS in files:
        return [files.weights(WEIGHTS, LARGEST_HEADER, writable=True)]
    if INDEX in files:
        return _join_shards(files, INDEX)
    if PICKLE in files:
        return [read_pickled(files.path(PICKLE))]
    if PICKLE_INDEX in files:
        return _join_shards(files, PICKLE_INDEX)
    raise CheckpointError(f"{files.folder} has no weights; it must have {WEIGHTS}, {INDEX} or {PICKLE}")


def _join_shards(files: FolderFiles, index: str) -> list[Shard]:
    """The weights of all files that an index names; each must be exactly where the index says."""
    places = files.json(index).get("weight_map")
    if not isinstance(places, dict) or not all(isinstance(name, str) for name in places.values()):
        raise CheckpointError(f"{files.folder / index} has no weight_map of names to files")
    paths = {name: files.path(name) for name in dict.fromkeys(places.values())}  # all before any is opened
    ending = ".safetensors" if index == INDEX else ".bin"
    shards: list[Shard] = []
    for name, path in paths.items():
        if not name.endswith(ending):
            raise CheckpointError(f"{files.folder / index} names {shorten_name(name)}, which is no {ending}")
        shard = files.weights(name, LARGEST_HEADER, True) if ending == ".safetensors" else read_pickled(path)
        wrong = [weight for weight in shard if places.get(weight) != name]
        report_names(f"{path} does not match {index}", [], [], wrong)
        shards.append(shard)
    missing = [name for name in places if not any(name in shard for shard in shards)]
    report_names(f"{files.folder / index} names weights that no file has", missing, [], [])
    return shards
