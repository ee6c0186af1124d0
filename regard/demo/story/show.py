"""`regard demo`: train or reuse a model, tell the story, check the promises."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console

from regard.demo.story.model_store import DemoFolder, find_demo_folder, trained_folder
from regard.demo.story.promises import PROMISES, Verdict
from regard.errors import UsageError
from regard.inspection.render.board import COLOURS, Board

LANGUAGE_MODEL = "language-model"
SAMPLES = 3  # pairs of each family that --show-corpus prints


@dataclass(frozen=True)
class Request:
    """The options of the command."""

    what: str | None = None  # "language-model", a sentence to translate, or nothing: the whole story
    reverse: bool = False
    fresh: bool = False
    check: bool = False
    trained: bool = False
    as_json: bool = False
    out: Path | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)

    @property
    def is_language_model(self) -> bool:
        """Whether the language model is requested."""
        return self.what == LANGUAGE_MODEL

    def demo_folder(self) -> DemoFolder:
        """The folder of the requested model; raise if options conflict."""
        if self.is_language_model and (self.reverse or self.check):
            raise UsageError(
                "demo language-model cannot be combined with --reverse or --check; remove that option"
            )
        if self.check and self.what is not None:
            raise UsageError("--check cannot be combined with a sentence; remove the sentence")
        if self.as_json and not self.check:
            raise UsageError("--json needs --check; add it, or use regard translate demo TEXT --json")
        if self.trained and (self.fresh or self.check or self.out or self.settings):
            raise UsageError(
                "--trained cannot be combined with --fresh, --check, --out or --set; remove that option"
            )
        name = "demo-language-model" if self.is_language_model else "demo-reverse" if self.reverse else "demo"
        return find_demo_folder(name, self.out, self.settings)


def show(request: Request, begun: float | None = None) -> int:
    """Run the command and return its exit code; `begun` is its start time."""
    begun = time.perf_counter() if begun is None else begun
    demo_folder = request.demo_folder()
    from regard.demo.story.language_model import tell_language_model
    from regard.demo.story.sentence import show_own
    from regard.demo.story.telling import tell
    from regard.demo.story.training import Demo, obtain

    if request.trained:
        demo = Demo.open(trained_folder(demo_folder.name))
    else:
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
    """Print pairs of each family of the corpus, or write all of it to --out; `what` is the number."""
    from regard.demo.corpus import corpus
    from regard.demo.story.corpus_files import show_samples

    if request.fresh or request.check or request.trained or request.as_json or request.settings:
        raise UsageError("--show-corpus takes only a number, --reverse and --out; remove other options")
    if request.what is not None and (not request.what.isdecimal() or request.what == "0"):
        raise UsageError(f"--show-corpus ({request.what}) must be a number of pairs above 0, or absent")
    many = int(request.what or 0)
    if request.out is not None:
        return _write_corpus(request.out, many, request.reverse)
    return show_samples(Board(), corpus(reverse=request.reverse), many or SAMPLES)


def _write_corpus(folder: Path, many: int, reverse: bool) -> None:
    """Write the corpus to a new folder, with this number of training pairs, or 0 for the default."""
    from regard.demo.corpus import PAIRS, corpus
    from regard.demo.story.corpus_files import write_pairs

    if folder.exists():
        raise UsageError(f"{folder} exists; choose another with --out")
    sentences = corpus(pairs=many or PAIRS, reverse=reverse)
    folder.mkdir(parents=True)
    for name in write_pairs(sentences, folder).values():
        print(folder / name)


def report(verdict: Verdict, name: str, as_json: bool) -> int:
    """Print whether every promise is kept, and return the exit code."""
    missed = verdict.missed(PROMISES[name])
    for line in missed:
        print(f"missed: {line}", file=sys.stderr)
    if as_json:
        print(json.dumps(verdict.as_dict()))
    elif not missed:
        print(f"Every promise is kept, in {verdict.seconds:.0f} seconds.")
    return 1 if missed else 0
