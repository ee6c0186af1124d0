"""The three families of Transformer, and build_model, which builds one from a ModelConfig.

`forward` maps ids to logits. `encode` and `decode` return the output of the stacks, without the head.

B batch, S source tokens, T target tokens, Q tokens, D width, V vocabulary.
"""

from __future__ import annotations

import os
from dataclasses import replace
from functools import partial

import torch
from torch import Tensor, nn

from regard.errors import SettingError, ShapeError
from regard.model.attention import ATTENTIONS
from regard.model.blocks import FEED_FORWARDS, NORMS, RESIDUALS, DecoderBlock, EncoderBlock
from regard.model.cache import Cache, ProjectedMemory
from regard.model.config import ModelConfig
from regard.model.embedding import Embedding
from regard.model.initialization import initialize_linear, scale_residual_branches
from regard.model.masks import EVERYTHING, Mask
from regard.model.outputs import OUTPUTS
from regard.model.patches import PatchEmbedding
from regard.model.positions import POSITIONS, Rotation
from regard.model.watch import watching


class Stack(nn.Module):
    """A sequence of blocks, with an optional final norm."""

    points = ("output",)
    ablatable = ("norm",)

    def __init__(self, blocks: list[nn.Module], norm: nn.Module | None):
        super().__init__()
        self.blocks, self.norm = nn.ModuleList(blocks), norm

    def forward(
        self, x: Tensor, mask: Mask = EVERYTHING, rotation: Rotation | None = None, cache: Cache | None = None
    ) -> Tensor:
        """B Q D to the same."""
        for layer, block in enumerate(self.blocks):
            x = block(x, mask, rotation, cache.layer_cache(layer) if cache else None)
        return self.finish(x)

    def forward_with_memory(
        self,
        x: Tensor,
        memory: Tensor | None,
        mask: Mask,
        memory_mask: Mask,
        rotation: Rotation | None,
        cache: Cache | None,
    ) -> Tensor:
        """Run decoder blocks, which also attend to the memory: B T D and B S D to B T D."""
        for layer, block in enumerate(self.blocks):
            if cache is None:
                x = block(x, memory, mask, memory_mask, rotation)
            else:
                x = block(x, cache.memory(layer), mask, cache.memory_mask, rotation, cache.layer_cache(layer))
        return self.finish(x)

    def finish(self, x: Tensor) -> Tensor:
        """Apply the final norm."""
        see = watching(self)
        return see("output", x if self.norm is None or see.is_ablated("norm") else self.norm(x))


class EncoderDecoder(nn.Module):
    """The paper's model: an encoder of the source and a decoder of the target."""

    def __init__(self, config: ModelConfig):
        super().__init__()
        self.config = config
        self.source = _source_embedding(config)
        self.target = _embedding(config, config.output_vocabulary)
        if config.share_embeddings:
            self.target.weight = self.source.weight
        self.encoder = Stack([_encoder_block(config) for _ in range(config.layers)], _final_norm(config))
        layers = config.decoder_layers or config.layers
        self.decoder = Stack([_decoder_block(config) for _ in range(layers)], _final_norm(config))
        self.head = OUTPUTS.find(config.output)(config, self.target.weight)

    def forward(
        self, source: Tensor, target: Tensor, source_mask: Mask = EVERYTHING, target_mask: Mask = EVERYTHING
    ) -> Tensor:
        """Ids B S (or vectors or images) and B T to logits B T V of the token after each target token."""
        return self.head(self.decode(target, self.encode(source, source_mask), source_mask, target_mask))

    def encode(self, source: Tensor, mask: Mask = EVERYTHING) -> Tensor:
        """Ids B S, vectors B S W, or images to the memory B S D."""
        x, rotation = self.source(source, mask)
        return self.encoder(x, mask, rotation)

    def decode(
        self,
        target: Tensor,
        memory: Tensor | None = None,
        memory_mask: Mask = EVERYTHING,
        mask: Mask = EVERYTHING,
        cache: Cache | None = None,
    ) -> Tensor:
        """Ids B T and the memory to B T D.

        With a cache from `new_cache`, which holds the memory, the ids are the T new ones.
        """
        causal_mask = _causal(mask, cache)
        x, rotation = self.target(target, causal_mask)
        hidden = self.decoder.forward_with_memory(x, memory, causal_mask, memory_mask, rotation, cache)
        _advance(cache, mask, target)
        return hidden

    def new_cache(self, memory: Tensor, memory_mask: Mask = EVERYTHING, capacity: int = 64) -> Cache:
        """A cache with one row per source and the projected keys and values of the memory."""
        cache = _cache(self.config, len(self.decoder.blocks), memory.shape[0], capacity, memory)
        blocks = self.decoder.blocks
        memories = [ProjectedMemory(*block.cross.projections.key_value(memory)) for block in blocks]  # type: ignore[union-attr]
        cache.store_memories(memories, memory_mask)
        return cache


