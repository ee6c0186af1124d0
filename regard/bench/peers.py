"""The peers, built as their documentation recommends, with the sizes of our models."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regard.bench.shapes import PAD
from regard.errors import MissingPackage
from regard.model.config import ModelConfig
from regard.model.positions import sinusoids


class TorchTransformer(nn.Module):
    """torch.nn.Transformer with embeddings and positions."""

    def __init__(self, config: ModelConfig):
        super().__init__()
        self.tokens, self.scale = nn.Embedding(config.vocabulary, config.width), config.width**0.5
        self.register_buffer("positions", sinusoids(torch.arange(512), config.width))
        self.body = nn.Transformer(
            config.width, config.heads, config.layers, config.layers, config.feed_forward_width,
            config.dropout, batch_first=True,
        )  # fmt: skip
        self.dropout = config.dropout
        _keep_residual_dropout(self.body)

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        """B S and B T to B T D."""
        padding = source == PAD
        causal_mask = torch.ones(target.shape[1], target.shape[1], dtype=torch.bool).triu(1)
        return self.body(
            self._embed(source), self._embed(target), tgt_mask=causal_mask, tgt_is_causal=True,
            src_key_padding_mask=padding, memory_key_padding_mask=padding,
        )  # fmt: skip

    def _embed(self, ids: Tensor) -> Tensor:
        x = self.tokens(ids) * self.scale + self.positions[: ids.shape[1]]  # type: ignore[index]
        return F.dropout(x, self.dropout, self.training) if self.dropout else x


class TorchDecoder(nn.Module):
    """torch.nn.TransformerEncoder with a causal mask: a GPT from torch's modules."""

    def __init__(self, config: ModelConfig):
        super().__init__()
        self.tokens = nn.Embedding(config.vocabulary, config.width)
        self.positions = nn.Embedding(config.context, config.width)
        layer = nn.TransformerEncoderLayer(
            config.width, config.heads, config.feed_forward_width, config.dropout,
            activation=_gelu_tanh, batch_first=True, norm_first=True,
        )  # fmt: skip
        norm = nn.LayerNorm(config.width)
        self.body = nn.TransformerEncoder(layer, config.layers, norm, enable_nested_tensor=False)
        self.dropout = config.dropout
        _keep_residual_dropout(self.body)

    def forward(self, ids: Tensor) -> Tensor:
        """B T to B T D."""
        causal_mask = torch.ones(ids.shape[1], ids.shape[1], dtype=torch.bool).triu(1)
        x = self.tokens(ids) + self.positions(torch.arange(ids.shape[1]))
        x = F.dropout(x, self.dropout, self.training) if self.dropout else x
        return self.body(x, mask=causal_mask, is_causal=True)


def _keep_residual_dropout(body: nn.Module) -> None:
    """Disable dropout inside attention and feed-forward; only that on residuals remains, as in the paper."""
    for module in body.modules():
        if isinstance(module, nn.MultiheadAttention):
            module.dropout = 0.0
        elif isinstance(module, nn.TransformerEncoderLayer | nn.TransformerDecoderLayer):
            module.dropout.p = 0.0


def _gelu_tanh(x: Tensor) -> Tensor:
    return F.gelu(x, approximate="tanh")


def marian(config: ModelConfig) -> nn.Module:
    """transformers' MarianModel with torch's fused attention."""
    return _transformers().MarianModel(_marian(config))


def marian_with_head(config: ModelConfig) -> nn.Module:
    """The same with its head, which is tied to the embeddings."""
    return _transformers().MarianMTModel(_marian(config))


def gpt2(config: ModelConfig) -> nn.Module:
    """transformers' GPT2Model with torch's fused attention."""
    return _transformers().GPT2Model(_gpt2(config))


def gpt2_with_head(config: ModelConfig) -> nn.Module:
    """The same with its head, which is tied to the embeddings."""
    return _transformers().GPT2LMHeadModel(_gpt2(config))


def _marian(config: ModelConfig) -> Any:
    return _transformers().MarianConfig(
        vocab_size=config.vocabulary, d_model=config.width, encoder_layers=config.layers,
        decoder_layers=config.layers, encoder_attention_heads=config.heads,
        decoder_attention_heads=config.heads, encoder_ffn_dim=config.feed_forward_width,
        decoder_ffn_dim=config.feed_forward_width, activation_function="relu", dropout=config.dropout,
        attention_dropout=0.0, activation_dropout=0.0, max_position_embeddings=512, scale_embedding=True,
        pad_token_id=PAD, decoder_start_token_id=PAD, use_cache=False, attn_implementation="sdpa",
    )  # fmt: skip


def _gpt2(config: ModelConfig) -> Any:
    return _transformers().GPT2Config(
        vocab_size=config.vocabulary, n_positions=config.context, n_embd=config.width, n_layer=config.layers,
        n_head=config.heads, n_inner=config.feed_forward_width, resid_pdrop=config.dropout,
        embd_pdrop=config.dropout, attn_pdrop=0.0, use_cache=False, attn_implementation="sdpa",
        bos_token_id=0, eos_token_id=0,
    )  # fmt: skip


def _transformers() -> Any:
    try:
        import transformers
    except ImportError:
        raise MissingPackage(
            "the benchmark compares with transformers, which is not installed; pip install 'regard[bench]'"
        ) from None
    return transformers
