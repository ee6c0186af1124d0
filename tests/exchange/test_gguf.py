"""Export to GGUF: the file is the same model when it is read again, and refusals name the setting."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import regard
from regard.cli.app import run
from regard.errors import RegardError
from regard.exchange import gguf as exporting
from regard.exchange.formats import EXPORTS
from regard.inference.loading import load_chat
from tests.checkpoints.test_huggingface import TEXTS

gguf = pytest.importorskip("gguf", reason="needs gguf: pip install 'regard[exchange]'")

WIDE = dict(width=64, heads=4, key_value_heads=2, key_width=16, feed_forward_width=96)


@pytest.mark.parametrize("name", ["gguf", "gguf-f16", "gguf-q8_0"])
def test_a_written_file_is_the_same_model(ours, tmp_path, name: str) -> None:
    folder, out = ours("llama", **WIDE), tmp_path / "out"
    report = EXPORTS.find(name)(folder, out)
    assert report.format == "gguf"
    assert report.token_ids == "equal for 3 texts"
    assert set(report.files) == {"model.gguf"}
    before, after = regard.load(folder), regard.load(out / "model.gguf")
    assert after.tokenizer.specials.items() <= before.tokenizer.specials.items()
    if name == "gguf":
        assert after.config == before.config.changed(dropout=0.0, norm_epsilon=after.config.norm_epsilon)
        assert after.config.norm_epsilon == pytest.approx(before.config.norm_epsilon)  # stored as float32
        for key, weight in before.model.state_dict().items():
            assert torch.equal(weight, after.model.state_dict()[key])
        assert [before.complete(text, top_k=1, max_tokens=9).text for text in TEXTS[:3]] == [
            after.complete(text, top_k=1, max_tokens=9).text for text in TEXTS[:3]
        ]
    reader = gguf.GGUFReader(out / "model.gguf")
    types = {tensor.name: tensor.tensor_type.name for tensor in reader.tensors}
    assert types["blk.0.attn_q.weight"] == {"gguf": "F32", "gguf-f16": "F16", "gguf-q8_0": "Q8_0"}[name]
    assert types["output_norm.weight"] == "F32"


def test_a_chat_template_is_written(ours, tmp_path) -> None:
    chat = {"template": "{{ messages[0].content }}{{ eos_token }}", "tokens": {"eos_token": "</s>"}}
    folder = ours("llama", extra={"chat": chat | {"ends": [2, 9]}})
    EXPORTS.find("gguf")(folder, tmp_path / "out")
    before, after = load_chat(folder), load_chat(tmp_path / "out" / "model.gguf")
    messages = [{"role": "user", "content": TEXTS[0]}]
    assert before.ends == after.ends == (before.writer.tokenizer.end, 9)
    assert before.encode(messages) == after.encode(messages)


@pytest.mark.parametrize(
    ("name", "format", "changes", "message"),
    [
        ("gpt-2", "gguf", {}, r"model_type \(gpt2\) cannot be written as GGUF"),
        ("paper", "gguf", {}, r"model_type \(marian\) cannot be written as GGUF"),
        ("llama", "gguf", dict(feed_forward="geglu"), r"feed_forward \(geglu\) cannot be written as GGUF"),
        ("llama", "gguf-q8_0", {}, r"width \(12\) must be a multiple of 32 for Q8_0"),
        (
            "llama",
            "gguf",
            dict(rotary_scaling=dict(kind="llama3", factor=8.0)),
            r"rotary_scaling \(llama3\) cannot be written as GGUF",
        ),
    ],
)
def test_a_refusal_names_the_setting(ours, tmp_path, name, format, changes, message) -> None:
    with pytest.raises(RegardError, match=message):
        EXPORTS.find(format)(ours(name, **changes), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_difference_leaves_nothing(ours, tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.setattr(exporting, "pairs_from_halves", lambda array, heads: np.roll(array, 1, 0))
    folder = ours("llama")
    assert run(["export", str(folder), str(tmp_path / "places" / "out"), "--format", "gguf"]) == 1
    assert "verification failed: random ids differ from the file" in capsys.readouterr().err
    assert not list(tmp_path.glob("places/*"))
