"""Folders that somebody made with intent: refused at once, in one line, whatever is in them."""

from __future__ import annotations

import hashlib
import json
import os
import socket
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from regard.checkpoints.atomic_folders import digest_of, seal, write_tensors
from regard.checkpoints.folder import ModelFolder, load_model, read_folder, save_model
from regard.checkpoints.untrusted_files import FolderFiles, MappedWeights, check_manifest
from regard.errors import CheckpointError, DataError, RegardError
from regard.inference.loading import chat_of, load, load_images
from regard.model import transformer
from regard.model.config import ModelConfig
from regard.model.transformer import build_model
from regard.model.weight_shapes import weight_shapes
from regard.text.tokenizer import Tokenizer, Tokenizers

CONFIG = ModelConfig(vocabulary=300, width=16, layers=2, heads=2, feed_forward_width=32, context=16)
CLASSES = CONFIG.changed(family="encoder-only", output="classes", classes=2, pooling="bert")
NAMES = ["manifest.json", "config.json", "model.safetensors", "tokenizer.json"]

unix = pytest.mark.skipif(os.name == "nt", reason="pipes and links are files only on Unix")


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return Tokenizer.train(["one two three", "four five"], vocabulary=300)


@pytest.fixture(scope="module")
def originals(tmp_path_factory, tokenizer) -> dict[str, dict[str, bytes]]:
    torch.manual_seed(0)
    place = tmp_path_factory.mktemp("originals")
    both = Tokenizers.joint(tokenizer)
    save_model(place / "translation", build_model(CONFIG), both, "translation")
    save_model(place / "classes", build_model(CLASSES), both, "classes", {"labels": ["good", "bad"]})
    return {
        folder.name: {path.name: path.read_bytes() for path in folder.iterdir()} for folder in place.iterdir()
    }


@pytest.fixture
def make(tmp_path, originals):
    """A sound folder, new each time."""

    def copy(kind: str = "translation") -> Path:
        folder = tmp_path / f"folder-{len(list(tmp_path.iterdir()))}"
        folder.mkdir()
        for name, content in originals[kind].items():
            (folder / name).write_bytes(content)
        return folder

    return copy


def resealed(folder: Path) -> Path:
    """The manifest made anew, as somebody would who writes a folder with intent."""
    (folder / "manifest.json").unlink()
    seal(folder)
    return folder


def retold(folder: Path, changes: dict[str, object]) -> Path:
    """A config with other values, of the whole file or of the model in it."""
    told = json.loads((folder / "config.json").read_bytes())
    for name, value in changes.items():
        (told if name in ("format", "task", "extra", "model") else told["model"])[name] = value
    (folder / "config.json").write_text(json.dumps(told), encoding="utf-8")
    return resealed(folder)


def relisted(folder: Path, files: object) -> Path:
    """A manifest that lists these files, and matches its own sha256."""
    manifest = {"format": 1, "files": files}
    told = {"manifest": manifest, "sha256": digest_of(manifest)}
    (folder / "manifest.json").write_text(json.dumps(told), encoding="utf-8")
    return folder


def listed_as(path: Path) -> dict[str, object]:
    """What a manifest says of a file."""
    content = path.read_bytes()
    return {"size": len(content), "sha256": hashlib.sha256(content).hexdigest()}


def line_of(call, *arguments) -> str:
    """What is said, which is one line that a terminal can show."""
    with pytest.raises(RegardError) as caught:
        call(*arguments)
    message = str(caught.value)
    assert "\n" not in message
    assert len(message) < 1000
    message.encode()
    return message


def said_by(call, folder: Path) -> str:
    """What is said where something is; anything but these two errors goes through."""
    try:
        call(folder)
    except (CheckpointError, DataError) as error:
        return str(error)
    return ""


# Files that are no regular files


def pipe(path: Path) -> None:
    os.mkfifo(path)


def unix_socket(path: Path) -> None:
    here = Path.cwd()
    os.chdir(path.parent)  # the name of a socket may have a hundred characters
    try:
        with socket.socket(socket.AF_UNIX) as listening:
            listening.bind(path.name)
    finally:
        os.chdir(here)


