"""Replicas: threads that compute parts of a batch at the same time, each on its own cores of a CPU.

The operations of a small model are too short to be divided among cores: threads would mostly wait for each
other. With one part of the batch per replica they wait once per step. Gradients are added in the order of the
parts, and each part has its own random generator, seeded from torch's, so that a step is reproducible bit for
bit.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from threading import Barrier
from types import TracebackType
from typing import Any

import torch
from torch import Tensor, _foreach_add_, nn  # pyright: ignore[reportPrivateImportUsage]

from regard.model.kernels import dropout_generator
from regard.training.loss import observed_cross_entropy

log = logging.getLogger("regard.training")

# Seconds after which a waiting thread requests Python's lock. Python's default of 5 ms is as long as a layer
# of a small model takes.
SWITCH_INTERVAL = 1e-4


@dataclass(frozen=True)
class LossSums:
    """The losses of a part of a batch, summed over `count` predictions."""

    loss: Tensor  # what is minimised
    cross_entropy: Tensor  # without label smoothing and R-Drop
    count: int


class Replicas:
    """Threads that divide torch's threads among them; a single replica uses the calling thread.

    with Replicas(2) as replicas:
        replicas.backward(module, parts)       # adds to every .grad
    """

    def __init__(self, count: int = 1, precision: str = "float32"):
        self.count, self.precision = count, precision
        self._pool: ThreadPoolExecutor | None = None
        self._default_interval = 0.0

    @classmethod
    def for_module(cls, module: nn.Module, count: int, precision: str = "float32") -> Replicas:
        """`count` replicas for a module on a CPU, one on an accelerator."""
        devices = {parameter.device.type for parameter in module.parameters()} - {"cpu"}
        if devices and count > 1:
            log.info("1 replica instead of %d on %s", count, ", ".join(sorted(devices)))
        return cls(1 if devices else count, precision)

    def __enter__(self) -> Replicas:
        if self.count > 1:
            threads = torch.get_num_threads()
            share = max(1, threads // self.count)
            self._pool = ThreadPoolExecutor(self.count, "regard-replica", _set_threads, (share,))
            self._start_threads()
            torch.set_num_threads(threads)  # for this thread, which updates the weights
            self._default_interval = sys.getswitchinterval()
            sys.setswitchinterval(SWITCH_INTERVAL)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        where: TracebackType | None,
    ) -> None:
        if self._pool is not None:
            sys.setswitchinterval(self._default_interval)
            self._pool.shutdown(cancel_futures=True)
            self._pool = None

    def backward(self, module: nn.Module, parts: Sequence[Any]) -> list[LossSums]:
        """The losses of each part; their gradients are added to those of the module."""
        if self._pool is None:
            return [backward_here(module, part, self.precision) for part in parts]
        parameters = [parameter for parameter in module.parameters() if parameter.requires_grad]
        seeds = torch.randint(1 << 62, (len(parts),)).tolist()
        futures = [
            self._pool.submit(_gradients, module, parameters, part, seed, self.precision)
            for part, seed in zip(parts, seeds, strict=True)
        ]
        losses: list[LossSums] = []
        for future in futures:
            sums, gradients = future.result()
            losses.append(sums)
            _add_gradients(parameters, gradients)
        return losses

    def _start_threads(self) -> None:
        """Start every thread before any computes, since `_set_threads` partly affects the whole process."""
        assert self._pool is not None
        barrier = Barrier(self.count)
        for future in [self._pool.submit(barrier.wait) for _ in range(self.count)]:
            future.result()


def _set_threads(threads: int) -> None:
    torch.get_num_threads()  # initialises torch's threads for this thread, which would reset the number later
    torch.set_num_threads(threads)


def backward_here(
    module: nn.Module, part: Any, precision: str = "float32", is_counted: bool = True
) -> LossSums:
    """The losses of a part, whose gradients are added to those of the module; zeros if it is not counted."""
    loss, sums = _forward(module, part, precision)
    if not is_counted:
        (loss * 0).backward()
        return LossSums(sums.loss * 0, sums.cross_entropy * 0, 0)
    loss.backward()
    return sums


def _gradients(
    module: nn.Module, parameters: list[nn.Parameter], part: Any, seed: int, precision: str
) -> tuple[LossSums, tuple[Tensor | None, ...]]:
    with dropout_generator(torch.Generator().manual_seed(seed)):
        loss, sums = _forward(module, part, precision)
    return sums, torch.autograd.grad(loss, parameters, allow_unused=True)


def _forward(module: nn.Module, part: Any, precision: str) -> tuple[Tensor, LossSums]:
    """The loss with its graph, and the sums; a module that reports no cross-entropy has only its loss."""
    with observed_cross_entropy() as reported, _precision(module, precision):
        loss, count = module(part)
    cross_entropy = torch.stack(reported).sum() if reported else loss.detach()
    return loss, LossSums(loss.detach(), cross_entropy, count)


def _precision(module: nn.Module, name: str) -> AbstractContextManager[object]:
    """A context in which matrix products are computed in bfloat16, if wanted."""
    if name == "float32":
        return nullcontext()
    return torch.autocast(next(module.parameters()).device.type, torch.bfloat16)


def _add_gradients(parameters: list[nn.Parameter], gradients: Sequence[Tensor | None]) -> None:
    sums: list[Tensor] = []
    added: list[Tensor] = []
    for parameter, gradient in zip(parameters, gradients, strict=True):
        if gradient is None:
            continue
        if parameter.grad is None:
            parameter.grad = gradient
        else:
            sums.append(parameter.grad)
            added.append(gradient)
    if sums:
        _foreach_add_(sums, added)
