"""The torch model as a Stepper: the only place where decoding and torch meet."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext

import numpy as np
import torch
from torch import Tensor

from regard.engine.fused_step import fused_step_of, is_written_in
from regard.engine.stepper import Banned, Choices
from regard.errors import ShapeError, UsageError
from regard.model.cache import Cache
from regard.model.masks import EVERYTHING, Mask
from regard.model.transformer import DecoderOnly, EncoderDecoder
from regard.model.watch import UNWATCHED, Part, Seen, parts_of, watching

BLOCK = 64  # ids of which one maximum is taken at a time

Blend = Callable[[Tensor, Tensor], Tensor]  # last vectors R D and log-probabilities R V to others, R V


class TorchStepper:
    """Steps a model that writes. See `regard.engine.stepper.Stepper`.

    `off` are parts to switch off; `blend` has the last word on what may follow, after the model's head.
    """

    def __init__(
        self,
        model: EncoderDecoder | DecoderOnly,
        room: int = 64,
        ablate: Part | Iterable[Part] = (),
        blend: Blend | None = None,
    ):
        if not isinstance(model, EncoderDecoder | DecoderOnly):
            raise UsageError(f"{type(model).__name__} reads and does not write; use a model with a decoder")
        _check_whole(model)
        self._model, self._room, self._blend = model, room, blend
        parts = parts_of(ablate)
        self._plan = None if parts else fused_step_of(model)
        self._seen = Seen(model, only=(), ablate=parts) if parts else None
        self._cache: Cache | None = None
        self._device = next(model.parameters()).device

    @property
    def rows(self) -> int:
        """How many rows run now."""
        return 0 if self._cache is None else self._cache.rows

    @property
    def vocabulary(self) -> int:
        """How many ids there are to choose from."""
        return self._model.config.target_vocabulary or self._model.config.vocabulary

    @property
    def limit(self) -> int | None:
        """The longest sequence a row can reach: the context where positions are learned."""
        return self._model.config.context if self._model.config.positions == "learned" else None

    @torch.inference_mode()
    def admit(self, prefixes: Sequence[np.ndarray], sources: Sequence[np.ndarray] | None = None) -> None:
        """Add a row per prefix, and read all of it but its last token."""
        if any(len(prefix) == 0 for prefix in prefixes):
            raise ShapeError("an empty prefix; a row needs at least the token that starts it")
        if not prefixes:
            return
        with self._parts_off():
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
        """Append ids, one a row, and say what may follow."""
        if self._cache is None or len(ids) != self.rows:
            raise ShapeError(f"{len(ids)} ids for {self.rows} rows; give one for each")
        hidden, logits = self._pass(self._tensor(ids), self._cache)  # R D, R V
        logits = logits.float()
        chances = logits.log_softmax(-1)
        if self._blend is not None:
            chances = self._blend(hidden, chances)
        if banned is not None:
            chances[self._tensor(banned.rows), self._tensor(banned.ids)] = -torch.inf
        if best is None:
            own = None if self._blend is not None else logits.cpu().numpy()
            return Choices(None, chances.cpu().numpy(), own)
        if best == 1 and chances.device.type == "cpu":
            return _likeliest_one(chances.numpy())
        values, indices = _likeliest(chances, min(best, self.vocabulary))
        return Choices(indices.cpu().numpy(), values.cpu().numpy())

    @torch.inference_mode()
    def reorder(self, rows: np.ndarray) -> None:
        """Row i becomes what row rows[i] was."""
        if self._cache is not None:
            self._cache.reorder(rows)

    def drop(self, rows: np.ndarray) -> None:
        """Let these rows leave; the others keep their order."""
        self.reorder(np.delete(np.arange(self.rows), rows))

    def _pass(self, ids: Tensor, cache: Cache) -> tuple[Tensor, Tensor]:
        """R ids to R D and R V: by plan, or module by module where somebody looks, changes or trains them."""
        if self._is_planned():
            assert self._plan is not None
            hidden = self._plan(ids, cache)
            return hidden, self._plan.head(hidden)
        with self._parts_off():
            hidden = self._model.decode(ids[:, None], cache=cache)
            return hidden[:, 0], self._model.head(hidden)[:, 0]

    def _is_planned(self) -> bool:
        if self._plan is None or self._model.training or watching(self._model) is not UNWATCHED:
            return False
        return self._plan.holds

    def _parts_off(self) -> AbstractContextManager[object]:
        return nullcontext() if self._seen is None else self._seen.active()

    def _start(self, rows: int, sources: Sequence[np.ndarray] | None) -> Cache:
        if isinstance(self._model, DecoderOnly):
            return self._model.start(rows, self._room)
        if sources is None or len(sources) != rows:
            raise ShapeError(
                f"{0 if sources is None else len(sources)} sources for {rows} rows; give one for each"
            )
        ids, mask = self._padded(sources)
        return self._model.start(self._model.encode(ids, mask), mask, self._room)

    def _padded(self, sequences: Sequence[np.ndarray]) -> tuple[Tensor, Mask]:
        """R T, filled on the right; no mask where nothing had to be filled."""
        lengths = np.array([len(sequence) for sequence in sequences])
        ids = np.zeros((len(sequences), lengths.max(initial=0)), dtype=np.int64)
        exists = np.arange(ids.shape[1]) < lengths[:, None]
        ids[exists] = np.concatenate(sequences) if len(sequences) else ids[exists]
        return self._tensor(ids), EVERYTHING if exists.all() else Mask(keys=self._tensor(exists))

    def _tensor(self, array: np.ndarray) -> Tensor:
        return torch.as_tensor(array, device=self._device)


def _check_whole(model: EncoderDecoder | DecoderOnly) -> None:
    """Refuse a change of the whole model that decoding, which calls its parts, would leave out."""
    replaced = "forward" in vars(model) or not is_written_in(type(model), "forward")
    if replaced or model._forward_hooks or model._forward_pre_hooks:
        what = "another forward" if replaced else "a hook"
        raise UsageError(
            f"{what} on {type(model).__name__} itself: decoding calls its parts and would leave it out; "
            "put it on a part, such as model.head"
        )


def _likeliest_one(chances: np.ndarray) -> Choices:
    """The largest of each row, the first of equals; numpy finds it ten times as quickly as torch."""
    ids = chances.argmax(1)
    return Choices(ids[:, None], chances[np.arange(len(ids)), ids][:, None])


def _likeliest(chances: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """The largest few of R V and their places; where the last of them has equals, those with lower ids."""
    values, indices = _largest(chances, min(count + 1, chances.shape[-1]))
    if (values[:, count - 1 : -1] == values[:, count:]).any():  # which of them were found is chance
        values, indices = chances.sort(dim=-1, descending=True, stable=True)
    return values[:, :count], indices[:, :count]


def _largest(chances: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """torch's topk of R V by way of blocks: the largest few lie in the blocks whose maxima are largest."""
    blocks = chances.shape[1] // BLOCK
    if blocks <= 2 * count:
        return chances.topk(count)
    whole = blocks * BLOCK
    inside = chances[:, :whole].unflatten(1, (blocks, BLOCK))  # R blocks BLOCK
    best = inside.amax(2).topk(count, sorted=False).indices[:, :, None]  # R count 1
    columns = (best * BLOCK + torch.arange(BLOCK, device=best.device)).flatten(1)
    rest = torch.arange(whole, chances.shape[1], device=best.device)
    columns = torch.cat([columns, rest.expand(len(chances), -1)], dim=1)
    values, places = chances.gather(1, columns).topk(count)
    return values, columns.gather(1, places)