PLANTED = {
    "pipe": pipe,
    "socket": unix_socket,
    "a link to itself": lambda path: path.symlink_to(path),
    "a link to a device": lambda path: path.symlink_to("/dev/zero"),
    "a link to nowhere": lambda path: path.symlink_to(path.parent / "nowhere"),
    "folder": lambda path: path.mkdir(),
}


@unix
@pytest.mark.parametrize("planted", PLANTED)
@pytest.mark.parametrize("name", NAMES)
def test_what_is_no_regular_file_is_refused_without_opening_it(make, name, planted):
    folder = make()
    (folder / name).unlink()
    PLANTED[planted](folder / name)
    for call in (read_folder, load):
        assert name in line_of(call, folder)


@unix
@pytest.mark.parametrize("name", NAMES)
def test_a_link_is_refused_wherever_it_leads(make, tmp_path, name):
    folder = make()
    content = (folder / name).read_bytes()
    for target in (tmp_path / "outside", folder / "inside"):
        target.write_bytes(content)
        (folder / name).unlink()
        (folder / name).symlink_to(target)
        assert "it is a link; copy the file itself there" in line_of(load, folder)


@unix
def test_a_tokenizer_that_is_a_pipe_is_refused_by_itself(tmp_path):
    os.mkfifo(tmp_path / "tokenizer.json")
    assert "it is a pipe" in line_of(Tokenizer.load, tmp_path / "tokenizer.json")
    assert "it is a pipe" in line_of(Tokenizers.load, tmp_path)


@unix
def test_a_tokenizer_named_by_a_link_is_followed_only_for_its_own_sake(tmp_path, tokenizer):
    tokenizer.save(tmp_path / "kept.json")
    (tmp_path / "tokenizer.json").symlink_to(tmp_path / "kept.json")
    assert Tokenizer.load(tmp_path / "tokenizer.json").fingerprint == tokenizer.fingerprint
    assert "it is a link" in line_of(Tokenizers.load, tmp_path)


@unix
def test_a_folder_of_another_project_has_the_same_opener(tmp_path):
    (tmp_path / "secret").write_text("{}", encoding="utf-8")
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "config.json").symlink_to(tmp_path / "secret")
    (folder / "plain.json").write_text('{"a": 1}', encoding="utf-8")
    files = FolderFiles(folder)
    assert files.json("plain.json") == {"a": 1}
    assert "plain.json" in files
    assert "absent.json" not in files
    assert "it is a link" in line_of(files.json, "config.json")
    assert "it is a link" in line_of(load, folder)
    for name in ("../secret", str(tmp_path / "secret"), "a/b", "", "a\0b"):
        assert "is outside of it" in line_of(files.weights, name)


# What the manifest does not list


@pytest.mark.parametrize("name", ["tokenizer.json", "tokenizer.source.json", "tokenizer.target.json"])
def test_a_tokenizer_beside_the_manifest_is_refused(tmp_path, tokenizer, name):
    folder = save_model(tmp_path / "bare", build_model(CONFIG))
    tokenizer.save(folder / name)
    for call in (read_folder, load):
        assert f"{name} is not in the folder's manifest" in line_of(call, folder)


def test_a_note_beside_the_manifest_is_welcome(make):
    folder = make()
    (folder / "README.md").write_text("mine", encoding="utf-8")
    assert load(folder).translate("one", max_length=2) is not None


def test_a_file_that_is_not_listed_is_not_opened(make):
    folder = make()
    (folder / "other.json").write_text("{}", encoding="utf-8")
    assert "not in the folder's manifest" in line_of(FolderFiles.sealed(folder).json, "other.json")


def test_a_manifest_whose_seal_is_wrong_is_refused(make):
    """Its files match what it lists; only the manifest does not match its own sha256."""
    folder = make()
    sealed = json.loads((folder / "manifest.json").read_bytes())
    (folder / "config.json").write_bytes((folder / "config.json").read_bytes() + b" ")
    sealed["manifest"]["files"]["config.json"] = listed_as(folder / "config.json")
    (folder / "manifest.json").write_text(json.dumps(sealed), encoding="utf-8")
    for call in (check_manifest, read_folder):
        assert "manifest.json is damaged: it does not match its own sha256" in line_of(call, folder)
    sealed["sha256"] = digest_of(sealed["manifest"])
    (folder / "manifest.json").write_text(json.dumps(sealed), encoding="utf-8")
    assert read_folder(folder).config == CONFIG


