"""Jobs of several ranks on this machine, as a program that prints the outcome of each as a line of JSON.

    python -m tests.training.rank_jobs FOLDER JOB... [--steps N]

A job forks its ranks, which meet in a file and exchange tensors over loopback. It trains nothing itself,
because threads that training starts do not live on in a fork. `--steps 50` is the acceptance test, with all
combinations; the tests take fewer of both.
"""

from __future__ import annotations

import argparse
import faulthandler
import json
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

# Imported once here and not by every rank: what DDP, FSDP2 and torch.distributed.checkpoint import.
import torch._dynamo.utils  # noqa: F401
import torch.distributed.checkpoint  # noqa: F401
import torch.distributed.fsdp  # noqa: F401

from regard import ranks
from regard.checkpoints.folder import load_model
from regard.errors import RegardError
from regard.training.events import StepDone
from regard.training.trainer import Trainer
from tests.training import toy

Outcome = dict[str, Any]
COMBINATIONS = [(strategy, optimizer) for strategy in ("ddp", "fsdp") for optimizer in ("adamw", "muon")]
TIMEOUT = 20.0


def fork(folder: Path, count: int, work: Callable[[], Any]) -> list[int]:
    """Run `work` on ranks; the exit code of each."""
    folder.mkdir(parents=True)

    def run(rank: int) -> int:
        place = dict(RANK=rank, LOCAL_RANK=rank, WORLD_SIZE=count, MASTER_ADDR="127.0.0.1", MASTER_PORT=1)
        os.environ.update({name: str(value) for name, value in place.items()})
        try:
            with ranks.joined(timeout=TIMEOUT, rendezvous=f"file://{folder.absolute()}/store"):
                torch.save(work(), folder / f"{rank}.pt")
        except RegardError as error:
            (folder / f"{rank}.error").write_text(str(error))
            return error.exit_code
        except BaseException:
            traceback.print_exc()
            return 99
        return 0

    children = [toy.in_a_child(lambda rank=rank: run(rank)) for rank in range(count)]
    return [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]


def on_ranks(folder: Path, count: int, work: Callable[[], Any]) -> list[Any]:
    """What `work` returned on each rank."""
    codes = fork(folder, count, work)
    assert not any(codes), codes
    return [torch.load(folder / f"{rank}.pt") for rank in range(count)]


def trainer(out: Path | None, dtype: torch.dtype = torch.float32, dropout: float = 0.0, **values) -> Trainer:
    """A Trainer of a toy task; every step has 4 micro-batches of which each rank computes its share."""
    make = toy.module
    toy.module = lambda **changes: make(**changes).to(dtype)
    try:
        settings = {"gradient_accumulation": 4, "save_every": 4, "validate_every": 5, **values}
        return toy.trainer(out, settings, dropout=dropout)
    finally:
        toy.module = make


def trained(run: Trainer, resume: bool = False) -> dict[str, Any]:
    """The whole weights after training, and the losses of all steps."""
    losses: list[float] = []
    run.observers.append(lambda event: losses.append(event.loss) if isinstance(event, StepDone) else None)
    if resume:
        assert run.resume()
    run.train()
    with run.averaged() as module:
        weights = {name: tensor.clone() for name, tensor in module.state_dict().items()}
    return {"weights": weights, "losses": losses}


def distance(one: dict[str, Any], other: dict[str, Any]) -> float:
    """The largest relative difference of a weight."""
    pairs = [(tensor, other["weights"][name]) for name, tensor in one["weights"].items()]
    return max(float((a - b).norm() / b.norm().clamp_min(1e-12)) for a, b in pairs)


def are_equal(one: dict[str, Any], other: dict[str, Any]) -> bool:
    return all(torch.equal(tensor, other["weights"][name]) for name, tensor in one["weights"].items())


def parity(folder: Path, steps: int) -> Outcome:
    """Weights in float64 and losses in float32 on 2 and 4 ranks, compared with those of one process.

    The acceptance of 50 steps takes every combination; fewer steps take those that differ most.
    """
    outcome: Outcome = {}
    few = {2: [("ddp", "adamw"), ("fsdp", "muon")], 4: [("ddp", "muon"), ("fsdp", "adamw")]}
    for dtype, label in ((torch.float64, "weights"), (torch.float32, "losses")):

        def of(strategy: str, optimizer: str) -> dict[str, Any]:
            values = dict(steps=steps, strategy=strategy, optimizer=optimizer)
            return trained(trainer(None, dtype, **values))  # noqa: B023

        both = lambda of=of: {optimizer: of("ddp", optimizer) for optimizer in ("adamw", "muon")}  # noqa: E731
        (alone,) = on_ranks(folder / f"{label}1", 1, both)
        for count in (2, 4) if steps >= 50 or label == "weights" else (2,):
            which = COMBINATIONS if steps >= 50 else few[count]
            work = lambda which=which, of=of: [of(*one) for one in which]  # noqa: E731
            for results in on_ranks(folder / f"{label}{count}", count, work):
                for (strategy, optimizer), result in zip(which, results, strict=True):
                    name, base = f"{count} {strategy} {optimizer} {label}", alone[optimizer]
                    pairs = zip(result["losses"], base["losses"], strict=True)
                    far = distance(result, base) if label == "weights" else max(abs(a - b) for a, b in pairs)
                    outcome[name] = max(far, outcome.get(name, 0.0))
    return outcome


