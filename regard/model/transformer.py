"""The three families of Transformer, and build_model, which makes one from a ModelConfig.

B batch, S source tokens, T target tokens, Q tokens, D width, V vocabulary. Ids go in, logits come out;
`encode` and `decode` give what the stacks make before the head.
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
from regard.model.cache import Cache, Memory
from regard.model.config import ModelConfig
from regard.model.embedding import Embedding
from regard.model.initialization import start_evenly, start_small
from regard.model.masks import EVERYTHING, Mask
from regard.model.outputs import OUTPUTS
from regard.model.positions import POSITIONS, Rotation
from regard.model.watch import watching


class Stack(nn.Module):
    """Blocks one after the other, and the norm behind the last where there is one."""

    points = ("output",)
    switches = ("norm",)

    def __init__(self, blocks: list[nn.Module], norm: nn.Module | None):
        super().__init__()
        self.blocks, self.norm = nn.ModuleList(blocks), norm

    def forward(
        self, x: Tensor, mask: Mask = EVERYTHING, rotation: Rotation | None = None, cache: Cache | None = None
    ) -> Tensor:
        """B Q D to the same."""
        for layer, block in enumerate(self.blocks):
            x = block(x, mask, rotation, cache.slot(layer) if cache else None)
        return self.finish(x)

    def across(
        self,
        x: Tensor,
        memory: Tensor | None,
        mask: Mask,
        memory_mask: Mask,
        rotation: Rotation | None,
        cache: Cache | None,
    ) -> Tensor:
        """The same, each block looking at the memory as well: B T D and B S D to B T D."""
        for layer, block in enumerate(self.blocks):
            if cache is None:
                x = block(x, memory, mask, memory_mask, rotation)
            else:
                x = block(x, cache.memory(layer), mask, cache.memory_mask, rotation, cache.slot(layer))
        return self.finish(x)

    def finish(self, x: Tensor) -> Tensor:
        """What leaves the stack."""
        see = watching(self)
        return see("output", x if self.norm is None or see.is_ablated("norm") else self.norm(x))


class EncoderDecoder(nn.Module):
    """The paper's model: one sequence read, another written from it."""

    def __init__(self, config: ModelConfig):
        super().__init__()
        self.config = config
        self.source = _embedding(config, config.vocabulary, config.vectors)
        self.target = _embedding(config, config.target_vocabulary or config.vocabulary)
        if config.share_embeddings:
            self.target.weight = self.source.weight
        self.encoder = Stack([_encoder_block(config) for _ in range(config.layers)], _final_norm(config))
        layers = config.decoder_layers or config.layers
        self.decoder = Stack([_decoder_block(config) for _ in range(layers)], _final_norm(config))
        self.head = OUTPUTS.find(config.output)(config, self.target.weight)

    def forward(
        self, source: Tensor, target: Tensor, source_mask: Mask = EVERYTHING, target_mask: Mask = EVERYTHING
    ) -> Tensor:
        """Ids B S (or vectors) and B T to logits B T V: what may follow each target token."""
        return self.head(self.decode(target, self.encode(source, source_mask), source_mask, target_mask))

    def encode(self, source: Tensor, mask: Mask = EVERYTHING) -> Tensor:
        """Ids B S, or vectors B S W, to the memory B S D."""
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
        """Ids B T and the memory to B T D; with a cache from `start`, which holds the memory, T new ids."""
        ahead = _causal(mask, cache)
        x, rotation = self.target(target, ahead)
        hidden = self.decoder.across(x, memory, ahead, memory_mask, rotation, cache)
        _advance(cache, mask, target)
        return hidden

    def start(self, memory: Tensor, memory_mask: Mask = EVERYTHING, room: int = 64) -> Cache:
        """A cache for as many rows as there are sources, the memory's keys and values computed once."""
        cache = _cache(self.config, len(self.decoder.blocks), memory.shape[0], room, memory)
        blocks = self.decoder.blocks
        memories = [Memory(*block.cross.projections.key_value(memory)) for block in blocks]  # type: ignore[union-attr]
        cache.remember(memories, memory_mask)
        return cache


class DecoderOnly(nn.Module):
    """GPT: a sequence written from its own beginning."""

    def __init__(self, config: ModelConfig):
        super().__init__()
        self.config = config
        self.target = _embedding(config, config.vocabulary)
        self.decoder = Stack([_encoder_block(config) for _ in range(config.layers)], _final_norm(config))
        self.head = OUTPUTS.find(config.output)(config, self.target.weight)

    def forward(self, target: Tensor, mask: Mask = EVERYTHING) -> Tensor:
        """Ids B T to logits B T V: what may follow each token."""
        return self.head(self.decode(target, mask))

    def decode(self, target: Tensor, mask: Mask = EVERYTHING, cache: Cache | None = None) -> Tensor:
        """Ids B T to B T D; with a cache from `start`, T new ids."""
        ahead = _causal(mask, cache)
        x, rotation = self.target(target, ahead)
        hidden = self.decoder(x, ahead, rotation, cache)
        _advance(cache, mask, target)
        return hidden

    def start(self, rows: int, room: int = 64) -> Cache:
        """An empty cache for so many rows."""
        return _cache(self.config, len(self.decoder.blocks), rows, room, next(self.parameters()))


