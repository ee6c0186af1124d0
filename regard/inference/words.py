"""Words as a tokenizer can say them."""

from __future__ import annotations

from collections.abc import Sequence

from regard.errors import SettingError
from regard.text.tokenizer import Tokenizer


def spellings(tokenizer: Tokenizer, words: Sequence[str]) -> tuple[tuple[int, ...], ...]:
    """The ids of words, as a text begins with each and as it stands after a space.

    A word that the tokenizer does not know cannot be said, and has none.
    """
    if isinstance(words, str):
        raise SettingError(f"forbidden ({words!r}) must be a list of words; put it in brackets")
    found: dict[tuple[int, ...], None] = {}
    for word in words:
        if not word.strip():
            raise SettingError(f"forbidden holds {word!r}, which is no word; leave it out")
        for text in (word, f" {word}"):
            found[tuple(tokenizer.encode(text))] = None
    unknown = tokenizer.specials.get("unknown")
    return tuple(ids for ids in found if ids and unknown not in ids)