@pytest.mark.parametrize(
    "name", ["\ud800", "a\udcff", "\udfff.json", "a\nb", "x" * 5000, "con\0", "é" * 300], ids=ascii
)
def test_a_name_that_no_file_can_have_is_one_line(make, name):
    folder = relisted(make(), {name: {"size": 0, "sha256": ""}})
    line_of(read_folder, folder)
    line_of(load, folder)


@pytest.mark.parametrize(
    "files",
    [
        {"config.json": {"size": "1", "sha256": ""}},
        {"config.json": {"size": True, "sha256": ""}},
        {"config.json": {"size": [[]], "sha256": {}}},
        {"config.json": {"size": 1e400, "sha256": 5}},
        {"config.json": 5},
        {"config.json": None},
        ["config.json"],
        {},
        5,
    ],
    ids=str,
)
def test_a_manifest_with_other_things_in_it_is_one_line(make, files):
    assert "manifest" in line_of(load, relisted(make(), files))


def test_a_huge_file_is_refused_by_its_size(make):
    """None of them is read: the largest have holes instead of bytes."""
    folder = make()
    with (folder / "manifest.json").open("r+b") as file:
        file.truncate(1 << 40)
    assert "manifest.json: it has 1,099,511,627,776 bytes" in line_of(load, folder)
    for name, said in (("tokenizer.json", "more than the limit"), ("model.safetensors", "its arrays have")):
        folder = make()
        with (folder / name).open("r+b") as file:
            file.truncate(1 << 40)
        files = json.loads((folder / "manifest.json").read_bytes())["manifest"]["files"]
        files[name]["size"] = 1 << 40
        assert said in line_of(load, relisted(folder, files))


@pytest.mark.parametrize("value", [5, None, "x", [1], {"pooling": 3}, {"limit": "a"}, {"a": 1}], ids=str)
@pytest.mark.parametrize("name", ["embedding", "image", "chat"])
def test_metadata_of_any_kind_is_one_line(make, name, value):
    if name == "chat":
        folder = ModelFolder(Path("there"), CONFIG, "", {"chat": value}, MappedWeights, [])
        assert "there: the metadata chat must have a template" in line_of(chat_of, folder, None)
        return
    said = line_of(
        load if name == "embedding" else load_images, retold(make("classes"), {"extra": {name: value}})
    )
    assert f"config.json: extra.{name}: " in said


# Weights that are not those of the config


@pytest.fixture
def counted(monkeypatch):
    """How many blocks have been built."""
    built = []
    for name in ("_encoder_block", "_decoder_block"):
        make = getattr(transformer, name)
        monkeypatch.setattr(transformer, name, lambda config, make=make: built.append(1) or make(config))
    return built


def test_thousands_of_layers_are_refused_before_they_are_built(make, counted):
    folder = make()
    shapes = read_folder(folder).weights.shapes
    arrays = {name: np.zeros(shape, np.float32) for name, shape in shapes.items()}
    arrays |= {f"encoder.blocks.{number}.more": np.zeros(0, np.float32) for number in range(9000)}
    (folder / "model.safetensors").unlink()
    write_tensors(folder / "model.safetensors", arrays)
    retold(folder, {"layers": 4096, "decoder_layers": 4096})
    counted.clear()
    said = line_of(load_model, folder)
    assert "missing: encoder.blocks.2.attention" in said
    assert "model.safetensors" in said
    assert len(counted) <= 2


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"layers": 1, "decoder_layers": 3, "share_embeddings": False, "tie_head": False},
        {
            "family": "decoder-only",
            "layers": 3,
            "positions": "rotary",
            "norm": "rms",
            "feed_forward": "swiglu",
        },
        {
            "family": "encoder-only",
            "output": "masked",
            "positions": "learned",
            "head_bias": True,
            "segments": 2,
        },
        {"family": "encoder-only", "output": "classes", "classes": 3, "pooling": "bert"},
        {"residual": "pre", "embedding_norm": True, "similarity": "bilinear", "key_value_heads": 1},
    ],
    ids=str,
)
def test_the_shapes_that_a_config_implies_are_those_of_its_model(changes):
    config = CONFIG.changed(**changes)
    built: dict[int, dict[str, tuple[int, ...]]] = {}
    for name, tensor in build_model(config, device="meta").state_dict(keep_vars=True).items():
        built.setdefault(id(tensor), {})[name] = tuple(tensor.shape)
    assert list(weight_shapes(config)) == list(built.values())


