"""The demo's corpus as files, and printed samples."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby
from pathlib import Path

from rich.markup import escape

from regard.demo.corpus import Corpus, Language
from regard.demo.sentences import Pair
from regard.demo.things import quick_brown_fox
from regard.inspection.render.board import Board

# How often the pangram occurs in the text of the language model.
FOXES = 100


def write_pairs(sentences: Corpus, folder: Path) -> dict[str, str]:
    """Write two files per part, one sentence per line; return their names by key of [data]."""
    files: dict[str, str] = {}
    languages: tuple[Language, Language] = ("fr", "en") if sentences.reverse else ("en", "fr")
    for part in ("train", "valid", "test"):
        for side, language in zip(("source", "target"), languages, strict=True):
            name = side if part == "train" else f"{part}_{side}"
            files[name] = f"{part}.{language}"
            _write(folder / files[name], (getattr(pair, side) for pair in getattr(sentences, part)))
    return files


def write_english(sentences: Corpus, folder: Path) -> dict[str, str]:
    """Write the English text of the language model, with the pangram in it, and its validation text."""
    fox = quick_brown_fox().pair("leaping", "written").source
    lines = [pair.source for pair in sentences.train]
    distance = max(1, len(lines) // FOXES)
    for position in range(0, len(lines) + FOXES, distance + 1):
        lines.insert(position, fox)
    _write(folder / "train.en", lines)
    _write(folder / "valid.en", (pair.source for pair in sentences.valid))
    return {"text": "train.en", "valid": "valid.en"}


def _write(file: Path, lines: Iterable[str]) -> None:
    file.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8", newline="\n")


def show_samples(board: Board, sentences: Corpus, each: int) -> None:
    """Print `each` pairs of every family, and the sizes of the parts."""
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
    """The training pairs by family, the largest family first."""
    ordered = sorted(sentences.train, key=lambda pair: pair.family)
    groups = {family: list(pairs) for family, pairs in groupby(ordered, key=lambda pair: pair.family)}
    return dict(sorted(groups.items(), key=lambda item: -len(item[1])))
