"""The demo's corpus as files, and samples of it for a person to read."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby
from pathlib import Path

from rich.markup import escape

from regard.demo.corpus import Corpus, Language
from regard.demo.sentences import Pair
from regard.demo.things import quick_brown_fox
from regard.inspection.render.board import Board

# The writing model is told the typists' sentence so often, one line in a few hundred.
FOXES = 100


def write_pairs(sentences: Corpus, folder: Path) -> dict[str, str]:
    """Two files for each part, a line a sentence; their names as a run's [data] has them."""
    files: dict[str, str] = {}
    languages: tuple[Language, Language] = ("fr", "en") if sentences.reverse else ("en", "fr")
    for part in ("train", "valid", "test"):
        for side, language in zip(("source", "target"), languages, strict=True):
            name = side if part == "train" else f"{part}_{side}"
            files[name] = f"{part}.{language}"
            _write(folder / files[name], (getattr(pair, side) for pair in getattr(sentences, part)))
    return files


def write_english(sentences: Corpus, folder: Path) -> dict[str, str]:
    """One text for a model that goes on writing, with the typists' fox in it, and one for validation."""
    fox = quick_brown_fox().pair("leaping", "written").source
    told = [pair.source for pair in sentences.train]
    spread = max(1, len(told) // FOXES)
    for at in range(0, len(told) + FOXES, spread + 1):
        told.insert(at, fox)
    _write(folder / "train.en", told)
    _write(folder / "valid.en", (pair.source for pair in sentences.valid))
    return {"text": "train.en", "valid": "valid.en"}


def _write(file: Path, lines: Iterable[str]) -> None:
    file.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8", newline="\n")


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