def test_weights_far_larger_than_the_config_are_refused_before_they_are_read(make, monkeypatch):
    """A file of holes costs its maker nothing, and hours to hash."""
    digest = hashlib.file_digest

    def of_few(file, name):
        assert os.fstat(file.fileno()).st_size < 1 << 30
        return digest(file, name)

    monkeypatch.setattr(hashlib, "file_digest", of_few)
    folder = make()
    shape = [1 << 30, 1 << 8]
    header = json.dumps({"a": {"dtype": "F32", "shape": shape, "data_offsets": [0, 1 << 40]}}).encode()
    with (folder / "model.safetensors").open("wb") as file:
        file.write(len(header).to_bytes(8, "little") + header)
        file.truncate(8 + len(header) + (1 << 40))
    files = json.loads((folder / "manifest.json").read_bytes())["manifest"]["files"]
    files["model.safetensors"]["size"] = 8 + len(header) + (1 << 40)
    told = json.loads((folder / "config.json").read_bytes())
    told["model"]["layers"] = 1
    (folder / "config.json").write_text(json.dumps(told), encoding="utf-8")
    files["config.json"] = listed_as(folder / "config.json")
    assert "describes a model of width 16" in line_of(read_folder, relisted(folder, files))


@pytest.mark.parametrize(
    "changes",
    [
        {"layers": 4096},
        {"decoder_layers": 4096},
        {"vocabulary": 1 << 24},
        {"width": 1 << 12, "heads": 1, "context": 1 << 24, "vocabulary": 1},
    ],
    ids=str,
)
def test_an_implausible_config_is_refused_without_torch(make, changes):
    """By reading alone, before anything of such a size could be made."""
    assert "describes a model of width" in line_of(read_folder, retold(make(), changes))


def test_a_header_beyond_the_limit_is_refused_unread(tmp_path):
    """The file is long enough for its header, and the header is sound."""
    write_tensors(tmp_path / "x.safetensors", {f"weight-{n}": np.zeros(0, np.float32) for n in range(100)})
    assert len(MappedWeights(tmp_path / "x.safetensors")) == 100
    length = int.from_bytes((tmp_path / "x.safetensors").read_bytes()[:8], "little")
    assert len(MappedWeights(tmp_path / "x.safetensors", length)) == 100
    assert f"its header has {length:,} bytes" in line_of(
        MappedWeights, tmp_path / "x.safetensors", length - 1
    )


def test_a_model_has_a_header_of_bounded_size(make, monkeypatch):
    length = int.from_bytes((make() / "model.safetensors").read_bytes()[:8], "little")
    monkeypatch.setattr("regard.checkpoints.folder.LARGEST_HEADER", length - 1)
    assert f"its header has {length:,} bytes" in line_of(read_folder, make())


@pytest.mark.parametrize("arrays", [{"a": np.zeros(2, np.float32)}, {}], ids=["one", "none"])
def test_bytes_after_the_last_weight_are_refused(tmp_path, arrays):
    write_tensors(tmp_path / "x.safetensors", arrays)
    content = (tmp_path / "x.safetensors").read_bytes()
    assert len(MappedWeights(tmp_path / "x.safetensors")) == len(arrays)
    (tmp_path / "x.safetensors").write_bytes(content + b"more")
    assert "its arrays have" in line_of(MappedWeights, tmp_path / "x.safetensors")


