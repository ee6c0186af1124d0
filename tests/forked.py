"""Commands in forks of one process that has imported torch, so that each starts seconds sooner."""

from __future__ import annotations

import multiprocessing
import os
import runpy
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

PRELOADED = ["torch", "regard.cli.app", "regard.runs.run", "regard.inspection.inspection"]


def run_forked(arguments: Sequence[str], folder: Path, limit: float) -> subprocess.CompletedProcess[str]:
    """The same as subprocess.run([sys.executable, *arguments]) for arguments that begin with -m or -c."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(PRELOADED)
    with tempfile.TemporaryDirectory() as outputs:
        files = [Path(outputs, name) for name in ("stdout", "stderr")]
        process = context.Process(target=_run, args=(list(arguments), folder, files, dict(os.environ)))
        process.start()
        process.join(limit)
        if process.is_alive():
            process.kill()
            raise subprocess.TimeoutExpired(list(arguments), limit)
        texts = [file.read_text(encoding="utf-8") for file in files]
        return subprocess.CompletedProcess(list(arguments), process.exitcode or 0, *texts)


def _run(arguments: list[str], folder: Path, files: list[Path], environment: Mapping[str, str]) -> None:
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    for number, file in enumerate(files, 1):
        os.dup2(os.open(file, os.O_WRONLY | os.O_CREAT), number)
    option, what, *rest = arguments
    sys.path[0] = ""
    sys.argv = [what if option == "-m" else "-c", *rest]
    if option == "-m":
        runpy.run_module(what, run_name="__main__", alter_sys=True)
    else:
        exec(compile(what, "<string>", "exec"), {"__name__": "__main__"})
