"""Model folders: whole or absent, checked to the bit, tied weights kept, strangers' files survived."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.numpy import load_file, save_file

from regard.checkpoints import atomic_folders
from regard.checkpoints.atomic_folders import new_folder, remove_leftovers, seal, write_json, write_tensors
from regard.checkpoints.folder import (
    copy_model,
    load_model,
    load_weights,
    read_folder,
    save_model,
    stored_weights,
)
from regard.checkpoints.untrusted_files import MappedWeights, check_manifest
from regard.errors import CheckpointError
from regard.model.config import ModelConfig
from regard.model.transformer import build_model
from regard.text.tokenizer import Tokenizer, Tokenizers

CONFIG = ModelConfig(vocabulary=300, width=16, layers=1, heads=2, feed_forward_width=32, context=16)
FAMILIES = {
    "translation": CONFIG,
    "untied": CONFIG.changed(share_embeddings=False, tie_head=False, target_vocabulary=270),
    "rotary": CONFIG.changed(family="decoder-only", positions="rotary", norm="rms", feed_forward="swiglu"),
    "masked": CONFIG.changed(family="encoder-only", output="masked", head_bias=True, positions="learned"),
    "classes": CONFIG.changed(family="encoder-only", output="classes", classes=3, pooling="bert"),
}


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return Tokenizer.train(["one two three", "four five"], vocabulary=300)


@pytest.fixture
def saved(tmp_path, tokenizer) -> Path:
    torch.manual_seed(0)
    return save_model(
        tmp_path / "model", build_model(CONFIG), Tokenizers.joint(tokenizer), "translation", {"a": 1}
    )


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.parametrize("name", FAMILIES)
def test_save_load_save_gives_the_same_bytes(tmp_path, name):
    torch.manual_seed(0)
    save_model(tmp_path / "a", build_model(FAMILIES[name]), None, name)
    save_model(tmp_path / "b", load_model(tmp_path / "a"), None, name)
    assert contents(tmp_path / "a") == contents(tmp_path / "b")


@pytest.mark.parametrize("name", FAMILIES)
def test_a_loaded_model_computes_the_same(tmp_path, name):
    torch.manual_seed(0)
    model = build_model(FAMILIES[name]).eval()
    loaded = load_model(save_model(tmp_path / "a", model)).eval()
    ids = torch.randint(0, 270, (2, 7))
    inputs = (ids, ids) if FAMILIES[name].family == "encoder-decoder" else (ids,)
    assert torch.equal(model(*inputs), loaded(*inputs))
    assert not any(tensor.is_meta for tensor in [*loaded.parameters(), *loaded.buffers()])


def test_tied_weights_are_stored_once_and_come_back_as_one(saved):
    assert [name for name in read_folder(saved).weights if "weight" in name and "blocks" not in name] == [
        "source.weight"
    ]
    model = load_model(saved)
    assert model.source.weight is model.target.weight is model.head.weight


def test_a_folder_says_what_it_is(saved, tokenizer):
    folder = read_folder(saved)
    assert (folder.config, folder.task, folder.extra) == (CONFIG, "translation", {"a": 1})
    assert folder.tokenizer_files == ["tokenizer.json"]
    assert folder.tokenizers().fingerprint == Tokenizers.joint(tokenizer).fingerprint


def test_separate_vocabularies_are_two_files(tmp_path, tokenizer):
    other = Tokenizer.train(["uno dos tres"], vocabulary=290)
    save_model(tmp_path / "m", build_model(FAMILIES["untied"]), Tokenizers(tokenizer, other))
    assert read_folder(tmp_path / "m").tokenizer_files == ["tokenizer.source.json", "tokenizer.target.json"]


def test_reading_loads_no_torch(saved):
    code = (
        "import sys; from regard.checkpoints.folder import read_folder; "
        f"f = read_folder({str(saved)!r}); f.weights['source.weight'].sum(); sys.exit('torch' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=300)


def test_weights_are_mapped_not_copied(saved):
    array = read_folder(saved).weights["source.weight"]
    base = array
    while isinstance(base, np.ndarray) and not isinstance(base, np.memmap):
        base = base.base
    assert isinstance(base, np.memmap)


@pytest.mark.parametrize("position", [0.0, 0.3, 0.6, 0.999])
@pytest.mark.parametrize("name", ["config.json", "model.safetensors", "tokenizer.json", "manifest.json"])
def test_one_flipped_bit_is_detected_and_named(saved, name, position):
    data = bytearray((saved / name).read_bytes())
    data[int(position * len(data))] ^= 1 << 3
    (saved / name).write_bytes(data)
    with pytest.raises(CheckpointError, match=name):
        read_folder(saved)


@pytest.mark.parametrize("name", ["config.json", "model.safetensors", "tokenizer.json", "manifest.json"])
def test_a_truncated_or_missing_file_is_named(saved, name):
    data = (saved / name).read_bytes()
    (saved / name).write_bytes(data[:-1] if name != "manifest.json" else data[:-3])
    with pytest.raises(CheckpointError, match=name):
        read_folder(saved)
    (saved / name).unlink()
    with pytest.raises(CheckpointError, match=name):
        read_folder(saved)


def resealed(folder: Path) -> Path:
    """The manifest made anew, as somebody would who writes a folder with intent."""
    (folder / "manifest.json").unlink()
    seal(folder)
    return folder


def retold(folder: Path, **changes) -> Path:
    told = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    for name, value in changes.items():
        target = told if name in told else told["model"]
        target[name] = value
    (folder / "config.json").write_text(json.dumps(told), encoding="utf-8")
    return resealed(folder)


def test_a_folder_of_format_1_still_loads():
    folder = read_folder(Path(__file__).parent / "format-1")
    assert (folder.task, folder.extra) == ("translation", {"languages": ["en", "fr"]})
    source = torch.tensor([[*folder.tokenizers().source.encode("a b"), 2]])
    logits = load_model(folder).eval()(source, torch.tensor([[1, 5]]))
    assert logits[0, -1, :3].tolist() == pytest.approx([2.0356388, 1.5315280, 1.0274172], rel=1e-4)


def test_a_newer_format_is_refused(saved):
    with pytest.raises(CheckpointError, match="format 3, and this version reads up to 2; update regard"):
        read_folder(retold(saved, format=3))


@pytest.mark.parametrize(
    "absurd",
    [
        {"vocabulary": 1 << 40},
        {"vocabulary": 1 << 24},
        {"heads": 0},
        {"dropout": float("nan")},
        {"width": "16"},
        {"width": 1 << 17, "heads": 1, "context": 1 << 24, "vocabulary": 1},
        {"layers": 4096, "decoder_layers": 4096},
        {"layers": -1},
        {"model": None},
        {"model": [1]},
        {"format": None},
        {"format": True},
        {"format": -1},
        {"unheard": 1},
    ],
    ids=str,
)
def test_an_absurd_config_is_refused_at_once(saved, absurd):
    retold(saved, **absurd)
    start = time.process_time()
    with pytest.raises(CheckpointError) as error:
        load_model(saved)
    assert time.process_time() - start < 1
    assert "\n" not in str(error.value)


def test_missing_extra_and_misshapen_weights_are_named():
    model = build_model(CONFIG)
    weights = {name: tensor.detach().numpy() for name, tensor in stored_weights(model).items()}
    weights["more"] = weights.pop("encoder.blocks.0.attention.output.bias")
    weights["source.weight"] = weights["source.weight"][:-1]
    before = model.source.weight.detach().clone()
    with pytest.raises(CheckpointError) as error:
        load_weights(model, weights)
    for part in ("missing: encoder.blocks.0.attention.output.bias", "extra: more", "299 x 16, not 300 x 16"):
        assert part in str(error.value)
    assert torch.equal(model.source.weight, before)


def test_another_head_on_the_same_body(tmp_path):
    torch.manual_seed(0)
    body = build_model(FAMILIES["masked"])
    model = build_model(FAMILIES["masked"].changed(output="classes", classes=2, head_bias=False))
    head = model.head.classify.weight.detach().clone()
    load_weights(model, read_folder(save_model(tmp_path / "m", body)).weights, ignore="head.")
    assert torch.equal(model.source.weight, body.source.weight)
    assert torch.equal(model.head.classify.weight, head)


def test_half_precision_weights_become_those_of_the_model():
    torch.manual_seed(0)
    stored = {
        name: array.detach().numpy().astype(np.float16)
        for name, array in stored_weights(build_model(CONFIG)).items()
    }
    model = build_model(CONFIG, device="meta")
    load_weights(model, stored)
    assert {parameter.dtype for parameter in model.parameters()} == {torch.float32}
    assert torch.equal(model.source.weight.detach(), torch.from_numpy(stored["source.weight"]).float())


def test_a_short_message_is_whole(saved):
    retold(saved, heads=0)
    with pytest.raises(CheckpointError, match=r"heads \(0\): input should be greater than or equal to 1$"):
        read_folder(saved)


def test_loading_into_a_model_keeps_its_parameters(saved):
    model = build_model(CONFIG)
    parameter = model.source.weight
    load_weights(model, read_folder(saved).weights)
    assert model.source.weight is parameter


def test_an_existing_folder_is_replaced_only_when_asked(saved):
    before = contents(saved)
    with pytest.raises(CheckpointError, match="already exists"):
        save_model(saved, build_model(CONFIG))
    assert contents(saved) == before
    save_model(saved, build_model(CONFIG), replace=True)
    assert contents(saved) != before
    assert [path.name for path in saved.parent.iterdir()] == ["model"]


def test_a_copied_model_replaces_the_one_before_it(saved, tmp_path):
    other = save_model(tmp_path / "other", build_model(CONFIG))
    for model in (saved, other):
        copy_model(model, tmp_path / "copy")
        files = contents(model).keys() - {"manifest.json"}
        assert {name: contents(tmp_path / "copy")[name] for name in files} == {
            name: contents(model)[name] for name in files
        }


# What strangers write


def test_the_file_is_what_the_library_reads_and_writes(tmp_path):
    random_arrays = np.random.default_rng(0)
    arrays = {
        "a": random_arrays.normal(size=(3, 4)).astype(np.float32),
        "b": np.arange(5),
        "c": np.array(2.5),
        "d": np.zeros((0, 3), np.float16),
        "é": np.array([True, False]),
        "f": np.asfortranarray(random_arrays.normal(size=(3, 2))),
    }
    write_tensors(tmp_path / "ours.safetensors", arrays)
    save_file(
        {name: np.array(array, order="C") for name, array in arrays.items()}, tmp_path / "theirs.safetensors"
    )
    for found in (load_file(tmp_path / "ours.safetensors"), MappedWeights(tmp_path / "theirs.safetensors")):
        assert set(found) == set(arrays)
        for name, array in arrays.items():
            assert found[name].dtype == array.dtype
            assert np.array_equal(found[name], array)


def test_bfloat16_of_others_is_read(tmp_path):
    from safetensors.torch import save_file as save_torch

    save_torch({"w": torch.tensor([1.5, -2.25]).bfloat16()}, tmp_path / "w.safetensors")
    assert MappedWeights(tmp_path / "w.safetensors")["w"].tolist() == [1.5, -2.25]


def forged(header: object, data: bytes = b"\0" * 8, length: int | None = None) -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return (len(text) if length is None else length).to_bytes(8, "little") + text + data


def entry(begin=0, end=8, shape=(2,), dtype="F32"):
    return {"dtype": dtype, "shape": list(shape), "data_offsets": [begin, end]}


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\0" * 7,
        forged({}, length=1 << 63),
        forged({}, length=200_000_000),
        forged(b"[" * 200_000),
        forged(b"{" + b'"a":{' * 100_000),
        forged(b"\xff\xfe"),
        forged([1]),
        forged({"a": entry(), "b": entry()}),
        forged({"a": entry(4, 12)}, b"\0" * 12),
        forged({"a": entry(0, 8), "b": entry(4, 12)}, b"\0" * 12),
        forged({"a": entry(end=16)}),
        forged({"a": entry(shape=(1 << 61, 8))}),
        forged({"a": entry(shape=(-1, -2))}),
        forged({"a": entry(shape=(True, 2))}),
        forged({"a": entry(shape=(2.0,))}),
        forged({"a": entry(begin=8, end=0)}),
        forged({"a": entry(dtype="F8_E4M3")}),
        forged({"a": entry(dtype=["F32"])}),
        forged({"a": 1}),
        forged({"a": {}}),
        forged(b'{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"a":{}}'),
        forged({"a": entry(shape=[1] * 100 + [2])}),
        forged(b'{"a":{"dtype":"F32","shape":[' + b"9" * 5000 + b'],"data_offsets":[0,8]}}'),
    ],
    ids=lambda content: repr(content[:40]),
)
def test_a_malformed_weight_file_is_one_line(tmp_path, content):
    (tmp_path / "x.safetensors").write_bytes(content)
    with pytest.raises(CheckpointError, match=r"x\.safetensors") as error:
        MappedWeights(tmp_path / "x.safetensors")
    assert "\n" not in str(error.value)
    assert len(str(error.value)) < 400


@given(
    st.binary(min_size=1, max_size=200), st.integers(0, 300), st.sampled_from(["alone", "header", "inside"])
)
def test_no_bytes_end_the_process(tmp_path_factory, content, at, where):
    """Bytes as a file, as a header, and in the place of others in a file that was sound."""
    path = tmp_path_factory.mktemp("forged") / "x.safetensors"
    sound = forged({"a": entry(), "b": entry(8, 16, dtype="I32")}, b"\0" * 16)
    at = min(at, len(sound) - 1)
    files = {
        "alone": content,
        "header": forged(content, b""),
        "inside": sound[:at] + content + sound[at + len(content) :],
    }
    path.write_bytes(files[where])
    with contextlib.suppress(CheckpointError):
        dict(MappedWeights(path))


@pytest.mark.parametrize("name", ["../x", "/etc/passwd", "a/b", "a\\b", "..", "", "a\0b", "c:x"])
def test_a_manifest_that_leaves_the_folder_is_refused(tmp_path, name):
    manifest = {"format": 1, "files": {name: {"size": 0, "sha256": ""}}}
    write_json(
        tmp_path / "manifest.json", {"manifest": manifest, "sha256": atomic_folders.digest_of(manifest)}
    )
    with pytest.raises(CheckpointError, match="is outside of it"):
        check_manifest(tmp_path)


@pytest.mark.parametrize(
    "text", ["[" * 100_000, "1", "{", '{"manifest": 3}', '{"manifest": {}}', "\xff", "9" * 5000]
)
def test_a_malformed_manifest_is_one_line(saved, text):
    (saved / "manifest.json").write_text(text, encoding="utf-8")
    with pytest.raises(CheckpointError, match=r"manifest\.json"):
        read_folder(saved)


def test_a_path_that_is_no_folder_is_told(tmp_path):
    with pytest.raises(CheckpointError, match="not a folder"):
        read_folder(tmp_path / "nothing")


# What goes wrong while saving


class Full:
    """A disk that is full after so many pieces."""

    def __init__(self, pieces: int):
        self.left = pieces

    def __call__(self, path, pieces):
        for piece in pieces:
            self.left -= 1
            with path.open("ab") as file:
                if self.left < 0:
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
                file.write(piece)


@pytest.mark.parametrize("pieces", [0, 1, 3, 10, 30])
def test_a_full_disk_leaves_the_old_and_nothing_half_written(saved, monkeypatch, pieces):
    before = contents(saved)
    monkeypatch.setattr(atomic_folders, "write_file", Full(pieces))
    with pytest.raises(CheckpointError, match=r"No space left.*earlier files are unchanged"):
        save_model(saved, build_model(CONFIG), replace=True)
    assert contents(saved) == before
    assert [path.name for path in saved.parent.iterdir()] == ["model"]


@pytest.mark.parametrize("step", ["mkdir", "rename", "fsync"])
def test_any_refused_call_leaves_the_old(saved, monkeypatch, step):
    before = contents(saved)

    def refuse(*_, **__):
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    with monkeypatch.context() as patch:
        patch.setattr(os if step == "fsync" else Path, step, refuse)
        with pytest.raises(CheckpointError, match=r"Read-only.*earlier files are unchanged"):
            save_model(saved, build_model(CONFIG), replace=True)
    assert contents(saved) == before
    assert [path.name for path in saved.parent.iterdir()] == ["model"]


def test_an_error_of_the_writer_itself_passes_and_cleans_up(tmp_path):
    with contextlib.suppress(ZeroDivisionError), new_folder(tmp_path / "x") as making:
        (making / "file").touch()
        raise ZeroDivisionError
    assert list(tmp_path.iterdir()) == []


def test_a_kill_between_two_renames_is_repaired(saved):
    saved.rename(saved.parent / ".replaced-model")
    (saved.parent / ".unfinished-model-1-abc").mkdir()
    (saved.parent / ".unfinished-probe-1").touch()
    remove_leftovers(saved.parent)
    read_folder(saved)
    assert [path.name for path in saved.parent.iterdir()] == ["model"]


SAVE_FOREVER = """
import sys, itertools
from pathlib import Path
import numpy as np
from regard.checkpoints.atomic_folders import new_folder, remove_folder, write_tensors
out = Path(sys.argv[1])
print("ready", flush=True)
for number in itertools.count():
    with new_folder(out / f"step-{number:08}") as making:
        for name in "abc":
            write_tensors(making / f"{name}.safetensors", {"w": np.full((50, 1000), number, np.float32)})
    if number >= 2:
        remove_folder(out / f"step-{number - 2:08}")
"""


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="no SIGKILL there")
def test_a_kill_at_any_instant_leaves_whole_folders(tmp_path):
    instants = random.Random(5)
    for attempt in range(12):
        out = tmp_path / str(attempt)
        out.mkdir()
        process = subprocess.Popen(
            [sys.executable, "-c", SAVE_FOREVER, str(out)],
            stdout=subprocess.PIPE,
            text=True,
            encoding="utf-8",
        )
        with process:
            process.stdout.readline()
            time.sleep(instants.uniform(0.0, 0.12))
            process.kill()
        folders = sorted(out.glob("step-*"))
        for folder in folders:
            assert check_manifest(folder) == [f"{name}.safetensors" for name in "abc"]
            value = MappedWeights(folder / "c.safetensors")["w"]
            assert (value == int(folder.name[5:])).all()
        remove_leftovers(out)
        assert sorted(out.iterdir()) == folders
