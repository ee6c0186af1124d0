"""TorchStepper: a torch model as a Stepper. Search uses torch only through this class."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext

import numpy as np
import torch
from torch import Tensor

from regard.engine.stepper import Banned, Choices
from regard.engine.torch_module import has_original_method
from regard.errors import ShapeError, UsageError
from regard.model.cache import Cache
from regard.model.masks import EVERYTHING, Mask
from regard.model.parts import Part, parts_of
from regard.model.transformer import DecoderOnly, EncoderDecoder
from regard.model.watch import Seen

BLOCK = 64  # ids per block of _topk_by_blocks

Blend = Callable[[Tensor, Tensor], Tensor]  # hidden vectors R D, log-probabilities R V to new ones R V


class TorchStepper:
    """A Stepper of a model with a decoder. See `regard.engine.stepper.Stepper`.

    `ablate` lists parts to ablate. `blend` maps the model's log-probabilities to those that search uses.
    """

    def __init__(
        self,
        model: EncoderDecoder | DecoderOnly,
        capacity: int = 64,
        ablate: Part | Iterable[Part] = (),
        blend: Blend | None = None,
    ):
        if not isinstance(model, EncoderDecoder | DecoderOnly):
            raise UsageError(f"{type(model).__name__} cannot generate text; use a model with a decoder")
        _check_model_forward(model)
        self._model, self._capacity, self._blend = model, capacity, blend
        parts = parts_of(ablate)
        self._seen = Seen(model, only=(), ablate=parts) if parts else None
        self._cache: Cache | None = None
        self._device = next(model.parameters()).device

    @property
    def rows(self) -> int:
        """Number of running rows."""
        return 0 if self._cache is None else self._cache.rows

    @property
    def vocabulary(self) -> int:
        """Number of ids."""
        return self._model.config.output_vocabulary

    @property
    def limit(self) -> int | None:
        """The maximum length of a sequence: the context, if positions are learned."""
        return self._model.config.longest_output

    @torch.inference_mode()
    def admit(self, prefixes: Sequence[np.ndarray], sources: Sequence[np.ndarray] | None = None) -> None:
        """Append one row per prefix and process all tokens of it except the last."""
        if any(len(prefix) == 0 for prefix in prefixes):
            raise ShapeError("a prefix is empty; it must have at least the start token")
        if not prefixes:
            return
        with self._ablated():
            cache = self._start(len(prefixes), sources)
            ids, mask = self._padded([prefix[:-1] for prefix in prefixes])
            if ids.shape[1]:
                self._model.decode(ids, mask=mask, cache=cache)
        if self._cache is None or not self._cache.rows:
            self._cache = cache
        else:
            self._cache.join(cache)

    @torch.inference_mode()
    def step(self, ids: np.ndarray, best: int | None = None, banned: Banned | None = None) -> Choices:
        """Append one id per row and return the candidates for the next token."""
        if self._cache is None or len(ids) != self.rows:
            raise ShapeError(f"{len(ids)} ids for {self.rows} rows; pass one per row")
        with self._ablated():
            hidden = self._model.decode(self._tensor(ids)[:, None], cache=self._cache)  # R 1 D
            logits = self._model.head(hidden)[:, 0].float()  # R V
        log_probabilities = logits.log_softmax(-1)
        if self._blend is not None:
            log_probabilities = self._blend(hidden[:, 0], log_probabilities)
        return candidates(log_probabilities, best, banned, logits if self._blend is None else None)

    @torch.inference_mode()
    def reorder(self, rows: np.ndarray) -> None:
        """Replace row i by the previous row rows[i]."""
        if self._cache is not None:
            self._cache.reorder(rows)

    def drop(self, rows: np.ndarray) -> None:
        """Remove these rows; the others keep their order."""
        self.reorder(np.delete(np.arange(self.rows), rows))

    def _ablated(self) -> AbstractContextManager[object]:
        return nullcontext() if self._seen is None else self._seen.active()

    def _start(self, rows: int, sources: Sequence[np.ndarray] | None) -> Cache:
        if isinstance(self._model, DecoderOnly):
            return self._model.new_cache(rows, self._capacity)
        if sources is None or len(sources) != rows:
            raise ShapeError(
                f"{0 if sources is None else len(sources)} sources for {rows} rows; pass one per row"
            )
        ids, mask = self._padded(sources)
        return self._model.new_cache(self._model.encode(ids, mask), mask, self._capacity)

    def _padded(self, sequences: Sequence[np.ndarray]) -> tuple[Tensor, Mask]:
        """R T, padded on the right, and its mask, which is empty if nothing was padded."""
        lengths = np.array([len(sequence) for sequence in sequences])
        ids = np.zeros((len(sequences), lengths.max(initial=0)), dtype=np.int64)
        exists = np.arange(ids.shape[1]) < lengths[:, None]
        ids[exists] = np.concatenate(sequences) if len(sequences) else ids[exists]
        return self._tensor(ids), EVERYTHING if exists.all() else Mask(keys=self._tensor(exists))

    def _tensor(self, array: np.ndarray) -> Tensor:
        return torch.as_tensor(array, device=self._device)


def _check_model_forward(model: EncoderDecoder | DecoderOnly) -> None:
    """Raise if the model's forward is replaced or hooked, because decoding calls only its parts."""
    is_replaced = "forward" in vars(model) or not has_original_method(type(model), "forward")
    if is_replaced or model._forward_hooks or model._forward_pre_hooks:
        change = "a replaced forward" if is_replaced else "a hook"
        raise UsageError(
            f"{change} on {type(model).__name__} has no effect in decoding, which calls its parts; "
            "put it on a part, such as model.head"
        )


