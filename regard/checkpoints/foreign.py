"""A config.json of another project, read with suspicion; and whether a config of ours fits in one."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
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
GATED_ACTIVATIONS = {"silu": "swiglu", "swish": "swiglu", "gelu": "geglu", "relu": "reglu"}


class ForeignConfig:
    """Values by name, each checked for its type when it is asked for; the rest is never looked at."""

    def __init__(self, title: str, values: Any):
        if not isinstance(values, Mapping):
            raise CheckpointError(
                f"a config of {title} must be a table of values, not {type(values).__name__}"
            )
        self.title, self.values = title, values

    def given(self, name: str) -> bool:
        """Whether there is such a value, and it is not null."""
        return self.values.get(name) is not None

    def size(self, name: str, default: int | None = None) -> int:
        """A whole number, 1 or more."""
        value = self._get(name, default)
        if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value < 1 << 40:
            raise self.error(name, "must be a whole number, 1 or more, and of a size that exists")
        return value

    def number(self, name: str, default: float | None = None) -> float:
        """A number; whether it makes sense is for ModelConfig to say."""
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
        """What a name stands for."""
        value = self._get(name, default)
        if not isinstance(value, str) or value not in known:
            raise self.error(name, f"is not supported; {nearest(shown(value), known)}")
        return known[value]

    def architecture(self, known: Mapping[str, Any], default: str) -> Any:
        """What the first of its architectures stands for."""
        names = self.values.get("architectures") or [default]
        first = names[0] if isinstance(names, list) else names
        return ForeignConfig(self.title, {"architectures": first}).choice("architectures", known)

    def require(self, name: str, value: bool | str) -> None:
        """Refuse any other value, since the model room has no counterpart for it; absence is fine."""
        if self.given(name) and self.values[name] is not value and self.values[name] != value:
            raise self.error(name, f"is not supported; it must be {value}")

    def part(self, name: str, known: Collection[str]) -> ForeignConfig:
        """A table inside the table, of these values and no others; empty where there is none."""
        values = self.values.get(name) or {}
        if not isinstance(values, Mapping):
            raise self.error(name, "must be a table of values")
        for key in values:
            if key not in known:
                raise self.error(name, f"holds {shown(key)}, which is not supported")
        return ForeignConfig(f"{self.title} {name}", values)

    def error(self, name: str, rule: str) -> CheckpointError:
        """The value, the rule."""
        return CheckpointError(f"{self.title}: {name} ({shown(self.values.get(name))}) {rule}")

    def _get(self, name: str, default: Any) -> Any:
        value = self.values.get(name)
        value = default if value is None else value
        if value is None:
            raise CheckpointError(f"{self.title}: {name} is missing; a complete config.json has it")
        return value


def shown(value: Any) -> str:
    """A value as an error line can hold it."""
    try:
        text = repr(value)
    except (ValueError, RecursionError):  # thousands of digits, or of brackets
        return f"a huge {type(value).__name__}"
    return text if len(text) <= 60 else text[:57] + "..."


def their_name(ours: str, known: Mapping[str, str], title: str) -> str:
    """The first of their names for a variant of ours."""
    for theirs, name in known.items():
        if name == ours:
            return theirs
    raise CheckpointError(f"{ours} has no counterpart in {title}; {nearest(ours, set(known.values()))}")


def check_same(
    config: ModelConfig, read: Callable[[Any], ModelConfig], values: dict[str, Any], title: str
) -> dict[str, Any]:
    """These values, unless what they are read as is another config than ours."""
    wanted, got = _settled(config), _settled(read(values))
    for name, value in wanted.items():
        if value != got.get(name):
            raise CheckpointError(f"{name} ({value}) cannot be written as {title}, which has {got.get(name)}")
    return values


def _settled(config: ModelConfig) -> dict[str, Any]:
    """What a config says, defaults filled in, without the settings that are idle in such a model."""
    values = config.model_dump() | {
        "key_value_heads": config.groups,
        "key_width": config.key_size,
        "value_width": config.value_size,
        "final_norm": config.has_final_norm,
        "decoder_layers": config.decoder_layers or config.layers,
        "target_vocabulary": config.target_vocabulary or config.vocabulary,
    }
    idle = {
        "share_embeddings": config.family != "encoder-decoder",
        "rotary_theta": config.positions != "rotary",
        "rotary_scaling": config.positions != "rotary",
        "tie_head": config.output not in ("words", "masked"),
        "head_bias": config.output not in ("words", "masked"),
        "pooling": config.output not in ("classes", "pooled"),
    }
    return {name: value for name, value in values.items() if not idle.get(name)}
