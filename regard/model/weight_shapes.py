"""Names and shapes of the weights that a config implies. Loads torch only for rare variants.

The names are those of the torch model's `state_dict`, in its order.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import groupby

from regard.model.config import ModelConfig

Shapes = dict[str, tuple[int, ...]]
Named = Iterator[tuple[str, tuple[int, ...]]]

# The variants whose weights are listed here; those of others are the weights of a torch model of one layer.
GATED = {
    "relu": False, "gelu": False, "gelu-tanh": False, "silu": False,
    "reglu": True, "geglu": True, "swiglu": True,
}  # fmt: skip
LISTED = {
    "similarity": ("scaled-dot", "dot", "cosine"),
    "projections": ("separate", "query-key-norm"),
    "attention": ("multi-head",),
    "feed_forward": GATED,
    "norm": ("layer", "rms"),
    "residual": ("pre", "post"),
    "positions": ("none", "sinusoidal", "sinusoidal-halves", "learned", "rotary"),
    "output": ("words", "masked", "classes", "pooled", "vectors"),
    "pooling": ("cls", "mean", "bert", "distilbert"),
}

_BLOCK = re.compile(r"(encoder|decoder)\.blocks\.0\.")


def weight_shapes(config: ModelConfig) -> Iterator[Shapes]:
    """Each weight with its shape under all its names; a tied weight has several."""
    if not all(getattr(config, setting) in names for setting, names in LISTED.items()):
        yield from _shapes_of_a_model(config)
        return
    tied, following = _tied_names(config), set[str]()
    for name, shape in _ModelShapes(config).all():
        if name not in following:
            others = tied.get(name, ())
            following.update(others)
            yield {name: shape, **dict.fromkeys(others, shape)}


def stored_shapes(config: ModelConfig) -> Shapes:
    """The weights as a model folder stores them: a tied one once, under its first name."""
    return dict(next(iter(names.items())) for names in weight_shapes(config))


def words_name(config: ModelConfig) -> str:
    """The name of the layer over the vocabulary."""
    return "head.words" if config.output == "masked" else "head"


def _tied_names(config: ModelConfig) -> dict[str, list[str]]:
    """The further names of an embedding matrix, by its first name."""
    has_words = config.output in ("words", "masked")
    head = [f"{words_name(config)}.weight"] if config.tie_head and has_words else []
    if config.family == "encoder-only":
        return {"source.weight": head}
    if config.family == "encoder-decoder" and config.share_embeddings:
        return {"source.weight": ["target.weight", *head]}
    return {"target.weight": head}


class _ModelShapes:
    """Names and shapes of the weights, part by part; tied ones repeatedly."""

    def __init__(self, config: ModelConfig):
        self.config, self.width = config, config.width

    def all(self) -> Named:
        config, family = self.config, self.config.family
        if family != "decoder-only":
            yield from self.source_embedding()
        if family != "encoder-only":
            yield from self.embedding("target", self.config.output_vocabulary)
        if family != "decoder-only":
            yield from self.stack("encoder", config.layers)
        if family != "encoder-only":
            has_memory = family == "encoder-decoder"
            yield from self.stack("decoder", config.decoder_layers or config.layers, has_memory)
        yield from self.head()

    def source_embedding(self) -> Named:
        config = self.config
        yield from self.embedding("source", None if config.input_width else config.vocabulary)

    def embedding(self, name: str, vocabulary: int | None) -> Named:
        if vocabulary is not None:
            yield f"{name}.weight", (vocabulary, self.width)
        if self.config.segments:
            yield f"{name}.segments", (self.config.segments, self.width)
        if name == "source":
            yield from self.inputs(name)
        if self.config.positions == "learned":
            yield f"{name}.positions.weight", (self.config.context, self.width)
        if self.config.embedding_norm:
            yield from self.norm(f"{name}.norm")

    def inputs(self, name: str) -> Named:
        """What an encoder reads in place of ids: patches or vectors."""
        patches, width = self.config.patches, self.config.input_width
        if patches is not None and patches.class_token:
            yield f"{name}.patches.class_token", (self.width,)
        if width is not None:
            part = "vectors" if patches is None else "patches.projection"
            yield from self.linear(f"{name}.{part}", self.width, width)

    def stack(self, name: str, layers: int, has_memory: bool = False) -> Named:
        attentions = [("attention", "around_attention"), ("cross", "around_cross")][: 1 + has_memory]
        for block in (f"{name}.blocks.{layer}" for layer in range(layers)):
            for attention, around in attentions:
                yield from self.attention(f"{block}.{attention}")
                yield from self.norm(f"{block}.{around}.norm")
            yield from self.feed_forward(f"{block}.feed_forward")
            yield from self.norm(f"{block}.around_feed_forward.norm")
        if self.config.has_final_norm:
            yield from self.norm(f"{name}.norm")

    def attention(self, name: str) -> Named:
        config = self.config
        rows = (config.heads + config.groups) * config.key_size + config.groups * config.value_size
        yield from self.linear(f"{name}.projections", rows, self.width, config.attention_bias)
        if config.projections == "query-key-norm":
            yield f"{name}.projections.query_norm.weight", (config.key_size,)
            yield f"{name}.projections.key_norm.weight", (config.key_size,)
        inputs = config.heads * config.value_size
        yield from self.linear(f"{name}.output", self.width, inputs, config.attention_bias)

    def feed_forward(self, name: str) -> Named:
        inner, has_bias = self.config.feed_forward_width, self.config.feed_forward_bias
        rows = 2 * inner if GATED[self.config.feed_forward] else inner
        yield from self.linear(f"{name}.expand", rows, self.width, has_bias)
        yield from self.linear(f"{name}.contract", self.width, inner, has_bias)

    def head(self) -> Named:
        output, pooling = self.config.output, "head.pooling" if self.config.output == "classes" else "head"
        if output == "masked":
            yield from self.linear("head.transform", self.width, self.width)
            yield from self.norm("head.norm")
        if output in ("words", "masked"):
            yield from self.linear(
                words_name(self.config), self.config.output_vocabulary, self.width, self.config.head_bias
            )
        if output in ("classes", "pooled") and self.config.pooling in ("bert", "distilbert"):
            yield from self.linear(f"{pooling}.dense", self.width, self.width)
        if output == "classes":
            yield from self.linear("head.classify", self.config.classes, self.width)

    def norm(self, name: str) -> Named:
        yield f"{name}.weight", (self.width,)
        if self.config.norm == "layer":
            yield f"{name}.bias", (self.width,)

    def linear(self, name: str, outputs: int, inputs: int, has_bias: bool = True) -> Named:
        yield f"{name}.weight", (outputs, inputs)
        if has_bias:
            yield f"{name}.bias", (outputs,)


def _shapes_of_a_model(config: ModelConfig) -> Iterator[Shapes]:
    """The same from torch. All blocks of a stack are equal, so the model has one layer."""
    for stack, weights in groupby(_shapes_of_one_layer(config), _stack):
        block = list(weights)
        for layer in range(_layers(config, stack)):
            for names in block:
                yield {_BLOCK.sub(rf"\1.blocks.{layer}.", name): shape for name, shape in names.items()}


def _shapes_of_one_layer(config: ModelConfig) -> list[Shapes]:
    from regard.model.transformer import build_model

    groups: dict[int, Shapes] = {}
    model = build_model(config.changed(layers=1, decoder_layers=None), device="meta")
    for name, tensor in model.state_dict(keep_vars=True).items():
        groups.setdefault(id(tensor), {})[name] = tuple(tensor.shape)
    return list(groups.values())


def _stack(names: Shapes) -> str:
    """The stack of a block's weight; empty for a weight outside of blocks."""
    match = _BLOCK.match(next(iter(names)))
    return match[1] if match else ""


def _layers(config: ModelConfig, stack: str) -> int:
    counts = {"encoder": config.layers, "decoder": config.decoder_layers or config.layers}
    return counts.get(stack, 1)
