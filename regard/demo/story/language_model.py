"""The story of the language model: a sentence completed word by word, and prompts at three temperatures."""

from __future__ import annotations

from rich.markup import escape
from rich.text import Text

from regard.demo.story.training import Demo
from regard.inference.writer import Writer
from regard.inspection.render.board import Board
from regard.runs.display import duration

FOX = "The quick brown"
PROMPTS = (
    FOX,
    "The animal didn't cross the street because it was too",
    "I arrived at the bank after crossing the",
    "a fluffy blue creature roamed the verdant",
)
TEMPERATURES = (0.0, 0.8, 1.5)
LONGEST = 24  # tokens of a completion
MOST_WORDS = 8  # of the sentence that is completed a word at a time
NEXT = (
    ('regard complete demo-language-model "My cat"', "the model at work"),
    ("regard demo", "a model that translates"),
    ("regard train language-model --text FILE", "your own text"),
)


def tell_language_model(board: Board, demo: Demo) -> None:
    """The whole story of the language model."""
    board.title("A word at a time")
    board.say(f"“{FOX} …” goes on with the likeliest word each time; behind it, what else might have come:")
    board.table(word_by_word(demo.model, FOX), right=(1,), gap=2)
    board.title("The same beginnings at three temperatures")
    for prompt in PROMPTS:
        board.say(f"[bold]{escape(prompt)} …")
        board.table(_completed(demo.model, prompt), right=(0,), gap=2)
    board.say(
        "[soft]0 always takes the likeliest token; the higher, the freer, and the less sure to make sense."
    )
    board.title("What to try next")
    facts = demo.facts
    board.table([[Text(call, "bold"), Text(why, "soft")] for call, why in NEXT], gap=2)
    board.say(
        f"[soft]It learned from {facts['pairs']:,} sentences in {facts['steps']:,} steps, "
        f"{duration(facts['seconds'])}, and is in {escape(str(demo.folder))}."
    )


def word_by_word(writer: Writer, prompt: str) -> list[list[Text]]:
    """Each step of a completion: the token, its probability, and the next likeliest tokens."""
    text, rows = prompt, []
    while len(rows) < MOST_WORDS and not text.endswith((".", "\n")):
        best, *rivals = writer.next_words(text).top(4)
        text += best.text
        others = ", ".join(f"{rival.text.strip() or '⏎'} {_share(rival.probability)}" for rival in rivals)
        rows.append(
            [Text(best.text.strip() or "⏎", "bold"), Text(_share(best.probability)), Text(others, "soft")]
        )
    return rows


def _completed(writer: Writer, prompt: str) -> list[list[Text]]:
    rows = []
    for temperature in TEMPERATURES:
        completion = writer.complete(prompt, temperature=temperature, max_tokens=LONGEST, stop="\n", seed=1)
        rows.append([Text(f"{temperature:g}", "soft"), Text(completion.text.strip())])
    return rows


def _share(part: float) -> str:
    return f"{100 * part:.1f} %"
