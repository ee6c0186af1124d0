"""The loss: how surprised the model was by each next word, with the logits of few rows held at a time.

N rows, D width, V vocabulary, C rows of a chunk.

Label smoothing (section 5.4) follows torch: of the target's probability a share `smoothing` is taken and
spread evenly over all V words, the right one included. A row's loss is then, with z its logits,

    logsumexp(z) - (1 - smoothing) z[target] - smoothing mean(z)

Agreement (R-Drop, Liang et al. 2021): where the rows are two passes over the same text, whose dropout
differs, the distributions p and q of a place are pulled together by

    agreement / 2 (KL(p, q) + KL(q, p))

Both change the loss that is minimised. The cross-entropy without them, which can be compared with that of
validation, is noted for whoever observes it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from regard.errors import UsageError

HELD_LOGITS = 1 << 20  # 4 MB in float32, about what stays in a processor's cache

_observed: ContextVar[list[Tensor] | None] = ContextVar("observed", default=None)


@contextmanager
def observed_cross_entropy() -> Iterator[list[Tensor]]:
    """A list that gets the summed cross-entropy of each loss inside, without smoothing and agreement."""
    sums: list[Tensor] = []
    token = _observed.set(sums)
    try:
        yield sums
    finally:
        _observed.reset(token)


def note_cross_entropy(losses: Tensor) -> None:
    """Hand the plain losses of some rows to whoever observes them."""
    sums = _observed.get()
    if sums is not None:
        sums.append(losses.detach().sum())


def cross_entropy(
    rows: Tensor,
    weight: Tensor,
    targets: Tensor,
    bias: Tensor | None = None,
    smoothing: float = 0.0,
    chunk: int | None = None,
    agreement: float = 0.0,
) -> Tensor:
    """The summed loss of rows N D against targets N, through a head V D, never holding N x V logits.

    With agreement, the second half of the rows is another pass over the places of the first. Gradients are
    made in the same pass, chunk by chunk; without grad mode only the loss is.
    """
    chunk = chunk or max(1, HELD_LOGITS // weight.shape[0])
    learning = torch.is_grad_enabled()
    return _CrossEntropy.apply(rows, weight, bias, targets, smoothing, chunk, agreement, learning)


class _CrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        rows: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        targets: Tensor,
        smoothing: float,
        chunk: int,
        agreement: float,
        learning: bool,
    ) -> Tensor:
        wanted = ctx.needs_input_grad if learning else (False, False, False)
        gradients = _Gradients(
            torch.empty_like(rows) if wanted[0] else None,
            torch.zeros_like(weight) if wanted[1] else None,
            torch.zeros_like(bias) if wanted[2] and bias is not None else None,
        )
        total = rows.new_zeros(())
        held = rows.new_empty(min(max(chunk, 2), len(rows)), len(weight))  # C V, the same for every chunk
        for part in _parts(len(rows), chunk, bool(agreement)):
            some, wanted_words = rows[part], targets[part]
            logits = torch.mm(some, weight.T, out=held[: len(some)])
            losses = _losses(logits if bias is None else logits.add_(bias), wanted_words)
            note_cross_entropy(losses)
            total += _smoothed(losses, logits, smoothing).sum()
            pull = None
            if agreement:
                apart, pull = _apart(logits, any(wanted))
                total += agreement / 2 * apart
            if any(wanted):
                _differentiate(logits, wanted_words, smoothing)
                if pull is not None:
                    logits.add_(pull, alpha=agreement / 2)
                gradients.add(logits, some, weight, part)
        ctx.save_for_backward(gradients.rows, gradients.weight, gradients.bias)
        return total

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:  # pyright: ignore[reportIncompatibleMethodOverride]
        if torch.is_grad_enabled():  # under create_graph
            raise UsageError(
                "regard.training.loss.cross_entropy has no second derivative; for create_graph=True compute "
                "the loss from the model's logits with torch.nn.functional.cross_entropy"
            )
        return *(None if one is None else one * grad for one in ctx.saved_tensors), *(None,) * 5


def _parts(count: int, chunk: int, paired: bool) -> Iterator[slice | Tensor]:
    """The rows a chunk at a time; where they are paired, each with its partner in the other half."""
    if not paired:
        yield from (slice(start, start + chunk) for start in range(0, count, chunk))
        return
    half = count // 2
    for first in torch.arange(half).split(max(1, chunk // 2)):
        yield torch.cat([first, first + half])


def _apart(logs: Tensor, learning: bool) -> tuple[Tensor, Tensor | None]:
    """How far the first half of some rows is from the second, both ways, and the gradient of their logits.

    From logarithms of probabilities, C V; with d their difference the gradient for p is p (d - KL) + p - q.
    """
    first, second = logs.chunk(2)
    gap, probabilities = first - second, logs.exp()
    p, q = probabilities.chunk(2)
    there, back = (p * gap).sum(1, keepdim=True), -(q * gap).sum(1, keepdim=True)
    if not learning:
        return (there + back).sum(), None
    pull = torch.empty_like(logs)
    to_first, to_second = pull.chunk(2)
    torch.sub(gap, there - 1, out=to_first).mul_(p).sub_(q)
    torch.sub(1 - back, gap, out=to_second).mul_(q).sub_(p)
    return (there + back).sum(), pull


def _losses(logits: Tensor, targets: Tensor) -> Tensor:
    """The loss of each row, C; the logits, C V, become logarithms of probabilities where they stand."""
    torch.log_softmax(logits, -1, out=logits)
    return logits.gather(1, targets[:, None]).squeeze(1).neg_()


def _smoothed(losses: Tensor, logs: Tensor, smoothing: float) -> Tensor:
    """The losses of rows with smoothed targets, C, from logarithms of probabilities, C V."""
    return losses if not smoothing else (1 - smoothing) * losses - smoothing * logs.mean(1)


def _differentiate(logs: Tensor, targets: Tensor, smoothing: float) -> None:
    """Logarithms of probabilities, C V, become the gradient of the logits where they stand."""
    excess = logs.exp_()
    if smoothing:
        excess -= smoothing / excess.shape[1]
    excess.scatter_add_(1, targets[:, None], excess.new_full((len(targets), 1), smoothing - 1))


@dataclass
class _Gradients:
    """Gradients that grow chunk by chunk; None where nobody asks for one."""

    rows: Tensor | None
    weight: Tensor | None
    bias: Tensor | None

    def add(self, excess: Tensor, rows: Tensor, weight: Tensor, part: slice | Tensor) -> None:
        """Carry the gradient of a chunk's logits, C V, to what they came from."""
        if self.rows is not None:
            self.rows[part] = torch.mm(excess, weight)
        if self.weight is not None:
            self.weight.addmm_(excess.T, rows)
        if self.bias is not None:
            self.bias += excess.sum(0)
