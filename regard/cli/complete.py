"""`regard complete`: the beginning of a text in, its continuation out."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from regard.cli.lines import Lines, as_json, parts_named
from regard.cli.options import (
    Ablate,
    AsJson,
    Device,
    Dtype,
    File,
    Forbid,
    Model,
    NoRepeat,
    Out,
    Text,
    Threads,
    Window,
)

commands = typer.Typer()

EXAMPLES = """\b
Examples:
  regard complete MODEL "ROMEO:" --temperature 0.8 --top-k 40 --max-tokens 200
  regard complete MODEL "Once upon" --stop "." --seed 7 --echo
  regard complete MODEL - --temperature 0            lines from stdin, one out for each in
"""


@commands.command(epilog=EXAMPLES)
def complete(
    model: Model,
    text: Text = None,
    temperature: Annotated[float, typer.Option(help="0 takes the likeliest token.")] = 1.0,
    top_k: Annotated[int | None, typer.Option(help="Of the likeliest so many.", show_default=False)] = None,
    top_p: Annotated[float | None, typer.Option(help="Of the likeliest share.", show_default=False)] = None,
    min_p: Annotated[
        float | None, typer.Option(help="Of those above this share of the likeliest.", show_default=False)
    ] = None,
    repetition_penalty: Annotated[float, typer.Option(help="Above 1 avoids what was said.")] = 1.0,
    max_tokens: Annotated[int, typer.Option(help="Tokens at most.")] = 100,
    min_tokens: Annotated[int, typer.Option(help="Tokens at least, before an end token.")] = 0,
    seed: Annotated[int, typer.Option(help="Another seed, another text.")] = 0,
    stop: Annotated[list[str] | None, typer.Option(help="Text that ends it; may be given again.")] = None,
    forbid: Forbid = None,
    no_repeat: NoRepeat = None,
    echo: Annotated[
        bool, typer.Option("--echo", help="Print the prompt before it, as --json does anyway.")
    ] = False,
    ablate: Ablate = None,
    file: File = None,
    out: Out = None,
    window: Window = None,
    device: Device = "cpu",
    dtype: Dtype = None,
    threads: Threads = None,
    json: AsJson = False,
) -> None:
    """Continue a text, shown as it is written, or each line of many."""
    lines = Lines(text, file, out, window)
    from regard.inference.loading import load_for

    writer = load_for("complete", model, device, dtype, threads)
    options: dict[str, Any] = dict(
        temperature=temperature, top_k=top_k, top_p=top_p, min_p=min_p, repetition_penalty=repetition_penalty,
        max_tokens=max_tokens, min_tokens=min_tokens, seed=seed, stop=stop or (), forbidden=forbid or (),
        no_repeat_ngram_size=no_repeat, ablate=parts_named(ablate),
    )  # fmt: skip
    if lines.text is not None and not json:
        lines.say(writer.stream(lines.text, **options), lines.text if echo else "")
    else:
        found = writer.complete(lines.texts, **options, window=lines.window)
        lines.answer(found, as_json if json else lambda each: [each.prompt * echo + each.text])
