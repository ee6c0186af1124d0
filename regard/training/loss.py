"""Cross-entropy with label smoothing and R-Drop, with the logits of one chunk of rows in memory at a time.

N rows, D width, V vocabulary, C rows of a chunk.

Label smoothing e (section 5.4) is defined as in torch: a share e of the target's probability is spread evenly
over all V tokens, including the target. The loss of a row with logits z is

    logsumexp(z) - (1 - e) z[target] - e mean(z)

R-Drop (Liang et al. 2021) computes every row twice with different dropout. The distributions p and q of the
two passes add, with weight r,

    r / 2 (KL(p, q) + KL(q, p))

Both change the loss that is minimised. `observed_cross_entropy` gives the cross-entropy without them, which
is comparable with the loss of validation.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from regard.errors import SettingError, UsageError
from regard.model.outputs import LMHead
from regard.text.batches import BatchType

CHUNK_LOGITS = 1 << 20  # 4 MB in float32, about the size of a processor's cache

_observed: ContextVar[list[Tensor] | None] = ContextVar("observed", default=None)


@contextmanager
def observed_cross_entropy() -> Iterator[list[Tensor]]:
    """A list that receives the summed cross-entropy of each loss in the context."""
    sums: list[Tensor] = []
    token = _observed.set(sums)
    try:
        yield sums
    finally:
        _observed.reset(token)


def _report_cross_entropy(losses: Tensor) -> None:
    """Report losses of rows, without label smoothing and R-Drop, to `observed_cross_entropy`."""
    sums = _observed.get()
    if sums is not None:
        sums.append(losses.detach().sum())


@dataclass(frozen=True)
class CrossEntropyLoss:
    """Summed cross-entropy, with label smoothing and R-Drop if they are not 0."""

    label_smoothing: float = 0.0
    r_drop: float = 0.0
    class_weights: tuple[float, ...] | None = None  # for logits: a factor for the loss of each target

    def __post_init__(self):
        if not 0 <= self.label_smoothing < 1:
            raise SettingError(
                f"label_smoothing ({self.label_smoothing}) must be at least 0 and below 1; the paper has 0.1"
            )

    def repeated(self, batch: BatchType) -> BatchType:
        """The batch; for R-Drop with every row twice, as two halves."""
        if not self.r_drop:
            return batch
        arrays = {name: np.concatenate([array, array]) for name, array in vars(batch).items()}
        return replace(batch, **arrays)

    def of_hidden(self, rows: Tensor, head: LMHead, targets: Tensor) -> Tensor:
        """The loss of hidden rows N D and targets N through a language model head."""
        return cross_entropy(rows, head.weight, targets, head.bias, self.label_smoothing, r_drop=self.r_drop)

    def of_logits(self, logits: Tensor, targets: Tensor) -> Tensor:
        """The loss of logits N V and targets N."""
        _report_cross_entropy(F.cross_entropy(logits.detach(), targets, reduction="none"))
        weights = None if self.class_weights is None else logits.new_tensor(self.class_weights)
        loss = F.cross_entropy(
            logits, targets, weights, label_smoothing=self.label_smoothing, reduction="sum"
        )
        if self.r_drop:
            p, q = logits.log_softmax(-1).chunk(2)
            loss = loss + self.r_drop / 2 * ((p.exp() - q.exp()) * (p - q)).sum()
        return loss


def cross_entropy(
    rows: Tensor,
    weight: Tensor,
    targets: Tensor,
    bias: Tensor | None = None,
    label_smoothing: float = 0.0,
    chunk: int | None = None,
    r_drop: float = 0.0,
) -> Tensor:
    """The summed loss of rows N D and targets N through a head V D, without N x V logits in memory.

    With R-Drop the second half of the rows is the second pass. Gradients are computed in the same pass,
    chunk by chunk; without grad mode only the loss is.
    """
    chunk = chunk or max(1, CHUNK_LOGITS // weight.shape[0])
    needs_grad = torch.is_grad_enabled()
    device = rows.device.type
    if torch.amp.is_autocast_available(device) and torch.is_autocast_enabled(device):
        with torch.autocast(device, enabled=False):  # logits and loss need the precision of the weights
            full = rows.to(weight.dtype)
            return _CrossEntropy.apply(
                full, weight, bias, targets, label_smoothing, chunk, r_drop, needs_grad
            )
    return _CrossEntropy.apply(rows, weight, bias, targets, label_smoothing, chunk, r_drop, needs_grad)


class _CrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        rows: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        targets: Tensor,
        label_smoothing: float,
        chunk: int,
        r_drop: float,
        needs_grad: bool,
    ) -> Tensor:
        needed = ctx.needs_input_grad if needs_grad else (False, False, False)
        gradients = _Gradients(
            torch.empty_like(rows) if needed[0] else None,
            torch.zeros_like(weight) if needed[1] else None,
            torch.zeros_like(bias) if needed[2] and bias is not None else None,
        )
        total = rows.new_zeros(())
        buffer = rows.new_empty(min(max(chunk, 2), len(rows)), len(weight))  # C V, reused by every chunk
        for part in _chunks(len(rows), chunk, paired=bool(r_drop)):
            chunk_rows, chunk_targets = rows[part], targets[part]
            logits = torch.mm(chunk_rows, weight.T, out=buffer[: len(chunk_rows)])
            losses = _losses(logits if bias is None else logits.add_(bias), chunk_targets)
            _report_cross_entropy(losses)
            total += _smoothed(losses, logits, label_smoothing).sum()
            divergence_gradient = None
            if r_drop:
                divergence, divergence_gradient = _divergence(logits, any(needed))
                total += r_drop / 2 * divergence
            if any(needed):
                _differentiate(logits, chunk_targets, label_smoothing)
                if divergence_gradient is not None:
                    logits.add_(divergence_gradient, alpha=r_drop / 2)
                gradients.add(logits, chunk_rows, weight, part)
        ctx.save_for_backward(gradients.rows, gradients.weight, gradients.bias)
        return total

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:  # pyright: ignore[reportIncompatibleMethodOverride]
        if torch.is_grad_enabled():  # under create_graph
            raise UsageError(
                "regard.training.loss.cross_entropy has no second derivative; for create_graph=True compute "
                "the loss from the model's logits with torch.nn.functional.cross_entropy"
            )
        return *(None if saved is None else saved * grad for saved in ctx.saved_tensors), *(None,) * 5


def _chunks(count: int, chunk: int, paired: bool) -> Iterator[slice | Tensor]:
    """The rows of each chunk; if they are paired, each with its partner in the other half."""
    if not paired:
        yield from (slice(start, start + chunk) for start in range(0, count, chunk))
        return
    half = count // 2
    for first in torch.arange(half).split(max(1, chunk // 2)):
        yield torch.cat([first, first + half])


def _divergence(log_probabilities: Tensor, needs_grad: bool) -> tuple[Tensor, Tensor | None]:
    """KL(p, q) + KL(q, p) of the two halves of log-probabilities C V, and its gradient for the logits C V.

    With d = log p - log q, the gradient for the logits of p is p (d - KL(p, q)) + p - q.
    """
    first, second = log_probabilities.chunk(2)
    difference, probabilities = first - second, log_probabilities.exp()
    p, q = probabilities.chunk(2)
    kl_pq, kl_qp = (p * difference).sum(1, keepdim=True), -(q * difference).sum(1, keepdim=True)
    if not needs_grad:
        return (kl_pq + kl_qp).sum(), None
    gradient = torch.empty_like(log_probabilities)
    gradient_p, gradient_q = gradient.chunk(2)
    torch.sub(difference, kl_pq - 1, out=gradient_p).mul_(p).sub_(q)
    torch.sub(1 - kl_qp, difference, out=gradient_q).mul_(q).sub_(p)
    return (kl_pq + kl_qp).sum(), gradient


def _losses(logits: Tensor, targets: Tensor) -> Tensor:
    """The loss of each row, C; the logits C V become log-probabilities in place."""
    torch.log_softmax(logits, -1, out=logits)
    return logits.gather(1, targets[:, None]).squeeze(1).neg_()


def _smoothed(losses: Tensor, log_probabilities: Tensor, smoothing: float) -> Tensor:
    """The losses of rows with smoothed targets, C, from log-probabilities C V."""
    return losses if not smoothing else (1 - smoothing) * losses - smoothing * log_probabilities.mean(1)


def _differentiate(log_probabilities: Tensor, targets: Tensor, smoothing: float) -> None:
    """Log-probabilities C V become the gradient of the logits in place."""
    gradient = log_probabilities.exp_()
    if smoothing:
        gradient -= smoothing / gradient.shape[1]
    gradient.scatter_add_(1, targets[:, None], gradient.new_full((len(targets), 1), smoothing - 1))


@dataclass
class _Gradients:
    """Gradients accumulated over chunks; None for an input that needs none."""

    rows: Tensor | None
    weight: Tensor | None
    bias: Tensor | None

    def add(self, gradient: Tensor, rows: Tensor, weight: Tensor, part: slice | Tensor) -> None:
        """Add the gradients of a chunk, from the gradient C V of its logits."""
        if self.rows is not None:
            self.rows[part] = torch.mm(gradient, weight)
        if self.weight is not None:
            self.weight.addmm_(gradient.T, rows)
        if self.bias is not None:
            self.bias += gradient.sum(0)
