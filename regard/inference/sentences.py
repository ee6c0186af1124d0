"""A text too long for a model, cut into parts that fit: at the ends of sentences, of words if need be."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

# Behind a full stop and whatever closes with it, or at a line end. Scripts without spaces need none.
_END = re.compile(r"(?<=[.!?…])[\"'’”»)\]]*(\s+)|(?<=[。！？])[」』”）]*(\s*)|([ \t]*\n\s*)")
_SPACE = re.compile(r"\s+")


@dataclass(frozen=True)
class Part:
    """A stretch of a text, and the white space that stood behind it."""

    text: str
    gap: str


def split_to_fit(text: str, fits: Callable[[str], bool]) -> list[Part]:
    """The sentences of a text, those that do not fit cut in halves at a space, or anywhere if there is none.

    Parts and gaps join to the text; a gap is white space alone.
    """
    sentences = _cut(text, [_gap_of(match) for match in _END.finditer(text)])
    return [part for sentence in sentences for part in _halves(sentence, fits)]


def _gap_of(match: re.Match[str]) -> tuple[int, int]:
    return next(match.span(group) for group in (1, 2, 3) if match[group] is not None)


def _cut(text: str, gaps: list[tuple[int, int]]) -> Iterator[Part]:
    """What lies between the gaps; stretches of nothing else go to the gap before them."""
    start = 0
    for begin, end in [*gaps, (len(text), len(text))]:
        if begin > start or (end > start and start == 0):
            yield Part(text[start:begin], text[begin:end])
        start = end


def _halves(part: Part, fits: Callable[[str], bool]) -> Iterator[Part]:
    """The part itself where it fits or cannot be cut, otherwise its halves."""
    if len(part.text) < 2 or fits(part.text):
        yield part
        return
    begin, end = _middle(part.text)
    yield from _halves(Part(part.text[:begin], part.text[begin:end]), fits)
    yield from _halves(Part(part.text[end:], part.gap), fits)


def _middle(text: str) -> tuple[int, int]:
    """The white space nearest to the middle, or the middle itself where there is none."""
    middle = len(text) // 2
    gaps = (match.span() for match in _SPACE.finditer(text))
    return min(gaps, key=lambda gap: abs(gap[0] - middle), default=(middle, middle))
