"""ModelConfig: everything that tells one Transformer from another, and the sizes known by name.

Loads no torch. Sizes are checked here; names of variants are checked by build_model against the
live tables of the room, so that a variant added to a table is known at once.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from regard.errors import SettingError
from regard.settings import Settings
from regard.tables import Table

Size = Annotated[int, Field(ge=1, le=1 << 24)]
Count = Annotated[int, Field(ge=1, le=4096)]
Share = Annotated[float, Field(ge=0.0, lt=1.0)]
Family = Literal["encoder-decoder", "decoder-only", "encoder-only"]


class RotaryScaling(Settings):
    """How rotary frequencies are stretched for contexts longer than those of pre-training.

    `linear` divides every frequency by the factor. `llama3` divides the slow ones only: those that
    turn fewer than `low` times in the original context wholly, those beyond `high` not at all.
    """

    kind: Literal["linear", "llama3"]
    factor: Annotated[float, Field(gt=0, le=1e6)]
    low: Annotated[float, Field(gt=0, le=1e6)] = 1.0
    high: Annotated[float, Field(gt=0, le=1e6)] = 4.0
    original_context: Size = 8192

    @model_validator(mode="after")
    def _check(self) -> RotaryScaling:
        if self.kind == "llama3" and self.high <= self.low:
            raise SettingError(f"high ({self.high}) must be above low ({self.low})")
        return self


class ModelConfig(Settings):
    """The shape of a Transformer. The defaults are the paper's base model (Vaswani et al. 2017, table 3)."""

    family: Family = "encoder-decoder"
    vocabulary: Annotated[int, Field(ge=0, le=1 << 24)] = 0  # ids of the source, and of the target by default
    target_vocabulary: Size | None = None  # a vocabulary of the target's own
    vectors: Size | None = None  # the encoder reads vectors this wide instead of ids
    context: Size = 1024  # positions prepared for; a hard limit where they are learned
    width: Annotated[int, Field(ge=1, le=1 << 17)] = 512
    layers: Count = 6  # of the encoder, and of the decoder where none is given
    decoder_layers: Count | None = None
    heads: Count = 8
    key_value_heads: Count | None = None  # fewer than heads: groups of heads share keys and values
    key_width: Size | None = None  # of one head; width / heads where none is given
    value_width: Size | None = None  # of one head; key_width where none is given
    feed_forward_width: Size = 2048

    similarity: str = "scaled-dot"
    projections: str = "separate"
    attention: str = "multi-head"
    feed_forward: str = "relu"
    norm: str = "layer"
    norm_epsilon: Annotated[float, Field(gt=0, le=1.0)] = 1e-5
    residual: str = "post"  # the norm after the addition, as in the paper, or "pre"
    final_norm: bool | None = None  # None: only where the norm comes before
    positions: str = "sinusoidal"
    rotary_theta: Annotated[float, Field(gt=0, le=1e12)] = 10_000.0
    rotary_scaling: RotaryScaling | None = None

    attention_bias: bool = True
    feed_forward_bias: bool = True
    head_bias: bool = False
    scale_embeddings: bool = True  # times sqrt(width), section 3.4
    share_embeddings: bool = True  # of source and target
    tie_head: bool = True  # u = h E^T, with the embedding matrix E
    segments: Annotated[int, Field(ge=0, le=1024)] = 0
    embedding_norm: bool = False

    output: str = "words"  # or, for an encoder alone: "masked", "classes", "pooled", "vectors"
    classes: Annotated[int, Field(ge=0, le=1 << 20)] = 0
    pooling: str = "first"  # how one vector is made of a sequence, where one is needed

    dropout: Share = 0.0
    attention_dropout: Share = 0.0

    @classmethod
    def named(cls, name: str, **changes: Any) -> ModelConfig:
        """A known size, with some of its settings replaced: `ModelConfig.named("tiny", vocabulary=8000)`."""
        return cls(**{**SIZES.find(name), **changes})

    @property
    def key_size(self) -> int:
        """Width of one head's queries and keys."""
        return self.key_width or self.width // self.heads

    @property
    def value_size(self) -> int:
        """Width of one head's values."""
        return self.value_width or self.key_size

    @property
    def groups(self) -> int:
        """How many heads have keys and values of their own."""
        return self.key_value_heads or self.heads

    @property
    def normed_at_the_end(self) -> bool:
        """Whether a norm stands after the last block."""
        return self.residual == "pre" if self.final_norm is None else self.final_norm

    @model_validator(mode="after")
    def _check(self) -> ModelConfig:
        if self.key_width is None and self.width % self.heads:
            raise SettingError(
                f"heads ({self.heads}) must divide width ({self.width}); "
                f"try {_divisor_near(self.heads, self.width)}, or set key_width"
            )
        if self.heads % self.groups:
            raise SettingError(
                f"key_value_heads ({self.groups}) must divide heads ({self.heads}); "
                f"try {_divisor_near(self.groups, self.heads)}"
            )
        if self.positions == "rotary" and self.key_size % 2:
            raise SettingError(f"rotary positions turn pairs, so key width ({self.key_size}) must be even")
        self._check_family()
        return self

    @property
    def rough_parameters(self) -> int:
        """An upper bound of the parameters, at a glance."""
        vocabularies = 2 * self.vocabulary + (self.target_vocabulary or 0) + self.context
        heads = 2 * self.heads * (self.key_size + self.value_size)
        layers = self.layers + (self.decoder_layers or self.layers)
        return self.width * (vocabularies + layers * 2 * (heads + 2 * self.feed_forward_width))

    def _check_family(self) -> None:
        speaks = self.output in ("words", "masked") and not self.target_vocabulary
        if not self.vocabulary and (speaks or not self.vectors):
            raise SettingError(
                "vocabulary is missing; say how many ids there are, for example vocabulary=8000"
            )
        if (self.output == "classes") != (self.classes > 0):
            raise SettingError(
                f"classes ({self.classes}) must be 1 or more with output 'classes', and 0 otherwise"
            )
        if self.family != "encoder-only" and self.output != "words":
            raise SettingError(f"output ({self.output}) is for encoder-only; a decoder gives words")
        if self.family == "decoder-only" and (self.vectors or self.segments):
            raise SettingError(
                "vectors and segments are for encoders; leave them out of a decoder-only model"
            )
        if self.family != "encoder-decoder" and (self.target_vocabulary or self.decoder_layers):
            raise SettingError(
                "target_vocabulary and decoder_layers are for encoder-decoder; use vocabulary and layers"
            )
        apart = self.target_vocabulary not in (None, self.vocabulary) or self.vectors
        if self.family == "encoder-decoder" and self.share_embeddings and apart:
            raise SettingError("separate vocabularies or vectors need share_embeddings = false")


