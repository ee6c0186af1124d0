"""GGUF files: written with the package gguf, which is the oracle, and hostile ones written by hand."""

from __future__ import annotations

import json
import os
import struct
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import regard
from regard.checkpoints.gguf_file import GGUFFile
from regard.checkpoints.gguf_llama import halves_from_pairs, pairs_from_halves, read_gguf, their_name
from regard.checkpoints.gguf_tokenizers import read_chat, read_tokenizer
from regard.cli.app import run
from regard.errors import CheckpointError, RegardError
from regard.model.config import RotaryScaling
from regard.model.frequencies import rotary_frequencies

gguf = pytest.importorskip("gguf", reason="needs gguf: pip install 'regard[exchange]'")

WIDTH, HIDDEN, LAYERS, HEADS, GROUPS = 256, 256, 1, 4, 2
PIECES = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256)), "▁", *"theanimls", "▁t", "▁th",
          "▁the", "an", "im", "al", "▁a", "▁an", "▁animal", "imal"]  # fmt: skip


def write(path: Path, kind: str = "F32", changes: dict[str, Any] | None = None, tied: bool = False,
          factors: np.ndarray | None = None) -> dict:  # fmt: skip
    """Write a random Llama of one block; its tensors as the package dequantises them."""
    draw, stored = np.random.default_rng(0), gguf.GGMLQuantizationType[kind]
    writer = gguf.GGUFWriter(path, (changes or {}).get("architecture", "llama"))
    sizes = dict(
        context_length=64, embedding_length=WIDTH, block_count=LAYERS, feed_forward_length=HIDDEN,
        head_count=HEADS, head_count_kv=GROUPS, layer_norm_rms_eps=1e-5, rope_freq_base=1e4,
    )  # fmt: skip
    for name, value in (sizes | (changes or {})).items():
        if name != "architecture":
            getattr(writer, f"add_{name}")(value)
    writer.add_tokenizer_model("llama")
    writer.add_token_list(PIECES)
    writer.add_token_scores([-float(number) for number in range(len(PIECES))])
    writer.add_token_types([2, 3, 3, *[6] * 256, *[1] * (len(PIECES) - 259)])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_unk_token_id(0)
    rows = {"attn_q": WIDTH, "attn_k": WIDTH // 2, "attn_v": WIDTH // 2, "attn_output": WIDTH,
            "ffn_gate": HIDDEN, "ffn_up": HIDDEN, "ffn_down": WIDTH}  # fmt: skip
    shapes: dict[str, tuple[int, ...]] = {"token_embd": (len(PIECES), WIDTH)}
    shapes |= dict.fromkeys(("output_norm", "blk.0.attn_norm", "blk.0.ffn_norm"), (WIDTH,))
    shapes |= {f"blk.0.{name}": (count, WIDTH) for name, count in rows.items()}
    if factors is not None:
        writer.add_tensor("rope_freqs.weight", factors)
    shapes |= {} if tied else {"output": (len(PIECES), WIDTH)}
    wanted = {}
    for name, shape in shapes.items():
        array = draw.normal(0, 0.1, shape).astype(np.float32)
        type_ = stored if array.ndim == 2 else gguf.GGMLQuantizationType.F32
        raw = (
            _random_blocks(draw, shape, type_)
            if kind in ("Q4_K", "Q6_K") and array.ndim == 2
            else (gguf.quants.quantize(array, type_))
        )
        writer.add_tensor(f"{name}.weight", raw, raw_dtype=type_)
        wanted[f"{name}.weight"] = gguf.quants.dequantize(np.ascontiguousarray(raw), type_).reshape(shape)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return wanted


