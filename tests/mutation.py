"""Which small changes of the code the tests do not notice: a seeded sample of mutmut's mutants.

    pip install -c constraints.txt -e ".[test,mutation]"
    python -m tests.mutation --modules attention,cache --sample 40 --seed 1

mutmut makes the mutants. It has no sample and needs the whole suite to choose tests, so they are run here: of
the module's package, on a copy of the project, to the first failure or the time limit. Needs POSIX.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn
from xml.etree import ElementTree

# Imported once, before the project is mutated, so that a fork does not import them again.
import matplotlib  # noqa: F401
import pytest
import torch  # noqa: F401

PROJECT = Path(__file__).parents[1]
MODULES = "attention,cache,beam,batches,state,checkpoint_manager,folder"
ALSO = {("model",): ("engine",)}  # packages whose tests cover another package
LEFT_BEHIND = shutil.ignore_patterns(".*", "__pycache__", "runs")
MEMORY = 8 << 30  # bytes of data for one run of tests: a mutant may ask for any amount
SLOWER = 3  # times the unchanged tests, after which a mutant counts as killed, and at least so many seconds:
LEAST = 60


@dataclass(frozen=True)
class Mutant:
    """A module with one change."""

    code: str
    line: int
    removed: str
    added: str

    def __str__(self) -> str:
        return f"{self.line}: {self.removed}  ->  {self.added}"


def main() -> None:
    """Run the sample of each module and print what survives."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--modules", default=MODULES, help=f"names, with commas between (default {MODULES})")
    parser.add_argument("--sample", type=int, default=40, help="mutants of each module (default 40)")
    parser.add_argument("--seed", type=int, default=1, help="of the sample (default 1)")
    given = parser.parse_args()
    modules = [find_module(name) for name in given.modules.split(",")]
    signal.signal(
        signal.SIGTERM, lambda *_: sys.exit("ended by SIGTERM")
    )  # so that the copy and the tests end with it
    with copied_project():
        totals = [run_module(module, given.sample, given.seed) for module in modules]
    for module, (killed, total) in zip(modules, totals, strict=True):
        print(f"{module}  {killed} / {total}")
    print(f"killed {sum(killed for killed, _ in totals)} / {sum(total for _, total in totals)}")


def find_module(name: str) -> Path:
    """regard/model/attention.py for attention, or for model/attention."""
    found = sorted((PROJECT / "regard").rglob(f"{name}.py"))
    if len(found) != 1:
        raise SystemExit(f"{name}: {len(found)} modules have this name; write it with its package")
    return found[0].relative_to(PROJECT)


@contextlib.contextmanager
def copied_project() -> Iterator[None]:
    """Work in a copy of the project, from which Python imports too."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder).resolve() / "project"
        shutil.copytree(PROJECT, copy, ignore=LEFT_BEHIND)
        os.environ |= {"PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": "1"}
        with contextlib.chdir(copy):
            command = [sys.executable, "-c", "import regard; print(regard.__file__)"]
            assert subprocess.check_output(command, text=True).startswith(str(copy))
            yield


def run_module(module: Path, sample: int, seed: int) -> tuple[int, int]:
    """How many of the module's mutants are killed, of how many."""
    original, began = module.read_text(encoding="utf-8"), time.monotonic()
    tests = tests_of(module)
    limit = max(LEAST, SLOWER * (time.monotonic() - began))
    mutants = mutants_of(module, original, sample, random.Random(f"{seed} {module}"))
    print(f"{module}: {len(mutants)} mutants, at most {limit:.0f} s each", flush=True)
    survivors = 0
    for mutant in mutants:
        module.write_text(mutant.code, encoding="utf-8")
        if passes(tests, limit):
            survivors += 1
            print(f"  survived {module}:{mutant}", flush=True)
    module.write_text(original, encoding="utf-8")
    print(f"  {len(mutants) - survivors} / {len(mutants)} in {time.monotonic() - began:.0f} s", flush=True)
    return len(mutants) - survivors, len(mutants)


