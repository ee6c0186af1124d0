"""Import and export with their reports: the same model in both libraries, and nothing left behind."""

from __future__ import annotations

import json
import shutil
from typing import Any

import numpy as np
import pytest
import torch

import regard
from regard.checkpoints.folder import save_model, stored_weights
from regard.checkpoints.huggingface import read_huggingface
from regard.cli.app import run
from regard.errors import CheckpointError, RegardError
from regard.exchange import verification
from regard.exchange.huggingface import export_huggingface, halved_sinusoids
from regard.exchange.importing import import_model
from regard.exchange.model_card import _figures
from regard.exchange.report import REPORT, Comparison, Report
from regard.inference.loading import load_chat
from regard.model.config import ModelConfig
from regard.model.transformer import build_model
from regard.text.tokenizer import Tokenizer, Tokenizers
from tests.checkpoints.test_huggingface import (
    CHATML,
    CONVERSATION,
    FOLDERS,
    TEXTS,
    edit,
    sentence_transformers,
)
from tests.exchange.conftest import OURS, SIZES

pytestmark = pytest.mark.xdist_group("huggingface-folders")


@pytest.mark.parametrize("name", OURS)
@torch.inference_mode()
def test_every_family_that_regard_trains_is_exported(ours, transformers, tmp_path, name: str) -> None:
    folder, out = ours(name), tmp_path / "out"
    report = export_huggingface(folder, out)
    assert report.model_type == OURS[name][0]
    assert report.reference.startswith("transformers ")
    assert max(each.difference for each in report.comparisons) < 1e-5
    assert report.token_ids == "equal for 3 texts"
    assert json.loads((out / REPORT).read_text(encoding="utf-8")) == report.as_dict()
    assert set(report.files) >= {"config.json", "model.safetensors", "tokenizer.json"}
    assert "## Verified" in (out / "README.md").read_text(encoding="utf-8")
    model, back = regard.load(folder), regard.load(out)
    theirs = transformers.AutoTokenizer.from_pretrained(out)
    if isinstance(model, regard.Reader):
        assert np.allclose(model.embed(TEXTS), back.embed(TEXTS), atol=1e-6)
        assert back.labels == model.labels
        ids = [model.tokenizer.start, *model.tokenizer.encode(TEXTS[0]), model.tokenizer.end]
        assert theirs(TEXTS[0])["input_ids"] == ids
    elif isinstance(model, regard.Writer):
        one, other = (each.complete(TEXTS[0], top_k=1, max_tokens=9) for each in (model, back))
        assert one.text == other.text
        assert one.score == pytest.approx(other.score, rel=1e-6)  # the width is permuted
    else:
        written = [each.translate(TEXTS[0], max_length=9, beams=1).text for each in (model, back)]
        row = theirs(TEXTS[0], return_tensors="pt", return_token_type_ids=False)
        their_model = transformers.AutoModelForSeq2SeqLM.from_pretrained(out)
        ids = their_model.generate(**row, max_new_tokens=9, num_beams=1)[0]
        assert written == [theirs.decode(ids, skip_special_tokens=True)] * 2


@torch.inference_mode()
def test_the_demo_translates_the_same_text_there(demo, demo_texts, transformers, tmp_path) -> None:
    texts = demo_texts[:12]
    export_huggingface(demo, tmp_path / "out")
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "out")
    theirs = transformers.AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "out")
    rows = tokenizer(texts, return_tensors="pt", padding=True, return_token_type_ids=False)
    written = theirs.generate(**rows, num_beams=1, do_sample=False, max_new_tokens=64)
    ours = [each.text for each in regard.load(demo).translate(texts, beams=1)]
    assert tokenizer.batch_decode(written, skip_special_tokens=True) == ours


