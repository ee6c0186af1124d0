"""Decoding contenders: the same weights in every library give the same output, a process each."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from regard.bench import decode
from regard.bench.engines import ENGINES, DecodingTask
from regard.bench.folders import Shape, random_model, write_all
from regard.bench.interleaved import OURS
from regard.bench.worker import Worker, measure
from regard.errors import RegardError, UnknownName
from regard.model.config import ModelConfig

SMALL = dict(vocabulary=300, width=64, layers=2, heads=4, feed_forward_width=64, context=32, dropout=0.0)
SHAPES = {
    "translation": Shape(
        "small",
        "marian",
        ModelConfig(positions="sinusoidal-halves", head_bias=True, feed_forward="silu", **SMALL),
    ),
    "generation": Shape("small", "gpt2", ModelConfig.named("gpt-2", **SMALL)),
    "encoding": Shape("small", "bert", ModelConfig.named("bert-base", output="pooled", **SMALL)),
}
WITH_CTRANSLATE2 = pytest.mark.skipif(not find_spec("ctranslate2"), reason="no ctranslate2 here")


@pytest.fixture(scope="module", params=sorted(SHAPES))
def shape(request):
    pytest.importorskip("transformers")
    return SHAPES[request.param]


@pytest.fixture(scope="module")
def folders(shape, tmp_path_factory):
    # The command below converts a translation model, so it is not done here once more.
    peers = decode.installed_peers() if shape.kind != "translation" else []
    return write_all(shape, tmp_path_factory.mktemp(shape.kind), peers)


def work(shape, folder, beams=1):
    length = 0 if shape.kind == "encoding" else 6
    return decode._in_folder(folder, decode._task(shape, 5, beams, 7, length))


def test_transformers_says_what_we_say(shape, folders):
    ours = ENGINES["regard"](work(shape, folders["regard"]))()
    theirs = ENGINES["transformers"](work(shape, folders["transformers"]))()
    assert decode.output_agreement(ours, theirs) == 1.0
    assert {len(row) for row in ours} == {SMALL["width"] if shape.kind == "encoding" else 6}
    assert len({number for row in ours for number in row}) > 5  # repeating one id would prove little


@WITH_CTRANSLATE2
def test_ctranslate2_says_what_we_say(shape, folders):
    if "ctranslate2" not in folders:
        pytest.skip("the command is tried with a translation model")
    task = replace(work(shape, folders["ctranslate2"]), workers=2)
    worker = Worker("ctranslate2", task, threads=1)
    worker.close()
    assert decode.output_agreement(ENGINES["regard"](work(shape, folders["regard"]))(), worker.output) == 1.0


def test_onnxruntime_encodes_as_we_do(shape, folders):
    if "onnxruntime" not in folders:
        pytest.skip("no onnxruntime here, or a model that does not only encode")
    ours = ENGINES["regard"](work(shape, folders["regard"]))()
    exact, rounded = (
        ENGINES["onnxruntime"](replace(work(shape, folders["onnxruntime"]), compute=compute, threads=1))()
        for compute in ("float32", "int8")
    )
    assert decode.output_agreement(ours, exact) == 1.0
    assert 0 < np.abs(np.subtract(ours, rounded)).max() < 0.3


def test_the_files_of_llama_cpp_have_our_weights(tmp_path):
    gguf = pytest.importorskip("gguf")
    shape = SHAPES["generation"]
    folder = write_all(shape, tmp_path, ["llama.cpp"])["llama.cpp"]
    ours = random_model(shape).state_dict()
    for compute, tolerance in (("float32", 0), ("int8", 0.01)):
        file = gguf.GGUFReader(folder / f"{compute}.gguf")
        theirs = {tensor.name: gguf.dequantize(tensor.data, tensor.tensor_type) for tensor in file.tensors}
        assert len(theirs) == 2 + 2 * 12 + 2
        names = {"token_embd": "target", "blk.1.ffn_up": "decoder.blocks.1.feed_forward.expand"}
        for there, here in names.items():
            weight = ours[f"{here}.weight"].numpy()
            np.testing.assert_allclose(theirs[f"{there}.weight"], weight, 0, tolerance * np.abs(weight).max())


def test_llama_cpp_writes_what_we_write(tmp_path):
    pytest.importorskip("llama_cpp")
    folders = write_all(SHAPES["generation"], tmp_path, ["llama.cpp"])
    task = replace(work(SHAPES["generation"], folders["llama.cpp"]), threads=1)
    worker = Worker("llama.cpp", task, threads=1)
    worker.close()
    ours = ENGINES["regard"](work(SHAPES["generation"], folders["regard"]))()
    assert decode.output_agreement(ours, worker.output) == 1.0


def test_beams_have_the_length_that_was_asked_for(folders, shape):
    if shape.kind == "encoding":
        pytest.skip("an encoder has no beams")
    for name in (OURS, "transformers"):
        assert [len(row) for row in ENGINES[name](work(shape, folders[name], beams=3))()] == [6] * 5


def test_a_worker_takes_turns_and_stands_still_in_between(tmp_path):
    shape = SHAPES["generation"]
    worker = Worker("regard", work(shape, write_all(shape, tmp_path, [])["regard"]), threads=1)
    try:
        assert worker.measure() > 0
        assert worker.measure() > 0
        state = Path(f"/proc/{worker._process.pid}/stat")
        if state.exists():
            os.waitid(os.P_PID, worker._process.pid, os.WSTOPPED | os.WNOWAIT)
            assert state.read_text(encoding="utf-8").split()[2] == "T"
    finally:
        worker.close()
    assert worker._process.returncode != 0


def test_a_worker_that_fails_says_why():
    nowhere = DecodingTask("generation", "/nowhere", [[1]], 0, 0)
    with pytest.raises(RegardError, match=r"the worker of regard failed: .*/nowhere"):
        Worker("regard", nowhere, threads=1)


def test_a_turn_is_long_enough_to_be_measured():
    ticks = iter(range(100))
    assert measure(lambda: None, clock=lambda: next(ticks) * 0.05) == pytest.approx(0.05)


def test_agreement_is_the_share_of_equal_rows():
    assert decode.output_agreement([[1, 2], [3, 4]], [[1, 2], [3, 5]]) == 0.5
    assert decode.output_agreement([[1, 2]], [[1, 2, 3]]) == 0.0
    assert decode.output_agreement([[0.1, 0.2]], [[0.1, 0.2004]]) == 1.0
    assert decode.output_agreement([[0.1, 0.2]], [[0.1, 0.21]]) == 0.0


def test_the_shapes_are_those_of_the_plan(tmp_path):
    names = [case.name for case in decode.Bench(tmp_path, threads=2).cases()]
    assert names[:4] == ["tiny-1", "tiny-32", "tiny-1-beam-4", "tiny-64-beam-4"]
    assert names[4:] == [
        "marian-1", "marian-32", "marian-1-beam-4", "marian-32-beam-4", "gpt-2-1", "gpt-2-8",
        "minilm-16", "minilm-64", "minilm-256",
    ]  # fmt: skip
    assert list(tmp_path.iterdir()) == []


def test_weights_differ_from_seed_to_seed_and_a_start_is_zeros():
    shape = SHAPES["translation"]
    one, other = random_model(shape), random_model(shape, seed=1)
    assert not (one.target.weight == other.target.weight).all()
    assert (one.target.weight[shape.last] == 0).all()


def test_a_peer_that_is_missing_is_named_and_left_out(monkeypatch, capsys):
    monkeypatch.setattr(decode, "find_spec", lambda name: None)
    monkeypatch.setattr(decode, "SHAPES", [SHAPES["generation"]])
    monkeypatch.setattr(decode, "WORK", {"small": [(2, 1, 4, 3)]})
    with decode.temporary_bench(threads=1) as bench:
        (case,) = bench.cases()
        implementations = case.implementations()
        for implementation in implementations:
            implementation.close()
    assert [implementation.title for implementation in implementations] == [OURS]
    told = capsys.readouterr().err
    assert "skipped: transformers" in told
    assert "skipped: ctranslate2" in told
    assert "skipped: onnxruntime" in told
    assert "skipped: llama.cpp is not installed; pip install llama-cpp-python gguf" in told


def test_a_peer_that_fails_is_named_and_left_out(monkeypatch, capsys):
    shape = SHAPES["generation"]
    monkeypatch.setattr(decode, "installed_peers", lambda: ["transformers"])
    monkeypatch.setattr(decode, "SHAPES", [shape])
    monkeypatch.setattr(decode, "WORK", {"small": [(2, 1, 4, 3)]})
    with decode.temporary_bench(threads=1) as bench:
        (bench._folders(shape)["transformers"] / "model.safetensors").unlink()
        implementations = bench.cases()[0].implementations()
        for implementation in implementations:
            implementation.close()
    assert [implementation.title for implementation in implementations] == [OURS]
    assert "skipped: the worker of transformers failed" in capsys.readouterr().err


def test_an_unknown_engine_is_answered_with_the_known():
    with pytest.raises(UnknownName, match="unknown engine 'toch'; did you mean torch"):
        decode.temporary_bench(1, "toch").__enter__()


def test_the_command_prints_an_object_a_line():
    pytest.importorskip("transformers")
    options = ["--case", "tiny-1", "--rounds", "4", "--shorten", "8", "--threads", "1", "--json"]
    command = [sys.executable, "-m", "regard", "bench", "decode", *options]
    done = subprocess.run(command, capture_output=True, text=True, encoding="utf-8", check=True)
    found = json.loads(done.stdout)
    assert (found["case"], found["unit"]) == ("tiny-1", "tokens/s")
    assert found["agreement"]["transformers"] == 1.0
    assert found["start"].keys() == found["all"].keys()
    assert min(found["start"].values()) > 0
    if find_spec("ctranslate2"):
        assert found["agreement"]["ctranslate2 (fp32, 1 thread)"] == 1.0
        assert set(found["peers"]) == {"transformers", "ctranslate2"}
    else:
        assert "skipped: ctranslate2" in done.stderr