def _random_blocks(draw: np.random.Generator, shape: tuple[int, ...], kind: Any) -> np.ndarray:
    """Random valid blocks of a kind that the package dequantises but does not quantise."""
    block, size = gguf.GGML_QUANT_SIZES[kind]
    raw = draw.integers(0, 256, (shape[0], shape[1] // block, size)).astype(np.uint8)
    scale = np.array([1e-4], np.float16).view(np.uint8)
    places = [0, 2] if kind.name == "Q4_K" else [size - 2]
    for place in places:
        raw[..., place : place + 2] = scale
    return raw.reshape(shape[0], -1)


@pytest.mark.parametrize("kind", ["F32", "F16", "BF16", "Q8_0", "Q4_0", "Q4_1", "Q4_K", "Q6_K"])
def test_a_file_of_each_type_is_read_as_the_package_reads_it(tmp_path, kind: str) -> None:
    wanted = write(tmp_path / "model.gguf", kind)
    file = GGUFFile(tmp_path / "model.gguf")
    assert file.shapes == {name: array.shape for name, array in wanted.items()}
    for name, array in wanted.items():
        assert np.array_equal(file[name], array), name


def test_a_file_is_loaded_and_equals_transformers(tmp_path) -> None:
    transformers = pytest.importorskip("transformers", reason="needs transformers")
    wanted = write(tmp_path / "model.gguf", tied=True)
    model = regard.load(tmp_path / "model.gguf")
    assert isinstance(model, regard.Writer)
    config = transformers.LlamaConfig(
        vocab_size=len(PIECES), hidden_size=WIDTH, intermediate_size=HIDDEN, num_hidden_layers=1,
        num_attention_heads=HEADS, num_key_value_heads=GROUPS, max_position_embeddings=64, rms_norm_eps=1e-5,
        rope_theta=1e4, tie_word_embeddings=True,
    )  # fmt: skip
    theirs = transformers.LlamaForCausalLM(config).eval()
    weights = {name: torch.from_numpy(np.array(array)) for name, array in read_gguf(
        tmp_path / "model.gguf").weights.stored_items()}  # fmt: skip
    theirs.load_state_dict(weights, strict=False)
    ids = torch.randint(0, len(PIECES), (1, 12))
    with torch.inference_mode():
        torch.testing.assert_close(model.model(ids), theirs(ids).logits, atol=1e-5, rtol=1e-5)
    assert torch.equal(model.model.target.weight, torch.from_numpy(wanted["token_embd.weight"].copy()))
    assert model.complete("the animal", top_k=1, max_tokens=3).tokens.ids.size == 3


def test_the_frequencies_of_llama_3(tmp_path) -> None:
    scaling = RotaryScaling(kind="llama3", factor=32.0)
    plain, scaled = (np.asarray(rotary_frequencies(WIDTH // HEADS, 1e4, kind)) for kind in (None, scaling))
    factors = (plain / scaled).astype(np.float32)
    write(tmp_path / "model.gguf", factors=factors)
    assert regard.load(tmp_path / "model.gguf").config.rotary_scaling == scaling
    for wrong in (factors[::-1].copy(), factors[1:], np.full_like(factors, np.nan), 0 * factors):
        write(tmp_path / "wrong.gguf", factors=wrong)
        with pytest.raises(CheckpointError, match=r"rope_freqs\.weight is not supported"):
            regard.load(tmp_path / "wrong.gguf")


def test_a_file_is_imported(tmp_path, capsys) -> None:
    write(tmp_path / "model.gguf", "Q8_0")
    assert run(["import", str(tmp_path / "model.gguf"), str(tmp_path / "imported")]) == 0
    assert "import (gguf) of a llama model, compared with the file's own weights" in capsys.readouterr().out
    before, after = regard.load(tmp_path / "model.gguf"), regard.load(tmp_path / "imported")
    for name, weight in before.model.state_dict().items():
        assert torch.equal(weight, after.model.state_dict()[name])
    one, other = (model.complete("the animal", top_k=1, max_tokens=5) for model in (before, after))
    assert one.tokens.ids.tolist() == other.tokens.ids.tolist()
    (tmp_path / "other.bin").touch()
    assert run(["import", str(tmp_path / "other.bin"), str(tmp_path / "new")]) == 1
    assert "is neither a GGUF file nor a Hugging Face folder" in capsys.readouterr().err


@pytest.mark.parametrize("template", ["a" * (1 << 19), 3])
def test_a_chat_template_is_checked(template) -> None:
    table = {"tokenizer.chat_template": template, "tokenizer.ggml.tokens": np.zeros(3)}
    with pytest.raises(CheckpointError, match=r"x\.gguf: tokenizer\.chat_template"):
        read_chat(Path("x.gguf"), table)


def test_pairs_and_halves_are_inverse_as_in_the_converter_of_llama_cpp() -> None:
    array = np.arange(48.0).reshape(16, 3)
    their_order = array.reshape(2, 2, 4, 3).swapaxes(1, 2).reshape(16, 3)  # its function permute
    assert np.array_equal(pairs_from_halves(array, 2), their_order)
    assert np.array_equal(halves_from_pairs(their_order, 2), array)


def test_the_tokenizers_of_both_types(tmp_path) -> None:
    write(tmp_path / "model.gguf")
    pieces = read_tokenizer(tmp_path / "model.gguf", GGUFFile(tmp_path / "model.gguf").metadata)
    assert [PIECES[number] for number in pieces.encode("the animal")] == ["▁the", "▁animal"]
    assert pieces.opening == (1,)
    assert pieces.decode(pieces.encode("the ébène")) == "the ébène"  # bytes for letters without a piece
    byte_pairs = regard.Tokenizer.train(["the animal", "an animal l'eau"] * 9, vocabulary=300)
    content = json.loads(byte_pairs.to_json())
    tokens = sorted(byte_pairs._inner.get_vocab().items(), key=lambda item: item[1])
    table = {
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "gpt-2",
        "tokenizer.ggml.tokens": [token for token, _ in tokens],
        "tokenizer.ggml.merges": [" ".join(pair) for pair in content["model"]["merges"]],
        "tokenizer.ggml.token_type": np.array([3] * 5 + [1] * (len(tokens) - 5)),
        "tokenizer.ggml.eos_token_id": byte_pairs.end,
    }
    read = read_tokenizer(Path("x.gguf"), table)
    for text in ("the animal was tired", "l'eau </s> 東京", "  two  spaces\n"):
        assert read.encode(text) == byte_pairs.encode(text)
    with pytest.raises(CheckpointError, match=r"tokenizer\.ggml\.pre \('odd'\) is not supported"):
        read_tokenizer(Path("x.gguf"), table | {"tokenizer.ggml.pre": "odd"})
    with pytest.raises(CheckpointError, match=r"tokenizer\.ggml\.pre \(None\) is not supported"):
        read_tokenizer(Path("x.gguf"), {key: v for key, v in table.items() if key != "tokenizer.ggml.pre"})
    digits = read_tokenizer(Path("x.gguf"), table | {"tokenizer.ggml.pre": "smollm"})
    pieces = [digits.decode([number]) for number in digits.encode("in 2026")]
    assert [piece.strip() for piece in pieces if piece.strip()][-4:] == ["2", "0", "2", "6"]
    for name, opening in (("llama-bpe", (byte_pairs.end,)), ("gpt-2", ())):
        named = {"tokenizer.ggml.pre": name, "tokenizer.ggml.bos_token_id": byte_pairs.end}
        assert read_tokenizer(Path("x.gguf"), table | named).opening == opening


def test_tokens_that_form_one_another_in_too_many_ways_are_refused() -> None:
    tokens = [letter * count for letter in "abcdefgh" for count in range(1, 129)]
    table = {"model": "llama", "tokens": tokens, "scores": np.zeros(len(tokens))}
    began = time.process_time()
    with pytest.raises(CheckpointError, match=r"the pairs that form tokenizer\.ggml\.tokens have more than"):
        read_tokenizer(Path("x.gguf"), {f"tokenizer.ggml.{key}": value for key, value in table.items()})
    assert time.process_time() - began < 1


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"architecture": "gemma"}, r"general\.architecture \('gemma'\) is not supported; it must be llama"),
        ({"expert_count": 8}, r"expert_count \(8\) is not supported"),
        ({"rope_dimension_count": 32}, r"rope\.dimension_count \(32\) is not supported; it must be 64"),
        ({"head_count": 5}, r"heads"),
        ({"embedding_length": 1 << 30}, r"width"),
    ],
)
def test_what_is_not_supported_is_named(tmp_path, changes, message, capsys) -> None:
    write(tmp_path / "model.gguf", changes=changes)
    with pytest.raises(RegardError, match=message):
        regard.load(tmp_path / "model.gguf")
    assert run(["complete", str(tmp_path / "model.gguf"), "a"]) in (1, 2)
    assert len(capsys.readouterr().err.splitlines()) == 1


def text(value: str) -> bytes:
    return struct.pack("<Q", len(value)) + value.encode()


def header(tensors: int = 0, entries: int = 0, rest: bytes = b"") -> bytes:
    return b"GGUF" + struct.pack("<IQQ", 3, tensors, entries) + rest


def tensor(offset: int = 0, shape: tuple[int, ...] = (4,), kind: int = 0) -> bytes:
    sizes = struct.pack(f"<{len(shape)}Q", *shape)
    return text("a") + struct.pack("<I", len(shape)) + sizes + struct.pack("<IQ", kind, offset) + bytes(64)


HOSTILE = {
    "empty": b"",
    "another file": b"PK\3\4" * 20,
    "another version": b"GGUF" + struct.pack("<IQQ", 9, 0, 0),
    "truncated": header(1, 1)[:11],
    "2^60 tensors": header(1 << 60),
    "2^60 entries": header(0, 1 << 60),
    "entries that are missing": header(0, 60_000),
    "a long name": header(0, 1, struct.pack("<Q", 1 << 62)),
    "an unknown type": header(0, 1, text("a") + struct.pack("<I", 77)),
    "a long array": header(0, 1, text("a") + struct.pack("<IIQ", 9, 4, 1 << 61)),
    "a long array of strings": header(0, 1, text("a") + struct.pack("<IIQ", 9, 8, 1 << 61)),
    "many empty strings": header(0, 1, text("a") + struct.pack("<IIQ", 9, 8, 1 << 22) + bytes(1 << 25)),
    "131,072 empty strings": header(0, 1, text("a") + struct.pack("<IIQ", 9, 8, 1 << 17) + bytes(1 << 20)),
    "a hundred long strings": header(
        0, 1, text("a") + struct.pack("<IIQ", 9, 8, 100) + text("x" * (1 << 20)) * 100
    ),
    "8,192 entries": header(0, 8192, b"".join(text(f"{n}") + struct.pack("<IB", 0, 1) for n in range(8192))),
    "an array of arrays": header(0, 1, text("a") + struct.pack("<IIQ", 9, 9, 1) + bytes(99)),
    "text that is not UTF-8": header(0, 1, struct.pack("<Q", 2) + b"\xff\xfe" + bytes(99)),
    "an alignment of 3": header(0, 1, text("general.alignment") + struct.pack("<II", 4, 3)),
    "an offset outside": header(1, 0, tensor(offset=1 << 50)),
    "a negative offset": header(1, 0, tensor(offset=(1 << 64) - 32)),
    "a huge shape": header(1, 0, tensor(shape=(1 << 39, 1 << 39, 1 << 39))),
    "no axes": header(1, 0, tensor(shape=())),
    "many axes": header(1, 0, tensor(shape=(1,) * 9)),
    "a tensor of an unknown type": header(1, 0, tensor(kind=99)),
    "a row that is no block": header(1, 0, tensor(shape=(33,), kind=8)),
    "overlapping tensors": header(2, 0, tensor()[:-64] + tensor()),
    "no metadata": header(1, 0, tensor()),
    "a list as architecture": header(0, 1, text("general.architecture") + struct.pack("<IIQ", 9, 4, 0)),
    "an alignment of two lines": header(
        0, 1, text("general.alignment") + struct.pack("<I", 8) + text("a\nb")
    ),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_file_is_refused_at_once(tmp_path, name: str) -> None:
    path = tmp_path / "model.gguf"
    path.write_bytes(HOSTILE[name])
    began = time.process_time()
    with pytest.raises(CheckpointError) as caught:
        read_gguf(path)
    assert "\n" not in str(caught.value)
    assert str(path) in str(caught.value)
    assert time.process_time() - began < 1
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("key", ["general.architecture", "llama.expert_count", "llama.of_tomorrow"])
@pytest.mark.parametrize("value", [np.zeros(0), np.zeros(2), ["a"]], ids=["empty", "numbers", "texts"])
def test_a_list_in_place_of_a_value_is_refused(tmp_path, monkeypatch, key: str, value: Any) -> None:
    write(tmp_path / "model.gguf")
    file = GGUFFile(tmp_path / "model.gguf")
    file.metadata[key] = value
    monkeypatch.setattr("regard.checkpoints.gguf_llama.GGUFFile", lambda path: file)
    with pytest.raises(CheckpointError, match=key.partition(".")[2]):
        read_gguf(tmp_path / "model.gguf")


@pytest.mark.parametrize("key", ["model", "pre"])
def test_a_list_in_place_of_the_kind_of_a_tokenizer_is_refused(key: str) -> None:
    table = {"tokenizer.ggml.model": "gpt2", "tokenizer.ggml.tokens": ["a"], f"tokenizer.ggml.{key}": ["a"]}
    with pytest.raises(CheckpointError, match=rf"tokenizer\.ggml\.{key} \(\['a'\]\) is not supported"):
        read_tokenizer(Path("x.gguf"), table)


def test_a_number_of_a_block_with_thousands_of_digits_is_refused(tmp_path) -> None:
    write(tmp_path / "model.gguf")
    file = GGUFFile(tmp_path / "model.gguf")
    with pytest.raises(CheckpointError, match=r"the tensor 'blk\.999.* is not supported"):
        their_name(file, f"blk.{'9' * 5000}.attn_q.weight")


def test_looking_for_a_name_reads_no_tensor(tmp_path, monkeypatch) -> None:
    write(tmp_path / "model.gguf", "Q8_0")
    monkeypatch.setattr(GGUFFile, "__getitem__", None)
    assert read_gguf(tmp_path / "model.gguf").config.layers == LAYERS


def test_pipes_links_and_truncation_are_refused(tmp_path) -> None:
    os.mkfifo(tmp_path / "pipe.gguf")
    write(tmp_path / "real.gguf")
    (tmp_path / "link.gguf").symlink_to(tmp_path / "real.gguf")
    for name, reason in (("pipe", "a pipe"), ("link", "a link")):
        with pytest.raises(CheckpointError, match=reason):
            regard.load(tmp_path / f"{name}.gguf")
    content = (tmp_path / "real.gguf").read_bytes()
    for length in (30, 300, 5_000, len(content) - 1):
        (tmp_path / "cut.gguf").write_bytes(content[:length])
        with pytest.raises(CheckpointError, match="is damaged"):
            regard.load(tmp_path / "cut.gguf")
