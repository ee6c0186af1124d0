"""`regard complete`: the beginning of a text in, its continuation out."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from regard.cli.lines import as_json, parts_named
from regard.cli.options import Ablate, Forbid, Model, NoRepeatNgramSize, Text, Use, with_use

commands = typer.Typer()

EXAMPLES = """\b
Examples:
  regard complete MODEL "ROMEO:" --temperature 0.8 --top-k 40 --max-tokens 200
  regard complete MODEL "Once upon" --stop "." --seed 7 --echo
  regard complete MODEL - --temperature 0            lines from stdin, one line out for each
"""


@commands.command(epilog=EXAMPLES)
@with_use
def complete(
    model: Model,
    text: Text = None,
    temperature: Annotated[float, typer.Option(help="0 takes the likeliest token.")] = 1.0,
    top_k: Annotated[
        int | None, typer.Option(help="Sample from the k likeliest tokens.", show_default=False)
    ] = None,
    top_p: Annotated[
        float | None,
        typer.Option(
            help="Nucleus sampling: the smallest set of tokens with this probability mass.",
            show_default=False,
        ),
    ] = None,
    min_p: Annotated[
        float | None,
        typer.Option(help="Minimum probability, relative to the likeliest token.", show_default=False),
    ] = None,
    repetition_penalty: Annotated[float, typer.Option(help="Above 1, makes repetition less likely.")] = 1.0,
    max_tokens: Annotated[int, typer.Option(help="Maximum tokens.")] = 100,
    min_tokens: Annotated[int, typer.Option(help="Minimum tokens before an end token.")] = 0,
    seed: Annotated[int, typer.Option(help="Seed of the random numbers.")] = 0,
    stop: Annotated[list[str] | None, typer.Option(help="A string that ends the text; repeatable.")] = None,
    forbid: Forbid = None,
    no_repeat_ngram_size: NoRepeatNgramSize = None,
    echo: Annotated[bool, typer.Option("--echo", help="Print the prompt too; --json always has it.")] = False,
    ablate: Ablate = None,
    *,
    use: Use,
) -> None:
    """Continue a text or lines; the text streams."""
    lines = use.lines(text)
    writer = use.load("complete", model)
    options: dict[str, Any] = dict(
        temperature=temperature, top_k=top_k, top_p=top_p, min_p=min_p, repetition_penalty=repetition_penalty,
        max_tokens=max_tokens, min_tokens=min_tokens, seed=seed, stop=stop or (), forbidden=forbid or (),
        no_repeat_ngram_size=no_repeat_ngram_size, ablate=parts_named(ablate),
    )  # fmt: skip
    if lines.text is not None and not use.json:
        lines.print_stream(writer.stream(lines.text, **options), lines.text if echo else "")
    else:
        completions = writer.complete(lines.texts, **options, window=lines.window)
        columns = as_json if use.json else lambda completion: [completion.prompt * echo + completion.text]
        lines.answer(completions, columns)