class DecoderOnly(nn.Module):
    """A decoder without cross-attention, as GPT."""

    def __init__(self, config: ModelConfig):
        super().__init__()
        self.config = config
        self.target = _embedding(config, config.vocabulary)
        self.decoder = Stack([_encoder_block(config) for _ in range(config.layers)], _final_norm(config))
        self.head = OUTPUTS.find(config.output)(config, self.target.weight)

    def forward(self, target: Tensor, mask: Mask = EVERYTHING) -> Tensor:
        """Ids B T to logits B T V of the token after each token."""
        return self.head(self.decode(target, mask))

    def decode(self, target: Tensor, mask: Mask = EVERYTHING, cache: Cache | None = None) -> Tensor:
        """Ids B T to B T D; with a cache from `new_cache`, the ids are the T new ones."""
        causal_mask = _causal(mask, cache)
        x, rotation = self.target(target, causal_mask)
        hidden = self.decoder(x, causal_mask, rotation, cache)
        _advance(cache, mask, target)
        return hidden

    def new_cache(self, rows: int, capacity: int = 64) -> Cache:
        """An empty cache for this number of rows."""
        return _cache(self.config, len(self.decoder.blocks), rows, capacity, next(self.parameters()))


class EncoderOnly(nn.Module):
    """A bidirectional encoder, as BERT."""

    def __init__(self, config: ModelConfig):
        super().__init__()
        self.config = config
        self.source = _source_embedding(config)
        self.encoder = Stack([_encoder_block(config) for _ in range(config.layers)], _final_norm(config))
        self.head = OUTPUTS.find(config.output)(config, self.source.weight)

    def forward(self, source: Tensor, mask: Mask = EVERYTHING, segments: Tensor | None = None) -> Tensor:
        """Ids B S, vectors B S W, or images to the output: words B S V, classes B C, vectors B S D."""
        return self.head(self.encode(source, mask, segments), mask)

    def encode(self, source: Tensor, mask: Mask = EVERYTHING, segments: Tensor | None = None) -> Tensor:
        """The contextual vector of each token, B S D."""
        x, rotation = self.source(source, mask, segments)
        return self.encoder(x, mask, rotation)


Transformer = EncoderDecoder | DecoderOnly | EncoderOnly
FAMILIES: dict[str, type[Transformer]] = {
    "encoder-decoder": EncoderDecoder,
    "decoder-only": DecoderOnly,
    "encoder-only": EncoderOnly,
}


def build_model(config: ModelConfig, device: str | torch.device | None = None) -> Transformer:
    """Build and initialize the model of a config; on the "meta" device its weights have only shapes."""
    config.check_names()
    if str(device) != "meta":
        _check_memory(config)
    with torch.device("meta" if str(device) == "meta" else "cpu"):
        model = FAMILIES[config.family](config)
    initialize_linear(model)
    for stack in (module for module in model.modules() if isinstance(module, Stack)):
        scale_residual_branches(stack.blocks)
    # Buffers of positions are real tensors even on meta, because no checkpoint stores them.
    return model if device is None or str(device) == "meta" else model.to(device)


