"""Checked reading of another project's config.json, and the check that a config can be expressed in it.

Every key of a config is read, known to change no output, or an error that names it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from regard.errors import CheckpointError, nearest
from regard.model.config import ModelConfig

ACTIVATIONS = {
    "relu": "relu",
    "gelu": "gelu",
    "gelu_new": "gelu-tanh",
    "gelu_pytorch_tanh": "gelu-tanh",
    "silu": "silu",
    "swish": "silu",
}
# Settings of transformers' search, which regard does not read: a caller chooses its own.
GENERATION = {
    "bad_words_ids", "begin_suppress_tokens", "diversity_penalty", "do_sample", "early_stopping",
    "encoder_no_repeat_ngram_size", "exponential_decay_length_penalty", "forced_bos_token_id",
    "forced_eos_token_id", "length_penalty", "max_length", "min_length", "no_repeat_ngram_size",
    "num_beam_groups", "num_beams", "num_return_sequences", "remove_invalid_values", "repetition_penalty",
    "suppress_tokens", "temperature", "top_k", "top_p", "typical_p",
}  # fmt: skip
# Keys of any transformers config that change no logits: names of files and classes, settings of training and
# of generation, and token ids, which come from the tokenizer.
HARMLESS = GENERATION | {
    "_attn_implementation_autoset", "_name_or_path", "_num_labels", "attn_implementation", "auto_map",
    "bos_token_id", "chunk_size_feed_forward", "cls_token_id", "decoder_start_token_id", "dtype",
    "eos_token_id", "finetuning_task", "gradient_checkpointing", "id2label", "initializer_factor", "init_std",
    "initializer_range", "is_decoder", "is_encoder_decoder", "label2id", "mask_token_id", "model_type",
    "num_labels", "output_attentions", "output_hidden_states", "output_past", "output_scores", "pad_token_id",
    "prefix", "problem_type", "return_dict", "return_dict_in_generate", "sep_token_id",
    "task_specific_params", "tf_legacy_loss", "tie_encoder_decoder", "tokenizer_class", "torch_dtype",
    "torchscript", "transformers.js_config", "transformers_version", "trust_remote_code", "unk_token_id",
    "unsloth_fixed", "unsloth_version", "use_bfloat16", "use_cache",
}  # fmt: skip
MOST_LAYERS = 1000  # of both stacks; the names of more take seconds to compare
GATED_ACTIVATIONS = {"silu": "swiglu", "swish": "swiglu", "gelu": "geglu", "relu": "reglu"}


class ForeignConfig:
    """The values of a foreign config; the type of each is checked when it is read.

    It notes which keys were read, for `check_unread`.
    """

    def __init__(self, title: str, values: Any):
        if not isinstance(values, Mapping):
            raise CheckpointError(f"a {title} config must be a table of values, not {type(values).__name__}")
        self.title, self.values = title, values
        self._read: set[str] = set()

    def has(self, name: str) -> bool:
        """Whether the value exists and is not null."""
        self._read.add(name)
        return self.values.get(name) is not None

    def size(self, name: str, default: int | None = None) -> int:
        """An integer of at least 1."""
        value = self._get(name, default)
        if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value < 1 << 40:
            raise self.error(name, "must be an integer from 1 to 2^40")
        return value

    def number(self, name: str, default: float | None = None) -> float:
        """A number; ModelConfig checks its range."""
        value = self._get(name, default)
        if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < 1e15:
            raise self.error(name, "must be a number")
        return float(value)

    def flag(self, name: str, default: bool) -> bool:
        """True or false."""
        value = self._get(name, default)
        if not isinstance(value, bool):
            raise self.error(name, "must be true or false")
        return value

    def choice(self, name: str, known: Mapping[str, Any], default: str | None = None) -> Any:
        """The entry of a known name."""
        value = self._get(name, default)
        if not isinstance(value, str) or value not in known:
            raise self.error(name, f"is not supported; {nearest(short_repr(value), known)}")
        return known[value]

    def architecture(self, known: Mapping[str, Any], default: str) -> Any:
        """The entry of the first architecture."""
        self._read.add("architectures")
        names = self.values.get("architectures") or [default]
        first = names[0] if isinstance(names, list) else names
        return ForeignConfig(self.title, {"architectures": first}).choice("architectures", known)

    def require(self, name: str, value: bool | str) -> None:
        """Raise if the value is present and different, because the model has no counterpart for it."""
        if self.has(name) and self.values[name] is not value and self.values[name] != value:
            raise self.error(name, f"is not supported; it must be {value}")

    def part(self, name: str, known: Collection[str]) -> ForeignConfig:
        """A nested table with these keys only; empty if it is absent."""
        self._read.add(name)
        values = self.values.get(name) or {}
        if not isinstance(values, Mapping):
            raise self.error(name, "must be a table of values")
        for key in values:
            if key not in known:
                raise self.error(name, f"contains {short_repr(key)}, which is not supported")
        return ForeignConfig(f"{self.title} {name}", values)

    def check_unread(self, harmless: Collection[str]) -> None:
        """Raise if a key that has a value was neither read nor known to be harmless."""
        for name, value in self.values.items():
            is_empty = value is None or (isinstance(value, Mapping) and not value)
            if name not in self._read and name not in harmless and not is_empty:
                raise self.error(short_repr(name)[1:-1], "is not a known setting of this format")

    def error(self, name: str, rule: str) -> CheckpointError:
        """An error with the value and the rule."""
        return CheckpointError(f"{self.title}: {name} ({short_repr(self.values.get(name))}) {rule}")

    def _get(self, name: str, default: Any) -> Any:
        self._read.add(name)
        value = self.values.get(name)
        value = default if value is None else value
        if value is None:
            raise CheckpointError(f"{self.title}: {name} is missing; a complete config.json has it")
        return value


def read_config(
    title: str,
    values: Any,
    read: Callable[[ForeignConfig], ModelConfig],
    harmless: Collection[str] = (),
) -> ModelConfig:
    """Our config from theirs; a key that `read` does not read must be in HARMLESS or in `harmless`."""
    theirs = ForeignConfig(title, values)
    theirs.require("add_cross_attention", False)
    config = read(theirs)
    layers = config.layers + (config.decoder_layers or 0)
    if layers > MOST_LAYERS:
        raise CheckpointError(f"{title}: {layers:,} layers are not supported; at most {MOST_LAYERS:,} are")
    theirs.check_unread(HARMLESS.union(harmless))
    return config


def short_repr(value: Any) -> str:
    """The repr of a value, at most 60 characters long."""
    try:
        text = repr(value)
    except (ValueError, RecursionError):  # thousands of digits or nested brackets
        return f"a huge {type(value).__name__}"
    return text if len(text) <= 60 else text[:57] + "..."


def their_name(ours: str, known: Mapping[str, str], title: str) -> str:
    """Their first name for one of our variants."""
    for theirs, name in known.items():
        if name == ours:
            return theirs
    raise CheckpointError(f"{ours} has no counterpart in {title}; {nearest(ours, set(known.values()))}")


def label_tables(classes: int, labels: Sequence[str] = ()) -> dict[str, dict[str, Any]]:
    """id2label and label2id; labels without names are numbered. Nothing for a model without classes."""
    names = labels or [f"LABEL_{number}" for number in range(classes)]
    if not names:
        return {}
    by_number = {str(number): name for number, name in enumerate(names)}
    return {"id2label": by_number, "label2id": {name: number for number, name in enumerate(names)}}


def check_round_trip(
    config: ModelConfig, read: Callable[[Any], ModelConfig], values: dict[str, Any], title: str
) -> dict[str, Any]:
    """Return the values if reading them gives the same config; raise otherwise."""
    read_back = _effective(read(values))
    for name, value in _effective(config).items():
        if value != read_back.get(name):
            raise CheckpointError(
                f"{name} ({value}) cannot be written as {title}, which has {read_back.get(name)}"
            )
    return values


def _effective(config: ModelConfig) -> dict[str, Any]:
    """The settings of a config with defaults filled in, without those that the model does not use."""
    values = config.model_dump() | {
        "key_value_heads": config.groups,
        "key_width": config.key_size,
        "value_width": config.value_size,
        "final_norm": config.has_final_norm,
        "decoder_layers": config.decoder_layers or config.layers,
        "target_vocabulary": config.output_vocabulary,
    }
    unused = {
        "share_embeddings": config.family != "encoder-decoder",
        "rotary_theta": config.positions != "rotary",
        "rotary_scaling": config.positions != "rotary",
        "tie_head": config.output not in ("words", "masked"),
        "head_bias": config.output not in ("words", "masked"),
        "pooling": config.output not in ("classes", "pooled"),
    }
    return {name: value for name, value in values.items() if not unused.get(name)}