def candidates(
    log_probabilities: Tensor, best: int | None, banned: Banned | None, logits: Tensor | None = None
) -> Choices:
    """All candidates from R V, or the best ones; the values of banned ids are changed in place."""
    if banned is not None:
        rows, ids = (torch.as_tensor(a, device=log_probabilities.device) for a in (banned.rows, banned.ids))
        log_probabilities[rows, ids] = -torch.inf
    if best is None:
        return Choices(
            None, log_probabilities.cpu().numpy(), None if logits is None else logits.cpu().numpy()
        )
    if best == 1 and log_probabilities.device.type == "cpu":
        return _argmax(log_probabilities.numpy())
    values, indices = _top(log_probabilities, min(best, log_probabilities.shape[1]))
    return Choices(indices.cpu().numpy(), values.cpu().numpy())


def _argmax(log_probabilities: np.ndarray) -> Choices:
    """The largest value of each row, the first among equals; numpy takes a tenth of torch's time."""
    ids = log_probabilities.argmax(1)
    return Choices(ids[:, None], log_probabilities[np.arange(len(ids)), ids][:, None])


def _top(log_probabilities: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """The largest values of R V and their ids; ties at the last rank are broken in favour of lower ids."""
    values, indices = _topk_by_blocks(log_probabilities, min(count + 1, log_probabilities.shape[-1]))
    if (values[:, count - 1 : -1] == values[:, count:]).any():  # topk's choice among equals is undefined
        values, indices = log_probabilities.sort(dim=-1, descending=True, stable=True)
    return values[:, :count], indices[:, :count]


def _topk_by_blocks(log_probabilities: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """torch's topk of R V, restricted to the blocks with the largest maxima, which contain the result."""
    blocks = log_probabilities.shape[1] // BLOCK
    if blocks <= 2 * count:
        return log_probabilities.topk(count)
    whole = blocks * BLOCK
    inside = log_probabilities[:, :whole].unflatten(1, (blocks, BLOCK))  # R blocks BLOCK
    best = inside.amax(2).topk(count, sorted=False).indices[:, :, None]  # R count 1
    columns = (best * BLOCK + torch.arange(BLOCK, device=best.device)).flatten(1)
    rest = torch.arange(whole, log_probabilities.shape[1], device=best.device)
    columns = torch.cat([columns, rest.expand(len(log_probabilities), -1)], dim=1)
    values, places = log_probabilities.gather(1, columns).topk(count)
    return values, columns.gather(1, places)
