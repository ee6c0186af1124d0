"""Known translations as contexts: a source with the beginning of its target, each once, and what followed it.

Two pairs with one source share the contexts in which their targets still agree. Pairs are counted and sorted
before a model reads any of them, so that nothing depends on the order of lines. Loads no torch.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice

import numpy as np

from regard.errors import DataError
from regard.inference.windows import WINDOW
from regard.text.tokenizer import Tokenizers

MOST = 1 << 24  # contexts; every step of a translation is compared with all of them

Pairs = Iterable[tuple[str, str]]
_BIG_ENDIAN = ">u4"  # so that bytes are sorted as ids are


@dataclass(frozen=True)
class Known:
    """A pair as ids, each side with its end; bytes of four to an id."""

    source: bytes
    target: bytes

    @property
    def source_ids(self) -> list[int]:
        """What the encoder reads."""
        return np.frombuffer(self.source, _BIG_ENDIAN).tolist()

    @property
    def target_ids(self) -> np.ndarray:
        """What follows the start token."""
        return np.frombuffer(self.target, _BIG_ENDIAN).astype(np.int32)

    @property
    def size(self) -> int:
        """Tokens of the longer side."""
        return max(len(self.source), len(self.target)) // 4


def count_pairs(tokenizers: Tokenizers, context: int, pairs: Pairs) -> Counter[Known]:
    """How often each pair occurs, without those that have a blank side or are too long for the model."""
    counts: Counter[Known] = Counter()
    waiting = iter(pairs)
    while window := list(islice(waiting, WINDOW)):
        readable = [(source, target) for source, target in window if source.strip() and target.strip()]
        sources = tokenizers.source.encode_batch([source for source, _ in readable])
        targets = tokenizers.target.encode_batch([target for _, target in readable])
        for source, target in zip(sources, targets, strict=True):
            if source and target and max(len(source), len(target)) < context:
                counts[
                    Known(_packed(source, tokenizers.source.end), _packed(target, tokenizers.target.end))
                ] += 1
    return counts


def in_order(counts: Counter[Known]) -> list[Known]:
    """The pairs in the order of their ids, each once."""
    return sorted(counts, key=lambda known: (known.source, known.target))


@dataclass(frozen=True)
class Walk:
    """The contexts of one pair, a number for each target id; the pair before has the first `shared` too."""

    known: Known
    places: np.ndarray
    shared: int


def walks(ordered: Iterable[Known]) -> Iterator[Walk]:
    """Number the contexts of sorted pairs: a pair shares those in which it agrees with the pair before it."""
    count, before = 0, Walk(Known(b"", b""), np.zeros(0, np.int32), 0)
    for known in ordered:
        shared = _shared(before.known, known) if known.source == before.known.source else 0
        new = np.arange(count, count + len(known.target) // 4 - shared, dtype=np.int32)
        count += len(new)
        if count > MOST:
            raise DataError(
                f"there are more than {MOST:,} tokens, all of which a step is compared with; give fewer lines"
            )
        before = Walk(known, np.concatenate([before.places[:shared], new]), shared)
        yield before


def _shared(one: Known, other: Known) -> int:
    """In how many contexts two targets are the same: one more than the ids that agree."""
    first, second = one.target_ids, other.target_ids
    length = min(len(first), len(second))
    differ = np.flatnonzero(first[:length] != second[:length])
    return min(int(differ[0]) + 1 if len(differ) else length, length)


def _packed(ids: list[int], end: int) -> bytes:
    return np.array([*ids, end], _BIG_ENDIAN).tobytes()
