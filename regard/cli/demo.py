"""`regard demo`: in minutes from nothing to seeing what "it" looks at."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

from regard.cli.options import Settings

commands = typer.Typer()

EXAMPLES = """\b
Examples:
  regard demo                          train, translate the lectures' sentences, look inside
  regard demo --trained                the same with the model that comes with regard, in seconds
  regard demo "My cat is small."       a sentence of your own
  regard demo language-model           a model that continues a text
  regard demo --reverse                French to English
  regard demo --show-corpus 3          what it learns from
  regard demo --show-corpus --out DIR  the same as text files
  regard demo --check --json           measure what is promised; exit 1 where it is missed
"""


@commands.command(epilog=EXAMPLES)
def demo(
    what: Annotated[
        str | None,
        typer.Argument(metavar="[language-model | SENTENCE | N]", help="Default: tell the whole story."),
    ] = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="Train even if a model exists.")] = False,
    reverse: Annotated[bool, typer.Option("--reverse", help="Use the French-English model.")] = False,
    check: Annotated[bool, typer.Option("--check", help="Train, then measure the promises.")] = False,
    trained: Annotated[bool, typer.Option("--trained", help="Use a trained model; do not train.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="With --check, print JSON at the end.")] = False,
    show_corpus: Annotated[
        bool,
        typer.Option(
            "--show-corpus", help="Print 3 pairs of each family, or N; with --out, N pairs as files."
        ),
    ] = False,
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Folder of the model; default: the user's cache.")
    ] = None,
    settings: Settings = None,
) -> None:
    """Train a small English-French model and look inside it.

    The first time takes minutes; after that the model is kept. Every command with a MODEL takes `demo`: the
    model trained here, or until then the one that comes with regard.
    """
    begun = time.perf_counter()
    from regard.demo.story.show import Request, show, show_corpus_of
    from regard.runs.toml import read_overrides

    request = Request(what, reverse, fresh, check, trained, as_json, out, read_overrides(settings or []))
    if show_corpus:
        return show_corpus_of(request)
    raise typer.Exit(show(request, begun))