MODES = {
    "ddp": dict(strategy="ddp", optimizer="adamw", averaging="last", last=2, every=2),
    "fsdp": dict(strategy="fsdp", optimizer="muon", averaging="ema"),
}


def life(folder: Path, steps: int) -> Outcome:
    """Runs with dropout on 2 ranks, in one go and ended by SIGKILL within a step, by SIGTERM, and resumed."""
    outcome: Outcome = {}
    for name, mode in MODES.items():
        place = folder / name

        def run(out: str, again: bool = False, kills: bool = False, signals: bool = False) -> dict[str, Any]:
            made = trainer(place / out, dropout=0.1, **mode, steps=8)  # noqa: B023
            if ranks.rank() == 1 and kills:
                kill_in_step(made, 7)
            if ranks.rank() == 1 and signals:
                made.observers.append(toy.kill_after(6, signal.SIGTERM, times=2))
            return trained(made, again)

        straight, same = on_ranks(place / "1", 2, lambda: run("straight"))
        stopped, saved = place / "stopped", place / "stopped" / "checkpoints"
        outcome[f"{name} codes"] = fork(place / "2", 2, lambda: run("stopped", kills=True))
        outcome[f"{name} error"] = (place / "2" / "0.error").read_text()
        outcome[f"{name} saved after the kill"] = sorted(path.name for path in saved.iterdir())
        outcome[f"{name} codes of a signal"] = fork(
            place / "3", 2, lambda: run("stopped", again=True, signals=True)
        )
        outcome[f"{name} saved after the signal"] = sorted(path.name for path in saved.iterdir())
        resumed, _ = on_ranks(place / "4", 2, lambda: run("stopped", again=True))
        newest = saved / "step-00000008"
        model = {f"model.{key}": value for key, value in load_model(newest).state_dict().items()}
        outcome |= {
            f"{name} ranks agree": are_equal(straight, same),
            f"{name} resumes bit-equal": are_equal(straight, resumed),
            f"{name} model folder": are_equal(resumed, {"weights": model}),
            f"{name} files": sorted(path.name for path in newest.iterdir()),
            f"{name} left over": [path.name for path in stopped.rglob(".*")],
        }
    return outcome


def kill_in_step(run: Trainer, step: int) -> None:
    """End this process without notice after the first micro-batch of a step."""
    backward = run.parallel.backward

    def killed(group: Any, is_last: bool) -> Any:
        losses = backward(group, is_last)
        if run.progress.step == step - 1:
            os.kill(os.getpid(), signal.SIGKILL)
        return losses

    run.parallel.backward = killed  # type: ignore[method-assign]


def worlds(folder: Path, steps: int) -> Outcome:
    """One run on changing numbers of ranks with changing strategies, beside a run of one process."""
    values = dict(optimizer="muon", averaging="ema")
    lives = ((1, "ddp"), (2, "fsdp"), (4, "ddp"), (2, "ddp"), (4, "fsdp"), (1, "ddp"))
    lives = lives if steps >= 50 else ((1, "ddp"), (2, "fsdp"), (1, "ddp"), (4, "ddp"))
    straight = lambda: trained(trainer(None, torch.float64, steps=2 * len(lives), **values))  # noqa: E731
    (whole,) = on_ranks(folder / "whole", 1, straight)
    for life, (count, strategy) in enumerate(lives):

        def run() -> dict[str, Any]:
            changes = {**values, "steps": 2 * life + 2, "strategy": strategy}  # noqa: B023
            return trained(trainer(folder / "run", torch.float64, **changes), life > 0)  # noqa: B023

        result = on_ranks(folder / str(life), count, run)[-1]
    return {"distance": distance(result, whole)}


def short_batches(folder: Path, steps: int) -> Outcome:
    """Batches of one or two rows on 4 ranks, of which some have none; and activation checkpointing."""

    def run(**values: Any) -> dict[str, Any]:
        made = trainer(None, torch.float64, steps=6, **values)
        made.source = toy.batches(count=5, tokens=16)
        return trained(made)

    (alone,) = on_ranks(folder / "alone", 1, run)
    work = lambda: [  # noqa: E731
        run(strategy=strategy, activation_checkpointing=again)
        for strategy, again in (("ddp", False), ("fsdp", True))
    ]
    ddp, fsdp = on_ranks(folder / "ranks", 4, work)[3]
    return {"ddp": distance(ddp, alone), "fsdp with activation checkpointing": distance(fsdp, alone)}


JOBS = {job.__name__: job for job in (parity, life, worlds, short_batches)}


def ready_to_fork() -> None:
    """Load what every rank needs, and use loopback only."""
    torch.set_num_threads(1)
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    os.environ["TOKENIZERS_PARALLELISM"] = "false"  # its threads would not live on in a child
    toy.trainer(None, {})  # brings in, once for all ranks, what torch loads with the first optimizer


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("jobs", nargs="+", choices=JOBS)
    parser.add_argument("--steps", type=int, default=6)
    given = parser.parse_args()
    faulthandler.enable()
    ready_to_fork()
    for name in given.jobs:
        start = time.monotonic()
        outcome = JOBS[name](given.folder / name, given.steps)
        print(json.dumps({"job": name, **outcome}), flush=True)
        print(f"{name}: {time.monotonic() - start:.0f} s", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
