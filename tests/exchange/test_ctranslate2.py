"""Export to CTranslate2: the same text through its own library, and refusals that name the setting."""

from __future__ import annotations

import json
from importlib.metadata import PackageNotFoundError

import pytest

import regard
from regard.cli.app import run
from regard.errors import CheckpointError, MissingPackage
from regard.exchange import ctranslate2
from regard.exchange.ctranslate2 import export_ctranslate2, running
from regard.exchange.report import REPORT

pytest.importorskip("ctranslate2", reason="needs ctranslate2: pip install 'regard[exchange]'")
pytestmark = pytest.mark.xdist_group("ctranslate2")


def test_the_demo_translates_the_same_text_there(demo, demo_texts, tmp_path) -> None:
    out = tmp_path / "out"
    report = export_ctranslate2(demo, out)
    assert report.format == "ctranslate2"
    assert report.reference.startswith("CTranslate2 ")
    assert max(each.difference for each in report.comparisons) < 1e-5
    assert report.token_ids == "equal for 3 texts"
    assert report.greedy_tokens.endswith("equal")
    assert json.loads((out / REPORT).read_text(encoding="utf-8")) == report.as_dict()
    assert set(report.files) == {"config.json", "model.bin", "shared_vocabulary.json", "tokenizer.json"}
    assert "library_name: ctranslate2" in (out / "README.md").read_text(encoding="utf-8")
    model = regard.load(demo)
    tokenizer = model.tokenizers.source
    rows = [[*tokenizer.encode(text), tokenizer.end] for text in demo_texts]
    with running(out, "Translator") as reference:
        written = [model.tokenizers.target.decode(ids) for ids in reference.greedy(rows, 64)]
    assert written == [each.text for each in model.translate(demo_texts, beams=1)]


def test_a_language_model_continues_the_same(ours, tmp_path, capsys) -> None:
    assert run(["export", str(ours("llama")), str(tmp_path / "out"), "--format", "ctranslate2"]) == 0
    assert "export (ctranslate2) of a llama model" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("name", "changes", "message"),
    [
        ("masked", {}, r"output \(masked\) cannot be written for CTranslate2, which has pooled for bert"),
        ("llama", dict(feed_forward="geglu"), r"feed_forward \(geglu\) cannot be written for CTranslate2"),
        ("llama", dict(key_width=6), r"key_width \(6\) cannot be written for CTranslate2"),
        ("gpt-2", dict(norm_epsilon=1e-6), r"norm_epsilon \(1e-06\) cannot be written for CTranslate2"),
    ],
)
def test_a_refusal_names_the_setting(ours, tmp_path, name, changes, message) -> None:
    with pytest.raises(CheckpointError, match=message):
        export_ctranslate2(ours(name, **changes), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_failures_are_one_line_and_leave_nothing(ours, tmp_path, monkeypatch) -> None:
    folder, out = ours("gpt-2"), tmp_path / "places" / "out"
    with monkeypatch.context() as patched:
        patched.setattr(ctranslate2, "_convert", lambda theirs, out: None)
        with pytest.raises(CheckpointError, match=r"CTranslate2 failed: .*; nothing was written"):
            export_ctranslate2(folder, out)

    def missing(name: str) -> str:
        raise PackageNotFoundError(name)

    monkeypatch.setattr(ctranslate2, "version", missing)
    with pytest.raises(MissingPackage, match=r"pip install 'regard\[exchange\]'"):
        export_ctranslate2(folder, out)
    assert not list(tmp_path.glob("places/*"))
