"""ModelConfig: the settings of a Transformer, and the sizes known by name.

Loads no torch. Sizes are checked here. build_model checks the names of variants against the registries,
so that a variant added to a registry is known at once.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from regard.errors import SettingError
from regard.registry import NamedIn, Registry
from regard.settings import Settings

Size = Annotated[int, Field(ge=1, le=1 << 24)]
Count = Annotated[int, Field(ge=1, le=4096)]
Share = Annotated[float, Field(ge=0.0, lt=1.0)]
Family = Literal["encoder-decoder", "decoder-only", "encoder-only"]


class RotaryScaling(Settings):
    """How rotary frequencies are lowered for contexts longer than those of pre-training."""

    kind: Literal["linear", "llama3"]
    """`linear` divides every frequency by `factor`. `llama3` divides only the low frequencies."""
    factor: Annotated[float, Field(gt=0, le=1e6)]
    """The divisor of the frequencies: about the new context divided by the original one."""
    low: Annotated[float, Field(gt=0, le=1e6)] = 1.0
    """For `llama3`: frequencies with fewer turns than this in `original_context` are divided by `factor`."""
    high: Annotated[float, Field(gt=0, le=1e6)] = 4.0
    """For `llama3`: frequencies with more turns than this are kept. Those between are interpolated."""
    original_context: Size = 8192
    """For `llama3`: the context of pre-training, in tokens."""

    @model_validator(mode="after")
    def _check(self) -> RotaryScaling:
        if self.kind == "llama3" and self.high <= self.low:
            raise SettingError(f"high ({self.high}) must be above low ({self.low})")
        return self


class Patches(Settings):
    """How an image becomes the tokens of an encoder."""

    side: Annotated[int, Field(ge=1, le=1 << 12)]
    """Pixels on a side of a square patch; it must divide height and width of the images."""
    channels: Annotated[int, Field(ge=1, le=1 << 10)] = 3
    """Numbers per pixel: 3 for colours, 1 for shades of grey."""
    class_token: bool = True
    """Whether a trained vector precedes the patches, as in ViT; `pooling = "cls"` then takes it.

    It counts as a token of the context.
    """


class ModelConfig(Settings):
    """The shape of a Transformer. The defaults are the paper's base model (Vaswani et al. 2017, table 3)."""

    family: Family = "encoder-decoder"
    """Which stacks the model has."""
    vocabulary: Annotated[int, Field(ge=0, le=1 << 24)] = 0
    """Number of token ids of the source, and of the target where `target_vocabulary` is not set."""
    target_vocabulary: Size | None = None
    """Number of token ids of the target, where source and target have a tokenizer each."""
    vectors: Size | None = None
    """The encoder reads vectors of this width in place of token ids."""
    patches: Patches | None = None
    """A table: the encoder reads images in place of token ids, cut into patches."""
    context: Size = 1024
    """Longest sequence in tokens, start and end tokens included.

    Longer pairs are left out of training, and longer texts are shortened. Running text is cut into windows
    of this length. With learned positions the model cannot read more; with others it can.
    """
    width: Annotated[int, Field(ge=1, le=1 << 17)] = 512
    """Width of the vector of each token (d_model)."""
    layers: Count = 6
    """Number of blocks of the encoder or the decoder; of both where `decoder_layers` is not set."""
    decoder_layers: Count | None = None
    """Number of blocks of the decoder of an encoder-decoder model; `layers` if not set."""
    heads: Count = 8
    """Number of attention heads. It must divide `width` unless `key_width` is set."""
    key_value_heads: Count | None = None
    """Number of heads with keys and values of their own; `heads` if not set.

    A smaller number is grouped-query attention, and 1 is multi-query attention. It must divide `heads`.
    """
    key_width: Size | None = None
    """Width of the queries and keys of one head (d_k); `width / heads` if not set."""
    value_width: Size | None = None
    """Width of the values of one head (d_v); `key_width` if not set."""
    feed_forward_width: Size = 2048
    """Width of the inner layer of the feed-forward network (d_ff)."""

    similarity: Annotated[str, NamedIn("regard.model.similarity", "SIMILARITIES")] = "scaled-dot"
    """How a query is compared with a key. `scaled-dot` is the paper's q k / sqrt(d_k)."""
    projections: Annotated[str, NamedIn("regard.model.attention", "PROJECTIONS")] = "separate"
    """How queries, keys and values are projected; `query-key-norm` has a norm of each query and key."""
    attention: Annotated[str, NamedIn("regard.model.attention", "ATTENTIONS")] = "multi-head"
    """The attention module of each block."""
    feed_forward: Annotated[str, NamedIn("regard.model.blocks", "FEED_FORWARDS")] = "relu"
    """Activation of the feed-forward network. The names that end in `glu` have a gate (Shazeer 2020)."""
    norm: Annotated[str, NamedIn("regard.model.blocks", "NORMS")] = "layer"
    """Normalisation: LayerNorm or RMSNorm."""
    norm_epsilon: Annotated[float, Field(gt=0, le=1.0)] = 1e-5
    """Added to the variance in a norm, so that nothing is divided by 0."""
    residual: Annotated[str, NamedIn("regard.model.blocks", "RESIDUALS")] = "post"
    """Where the norm stands: `post` after each addition, as in the paper, or `pre` before each sublayer."""
    final_norm: bool | None = None
    """Whether one more norm follows the last block; if not set, only with `residual = "pre"`."""
    positions: Annotated[str, NamedIn("regard.model.positions", "POSITIONS")] = "sinusoidal"
    """How the position of a token is encoded.

    `sinusoidal-halves` has all sines before all cosines, as MarianMT has it.
    """
    rotary_theta: Annotated[float, Field(gt=0, le=1e12)] = 10_000.0
    """Base of the frequencies of rotary positions."""
    rotary_scaling: RotaryScaling | None = None
    """A table that lowers the frequencies of rotary positions for a longer context."""

    attention_bias: bool = True
    """Whether the projections of attention have a bias."""
    feed_forward_bias: bool = True
    """Whether the two linear layers of the feed-forward network have a bias."""
    head_bias: bool = False
    """Whether the output layer over the vocabulary has a bias."""
    scale_embeddings: bool = True
    """Whether embeddings are multiplied by sqrt(width) (section 3.4)."""
    share_embeddings: bool = True
    """Whether source and target have one embedding matrix; with a tokenizer each they never have."""
    tie_head: bool = True
    """Whether the output layer over the vocabulary uses the embedding matrix of the target."""
    segments: Annotated[int, Field(ge=0, le=1024)] = 0
    """Number of segment embeddings of an encoder (BERT has 2); 0 has none."""
    embedding_norm: bool = False
    """Whether a norm follows the sum of embeddings and positions, as in BERT."""

    output: Annotated[str, NamedIn("regard.model.outputs", "OUTPUTS")] = "words"
    """What the model gives. All but `words` are for encoder-only models."""
    classes: Annotated[int, Field(ge=0, le=1 << 20)] = 0
    """Number of labels, with the output `classes`."""
    pooling: Annotated[str, NamedIn("regard.model.outputs", "POOLINGS")] = "cls"
    """How a sequence becomes one vector for classification.

    `cls` takes the first token, `mean` the mean of all, `bert` the first through a layer with tanh, and
    `distilbert` the first through a layer with ReLU.
    """

    dropout: Share = 0.0
    """Share of values set to 0 in training, after each sublayer and after the embeddings (section 5.4)."""
    attention_dropout: Share = 0.0
    """Share of attention weights set to 0 in training. Above 0, attention is not fused and is slower."""

    @classmethod
    def named(cls, name: str, **changes: Any) -> ModelConfig:
        """The config of a named size with changed settings: `ModelConfig.named("tiny", vocabulary=8000)`."""
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
    def input_width(self) -> int | None:
        """Width of the vectors or patches that an encoder reads in place of ids, or None."""
        if self.patches is not None:
            return self.patches.channels * self.patches.side**2
        return self.vectors

    @property
    def groups(self) -> int:
        """Number of key-value heads."""
        return self.key_value_heads or self.heads

    @property
    def has_final_norm(self) -> bool:
        """Whether a norm follows the last block."""
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
            raise SettingError(
                f"key width ({self.key_size}) must be even for rotary positions; set key_width"
            )
        if self.positions == "sinusoidal-halves" and self.width % 2:
            raise SettingError(
                f"width ({self.width}) must be even for sinusoidal-halves; try {self.width + 1}"
            )
        self._check_family()
        return self

    @property
    def output_vocabulary(self) -> int:
        """Number of ids that the model may give: those of the target, if it has its own."""
        return self.target_vocabulary or self.vocabulary

    @property
    def longest_output(self) -> int | None:
        """The maximum length of a generated sequence; None if positions set no limit."""
        return self.context if self.positions == "learned" else None

    @property
    def parameter_bound(self) -> int:
        """An upper bound of the number of parameters, computed without building the model."""
        vocabularies = 2 * self.vocabulary + (self.target_vocabulary or 0) + self.context
        heads = 2 * self.heads * (self.key_size + self.value_size)
        layers = self.layers + (self.decoder_layers or self.layers)
        return self.width * (vocabularies + layers * 2 * (heads + 2 * self.feed_forward_width))

    def _check_family(self) -> None:
        needs_words = self.output in ("words", "masked") and not self.target_vocabulary
        if not self.vocabulary and (needs_words or not self.input_width):
            raise SettingError("vocabulary is missing; set the number of ids, for example vocabulary=8000")
        if (self.output == "classes") != (self.classes > 0):
            raise SettingError(
                f"classes ({self.classes}) must be 1 or more with output 'classes', and 0 otherwise"
            )
        if self.family != "encoder-only" and self.output != "words":
            raise SettingError(
                f"output ({self.output}) needs family encoder-only; use words with {self.family}"
            )
        if self.vectors and self.patches:
            raise SettingError("vectors and patches are two kinds of input; remove one of them")
        if self.family == "decoder-only" and (self.input_width or self.segments):
            raise SettingError(
                "vectors, patches and segments need an encoder; remove them from the decoder-only model"
            )
        if self.family != "encoder-decoder" and (self.target_vocabulary or self.decoder_layers):
            raise SettingError(
                "target_vocabulary and decoder_layers need family encoder-decoder; use vocabulary and layers"
            )
        is_separate = self.target_vocabulary not in (None, self.vocabulary) or self.input_width
        if self.family == "encoder-decoder" and self.share_embeddings and is_separate:
            raise SettingError("separate vocabularies, vectors or patches need share_embeddings = false")


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
        pooling="bert", dropout=0.1,
    )  # fmt: skip


def _llama(width: int, layers: int, heads: int, **changes: Any) -> dict[str, Any]:
    return dict(
        family="decoder-only", width=width, layers=layers, heads=heads, feed_forward="swiglu", norm="rms",
        residual="pre", positions="rotary", attention_bias=False, feed_forward_bias=False,
        scale_embeddings=False, tie_head=False, **changes,
    )  # fmt: skip


_TRANSLATION = dict(vocabulary=10_000, dropout=0.1)

SIZES: Registry[dict[str, Any]] = Registry(
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
