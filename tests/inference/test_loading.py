"""load: the right class for a folder, and one line for a wrong one."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import regard
from regard.checkpoints.folder import save_model
from regard.errors import CheckpointError, DataError, SettingError, UnknownName, UsageError
from regard.inference.loading import load, load_for, model_folder
from regard.inference.reader import Reader
from regard.inference.translator import Translator
from regard.inference.writer import Writer
from regard.text.tokenizer import Tokenizers

pytestmark = pytest.mark.xdist_group("toy-models")


@pytest.mark.parametrize(
    ("name", "kind"),
    [("translate", Translator), ("complete", Writer), ("fill", Reader), ("classify", Reader)],
)
def test_the_class_fits_the_folder(model_folders, name, kind):
    loaded = regard.load(model_folders[name])
    assert type(loaded) is kind
    assert not loaded.model.training
    assert {weight.dtype for weight in loaded.model.parameters()} == {torch.float32}
    assert loaded.config == loaded.model.config


def test_what_was_saved_answers_alike(model_folders, guesser, writer, filler, classifier):
    texts = ["the cat sees the dog.", "a"]
    assert load(model_folders["translate"]).translate(texts) == guesser.translate(texts)
    assert load(model_folders["complete"]).complete(texts) == writer.complete(texts)
    assert (load(model_folders["fill"]).embed(texts) == filler.embed(texts)).all()
    assert load(model_folders["classify"]).classify(texts) == classifier.classify(texts)
    assert load(model_folders["classify"]).labels == ("bad", "fair", "good")


def test_two_tokenizers_and_a_run_folder(tmp_path, toy_model, toy_tokenizer):
    model = toy_model(1, share_embeddings=False, target_vocabulary=toy_tokenizer.vocabulary)
    other = type(toy_tokenizer)(toy_tokenizer._inner)
    save_model(tmp_path / "run" / "model", model, Tokenizers(toy_tokenizer, other))
    loaded = load(tmp_path / "run")
    assert not loaded.tokenizers.are_joint
    assert isinstance(loaded.translate("the cat", max_length=3).text, str)


def test_a_run_without_a_model_says_how_to_get_one(tmp_path, model_folders):
    (tmp_path / "recipe.toml").touch()
    for use in (load, lambda path: load_for("translate", path)):
        with pytest.raises(CheckpointError, match="has no model before its first checkpoint"):
            use(tmp_path)
    shutil.copytree(model_folders["translate"], tmp_path / "model")
    assert model_folder(tmp_path) == tmp_path / "model"
    assert model_folder(tmp_path / "model") == tmp_path / "model"


def test_classes_without_names_have_numbers(tmp_path, classifier, toy_tokenizer):
    save_model(tmp_path / "plain", classifier.model, Tokenizers.joint(toy_tokenizer))
    assert load(tmp_path / "plain").labels == ("0", "1", "2")
    save_model(tmp_path / "odd", classifier.model, Tokenizers.joint(toy_tokenizer), extra={"labels": ["a"]})
    with pytest.raises(CheckpointError, match="has 1 labels for 3 classes"):
        load(tmp_path / "odd")


@pytest.mark.parametrize(
    ("command", "holds", "fits"),
    [
        ("translate", "complete", r"a model that continues text \(decoder-only\).*use regard complete"),
        ("complete", "translate", r"a model that translates \(encoder-decoder\).*use regard translate"),
        ("fill", "classify", "reads text and tells 3 classes apart .*use regard classify or regard embed"),
        ("classify", "fill", "reads text and fills masks .*use regard fill or regard embed"),
        ("embed", "translate", "which cannot embed; use regard translate"),
    ],
)
def test_the_wrong_family_is_told_what_fits(model_folders, command, holds, fits):
    with pytest.raises(UsageError, match=fits) as caught:
        load_for(command, model_folders[holds])
    assert str(model_folders[holds]) in str(caught.value)


def test_refusing_a_folder_loads_no_torch(model_folders):
    code = f"""
import sys
from regard.cli.app import run
assert run(["translate", {model_folders["complete"]!r}, "x"]) == 2
from regard.checkpoints.folder import read_folder
read_folder({model_folders["complete"]!r}).tokenizers()
import regard.inference.translator, regard.inference.writer, regard.inference.reader
print("torch" in sys.modules)
"""
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=300
    )
    assert result.stdout == "False\n"


def test_the_names_of_built_in_models_are_known():
    for path in ("nowhere", "./demo", Path("demo")):
        with pytest.raises(CheckpointError, match="is not a folder"):
            regard.load(path)
    assert isinstance(regard.load("demo"), Translator)
    assert isinstance(load_for("complete", "demo-language-model"), Writer)


def test_a_hugging_face_folder_is_recognised(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "mamba"}), encoding="utf-8")
    with pytest.raises(CheckpointError, match=r"model_type \('mamba'\) is not supported; regard reads bert,"):
        load(tmp_path)


def test_what_is_no_folder_is_refused(tmp_path):
    with pytest.raises(CheckpointError, match="is not a folder"):
        load(tmp_path / "nowhere")
    with pytest.raises(CheckpointError, match="manifest"):
        load(tmp_path)


def test_a_folder_without_its_tokenizer_is_refused(tmp_path, writer, toy_model, toy_tokenizer):
    save_model(tmp_path / "bare", writer.model)
    with pytest.raises(DataError, match="no tokenizer"):
        load(tmp_path / "bare")
    small = toy_model(0, family="decoder-only", vocabulary=100)
    save_model(tmp_path / "small", small, Tokenizers.joint(toy_tokenizer))
    with pytest.raises(CheckpointError, match=r"the tokenizer has 330 tokens, and the model 100"):
        load(tmp_path / "small")


def test_a_damaged_folder_is_refused(tmp_path, model_folders):
    broken = Path(shutil.copytree(model_folders["complete"], tmp_path / "broken"))
    weights = broken / "model.safetensors"
    raw = bytearray(weights.read_bytes())
    raw[-5] ^= 1
    weights.write_bytes(raw)
    with pytest.raises(CheckpointError, match=r"model\.safetensors is damaged"):
        load(broken)


def test_numbers_threads_and_devices(model_folders):
    before = torch.get_num_threads()
    try:
        load(model_folders["fill"], threads=1)
        assert torch.get_num_threads() == 1
    finally:
        torch.set_num_threads(before)
    folder = model_folders["complete"]
    assert load(folder, dtype="float32").model.head.weight.dtype == torch.float32
    with pytest.raises(SettingError, match=r"dtype \(bfloat16\) is for accelerators"):
        load(folder, dtype="bfloat16")
    with pytest.raises(UnknownName, match="unknown dtype 'float31'"):
        load(folder, dtype="float31")
    with pytest.raises(SettingError, match=r"device \(nowhere\) cannot be used"):
        load(folder, device="nowhere")
    with pytest.raises(SettingError, match=r"threads \(0\)"):
        load(folder, threads=0)


def test_auto_is_resolved_before_anything_depends_on_the_device(model_folders, monkeypatch):
    folder = model_folders["complete"]
    monkeypatch.setattr("regard.engine.device.available_devices", lambda: ["cpu"])
    for dtype in (None, "int8"):
        assert load(folder, "auto", dtype).engine.native() is not None
    with pytest.raises(SettingError, match=r"dtype \(bfloat16\) is for accelerators"):
        load(folder, "auto", "bfloat16")
    with pytest.raises(SettingError, match=r"dtype \(int8\) needs device cpu, not meta"):
        load(folder, "meta", "int8")
