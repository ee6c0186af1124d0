"""The command line as a whole: which commands there are, and what becomes of an error.

A command lives in a file of this folder: a `commands = typer.Typer()` of its own, added to THEMES below.
Such a file imports only typer at its top and everything heavy inside its functions, so that
`regard --help` stays quick.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from regard import ranks
from regard.cli import (
    bench,
    by_hand,
    chat,
    complete,
    datastore,
    demo,
    describe,
    doctor,
    evaluate,
    exchange,
    inspect,
    lesson,
    plan,
    quantize,
    read,
    serve,
    studio,
    train,
    translate,
    verify_resume,
)
from regard.errors import FailedElsewhere, Interrupted, RegardError, UsageError

# In the order that help shows them.
THEMES = (
    demo, studio, serve, lesson, train, plan, translate, complete, chat, read, inspect, evaluate, datastore,
    verify_resume, exchange, quantize, describe, by_hand, bench, doctor,
)  # fmt: skip

app = typer.Typer(
    name="regard",
    help="The Transformer as software: build it, use it, look inside it.",
    epilog="Help for one command: regard COMMAND --help",
    rich_markup_mode=None,
    add_completion=False,
)
for theme in THEMES:
    app.add_typer(theme.commands)


def _print_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        print(version("regard"))
        raise typer.Exit


@app.callback(invoke_without_command=True)
def regard(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_print_version, help="Print the version.")
    ] = False,
) -> None:
    if context.invoked_subcommand is None:
        print(context.get_help())


def run(arguments: Sequence[str] | None = None) -> int:
    """Run one command and give its exit code; a mistake becomes one line on stderr."""
    try:
        code = typer.main.get_command(app).main(arguments, prog_name="regard", standalone_mode=False)
        if sys.stdout is not None:
            sys.stdout.flush()
    except RegardError as error:
        return error.exit_code if _is_reported_by_first(error) else _report(str(error), error.exit_code)
    except typer.TyperException as error:
        return _report(_wrong_call(error), error.exit_code)
    except (KeyboardInterrupt, typer.Abort):
        return 130
    except BrokenPipeError:
        _silence_stdout()
        return 1
    except OSError as error:
        place = f"{error.filename}: " if error.filename else ""
        return _report(f"{place}{error.strerror or error}", 1)
    return code if isinstance(code, int) else 0


def _is_reported_by_first(error: RegardError) -> bool:
    """Whether this is another process of torchrun than the first, which has the same error."""
    return ranks.world().rank > 0 and isinstance(error, FailedElsewhere | Interrupted | UsageError)


def main() -> NoReturn:
    """Be the `regard` command."""
    for number in (signal.SIGTERM, getattr(signal, "SIGHUP", signal.SIGTERM)):  # Windows has no SIGHUP
        if signal.getsignal(number) != signal.SIG_IGN:  # as nohup sets it
            signal.signal(number, lambda number, _: sys.exit(128 + number))
    if ranks.world().rank:  # of the processes of torchrun only the first prints
        sys.stdout = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115
    for stream in filter(None, (sys.stdout, sys.stderr)):  # one that was closed is None
        # A terminal that cannot show a letter shows a question mark, instead of ending the program.
        stream.reconfigure(errors="replace")  # pyright: ignore[reportAttributeAccessIssue]
    sys.exit(run())


def _wrong_call(error: typer.TyperException) -> str:
    message = error.format_message().strip()
    end = "" if message.endswith((".", "?")) else "."
    context = getattr(error, "ctx", None)
    command = context.command_path if context else "regard"
    return f"{message[:1].lower()}{message[1:]}{end} See {command} --help"


def _report(message: str, code: int) -> int:
    with suppress(OSError):  # a terminal that was closed; the exit code still says it
        number = ranks.world().rank
        # What a file of unknown origin says must not control the terminal.
        line = "".join(c if c.isprintable() else ascii(c)[1:-1] for c in " ".join(message.split()))
        print(f"error of process {number}:" if number else "error:", line, file=sys.stderr)
    return code


def _silence_stdout() -> None:
    # The reader has gone; what is still buffered must not raise once more when Python ends.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
