"""A GGUF file of Llama type as a model folder: its metadata as a Llama config, its tensors under their names.

llama.cpp rotates neighbouring pairs of a query or key, Llama's other files rotate halves, so the rows of the
two projections are in another order there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from regard.checkpoints.folder import check_plausible
from regard.checkpoints.foreign import ForeignConfig, short_repr
from regard.checkpoints.gguf_file import GGUFFile
from regard.checkpoints.gguf_tokenizers import read_chat, read_tokenizer
from regard.checkpoints.huggingface import ForeignWeights, HuggingFaceFolder
from regard.checkpoints.llama import FORMAT
from regard.errors import CheckpointError, SettingError
from regard.text.tokenizer import JOINT, Tokenizers

ARCHITECTURE = "llama"
WHOLE = {
    "token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head",
}  # fmt: skip
PARTS = {
    "attn_norm": "input_layernorm", "attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj", "attn_output": "self_attn.o_proj", "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj",
}  # fmt: skip
FACTORS = "rope_freqs.weight"  # the divisor of each rotary frequency, which the config determines
IGNORED_FREQUENCIES = "model.rotary_emb.inv_freq"
# Their key of each value of a Llama config.json.
SIZES = {
    "max_position_embeddings": "context_length", "hidden_size": "embedding_length",
    "num_hidden_layers": "block_count", "intermediate_size": "feed_forward_length",
    "num_attention_heads": "attention.head_count",
}  # fmt: skip
HARMLESS = ("vocab_size", "rope.scaling.finetuned", "rope.scaling.original_context_length")


@dataclass(frozen=True)
class GGUFModel(HuggingFaceFolder):
    """The contents of a GGUF file; `values` is the config.json that describes the same model."""

    metadata: dict[str, Any]

    def _read_tokenizers(self, folder: Path) -> Tokenizers:
        return Tokenizers.joint(read_tokenizer(self.path, self.metadata))


class LlamaTensors(Mapping[str, np.ndarray]):
    """The tensors of a file under the names and in the order of a Hugging Face folder."""

    def __init__(self, file: GGUFFile, heads: int, groups: int):
        self._file, self._heads, self._groups = file, heads, groups
        self._names = {their_name(file, name): name for name in file}

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The shape of each tensor."""
        shapes = self._file.shapes
        return {name: shapes[stored] for name, stored in self._names.items()}

    @property
    def dtypes(self) -> dict[str, str]:
        """The type of each tensor."""
        dtypes = self._file.dtypes
        return {name: dtypes[stored] for name, stored in self._names.items()}

    def __getitem__(self, name: str) -> np.ndarray:
        return self._ordered(name, self._file[self._names[name]])

    def read(self, name: str) -> np.ndarray:
        """The same, read without the memory map."""
        return self._ordered(name, self._file.read(self._names[name]))

    def _ordered(self, name: str, array: np.ndarray) -> np.ndarray:
        if ".q_proj." in name:
            return halves_from_pairs(array, self._heads)
        return halves_from_pairs(array, self._groups) if ".k_proj." in name else array

    def __contains__(self, name: object) -> bool:
        return name in self._names

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


def halves_from_pairs(array: np.ndarray, heads: int) -> np.ndarray:
    """The rows of a projection, or its bias, with the pairs of each head as two halves."""
    return array.reshape(heads, -1, 2, *array.shape[1:]).swapaxes(1, 2).reshape(array.shape)


def pairs_from_halves(array: np.ndarray, heads: int) -> np.ndarray:
    """The inverse of `halves_from_pairs`."""
    return array.reshape(heads, 2, -1, *array.shape[1:]).swapaxes(1, 2).reshape(array.shape)


def their_name(file: GGUFFile, name: str) -> str:
    """The name in a Hugging Face folder of a tensor."""
    stem, _, part = name.rpartition(".")
    if name == FACTORS:
        return IGNORED_FREQUENCIES
    if stem in WHOLE:
        return f"{WHOLE[stem]}.{part}"
    block, _, rest = stem.removeprefix("blk.").partition(".")
    if stem.startswith("blk.") and block.isdecimal() and len(block) < 9 and rest in PARTS:
        return f"model.layers.{int(block)}.{PARTS[rest]}.{part}"
    raise CheckpointError(f"{file.path}: the tensor {short_repr(name)} is not supported in a Llama model")


