"""A model folder: a trained model in files that are verified when read and contain no code.

    config.json          the format number, the task of the model, its ModelConfig and further metadata
    model.safetensors    the weights by name; tied weights are stored once; see quantized.py for int8
    tokenizer.json       or tokenizer.source.json and tokenizer.target.json
    manifest.json        size and sha256 of each file

A folder is written atomically. Reading imports no torch; `save_model` and loading weights into a model do.
"""

from __future__ import annotations

import math
import os
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from regard.checkpoints.atomic_folders import new_folder, read_replaceable, write_json, write_tensors
from regard.checkpoints.format1 import FORMAT, read_config
from regard.checkpoints.locations import CONFIG, is_huggingface
from regard.checkpoints.name_report import report_names, wrong_shape
from regard.checkpoints.quantized import QuantizedWeights, is_quantized, quantize
from regard.checkpoints.untrusted_files import FolderFiles
from regard.errors import CheckpointError, SettingError
from regard.model.config import ModelConfig
from regard.model.weight_shapes import Shapes, stored_shapes
from regard.text.tokenizer import JOINT, SOURCE, TARGET, Tokenizers

if TYPE_CHECKING:
    from torch import Tensor, nn

    from regard.model.transformer import Transformer

WEIGHTS = "model.safetensors"
LARGEST_HEADER = 1 << 21  # bytes; a model of ten thousand weights needs half of it


class StoredWeights(Protocol):
    """Arrays by name, and the shapes of all that are stored, known before any is read."""

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The shape of each stored array."""
        ...

    def read(self, name: str, /) -> np.ndarray:
        """A copy of an array, read without the memory map, whose pages would stay in memory."""
        ...

    def __getitem__(self, name: str, /) -> np.ndarray: ...
    def __iter__(self) -> Iterator[str]: ...
    def __len__(self) -> int: ...


@dataclass(frozen=True)
class Copies:
    """Weights by name as copies; an array that was read is not kept."""

    weights: StoredWeights

    def __getitem__(self, name: str) -> np.ndarray:
        return self.weights.read(name)


@dataclass(frozen=True)
class ModelFolder:
    """The contents of a model folder; weights are memory-mapped."""

    path: Path
    config: ModelConfig
    task: str
    extra: dict[str, Any]
    weights: StoredWeights
    tokenizer_files: list[str]
    shares_weights: bool = field(default=False, kw_only=True)  # a model uses the mapped weights, not a copy

    @property
    def dtype(self) -> str:
        """How matrices are stored: int8, or else float32."""
        return "int8" if isinstance(self.weights, QuantizedWeights) else "float32"

    @property
    def labels(self) -> tuple[str, ...]:
        """The names of the classes, or none."""
        return tuple(self.extra.get("labels", ()))

    def tokenizers(self) -> Tokenizers:
        """The tokenizers of the folder; raise if one has more tokens than the model's vocabulary."""
        tokenizers = read_replaceable(self.path, self._read_tokenizers)
        config = self.config
        target_size = config.output_vocabulary
        for tokenizer, size in ((tokenizers.source, config.vocabulary), (tokenizers.target, target_size)):
            if tokenizer.vocabulary > size:
                raise CheckpointError(
                    f"{self.path}: the tokenizer has {tokenizer.vocabulary:,} tokens, and the model {size:,}"
                )
        return tokenizers

    def _read_tokenizers(self, folder: Path) -> Tokenizers:
        return Tokenizers.load(folder, self.tokenizer_files, self.extra.get("specials"))

    def check_weights(self) -> None:
        """Compare names and shapes of the weights with those that the config implies."""
        try:
            wanted = stored_shapes(self.config)
        except (SettingError, RuntimeError) as error:  # an unknown variant, or sizes beyond torch's limits
            raise CheckpointError(f"{self.path / CONFIG}: {_one_line(error)}") from None
        try:
            check_names(wanted, self.weights.shapes)
        except CheckpointError as error:
            raise CheckpointError(f"{self.path / WEIGHTS}: {error}") from None


def save_model(
    folder: str | Path,
    model: Transformer,
    tokenizers: Tokenizers | None = None,
    task: str = "",
    extra: Mapping[str, Any] | None = None,
    replace: bool = False,
) -> Path:
    """Write a model folder. `task` names the task of the model; `extra` is further metadata for JSON."""
    with new_folder(Path(folder), replace) as temporary:
        write_model(temporary, model.config, stored_weights(model), tokenizers, task, extra)
    return Path(folder)


def write_model(
    folder: Path,
    config: ModelConfig,
    weights: Mapping[str, Tensor],
    tokenizers: Tokenizers | None = None,
    task: str = "",
    extra: Mapping[str, Any] | None = None,
) -> None:
    """Write the files of a model into a folder that the caller seals."""
    _write_files(folder, config, as_arrays(weights), tokenizers, task, extra)


