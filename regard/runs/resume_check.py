"""Check that an interrupted run ends bit for bit like an uninterrupted one on this machine.

One process trains N steps. Beside it the same run is ended twice, by SIGTERM and by SIGKILL, each time in
the middle of a step and of an epoch, and goes on in a new process. Then every bit is compared. Where it is
asked for, the run beside it is ended many times instead, each time by SIGKILL while it saves.
"""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from regard.background import module_command
from regard.checkpoints.untrusted_files import MappedWeights, read_json
from regard.errors import SettingError, TrainingError
from regard.runs.recipe import Recipe
from regard.runs.toml import merged
from regard.runs.toys import builtin_data, small_settings
from regard.training.checkpoint_manager import CheckpointManager

FEWEST_STEPS = 6
STEPS_A_KILL = 2  # a life ends with its second save at the latest


@dataclass(frozen=True)
class Verdict:
    """What was compared, and the first difference of the two runs."""

    steps: int
    compared: dict[str, str]  # what, and "equal" or the difference

    @property
    def is_exact(self) -> bool:
        """Whether both runs are equal."""
        return all(result.startswith("equal") for result in self.compared.values())

    def __str__(self) -> str:
        lines = [f"{what:22}{result}" for what, result in self.compared.items()]
        end = "exact: the interrupted run is the same run" if self.is_exact else "NOT exact"
        return "\n".join([*lines, f"{end}, {self.steps} steps"])


