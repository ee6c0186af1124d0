"""Weight averaging over training; averaged weights are often better than the last ones.

An average reads the parameters after each step and has its own tensors, which checkpoints save.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Protocol

import torch
from torch import Tensor, _foreach_lerp_, nn  # pyright: ignore[reportPrivateImportUsage]

from regard.errors import CheckpointError
from regard.registry import Registry
from regard.training.settings import AveragingSettings
from regard.training.shards import like, local

Parameters = Mapping[str, nn.Parameter]


class Average(Protocol):
    """An average as the Trainer uses it."""

    def update(self, step: int) -> None:
        """Include the parameters after this step."""
        ...

    def weights(self) -> dict[str, Tensor]:
        """The averaged weights by name; empty if the trained weights are to be used."""
        ...

    def state(self) -> dict[str, Tensor]:
        """All tensors by name, for a checkpoint."""
        ...

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Continue from a saved state."""
        ...


class NoAverage:
    """No averaging: the trained weights are used."""

    def __init__(self, parameters: Parameters, settings: AveragingSettings):
        pass

    def update(self, step: int) -> None:
        """Nothing to update."""

    def weights(self) -> dict[str, Tensor]:
        """Empty: the trained weights are used."""
        return {}

    def state(self) -> dict[str, Tensor]:
        """No tensors."""
        return {}

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Nothing to restore."""


class ExponentialAverage:
    """An exponential moving average; the decay of update n is at most (1 + n) / (10 + n)."""

    def __init__(self, parameters: Parameters, settings: AveragingSettings):
        self.parameters, self.decay = parameters, settings.ema_decay
        self.averaged: dict[str, Tensor] = {}
        self.count = 0

    def update(self, step: int) -> None:
        """Move the average towards the parameters."""
        current = [parameter.detach() for parameter in self.parameters.values()]
        if not self.averaged:
            self.averaged = dict(zip(self.parameters, (tensor.clone() for tensor in current), strict=True))
        decay = min(self.decay, (1 + self.count) / (10 + self.count))
        averaged = [local(tensor) for tensor in self.averaged.values()]
        _foreach_lerp_(averaged, [local(tensor) for tensor in current], 1 - decay)
        self.count += 1

    def weights(self) -> dict[str, Tensor]:
        """The average itself, not a copy."""
        return dict(self.averaged)

    def state(self) -> dict[str, Tensor]:
        """The average and the number of updates."""
        return {**self.averaged, "count": torch.tensor(self.count)} if self.averaged else {}

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Continue from a saved average."""
        tensors = dict(state)
        self.count = int(tensors.pop("count", torch.tensor(0)))
        self.averaged = _matching(tensors, self.parameters)


class LastAverage:
    """The mean of the last few states of the weights, one every `every` steps; all are in memory."""

    def __init__(self, parameters: Parameters, settings: AveragingSettings):
        self.parameters, self.last, self.every = parameters, settings.last, settings.every
        self.copies: list[dict[str, Tensor]] = []  # the oldest first

    def update(self, step: int) -> None:
        """Add a copy of the parameters every `every` steps and drop the oldest."""
        if step % self.every == 0:
            copy = {name: parameter.detach().clone() for name, parameter in self.parameters.items()}
            self.copies = [*self.copies, copy][-self.last :]

    def weights(self) -> dict[str, Tensor]:
        """The mean of the copies."""
        if not self.copies:
            return {}
        return {
            name: like(parameter, torch.stack([local(copy[name]) for copy in self.copies]).mean(0))
            for name, parameter in self.parameters.items()
        }

    def state(self) -> dict[str, Tensor]:
        """Every copy, numbered from the oldest."""
        return {
            f"{number}/{name}": tensor
            for number, copy in enumerate(self.copies)
            for name, tensor in copy.items()
        }

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Continue from saved copies."""
        copies: dict[int, dict[str, Tensor]] = {}
        for name, tensor in state.items():
            number, _, rest = name.partition("/")
            copies.setdefault(int(number) if number.isdecimal() else 0, {})[rest] = tensor
        self.copies = [_matching(copies[number], self.parameters) for number in sorted(copies)]


AVERAGES: Registry[Callable[[Parameters, AveragingSettings], Average]] = Registry(
    "average", {"none": NoAverage, "ema": ExponentialAverage, "last": LastAverage}
)


@contextmanager
def swapped_in(parameters: Parameters, weights: Mapping[str, Tensor]) -> Iterator[None]:
    """A context in which the parameters have these values; nothing is copied."""
    trained = {name: parameters[name].data for name in weights}
    try:
        for name, tensor in weights.items():
            parameters[name].data = tensor
        yield
    finally:
        for name, tensor in trained.items():
            parameters[name].data = tensor


def _matching(saved: dict[str, Tensor], parameters: Parameters) -> dict[str, Tensor]:
    shapes = {name: parameter.shape for name, parameter in parameters.items()}
    if saved and {name: tensor.shape for name, tensor in saved.items()} != shapes:
        raise CheckpointError("the saved averages are not those of this model; start a new run")
    return {name: saved[name].to(parameters[name].device) for name in saved and parameters}
