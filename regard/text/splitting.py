"""A validation split for corpora that come without one, the same each time for the same seed."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from hashlib import blake2b, sha256
from typing import Any, Generic, Protocol, TypeVar

from regard.errors import DataError, SettingError
from regard.text.corpus import Example, Pair, Report

Item = TypeVar("Item", bound=str | Pair | Example)
Given = TypeVar("Given", bound=str | Pair | Example, covariant=True)

_SPARE = 8  # texts looked at for each that may be held out: some have too many copies, or a rare label


class Corpus(Protocol[Given]):
    """What every kind of corpus offers: passes over its items, a report of the last one, an identity."""

    @property
    def report(self) -> Report:
        """What the latest pass read and left out so far."""
        ...

    def __iter__(self) -> Iterator[Given]: ...

    def identity(self) -> str:
        """A digest of everything that decides what a pass gives."""
        ...


@dataclass(frozen=True)
class HeldOut:
    """The texts of a validation split, each known by a hash of the text.

    The text alone decides (the source of a pair), so all copies of a text are on one side.
    """

    seed: int
    hashes: frozenset[int]
    earlier: bool = False  # chosen by the rule of earlier versions, whose identity has another form

    @classmethod
    def choose(cls, corpus: Iterable[Item], share: float = 0.05, most: int = 1000, seed: int = 1) -> HeldOut:
        """Hold out the texts whose hash is below share x 2^64: at least one, and at most `most` examples.

        A text with more copies than fit stays in training. Labelled examples are stratified instead: each
        label gives its share, and keeps at least one example. One pass; memory is bounded by `most`.
        """
        lowest = _Lowest.of(corpus, share, most, seed)
        chosen = _choose(lowest, share, most)
        held, examples = sum(lowest.copies[one].total() for one in chosen), lowest.totals.total()
        if not chosen:
            raise DataError(
                f"no text of {examples:,} examples can be held out: each has too many copies for "
                f"most_held_out ({most:,}), or is all of a label; drop duplicates, or give validation files"
            )
        if held > examples - held:
            raise DataError(
                f"held_out ({share:g}) takes {held:,} of {examples:,} examples and leaves fewer for "
                "training; lower it, or give validation files"
            )
        return cls(seed, frozenset(chosen))

    @classmethod
    def choose_as_before(cls, corpus: Iterable[Item], share: float, most: int, seed: int = 1) -> HeldOut:
        """The split of runs that earlier versions began: a share of the examples, taken as so many texts."""
        lowest = _Lowest.of(corpus, share, most, seed)
        size = min(most, max(1, round(share * lowest.totals.total())), len(lowest.copies) - 1)
        return cls(seed, frozenset(sorted(lowest.copies)[:size]), earlier=True)

    def holds(self, item: str | Pair | Example) -> bool:
        """Whether this example belongs to the held-out part."""
        return _hash(self.seed, _key(item)) in self.hashes

    def identity(self) -> str:
        """What tells this split from another one of the same corpus."""
        if self.earlier:
            return f"HeldOut(seed={self.seed}, limit={max(self.hashes)})"
        return f"held out {self.seed} {sha256(str(sorted(self.hashes)).encode()).hexdigest()}"

    def to_json(self) -> dict[str, Any]:
        """The split as plain values."""
        return {"seed": self.seed, "hashes": sorted(self.hashes)}

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> HeldOut:
        """The split that `to_json` wrote."""
        return cls(int(values["seed"]), frozenset(map(int, values["hashes"])))


class _Lowest:
    """The texts of a corpus with the lowest hashes, with their copies counted by label; and all totals."""

    def __init__(self, size: int):
        self.totals: Counter[str] = Counter()
        self.copies: dict[int, Counter[str]] = {}
        self._size = size
        self._largest: list[int] = []  # a heap of negated hashes: the largest kept hash is at its top

    @classmethod
    def of(cls, corpus: Iterable[Item], share: float, most: int, seed: int) -> _Lowest:
        """What one pass over a corpus finds; one that cannot be split is refused."""
        if not 0 < share < 1 or most < 1:
            raise SettingError(f"share ({share}) must lie between 0 and 1, and most ({most}) be at least 1")
        lowest = cls(_SPARE * most + 1)
        for item in corpus:
            lowest.add(_hash(seed, _key(item)), item.label if isinstance(item, Example) else "")
        texts = len(lowest.copies)
        if texts < 2:
            count = lowest.totals.total()
            raise DataError(f"{count:,} examples with {texts} different texts cannot be split; give more")
        return lowest

    def add(self, hashed: int, label: str) -> None:
        """Count one example."""
        self.totals[label] += 1
        if hashed in self.copies:
            self.copies[hashed][label] += 1
        elif len(self.copies) < self._size or hashed < -self._largest[0]:
            self.copies[hashed] = Counter({label: 1})
            heapq.heappush(self._largest, -hashed)
            if len(self.copies) > self._size:
                del self.copies[-heapq.heappop(self._largest)]


def _choose(lowest: _Lowest, share: float, most: int) -> list[int]:
    """The hashes to hold out, with no more than `most` examples, each label left with one at least."""
    totals, examples = lowest.totals, lowest.totals.total()
    room = min(most, examples // 2)
    fitting = [one for one in sorted(lowest.copies) if lowest.copies[one].total() <= room]
    but_one = {label: count - 1 for label, count in totals.items()}
    if any(totals):
        chosen = _stratified(lowest, fitting, min(most, max(1, round(share * examples))))
    else:
        below = [one for one in fitting if one < share * 2**64]
        chosen = _fill([], below, lowest, but_one, most)
    return chosen or _fill([], fitting, lowest, but_one, most)[:1]


def _stratified(lowest: _Lowest, fitting: list[int], wanted: int) -> list[int]:
    """So many examples, of each label its share: rounded down, then up, then as the copies of texts allow."""
    totals, examples = lowest.totals, lowest.totals.total()
    down = {label: wanted * count // examples for label, count in totals.items()}
    up = {label: -(-wanted * count // examples) for label, count in totals.items()}
    chosen: list[int] = []
    for quotas in (down, up, dict(totals)):
        kept = {label: min(quotas[label], count - 1) for label, count in totals.items()}
        chosen = _fill(chosen, fitting, lowest, kept, wanted)
    return chosen


def _fill(
    chosen: list[int], hashes: list[int], lowest: _Lowest, quotas: dict[str, int], most: int
) -> list[int]:
    """The chosen hashes and more in their order, up to each label's quota and the total."""
    filled = dict.fromkeys(chosen)
    spent = sum((lowest.copies[one] for one in chosen), Counter[str]())
    total = spent.total()
    for one in hashes:
        copies = lowest.copies[one]
        within = all(spent[label] + count <= quotas[label] for label, count in copies.items())
        if one not in filled and within and total + copies.total() <= most:
            filled[one] = None
            spent.update(copies)
            total += copies.total()
    return list(filled)


class Part(Generic[Item]):
    """One side of a split corpus, itself a corpus; its report counts the other side as skipped."""

    def __init__(self, corpus: Corpus[Item], held_out: HeldOut, held: bool):
        self.corpus = corpus
        self.held_out = held_out
        self.held = held

    @property
    def report(self) -> Report:
        """What the last pass read and left out."""
        return self.corpus.report

    def __iter__(self) -> Iterator[Item]:
        reason = "not held out" if self.held else "held out"
        for item in self.corpus:
            if self.held_out.holds(item) == self.held:
                yield item
            else:
                self.report.drop(reason, self.report.place)

    def identity(self) -> str:
        """The identity of the whole, and which side this is."""
        return f"{self.corpus.identity()} {self.held_out.identity()} {self.held}"


def _key(item: str | Pair | Example) -> str:
    return item if isinstance(item, str) else item[0]


def _hash(seed: int, text: str) -> int:
    return int.from_bytes(blake2b(f"{seed}\0{text}".encode(), digest_size=8).digest(), "big")
