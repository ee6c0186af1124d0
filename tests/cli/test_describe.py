"""`regard describe`: sizes by name, and the stack of one."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from regard.cli.app import run
from regard.model.config import SIZES

SMALL = ("tiny", "gpt-2", "bert-base")


def test_without_a_name_every_size_is_listed(capsys):
    assert run(["describe"]) == 0
    printed = capsys.readouterr().out
    assert all(name in printed for name in SIZES)
    assert run(["describe", "--json"]) == 0
    assert list(json.loads(capsys.readouterr().out)) == list(SIZES)


@pytest.mark.parametrize("name", SMALL)
def test_the_parts_add_up(capsys, name):
    assert run(["describe", name, "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["parameters"] == sum(part["parameters"] for part in shown["parts"]) > 0
    assert run(["describe", name]) == 0
    assert f"{shown['parameters']:,}" in capsys.readouterr().out


def test_gpt_3_is_counted_without_its_memory():
    code = """
from regard.cli.app import run
code = run(["describe", "gpt-3"])
import resource
print(code, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""
    if sys.platform == "win32":
        pytest.skip("Windows has no resource module")
    result = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=True,
        timeout=300,
    )
    *shown, last = result.stdout.splitlines()
    exit_code, memory = map(int, last.split())
    assert exit_code == 0
    width, layers, rows = 12288, 96, 50257 + 2048
    assert f"{layers * (12 * width**2 + 13 * width) + rows * width + 2 * width:,}" in "".join(shown)
    assert memory * (1 if sys.platform == "darwin" else 1024) < 2e9
