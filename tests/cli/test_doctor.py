"""`regard doctor`: what is installed, told by the package's own metadata."""

from __future__ import annotations

import json
from importlib.metadata import version

from regard.cli import doctor
from regard.cli.app import run


def test_the_versions_are_those_installed(capsys):
    assert run(["doctor", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["packages"]["torch"] == version("torch")
    assert found["packages"]["regard"] == version("regard")
    assert found["machine"]["cores"] >= 1
    assert found["machine"]["devices"][0] == "cpu"
    assert set(found["extras"]) >= {"notebook", "bench", "test"}


def test_a_missing_extra_names_its_install_command(capsys, monkeypatch):
    monkeypatch.setattr(doctor, "_version", lambda name: None if name == "anywidget" else "1.0")
    assert run(["doctor"]) == 0
    lines = {line.split()[0]: line for line in capsys.readouterr().out.splitlines()}
    assert lines["[notebook]"].endswith("missing anywidget; pip install 'regard[notebook]'")
    assert lines["[bench]"].endswith("present")