class EncoderOnly(nn.Module):
    """BERT: a sequence read from both sides."""

    def __init__(self, config: ModelConfig):
        super().__init__()
        self.config = config
        self.source = _embedding(config, config.vocabulary, config.vectors)
        self.encoder = Stack([_encoder_block(config) for _ in range(config.layers)], _final_norm(config))
        self.head = OUTPUTS.find(config.output)(config, self.source.weight)

    def forward(self, source: Tensor, mask: Mask = EVERYTHING, segments: Tensor | None = None) -> Tensor:
        """Ids B S, or vectors B S W, to what config.output says: words B S V, classes B C, vectors B S D."""
        return self.head(self.encode(source, mask, segments), mask)

    def encode(self, source: Tensor, mask: Mask = EVERYTHING, segments: Tensor | None = None) -> Tensor:
        """A contextual vector for each token, B S D."""
        x, rotation = self.source(source, mask, segments)
        return self.encoder(x, mask, rotation)


Transformer = EncoderDecoder | DecoderOnly | EncoderOnly
FAMILIES: dict[str, type[Transformer]] = {
    "encoder-decoder": EncoderDecoder,
    "decoder-only": DecoderOnly,
    "encoder-only": EncoderOnly,
}


def build_model(config: ModelConfig, device: str | torch.device | None = None) -> Transformer:
    """The model that config describes, freshly initialised; on "meta" it has shapes and no numbers."""
    config.check_names()  # before anything is allocated
    if str(device) != "meta":
        _check_memory(config)
    with torch.device("meta" if str(device) == "meta" else "cpu"):
        model = FAMILIES[config.family](config)
    start_evenly(model)
    for stack in (module for module in model.modules() if isinstance(module, Stack)):
        start_small(stack.blocks)
    # Positions computed by rule are real even on meta, for weights to be put beside them.
    return model if device is None or str(device) == "meta" else model.to(device)


def count_parameters(model: nn.Module) -> int:
    """How many numbers the model learns; shared ones count once."""
    return sum(parameter.numel() for parameter in model.parameters())


def _embedding(config: ModelConfig, vocabulary: int, vectors: int | None = None) -> Embedding:
    return Embedding(
        vocabulary,
        config.width,
        POSITIONS.find(config.positions)(config),
        scaled=config.scale_embeddings,
        segments=config.segments,
        norm=_norm(config) if config.embedding_norm else None,
        dropout=config.dropout,
        vectors=vectors,
    )


def _norm(config: ModelConfig) -> nn.Module:
    return NORMS.find(config.norm)(config.width, config.norm_epsilon)


def _final_norm(config: ModelConfig) -> nn.Module | None:
    return _norm(config) if config.normed_at_the_end else None


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
    """No looking ahead; in a cache, padding lies ahead of every token, so causality hides it too."""
    if cache is None:
        return replace(mask, causal=True)
    if mask.keys is not None and (mask.keys[:, 1:] & ~mask.keys[:, :-1]).any():
        raise ShapeError("with a cache, padding must stand on the right; move the tokens to the left")
    return Mask(causal=True, matrix=mask.matrix, first=cache.first)


def _advance(cache: Cache | None, mask: Mask, target: Tensor) -> None:
    if cache is not None:
        cache.advance(target.shape[1] if mask.keys is None else mask.keys.sum(1).cpu().numpy())


def _cache(config: ModelConfig, layers: int, rows: int, room: int, like: Tensor) -> Cache:
    return Cache(layers, rows, config.groups, config.key_size, config.value_size, room, like)


def _check_memory(config: ModelConfig) -> None:
    """A model that cannot fit is refused before the machine starts to swap."""
    if config.rough_parameters < 1 << 28:
        return
    needed = 4 * count_parameters(build_model(config, device="meta"))
    present = _physical_memory()
    if present is not None and needed > present:
        raise SettingError(
            f"{needed / 4e9:.1f} billion parameters need {needed / 1e9:.0f} GB and this machine has "
            f'{present / 1e9:.0f}; build it on device="meta" to look at its shape, or make it smaller'
        )


def _physical_memory() -> int | None:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):  # Windows does not say
        return None
