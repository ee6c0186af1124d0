"""Some sentences of each family of the corpus, to be read."""

from __future__ import annotations

from itertools import groupby

from rich.markup import escape

from regard.demo.corpus import Corpus
from regard.demo.sentences import Pair
from regard.inspection.by_hand.board import Board


def show_samples(board: Board, sentences: Corpus, each: int) -> None:
    """So many pairs of each family, and what is held out."""
    for family, pairs in families(sentences).items():
        board.title(f"{family}: {len(pairs):,} pairs")
        for pair in pairs[:each]:
            board.say(f"{escape(pair.source)}")
            board.say(f"  [output]{escape(pair.target)}[/]")
    board.title("In all")
    board.say(
        f"{len(sentences.train):,} pairs to learn from, {len(sentences.valid):,} for validation and "
        f"{len(sentences.test):,} for the test; more than half of those have words that never meet "
        "in training."
    )


def families(sentences: Corpus) -> dict[str, list[Pair]]:
    """The training pairs by the rule that made them, the largest family first."""
    ordered = sorted(sentences.train, key=lambda pair: pair.family)
    found = {family: list(pairs) for family, pairs in groupby(ordered, key=lambda pair: pair.family)}
    return dict(sorted(found.items(), key=lambda item: -len(item[1])))
