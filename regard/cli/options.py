"""Options that several commands share."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from regard.cli.lines import Lines
    from regard.inference.loading import LoadOptions


def folder_of(model: str | None) -> str | None:
    """The folder of a built-in model, or the path as it is; ./demo is a path."""
    if model is None:
        return None
    import regard.demo.story.model_store  # noqa: F401 it adds its names
    from regard.checkpoints.locations import built_in_folder

    return str(built_in_folder(model))


def files(meaning: str) -> Any:
    """A repeatable option that names files."""
    return typer.Option(metavar="FILE", help=meaning, show_default=False)


Source = Annotated[list[str] | None, files("Source sentences; gzip and patterns are allowed.")]
Target = Annotated[list[str] | None, files("The translations, line by line.")]
Tsv = Annotated[list[str] | None, files("Source and target in one table: TSV, CSV, JSONL, Parquet.")]
PlainText = Annotated[list[str] | None, files("Plain text.")]
Labelled = Annotated[list[str] | None, files("Texts with labels: TSV, CSV, JSONL, Parquet.")]
ValidSource = Annotated[list[str] | None, files("Validation text, source side; else a part is held out.")]
ValidTarget = Annotated[list[str] | None, files("Validation text, target side.")]
Valid = Annotated[list[str] | None, files("Validation text as one file.")]
Settings = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="TABLE.KEY=VALUE", help="Replace a setting.", show_default=False),
]


def named(**options: list[str] | None) -> dict[str, list[str]]:
    """The file options that were given, by the names of [data]."""
    return {name: paths for name, paths in options.items() if paths}


Model = Annotated[
    str,
    typer.Argument(
        metavar="MODEL",
        help="A model folder, a run folder, a Hugging Face folder or name, or demo.",
        callback=folder_of,
    ),
]
Text = Annotated[
    str | None,
    typer.Argument(metavar="[TEXT | -]", help="A text; - reads lines from stdin.", show_default=False),
]
File = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Read lines from a file.", show_default=False)
]
Out = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Write to a file instead of stdout.", show_default=False)
]
Window = Annotated[
    int | None,
    typer.Option(metavar="N", min=1, help="Lines sorted by length at a time.", show_default=False),
]
Device = Annotated[str, typer.Option(metavar="NAME", help="cpu, cuda, mps.")]
Dtype = Annotated[
    str | None,
    typer.Option(
        metavar="NAME", help="float32, float16, int8; bfloat16 on accelerators.", show_default=False
    ),
]
Engine = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="native or torch; native where it can be used.", show_default=False),
]
Threads = Annotated[int | None, typer.Option(metavar="N", min=1, help="Threads.", show_default=False)]
Forbid = Annotated[list[str] | None, typer.Option(help="A word that must not occur; repeatable.")]
NoRepeatNgramSize = Annotated[
    int | None, typer.Option(metavar="N", help="No N-gram of tokens occurs twice.", show_default=False)
]
ChannelWeight = Annotated[
    float,
    typer.Option(metavar="WEIGHT", help="Noisy-channel reranking; for models trained in both directions."),
]
DatastoreFolder = Annotated[
    str | None,
    typer.Option(
        "--datastore", metavar="DIR", help="kNN-MT: a folder of regard datastore.", show_default=False
    ),
]
Ablate = Annotated[
    list[str] | None,
    typer.Option(metavar="PART", help="Ablate a head (cross.1.0) or a part (scaling); repeatable."),
]
Truncate = Annotated[
    bool, typer.Option("--truncate", help="Read only the beginning of a text that is too long.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object per line.")]


@dataclass(frozen=True)
class Use:
    """The options that all commands which answer lines share: what is read and written, and what computes."""

    file: File = None
    out: Out = None
    window: Window = None
    device: Device = "cpu"
    dtype: Dtype = None
    threads: Threads = None
    engine: Engine = None
    json: AsJson = False

    def lines(self, text: str | None) -> Lines:
        """What the command reads and answers."""
        from regard.cli.lines import Lines

        return Lines(text, self.file, self.out, self.window)

    @property
    def loading(self) -> LoadOptions:
        """How the model is loaded."""
        from regard.inference.loading import LoadOptions

        return LoadOptions(self.engine, self.threads, self.device, self.dtype)

    def load(self, command: str, model: str) -> Any:
        """The model, of the family that the command needs."""
        from regard.inference.loading import load_for

        return load_for(command, model, self.loading)


def with_use(command: Callable[..., None]) -> Callable[..., None]:
    """The command with an option for each field of Use in place of its parameter `use`."""
    own, shared = (inspect.signature(made, eval_str=True).parameters for made in (command, Use))

    @functools.wraps(command)
    def with_options(**values: Any) -> None:
        use = Use(**{name: values.pop(name) for name in shared})
        command(**values, use=use)

    parameters = [parameter for name, parameter in own.items() if name != "use"] + [*shared.values()]
    with_options.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    with_options.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return with_options
