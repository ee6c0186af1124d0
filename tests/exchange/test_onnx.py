"""Export to ONNX: the same numbers and the same text through onnxruntime, step by step with a cache."""

from __future__ import annotations

import json

import numpy as np
import pytest

import regard
from regard.cli.app import run
from regard.errors import CheckpointError
from regard.exchange.onnx import export_onnx
from regard.exchange.onnx_runtime import OnnxModel
from regard.exchange.report import REPORT

for package in ("onnxscript", "onnxruntime"):
    pytest.importorskip(package, reason=f"needs {package}: pip install 'regard[exchange]'")
pytestmark = [
    pytest.mark.xdist_group("onnx"),
    pytest.mark.filterwarnings("ignore:.*isinstance.treespec, LeafSpec.*:FutureWarning"),
]


def test_the_demo_translates_the_same_text_there(demo, demo_texts, tmp_path) -> None:
    out = tmp_path / "out"
    report = export_onnx(demo, out)
    assert report.reference.startswith("onnxruntime ")
    assert max(each.difference for each in report.comparisons) < 1e-5
    assert report.token_ids == "equal for 3 texts"
    assert report.greedy_tokens.endswith("equal")
    assert json.loads((out / REPORT).read_text(encoding="utf-8")) == report.as_dict()
    assert set(report.files) >= {"encoder.onnx", "decoder.onnx", "config.json", "tokenizer.json"}
    model, written = regard.load(demo), OnnxModel(out)
    tokenizer = model.tokenizers.source
    rows = [[*tokenizer.encode(text), tokenizer.end] for text in demo_texts]
    texts = [model.tokenizers.target.decode(ids) for ids in written.greedy(rows, 64)]
    assert texts == [each.text for each in model.translate(demo_texts, beams=1)]
    alone = [written.greedy([row], 64)[0] for row in rows[:3]]
    assert alone == written.greedy(rows[:3], 64)


def test_a_language_model_continues_the_same(ours, tmp_path, capsys) -> None:
    folder, out = ours("llama", layers=1, key_value_heads=1), tmp_path / "out"
    assert run(["export", str(folder), str(out), "--format", "onnx"]) == 0
    assert "export (onnx) of a decoder-only model, compared with onnxruntime" in capsys.readouterr().out
    written, row = OnnxModel(out), [7, 8, 9, 10]
    more = written.greedy([row], 1)[0]
    assert more == [int(written.logits([], row)[-1].argmax())]


def test_a_classifier_gives_the_same_classes(ours, tmp_path) -> None:
    folder, out = ours("classes", layers=1), tmp_path / "out"
    report = export_onnx(folder, out)
    assert report.greedy_tokens == "none, the model reads"
    written = OnnxModel(out)
    assert written.settings["labels"] == ["bad", "good"]
    rows = [[1, 20, 30, 2], [1, 40, 2]]
    padded = written._encode(rows)["output"]
    alone = np.stack([written.logits(row, []) for row in rows])
    np.testing.assert_allclose(padded, alone, atol=1e-5)


def test_a_model_of_vectors_is_refused(tmp_path) -> None:
    from regard.checkpoints.folder import save_model
    from regard.model.config import ModelConfig
    from regard.model.transformer import build_model

    config = ModelConfig(family="encoder-only", vectors=4, width=8, heads=2, layers=1, output="vectors")
    save_model(tmp_path / "vectors", build_model(config))
    with pytest.raises(CheckpointError, match="vectors cannot be written as ONNX"):
        export_onnx(tmp_path / "vectors", tmp_path / "out")
    assert not (tmp_path / "out").exists()
