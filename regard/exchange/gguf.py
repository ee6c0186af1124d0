"""export_gguf: a Llama-shaped model as a GGUF file, read again and compared before the folder appears.

The matrices are F32, F16 or Q8_0; norms and biases are always F32. The folder has model.gguf, which llama.cpp
loads, with its tokenizer.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np

from regard.checkpoints.atomic_folders import new_folder
from regard.checkpoints.chat_templates import chat_template, end_ids
from regard.checkpoints.folder import as_arrays, stored_weights
from regard.checkpoints.formats import FORMATS
from regard.checkpoints.gguf_llama import PARTS, WHOLE, pairs_from_halves
from regard.errors import CheckpointError, MissingPackage
from regard.exchange.huggingface import ExportSource, finish_export
from regard.exchange.report import Report
from regard.exchange.verification import Reference, compare_outputs, our_logits
from regard.inference.loading import load
from regard.text.tokenizer import Tokenizer

MODEL = "model.gguf"
# The largest difference of logits that rounding of the matrices explains, relative to the largest logit.
TOLERANCES = {"F32": 1e-5, "F16": 1e-2, "Q8_0": 1e-1}
NORMAL, CONTROL = 1, 3  # kinds of tokens
BLOCK = 32  # numbers in a block of Q8_0


def export_gguf(path: str | Path, out: str | Path, kind: str = "F32") -> Report:
    """Write a model as a GGUF file; raise and write nothing if a setting prevents it."""
    _check_package()
    source = ExportSource.open(path, out)
    _check(source, kind)
    with new_folder(Path(out), manifest=False) as temporary:
        _write(temporary / MODEL, source, kind)
        report = compare_outputs(
            "export", source.kind, source.model, _read_again(temporary), TOLERANCES[kind]
        )
        report.notes.append(f"the matrices are stored as {kind}")
        finish_export(temporary, source.path, source.read, report)
    return report


export_gguf_f16 = partial(export_gguf, kind="F16")
export_gguf_q8_0 = partial(export_gguf, kind="Q8_0")


def _check_package() -> None:
    try:
        version("gguf")
    except PackageNotFoundError:
        raise MissingPackage(
            "export to GGUF needs the package gguf: pip install 'regard[exchange]'"
        ) from None


def _check(source: ExportSource, kind: str) -> None:
    """Raise if a setting has no counterpart in a GGUF file of Llama type."""
    config = source.config
    if source.kind != "llama":
        raise CheckpointError(
            f"model_type ({source.kind}) cannot be written as GGUF, which has llama; train a language model "
            'with positions = "rotary", norm = "rms" and feed_forward = "swiglu"'
        )
    if config.feed_forward != "swiglu":
        raise CheckpointError(
            f"feed_forward ({config.feed_forward}) cannot be written as GGUF, which has swiglu"
        )
    if config.rotary_scaling is not None and config.rotary_scaling.kind != "linear":
        raise CheckpointError(
            f"rotary_scaling ({config.rotary_scaling.kind}) cannot be written as GGUF; linear can"
        )
    widths = {"width": config.width, "feed_forward_width": config.feed_forward_width,
              "heads x key width": config.heads * config.key_size}  # fmt: skip
    for name, width in widths.items():
        if kind == "Q8_0" and width % BLOCK:
            raise CheckpointError(f"{name} ({width}) must be a multiple of {BLOCK} for Q8_0; choose gguf-f16")


def _write(path: Path, source: ExportSource, kind: str) -> None:
    from gguf import GGMLQuantizationType, GGUFWriter  # pyright: ignore[reportMissingImports]
    from gguf.quants import quantize  # pyright: ignore[reportMissingImports]

    writer = GGUFWriter(path, "llama")
    _add_sizes(writer, source)
    _add_tokenizer(writer, source.tokenizer, source.config.vocabulary, source.read.extra.get("chat"))
    for name, array in _tensors(source):
        stored = GGMLQuantizationType[kind if array.ndim == 2 else "F32"]
        writer.add_tensor(name, quantize(array, stored), raw_dtype=stored)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _add_sizes(writer: Any, source: ExportSource) -> None:
    from gguf import RopeScalingType  # pyright: ignore[reportMissingImports]

    config = source.config
    writer.add_name(Path(source.path).name)
    writer.add_context_length(config.context)
    writer.add_embedding_length(config.width)
    writer.add_block_count(config.layers)
    writer.add_feed_forward_length(config.feed_forward_width)
    writer.add_head_count(config.heads)
    writer.add_head_count_kv(config.groups)
    writer.add_key_length(config.key_size)
    writer.add_value_length(config.value_size)
    writer.add_rope_dimension_count(config.key_size)
    writer.add_layer_norm_rms_eps(config.norm_epsilon)
    writer.add_rope_freq_base(config.rotary_theta)
    writer.add_vocab_size(config.vocabulary)
    if config.rotary_scaling is not None:
        writer.add_rope_scaling_type(RopeScalingType.LINEAR)
        writer.add_rope_scaling_factor(config.rotary_scaling.factor)


def _add_tokenizer(writer: Any, tokenizer: Tokenizer, vocabulary: int, chat: Any) -> None:
    """Byte-level BPE with GPT-2's pattern, the only kind of ours that llama.cpp has; the chat template."""
    content = json.loads(tokenizer.to_json())
    model, split = content["model"], content.get("pre_tokenizer") or {}
    is_plain = split.get("type") == "ByteLevel" and split.get("use_regex", True)
    if model["type"] != "BPE" or not is_plain or split.get("add_prefix_space") or content.get("normalizer"):
        raise CheckpointError(
            f"a tokenizer of type {model['type']} with this normalisation cannot be written as GGUF; train "
            'one with tokenizer.kind = "bpe" and normalisation = "none"'
        )
    by_id = {number: token for token, number in model["vocab"].items()}
    special = {token["id"]: token["content"] for token in content["added_tokens"]}
    by_id |= special
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list([by_id.get(number, f"[unused {number}]") for number in range(vocabulary)])
    writer.add_token_types([CONTROL if n in special or n not in by_id else NORMAL for n in range(vocabulary)])
    writer.add_token_merges([m if isinstance(m, str) else " ".join(m) for m in model["merges"]])
    roles = {"start": "bos", "end": "eos", "unknown": "unk", "pad": "pad"}
    for role, name in roles.items():
        if role in tokenizer.specials:
            getattr(writer, f"add_{name}_token_id")(tokenizer.specials[role])
    writer.add_add_bos_token(bool(tokenizer.opening))
    if chat:
        writer.add_chat_template(chat_template(chat).source)
        others = [number for number in end_ids(chat) if number != tokenizer.specials.get("end")]
        if others:
            writer.add_eot_token_id(others[0])


def _tensors(source: ExportSource) -> Iterator[tuple[str, np.ndarray]]:
    """The weights under the names of GGUF, with the rows of queries and keys in its order."""
    config = source.config
    theirs = as_arrays(FORMATS["llama"].theirs(stored_weights(source.model.model), config))
    stems = {there: here for here, there in (WHOLE | PARTS).items()}
    for name, array in theirs.items():
        stem, _, part = name.rpartition(".")
        if stem.startswith("model.layers."):
            _, _, layer, rest = stem.split(".", 3)
            title = f"blk.{layer}.{stems[rest]}.{part}"
        else:
            title = f"{stems[stem]}.{part}"
        if ".q_proj" in stem or ".k_proj" in stem:
            array = pairs_from_halves(array, config.heads if ".q_proj" in stem else config.groups)
        yield title, np.ascontiguousarray(array, np.float32)


def _read_again(folder: Path) -> Reference:
    """The written file, read by regard's own reader and dequantised by the package gguf."""
    model: Any = load(folder / MODEL)
    name = f"the file, read again with gguf {version('gguf')}"
    return Reference(name, our_logits(model), model.tokenizer.encode, format="gguf")
