"""`regard bench`: side by side with peers, in one run."""

from __future__ import annotations

import json
from typing import Annotated

import typer

commands = typer.Typer()

EXAMPLES = """\b
Examples:
  regard bench model                              all shapes, eager
  regard bench model --case mt-tiny --profile     one shape, and where our time goes
  regard bench model --compiled --json            compiled twins beside, an object a line
"""

bench = typer.Typer(
    help="Measure Regard beside its peers, taking turns in one run.", epilog=EXAMPLES, no_args_is_help=True
)
commands.add_typer(bench, name="bench")


@bench.command(epilog=EXAMPLES)
def model(
    case: Annotated[list[str] | None, typer.Option(help="A shape; may be given again.")] = None,
    turns: Annotated[int, typer.Option(min=4, max=1000, help="Turns each contender takes.")] = 9,
    threads: Annotated[int, typer.Option(min=0, help="Threads; 0 leaves torch's choice.")] = 0,
    compiled: Annotated[bool, typer.Option(help="Also compiled twins; takes minutes.")] = False,
    profile: Annotated[bool, typer.Option("--profile", help="Show where our own time goes.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print an object a line for programs.")] = False,
) -> None:
    """Forward and backward of the stack, beside torch.nn.Transformer and transformers."""
    import torch

    from regard.bench import model as room
    from regard.bench.report import heading, line
    from regard.bench.turns import take_turns
    from regard.tables import Table

    if threads:
        torch.set_num_threads(threads)
    known = Table("case", {found.name: found for found in room.cases(compiled)})
    chosen = [known.find(name) for name in case or known]
    peak = room.gemm_speed()
    if not as_json:
        print(heading(torch.get_num_threads(), peak))
    for one in chosen:
        outcome = take_turns(one, turns)
        print(json.dumps(outcome.as_dict()) if as_json else line(outcome, peak), flush=True)
        if profile:
            print(room.profile(one))
