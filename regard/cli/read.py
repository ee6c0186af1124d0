"""`regard fill`, `regard classify` and `regard embed`: a text in; words, a label or a vector out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.cli.lines import Lines, as_json
from regard.cli.options import AsJson, Device, Dtype, File, Model, Out, Text, Threads, Truncate, Window

if TYPE_CHECKING:
    from regard.inference.reader import Classified, Filled

commands = typer.Typer()

FILL = """\b
Examples:
  regard fill MODEL "Paris is the [MASK] of France."
  regard fill MODEL "Paris is the [MASK] of France." --top 10 --json
"""
CLASSIFY = """\b
Examples:
  regard classify MODEL "a film to remember"
  regard classify MODEL --file reviews.txt --out labels.tsv
"""
EMBED = """\b
Examples:
  regard embed MODEL "a sentence" --json
  regard embed MODEL --file sentences.txt --out vectors.npy
"""


@commands.command(epilog=FILL)
def fill(
    model: Model,
    text: Text = None,
    top: Annotated[int, typer.Option(help="Words shown per mask.")] = 5,
    file: File = None,
    out: Out = None,
    window: Window = None,
    device: Device = "cpu",
    dtype: Dtype = None,
    threads: Threads = None,
    json: AsJson = False,
) -> None:
    """Fill the masks of a text, written [MASK]."""
    lines = Lines(text, file, out, window)
    from regard.inference.loading import load_for

    reader = load_for("fill", model, device, dtype, threads)
    lines.answer(reader.fill(lines.texts, top=top, window=lines.window), as_json if json else _masks)


@commands.command(epilog=CLASSIFY)
def classify(
    model: Model,
    text: Text = None,
    truncate: Truncate = False,
    file: File = None,
    out: Out = None,
    window: Window = None,
    device: Device = "cpu",
    dtype: Dtype = None,
    threads: Threads = None,
    json: AsJson = False,
) -> None:
    """Classify a text or lines."""
    lines = Lines(text, file, out, window)
    from regard.inference.loading import load_for

    reader = load_for("classify", model, device, dtype, threads)
    classified = reader.classify(lines.texts, truncate=truncate, window=lines.window)
    lines.answer(classified, as_json if json else _label)


@commands.command(epilog=EMBED)
def embed(
    model: Model,
    text: Text = None,
    pooling: Annotated[str, typer.Option(help="mean of all tokens' vectors, or first.")] = "mean",
    normalise: Annotated[bool, typer.Option(help="Scale vectors to length 1.")] = True,
    truncate: Truncate = False,
    file: File = None,
    out: Out = None,
    window: Window = None,
    device: Device = "cpu",
    dtype: Dtype = None,
    threads: Threads = None,
    json: AsJson = False,
) -> None:
    """Turn a text or lines into vectors.

    If the name of --out ends in .npy, it is written as a numpy array.
    """
    lines = Lines(text, file, out, window)
    from regard.errors import UsageError
    from regard.inference.loading import load_for

    as_array = out is not None and out.suffix == ".npy"
    if as_array and json:
        raise UsageError(f"--out ({out}) is an array and --json is text; leave one of them out")
    reader = load_for("embed", model, device, dtype, threads)
    vectors = reader.embed(
        lines.texts, pooling=pooling, normalise=normalise, truncate=truncate, window=lines.window
    )
    if as_array:
        lines.save(vectors, reader.config.width)
    else:
        lines.answer(vectors, _numbers_as_json if json else _numbers)


def _masks(filled: Filled) -> list[str]:
    masks = (
        ", ".join(f"{choice.text.strip()} {choice.probability:.4f}" for choice in mask)
        for mask in filled.masks
    )
    return [filled.text, *masks]


def _label(classified: Classified) -> list[str]:
    return [f"{classified.label}\t{classified.probability:.4f}"]


def _numbers(vector: Any) -> list[str]:
    return [" ".join(f"{number:.6g}" for number in vector)]


def _numbers_as_json(vector: Any) -> list[str]:
    import json

    return [json.dumps({"vector": [float(number) for number in vector]}, allow_nan=False)]
