"""Commands on several ranks, as a program that prints the outcome of each job as JSON: `FOLDER JOB...`.

commands   train, resume, evaluate and translate on 2 ranks and in one process: the same files
readings   complete and classify on 2 ranks and in one process: the same files
hang       a rank that stops answers no more: the other one ends within the timeout
two_hosts  torchrun on two hosts, each a network namespace of its own; needs root
speed      tokens per second of 2 replicas and of 2 ranks, in turns; means something on two idle cores
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import re
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import torch

from regard import ranks
from regard.checkpoints.untrusted_files import MappedWeights, check_manifest
from regard.cli.app import run
from regard.runs.metrics import read_metrics
from regard.runs.run import train
from regard.runs.toml import merged
from regard.runs.toys import builtin_data, small_settings, write_toy
from tests.training import rank_jobs
from tests.training.rank_jobs import on_ranks, ready_to_fork
from tests.training.toy import kill_after

RECIPE = """
task = "translation"
model = {{ layers = 1, width = 16, heads = 2, feed_forward_width = 32, context = 16 }}
training = {{ steps = {steps}, batch_tokens = 256, gradient_accumulation = 2, threads = 1 }}
tokenizer = {{ kind = "word" }}
checkpoints = {{ save_every = {save_every} }}
validation = {{ validate_every = {save_every}, sentences = 30, monitor = "bleu" }}
distributed = {{ strategy = "{strategy}", timeout = 30 }}
data = {{ source = "{source}", target = "{target}" }}
"""


def write_recipe(folder: Path, strategy: str = "ddp", steps: int = 6, save_every: int = 3) -> Path:
    """A recipe for a toy task, with its text."""
    files = write_toy(folder, pairs=300)
    path = folder / "recipe.toml"
    values = dict(strategy=strategy, steps=steps, save_every=save_every)
    path.write_text(RECIPE.format(**values, **files), encoding="utf-8")
    return path


def call(*arguments: object) -> str:
    """The output of a command, which must succeed."""
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        code = run(list(map(str, arguments)))
    assert code == 0, (arguments, code)
    return output.getvalue()


def weights(out: Path, step: int) -> dict[str, str]:
    """The digest of each weight in a checkpoint, which must be undamaged."""
    folder = out / "checkpoints" / f"step-{step:08}"
    check_manifest(folder)
    stored = MappedWeights(folder / "model.safetensors")
    return {name: hashlib.sha256(array.tobytes()).hexdigest() for name, array in stored.items()}


def files_of(out: Path) -> set[str]:
    """The names of all files but the shards, for any step."""
    names = {path.relative_to(out).as_posix() for path in out.rglob("*") if path.is_file()}
    return {re.sub(r"step-\d+", "step-N", name) for name in names if "/shard-" not in name}


def commands(folder: Path) -> dict[str, Any]:
    """Whether commands on 2 ranks give the same files as in one process."""
    folder.mkdir(parents=True)
    recipe = write_recipe(folder, "fsdp")
    source, target = folder / "copy.source", folder / "copy.target"
    both, alone = folder / "both", folder / "alone"

    def train_and_resume() -> str:
        call("train", recipe, "--out", both, "--quiet")
        return call("train", "--resume", both, "--set", "training.steps=9", "--quiet")

    def evaluate_and_translate(name: str) -> str:
        files = ("--source", source, "--target", target)
        scores = call("evaluate", both, *files, "--outputs", folder / f"{name}.evaluated", "--json")
        call("translate", both, "--file", source, "--out", folder / f"{name}.translated", "--window", 100)
        return scores

    printed = on_ranks(folder / "1", 2, train_and_resume)
    scores = on_ranks(folder / "2", 2, lambda: evaluate_and_translate("both"))
    call("train", recipe, "--out", alone, "--quiet", "--set", "training.steps=9")
    once = evaluate_and_translate("alone")
    same = [
        (folder / f"both.{kind}").read_bytes() == (folder / f"alone.{kind}").read_bytes()
        for kind in ("evaluated", "translated")
    ]
    return {
        "printed": printed,
        "scores are equal": scores[0] == once,
        "evaluated and translated": same,
        "lines": len((folder / "both.translated").read_text().splitlines()),
        "files differ by": sorted(files_of(both) ^ files_of(alone)),
        "metrics": [json.loads(line)["event"] for line in (both / "metrics.jsonl").open()].count("step"),
    }


def readings(folder: Path) -> dict[str, Any]:
    """Whether completions and labels of 2 ranks are those of one process."""
    folder.mkdir(parents=True)
    small = merged(small_settings(), {"training": {"threads": 1, "steps": 1}, "validation": {"samples": 0}})
    for name, task in (("language-model", "language-modeling"), ("classification", "classification")):
        files = builtin_data(task, folder)
        train(name, **files, out=folder / name, settings=small, show=False)  # pyright: ignore[reportArgumentType]
    texts = folder / "texts"
    texts.write_text("".join(f"a b {'c ' * (n % 5)}\n" for n in range(50)), encoding="utf-8")

    def read(name: str) -> None:
        options = ("--file", texts, "--window", 20, "--out")
        call("complete", folder / "language-model", *options, folder / f"{name}.completed", "--max-tokens", 5)
        call("classify", folder / "classification", *options, folder / f"{name}.classified")

    on_ranks(folder / "1", 2, lambda: read("both"))
    read("alone")
    return {
        kind: (folder / f"both.{kind}").read_bytes() == (folder / f"alone.{kind}").read_bytes()
        and len((folder / f"both.{kind}").read_text(encoding="utf-8").splitlines()) == 50
        for kind in ("completed", "classified")
    }


def hang(folder: Path) -> dict[str, Any]:
    """What the first rank does when the second one has stopped after a step."""
    folder.mkdir(parents=True)
    rank_jobs.TIMEOUT = 3.0

    def work() -> None:
        run = rank_jobs.trainer(None, steps=8)
        if ranks.rank() == 1:
            (folder / "stopped").write_text(str(os.getpid()))
            run.observers.append(kill_after(3, signal.SIGSTOP))
        try:
            run.train()
        except RuntimeError:
            os.kill(int((folder / "stopped").read_text()), signal.SIGKILL)
            raise

    start = time.monotonic()
    codes = rank_jobs.fork(folder / "ranks", 2, work)
    return {
        "codes": codes,
        "error": (folder / "ranks" / "0.error").read_text(encoding="utf-8"),
        "seconds": time.monotonic() - start,
    }


@contextlib.contextmanager
def hosts() -> Iterator[list[list[str]]]:
    """Two network namespaces, joined by a cable; a command that enters each."""
    waiting = [subprocess.Popen(["unshare", "-n", "sleep", "600"]) for _ in range(2)]
    try:
        time.sleep(0.5)
        enter = [["nsenter", "-t", str(process.pid), "-n"] for process in waiting]
        first, second = (str(process.pid) for process in waiting)
        link = [
            "ip",
            "link",
            "add",
            "cable",
            "netns",
            first,
            "type",
            "veth",
            "peer",
            "cable",
            "netns",
            second,
        ]
        subprocess.run(link, check=True)
        for number, inside in enumerate(enter, 1):
            for change in (f"addr add 10.77.0.{number}/24 dev cable", "link set cable up", "link set lo up"):
                subprocess.run([*inside, "ip", *change.split()], check=True)
        yield enter
    finally:
        for process in waiting:
            process.kill()
            process.wait()


def two_hosts(folder: Path) -> dict[str, Any]:
    """Whether two hosts with a process each end with the weights of 2 processes on one."""
    folder.mkdir(parents=True)
    recipe = write_recipe(folder, "fsdp")
    environment = {**os.environ, "GLOO_SOCKET_IFNAME": "cable", "OMP_NUM_THREADS": "1"}
    with hosts() as enter:
        launched = [
            subprocess.Popen(
                [
                    *inside, sys.executable, "-m", "torch.distributed.run",
                    "--nnodes=2", "--nproc-per-node=1", f"--node-rank={number}",
                    "--master-addr=10.77.0.1", "--master-port=29400", f"--local-addr=10.77.0.{number + 1}",
                    "-m", "regard", "train", str(recipe), "--out", str(folder / "hosts"), "--quiet",
                ],
                env=environment,
            )
            for number, inside in enumerate(enter)
        ]  # fmt: skip
        codes = [process.wait(timeout=300) for process in launched]
    on_ranks(folder / "1", 2, lambda: call("train", recipe, "--out", folder / "one", "--quiet"))
    return {"codes": codes, "same weights": weights(folder / "hosts", 6) == weights(folder / "one", 6)}


def speed(folder: Path, rounds: int = 7) -> dict[str, Any]:
    """Tokens per second of the recipe multi30k, by replicas (threads) and by ranks (processes, gloo)."""
    folder.mkdir(parents=True)
    random, words = Random(1), [f"w{number}" for number in range(4000)]
    rows = [" ".join(random.choices(words, k=random.randint(6, 20))) for _ in range(4000)]
    text = folder / "text"
    text.write_text("".join(f"{row}\n" for row in rows), encoding="utf-8")
    short = ["tokenizer.kind=word", "training.steps=20", "schedule.warmup_steps=5", "validation.sentences=0"]
    given = ["train", "multi30k", "--source", text, "--target", text, "--quiet"]
    given += [part for setting in short for part in ("--set", setting)]
    torchrun = ["torch.distributed.run", "--standalone", "--nproc-per-node=2", "-m"]
    ways = {"replicas": ([], "2"), "ranks": (torchrun, "1")}
    found: dict[str, list[float]] = {name: [] for name in ways}
    for number in range(rounds):
        for name, (launcher, threads) in ways.items():
            out = folder / f"{name}-{number}"
            command = [sys.executable, "-m", *launcher, "regard", *map(str, given), "--out", str(out)]
            environment = {**os.environ, "OMP_NUM_THREADS": threads, "GLOO_SOCKET_IFNAME": "lo"}
            subprocess.run(command, env=environment, check=True, capture_output=True)
            steps = [line for line in read_metrics(out / "metrics.jsonl") if line["event"] == "step"][5:]
            found[name].append(statistics.median(step["tokens"] / step["seconds"] for step in steps))
    ratios = [ours / theirs for ours, theirs in zip(found["replicas"], found["ranks"], strict=True)]
    medians = {name: round(statistics.median(speeds)) for name, speeds in found.items()}
    return {**medians, "ratio": [round(quarter, 2) for quarter in statistics.quantiles(ratios)]}


JOBS = {job.__name__: job for job in (commands, readings, hang, two_hosts, speed)}


if __name__ == "__main__":
    torch.set_num_threads(1)
    ready_to_fork()
    for name in sys.argv[2:]:
        print(json.dumps({"job": name, **JOBS[name](Path(sys.argv[1]) / name)}), flush=True)