def tests_of(module: Path) -> list[Path]:
    """The tests of the module's package, all of which pass: its own file, then the quickest first."""
    package, times = module.parts[1:-1], Path("times.xml")
    folders = [Path("tests", *package), *(Path("tests", name) for name in ALSO.get(package, ()))]
    if not passes(folders, None, f"--junitxml={times}"):
        raise SystemExit(f"{' or '.join(map(str, folders))} fails without any mutant; repair it first")
    seconds: dict[str, float] = {}
    for case in ElementTree.parse(times).iter("testcase"):
        name = case.attrib["classname"].split(".")
        file = next(part for part in name if part.startswith("test_"))
        seconds[file] = seconds.get(file, 0) + float(case.attrib["time"])
    own = f"test_{module.stem}"
    files = [file for folder in folders for file in folder.rglob("test_*.py")]
    return sorted(files, key=lambda path: (path.stem != own, seconds.get(path.stem, 0)))


def mutants_of(module: Path, code: str, count: int, draw: random.Random) -> list[Mutant]:
    """So many of the changes that mutmut makes inside functions, each at another place, by their lines."""
    from mutmut.mutation.file_mutation import create_mutations  # pyright: ignore[reportMissingImports]

    tree, mutations, *_ = create_mutations(str(module), code)
    places: dict[int, list[tuple[Any, Any]]] = {}
    for one in mutations:
        if one.contained_by_top_level_function is not None:
            places.setdefault(id(one.original_node), []).append((one.original_node, one.mutated_node))
    chosen = draw.sample(list(places.values()), min(count, len(places)))
    changes = [draw.choice(variants) for variants in chosen]
    mutants = [mutant_of(code, tree.deep_replace(old, new).code) for old, new in changes]  # type: ignore[union-attr]
    return sorted(mutants, key=lambda mutant: mutant.line)


def mutant_of(code: str, changed: str) -> Mutant:
    """A mutant, with the lines that differ."""
    before, after = code.splitlines(), changed.splitlines()
    start = next(i for i, (old, new) in enumerate(zip(before, after, strict=False)) if old != new)
    same = next(i for i, (old, new) in enumerate(zip(before[::-1], after[::-1], strict=False)) if old != new)
    removed, added = (" ".join(map(str.strip, lines[start : len(lines) - same])) for lines in (before, after))
    return Mutant(changed, start + 1, removed, added)


def passes(tests: list[Path], limit: float | None, *more: str) -> bool:
    """Whether the tests pass within the limit; the first that fails ends them.

    They run in a fork of this process, which has imported the libraries but nothing of the project.
    """
    shutil.rmtree(".hypothesis", ignore_errors=True)  # what one mutant has taught is not for the next
    options = ["-x", "-q", "-p", "no:cacheprovider", "--hypothesis-seed=0", *more]
    child = os.fork()
    if not child:
        _run_tests([*options, *map(str, tests)])
    try:
        return _exit_code(child, limit) == 0
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child, signal.SIGKILL)  # and all that the tests have started
        with contextlib.suppress(ChildProcessError):
            os.waitpid(child, 0)


def _run_tests(arguments: list[str]) -> NoReturn:
    """Run pytest in this process, silently and as a group of its own, and end the process."""
    code = 1
    try:
        os.setsid()
        resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
        with Path(os.devnull).open("wb") as nothing:
            for stream in (1, 2):
                os.dup2(nothing.fileno(), stream)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        sys.path.insert(0, str(Path.cwd()))
        for name in [name for name in sys.modules if name.split(".")[0] == "tests"]:
            del sys.modules[name]
        code = pytest.main(arguments)
    finally:
        os._exit(int(code))


def _exit_code(child: int, limit: float | None) -> int | None:
    """The exit code of a child; None after the limit."""
    ends = None if limit is None else time.monotonic() + limit
    while ends is None or time.monotonic() < ends:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.05)
    return None


if __name__ == "__main__":
    main()
