"""The tables of decoding and of the service: what is written between the markers of a page."""

from pathlib import Path

import pytest

from regard.bench.interleaved import OURS, Case, Implementation, Outcome
from regard.bench.report import bandwidth_shares
from regard.bench.table import decode_table, markers, serve_table, write_between
from regard.cli.app import run
from regard.errors import RegardError


def implementation(name, setting, memory):
    return Implementation(name, lambda: None, setting, memory=memory)


@pytest.fixture
def outcome():
    case = Case("tiny-1", "tokens/s", 24.0, list, reads=1e6)
    implementations = [
        implementation(OURS, "float32", 9_000_000),
        implementation(OURS, "int8", 4_000_000),
        implementation("peer", "fast", 8_000_000),
        implementation("peer", "slow", 7_000_000),
    ]
    seconds = {"regard (float32)": 0.02, "regard (int8)": 0.01, "peer (fast)": 0.03, "peer (slow)": 0.3}
    return Outcome(case, implementations, {title: [taken] * 4 for title, taken in seconds.items()})


def test_a_row_names_our_best_and_the_best_peer(outcome):
    row = decode_table([outcome], 2, bandwidth=1e10, rounds=4).splitlines()[-1]
    assert row == (
        "| tiny-1 | tokens/s | 2,400, int8 | 800, peer (fast) | 3.00 | 3.00 to 3.00 "
        "| 0.48 float32, 0.24 int8 | 4 / 8 |"
    )


def test_the_share_of_bandwidth_is_bytes_read_per_second(outcome):
    assert bandwidth_shares(outcome, 1e10) == pytest.approx({"regard (float32)": 0.48, "regard (int8)": 0.24})


def test_a_case_of_the_service_has_a_row_for_each_server():
    latencies = {"p50": 1.25, "p95": 2.0, "p99": 30.0}
    translated = {
        "case": "demo-8", "overhead": 0.125, "best": "regard (int8)", "ratios": {"peer (x)": 3.456},
        "latency_ms": dict.fromkeys(("regard (float32)", "regard (int8)", "peer (x)"), latencies),
        "speeds": {"regard (float32)": 99.5, "regard (int8)": 1234.5, "peer (x)": 7.0},
    }  # fmt: skip
    streamed = {"case": "first-token", "latency_ms": {OURS: latencies}}
    assert serve_table([translated, streamed], 2, rounds=7).splitlines()[-4:] == [
        "| demo-8 | regard (float32) | 99.5 |  | 1.2 | 2.0 | 30.0 |  |",
        "| demo-8 | regard (int8) | 1,234.5 |  | 1.2 | 2.0 | 30.0 | +12.5 % |",
        "| demo-8 | peer (x) | 7.0 | 3.46 | 1.2 | 2.0 | 30.0 |  |",
        f"| first-token | {OURS} |  |  | 1.2 | 2.0 | 30.0 |  |",
    ]


def test_the_pages_have_the_markers():
    page = (Path(__file__).parents[2] / "docs" / "performance.md").read_text(encoding="utf-8")
    assert all(line in page for name in ("decode", "serve") for line in markers(name))


def test_only_what_lies_between_the_markers_is_replaced(tmp_path):
    page = tmp_path / "page.md"
    begin, end = markers("decode")
    page.write_text(f"before\n{begin}\nold\n{end}\nafter\n", encoding="utf-8")
    write_between(page, "decode", "new")
    assert page.read_text(encoding="utf-8") == f"before\n{begin}\nnew\n{end}\nafter\n"
    page.write_text("nothing", encoding="utf-8")
    with pytest.raises(RegardError, match=r"page\.md has no lines"):
        write_between(page, "decode", "new")


def test_a_page_that_is_not_there_is_found_before_anything_is_measured(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("regard.bench.report.read_bandwidth", lambda: pytest.fail("it was measured"))
    assert run(["bench", "decode", "--write", str(tmp_path / "page.md")]) == 1
    assert "page.md is not a file" in capsys.readouterr().err