def verify_resume(
    recipe: str | Path,
    folder: Path,
    settings: dict[str, Any] | None = None,
    steps: int = 60,
    say: Callable[[str], None] = lambda line: None,
    kills: int = 0,
) -> Verdict:
    """Train a recipe with and without interruptions in temporary folders, and compare every bit.

    Where settings name no files, the data is a built-in toy and the model small. With `kills` the run saves
    at every step, takes as many steps as that needs, and is ended so often while it saves.
    """
    if steps < FEWEST_STEPS:
        raise SettingError(f"steps ({steps}) must be {FEWEST_STEPS} or more, to be interrupted twice")
    steps = max(steps, STEPS_A_KILL * kills + FEWEST_STEPS) if kills else steps
    file = _write_recipe(recipe, folder, settings or {}, steps, 1 if kills else max(1, steps // 4))
    say(f"{steps} steps in one go")
    _run(file, folder, "straight")
    kill_result = {}
    if kills:
        kill_result["killed while saving"] = _kill_often(file, folder, kills, say)
    else:
        _interrupt_twice(file, folder, steps, say)
    say(f"a new process, to step {steps}")
    _run(file, folder, "interrupted")
    verdict = compare(folder, steps)
    return replace(verdict, compared={**kill_result, **verdict.compared})


def _interrupt_twice(file: Path, folder: Path, steps: int, say: Callable[[str], None]) -> None:
    first, second = steps // 3, 2 * steps // 3
    say(f"the same, ended by SIGTERM inside step {first}")
    _run(file, folder, "interrupted", (str(first), str(int(signal.SIGTERM))), 143)
    say(f"a new process, ended by SIGKILL inside step {second}")
    _run(file, folder, "interrupted", (str(second), str(int(signal.SIGKILL))), -signal.SIGKILL)


def _kill_often(file: Path, folder: Path, kills: int, say: Callable[[str], None]) -> str:
    """Kill a run while it saves, `kills` times; each time it must resume from the last good checkpoint."""
    saves, trace = CheckpointManager(folder / "interrupted"), folder / "interrupted.trace"
    for life in range(1, kills + 1):
        good = saves.newest_good() if saves.checkpoint_folder.is_dir() else None
        reached = int(good.name.removeprefix("step-")) if good else 0
        seen = trace.stat().st_size if trace.exists() else 0
        say(f"life {life} of {kills}, from step {reached}, ended by SIGKILL while it saves")
        _run(file, folder, "interrupted", ("saving", str(life)), -signal.SIGKILL)
        begun = _first_step(trace, seen)
        if begun != reached + 1:
            return f"life {life} went on with step {begun}, and step {reached} was saved"
    return f"equal ({kills} of {kills} went on by themselves)"


def compare(folder: Path, steps: int) -> Verdict:
    """Every bit of the two runs' last checkpoints, and every step they took."""
    ends = [folder / name / "checkpoints" / f"step-{steps:08}" for name in ("straight", "interrupted")]
    states = [MappedWeights(end / "training.safetensors") for end in ends]
    values = [read_json(end / "training.json") for end in ends]
    traces = [_read_trace(folder / f"{name}.trace") for name in ("straight", "interrupted")]
    results = {
        "weights": _tensors("", *(MappedWeights(end / "model.safetensors") for end in ends)),
        "optimizer": _tensors("optimizer/", *states),
        "averages": _tensors("average/", *states),
        "trained weights": _tensors("weights/", *states),
        "random generators": _both(
            _tensors("random/", *states), _values(*(value["random"] for value in values))
        ),
        "place in the data": _values(*(value["source"] for value in values)),
        "progress": _values(*(value["progress"] for value in values)),
        "order of examples": _steps(traces, steps, "another batch", lambda seen: seen[1]),
        "losses": _steps(traces, steps, "another loss", lambda seen: seen[2:]),
    }
    return Verdict(steps, {what: verdict for what, verdict in results.items() if verdict})


def _write_recipe(
    recipe: str | Path, folder: Path, settings: dict[str, Any], steps: int, save_every: int
) -> Path:
    plain = Recipe.load(recipe, settings)
    files = ("source", "tsv", "text", "labelled")
    if all(getattr(plain.data, name) is None for name in files):
        small = merged(small_settings(), {"data": builtin_data(plain.task, folder)})
        settings = merged(small, settings)
    length = {
        "training": {"steps": steps},
        "checkpoints": {"save_every": save_every, "keep_checkpoints": 2},
        "validation": {"validate_every": max(1, steps // 2), "early_stopping_patience": steps},
    }
    whole = Recipe.load(recipe, merged(settings, length))
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "recipe.toml"
    file.write_text(whole.to_toml(), encoding="utf-8")
    return file


def _run(file: Path, folder: Path, name: str, ending: tuple[str, ...] = (), expected: int = 0) -> None:
    """One process of a run; ending it otherwise than expected is a failure."""
    command = [*module_command("regard.runs.crash_probe"), file, folder / name, folder / f"{name}.trace"]
    done = subprocess.run([*map(str, command), *ending], capture_output=True, text=True, encoding="utf-8")
    if done.returncode != expected:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise TrainingError(f"the run {name} ended with {done.returncode}, not {expected}: {last}")


def _first_step(trace: Path, place: int) -> int:
    """The first step recorded after a position of the file."""
    with trace.open("rb") as file:
        file.seek(place)
        return json.loads(file.readline())[0]


def _read_trace(path: Path) -> dict[int, list[Any]]:
    """What each step saw; one that was done again must have seen the same, or it is marked."""
    steps: dict[int, list[Any]] = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        try:
            seen = json.loads(line)
        except ValueError:  # cut short by SIGKILL
            continue
        before = steps.setdefault(seen[0], seen)
        if before != seen:
            steps[seen[0]] = [seen[0], *(f"{a} then {b}" for a, b in zip(before[1:], seen[1:], strict=True))]
    return steps


def _steps(
    traces: list[dict[int, list[Any]]], steps: int, what: str, part: Callable[[list[Any]], Any]
) -> str:
    straight, other = traces
    for step in range(1, steps + 1):
        if step not in straight or step not in other:
            return f"step {step} was never seen"
        if part(straight[step]) != part(other[step]):
            return f"{what} at step {step}: {part(straight[step])} and {part(other[step])}"
    return f"equal ({steps} steps)"


def _tensors(prefix: str, left: MappedWeights, right: MappedWeights) -> str:
    """Equal, or the first tensor that is not; empty where there is none of that name."""
    names = sorted({*left, *right})
    names = [name for name in names if name.startswith(prefix)]
    for name in names:
        if name not in left or name not in right:
            return f"{name} is in one run only"
        if left[name].dtype != right[name].dtype or left[name].tobytes() != right[name].tobytes():
            return f"{name} differs"
    return f"equal ({len(names)} tensors)" if names else ""


def _values(left: Any, right: Any) -> str:
    return "equal" if left == right else "differs"


def _both(left: str, right: str) -> str:
    return left if not left.startswith("equal") else right if right != "equal" else left