def _divisor_near(wanted: int, whole: int) -> int:
    divisors = (n for n in range(1, min(whole, 4096) + 1) if whole % n == 0)
    return min(divisors, key=lambda n: abs(n - wanted))


def _gpt(width: int, layers: int, heads: int, context: int = 1024) -> dict[str, Any]:
    return dict(
        family="decoder-only", vocabulary=50257, context=context, width=width, layers=layers, heads=heads,
        feed_forward_width=4 * width, feed_forward="gelu-tanh", residual="pre", positions="learned",
        scale_embeddings=False, dropout=0.1,
    )  # fmt: skip


def _bert(width: int, layers: int, heads: int) -> dict[str, Any]:
    return dict(
        family="encoder-only", output="masked", vocabulary=30522, context=512, width=width, layers=layers,
        heads=heads, feed_forward_width=4 * width, feed_forward="gelu", norm_epsilon=1e-12,
        positions="learned", scale_embeddings=False, segments=2, embedding_norm=True, head_bias=True,
        pooling="tanh", dropout=0.1,
    )  # fmt: skip


def _llama(width: int, layers: int, heads: int, **changes: Any) -> dict[str, Any]:
    return dict(
        family="decoder-only", width=width, layers=layers, heads=heads, feed_forward="swiglu", norm="rms",
        residual="pre", positions="rotary", attention_bias=False, feed_forward_bias=False,
        scale_embeddings=False, tie_head=False, **changes,
    )  # fmt: skip


_TRANSLATION = dict(vocabulary=10_000, dropout=0.1)

SIZES: Table[dict[str, Any]] = Table(
    "size",
    {
        "tiny": dict(_TRANSLATION, width=128, layers=4, heads=4, feed_forward_width=256),
        "small": dict(_TRANSLATION, width=256, layers=3, heads=8, feed_forward_width=1024),
        "base": dict(vocabulary=37_000, dropout=0.1),
        "big": dict(vocabulary=37_000, width=1024, heads=16, feed_forward_width=4096, dropout=0.3),
        "gpt-2": _gpt(768, 12, 12),
        "gpt-2-medium": _gpt(1024, 24, 16),
        "gpt-2-large": _gpt(1280, 36, 20),
        "gpt-2-xl": _gpt(1600, 48, 25),
        "gpt-3": _gpt(12_288, 96, 96, context=2048),
        "bert-base": _bert(768, 12, 12),
        "bert-large": _bert(1024, 24, 16),
        "llama-2-7b": _llama(
            4096, 32, 32, vocabulary=32_000, context=4096, feed_forward_width=11_008, norm_epsilon=1e-5
        ),
        "llama-3-8b": _llama(
            4096,
            32,
            32,
            vocabulary=128_256,
            context=8192,
            feed_forward_width=14_336,
            norm_epsilon=1e-5,
            key_value_heads=8,
            rotary_theta=500_000.0,
        ),
    },
)
