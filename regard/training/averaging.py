"""Weights averaged over training, which are often better than the last ones.

An average watches the parameters and holds tensors of its own; what it holds can be saved and taken up.
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

Parameters = Mapping[str, nn.Parameter]


class Average(Protocol):
    """What the Trainer asks of any average."""

    def update(self, step: int) -> None:
        """Take in the parameters as they are after this step."""
        ...

    def weights(self) -> dict[str, Tensor]:
        """The averaged weights by name; empty where there are none, and the trained ones serve."""
        ...

    def state(self) -> dict[str, Tensor]:
        """Everything held, by name."""
        ...

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Hold again what `state` gave."""
        ...


class NoAverage:
    """The trained weights themselves."""

    def __init__(self, parameters: Parameters, settings: AveragingSettings):
        pass

    def update(self, step: int) -> None:
        """Nothing is taken in."""

    def weights(self) -> dict[str, Tensor]:
        """None: the trained ones serve."""
        return {}

    def state(self) -> dict[str, Tensor]:
        """Nothing is held."""
        return {}

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Nothing is held."""


class ExponentialAverage:
    """Each step moves the average a little towards the weights; step n keeps at most (1 + n) / (10 + n)."""

    def __init__(self, parameters: Parameters, settings: AveragingSettings):
        self.parameters, self.decay = parameters, settings.ema_decay
        self.held: dict[str, Tensor] = {}
        self.count = 0

    def update(self, step: int) -> None:
        """Move towards the parameters."""
        now = [parameter.detach() for parameter in self.parameters.values()]
        if not self.held:
            self.held = {name: one.clone() for name, one in zip(self.parameters, now, strict=True)}
        decay = min(self.decay, (1 + self.count) / (10 + self.count))
        _foreach_lerp_(list(self.held.values()), now, 1 - decay)
        self.count += 1

    def weights(self) -> dict[str, Tensor]:
        """The average itself, not a copy."""
        return dict(self.held)

    def state(self) -> dict[str, Tensor]:
        """The average, and how many steps went into it."""
        return {**self.held, "count": torch.tensor(self.count)} if self.held else {}

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Go on from a saved average."""
        held = dict(state)
        self.count = int(held.pop("count", torch.tensor(0)))
        self.held = _matching(held, self.parameters)


class LastAverage:
    """The mean of the weights at the last few marks, all of which are held."""

    def __init__(self, parameters: Parameters, settings: AveragingSettings):
        self.parameters, self.last, self.every = parameters, settings.last, settings.every
        self.held: list[dict[str, Tensor]] = []  # the oldest first

    def update(self, step: int) -> None:
        """At a mark, take in a copy and let the oldest go."""
        if step % self.every == 0:
            copy = {name: parameter.detach().clone() for name, parameter in self.parameters.items()}
            self.held = [*self.held, copy][-self.last :]

    def weights(self) -> dict[str, Tensor]:
        """The mean of what is held."""
        if not self.held:
            return {}
        return {name: torch.stack([one[name] for one in self.held]).mean(0) for name in self.parameters}

    def state(self) -> dict[str, Tensor]:
        """Every copy, numbered from the oldest."""
        return {f"{number}/{name}": t for number, held in enumerate(self.held) for name, t in held.items()}

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Hold the saved copies again."""
        copies: dict[int, dict[str, Tensor]] = {}
        for name, tensor in state.items():
            number, _, rest = name.partition("/")
            copies.setdefault(int(number) if number.isdecimal() else 0, {})[rest] = tensor
        self.held = [_matching(copies[number], self.parameters) for number in sorted(copies)]


AVERAGES: Registry[Callable[[Parameters, AveragingSettings], Average]] = Registry(
    "average", {"none": NoAverage, "ema": ExponentialAverage, "last": LastAverage}
)


@contextmanager
def swapped_in(parameters: Parameters, weights: Mapping[str, Tensor]) -> Iterator[None]:
    """Let the parameters have these values for a while; nothing is copied."""
    trained = {name: parameters[name].data for name in weights}
    try:
        for name, tensor in weights.items():
            parameters[name].data = tensor
        yield
    finally:
        for name, tensor in trained.items():
            parameters[name].data = tensor


def _matching(held: dict[str, Tensor], parameters: Parameters) -> dict[str, Tensor]:
    if held and {n: t.shape for n, t in held.items()} != {n: p.shape for n, p in parameters.items()}:
        raise CheckpointError("the saved averages are not those of this model; start a new run")
    return {name: held[name].to(parameters[name].device) for name in held and parameters}
