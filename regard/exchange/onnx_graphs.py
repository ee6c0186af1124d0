"""The parts of a model as modules with tensors in and out, which torch.onnx exports.

    encoder-decoder   encoder: source, source_mask to the projected memory of every layer
                      decoder: ids, source_mask, memory, past keys and values to logits, keys and values
    decoder-only      decoder: ids, past keys and values to logits, keys and values
    encoder-only      encoder: source, source_mask to the output of the head

B batch, S source tokens, Q new tokens, P past tokens, L layers, G key-value heads, E key width, V vocabulary.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from regard.model.cache import ProjectedMemory
from regard.model.config import ModelConfig
from regard.model.masks import Mask
from regard.model.transformer import DecoderOnly, EncoderDecoder, EncoderOnly, Transformer

# Names of the axes that vary.
BATCH, SOURCE, NEW, PAST = "batch", "source_tokens", "new_tokens", "past_tokens"


@dataclass(frozen=True)
class Graph:
    """A module to export: names and axes of its inputs, names of its outputs, and example inputs."""

    module: nn.Module
    inputs: dict[str, tuple[Tensor, dict[int, str]]]
    outputs: list[str]
    example: tuple[Tensor, ...] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "example", tuple(tensor for tensor, _ in self.inputs.values()))


class _GrowingLayer:
    """The cache of one layer as the blocks use it: past keys and values, to which new ones are appended."""

    def __init__(self, key: Tensor, value: Tensor):
        self.key, self.value = key, value

    def extend(self, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        """All keys and values, B G P+Q E."""
        self.key = torch.cat([self.key, key], dim=2)
        self.value = torch.cat([self.value, value], dim=2)
        return self.key, self.value


class SourceEncoder(nn.Module):
    """source B S and source_mask B S to keys and values B G S E of each decoder layer's cross-attention."""

    def __init__(self, model: EncoderDecoder):
        super().__init__()
        self.model = model

    def forward(self, source: Tensor, source_mask: Tensor) -> tuple[Tensor, ...]:
        """Keys and values, layer by layer."""
        memory = self.model.encode(source, Mask(keys=source_mask))
        blocks: Any = self.model.decoder.blocks
        return tuple(part for block in blocks for part in block.cross.projections.key_value(memory))


class Decoder(nn.Module):
    """New ids B Q with the keys and values before them to logits B Q V and all keys and values."""

    def __init__(self, model: EncoderDecoder | DecoderOnly):
        super().__init__()
        self.model = model

    def forward(self, ids: Tensor, *others: Tensor) -> tuple[Tensor, ...]:
        """With an encoder, the others are source_mask and the memory; then past keys and values."""
        model, layers = self.model, len(self.model.decoder.blocks)
        past = others[-2 * layers :]
        caches: Any = [_GrowingLayer(past[2 * i], past[2 * i + 1]) for i in range(layers)]
        mask = _causal_mask(ids.shape[1], past[0].shape[2])
        x, rotation = model.target(ids, mask)
        for layer, block in enumerate(model.decoder.blocks):
            if isinstance(model, EncoderDecoder):
                memory = ProjectedMemory(others[1 + 2 * layer], others[2 + 2 * layer])
                x = block(x, memory, mask, Mask(keys=others[0]), rotation, caches[layer])
            else:
                x = block(x, mask, rotation, caches[layer])
        logits = model.head(model.decoder.finish(x))
        return (logits, *(part for cache in caches for part in (cache.key, cache.value)))


class TextEncoder(nn.Module):
    """source B S and source_mask B S to the output of an encoder-only model."""

    def __init__(self, model: EncoderOnly):
        super().__init__()
        self.model = model

    def forward(self, source: Tensor, source_mask: Tensor) -> Tensor:
        """Logits of words B S V or of classes B C, or vectors."""
        return self.model(source, Mask(keys=source_mask))


def _causal_mask(queries: int, past: int) -> Mask:
    """A matrix instead of `causal`, because the number of past tokens is not known at export."""
    query, key = torch.arange(queries) + past, torch.arange(queries + past)
    return Mask(matrix=key <= query[:, None], offset=past)


def graphs(model: Transformer) -> dict[str, Graph]:
    """The graphs of a model by file name without ending."""
    config = model.config
    rows, source, new, past = 2, 5, 3, 4
    read = {
        "source": (torch.ones(rows, source, dtype=torch.long), {0: BATCH, 1: SOURCE}),
        "source_mask": (torch.ones(rows, source, dtype=torch.bool), {0: BATCH, 1: SOURCE}),
    }
    if isinstance(model, EncoderOnly):
        return {"encoder": Graph(TextEncoder(model), read, ["output"])}
    layers = len(model.decoder.blocks)
    ids = {"ids": (torch.ones(rows, new, dtype=torch.long), {0: BATCH, 1: NEW})}
    cached = _keys_and_values("past", config, layers, rows, past, PAST)
    outputs = ["logits", *names("present", layers)]
    if isinstance(model, DecoderOnly):
        return {"decoder": Graph(Decoder(model), ids | cached, outputs)}
    memory = _keys_and_values("memory", config, layers, rows, source, SOURCE)
    mask = {"source_mask": read["source_mask"]}
    return {
        "encoder": Graph(SourceEncoder(model), read, list(memory)),
        "decoder": Graph(Decoder(model), ids | mask | memory | cached, outputs),
    }


def names(kind: str, layers: int) -> list[str]:
    """The names of the keys and values of all layers."""
    return [f"{kind}.{layer}.{part}" for layer in range(layers) for part in ("key", "value")]


def _keys_and_values(
    kind: str, config: ModelConfig, layers: int, rows: int, tokens: int, axis: str
) -> dict[str, tuple[Tensor, dict[int, str]]]:
    widths = [config.key_size, config.value_size] * layers
    return {
        name: (torch.zeros(rows, config.groups, tokens, width), {0: BATCH, 2: axis})
        for name, width in zip(names(kind, layers), widths, strict=True)
    }