@pytest.mark.parametrize("name", FOLDERS)
def test_an_imported_folder_is_the_same_model(saved, tmp_path, name: str) -> None:
    theirs = saved(name).folder
    report = import_model(theirs, tmp_path / "imported")
    assert max(each.difference for each in report.comparisons) < 1e-5
    assert report.token_ids == "equal for 3 texts"
    assert (" equal" in report.greedy_tokens) == (name in ("gpt2", "llama", "qwen3", "marian", "pegasus"))
    before, after = regard.load(theirs), regard.load(tmp_path / "imported")
    assert after.config == before.config
    for key, weight in before.model.state_dict().items():
        assert torch.equal(weight, after.model.state_dict()[key])
    if isinstance(before, regard.Translator):
        assert after.tokenizers.target.specials == before.tokenizers.target.specials
    else:
        assert after.tokenizer.specials == before.tokenizer.specials
    exported = export_huggingface(tmp_path / "imported", tmp_path / "back")
    assert exported.model_type == report.model_type
    stored = [dict(read_huggingface(path).weights.stored_items()) for path in (theirs, tmp_path / "back")]
    known = stored[0].keys() & stored[1].keys()
    assert len(known) >= len(stored[1]) - 2
    assert all(np.array_equal(stored[0][key], stored[1][key]) for key in known)


def test_the_settings_of_embeddings_come_back(copy, tmp_path) -> None:
    folder = copy("minilm")
    sentence_transformers(folder, "cls_token", normalise=False)
    import_model(folder, tmp_path / "imported")
    report = export_huggingface(tmp_path / "imported", tmp_path / "back")
    assert {"modules.json", "1_Pooling/config.json", "sentence_bert_config.json"} <= set(report.files)
    before, after = regard.load(folder), regard.load(tmp_path / "back")
    assert (before.embed("The animal was") == after.embed("The animal was")).all()
    assert after.embedding == before.embedding
    assert after.embedding.limit == 8


def test_a_chat_template_comes_back(copy, transformers, tmp_path) -> None:
    folder = copy("llama")
    edit(folder / "tokenizer_config.json", chat_template=CHATML)
    edit(folder / "generation_config.json", eos_token_id=[1, 7])
    import_model(folder, tmp_path / "imported")
    export_huggingface(tmp_path / "imported", tmp_path / "back")
    before, after = load_chat(folder), load_chat(tmp_path / "back")
    assert before.encode(CONVERSATION) == after.encode(CONVERSATION)
    assert after.ends == before.ends == (1, 7)
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path / "back")
    text = theirs.apply_chat_template(CONVERSATION, tokenize=False, add_generation_prompt=True)
    assert text == after.encode(CONVERSATION)[0]


def test_settings_of_search_that_are_not_used_are_named(copy, tmp_path) -> None:
    folder = copy("pegasus")
    edit(folder / "config.json", no_repeat_ngram_size=3, num_beams=1)
    edit(folder / "generation_config.json", forced_bos_token_id=5)
    notes = import_model(folder, tmp_path / "imported").notes
    assert len(notes) == 1
    assert "search are not used: forced_bos_token_id, " in notes[0]
    assert "no_repeat_ngram_size" in notes[0]
    assert "num_beams" not in notes[0]


def test_a_permuted_width_is_the_same_model(ours) -> None:
    model = regard.load(ours("paper")).model
    config, weights = halved_sinusoids(model.config, stored_weights(model))
    other = build_model(config).eval()
    missing, _ = other.load_state_dict(weights, strict=False)
    assert all(name in ("target.weight", "head.weight") for name in missing)
    ids = torch.randint(0, 300, (2, 9))
    torch.testing.assert_close(other(ids, ids), model(ids, ids), atol=1e-5, rtol=0)


