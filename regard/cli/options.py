"""The options that several commands share, each named once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

NAMES = ("demo", "demo-reverse", "demo-writing")


def folder_of(model: str | None) -> str | None:
    """The folder of a built-in model by its name, anything else as it is; ./demo is a folder of one's own."""
    if model not in NAMES:
        return model
    from regard.demo.story.model_store import trained_folder

    return str(trained_folder(model))


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


Model = Annotated[
    str, typer.Argument(metavar="MODEL", help="A model folder, or a run's, or demo.", callback=folder_of)
]
Text = Annotated[
    str | None,
    typer.Argument(metavar="[TEXT | -]", help="A text; - reads lines from stdin.", show_default=False),
]
File = Annotated[Path | None, typer.Option(metavar="FILE", help="Read lines from here.", show_default=False)]
Out = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Write here, not to stdout.", show_default=False)
]
Window = Annotated[
    int | None, typer.Option(metavar="N", min=1, help="Lines sorted by length together.", show_default=False)
]
Device = Annotated[str, typer.Option(metavar="NAME", help="cpu, cuda, mps.")]
Dtype = Annotated[
    str | None, typer.Option(metavar="NAME", help="float32, or bfloat16 on accelerators.", show_default=False)
]
Threads = Annotated[int | None, typer.Option(metavar="N", min=1, help="Threads.", show_default=False)]
Forbid = Annotated[list[str] | None, typer.Option(help="A word not to use; may be given again.")]
NoRepeat = Annotated[
    int | None, typer.Option(metavar="N", help="Never the same N tokens twice.", show_default=False)
]
Backwards = Annotated[
    float,
    typer.Option(metavar="WEIGHT", help="Of the way back, which ranks too; for models trained both ways."),
]
Datastore = Annotated[
    str | None,
    typer.Option(metavar="DIR", help="A folder that regard remember has made.", show_default=False),
]
Ablate = Annotated[
    list[str] | None,
    typer.Option(metavar="PART", help="Switch off a head, cross.1.0, or a part; may be given again."),
]
Cut = Annotated[bool, typer.Option("--cut", help="Read the beginning of a text that is too long.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print an object a line for programs.")]
