"""Taking turns: the ratio is of neighbours in time, and the best eager peer is the one that counts."""

import itertools
import json
import subprocess
import sys

import pytest

from regard.bench.turns import Case, Contender, take_turns


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

    contenders = [Contender(name, work(name), compiled=name.endswith("compiled")) for name in seconds]
    return Case("a-case", "things/s", 10.0, lambda: contenders)


def test_the_ratio_is_to_the_best_eager_peer():
    clock = FakeClock()
    outcome = take_turns(case(clock, regard=1.0, slow=4.0, fast=2.0, fast_compiled=0.5), 9, clock)
    assert outcome.best == "fast"
    assert outcome.ratio == pytest.approx(2.0, rel=0.05)
    assert set(outcome.compiled) == {"fast_compiled"}
    assert outcome.spread[0] <= outcome.ratio <= outcome.spread[1]


def test_programs_get_the_agreed_object():
    clock = FakeClock()
    found = take_turns(case(clock, regard=2.0, other=1.0), 7, clock).as_dict()
    assert {"case", "unit", "regard", "peers", "ratio"} <= set(found)
    assert found["ratio"] == pytest.approx(0.5, rel=0.05)
    assert set(found["peers"]) == {"other"}


def test_everybody_warms_up_and_takes_every_turn():
    calls = []
    contenders = [Contender(name, lambda name=name: calls.append(name)) for name in ("regard", "peer")]
    take_turns(Case("c", "u", 1.0, lambda: contenders), turns=6)
    assert calls.count("regard") == calls.count("peer") == 8
    assert calls[4:8] == ["regard", "peer", "peer", "regard"]


def test_the_command_prints_an_object_a_line():
    pytest.importorskip("transformers")
    command = [
        sys.executable,
        "-m",
        "regard",
        "bench",
        "model",
        "--case",
        "lm-small",
        "--turns",
        "4",
        "--json",
    ]
    done = subprocess.run(command, capture_output=True, text=True, encoding="utf-8", check=True)
    found = json.loads(done.stdout)
    assert found["case"] == "lm-small"
    assert found["regard"] > 0
    assert set(found["peers"]) == {"torch.nn.Transformer", "transformers"}


def test_an_unknown_case_is_answered_with_the_nearest():
    command = [sys.executable, "-m", "regard", "bench", "model", "--case", "mt-tyni"]
    done = subprocess.run(command, capture_output=True, text=True, encoding="utf-8", check=False)
    assert done.returncode == 2
    assert done.stderr.strip().startswith("error: unknown case 'mt-tyni'; did you mean mt-tiny?")
