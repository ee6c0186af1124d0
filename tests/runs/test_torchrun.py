"""The command line under torchrun: the same files as in one process, restarts, and signals."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from regard.checkpoints.untrusted_files import check_manifest
from regard.training.checkpoint_manager import CheckpointManager

from .rank_commands import write_recipe

PROJECT = Path(__file__).parents[2]


posix = pytest.mark.skipif(os.name == "nt", reason="ranks are forked")


def outcomes_of(folder: Path, *jobs: str) -> dict[str, dict]:
    """The outcome of each job, from one program."""
    command = [sys.executable, "-m", "tests.runs.rank_commands", str(folder), *jobs]
    done = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, timeout=200)
    assert not done.returncode, done.stderr
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith('{"job"')]
    return {line.pop("job"): line for line in lines}


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory) -> dict[str, dict]:
    """The outcome of the jobs that need no network of their own."""
    return outcomes_of(tmp_path_factory.mktemp("jobs"), "commands", "readings", "hang")


@posix
def test_completions_and_labels_of_two_ranks_are_those_of_one_process(outcomes):
    assert outcomes["readings"] == {"completed": True, "classified": True}


@posix
def test_a_rank_that_hangs_ends_the_others_within_the_timeout(outcomes):
    found = outcomes["hang"]
    assert found["codes"] == [1, -signal.SIGKILL]
    assert "did not answer within 3 s; resume the run" in found["error"]
    assert found["seconds"] < 60


@posix
def test_commands_on_two_ranks_give_the_files_of_one_process(outcomes):
    found = outcomes["commands"]
    assert found["scores are equal"]
    assert found["evaluated and translated"] == [True, True]
    assert found["lines"] == 300
    assert found["files differ by"] == []
    assert found["metrics"] == 9  # of the first rank alone


def own_network() -> list[str]:
    """A command that runs another in a network of its own, which has only loopback."""
    for options in (["-n"], ["-rn"]):
        inside = ["unshare", *options, "sh", "-c", 'ip link set lo up && exec "$@"', "sh"]
        try:
            if not subprocess.run([*inside, "true"], capture_output=True).returncode:
                return inside
        except OSError:
            break
    return []


def has_hosts() -> bool:
    """Whether this process may make network namespaces and join them."""
    tools = all(shutil.which(tool) for tool in ("unshare", "nsenter", "ip"))
    return tools and os.geteuid() == 0 and bool(own_network())


@posix
@pytest.mark.skipif(os.name == "nt" or not has_hosts(), reason="needs root, unshare, nsenter and ip")
def test_two_hosts_train_as_two_processes_on_one_host(tmp_path):
    found = outcomes_of(tmp_path, "two_hosts")["two_hosts"]
    assert found == {"codes": [0, 0], "same weights": True}


class Job:
    """torchrun with 2 processes, in a network of its own."""

    def __init__(self, folder: Path, *arguments: object):
        self.log = folder / "log.txt"
        command = [
            *own_network(), sys.executable, "-m", "torch.distributed.run", "--standalone",
            "--nproc-per-node=2", "--max-restarts=1", "-m", "regard", *map(str, arguments),
        ]  # fmt: skip
        environment = {**os.environ, "GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1"}
        with self.log.open("w") as log:
            self.process = subprocess.Popen(command, cwd=PROJECT, env=environment, stdout=log, stderr=log)

    def told(self) -> str:
        return self.log.read_text(encoding="utf-8")

    def wait_for(self, happened, seconds: float = 120) -> None:
        end = time.monotonic() + seconds
        while not happened():
            assert self.process.poll() is None, self.told()
            assert time.monotonic() < end, self.told()
            time.sleep(0.05)

    def workers(self) -> list[int]:
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        return [int(number) for number in children.read_text(encoding="utf-8").split()]

    def end(self) -> None:
        """End torchrun, which ends its workers."""
        if self.process.poll() is None:
            self.process.terminate()
        try:
            self.process.wait(timeout=60)
        except subprocess.TimeoutExpired:
            self.process.kill()


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="needs /proc")
@pytest.mark.skipif(not own_network(), reason="needs the right to make a network namespace")
def test_a_killed_process_is_restarted_and_a_signal_leaves_one_complete_checkpoint(tmp_path):
    recipe, out = write_recipe(tmp_path, "ddp", steps=1_000_000, save_every=50), tmp_path / "run"
    job, saved = Job(tmp_path, "train", recipe, "--out", out), CheckpointManager(out)
    try:
        job.wait_for(saved.steps)
        os.kill(job.workers()[1], signal.SIGKILL)
        reached = max(saved.steps())
        job.wait_for(lambda: f"going on from step {reached}" in job.told())
        job.wait_for(lambda: max(saved.steps()) > reached)
    finally:
        job.end()
    newest = max(saved.steps())
    check_manifest(saved.path(newest))
    assert not list(saved.checkpoint_folder.glob(".*"))
    told = job.told()
    assert told.count(f"after step {newest}; saved in {saved.path(newest)}") == 1  # by the first process
    assert told.count("parameters; the run is in") == 2  # before and after the restart
