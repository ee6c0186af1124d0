"""The native engine under sanitizers: builds native/stress.cpp with the sources of the engine and runs it.

    python -m tests.engine.sanitizers

AddressSanitizer and UndefinedBehaviorSanitizer run in one program with the kernels of every processor level,
ThreadSanitizer in another with the portable ones: threads meet outside of kernels. A program is kept under
build/ until a source changes.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).parents[2]
STRESS = Path(__file__).parent / "native" / "stress.cpp"
SOURCES = ROOT / "regard" / "engine" / "native"
PROGRAMS = ROOT / "build" / "sanitizers"
SANITIZERS = {
    "address": ("-fsanitize=address,undefined",),
    "thread": ("-fsanitize=thread", "-DREGARD_PORTABLE"),
}
FLAGS = (
    "-std=c++17",
    "-O0",
    "-g1",
    "-ffp-contract=fast",
    "-pthread",
    "-Wno-psabi",
    "-fno-sanitize-recover=all",
    f"-I{SOURCES}",
)


def compiler() -> str | None:
    """A C++ compiler of this machine."""
    return next((path for name in ("g++", "clang++", "c++") if (path := shutil.which(name))), None)


def is_present(sanitizer: str, folder: Path) -> bool:
    """Whether the compiler can build a program with a sanitizer that starts here."""
    (folder / "empty.cpp").write_text("int main() {}\n", encoding="utf-8")
    is_built = not _compile(sanitizer, folder / "empty.cpp", "-o", folder / "empty").returncode
    return is_built and not subprocess.run([folder / "empty"], check=False).returncode


def run_stress(sanitizer: str) -> subprocess.CompletedProcess[str]:
    """Build the stress program if it is not up to date, and run it."""
    options = {"TSAN_OPTIONS": "halt_on_error=1", "ASAN_OPTIONS": "detect_leaks=1"}
    return subprocess.run(
        [_program(sanitizer)],
        capture_output=True,
        text=True,
        encoding="utf-8",
        env=os.environ | options,
        check=False,
    )


def _program(sanitizer: str) -> Path:
    """The stress program of these sources, flags and compiler."""
    version = subprocess.run([str(compiler()), "--version"], capture_output=True, check=False).stdout
    contents = [path.read_bytes() for path in [*sorted(SOURCES.iterdir()), STRESS]]
    key = hashlib.sha256(b"\0".join([version, repr((FLAGS, SANITIZERS)).encode(), *contents])).hexdigest()
    program = PROGRAMS / f"{sanitizer}-{key[:16]}"
    if not program.exists():
        PROGRAMS.mkdir(parents=True, exist_ok=True)
        for old in PROGRAMS.glob(f"{sanitizer}-*"):
            old.unlink()
        with TemporaryDirectory(dir=PROGRAMS) as folder:
            _build(sanitizer, Path(folder)).rename(program)
    return program


def _build(sanitizer: str, folder: Path) -> Path:
    """Compile every source, as many at a time as there are cores, and link them."""
    is_portable = "-DREGARD_PORTABLE" in SANITIZERS[sanitizer]
    sources = [path for path in sorted(SOURCES.glob("*.cpp")) if not (is_portable and "_avx" in path.name)]
    objects = [folder / f"{path.stem}.o" for path in (STRESS, *sources)]

    def compiled(source: Path, target: Path) -> None:
        done = _compile(sanitizer, "-c", source, "-o", target)
        assert not done.returncode, f"{source.name} does not compile:\n{done.stderr[-2000:]}"

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(compiled, (STRESS, *sources), objects))
    done = _compile(sanitizer, *objects, "-o", folder / "stress")
    assert not done.returncode, done.stderr[-2000:]
    return folder / "stress"


def _compile(sanitizer: str, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [str(compiler()), *FLAGS, *SANITIZERS[sanitizer], *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, encoding="utf-8", check=False)


def main() -> None:
    """Run the stress program under every sanitizer."""
    for sanitizer in SANITIZERS:
        done = run_stress(sanitizer)
        print(f"{sanitizer}: {done.stdout}{done.stderr}", end="")
        if done.returncode:
            raise SystemExit(1)


if __name__ == "__main__":
    main()
