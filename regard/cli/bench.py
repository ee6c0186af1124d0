"""`regard bench`: side by side with peers, in one run."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from regard.bench.interleaved import Case

commands = typer.Typer()

EXAMPLES = """\b
Examples:
  regard bench model                              forward and backward of all shapes, eager
  regard bench train --case mt-tiny --compiled    whole training steps, compiled twins beside
  regard bench decode --case tiny-1 --json        decoding, an object a line for programs
  regard bench train --case mt-tiny --profile     and where our own time goes
"""

bench = typer.Typer(
    help="Measure Regard beside its peers, taking turns in one run.", epilog=EXAMPLES, no_args_is_help=True
)
commands.add_typer(bench, name="bench")

Cases = Annotated[list[str] | None, typer.Option("--case", help="A shape; may be given again.")]
Turns = Annotated[int, typer.Option(min=4, max=1000, help="Turns each contender takes.")]
Threads = Annotated[int, typer.Option(min=0, help="Threads; 0 leaves torch's choice.")]
Compiled = Annotated[bool, typer.Option(help="Also compiled twins; takes minutes.")]
Profile = Annotated[bool, typer.Option("--profile", help="Show where our own time goes.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print an object a line for programs.")]


@bench.command(epilog=EXAMPLES)
def model(
    case: Cases = None,
    turns: Turns = 9,
    threads: Threads = 0,
    compiled: Compiled = False,
    profile: Profile = False,
    as_json: AsJson = False,
) -> None:
    """Forward and backward of the stack, beside torch.nn.Transformer and transformers."""
    from regard.bench import model as room
    from regard.bench.report import our_work

    _set_threads(threads)
    _run(room.cases(compiled), case, turns, as_json, our_work if profile else None)


@bench.command(epilog=EXAMPLES)
def train(
    case: Cases = None,
    turns: Turns = 9,
    threads: Threads = 0,
    compiled: Compiled = False,
    profile: Profile = False,
    as_json: AsJson = False,
) -> None:
    """Whole training steps, beside torch.nn.Transformer, transformers and a plain GPT loop."""
    from regard.bench import train as room
    from regard.bench.report import our_work

    _set_threads(threads)
    _run(room.cases(compiled), case, turns, as_json, our_work if profile else None)


@bench.command(epilog=EXAMPLES)
def decode(
    case: Cases = None,
    turns: Turns = 9,
    threads: Threads = 0,
    engine: Annotated[str, typer.Option(help="What our search runs on.")] = "torch",
    shorten: Annotated[int, typer.Option(min=1, help="Divide the length of outputs, to try it out.")] = 1,
    profile: Profile = False,
    as_json: AsJson = False,
) -> None:
    """Decoding and encoding, beside transformers and CTranslate2, a process each."""
    from regard.bench.decode import prepared

    with prepared(_set_threads(threads), engine, shorten) as room:
        work = (lambda one: room.work(one.name)) if profile else None
        _run(room.cases(), case, turns, as_json, work)


def _set_threads(threads: int) -> int:
    """Make torch compute with so many, if any number is given; how many there are then."""
    import torch

    if threads:
        torch.set_num_threads(threads)
    return torch.get_num_threads()


def _run(
    cases: list[Case],
    names: list[str] | None,
    turns: int,
    as_json: bool,
    profiled: Callable[[Case], Callable[[], Any]] | None,
) -> None:
    """Let the chosen cases take their turns, print what comes of each, and profile our own work if asked."""
    from regard.bench import report
    from regard.bench.interleaved import take_turns
    from regard.bench.report import heading, line
    from regard.registry import Registry

    known = Registry("case", {found.name: found for found in cases})
    chosen = [known.find(name) for name in names or known]
    peak = report.gemm_speed()
    if not as_json:
        print(heading(_set_threads(0), peak))
    for one in chosen:
        outcome = take_turns(one, turns)
        print(json.dumps(outcome.as_dict()) if as_json else line(outcome, peak), flush=True)
        if profiled:
            print(report.profile(profiled(one)))