def read_gguf(path: Path) -> GGUFModel:
    """Read a GGUF file; raise if its architecture or one of its options is not supported."""
    file = GGUFFile(path)
    try:
        values = _values(file)
        config = FORMAT.to_config(values)
        if config.heads * config.key_size > 1 << 24:
            raise CheckpointError("its heads are too wide")
    except (CheckpointError, SettingError) as error:
        text = str(error)
        raise CheckpointError(text if text.startswith(str(path)) else f"{path}: {text}") from None
    tensors = LlamaTensors(file, config.heads, config.groups)
    weights = ForeignWeights([tensors], FORMAT, config)
    check_plausible(path, config, weights.stored_shapes)
    extra = {"imported": "llama"} | read_chat(path, file.metadata)
    return GGUFModel(
        path, config, "", extra, weights, [JOINT], values, FORMAT, file.metadata, shares_weights=True
    )


def _values(file: GGUFFile) -> dict[str, Any]:
    """The Llama config.json of the metadata; an unknown key of the architecture is an error."""
    kind = file.metadata.get("general.architecture")
    if not isinstance(kind, str) or kind != ARCHITECTURE:
        raise CheckpointError(f"general.architecture ({short_repr(kind)}) is not supported; it must be llama")
    prefix = f"{ARCHITECTURE}."
    named = {k.removeprefix(prefix): v for k, v in file.metadata.items() if k.startswith(prefix)}
    theirs = ForeignConfig("GGUF", named)
    if "token_embd.weight" not in file:
        raise CheckpointError("the tensor token_embd.weight is missing; it is no complete model")
    values: dict[str, Any] = {name: theirs.size(key) for name, key in SIZES.items()}
    heads = values["num_attention_heads"]
    head_width = theirs.size("attention.key_length", max(values["hidden_size"] // heads, 1))
    for key in ("attention.value_length", "rope.dimension_count"):
        if theirs.size(key, head_width) != head_width:
            raise theirs.error(key, f"is not supported; it must be {head_width}, the width of a key")
    experts = theirs.values["expert_count"] if theirs.has("expert_count") else 0
    if type(experts) is not int or experts != 0:
        raise theirs.error("expert_count", "is not supported; it must be 0")
    theirs.has("expert_used_count")
    values |= {
        "model_type": "llama",
        "vocab_size": file.shapes["token_embd.weight"][0],
        "head_dim": head_width,
        "num_key_value_heads": theirs.size("attention.head_count_kv", heads),
        "rms_norm_eps": theirs.number("attention.layer_norm_rms_epsilon", 1e-5),
        "rope_theta": theirs.number("rope.freq_base", 10_000.0),
        "rope_scaling": _scaling(theirs, file, head_width),
        "tie_word_embeddings": "output.weight" not in file,
        "attention_bias": "blk.0.attn_q.bias" in file,
        "mlp_bias": "blk.0.ffn_up.bias" in file,
    }
    theirs.check_unread(HARMLESS)
    return values


def _scaling(theirs: ForeignConfig, file: GGUFFile, head_width: int) -> dict[str, Any] | None:
    if FACTORS in file:
        return _llama3(file[FACTORS], head_width, theirs.number("rope.freq_base", 10_000.0))
    kinds = {"none": None, "linear": "linear"}
    kind = theirs.choice("rope.scaling.type", kinds, "none")
    factor = theirs.number("rope.scaling.factor", theirs.number("rope.scale_linear", 1.0))
    if kind is None and factor in (0.0, 1.0):
        return None
    return {"rope_type": "linear", "factor": factor}


def _llama3(factors: np.ndarray, head_width: int, theta: float) -> dict[str, Any]:
    """The scaling of Llama 3 with these divisors of the frequencies; raise if they are others."""
    values = {"factor": float(factors.max()), "low_freq_factor": 1.0, "high_freq_factor": 4.0,
              "original_max_position_embeddings": 8192}  # fmt: skip
    if factors.shape == (head_width // 2,) and theta > 0 and 1 <= values["factor"] < 1e6:
        turns = 8192 / (2 * np.pi) * theta ** -(np.arange(0, head_width, 2) / head_width)
        kept = np.clip((turns - 1.0) / (4.0 - 1.0), 0, 1)
        if np.allclose(1 / (kept + (1 - kept) / values["factor"]), factors, rtol=1e-3):
            return values | {"rope_type": "llama3"}
    raise CheckpointError(f"the tensor {FACTORS} is not supported; it must have the factors of Llama 3")
