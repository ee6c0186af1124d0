"""A model folder: everything that a trained model is, in files that can be checked and run no code.

    config.json          the format's number, what the model is for, its ModelConfig, and what else was told
    model.safetensors    its weights by name; those that are tied stand there once
    tokenizer.json       or tokenizer.source.json and tokenizer.target.json
    manifest.json        size and sha256 of each

Saving writes a new folder that appears whole. Reading loads no torch; only `save_model` and what loads
weights into a model do.
"""

from __future__ import annotations

import math
import os
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from regard.checkpoints.atomic_folders import new_folder, read_replaceable, write_json, write_tensors
from regard.checkpoints.shapes import weight_shapes
from regard.checkpoints.untrusted_files import FolderFiles, MappedWeights, quoted
from regard.errors import CheckpointError, SettingError
from regard.model.config import ModelConfig
from regard.text.tokenizer import JOINT, SOURCE, TARGET, Tokenizers

if TYPE_CHECKING:
    from torch import Tensor, nn

    from regard.model.transformer import Transformer

FORMAT = 1
CONFIG = "config.json"
WEIGHTS = "model.safetensors"
LARGEST_HEADER = 1 << 21  # a model of ten thousand weights needs half of it


@dataclass(frozen=True)
class ModelFolder:
    """What a model folder says; its weights are read from disk only where they are looked at."""

    path: Path
    config: ModelConfig
    purpose: str
    extra: dict[str, Any]
    weights: MappedWeights
    tokenizer_files: list[str]

    @property
    def labels(self) -> tuple[str, ...]:
        """The names of the classes; none where the folder has none."""
        return tuple(self.extra.get("labels", ()))

    def tokenizers(self) -> Tokenizers:
        """The tokenizers of the folder, none with an id that the model has no word for."""
        found = read_replaceable(self.path, lambda folder: Tokenizers.load(folder, self.tokenizer_files))
        config = self.config
        target_size = config.target_vocabulary or config.vocabulary
        for tokenizer, size in ((found.source, config.vocabulary), (found.target, target_size)):
            if tokenizer.vocabulary > size:
                raise CheckpointError(
                    f"{self.path}: its tokenizer has {tokenizer.vocabulary:,} tokens and its model {size:,}"
                )
        return found

    def check_weights(self) -> None:
        """Compare the names and shapes of the weights with those that the config implies; loads torch."""
        try:
            # More names than there are weights are never needed to find one that is missing.
            tied = list(islice(weight_shapes(self.config), len(self.weights) + 6))
        except (SettingError, RuntimeError) as error:  # an unknown variant; numbers that no tensor can count
            raise CheckpointError(f"{self.path / CONFIG}: {_one_line(error)}") from None
        wanted = {next(iter(names)): next(iter(names.values())) for names in tied}
        try:
            _check_names(wanted, self.weights.shapes)
        except CheckpointError as error:
            raise CheckpointError(f"{self.path / WEIGHTS}: {error}") from None


def save_model(
    folder: str | Path,
    model: Transformer,
    tokenizers: Tokenizers | None = None,
    purpose: str = "",
    extra: Mapping[str, Any] | None = None,
    replace: bool = False,
) -> Path:
    """Write a model folder. `purpose` says what the model is for; `extra` is anything that JSON can hold."""
    with new_folder(Path(folder), replace) as making:
        write_model(making, model.config, stored_weights(model), tokenizers, purpose, extra)
    return Path(folder)


def write_model(
    folder: Path,
    config: ModelConfig,
    weights: Mapping[str, Tensor],
    tokenizers: Tokenizers | None = None,
    purpose: str = "",
    extra: Mapping[str, Any] | None = None,
) -> None:
    """Write a model's files into a folder that somebody else will seal."""
    told = {"format": FORMAT, "purpose": purpose, "model": config.model_dump(), "extra": dict(extra or {})}
    write_json(folder / CONFIG, told)
    write_tensors(folder / WEIGHTS, as_arrays(weights))
    if tokenizers is not None:
        tokenizers.save(folder)


