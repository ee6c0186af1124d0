"""A model folder: everything that a trained model is, in files that can be checked and run no code.

    config.json          the format's number, what the model is for, its ModelConfig, and what else was told
    model.safetensors    its weights by name; those that are tied stand there once
    tokenizer.json       or tokenizer.source.json and tokenizer.target.json
    manifest.json        size and sha256 of each

Saving writes a new folder that appears whole. Reading loads no torch; only `save_model` and what loads
weights into a model do.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from regard.checkpoints.reading import MappedWeights, check_manifest, inside, read_json
from regard.checkpoints.writing import new_folder, write_json, write_tensors
from regard.errors import CheckpointError, SettingError
from regard.model.config import ModelConfig
from regard.text.pair import JOINT, SOURCE, TARGET, Tokenizers

if TYPE_CHECKING:
    from torch import Tensor, nn

    from regard.model.transformer import Transformer

FORMAT = 1
CONFIG = "config.json"
WEIGHTS = "model.safetensors"


@dataclass(frozen=True)
class ModelFolder:
    """What a model folder says; its weights are read from disk only where they are looked at."""

    path: Path
    config: ModelConfig
    purpose: str
    extra: dict[str, Any]
    weights: MappedWeights
    tokenizer_files: list[str]

    def tokenizers(self) -> Tokenizers:
        """The tokenizers of the folder."""
        return Tokenizers.load(self.path)


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


def read_folder(folder: str | Path) -> ModelFolder:
    """Check every file of a model folder and read what it says."""
    folder = Path(folder)
    files = check_manifest(folder)
    for name in (CONFIG, WEIGHTS):
        if name not in files:
            raise CheckpointError(f"{folder} is no model folder: its manifest lists no {name}")
    told = read_json(folder / CONFIG)
    config = _config(folder, told)
    weights = MappedWeights(inside(folder, WEIGHTS))
    _check_plausible(folder, config, weights)
    extra, purpose = told.get("extra"), told.get("purpose")
    return ModelFolder(
        folder,
        config,
        purpose if isinstance(purpose, str) else "",
        extra if isinstance(extra, dict) else {},
        weights,
        [name for name in (JOINT, SOURCE, TARGET) if name in files],
    )


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
        raise CheckpointError(f"{folder / CONFIG}: {error}") from None


def _check_plausible(folder: Path, config: ModelConfig, weights: MappedWeights) -> None:
    """Refuse a config that speaks of far more than the weights hold, before anything of that size is made."""
    stored = sum(int(np.prod(shape, dtype=object)) for shape in weights.shapes.values())
    layers = config.layers + (config.decoder_layers or 0)
    table = config.width * min(config.context, 4096)  # of sinusoids, which no file holds
    words = 0 if config.vectors else config.vocabulary * config.width
    if layers > len(weights) or words > stored or table > max(1 << 22, 16 * stored):
        raise CheckpointError(
            f"{folder / CONFIG} describes a model of width {config.width}, {layers} layers and vocabulary "
            f"{config.vocabulary}, and {WEIGHTS} holds {stored:,} numbers in {len(weights)} weights"
        )


def load_model(folder: str | Path | ModelFolder) -> Transformer:
    """The model of a folder, built without numbers and given those that were saved."""
    from regard.model.transformer import build_model

    read = folder if isinstance(folder, ModelFolder) else read_folder(folder)
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
    shown = ", ".join(names[:5])
    return shown if len(names) <= 5 else f"{shown} and {len(names) - 5} more"
