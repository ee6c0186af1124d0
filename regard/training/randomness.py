"""Everything random in one value: the generators of torch, numpy and Python."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from regard.errors import CheckpointError


@dataclass(frozen=True)
class RandomState:
    """Where every generator stands; `tensors` of torch by device, `values` of the others."""

    tensors: dict[str, Tensor]
    values: dict[str, Any]


def seed_everything(seed: int) -> None:
    """Start every generator from one number."""
    torch.manual_seed(seed)
    np.random.seed(seed % (1 << 32))
    random.seed(seed)


def random_state() -> RandomState:
    """Where every generator stands now."""
    tensors = {"cpu": torch.get_rng_state()}
    if torch.cuda.is_initialized():
        tensors |= {f"cuda{i}": state for i, state in enumerate(torch.cuda.get_rng_state_all())}
    return RandomState(tensors, {"numpy": np.random.get_state(), "python": random.getstate()})


def restore_random_state(state: RandomState) -> None:
    """Make every generator stand where it stood."""
    try:
        torch.set_rng_state(state.tensors["cpu"])
        on_cuda = [state.tensors[name] for name in sorted(state.tensors) if name.startswith("cuda")]
        if on_cuda and torch.cuda.is_available():
            torch.cuda.set_rng_state_all(on_cuda)
        np.random.set_state(state.values["numpy"])
        random.setstate(state.values["python"])
    except (KeyError, TypeError, ValueError, RuntimeError):
        raise CheckpointError("the saved state of the random generators does not fit this machine") from None


@contextmanager
def undisturbed() -> Iterator[None]:
    """Whatever is drawn inside leaves no trace outside."""
    before = random_state()
    try:
        yield
    finally:
        restore_random_state(before)


def to_json(values: dict[str, Any]) -> dict[str, Any]:
    """The generators of numpy and Python as JSON can hold them."""
    kind, key, *rest = values["numpy"]
    version, words, gauss = values["python"]
    return {"numpy": [kind, key.tolist(), *rest], "python": [version, list(words), gauss]}


def from_json(values: Any) -> dict[str, Any]:
    """The same back."""
    try:
        kind, key, *rest = values["numpy"]
        version, words, gauss = values["python"]
        return {"numpy": (kind, np.array(key, np.uint32), *rest), "python": (version, tuple(words), gauss)}
    except (KeyError, TypeError, ValueError):
        raise CheckpointError("the saved state of the random generators cannot be read") from None