def copy_model(checkpoint: Path, folder: Path) -> None:
    """Make a folder that of the model in a checkpoint, without the training state."""
    with new_folder(folder, replace=True) as making:
        for name in (CONFIG, WEIGHTS, JOINT, SOURCE, TARGET):
            if (checkpoint / name).exists():
                shutil.copyfile(checkpoint / name, making / name)


def read_folder(folder: str | Path) -> ModelFolder:
    """Check the files of a model in a folder and read what they say; a run may replace them meanwhile.

    The header of the weights is compared with the config before any number is read. What else is in the
    folder, such as the training state of a checkpoint, has to be there; whoever reads it verifies it.
    """
    read = read_replaceable(Path(folder), _read_folder)
    return replace(read, path=Path(folder))


def _read_folder(folder: Path) -> ModelFolder:
    files = FolderFiles.sealed(folder)
    for name in (CONFIG, WEIGHTS):
        if name not in files:
            raise CheckpointError(f"{folder} is no model folder: its manifest lists no {name}")
    tokenizers = [name for name in (JOINT, SOURCE, TARGET) if _is_there(files, name)]
    files.verify([CONFIG])
    told = files.json(CONFIG)
    config = _config(files.folder, told)
    weights = files.weights(WEIGHTS, LARGEST_HEADER)
    _check_plausible(files.folder, config, weights)
    files.verify([WEIGHTS, *tokenizers])
    purpose, extra = told.get("purpose", ""), told.get("extra", {})
    if not isinstance(purpose, str) or not isinstance(extra, dict):
        raise CheckpointError(f"{files.folder / CONFIG}: purpose must be a text and extra a table of values")
    _check_labels(files.folder, config, extra.get("labels", []))
    return ModelFolder(files.folder, config, purpose, extra, weights, tokenizers)


def _is_there(files: FolderFiles, name: str) -> bool:
    """Whether a file is in the folder; one that only the disk knows, and not the manifest, is refused."""
    return name in files or (os.path.lexists(files.folder / name) and bool(files.path(name)))


def _check_labels(folder: Path, config: ModelConfig, labels: Any) -> None:
    """Labels are as many different texts as there are classes, or none."""
    if not isinstance(labels, list) or not all(isinstance(label, str) for label in labels):
        raise CheckpointError(f"{folder / CONFIG}: extra.labels must be a list of texts")
    if labels and len(labels) != config.classes:
        raise CheckpointError(f"{folder} names {len(labels)} labels for {config.classes} classes")
    if len(set(labels)) < len(labels):
        raise CheckpointError(f"{folder / CONFIG}: extra.labels names a label twice")


def _config(folder: Path, told: dict[str, Any]) -> ModelConfig:
    number = told.get("format")
    if type(number) is not int or number < 1:
        raise CheckpointError(f"{folder / CONFIG} has no format number; it is no folder of regard")
    if number > FORMAT:
        raise CheckpointError(
            f"{folder / CONFIG} has format {number} and this regard reads up to {FORMAT}; update regard"
        )
    try:
        return ModelConfig.read(told.get("model"))
    except SettingError as error:
        raise CheckpointError(f"{folder / CONFIG}: {_one_line(error)}") from None


def _one_line(error: Exception) -> str:
    """What an error says, which may quote a text of any length."""
    line = (str(error).splitlines() or [type(error).__name__])[0]
    return line if len(line) <= 400 else f"{line[:397]}..."


def _check_plausible(folder: Path, config: ModelConfig, weights: MappedWeights) -> None:
    """Refuse a config of quite another size than the weights, before anything of either size is made or read.

    `ModelFolder.check_weights` compares exactly; this loads no torch.
    """
    stored = sum(math.prod(shape) for shape in weights.shapes.values())
    layers = config.layers + (config.decoder_layers or 0)
    table = config.width * min(config.context, 4096)  # of sinusoids, which no file holds
    words = 0 if config.vectors else config.vocabulary * config.width
    others = config.width * ((config.vectors or 0) + config.classes + config.segments + 2 * config.width + 64)
    too_much = layers > len(weights) or words > stored or table > max(1 << 22, 16 * stored)
    if too_much or stored > 16 * (config.parameter_bound + others):
        raise CheckpointError(
            f"{folder / CONFIG} describes a model of width {config.width}, {layers} layers and vocabulary "
            f"{config.vocabulary}, and {WEIGHTS} holds {stored:,} numbers in {len(weights)} weights"
        )


