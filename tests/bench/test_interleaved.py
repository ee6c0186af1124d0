"""Interleaved measurement: the ratio is taken within a round, and the best setting of a peer counts."""

import itertools
import json
import subprocess
import sys

import pytest

from regard.bench.interleaved import Case, Implementation, run_interleaved
from regard.bench.report import format_outcome


class FakeClock:
    """A clock that work moves on."""

    now = 0.0

    def __call__(self):
        return self.now


def case(clock, **seconds):
    """Contenders that take so long, in a machine that gets slower and slower."""
    drift = itertools.count(1)

    def work(name):
        def go():
            clock.now += seconds[name] * (1 + next(drift) / 100)

        return go

    implementations = [
        Implementation(name.partition("_")[0], work(name), name.partition("_")[2]) for name in seconds
    ]
    return Case("a-case", "things/s", 10.0, lambda: implementations)


def test_the_ratio_is_to_the_best_peer_and_to_the_best_eager_one():
    clock = FakeClock()
    outcome = run_interleaved(case(clock, regard=1.0, slow=4.0, fast=2.0, fast_compiled=0.5), 9, clock)
    assert outcome.ratio.theirs == "fast (compiled)"
    assert outcome.ratio.median == pytest.approx(0.5, rel=0.05)
    assert outcome.eager_ratio.theirs == "fast"
    assert outcome.eager_ratio.median == pytest.approx(2.0, rel=0.05)
    low, high = outcome.ratio.quartiles
    assert low <= outcome.ratio.median <= high
    assert "best eager peer, fast: 2.0" in format_outcome(outcome, 1e9)


def test_everybody_counts_at_its_best_setting():
    clock = FakeClock()
    outcome = run_interleaved(case(clock, regard=2.0, regard_compiled=1.0, peer_a=8.0, peer_b=4.0), 7, clock)
    found = outcome.as_dict()
    assert outcome.ratio.ours == "regard (compiled)"
    assert found["peers"] == {"peer": found["all"]["peer (b)"]}
    assert found["regard"] == found["all"]["regard (compiled)"]
    assert found["ratio"] == pytest.approx(4.0, rel=0.05)
    assert found["eager_ratio"] == pytest.approx(2.0, rel=0.05)


def test_without_a_peer_there_is_a_figure_and_no_ratio():
    clock = FakeClock()
    outcome = run_interleaved(case(clock, regard=2.0), 4, clock)
    assert outcome.as_dict()["ratio"] is None
    assert "no peer is installed" in format_outcome(outcome, 1e9)


def test_a_contender_that_keeps_its_own_time_is_believed():
    implementations = [Implementation("regard", lambda: 0.5), Implementation("peer", lambda: 2.0)]
    outcome = run_interleaved(Case("c", "u", 1.0, lambda: implementations), rounds=4)
    assert outcome.speeds == {"regard": 2.0, "peer": 0.5}


def test_contenders_leave_even_where_one_of_them_fails():
    left = []
    implementations = [
        Implementation("regard", lambda: None, close=lambda: left.append("regard")),
        Implementation("peer", lambda: 1 // 0, close=lambda: left.append("peer")),
    ]
    with pytest.raises(ZeroDivisionError):
        run_interleaved(Case("c", "u", 1.0, lambda: implementations))
    assert left == ["regard", "peer"]


def test_programs_get_the_agreed_object():
    clock = FakeClock()
    found = run_interleaved(case(clock, regard=2.0, other=1.0), 7, clock).as_dict()
    assert {"case", "unit", "regard", "peers", "ratio"} <= set(found)
    assert found["ratio"] == pytest.approx(0.5, rel=0.05)
    assert set(found["peers"]) == {"other"}


def test_everybody_warms_up_and_takes_every_turn():
    calls = []
    implementations = [
        Implementation(name, lambda name=name: calls.append(name)) for name in ("regard", "peer")
    ]
    run_interleaved(Case("c", "u", 1.0, lambda: implementations), rounds=6)
    assert calls.count("regard") == calls.count("peer") == 8
    assert calls[4:8] == ["regard", "peer", "peer", "regard"]


@pytest.mark.parametrize("room", ["model", "train"])
def test_the_command_prints_an_object_a_line(room):
    pytest.importorskip("transformers")
    command = [sys.executable, "-m", "regard", "bench", room, "--case", "lm-small", "--rounds", "4", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, encoding="utf-8", check=True)
    found = json.loads(done.stdout)
    assert found["case"] == "lm-small"
    assert found["regard"] > 0
    plain = {"plain GPT loop"} if room == "train" else set()
    assert set(found["peers"]) == {"torch.nn.Transformer", "transformers"} | plain


def test_an_unknown_case_is_answered_with_the_nearest():
    command = [sys.executable, "-m", "regard", "bench", "model", "--case", "mt-tyni"]
    done = subprocess.run(command, capture_output=True, text=True, encoding="utf-8", check=False)
    assert done.returncode == 2
    assert done.stderr.strip().startswith("error: unknown case 'mt-tyni'; did you mean mt-tiny?")