def _write_files(
    folder: Path,
    config: ModelConfig,
    arrays: Mapping[str, np.ndarray],
    tokenizers: Tokenizers | None,
    task: str,
    extra: Mapping[str, Any] | None,
) -> None:
    values = {"format": FORMAT, "task": task, "model": config.model_dump(), "extra": dict(extra or {})}
    write_json(folder / CONFIG, values)
    write_tensors(folder / WEIGHTS, arrays)
    if tokenizers is not None:
        tokenizers.save(folder)


def save_quantized(model: str | Path, folder: str | Path) -> Path:
    """Write a copy of a model folder with int8 weights."""
    if is_huggingface(Path(model)):
        raise CheckpointError(f"{model} is a Hugging Face folder; convert it first with regard import")
    read = read_folder(model)
    if read.dtype == "int8":
        raise CheckpointError(f"{model} already has int8 weights; use it as it is")
    tokenizers = read.tokenizers() if read.tokenizer_files else None
    arrays: dict[str, np.ndarray] = {}
    for name in read.weights:
        arrays |= quantize(name, read.weights[name])
    with new_folder(Path(folder)) as temporary:
        _write_files(temporary, read.config, arrays, tokenizers, read.task, read.extra)
    return Path(folder)


def copy_model(checkpoint: Path, folder: Path) -> None:
    """Copy the model of a checkpoint, without the training state, to a model folder."""
    with new_folder(folder, replace=True) as temporary:
        for name in (CONFIG, WEIGHTS, JOINT, SOURCE, TARGET):
            if (checkpoint / name).exists():
                shutil.copyfile(checkpoint / name, temporary / name)


def read_folder(folder: str | Path) -> ModelFolder:
    """Verify and read a model folder, which a run may replace at the same time.

    The header of the weights is compared with the config before the weights are read. Other files in the
    manifest, such as a training state, must exist; their reader verifies their contents.
    """
    read = read_replaceable(Path(folder), _read_folder)
    return replace(read, path=Path(folder))


def _read_folder(folder: Path) -> ModelFolder:
    files = FolderFiles.sealed(folder)
    for name in (CONFIG, WEIGHTS):
        if name not in files:
            raise CheckpointError(f"{folder} is not a model folder: its manifest lists no {name}")
    tokenizers = [name for name in (JOINT, SOURCE, TARGET) if _is_listed(files, name)]
    files.verify([CONFIG])
    values = read_config(files.folder / CONFIG, files.json(CONFIG))
    config = _config(files.folder, values)
    stored = files.weights(WEIGHTS, LARGEST_HEADER)
    weights = QuantizedWeights(stored) if is_quantized(stored) else stored
    check_plausible(files.folder, config, weights.shapes)
    files.verify([WEIGHTS, *tokenizers])
    task, extra = values.get("task", ""), values.get("extra", {})
    if not isinstance(task, str) or not isinstance(extra, dict):
        raise CheckpointError(f"{files.folder / CONFIG}: task must be a text and extra a table of values")
    check_labels(files.folder, config, extra.get("labels", []))
    _check_specials(files.folder, extra.get("specials", {}))
    return ModelFolder(files.folder, config, task, extra, weights, tokenizers)


def _is_listed(files: FolderFiles, name: str) -> bool:
    """Whether the manifest lists a file; raise if the file exists without being listed."""
    return name in files or (os.path.lexists(files.folder / name) and bool(files.path(name)))


def check_labels(folder: Path, config: ModelConfig, labels: Any) -> None:
    """Raise unless there are no labels, or one distinct text per class."""
    if not isinstance(labels, list) or not all(isinstance(label, str) for label in labels):
        raise CheckpointError(f"{folder / CONFIG}: extra.labels must be a list of texts")
    if labels and len(labels) != config.classes:
        raise CheckpointError(f"{folder} has {len(labels)} labels for {config.classes} classes")
    if len(set(labels)) < len(labels):
        raise CheckpointError(f"{folder / CONFIG}: extra.labels contains a label twice")


def _check_specials(folder: Path, specials: Any) -> None:
    """Raise unless there is, for each tokenizer file, a table of roles and spellings."""
    tables = specials.values() if isinstance(specials, dict) else [None]
    texts = [text for table in tables for text in (table.values() if isinstance(table, dict) else [None])]
    if not all(isinstance(text, str) for text in texts):
        raise CheckpointError(f"{folder / CONFIG}: extra.specials must be tables of roles and spellings")


def _config(folder: Path, values: dict[str, Any]) -> ModelConfig:
    try:
        return ModelConfig.read(values.get("model"))
    except SettingError as error:
        raise CheckpointError(f"{folder / CONFIG}: {_one_line(error)}") from None


def _one_line(error: Exception) -> str:
    """The first line of an error message, at most 400 characters long."""
    line = (str(error).splitlines() or [type(error).__name__])[0]
    return line if len(line) <= 400 else f"{line[:397]}..."


