"""What `regard demo` is asked, and what it then does: train or reuse, tell, check."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console

from regard.demo.story.model_store import DemoFolder, find_demo_folder
from regard.demo.story.promises import PROMISES, Verdict
from regard.errors import UsageError
from regard.inspection.render.board import COLOURS, Board

LANGUAGE_MODEL = "language-model"
SAMPLES = 3  # pairs of each family that --show-corpus prints


@dataclass(frozen=True)
class Request:
    """Which model is meant, what is asked of it, and how its answer is given."""

    what: str | None = None  # "language-model", a sentence to translate, or nothing: the whole story
    reverse: bool = False
    fresh: bool = False
    check: bool = False
    as_json: bool = False
    out: Path | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)

    @property
    def is_language_model(self) -> bool:
        """Whether the model that goes on writing is meant."""
        return self.what == LANGUAGE_MODEL

    def demo_folder(self) -> DemoFolder:
        """Where the model is, or will be."""
        if self.is_language_model and (self.reverse or self.check):
            raise UsageError(
                "demo language-model goes neither with --reverse nor with --check; leave that out"
            )
        if self.check and self.what is not None:
            raise UsageError("--check goes with the whole story; leave the sentence out")
        if self.as_json and not self.check:
            raise UsageError("--json goes with --check; add it, or use regard translate demo TEXT --json")
        name = "demo-language-model" if self.is_language_model else "demo-reverse" if self.reverse else "demo"
        return find_demo_folder(name, self.out, self.settings)


def show(request: Request, begun: float | None = None) -> int:
    """Do what was asked and give the exit code; `begun` is when the command started."""
    begun = time.perf_counter() if begun is None else begun
    demo_folder = request.demo_folder()
    from regard.demo.story.language_model import tell_language_model
    from regard.demo.story.sentence import show_own
    from regard.demo.story.telling import tell
    from regard.demo.story.training import obtain

    demo = obtain(demo_folder, request.fresh or request.check)
    board = Board(Console(theme=COLOURS, highlight=False, stderr=request.as_json))
    if request.is_language_model:
        tell_language_model(board, demo)
    elif request.what is not None:
        show_own(board, demo.model, demo.facts, request.what)
    else:
        tell(board, demo)
    if not request.check:
        return 0
    return report(Verdict.of(demo.facts, time.perf_counter() - begun), demo_folder.name, request.as_json)


def show_corpus_of(request: Request) -> None:
    """Some pairs of each family of the corpus, or with --out all of it as files; `what` says how many."""
    from regard.demo.corpus import corpus
    from regard.demo.story.corpus_files import show_samples

    if request.fresh or request.check or request.as_json or request.settings:
        raise UsageError("--show-corpus trains nothing; it goes with a number, --reverse and --out alone")
    if request.what is not None and (not request.what.isdecimal() or request.what == "0"):
        raise UsageError(f"--show-corpus ({request.what}) takes a number of pairs above 0, or nothing")
    many = int(request.what or 0)
    if request.out is not None:
        return _write_corpus(request.out, many, request.reverse)
    return show_samples(Board(), corpus(reverse=request.reverse), many or SAMPLES)


def _write_corpus(folder: Path, many: int, reverse: bool) -> None:
    """The corpus as files in a new folder, with so many pairs to learn from, or all of them."""
    from regard.demo.corpus import PAIRS, corpus
    from regard.demo.story.corpus_files import write_pairs

    if folder.exists():
        raise UsageError(f"{folder} exists; choose another with --out")
    sentences = corpus(pairs=many or PAIRS, reverse=reverse)
    folder.mkdir(parents=True)
    for name in write_pairs(sentences, folder).values():
        print(folder / name)


def report(verdict: Verdict, name: str, as_json: bool) -> int:
    """Say whether every promise is kept, and give the exit code."""
    missed = verdict.missed(PROMISES[name])
    for line in missed:
        print(f"missed: {line}", file=sys.stderr)
    if as_json:
        print(json.dumps(verdict.as_dict()))
    elif not missed:
        print(f"Every promise is kept, in {verdict.seconds:.0f} seconds.")
    return 1 if missed else 0
