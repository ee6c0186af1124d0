"""int8 weights in a folder: written with scales, read as float32, used as int8 by the native engine."""

from __future__ import annotations

import time

import numpy as np
import pytest

import regard
from regard.checkpoints.atomic_folders import new_folder, write_tensors
from regard.checkpoints.folder import WEIGHTS, read_folder, save_model, save_quantized
from regard.checkpoints.quantized import QuantizedWeights, quantize
from regard.checkpoints.untrusted_files import MappedWeights, check_manifest
from regard.cli.app import run
from regard.engine.choice import active_engine
from regard.errors import CheckpointError, SettingError
from regard.text.tokenizer import Tokenizers

needs_engine = pytest.mark.skipif(active_engine()[0] == "torch", reason="the native engine was not built")


@pytest.fixture(scope="module")
def folders(toy_model, toy_tokenizer, tmp_path_factory):
    """A model folder and the same with int8 weights."""
    where = tmp_path_factory.mktemp("quantized")
    save_model(
        where / "plain", toy_model(1, positions="learned"), Tokenizers.joint(toy_tokenizer), task="any"
    )
    save_quantized(where / "plain", where / "int8")
    return where / "plain", where / "int8"


def test_a_weight_differs_by_half_a_step_at_most(folders):
    plain, small = (read_folder(folder) for folder in folders)
    assert small.config == plain.config
    assert (small.task, small.dtype, plain.dtype) == ("any", "int8", "float32")
    assert small.weights.shapes == plain.weights.shapes
    for name in plain.weights:
        step = np.abs(plain.weights[name]).max(-1, keepdims=True) / 127
        assert (np.abs(small.weights[name] - plain.weights[name]) <= step * 0.501).all(), name
    assert (small.weights["source.positions.weight"] == plain.weights["source.positions.weight"]).all()


def test_the_file_has_a_byte_per_weight_and_the_manifest_lists_it(folders):
    stored = MappedWeights(folders[1] / WEIGHTS)
    assert stored.dtypes["encoder.blocks.0.feed_forward.expand.weight"] == "I8"
    assert stored.dtypes["encoder.blocks.0.feed_forward.expand.bias"] == "F32"
    assert WEIGHTS in check_manifest(folders[1])


def test_rows_of_zeros_and_damaged_weights():
    stored = quantize("x.weight", np.array([[0.0, 0.0], [1.0, -2.0]]))
    assert stored["x.weight"].tolist() == [[0, 0], [64, -127]]
    with pytest.raises(CheckpointError, match=r"x.weight holds NaN"):
        quantize("x.weight", np.array([[np.nan]]))


@pytest.mark.parametrize("scale", [np.ones(3, np.float32), np.ones(2, np.int32), None])
def test_a_matrix_without_its_scales_is_refused(scale, tmp_path):
    arrays = {"x.weight": np.zeros((2, 4), np.int8)} | ({} if scale is None else {"x.weight.scale": scale})
    with new_folder(tmp_path / "x") as folder:
        write_tensors(folder / WEIGHTS, arrays)
    with pytest.raises(CheckpointError, match=r"x.weight has no scale for each row"):
        QuantizedWeights(MappedWeights(tmp_path / "x" / WEIGHTS))


@needs_engine
def test_an_int8_folder_is_used_as_int8_and_by_torch(folders):
    native, torch = regard.load(folders[1]), regard.load(folders[1], engine="torch")
    assert (native.engine.dtype, native.engine.native() is not None) == ("int8", True)
    one, other = (model.translate("the cat", beams=1, max_length=6) for model in (native, torch))
    assert one.score == pytest.approx(other.score, abs=0.2)
    plain = regard.load(folders[0], dtype="int8")
    assert plain.translate("the cat", max_length=6).score == pytest.approx(
        native.translate("the cat", max_length=6).score, abs=1e-4
    )
    with pytest.raises(SettingError, match=r"int8.*needs the native engine"):
        regard.load(folders[0], dtype="int8", engine="torch")


def test_the_command_names_both_sizes(folders, tmp_path, capsys):
    assert run(["quantize", str(folders[0]), str(tmp_path / "out")]) == 0
    assert "MB of weights, before" in capsys.readouterr().out
    assert run(["quantize", str(folders[1]), str(tmp_path / "again")]) == 1
    assert "already has int8 weights" in capsys.readouterr().err


def test_many_matrices_are_checked_at_once(tmp_path):
    arrays = {f"{n}": np.zeros((0, 0), np.int8) for n in range(8000)}
    write_tensors(tmp_path / WEIGHTS, arrays | {f"{n}.scale": np.zeros(0, np.float32) for n in range(8000)})
    stored = MappedWeights(tmp_path / WEIGHTS)
    began = time.process_time()
    assert len(QuantizedWeights(stored)) == 8000
    assert time.process_time() - began < 1
