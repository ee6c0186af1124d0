"""`regard fill`, `regard classify`, `regard embed`: a text in, what a model makes of it out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.cli.lines import Lines, as_json
from regard.cli.options import AsJson, Cut, Device, Dtype, File, Model, Out, Text, Threads, Window

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
    top: Annotated[int, typer.Option(help="Words to show for each mask.")] = 5,
    file: File = None,
    out: Out = None,
    window: Window = None,
    device: Device = "cpu",
    dtype: Dtype = None,
    threads: Threads = None,
    json: AsJson = False,
) -> None:
    """Fill the masks of a text, written [MASK], and show the likeliest words for each."""
    lines = Lines(text, file, out, window)
    from regard.inference.loading import load_for

    reader = load_for("fill", model, device, dtype, threads)
    lines.answer(reader.fill(lines.texts, top=top, window=lines.window), as_json if json else _filled)


@commands.command(epilog=CLASSIFY)
def classify(
    model: Model,
    text: Text = None,
    cut: Cut = False,
    file: File = None,
    out: Out = None,
    window: Window = None,
    device: Device = "cpu",
    dtype: Dtype = None,
    threads: Threads = None,
    json: AsJson = False,
) -> None:
    """Tell the label of a text, with its probability."""
    lines = Lines(text, file, out, window)
    from regard.inference.loading import load_for

    reader = load_for("classify", model, device, dtype, threads)
    lines.answer(reader.classify(lines.texts, cut=cut, window=lines.window), as_json if json else _classified)


@commands.command(epilog=EMBED)
def embed(
    model: Model,
    text: Text = None,
    pooling: Annotated[str, typer.Option(help="The mean of all tokens' vectors, or the first.")] = "mean",
    normalise: Annotated[bool, typer.Option(help="Vectors of length 1, or as they are.")] = True,
    cut: Cut = False,
    file: File = None,
    out: Out = None,
    window: Window = None,
    device: Device = "cpu",
    dtype: Dtype = None,
    threads: Threads = None,
    json: AsJson = False,
) -> None:
    """Turn a text into a vector; --out with a name that ends in .npy saves an array."""
    lines = Lines(text, file, out, window)
    from regard.errors import UsageError
    from regard.inference.loading import load_for

    as_array = out is not None and out.suffix == ".npy"
    if as_array and json:
        raise UsageError(f"--out ({out}) is an array, which --json is not; leave one out")
    reader = load_for("embed", model, device, dtype, threads)
    found = reader.embed(lines.texts, pooling=pooling, normalise=normalise, cut=cut, window=lines.window)
    if as_array:
        lines.save(found, reader.config.width)
    else:
        lines.answer(found, _numbers_as_json if json else _numbers)


def _filled(found: Filled) -> list[str]:
    masks = (
        ", ".join(f"{each.text.strip()} {each.probability:.4f}" for each in mask) for mask in found.masks
    )
    return [found.text, *masks]


def _classified(found: Classified) -> list[str]:
    return [f"{found.label}\t{found.probability:.4f}"]


def _numbers(vector: Any) -> list[str]:
    return [" ".join(f"{number:.6g}" for number in vector)]


def _numbers_as_json(vector: Any) -> list[str]:
    import json

    return [json.dumps({"vector": [float(number) for number in vector]}, allow_nan=False)]
