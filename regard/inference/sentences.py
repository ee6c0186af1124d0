"""Split a text that is too long for a model: between sentences, or between words if necessary."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

_WITH_SPACE = ".!?…‼⁇⁈⁉؟۔।॥։።"  # marks that end a sentence if white space follows
_WITHOUT = "。！？｡．"  # marks that end a sentence without white space too
_CLOSERS = r"\"'’”»›)\]」』）】》〉"
# Marks with closing quotes and brackets, or a line end, each with the white space after it.
_END = re.compile(rf"([{_WITH_SPACE}{_WITHOUT}]+)[{_CLOSERS}]*(\s*)|((?<![^\S\n])[^\S\n]*+\n\s*)")
_SPACE = re.compile(r"\s+")
_WORD = re.compile(r"\w")
_WORD_BEFORE = re.compile(r"[^\W\d_]+(?:\.[^\W\d_]+)*\Z")
_LONGEST_ABBREVIATION = 12
_ABBREVIATIONS = """
mr mrs ms mx dr prof sr jr st mt rev hon gov sen rep gen col maj capt cmdr lt sgt adm messrs
vs cf al eg ie viz approx ca est dept inc ltd corp co bros univ assn ave blvd jan feb apr aug sept oct nov dec
mme mmes mlle mlles mgr mm env bzw evtl ggf inkl zzgl vgl sog hr hrn fr dipl ing str geb
sra srta dra ud uds avda sig dott avv
"""
_BEFORE_NUMBERS = "no nos nr num art sec ch chap fig figs vol p pp ed eq tab abb bd kap par pág cap"


@dataclass(frozen=True)
class Part:
    """A part of a text, and the white space after it."""

    text: str
    gap: str


def split_to_fit(text: str, fits: Callable[[str], bool]) -> list[Part]:
    """Parts of as many sentences as fit; a longer sentence is split at a space, or anywhere if it has none.

    Parts and gaps join to the stripped text. No part is blank, and gaps are white space. A gap other than a
    single space always separates two parts, so that it can be kept in the answer.
    """
    parts: list[Part] = []
    for part in (half for sentence in _sentences(text.strip()) for half in _halves(sentence, fits)):
        if parts and parts[-1].gap in ("", " ") and fits(both := parts[-1].text + parts[-1].gap + part.text):
            parts[-1] = Part(both, part.gap)
        else:
            parts.append(part)
    return parts


def _sentences(text: str) -> Iterator[Part]:
    """The sentences of a text; marks without a word belong to the sentence before."""
    ends = [_gap_of(match) for match in _END.finditer(text) if _is_end(match)]
    before, after = [(0, 0), *ends], [*ends[1:], (len(text), len(text))]
    start, has_word = 0, False
    for (_, last), (begin, end), (following, _) in zip(before, ends, after, strict=False):
        has_word = has_word or _WORD.search(text, last, begin) is not None
        if has_word and _WORD.search(text, end, following):
            yield Part(text[start:begin], text[begin:end])
            start, has_word = end, False
    if start < len(text):
        yield Part(text[start:], "")


def _gap_of(match: re.Match[str]) -> tuple[int, int]:
    return match.span(3 if match[1] is None else 2)


def _is_end(match: re.Match[str]) -> bool:
    marks, gap, text = match[1], match[2], match.string
    if marks is None or "\n" in gap:
        return True
    follows = text[match.end() : match.end() + 1]
    if not gap:
        is_decimal = marks == "．" and follows.isdecimal()
        return any(mark in _WITHOUT for mark in marks) and not is_decimal
    return marks != "." or not _is_abbreviation(
        text[max(0, match.start() - _LONGEST_ABBREVIATION) : match.start()], follows
    )


def _is_abbreviation(before: str, follows: str) -> bool:
    """Whether a full stop belongs to the word before it: Mr., p.m., an initial, No. before a number."""
    word = _WORD_BEFORE.search(before)
    if word is None:
        return False
    letters = word[0].lower().split(".")
    if len(letters) > 1:
        return max(map(len, letters)) <= 3
    known = _ABBREVIATIONS.split() + (_BEFORE_NUMBERS.split() if follows.isdecimal() else [])
    return len(letters[0]) == 1 or letters[0] in known


def _halves(part: Part, fits: Callable[[str], bool]) -> Iterator[Part]:
    """The part if it fits or cannot be split, otherwise its halves."""
    if len(part.text) < 2 or fits(part.text):
        yield part
        return
    begin, end = _middle(part.text)
    yield from _halves(Part(part.text[:begin], part.text[begin:end]), fits)
    yield from _halves(Part(part.text[end:], part.gap), fits)


def _middle(text: str) -> tuple[int, int]:
    """The white space nearest to the middle, or the middle if there is none."""
    middle = len(text) // 2
    gaps = (match.span() for match in _SPACE.finditer(text))
    return min(gaps, key=lambda gap: abs(gap[0] - middle), default=(middle, middle))
