"""One call of translate: how a text becomes requests to the search, and their answers a translation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from regard.errors import SettingError, ShapeError, UnknownName, nearest
from regard.inference.beam import Beam, BeamSettings
from regard.inference.limits import Limits
from regard.inference.request import Request
from regard.inference.sampling import Sampling
from regard.inference.search import run
from regard.inference.sentences import split_to_fit
from regard.inference.translation import Translation, empty, joined, told
from regard.inference.windows import Label
from regard.stepping import Stepper
from regard.text.pair import Tokenizers

SPLITS = ("error", "sentences")
LONGER = 50  # a translation may have so many tokens more than its source (section 6.1)


@dataclass(frozen=True, eq=False)
class Source:
    """A text or a part of one: its ids, the end among them, the white space behind it, and its place."""

    text: str
    ids: np.ndarray
    gap: str = ""
    place: int = 0


@dataclass(frozen=True)
class Translating:
    """What one call wants; `by_source` lets the longest translation go by the length of its source."""

    tokenizers: Tokenizers
    context: int
    settings: BeamSettings
    by_source: bool
    prefix: list[int]
    split: str
    stepper: Callable[[], Stepper]

    def __post_init__(self):
        if self.split not in SPLITS:
            raise UnknownName(f"unknown split {self.split!r}; {nearest(self.split, SPLITS)}")
        if self._room < 1:
            raise SettingError(
                f"prefix ({len(self.prefix)} tokens) fills the {self.context} that this model has; shorten it"
            )
        if self.settings.min_length > self._room:
            raise SettingError(
                f"min_length ({self.settings.min_length}) must not be above {self._room}, the tokens that go "
                "into this model behind the prefix; lower it"
            )

    def read(self, label: Label, text: str, ids: list[int]) -> list[Source]:
        """What is translated of a text: all of it, its parts, or nothing where it is blank."""
        if not ids or not text.strip():
            return []
        if self._fits(ids):
            return [self._source(text, ids)]
        if self.split == "error":
            raise ShapeError(
                f"{label} has {len(ids):,} tokens and this model reads {self.context - 1:,}; "
                "shorten it, or set split to sentences"
            )
        return self._parts(label, text)

    def size(self, source: Source) -> int:
        """What a source costs: its tokens, for every beam."""
        return len(source.ids) * self.settings.beams

    def answer(self, sources: list[Source]) -> list[Translation]:
        """The translation of each source."""
        search = Sampling(self.stepper()) if self._is_greedy else Beam(self.stepper())
        answers = run(search, [self._request(source) for source in sources])
        return [told(answer, self.tokenizers.target) for answer in answers]

    def join(self, text: str, sources: Sequence[Source], found: Sequence[Translation]) -> Translation:
        """The translation of a text from those of its sources."""
        if not found:
            return empty(self.tokenizers.target)
        if len(found) == 1:
            return found[0]
        return joined(found, [source.gap for source in sources])

    @property
    def _is_greedy(self) -> bool:
        return self.settings.beams == 1 and not self.settings.tree

    @cached_property
    def _limits(self) -> Limits:
        """What the search is told: a beam of one needs no more than the limits that hold for any search."""
        if not self._is_greedy:
            return self.settings
        return Limits(**self.settings.model_dump(include=set(Limits.model_fields)))

    @property
    def _room(self) -> int:
        """How many tokens can be generated at most."""
        return self.context - 1 - len(self.prefix)

    def _fits(self, ids: list[int]) -> bool:
        return len(ids) < self.context

    def _source(self, text: str, ids: list[int], gap: str = "", place: int = 0) -> Source:
        return Source(text, np.array([*ids, self.tokenizers.source.end]), gap, place)

    def _parts(self, label: Label, text: str) -> list[Source]:
        encode = self.tokenizers.source.encode
        parts = split_to_fit(text, lambda part: self._fits(encode(part)))
        encoded = self.tokenizers.source.encode_batch([part.text for part in parts])
        if not all(map(self._fits, encoded)):
            raise ShapeError(f"{label} has a character of more tokens than this model reads; leave it out")
        pairs = enumerate((part, ids) for part, ids in zip(parts, encoded, strict=True) if ids)
        return [self._source(part.text, ids, part.gap, place) for place, (part, ids) in pairs]

    def _request(self, source: Source) -> Request:
        """The prefix begins the first part of a text alone."""
        prefix = [self.tokenizers.target.start, *(self.prefix if source.place == 0 else [])]
        longest = min(self.settings.max_length, self._room)
        if self.by_source:
            longest = min(longest, max(len(source.ids) + LONGER, self.settings.min_length))
        return Request(np.array(prefix), self._limits.changed(max_length=longest), source.ids)
