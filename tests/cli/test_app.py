"""The command line as a whole: help, exit codes, and one line for every mistake."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys

import pytest
import typer

from regard.cli import app as command_line
from regard.errors import DataError, SettingError

GROUP = typer.main.get_command(command_line.app)
COMMANDS = sorted(GROUP.commands)  # pyright: ignore[reportAttributeAccessIssue]


def examples_of(command: str) -> list[str]:
    """The calls that a command's help ends with."""
    epilog = GROUP.commands[command].epilog or ""  # pyright: ignore[reportAttributeAccessIssue]
    calls = [line.strip() for line in epilog.splitlines() if line.strip().startswith("regard ")]
    return [call.split("  ")[0] for call in calls]


@pytest.fixture
def failing(monkeypatch):
    """Make a command of the command line raise what a test wants to see reported."""

    def install(error: BaseException) -> None:
        def fail(*_: object, **__: object) -> None:
            raise error

        monkeypatch.setattr("regard.cli.doctor.examine", fail)

    return install


@pytest.mark.parametrize("arguments", [[], ["--help"]])
def test_help_lists_the_commands_on_stdout(capsys, arguments):
    assert command_line.run(arguments) == 0
    printed = capsys.readouterr()
    assert all(f"\n  {name} " in printed.out for name in COMMANDS)
    assert printed.err == ""


@pytest.mark.parametrize("command", COMMANDS)
def test_help_of_a_command_ends_with_examples_that_parse(capsys, command):
    assert command_line.run([command, "--help"]) == 0
    last = capsys.readouterr().out.rstrip().splitlines()[-1]
    assert last.strip().startswith(f"regard {command}")
    assert examples_of(command)
    for example in examples_of(command):
        _, name, *arguments = shlex.split(example)
        assert name == command
        GROUP.commands[name].make_context(name, arguments)  # pyright: ignore[reportAttributeAccessIssue]


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["describ"], "error: no such command 'describ'. Did you mean 'describe'? See regard --help"),
        (["zzz"], "error: no such command 'zzz'. See regard --help"),
        (["--jsn"], "error: no such option: --jsn. See regard --help"),
        (["doctor", "--jsn"], "(Possible options: --json). See regard doctor --help"),
        (["doctor", "extra"], "error: got unexpected extra argument(s) (extra). See regard doctor --help"),
        (["describe", "tinny"], "error: unknown size 'tinny'; did you mean tiny?"),
    ],
)
def test_a_wrong_call_is_one_line_and_exits_2(capsys, arguments, line):
    assert command_line.run(arguments) == 2
    printed = capsys.readouterr()
    assert line in printed.err
    assert printed.err.startswith("error: ")
    assert printed.err.count("\n") == 1
    assert printed.out == ""


@pytest.mark.parametrize(
    ("error", "code", "line"),
    [
        (SettingError("heads (7) must divide 512;\n try 8"), 2, "heads (7) must divide 512; try 8"),
        (DataError("line 3 is empty"), 1, "line 3 is empty"),
        (DataError("a\x1b[31m b\x07 é"), 1, "a\\x1b[31m b\\x07 é"),  # no control of the terminal
        (FileNotFoundError(2, "No such file or directory", "a.txt"), 1, "a.txt: No such file or directory"),
    ],
)
def test_an_error_is_one_line_with_its_exit_code(capsys, failing, error, code, line):
    failing(error)
    assert command_line.run(["doctor"]) == code
    assert capsys.readouterr().err == f"error: {line}\n"


def test_an_interrupt_exits_130_without_a_word(capsys, failing):
    failing(KeyboardInterrupt())
    assert command_line.run(["doctor"]) == 130
    assert capsys.readouterr().err == ""


def test_a_bug_is_not_hidden(failing):
    failing(RuntimeError("a bug"))
    with pytest.raises(RuntimeError, match="a bug"):
        command_line.run(["doctor"])


def start(code: str) -> subprocess.Popen:
    """A fresh `regard doctor` whose examination is replaced by some code."""
    program = f"""
import sys, time
from regard.cli import app, doctor
def examine():
    {code}
doctor.examine = examine
sys.argv = ["regard", "doctor", "--json"]
app.main()
"""
    pipe = subprocess.PIPE
    # A user's Python holds output back until it has enough, and that is the harder case.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    return subprocess.Popen(
        [sys.executable, "-c", program],
        stdin=pipe,
        stdout=pipe,
        stderr=pipe,
        env=environment,
        text=True,
        encoding="utf-8",
    )


@pytest.mark.skipif(sys.platform == "win32", reason="Windows ends a process without asking it")
@pytest.mark.parametrize(("sent", "code"), [("SIGTERM", 143), ("SIGINT", 130), ("SIGHUP", 129)])
def test_a_signal_ends_the_command_quietly(sent, code):
    sent = getattr(signal, sent)
    before = signal.signal(sent, signal.default_int_handler)  # under nohup the program would inherit "ignore"
    with start("print('ready', flush=True); time.sleep(60)") as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.send_signal(sent)
        assert process.communicate(timeout=30) == ("", "")
    signal.signal(sent, before)
    assert process.returncode == code


@pytest.mark.parametrize("size", [10, 1_000_000])
def test_a_reader_that_leaves_early_is_no_error(size):
    with start(f"print('ready', flush=True); sys.stdin.readline(); return 'x' * {size}") as process:
        assert process.stdin
        assert process.stdout
        assert process.stderr
        process.stdout.readline()
        process.stdout.close()
        process.stdin.write("go on\n")
        process.stdin.flush()
        assert process.stderr.read() == ""
    assert process.returncode == 1


def test_summaries_fit_on_their_line(monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "80")
    assert command_line.run(["--help"]) == 0
    commands = capsys.readouterr().out.split("Commands:")[1]
    assert "..." not in commands
    assert max(map(len, commands.splitlines())) <= 80
