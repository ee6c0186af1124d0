"""A reproducible validation split for corpora without validation files."""

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
Item_co = TypeVar("Item_co", bound=str | Pair | Example, covariant=True)

_CANDIDATES = 8  # candidates per held-out text, since some have too many copies or a rare label


class Corpus(Protocol[Item_co]):
    """A corpus: an iterable of examples with a report of the latest pass and an identity."""

    @property
    def report(self) -> Report:
        """What the latest pass has read and skipped so far."""
        ...

    def __iter__(self) -> Iterator[Item_co]: ...

    def identity(self) -> str:
        """A digest of everything that affects the examples."""
        ...


@dataclass(frozen=True)
class ValidationSplit:
    """The texts of a validation split, identified by their hashes.

    The hash is that of the text, or of the source of a pair, so all copies of a text are in the same part.
    """

    seed: int
    hashes: frozenset[int]
    format_1: bool = False  # chosen by the rule of format 1, whose identity has another form

    @classmethod
    def choose(
        cls, corpus: Iterable[Item], share: float = 0.05, most: int = 1000, seed: int = 1
    ) -> ValidationSplit:
        """Hold out the texts whose hash is below share x 2^64: at least one text, at most `most` examples.

        A text with too many copies stays in training. Labelled examples are stratified: each label
        contributes its share and keeps at least one example. One pass; memory is bounded by `most`.
        """
        lowest = _LowestHashes.of(corpus, share, most, seed)
        chosen = _choose(lowest, share, most)
        held, examples = sum(lowest.copies[text].total() for text in chosen), lowest.totals.total()
        if not chosen:
            raise DataError(
                f"no text of {examples:,} examples can be held out: each has more copies than "
                f"max_validation_examples ({most:,}), or is the only text of its label; "
                "drop duplicates, or give validation files"
            )
        if held > examples - held:
            raise DataError(
                f"validation_split ({share:g}) takes {held:,} of {examples:,} examples and leaves fewer for "
                "training; lower it, or give validation files"
            )
        return cls(seed, frozenset(chosen))

    @classmethod
    def choose_format_1(
        cls, corpus: Iterable[Item], share: float, most: int, seed: int = 1
    ) -> ValidationSplit:
        """The rule of format 1: round(share x examples) texts."""
        lowest = _LowestHashes.of(corpus, share, most, seed)
        size = min(most, max(1, round(share * lowest.totals.total())), len(lowest.copies) - 1)
        return cls(seed, frozenset(sorted(lowest.copies)[:size]), format_1=True)

    def holds(self, item: str | Pair | Example) -> bool:
        """Whether this example is held out."""
        return _hash(self.seed, _key(item)) in self.hashes

    def identity(self) -> str:
        """A digest of the split."""
        if self.format_1:
            return f"HeldOut(seed={self.seed}, limit={max(self.hashes)})"
        return f"held out {self.seed} {sha256(str(sorted(self.hashes)).encode()).hexdigest()}"

    def as_dict(self) -> dict[str, Any]:
        """The split as JSON values."""
        return {"seed": self.seed, "hashes": sorted(self.hashes)}

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> ValidationSplit:
        """The split that `as_dict` wrote."""
        return cls(int(values["seed"]), frozenset(map(int, values["hashes"])))


class _LowestHashes:
    """The lowest hashes of a corpus with the copies of each text by label, and the totals by label."""

    def __init__(self, size: int):
        self.totals: Counter[str] = Counter()
        self.copies: dict[int, Counter[str]] = {}
        self._size = size
        self._largest: list[int] = []  # a heap of negated hashes; the largest is at its top

    @classmethod
    def of(cls, corpus: Iterable[Item], share: float, most: int, seed: int) -> _LowestHashes:
        """The lowest hashes of a corpus, in one pass; a corpus with fewer than two texts is refused."""
        if not 0 < share < 1 or most < 1:
            raise SettingError(f"share ({share}) must be between 0 and 1, and most ({most}) at least 1")
        lowest = cls(_CANDIDATES * most + 1)
        for item in corpus:
            lowest.add(_hash(seed, _key(item)), item.label if isinstance(item, Example) else "")
        texts = len(lowest.copies)
        if texts < 2:
            count = lowest.totals.total()
            raise DataError(
                f"{count:,} examples with {texts} different texts cannot be split; give more text"
            )
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


def _choose(lowest: _LowestHashes, share: float, most: int) -> list[int]:
    """The hashes to hold out: at most `most` examples, leaving at least one of each label."""
    totals, examples = lowest.totals, lowest.totals.total()
    limit = min(most, examples // 2)
    fitting = [text for text in sorted(lowest.copies) if lowest.copies[text].total() <= limit]
    all_but_one = {label: count - 1 for label, count in totals.items()}
    if any(totals):
        chosen = _stratified(lowest, fitting, min(most, max(1, round(share * examples))))
    else:
        below = [text for text in fitting if text < share * 2**64]
        chosen = _fill([], below, lowest, all_but_one, most)
    return chosen or _fill([], fitting, lowest, all_but_one, most)[:1]


def _stratified(lowest: _LowestHashes, fitting: list[int], wanted: int) -> list[int]:
    """`wanted` examples with each label's share: rounded down, then up, then without a quota."""
    totals, examples = lowest.totals, lowest.totals.total()
    down = {label: wanted * count // examples for label, count in totals.items()}
    up = {label: -(-wanted * count // examples) for label, count in totals.items()}
    chosen: list[int] = []
    for quotas in (down, up, dict(totals)):
        kept = {label: min(quotas[label], count - 1) for label, count in totals.items()}
        chosen = _fill(chosen, fitting, lowest, kept, wanted)
    return chosen


def _fill(
    chosen: list[int], hashes: list[int], lowest: _LowestHashes, quotas: dict[str, int], most: int
) -> list[int]:
    """The chosen hashes, followed by more of them up to each label's quota and the total."""
    filled = dict.fromkeys(chosen)
    used = sum((lowest.copies[text] for text in chosen), Counter[str]())
    total = used.total()
    for text in hashes:
        copies = lowest.copies[text]
        is_within = all(used[label] + count <= quotas[label] for label, count in copies.items())
        if text not in filled and is_within and total + copies.total() <= most:
            filled[text] = None
            used.update(copies)
            total += copies.total()
    return list(filled)


class SplitPart(Generic[Item]):
    """One part of a split corpus, as a corpus; its report counts the other part as skipped."""

    def __init__(self, corpus: Corpus[Item], split: ValidationSplit, held: bool):
        self.corpus = corpus
        self.split = split
        self.held = held

    @property
    def report(self) -> Report:
        """What the latest pass has read and skipped so far."""
        return self.corpus.report

    def __iter__(self) -> Iterator[Item]:
        reason = "not held out" if self.held else "held out"
        for item in self.corpus:
            if self.split.holds(item) == self.held:
                yield item
            else:
                self.report.drop(reason, self.report.location)

    def identity(self) -> str:
        """The identity of the corpus, of the split, and which part this is."""
        return f"{self.corpus.identity()} {self.split.identity()} {self.held}"


def _key(item: str | Pair | Example) -> str:
    return item if isinstance(item, str) else item[0]


def _hash(seed: int, text: str) -> int:
    return int.from_bytes(blake2b(f"{seed}\0{text}".encode(), digest_size=8).digest(), "big")
