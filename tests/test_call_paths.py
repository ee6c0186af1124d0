"""The call paths in docs/architecture.md are the files that train, translate and inspect really run.

    python -m tests.test_call_paths

prints them as the page has them.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from pathlib import Path

PROJECT = Path(__file__).parents[1]
PAGE = PROJECT / "docs" / "architecture.md"
# Notes each file of the package at the first call of a function in it; calls made by an import do not count.
TRACER = """
import sys, threading
from pathlib import Path
from regard.cli.app import run
import regard

ROOT = Path(regard.__file__).parent
files = {}

def is_importing(frame):
    while frame is not None:
        # An import, or an annotation that typer evaluates; the outermost frame is this program.
        if frame.f_code.co_name == "<module>" and frame.f_back is not None:
            return True
        frame = frame.f_back
    return False

def note(frame, event, argument):
    name = frame.f_code.co_filename
    if event == "call" and name not in files and name.startswith(str(ROOT)) and not is_importing(frame):
        files[name] = Path(name).relative_to(ROOT).as_posix()

threading.setprofile(note)
sys.setprofile(note)
code = run(sys.argv[2:])
sys.setprofile(None)
Path(sys.argv[1]).write_text("\\n".join(files.values()), encoding="utf-8")
sys.exit(code)
"""
SMALL = [
    f"model.{key}={value}" for key, value in dict(width=16, heads=2, layers=1, feed_forward_width=16).items()
]
SETTINGS = ["training.steps=2", "tokenizer.vocabulary=300", *SMALL]


def files_run_by(folder: Path, *arguments: str) -> list[str]:
    """Run a command of regard in a process of its own and list the files it ran, in order of first call."""
    call = [sys.executable, "-c", TRACER, "files.txt", *arguments]
    result = subprocess.run(call, cwd=folder, capture_output=True, text=True, encoding="utf-8", timeout=600)
    assert result.returncode == 0, result.stderr
    return (folder / "files.txt").read_text(encoding="utf-8").split()


def call_paths(folder: Path) -> dict[str, list[str]]:
    """The files of the three commands: train a small model, translate with it, inspect a translation."""
    lines = [f"{number} small cats see {number % 7} dogs" for number in range(200)]
    for name in ("source", "target"):
        (folder / name).write_text("\n".join(lines), encoding="utf-8")
    settings = [part for setting in SETTINGS for part in ("--set", setting)]
    files = ["--source", "source", "--target", "target", "--out", "run"]
    return {
        "train": files_run_by(folder, "train", "translation", *files, *settings),
        "translate": files_run_by(folder, "translate", "run/model", lines[0]),
        "inspect": files_run_by(folder, "inspect", "run/model", lines[0]),
    }


def as_block(name: str, files: list[str]) -> str:
    """A call path as the page shows it: a line for each package, in order of first call."""
    packages: dict[str, list[str]] = {}
    for file in files:
        package, _, rest = file.rpartition("/")
        packages.setdefault(package or ".", []).append(rest)
    lines = [f"{package:<20} {' '.join(names)}" for package, names in packages.items()]
    return "\n".join([f"```path-{name}", *lines, "```"])


def packages_of(block: str) -> dict[str, set[str]]:
    """The files of each package; two threads of a replicated model may reach them in either order."""
    return {package: set(files) for package, *files in map(str.split, block.splitlines()[1:-1])}


def test_the_call_paths_of_the_page_are_those_of_a_run(tmp_path):
    page = PAGE.read_text(encoding="utf-8")
    for name, files in call_paths(tmp_path).items():
        shown = re.search(rf"```path-{name}\n.*?```", page, re.DOTALL)
        assert shown is not None, f"docs/architecture.md has no block path-{name}"
        block = as_block(name, files)
        assert packages_of(shown[0]) == packages_of(block), f"the block is to be\n{block}"


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch:
        for path, run_files in call_paths(Path(scratch)).items():
            print(f"{as_block(path, run_files)}\n{len(run_files)} files\n")