def check_plausible(folder: Path, config: ModelConfig, shapes: Mapping[str, tuple[int, ...]]) -> None:
    """Raise if config and weights differ greatly in size, before memory is allocated for either.

    `ModelFolder.check_weights` compares exactly; this function imports no torch.
    """
    stored = sum(math.prod(shape) for shape in shapes.values())
    layers = config.layers + (config.decoder_layers or 0)
    table = config.width * min(config.context, 4096)  # sinusoids, which are not stored
    words = 0 if config.input_width else config.vocabulary * config.width
    inputs = (config.input_width or 0) + config.segments
    others = config.width * (inputs + config.classes + 2 * config.width + 64)
    too_much = layers > len(shapes) or words > stored or table > max(1 << 22, 16 * stored)
    if too_much or stored > 16 * (config.parameter_bound + others):
        raise CheckpointError(
            f"{folder / CONFIG} describes a model of width {config.width}, {layers} layers and vocabulary "
            f"{config.vocabulary}, and the weights hold {stored:,} numbers in {len(shapes)} arrays"
        )


def load_model(folder: str | Path | ModelFolder) -> Transformer:
    """Build the model of a folder on the meta device and load its weights."""
    from regard.model.transformer import build_model

    read = folder if isinstance(folder, ModelFolder) else read_folder(folder)
    read.check_weights()
    model = build_model(read.config, device="meta")
    load_weights(model, read.weights, share=read.shares_weights)
    return model


def load_weights(
    module: nn.Module,
    weights: Mapping[str, np.ndarray] | StoredWeights,
    ignore: str | None = None,
    share: bool = False,
) -> None:
    """Load weights by name; raise if names are missing, left over or of another shape.

    `ignore="head."` skips names with this prefix on both sides, for another head on the same backbone.
    Weights on the meta device are replaced by new ones, and tied weights stay tied. With `share`, these use
    the memory of the arrays where type and alignment permit it.
    """
    groups = _tied(module)
    wanted = {names[0]: tuple(tensor.shape) for tensor, names in groups}
    stored = _shapes(weights)
    if ignore:
        wanted = {name: shape for name, shape in wanted.items() if not name.startswith(ignore)}
        stored = {name: shape for name, shape in stored.items() if not name.startswith(ignore)}
    check_names(wanted, stored)
    for tensor, names in groups:
        if names[0] in wanted:
            _set_weight(module, tensor, names, _as_tensor(weights[names[0]], share))


def _shapes(weights: Mapping[str, np.ndarray] | StoredWeights) -> Shapes:
    if isinstance(weights, dict):
        return {name: array.shape for name, array in weights.items()}
    return weights.shapes  # pyright: ignore[reportAttributeAccessIssue]


def _as_tensor(array: np.ndarray, share: bool) -> Tensor:
    import torch

    is_usable = share and array.flags.aligned and array.flags.writeable
    return torch.from_numpy(array if is_usable else np.array(array, order="C"))


def _set_weight(module: nn.Module, old: Tensor, names: list[str], new: Tensor) -> None:
    import torch
    from torch import nn

    if not old.is_meta:
        with torch.no_grad():
            old.copy_(new)
        return
    is_parameter = isinstance(old, nn.Parameter)
    parameter = nn.Parameter(new.to(old.dtype), old.requires_grad) if is_parameter else new
    for name in names:
        owner, _, last = name.rpartition(".")
        setattr(module.get_submodule(owner), last, parameter)


def check_names(wanted: dict[str, tuple[int, ...]], stored: dict[str, tuple[int, ...]]) -> None:
    """Raise if names are missing, left over or of another shape."""
    wrong = [
        wrong_shape(name, stored[name], shape)
        for name, shape in wanted.items()
        if stored.get(name, shape) != shape
    ]
    missing = [name for name in wanted if name not in stored]
    extra = [name for name in stored if name not in wanted]
    report_names("the weights do not match this model", missing, wrong, extra)


def stored_weights(module: nn.Module) -> dict[str, Tensor]:
    """The weights of a module to save, by name; a tied weight once, under its first name."""
    return {names[0]: tensor for tensor, names in _tied(module)}


def as_arrays(tensors: Mapping[str, Tensor]) -> dict[str, np.ndarray]:
    """Tensors as numpy arrays, without a copy if they are on the CPU."""
    try:
        return {name: tensor.detach().cpu().numpy() for name, tensor in tensors.items()}
    except TypeError as error:
        raise CheckpointError(f"cannot save the weights: {error}") from None


def _tied(module: nn.Module) -> list[tuple[Tensor, list[str]]]:
    """Each parameter and persistent buffer once, with all its names."""
    groups: dict[int, tuple[Tensor, list[str]]] = {}
    for name, tensor in module.state_dict(keep_vars=True).items():
        groups.setdefault(id(tensor), (tensor, []))[1].append(name)
    return list(groups.values())