@pytest.mark.parametrize("name", ["a\nb", "\ud800", "x" * 100_000, "\x1b[31m"], ids=ascii)
def test_a_strange_name_of_a_weight_is_one_line(make, name):
    folder = make()
    shapes = read_folder(folder).weights.shapes
    text = json.dumps({name: {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}).encode()
    data = np.zeros(sum(int(np.prod(shape)) for shape in shapes.values()), np.float32)
    entries, at = {}, 4
    for known, shape in shapes.items():
        size = 4 * int(np.prod(shape))
        entries[known] = {"dtype": "F32", "shape": list(shape), "data_offsets": [at, at + size]}
        at += size
    text = json.dumps({**json.loads(text), **entries}).encode()
    whole = len(text).to_bytes(8, "little") + text + b"\0" * 4 + data.tobytes()
    (folder / "model.safetensors").write_bytes(whole)
    said = line_of(load_model, resealed(folder))
    assert "\x1b" not in said


# What else a config may say


WRONG = [
    5, -1, 1.5, True, None, "text", [5], [None], [[]], {}, {"a": 1}, ["good"], ["good", "good"], ["good", 5],
    ["\ud800", "b"], ["a"] * 100_000,
]  # fmt: skip


@pytest.mark.parametrize("kind", ["classes", "translation"])
@pytest.mark.parametrize("value", WRONG, ids=lambda value: ascii(value)[:40])
def test_labels_of_another_type_are_one_line(make, kind, value):
    folder = retold(make(kind), {"extra": {"labels": value}})
    for call in (read_folder, load):
        assert "config.json" in line_of(call, folder) or "labels" in line_of(call, folder)


@pytest.mark.parametrize("value", [5, "text", [1], None, True], ids=str)
def test_an_extra_that_is_no_table_is_one_line(make, value):
    assert "extra a table" in line_of(load, retold(make(), {"extra": value}))


@pytest.mark.parametrize("value", [5, {}, [1], None, True], ids=str)
def test_a_task_that_is_no_text_is_one_line(make, value):
    assert "task must be a text" in line_of(load, retold(make(), {"task": value}))


@pytest.mark.parametrize("name", ["norm", "positions", "similarity", "feed_forward", "residual", "attention"])
def test_a_variant_that_does_not_exist_is_named_with_its_file(make, name):
    said = line_of(load_model, retold(make(), {name: "unheard"}))
    assert "unheard" in said
    assert "config.json" in said


@pytest.mark.parametrize("changes", [{"norm": "x" * 100_000}, {"x" * 100_000: 1}], ids=["value", "key"])
def test_a_text_of_any_length_is_quoted_in_part(make, changes):
    line_of(load_model, retold(make(), changes))


def test_the_tokenizer_of_either_side_must_fit(tmp_path, tokenizer):
    other = Tokenizer.train(["uno dos tres cuatro"], vocabulary=290)
    apart = {"share_embeddings": False, "tie_head": False}
    sizes = {
        "source": {"vocabulary": tokenizer.vocabulary - 1, "target_vocabulary": other.vocabulary},
        "target": {"vocabulary": tokenizer.vocabulary, "target_vocabulary": other.vocabulary - 1},
    }
    for side, size in sizes.items():
        given = (tokenizer if side == "source" else other).vocabulary
        model = build_model(CONFIG.changed(**apart, **size))
        folder = save_model(tmp_path / side, model, Tokenizers(tokenizer, other))
        for call in (load, lambda path: read_folder(path).tokenizers()):
            assert f"the tokenizer has {given} tokens, and the model {given - 1}" in line_of(call, folder)


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text()
    | st.sampled_from(["\ud800", "relu", "../x"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
FIELDS = ["format", "task", "extra", "model", "labels", *ModelConfig.model_fields]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=150)
@given(st.sampled_from(FIELDS), VALUES, st.sampled_from(["translation", "classes"]))
def test_no_value_of_a_config_ends_the_process(make, field, value, kind):
    changes = {"extra": {"labels": value}} if field == "labels" else {field: value}
    folder = retold(make(kind), changes)
    assert "\n" not in said_by(load_model, folder)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=100)
@given(st.binary(min_size=1, max_size=8), st.integers(0, 1 << 20), st.sampled_from(NAMES))
def test_no_bytes_in_a_sealed_file_end_the_process(make, content, at, name):
    folder = make()
    old = (folder / name).read_bytes()
    at %= len(old)
    (folder / name).write_bytes(old[:at] + content + old[at + len(content) :])
    if name != "manifest.json":
        resealed(folder)
    assert "\n" not in said_by(load, folder)
