"""`regard bench serve`: what is computed from times, and our server under two clients."""

from __future__ import annotations

import pytest

from regard.bench import serve
from regard.bench.serve import (
    FIRST_TOKEN,
    OURS,
    OUTPUT,
    Server,
    format_outcome,
    outcome,
    percentiles,
    run_case,
)


def test_percentiles_are_those_of_the_sample():
    shares = percentiles([number / 1000 for number in range(1, 1001)])
    assert shares == pytest.approx({"p50": 500, "p95": 950, "p99": 990}, abs=1.1)


def test_the_ratio_is_to_the_best_peer():
    def measured(name, seconds):
        server = object.__new__(Server)
        server.name, server.seconds, server.latencies = name, seconds, [0.01, 0.02]
        return server

    servers = [measured(OURS, [1, 2, 1]), measured("a (x)", [4, 8, 5]), measured("b (y)", [2, 4, 3])]
    values = outcome("case", servers, 10)
    assert values[OURS] == 10
    assert values["ratios"] == {"a (x)": 4, "b (y)": 2}
    assert values["ratio"] == 2
    assert values["peers"] == {"a": 2, "b": 3.3}


def test_our_server_answers_under_load(monkeypatch, tmp_path):
    monkeypatch.setattr(serve, "installed_peers", lambda: ["onnxruntime"])  # it translates nothing
    monkeypatch.setattr(serve, "REQUESTS", {"demo": 8})
    monkeypatch.setattr(serve, "CASES", serve.Registry("case", {"demo-2": ("demo", 2)}))
    values = run_case("demo-2", 2, 1, tmp_path)
    assert values[OURS] > 0
    assert values["ratios"] == {}
    assert values["overhead"] > -1
    assert "requests/s" in format_outcome(values)
    assert OUTPUT == 24


def test_the_time_of_the_first_token(monkeypatch, tmp_path):
    monkeypatch.setattr(serve, "FIRST_TOKENS", 2)
    values = run_case(FIRST_TOKEN, 1, 1, tmp_path)
    assert values[OURS] == values["latency_ms"][OURS]["p50"] > 0
    assert values.keys() >= {"case", "unit", "peers", "ratio"}
    assert "until the first token" in format_outcome(values)
