"""Workers: threads that each take a piece of a step, forward and backward, on cores of their own.

A small model's operations are too short to be shared out among cores one by one: the cores would mostly
wait for each other. With a piece for each of them, nobody waits before the step's end. Gradients are added
up in the order of the pieces, and each piece draws from a generator of its own, seeded from torch's, so
that the same step gives the same bits however the threads take turns.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from threading import Barrier
from types import TracebackType
from typing import Any

import torch
from torch import Tensor, _foreach_add_, nn  # pyright: ignore[reportPrivateImportUsage]

from regard.model.kernels import dropout_generator
from regard.training.loss import observed_cross_entropy

log = logging.getLogger("regard.training")

# A thread that is ready to go on asks for Python's lock after so many seconds, where Python itself waits for
# 5 milliseconds, which is as long as a small model's whole layer takes.
PATIENCE = 1e-4


@dataclass(frozen=True)
class Learned:
    """What came of a piece: sums over so many predictions."""

    loss: Tensor  # what is minimised
    cross_entropy: Tensor  # the same without label smoothing and agreement
    count: int


class Workers:
    """So many threads, which share torch's between them; where it is one, the thread that asks does the work.

    with Workers(2) as workers:
        workers.learn(module, pieces)       # adds to every .grad
    """

    def __init__(self, count: int = 1):
        self.count = count
        self._pool: ThreadPoolExecutor | None = None
        self._usual_patience = 0.0

    @classmethod
    def for_module(cls, module: nn.Module, count: int) -> Workers:
        """So many for a module on the CPU; one, and a line, where an accelerator does the work."""
        others = {one.device.type for one in module.parameters()} - {"cpu"}
        if others and count > 1:
            log.info(
                "one worker instead of %d: they share out a CPU, and this is %s",
                count,
                ", ".join(sorted(others)),
            )
        return cls(1 if others else count)

    def __enter__(self) -> Workers:
        if self.count > 1:
            threads = torch.get_num_threads()
            share = max(1, threads // self.count)
            self._pool = ThreadPoolExecutor(self.count, "regard-worker", _take, (share,))
            self._wake()
            torch.set_num_threads(threads)  # of this thread, which updates the weights
            self._usual_patience = sys.getswitchinterval()
            sys.setswitchinterval(PATIENCE)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        where: TracebackType | None,
    ) -> None:
        if self._pool is not None:
            sys.setswitchinterval(self._usual_patience)
            self._pool.shutdown(cancel_futures=True)
            self._pool = None

    def learn(self, module: nn.Module, pieces: Sequence[Any]) -> list[Learned]:
        """The losses of each piece; their gradients are added to those of the module."""
        if self._pool is None:
            return [_learn_here(module, piece) for piece in pieces]
        parameters = [one for one in module.parameters() if one.requires_grad]
        seeds = torch.randint(1 << 62, (len(pieces),)).tolist()
        tasks = [
            self._pool.submit(_learn_apart, module, parameters, piece, seed)
            for piece, seed in zip(pieces, seeds, strict=True)
        ]
        learned: list[Learned] = []
        for task in tasks:
            piece, gradients = task.result()
            learned.append(piece)
            _add(parameters, gradients)
        return learned

    def _wake(self) -> None:
        """Start every thread now, while none of them computes: what they set is partly the process's."""
        assert self._pool is not None
        barrier = Barrier(self.count)
        for task in [self._pool.submit(barrier.wait) for _ in range(self.count)]:
            task.result()


def _take(threads: int) -> None:
    """Give this thread so many of torch's, once torch has set it up, which it does when first asked."""
    torch.get_num_threads()
    torch.set_num_threads(threads)


def _learn_here(module: nn.Module, piece: Any) -> Learned:
    loss, learned = _forward(module, piece)
    loss.backward()
    return learned


def _learn_apart(
    module: nn.Module, parameters: list[nn.Parameter], piece: Any, seed: int
) -> tuple[Learned, tuple[Tensor | None, ...]]:
    with dropout_generator(torch.Generator().manual_seed(seed)):
        loss, learned = _forward(module, piece)
    return learned, torch.autograd.grad(loss, parameters, allow_unused=True)


def _forward(module: nn.Module, piece: Any) -> tuple[Tensor, Learned]:
    """The loss to go backward from, and what is told of it; a module with a loss of its own has one alone."""
    with observed_cross_entropy() as plain:
        loss, count = module(piece)
    sums = torch.stack(plain).sum() if plain else loss.detach()
    return loss, Learned(loss.detach(), sums, count)


def _add(parameters: list[nn.Parameter], gradients: Sequence[Tensor | None]) -> None:
    """Add gradients to those that are there."""
    held: list[Tensor] = []
    more: list[Tensor] = []
    for parameter, gradient in zip(parameters, gradients, strict=True):
        if gradient is None:
            continue
        if parameter.grad is None:
            parameter.grad = gradient
        else:
            held.append(parameter.grad)
            more.append(gradient)
    if held:
        _foreach_add_(held, more)