def test_the_commands_print_the_report(ours, saved, tmp_path, capsys) -> None:
    assert run(["import", str(saved("gpt2").folder), str(tmp_path / "in"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["operation"] == "import"
    assert run(["complete", str(tmp_path / "in"), "The animal", "--max-tokens", "2"]) == 0
    folder = str(ours("gpt-2"))
    assert run(["export", folder, str(tmp_path / "out")]) == 0
    assert "tolerance: 1e-05 of the largest magnitude" in capsys.readouterr().out
    assert run(["export", folder, str(tmp_path / "new"), "--format", "huggingfaces"]) == 2
    assert "did you mean huggingface" in capsys.readouterr().err
    assert run(["import", str(saved("gpt2").folder), str(tmp_path / "in")]) == 1
    assert "already exists" in capsys.readouterr().err


def test_the_card_has_the_figures_of_the_model_that_was_kept(ours, demo, tmp_path) -> None:
    run_folder = tmp_path / "run"
    shutil.copytree(ours("gpt-2"), run_folder / "model")
    events = [
        {"event": "validation", "step": 1, "is_best": True, "scores": {"loss": 3.0}},
        {"event": "validation", "step": 2, "is_best": True, "scores": {"loss": 2.0, "accuracy": None}},
        {"event": "validation", "step": 3, "is_best": False, "scores": {"loss": 4.0}},
    ]
    lines = [json.dumps(event) for event in events] + ["[1]", "{"]
    (run_folder / "metrics.jsonl").write_text("\n".join(lines), encoding="utf-8")
    assert _figures(run_folder) == {"loss": 2.0}
    assert _figures(demo) == {"exact translations of the test set": pytest.approx(0.99, abs=0.01)}


def test_without_transformers_the_weights_are_compared(ours, saved, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(verification, "_transformers_model", lambda folder: None)
    for report in (
        import_model(saved("bert").folder, tmp_path / "in"),
        export_huggingface(ours("paper"), tmp_path / "out"),
    ):
        assert [each.difference for each in report.comparisons] == pytest.approx([0.0], abs=1e-6)
        assert "not installed" in report.notes[0]


@pytest.mark.parametrize("operation", ["import", "export"])
def test_a_difference_is_an_error_and_leaves_nothing(ours, saved, tmp_path, monkeypatch, operation) -> None:
    made = verification.our_logits

    def wrong(model: Any) -> Any:
        return lambda *ids: made(model)(*ids) * 1.001

    monkeypatch.setattr(verification, "our_logits", wrong)
    source = saved("gpt2").folder if operation == "import" else ours("gpt-2")
    act = import_model if operation == "import" else export_huggingface
    with pytest.raises(CheckpointError, match="verification failed: random ids differ from transformers"):
        act(source, tmp_path / "places" / "out")
    assert not (tmp_path / "places").exists()
    with pytest.raises(CheckpointError, match="text differ"):
        Report("import", "gpt2", "x", [Comparison("text", float("nan"))]).check()


def test_an_export_whose_tokenizer_does_not_load_is_an_error(ours, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(verification, "_transformers_tokenizer", lambda *_: (None, "no such class"))
    with pytest.raises(CheckpointError, match="transformers cannot load the tokenizer: no such class"):
        export_huggingface(ours("gpt-2"), tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("name", "changes", "message"),
    [
        ("gpt-2", dict(norm="rms"), r"norm \(rms\) cannot be written as GPT-2"),
        ("post-norm", dict(norm_epsilon=1e-3), r"norm_epsilon \(0.001\) cannot be written as Marian"),
        ("masked", dict(segments=0), r"type_vocab_size"),
    ],
)
def test_a_refusal_names_the_setting(ours, tmp_path, name, changes, message) -> None:
    with pytest.raises(RegardError, match=message):
        export_huggingface(ours(name, **changes), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_two_tokenizers_are_refused(tmp_path, tokenizer) -> None:
    size = tokenizer.vocabulary
    config = ModelConfig(
        **SIZES,
        vocabulary=size,
        target_vocabulary=size,
        share_embeddings=False,
        positions="sinusoidal-halves",
    )
    other = Tokenizer(tokenizer._inner)
    save_model(tmp_path / "two", build_model(config), Tokenizers(tokenizer, other))
    with pytest.raises(CheckpointError, match=r"train it with tokenizer\.joint = true"):
        export_huggingface(tmp_path / "two", tmp_path / "out")
    assert not (tmp_path / "out").exists()
