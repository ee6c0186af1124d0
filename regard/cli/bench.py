"""`regard bench`: interleaved comparisons with other libraries."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from regard.bench.interleaved import Case, Outcome

commands = typer.Typer()

EXAMPLES = """\b
Examples:
  regard bench model                              forward and backward of all shapes, eager
  regard bench train --case mt-tiny --compiled    training steps, also with torch.compile
  regard bench decode --case tiny-1 --json        decoding, one JSON object per case
  regard bench serve --case marian-32             the HTTP service with 32 clients
  regard bench train --case mt-tiny --profile     with a profile of Regard's step
"""

bench = typer.Typer(
    help="Compare the speed of Regard with other libraries.",
    epilog=EXAMPLES,
    no_args_is_help=True,
)
commands.add_typer(bench, name="bench")

Cases = Annotated[list[str] | None, typer.Option("--case", help="A shape; repeat the option for several.")]
Rounds = Annotated[int, typer.Option(min=4, max=1000, help="Measurements of each library.")]
Threads = Annotated[int, typer.Option(min=0, help="Threads; 0 keeps torch's default.")]
Compiled = Annotated[bool, typer.Option(help="Also measure with torch.compile; takes minutes.")]
Profile = Annotated[bool, typer.Option("--profile", help="Print a profile of Regard's operations.")]
Write = Annotated[Path | None, typer.Option(help="A page whose table is replaced, between its markers.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object per line.")]


def _add_comparison(name: str, summary: str) -> None:
    """Add a command that measures the cases of regard.bench.NAME."""

    @bench.command(name, help=summary, epilog=EXAMPLES)
    def compare(
        case: Cases = None,
        rounds: Rounds = 9,
        threads: Threads = 0,
        compiled: Compiled = False,
        profile: Profile = False,
        as_json: AsJson = False,
    ) -> None:
        from importlib import import_module

        from regard.bench.report import our_work

        _set_threads(threads)
        cases = import_module(f"regard.bench.{name}").cases(compiled)
        for _ in _run(cases, case, rounds, as_json, our_work if profile else None):
            pass


_add_comparison("model", "Forward and backward, beside torch.nn.Transformer and transformers.")
_add_comparison("train", "Training steps, beside torch.nn.Transformer, transformers, a plain GPT.")


@bench.command(epilog=EXAMPLES)
def decode(
    case: Cases = None,
    rounds: Rounds = 9,
    threads: Threads = 0,
    engine: Annotated[
        str, typer.Option(help="Our engine: native (float32 and int8), native-int8 or torch.")
    ] = "native",
    shorten: Annotated[int, typer.Option(min=1, help="Divide the length of outputs, for a short try.")] = 1,
    profile: Profile = False,
    as_json: AsJson = False,
    write: Write = None,
) -> None:
    """Decoding and encoding, beside transformers, CTranslate2, onnxruntime and llama.cpp."""
    from regard.bench.decode import temporary_bench
    from regard.bench.report import bandwidth_shares, read_bandwidth
    from regard.bench.table import around_table, decode_table, write_between

    if write is not None:
        around_table(write, "decode")  # a wrong page is found before anything is measured
    count = _set_threads(threads)
    bandwidth, outcomes = read_bandwidth(), []
    with temporary_bench(count, engine, shorten) as decoding:
        work = (lambda profiled: decoding.work(profiled.name)) if profile else None
        for outcome in _run(decoding.cases(), case, rounds, as_json, work):
            for title, share in bandwidth_shares(outcome, bandwidth).items():
                print(f"  {title} reaches {share:.2f} of the read bandwidth", file=sys.stderr)
            outcomes.append(outcome)
            if write is not None:  # after each case, so that an interrupted run leaves what it measured
                write_between(write, "decode", decode_table(outcomes, count, bandwidth, rounds))


@bench.command(epilog=EXAMPLES)
def serve(
    case: Cases = None,
    rounds: Rounds = 7,
    threads: Annotated[int, typer.Option(min=1, help="Threads of each server.")] = 2,
    as_json: AsJson = False,
    write: Write = None,
) -> None:
    """Requests per second and latencies of the HTTP service, beside servers of other libraries."""
    from regard.bench.serve import CASES, format_outcome, run_case, temporary_folder
    from regard.bench.table import around_table, serve_table, write_between

    if write is not None:
        around_table(write, "serve")
    names, outcomes = case or list(CASES), []
    for name in names:
        CASES.find(name)
    with temporary_folder() as folder:
        for name in names:
            outcomes.append(outcome := run_case(name, rounds, threads, folder))
            print(json.dumps(outcome) if as_json else format_outcome(outcome), flush=True)
            if write is not None:  # after each case, so that an interrupted run leaves what it measured
                write_between(write, "serve", serve_table(outcomes, threads, rounds))


def _set_threads(threads: int) -> int:
    """Set torch's threads unless 0 is passed, and return their number."""
    import torch

    if threads:
        torch.set_num_threads(threads)
    return torch.get_num_threads()


def _run(
    cases: list[Case],
    names: list[str] | None,
    rounds: int,
    as_json: bool,
    profiled: Callable[[Case], Callable[[], Any]] | None,
) -> Iterator[Outcome]:
    """Measure the chosen cases, print each outcome, and profile our implementation if requested."""
    from regard.bench import report
    from regard.bench.interleaved import run_interleaved
    from regard.bench.report import format_outcome, heading
    from regard.registry import Registry

    known = Registry("case", {known_case.name: known_case for known_case in cases})
    chosen = [known.find(name) for name in names or known]
    peak = report.gemm_speed()
    if not as_json:
        print(heading(_set_threads(0), peak))
    for case in chosen:
        outcome = run_interleaved(case, rounds)
        print(json.dumps(outcome.as_dict()) if as_json else format_outcome(outcome, peak), flush=True)
        if profiled:
            print(report.profile(profiled(case)))
        yield outcome
