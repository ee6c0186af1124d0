"""Display of one sentence and its translation, with unknown words marked and French words glossed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rich.cells import cell_len
from rich.markup import escape
from rich.text import Text

from regard.demo.corpus import Language, split_words
from regard.demo.glossary import Glossed, gloss
from regard.demo.sentences import CURLY
from regard.demo.story.promises import translate
from regard.inference.translator import Translator
from regard.inspection.render.board import Board

GAP = 2


def strange_words(translator: Translator, facts: Mapping[str, Any], text: str) -> list[str]:
    """The words of a text that do not occur in the training text, in order, without repetitions."""
    tokenizer, known = translator.tokenizers.source, set(facts["words"])
    unknown = tokenizer.specials.get("unknown")
    words = split_words(text.translate(CURLY), language_read(facts))
    strange = (word for word in words if word.lower() not in known or unknown in tokenizer.encode(word))
    return list(dict.fromkeys(strange))


def language_read(facts: Mapping[str, Any]) -> Language:
    """The language that a model translates from."""
    return "fr" if facts["name"] == "demo-reverse" else "en"


def show_own(board: Board, translator: Translator, facts: Mapping[str, Any], text: str) -> None:
    """Show a user's sentence: its translation, the glosses of French words, and unknown words."""
    (translation,) = translate(translator, [text])
    strange = strange_words(translator, facts, text)
    board.say(f"[soft]source[/]  {_marked(text, strange, language_read(facts))}")
    board.say(f"[soft]target[/]  [bold]{escape(translation)}[/]")
    french, english = (text, translation) if language_read(facts) == "fr" else (translation, text)
    board.lines(interlinear(gloss(french, english), board.width))
    show_strange(board, strange, len(facts["words"]))


def show_strange(board: Board, strange: list[str], known: int) -> None:
    """List the words that the model does not know, if any."""
    if strange:
        words = ", ".join(f"[bold underline]{escape(word)}[/]" for word in strange)
        board.say(
            f"Never met in training: {words}. The {known:,} words that it has met, spelled like that, are "
            "its world; beyond them it guesses."
        )


def interlinear(glossed: list[Glossed], width: int) -> Iterator[Text]:
    """French words with a gloss under each, wrapped at the width."""
    if not glossed:
        return
    above, below = Text(), Text()
    for token, meaning in glossed:
        shown = meaning or "?"
        cells = max(cell_len(token), cell_len(shown)) + GAP
        if above.cell_len and above.cell_len + cells - GAP > width:
            yield from _trimmed(above, below, Text())
            above, below = Text(), Text()
        above.append(token, "output.bold").append(" " * (cells - cell_len(token)))
        below.append(shown, "soft").append(" " * (cells - cell_len(shown)))
    yield from _trimmed(above, below)


def _trimmed(*lines: Text) -> Iterator[Text]:
    for line in lines:
        line.rstrip()
        yield line


def literal(french: str, english: str) -> str:
    """A word-for-word English version of a French sentence, with the first meaning of each word."""
    meanings = (meaning for _, meaning in gloss(french, english) if "(first half)" not in meaning)
    return " ".join(meaning.partition(" or ")[0].partition(",")[0] or "?" for meaning in meanings)


def _marked(text: str, strange: list[str], language: Language) -> str:
    """The text as markup, with unknown words in brackets and underlined."""
    marked = []
    for word in text.split():
        is_strange = not set(strange).isdisjoint(split_words(word.translate(CURLY), language))
        marked.append(f"[bold underline]‹{escape(word)}›[/]" if is_strange else escape(word))
    return " ".join(marked)
