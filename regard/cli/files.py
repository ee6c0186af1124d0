"""The text files that commands learn from and score on, and settings that replace a recipe's."""

from __future__ import annotations

from typing import Annotated, Any

import typer


def files(meaning: str) -> Any:
    """An option that names files, once or more."""
    return typer.Option(metavar="FILE", help=meaning, show_default=False)


Source = Annotated[list[str] | None, files("Sentences to translate; may be gzip or a pattern.")]
Target = Annotated[list[str] | None, files("Their translations, line by line.")]
Tsv = Annotated[list[str] | None, files("Both in one table: TSV, CSV or JSONL.")]
PlainText = Annotated[list[str] | None, files("Plain text.")]
Labelled = Annotated[list[str] | None, files("Texts with labels: TSV, CSV or JSONL.")]
Settings = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="TABLE.KEY=VALUE", help="Replace a setting.", show_default=False),
]


def named(**given: list[str] | None) -> dict[str, list[str]]:
    """The files that were given, by the names of [data]."""
    return {name: paths for name, paths in given.items() if paths}