def count_parameters(model: nn.Module) -> int:
    """Number of trained parameters; shared ones count once."""
    return sum(parameter.numel() for parameter in model.parameters())


def _source_embedding(config: ModelConfig) -> Embedding:
    patches = config.patches and PatchEmbedding(
        config.patches.side, config.patches.channels, config.width, config.patches.class_token
    )
    return _embedding(config, config.vocabulary, config.vectors, patches)


def _embedding(
    config: ModelConfig, vocabulary: int, vectors: int | None = None, patches: PatchEmbedding | None = None
) -> Embedding:
    return Embedding(
        vocabulary,
        config.width,
        POSITIONS.find(config.positions)(config),
        scaled=config.scale_embeddings,
        segments=config.segments,
        norm=_norm(config) if config.embedding_norm else None,
        dropout=config.dropout,
        vectors=vectors,
        patches=patches,
    )


def _norm(config: ModelConfig) -> nn.Module:
    return NORMS.find(config.norm)(config.width, config.norm_epsilon)


def _final_norm(config: ModelConfig) -> nn.Module | None:
    return _norm(config) if config.has_final_norm else None


def _residual(config: ModelConfig) -> nn.Module:
    return RESIDUALS.find(config.residual)(_norm(config), config.dropout)


def _attention(config: ModelConfig) -> nn.Module:
    return ATTENTIONS.find(config.attention)(
        config.width,
        config.heads,
        groups=config.groups,
        key_width=config.key_size,
        value_width=config.value_size,
        bias=config.attention_bias,
        similarity=config.similarity,
        projections=config.projections,
        dropout=config.attention_dropout,
    )


def _feed_forward(config: ModelConfig) -> nn.Module:
    make = FEED_FORWARDS.find(config.feed_forward)
    return make(config.width, config.feed_forward_width, config.feed_forward_bias)


def _encoder_block(config: ModelConfig) -> EncoderBlock:
    return EncoderBlock(_attention(config), _feed_forward(config), partial(_residual, config))


def _decoder_block(config: ModelConfig) -> DecoderBlock:
    return DecoderBlock(
        _attention(config), _attention(config), _feed_forward(config), partial(_residual, config)
    )


def _causal(mask: Mask, cache: Cache | None) -> Mask:
    """Add the causal mask; with a cache, padding is on the right, so the causal mask covers it too."""
    if cache is None:
        return replace(mask, causal=True)
    if mask.keys is not None and (mask.keys[:, 1:] & ~mask.keys[:, :-1]).any():
        raise ShapeError("with a cache, padding must be on the right; move the tokens to the left")
    return Mask(causal=True, matrix=mask.matrix, offset=cache.offset)


def _advance(cache: Cache | None, mask: Mask, target: Tensor) -> None:
    if cache is not None:
        cache.advance(target.shape[1] if mask.keys is None else mask.keys.sum(1).cpu().numpy())


def _cache(config: ModelConfig, layers: int, rows: int, capacity: int, like: Tensor) -> Cache:
    return Cache(layers, rows, config.groups, config.key_size, config.value_size, capacity, like)


def _check_memory(config: ModelConfig) -> None:
    """Raise if the weights exceed the physical memory, before the machine starts to swap."""
    if config.parameter_bound < 1 << 28:
        return
    needed = 4 * count_parameters(build_model(config, device="meta"))
    present = _physical_memory()
    if present is not None and needed > present:
        raise SettingError(
            f"{needed / 4e9:.1f} billion parameters need {needed / 1e9:.0f} GB, and this machine has "
            f'{present / 1e9:.0f} GB; build it with device="meta" to see its shapes, or choose a smaller size'
        )


def _physical_memory() -> int | None:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):  # Windows has no sysconf
        return None
