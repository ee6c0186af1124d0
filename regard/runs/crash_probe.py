"""A run in its own process that records its losses and batches and can kill itself while it saves.

    python -m regard.runs.crash_probe RECIPE.toml OUT TRACE [STEP SIGNAL | saving SEED]

Each step's loss and a digest of its batch go to TRACE. With STEP, the signal comes while that step's batch
is fetched: inside the step, which must then be as if it had never begun. With saving, SIGKILL comes at an
instant of a save that SEED draws.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import fields
from hashlib import sha256
from pathlib import Path
from random import Random
from threading import Timer
from typing import Any

import numpy as np

from regard.errors import Interrupted
from regard.runs.recipe import Recipe
from regard.runs.run import finish, prepare, prepare_again
from regard.training.events import Event, StepDone


def main(arguments: list[str]) -> int:
    """Run and return the exit code."""
    recipe, out, trace, *ending = arguments
    started = (Path(out) / "recipe.toml").exists()
    run = prepare_again(out) if started else prepare(Recipe.load(Path(recipe)), Path(out))
    with Path(trace).open("a", encoding="utf-8", buffering=1) as file:
        recorder = StepRecorder(file.write)
        source: Any = run.trainer.source
        if ending[:1] == ["saving"]:
            kill_while_saving(run.trainer.checkpoints, int(ending[1]))
            ending = []
        source.fetch = recorder.watching(source.fetch, _ender(run.trainer, *map(int, ending)))
        try:
            finish(run, show=False, observers=[recorder], report=False)
        except Interrupted as error:
            return error.exit_code
    return 0


class StepRecorder:
    """An observer that writes the loss of each step beside the digest of the batch it came from."""

    def __init__(self, write: Callable[[str], Any]):
        self.write, self.batch = write, ""

    def __call__(self, event: Event) -> None:
        """A line for each step."""
        if isinstance(event, StepDone):
            seen = [
                event.step,
                self.batch,
                event.loss.hex(),
                event.gradient_norm.hex(),
                event.learning_rate.hex(),
            ]
            self.write(json.dumps(seen) + "\n")

    def watching(self, fetch: Callable[[Any], Any], end: Callable[[], None]) -> Callable[[Any], Any]:
        """A fetch function that also records the digest of each batch."""

        def fetched(step: Any) -> Any:
            batch = fetch(step)
            self.batch = digest(batch)
            end()
            return batch

        return fetched


def digest(batch: Any) -> str:
    """sha256 of every array of a batch."""
    whole = sha256()
    for field in fields(batch):
        whole.update(np.ascontiguousarray(getattr(batch, field.name)).tobytes())
    return whole.hexdigest()


def kill_while_saving(saves: Any, seed: int) -> None:
    """Kill this process at a random moment of its second save; the first save is timed."""
    save, share, took = saves.save, Random(seed).random(), []

    def timed(step: int, write: Any) -> Path:
        begun = time.perf_counter()
        if took:
            Timer(share * took[0], end_now).start()
        path = save(step, write)
        if took:  # quicker than the first: then its end is the instant
            end_now()
        took.append(time.perf_counter() - begun)
        return path

    def end_now() -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    saves.save = timed


def _ender(trainer: Any, step: int = 0, ending: int = 0) -> Callable[[], None]:
    def end() -> None:
        if step and trainer.progress.step + 1 == step:
            os.kill(os.getpid(), ending)

    return end


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
