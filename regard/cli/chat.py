"""`regard chat`: a conversation with a model, in the terminal or from stdin."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.cli.lines import lines_of_stdin
from regard.cli.options import Device, Dtype, Engine, Model, Text, Threads

if TYPE_CHECKING:
    from regard.inference.chat import Chat

commands = typer.Typer()

EXAMPLES = """\b
Examples:
  regard chat MODEL                                  a conversation; Ctrl-D ends it
  regard chat MODEL "What is attention?" --system "Answer in one sentence."
  regard chat MODEL -                                each line of stdin is the next message
"""


@commands.command(epilog=EXAMPLES)
def chat(
    model: Model,
    text: Text = None,
    system: Annotated[str | None, typer.Option(help="A system message.", show_default=False)] = None,
    temperature: Annotated[float, typer.Option(help="0 takes the likeliest token.")] = 0.7,
    top_p: Annotated[float | None, typer.Option(help="Nucleus sampling.", show_default=False)] = None,
    max_tokens: Annotated[int, typer.Option(help="Maximum tokens of an answer.")] = 512,
    seed: Annotated[int, typer.Option(help="Seed of the random numbers.")] = 0,
    device: Device = "cpu",
    dtype: Dtype = None,
    threads: Threads = None,
    engine: Engine = None,
) -> None:
    """Talk with a model that has a chat template."""
    from regard.inference.loading import LoadOptions, load_chat

    opened = load_chat(model, LoadOptions(engine, threads, device, dtype))
    options: dict[str, Any] = dict(temperature=temperature, top_p=top_p, max_tokens=max_tokens, seed=seed)
    messages = [{"role": "system", "content": system}] if system else []
    turns = iter([text]) if text not in (None, "-") else _typed()
    for turn in turns:
        messages.append({"role": "user", "content": turn})
        messages.append({"role": "assistant", "content": _answer(opened, messages, options)})


def _answer(opened: Chat, messages: list[dict[str, str]], options: dict[str, Any]) -> str:
    """Print the answer as it is written, and return it."""
    stream = opened.reply(messages, **options)
    for piece in stream:
        print(piece, end="", flush=True)
    print(flush=True)
    assert stream.completion is not None
    return stream.completion.text


def _typed() -> Iterator[str]:
    """The lines of stdin that are not blank; a terminal shows a prompt."""
    if sys.stdin is None or not sys.stdin.isatty():
        yield from filter(str.strip, lines_of_stdin())
        return
    while True:
        print("> ", end="", file=sys.stderr, flush=True)
        line = sys.stdin.readline()
        if not line:
            print(file=sys.stderr)
            return
        if line.strip():
            yield line.rstrip("\n")
