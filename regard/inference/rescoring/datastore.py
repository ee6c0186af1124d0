"""kNN-MT: a datastore of known translations that is interpolated with the model at every step.

For every token of a known translation the datastore holds a key, the vector that the model's head reads at
that position, and a value, the token. While the model translates, the vector h of a step is the query
(Khandelwal et al. 2021). With the k nearest keys, weight lambda and temperature T:

    p(y) = (1 - lambda) p_model(y) + lambda sum over i of a_i c_i(y) / c_i
    a = softmax(log c_i - |h - k_i|^2 / (T u))

Equal keys are held once: c_i counts the tokens that followed key i, and c_i(y) those that are y. The unit u
is the mean squared distance of the keys from their mean, so that a temperature has the same meaning for every
model. R rows, N keys, D width, E entries (pairs of a key and a token that followed it), V vocabulary, K
neighbours.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import log
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import torch
from pydantic import Field
from torch import Tensor

from regard.checkpoints.atomic_folders import new_folder, write_json, write_tensors
from regard.checkpoints.untrusted_files import FolderFiles, MappedWeights
from regard.errors import CheckpointError, SettingError
from regard.inference.rescoring.nearest import nearest
from regard.settings import Settings

if TYPE_CHECKING:
    from regard.model.transformer import EncoderDecoder

FORMAT = 3
CONFIG, TENSORS = "datastore.json", "datastore.safetensors"
MAX_KEYS = 1 << 24  # every step is compared with all of them
ROWS = 1 << 10  # keys converted at once


class KnnParameters(Settings):
    """The parameters of kNN-MT; `lambda` is a keyword of Python, so the field is `lambda_`."""

    lambda_: Annotated[float, Field(ge=0, le=0.99, alias="lambda")] = 0.3  # the datastore's weight
    k: Annotated[int, Field(ge=1, le=4096)] = 16  # how many neighbours
    temperature: Annotated[float, Field(gt=0, le=1000)] = 0.15  # of the softmax over neighbours

    def __init__(self, **values: Any):
        if "lambda_" in values:
            values = {"lambda": values.pop("lambda_"), **values}
        super().__init__(**values)

    def as_dict(self) -> dict[str, Any]:
        """The parameters by name, as JSON values."""
        return self.model_dump(by_alias=True)


@dataclass(frozen=True)
class Neighbours:
    """The nearest keys of each row, the nearest first; R K each."""

    distances: Tensor  # squared, divided by the unit
    indices: Tensor  # of the keys
    counts: Tensor  # how many tokens followed each key


def neighbour_weights(distances: Tensor, counts: Tensor, temperature: float) -> Tensor:
    """The softmax over neighbours, R K; a key that occurred n times weighs as n keys."""
    return (counts.log() - distances / temperature).softmax(-1)


@dataclass(frozen=True, eq=False)
class Datastore:
    """Keys and the tokens that followed them. It is a Blend: a stepper calls it after the model's head."""

    keys: Tensor  # N D, all different, float16
    followers: Tensor  # N, how many different tokens followed each key
    ids: Tensor  # E, these tokens, key after key
    counts: Tensor  # E, how often each of them followed
    model: str  # the fingerprint of the model that computed the keys
    parameters: KnnParameters = field(default_factory=KnnParameters)

    def __len__(self) -> int:
        """The number of tokens in the known translations."""
        return int(self.counts.sum())

    def __call__(self, hidden: Tensor, log_probabilities: Tensor) -> Tensor:
        """Interpolate: hidden states R D and the model's log-probabilities R V to log-probabilities R V."""
        weight = self.parameters.lambda_
        if not weight:
            return log_probabilities
        near = self.nearest(hidden)
        slots, entries = self._entries(near.indices)
        weights = neighbour_weights(near.distances, near.counts, self.parameters.temperature).flatten()[slots]
        masses = (weights * self._share(near, slots, entries)).to(log_probabilities.dtype)
        columns = slots // near.indices.shape[1] * log_probabilities.shape[1] + self.ids[entries]
        retrieved = torch.zeros_like(log_probabilities)
        retrieved.view(-1).scatter_add_(0, columns, masses)
        return torch.logaddexp(log_probabilities + log(1 - weight), retrieved.log() + log(weight))

    def nearest(self, hidden: Tensor, count: int | None = None) -> Neighbours:
        """The keys nearest to each row of hidden states, R D."""
        count = min(count or self.parameters.k, len(self.keys))
        distances, indices = nearest(hidden.float(), self.keys, self._half_squares, count)
        return Neighbours((distances / self._unit).float(), indices, self._totals[indices].float())

    def share_of(self, near: Neighbours, ids: np.ndarray) -> Tensor:
        """The fraction of each neighbour's followers that equal the id of its row, R K."""
        slots, entries = self._entries(near.indices)
        wanted = torch.from_numpy(ids.astype(np.int64)).to(self.ids.device)[slots // near.indices.shape[1]]
        matching = torch.where(self.ids[entries] == wanted, self._share(near, slots, entries), 0.0)
        shares = torch.zeros_like(near.counts)
        return shares.view(-1).scatter_add_(0, slots, matching).view_as(shares)

    def changed(self, **parameters: Any) -> Datastore:
        """A copy with other parameters."""
        return replace(self, parameters=self.parameters.changed(**parameters))

    def check(self, model: EncoderDecoder) -> None:
        """Raise if the keys were computed by another model."""
        vocabulary = model.config.output_vocabulary
        fits = self.keys.shape[1] == model.config.width and self._lowest >= 0 and self._highest < vocabulary
        if not fits or self.model != fingerprint(model):
            raise SettingError(
                "this datastore was built with another model; build one with this: regard datastore"
            )

    def save(self, folder: str | Path, overwrite: bool = False) -> Path:
        """Write a folder, which appears only when it is complete."""
        with new_folder(Path(folder), overwrite) as making:
            config = {"format": FORMAT, "model": self.model, "parameters": self.parameters.as_dict()}
            write_json(making / CONFIG, config)
            values = {"followers": self.followers, "ids": self.ids, "counts": self.counts}
            arrays = {name: tensor.cpu().numpy().astype(np.int32) for name, tensor in values.items()}
            write_tensors(making / TENSORS, {"keys": self.keys.cpu().numpy(), **arrays})
        return Path(folder)

    @classmethod
    def load(cls, folder: str | Path, device: str = "cpu") -> Datastore:
        """Read a folder that `save` has written; every file is verified."""
        files = FolderFiles.sealed(Path(folder))
        if CONFIG not in files or TENSORS not in files:
            raise CheckpointError(f"{folder} holds no datastore; build one with regard datastore")
        files.verify([CONFIG])
        model, parameters = _read_config(files)
        stored = files.weights(TENSORS)
        if not _has_expected_shapes(stored):
            raise _invalid(files)
        values = {name: torch.from_numpy(stored.read(name)).long() for name in stored if name != "keys"}
        if not _is_consistent(**values):
            raise _invalid(files)
        files.verify([TENSORS])
        keys = torch.from_numpy(stored.read("keys"))
        if not is_finite(keys):
            raise _invalid(files)
        followers, ids, counts = (values[name].to(device) for name in ("followers", "ids", "counts"))
        return cls(keys.to(device), followers, ids, counts, model, parameters)

    def _entries(self, indices: Tensor) -> tuple[Tensor, Tensor]:
        """All entries of keys R K: the position of each in the flattened R K, and its index in E."""
        lengths = self.followers[indices].flatten()
        slots = torch.repeat_interleave(torch.arange(len(lengths), device=lengths.device), lengths)
        within = torch.arange(len(slots), device=lengths.device) - (lengths.cumsum(0) - lengths)[slots]
        return slots, self._starts[indices].flatten()[slots] + within

    def _share(self, near: Neighbours, slots: Tensor, entries: Tensor) -> Tensor:
        return self.counts[entries] / near.counts.flatten()[slots]

    @cached_property
    def _starts(self) -> Tensor:
        return self.followers.cumsum(0) - self.followers  # N

    @cached_property
    def _totals(self) -> Tensor:
        """How many tokens followed each key, N."""
        sums = torch.cat([self.counts.new_zeros(1), self.counts.cumsum(0)])
        return sums[self._starts + self.followers] - sums[self._starts]

    @cached_property
    def _lowest(self) -> int:
        return int(self.ids.min())

    @cached_property
    def _highest(self) -> int:
        return int(self.ids.max())

    @cached_property
    def _half_squares(self) -> Tensor:
        """|k|^2 / 2 of each key, N."""
        half_squares = torch.empty(len(self.keys), device=self.keys.device)
        for keys, values in zip(self.keys.split(ROWS), half_squares.split(ROWS), strict=True):
            values.copy_(keys.float().square().sum(1) / 2)
        return half_squares

    @cached_property
    def _unit(self) -> float:
        total, squares = np.zeros(self.keys.shape[1]), 0.0
        for part, counts in zip(self.keys.split(ROWS), self._totals.split(ROWS), strict=True):
            keys, weights = part.cpu().double().numpy(), counts.cpu().double().numpy()
            total += weights @ keys
            squares += float(weights @ (keys**2).sum(1))
        return max(squares / len(self) - float(((total / len(self)) ** 2).sum()), 1e-12)


def _read_config(files: FolderFiles) -> tuple[str, KnnParameters]:
    """The model's fingerprint and the parameters."""
    config, path = files.json(CONFIG), files.path(CONFIG)
    if config.get("format") != FORMAT or not isinstance(config.get("model"), str):
        raise CheckpointError(f"{path} is of another format; build it again: regard datastore")
    try:
        return config["model"], KnnParameters.read(config.get("parameters"))
    except SettingError as error:
        raise CheckpointError(f"{path}: {error}") from None


def _invalid(files: FolderFiles) -> CheckpointError:
    return CheckpointError(
        f"{files.path(TENSORS)} holds invalid keys or ids; build it again: regard datastore"
    )


def _has_expected_shapes(stored: MappedWeights) -> bool:
    """Check names, shapes and types of the tensors without reading them."""
    if set(stored) != {"keys", "followers", "ids", "counts"}:
        return False
    shapes, types = stored.shapes, stored.dtypes
    if len(shapes["keys"]) != 2 or 0 in shapes["keys"] or shapes["keys"][0] > MAX_KEYS:
        return False
    if types.pop("keys") != "F16" or set(types.values()) != {"I32"}:
        return False
    rows_fit = shapes["followers"] == shapes["keys"][:1]
    return rows_fit and len(shapes["ids"]) == 1 and shapes["ids"] == shapes["counts"]


def _is_consistent(followers: Tensor, ids: Tensor, counts: Tensor) -> bool:
    """Whether every key has followers, and all of them are there."""
    return int(followers.min()) > 0 and int(followers.sum()) == len(ids) and int(counts.min()) > 0


def is_finite(keys: Tensor) -> bool:
    """Whether no key holds NaN or infinity."""
    return all(bool(part.isfinite().all()) for part in keys.split(ROWS))


def fingerprint(model: EncoderDecoder) -> str:
    """The sha256 of a model's configuration and of every weight."""
    config = json.dumps(model.config.model_dump(exclude_defaults=True), sort_keys=True)
    digest = hashlib.sha256(config.encode())
    for name, parameter in model.named_parameters():
        digest.update(f"{name} {tuple(parameter.shape)}".encode())
        digest.update(parameter.detach().float().cpu().contiguous().numpy().data)
    return digest.hexdigest()
