"""Toy tasks to train on, from tests and, as a program, in processes of their own."""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import signal
import sys
import time
from pathlib import Path

import numpy as np
import torch

from regard.checkpoints.atomic_folders import REPLACED
from regard.errors import RegardError
from regard.model.config import ModelConfig
from regard.model.transformer import build_model
from regard.text.batches import Batches, parallel_batches
from regard.text.token_files import Data, Sequences
from regard.text.tokenizer import Tokenizer, Tokenizers
from regard.training.checkpoint_manager import CheckpointManager
from regard.training.events import StepDone, Validation
from regard.training.objectives import Translation
from regard.training.settings import LoopSettings, TrainingSettings
from regard.training.trainer import Trainer

LETTERS = "a b c d e f g h i j"


def tokenizer() -> Tokenizer:
    return Tokenizer.train([LETTERS], kind="word")


def pairs(task: str, count: int, seed: int, longest: int = 6) -> tuple[Data, Tokenizers]:
    """Lists of letters and the same lists, copied or sorted."""
    words = tokenizer()
    letters = words.encode(LETTERS)
    draw = np.random.default_rng(seed)
    sources = [draw.choice(letters, draw.integers(2, longest + 1)).tolist() for _ in range(count)]
    targets = [sorted(one) if task == "sort" else one for one in sources]
    data = Data({"source": Sequences.of(sources), "target": Sequences.of(targets)})
    return data, Tokenizers.joint(words)


TABLES = {
    name: type(field.default)
    for name, field in TrainingSettings.model_fields.items()
    if name not in LoopSettings.model_fields
}


def batches(task: str = "copy", count: int = 200, tokens: int = 128, seed: int = 1) -> Batches:
    data, tokenizers = pairs(task, count, seed)
    return parallel_batches(data, tokenizers, batch_tokens=tokens, seed=seed)


def module(seed: int = 1, **changes) -> Translation:
    torch.manual_seed(seed)
    values = dict(
        vocabulary=tokenizer().vocabulary, width=16, layers=1, heads=2, feed_forward_width=32, context=16,
        residual="pre", dropout=0.1,
    )  # fmt: skip
    return Translation(build_model(ModelConfig(**{**values, **changes})), label_smoothing=0.0)


def held_out_loss(task: str = "copy"):
    """A validation on pairs that training does not see: loss and perplexity of a token."""
    data, tokenizers = pairs(task, 60, seed=99)

    def validate(objective) -> Validation:
        total = count = 0.0
        for batch in parallel_batches(data, tokenizers, batch_tokens=1024):
            loss, tokens = objective(batch)
            total, count = total + loss.item(), count + tokens
        torch.rand(3)  # a validation may draw, as sampling does
        return Validation({"loss": total / count, "perplexity": math.exp(total / count)}, samples=["a b"])

    return validate


def settings(**values) -> TrainingSettings:
    """Settings by the names of their fields alone; a text for a table is the name of its variant."""
    nested: dict = {}
    for key, value in values.items():
        if key in LoopSettings.model_fields:
            nested[key] = value
        elif key in TABLES:
            nested.setdefault(key, {})["name"] = value
        else:
            (table,) = (name for name, owner in TABLES.items() if key in owner.model_fields)
            nested.setdefault(table, {})[key] = value
    return TrainingSettings(**nested)


def trainer(out: Path | None, values: dict, observers=(), **model) -> Trainer:
    chosen = settings(**{"steps": 10, "warmup_steps": 2, "save_every": 5, "validate_every": 4, **values})
    tokenizers = Tokenizers.joint(tokenizer())
    return Trainer(
        module(**model), batches(), chosen, out, held_out_loss(), observers, tokenizers, "translation"
    )


def kill_after(step: int, number: int, times: int = 1):
    """An observer that sends this very process a signal when a step is done."""

    def observe(event) -> None:
        if isinstance(event, StepDone) and event.step == step:
            for _ in range(times):
                os.kill(os.getpid(), number)

    return observe


def kill_between_renames() -> None:
    """End this process when the old folder is set aside and the new one is not in its place yet."""
    rename = Path.rename

    def killed(path: Path, target: Path) -> Path:
        done = rename(path, target)
        if target.name.startswith(REPLACED):
            os._exit(9)
        return done

    Path.rename = killed


def train(out: Path, values: dict, resume: bool = False, observers=()) -> int:
    """Train as a program does; the exit code."""
    torch.set_num_threads(1)
    try:
        run = trainer(out, values, observers)
        if resume:
            run.resume()
        run.train()
    except RegardError as error:
        print("error:", error, file=sys.stderr)
        return error.exit_code
    return 0


def in_a_child(work) -> int:
    """Fork, do some work there, and give the child's number."""
    child = os.fork()
    if child:
        return child
    try:
        os._exit(work())
    finally:
        os._exit(99)


def wait_for(happened, seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not happened():
        assert time.monotonic() < end
        time.sleep(0.002)


def kill_at_random(out: Path, values: dict, times: int, seed: int) -> None:
    """Kill a run that saves at every step, again and again, and let it resume by itself each time."""
    instants = random.Random(seed)
    os.environ["TOKENIZERS_PARALLELISM"] = "false"  # its threads would not live on in a child
    trainer(None, values)  # brings in, once for all children, what torch loads with the first optimizer
    for attempt in range(times):
        folder = out / str(attempt)
        child = in_a_child(lambda folder=folder: train(folder, values))
        if attempt % 2:  # on a slow machine, too, some are killed while they save
            wait_for(lambda folder=folder: CheckpointManager(folder).steps())
        time.sleep(instants.uniform(0.0, 0.4))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        reached = max(CheckpointManager(folder).steps(), default=0)
        more = {**values, "steps": reached + 2}
        _, status = os.waitpid(in_a_child(lambda: train(folder, more, resume=True)), 0)  # noqa: B023
        left = [path.name for path in folder.rglob(".*")]
        print(json.dumps({"reached": reached, "code": os.waitstatus_to_exitcode(status), "left": left}))


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("out", type=Path)
    parser.add_argument("settings", type=json.loads)
    parser.add_argument("--resume", action="store_true")
    parser.add_argument("--kill-after", type=int, nargs=3, metavar=("STEP", "SIGNAL", "TIMES"))
    parser.add_argument("--kill-at-random", type=int, nargs=2, metavar=("TIMES", "SEED"))
    parser.add_argument("--kill-between-renames", action="store_true")
    given = parser.parse_args()
    if given.kill_between_renames:
        kill_between_renames()
    if given.kill_at_random:
        kill_at_random(given.out, given.settings, *given.kill_at_random)
        return 0
    observers = [kill_after(*given.kill_after)] if given.kill_after else []
    return train(given.out, given.settings, given.resume, observers)


if __name__ == "__main__":
    sys.exit(main())