def load_model(folder: str | Path | ModelFolder) -> Transformer:
    """The model of a folder, built without numbers and given those that were saved."""
    from regard.model.transformer import build_model

    read = folder if isinstance(folder, ModelFolder) else read_folder(folder)
    read.check_weights()
    model = build_model(read.config, device="meta")
    load_weights(model, read.weights)
    return model


def load_weights(module: nn.Module, weights: Mapping[str, np.ndarray], ignore: str | None = None) -> None:
    """Give a module the weights of these names; those missing, extra or of another shape are an error.

    `ignore="head."` leaves out names that begin so, on both sides: another head on the same body. Where the
    module has no numbers yet, it gets new ones, and what was tied stays tied.
    """
    import torch

    groups = _tied(module)
    wanted = {names[0]: tuple(tensor.shape) for tensor, names in groups}
    given = {name: tuple(weights[name].shape) for name in weights}
    if ignore:
        wanted = {name: shape for name, shape in wanted.items() if not name.startswith(ignore)}
        given = {name: shape for name, shape in given.items() if not name.startswith(ignore)}
    _check_names(wanted, given)
    for tensor, names in groups:
        if names[0] in wanted:
            _put(module, tensor, names, torch.from_numpy(np.array(weights[names[0]], order="C")))


def _put(module: nn.Module, old: Tensor, names: list[str], new: Tensor) -> None:
    import torch
    from torch import nn

    if not old.is_meta:
        with torch.no_grad():
            old.copy_(new)
        return
    is_parameter = isinstance(old, nn.Parameter)
    placed = nn.Parameter(new.to(old.dtype), old.requires_grad) if is_parameter else new
    for name in names:
        owner, _, last = name.rpartition(".")
        setattr(module.get_submodule(owner), last, placed)


def _check_names(wanted: dict[str, tuple[int, ...]], given: dict[str, tuple[int, ...]]) -> None:
    missing = [name for name in wanted if name not in given]
    extra = [name for name in given if name not in wanted]
    wrong = [
        f"{name} is {_sized(given[name])}, not {_sized(shape)}"
        for name, shape in wanted.items()
        if given.get(name, shape) != shape
    ]
    found = (("missing", missing), ("wrong", wrong), ("extra", extra))
    parts = [f"{what}: {_a_few(names)}" for what, names in found if names]
    if parts:
        raise CheckpointError(f"these weights are not those of this model; {'; '.join(parts)}")


def stored_weights(module: nn.Module) -> dict[str, Tensor]:
    """What has to be saved of a module, by name; what is tied once, under its first name."""
    return {names[0]: tensor for tensor, names in _tied(module)}


def as_arrays(tensors: Mapping[str, Tensor]) -> dict[str, np.ndarray]:
    """Tensors as arrays of numpy, without a copy where they lie in memory already."""
    try:
        return {name: tensor.detach().cpu().numpy() for name, tensor in tensors.items()}
    except TypeError as error:
        raise CheckpointError(f"cannot save these weights: {error}") from None


def _tied(module: nn.Module) -> list[tuple[Tensor, list[str]]]:
    """Every parameter and kept buffer once, with all its names."""
    groups: dict[int, tuple[Tensor, list[str]]] = {}
    for name, tensor in module.state_dict(keep_vars=True).items():
        groups.setdefault(id(tensor), (tensor, []))[1].append(name)
    return list(groups.values())


def _sized(shape: Iterable[int]) -> str:
    return " x ".join(map(str, shape)) or "one number"


def _a_few(names: list[str]) -> str:
    shown = ", ".join(map(quoted, names[:5]))
    return shown if len(names) <= 5 else f"{shown} and {len(names) - 5} more"
