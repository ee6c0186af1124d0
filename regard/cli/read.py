"""`regard fill`, `regard classify` and `regard embed`: a text in; words, a label or a vector out."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.cli.lines import as_json
from regard.cli.options import Model, Text, Truncate, Use, with_use

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
  regard classify MODEL --image photo.jpg
"""
EMBED = """\b
Examples:
  regard embed MODEL "a sentence" --json
  regard embed MODEL --file sentences.txt --out vectors.npy
"""


@commands.command(epilog=FILL)
@with_use
def fill(
    model: Model,
    text: Text = None,
    top: Annotated[int, typer.Option(help="Words shown per mask.")] = 5,
    *,
    use: Use,
) -> None:
    """Fill the masks of a text, written [MASK]."""
    lines = use.lines(text)
    reader = use.load("fill", model)
    lines.answer(reader.fill(lines.texts, top=top, window=lines.window), as_json if use.json else _masks)


@commands.command(epilog=CLASSIFY)
@with_use
def classify(
    model: Model,
    text: Text = None,
    image: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="A picture, for a model of images.", show_default=False),
    ] = None,
    truncate: Truncate = False,
    *,
    use: Use,
) -> None:
    """Classify a text, lines or a picture."""
    lines = use.lines(text if image is None else str(image))
    if image is not None:
        from regard.errors import UsageError
        from regard.inference.loading import load_images

        if truncate:
            raise UsageError("--truncate is for texts; leave it out with --image")
        lines.answer(load_images(model, use.loading).classify(image), as_json if use.json else _label)
        return
    reader = use.load("classify", model)
    classified = reader.classify(lines.texts, truncate=truncate, window=lines.window)
    lines.answer(classified, as_json if use.json else _label)


@commands.command(epilog=EMBED)
@with_use
def embed(
    model: Model,
    text: Text = None,
    pooling: Annotated[
        str | None,
        typer.Option(
            help="mean of all tokens' vectors, or first; else as the model does.", show_default=False
        ),
    ] = None,
    normalise: Annotated[
        bool | None,
        typer.Option(
            "--normalise/--no-normalise",
            help="Scale vectors to length 1; else as the model does.",
            show_default=False,
        ),
    ] = None,
    truncate: Truncate = False,
    *,
    use: Use,
) -> None:
    """Turn a text or lines into vectors.

    If the name of --out ends in .npy, it is written as a numpy array.
    """
    lines = use.lines(text)
    as_array = use.out is not None and use.out.suffix == ".npy"
    if as_array and use.json:
        from regard.errors import UsageError

        raise UsageError(f"--out ({use.out}) is an array and --json is text; leave one of them out")
    reader = use.load("embed", model)
    vectors = reader.embed(
        lines.texts, pooling=pooling, normalise=normalise, truncate=truncate, window=lines.window
    )
    if as_array:
        lines.save(vectors, reader.config.width)
    else:
        lines.answer(vectors, _numbers_as_json if use.json else _numbers)


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
