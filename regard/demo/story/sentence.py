"""One sentence and its translation on the screen: words never met are marked, French words explained."""

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
    """The words of a text that the model never met in training, in their order, each once."""
    tokenizer, known = translator.tokenizers.source, set(facts["words"])
    unknown = tokenizer.specials.get("unknown")
    words = split_words(text.translate(CURLY), language_read(facts))
    strange = (word for word in words if word.lower() not in known or unknown in tokenizer.encode(word))
    return list(dict.fromkeys(strange))


def language_read(facts: Mapping[str, Any]) -> Language:
    """The language that a model translates from."""
    return "fr" if facts["name"] == "demo-reverse" else "en"


def show_own(board: Board, translator: Translator, facts: Mapping[str, Any], text: str) -> None:
    """A person's own sentence: its translation, what each French word says, and what was new to the model."""
    (found,) = translate(translator, [text])
    strange = strange_words(translator, facts, text)
    board.say(f"[soft]source[/]  {_marked(text, strange, language_read(facts))}")
    board.say(f"[soft]target[/]  [bold]{escape(found)}[/]")
    french, english = (text, found) if language_read(facts) == "fr" else (found, text)
    board.lines(interlinear(gloss(french, english), board.width))
    show_strange(board, strange, len(facts["words"]))


def show_strange(board: Board, strange: list[str], known: int) -> None:
    """Which words the model can only guess about, where there are any."""
    if strange:
        words = ", ".join(f"[bold underline]{escape(word)}[/]" for word in strange)
        board.say(
            f"Never met in training: {words}. The {known:,} words that it has met, spelled like that, are "
            "its world; beyond them it guesses."
        )


def interlinear(glossed: list[Glossed], width: int) -> Iterator[Text]:
    """French words in a row, and under each what it says, in as many bands as the width asks for."""
    if not glossed:
        return
    above, below = Text(), Text()
    for token, meaning in glossed:
        said = meaning or "?"
        wide = max(cell_len(token), cell_len(said)) + GAP
        if above.cell_len and above.cell_len + wide - GAP > width:
            yield from _trimmed(above, below, Text())
            above, below = Text(), Text()
        above.append(token, "output.bold").append(" " * (wide - cell_len(token)))
        below.append(said, "soft").append(" " * (wide - cell_len(said)))
    yield from _trimmed(above, below)


def _trimmed(*lines: Text) -> Iterator[Text]:
    for line in lines:
        line.rstrip()
        yield line


def literal(french: str, english: str) -> str:
    """A French sentence word for word in English, each by its first meaning, and ne ... pas said once."""
    meanings = (meaning for _, meaning in gloss(french, english) if "(first half)" not in meaning)
    return " ".join(meaning.partition(" or ")[0].partition(",")[0] or "?" for meaning in meanings)


def _marked(text: str, strange: list[str], language: Language) -> str:
    """The text as markup, the strange words in brackets and underlined."""
    marked = []
    for word in text.split():
        is_strange = not set(strange).isdisjoint(split_words(word.translate(CURLY), language))
        marked.append(f"[bold underline]‹{escape(word)}›[/]" if is_strange else escape(word))
    return " ".join(marked)
