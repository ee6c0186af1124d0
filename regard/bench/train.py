"""`regard bench train`: complete training steps, from a batch to updated weights.

A step is forward, loss, backward, gradient clipping and the same fused AdamW for all. Dropout is applied to
embeddings and residuals, not in attention. Label smoothing of translation is 0.1: peers compute it over full
logits in torch's cross_entropy, Regard in its own loss. With several threads Regard is also measured with two
replicas.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regard.bench.interleaved import COMPILED, OURS, Case, Implementation
from regard.bench.peers import TorchDecoder, TorchTransformer, gpt2_with_head, marian_with_head
from regard.bench.plain import PlainGPT
from regard.bench.report import has_compiler
from regard.bench.shapes import (
    LANGUAGE_MODELS,
    PAD,
    TRANSLATION,
    TranslationBatch,
    language_batch,
    language_operations,
    translation_batch,
    translation_operations,
)
from regard.model.config import ModelConfig
from regard.model.transformer import build_model
from regard.text.collate import ParallelBatch, TextBatch
from regard.training.objectives import LanguageModeling, Objective, Translation
from regard.training.optimizers import build_optimizer, gradients_of, scale_and_clip, set_learning_rate
from regard.training.replicas import Replicas
from regard.training.settings import OptimizerSettings, TrainingSettings
from regard.training.trainer import compile_blocks

DROPOUT, SMOOTHING, RATE = 0.1, 0.1, 1e-4
START = 2  # the start id of a target
Peer = tuple[str, Callable[[], nn.Module], Callable[[Any], Tensor]]


def cases(compiled: bool = False) -> list[Case]:
    """The four shapes; with `compiled`, each implementation is also measured under torch.compile."""
    translations = [_translation(name, config, compiled) for name, config in TRANSLATION.items()]
    models = [_language(name, config, rows, compiled) for name, (config, rows) in LANGUAGE_MODELS.items()]
    return translations + models


def _translation(name: str, config: ModelConfig, compiled: bool) -> Case:
    config, batch = config.changed(dropout=DROPOUT), translation_batch(config.vocabulary)
    source, target, given = batch.source, batch.target, _shift_right(batch.target)
    exists = (source != PAD).long()

    def loss(logits: Tensor) -> Tensor:
        flat = logits.flatten(0, 1)
        return F.cross_entropy(flat, target.flatten(), ignore_index=PAD, label_smoothing=SMOOTHING)

    def with_torch(model: Any) -> Tensor:
        return loss(F.linear(model(source, given), model.tokens.weight))

    def with_transformers(model: Any) -> Tensor:
        return loss(model(input_ids=source, attention_mask=exists, decoder_input_ids=given).logits)

    peers: list[Peer] = [
        ("torch.nn.Transformer", lambda: TorchTransformer(config), with_torch),
        ("transformers", lambda: marian_with_head(config), with_transformers),
    ]
    ours = _Ours(lambda: Translation(build_model(config), SMOOTHING), _parallel(batch))
    operations = translation_operations(config, batch) + 6.0 * batch.tokens * _head(config)
    return Case(
        name, "target tokens/s", batch.tokens, lambda: _implementations(ours, peers, compiled), operations
    )


def _language(name: str, config: ModelConfig, rows: int, compiled: bool) -> Case:
    config = config.changed(dropout=DROPOUT)
    text = language_batch(config.vocabulary, rows, config.context + 1)
    ids, next_ids = text[:, :-1].contiguous(), text[:, 1:].contiguous()

    def loss(logits: Tensor) -> Tensor:
        return F.cross_entropy(logits.flatten(0, 1), next_ids.flatten())

    peers: list[Peer] = [
        ("plain GPT loop", lambda: PlainGPT(config), lambda model: loss(model(ids))),
        (
            "torch.nn.Transformer",
            lambda: TorchDecoder(config),
            lambda model: loss(F.linear(model(ids), model.tokens.weight)),
        ),
        ("transformers", lambda: gpt2_with_head(config), lambda model: loss(model(input_ids=ids).logits)),
    ]
    batch = TextBatch(ids.numpy(), next_ids.numpy(), np.ones(ids.shape, dtype=bool))
    ours = _Ours(lambda: LanguageModeling(build_model(config)), batch)
    operations = language_operations(config, ids.numel()) + 6.0 * ids.numel() * _head(config)
    return Case(name, "tokens/s", ids.numel(), lambda: _implementations(ours, peers, compiled), operations)


class _Ours:
    """A training step of `regard train` with the settings of the peers."""

    def __init__(self, make: Callable[[], Objective], batch: ParallelBatch | TextBatch):
        self._make, self._batch = make, batch
        self._settings = TrainingSettings(max_grad_norm=1.0)

    def implementation(self, compiled: bool = False, workers: int = 1) -> Implementation:
        objective, replicas = self._make().train(), Replicas(workers).__enter__()
        pieces = self._batch.split(workers)
        optimizer = build_optimizer(objective, self._settings)
        set_learning_rate(optimizer, RATE)
        if compiled:
            compile_blocks(objective)

        def step() -> None:
            sums = replicas.backward(objective, pieces)
            count = sum(part.count for part in sums)
            norm = scale_and_clip(gradients_of(optimizer), count, self._settings.max_grad_norm)
            losses = [loss for part in sums for loss in (part.loss, part.cross_entropy)]
            torch.stack([*losses, norm]).tolist()  # all are looked at, at every step
            optimizer.step()
            optimizer.zero_grad()

        setting = COMPILED if compiled else "" if workers == 1 else f"{workers} workers"
        return Implementation(OURS, step, setting, close=lambda: replicas.__exit__(None, None, None))


def _implementations(ours: _Ours, peers: list[Peer], compiled: bool) -> list[Implementation]:
    implementations = [ours.implementation()]
    if torch.get_num_threads() > 1:
        implementations.append(ours.implementation(workers=2))
    implementations += [Implementation(name, _step(make(), run)) for name, make, run in peers]
    if compiled and has_compiler():
        implementations.append(ours.implementation(compiled=True))
        implementations += [
            Implementation(name, _step(make(), torch.compile(run)), COMPILED) for name, make, run in peers
        ]
    return implementations


def _step(model: nn.Module, run: Callable[[Any], Tensor]) -> Callable[[], None]:
    """A peer's training step in its usual form, with our settings of the optimizer."""
    usual = OptimizerSettings()
    parameters = list(model.train().parameters())
    optimizer = torch.optim.AdamW(
        parameters, lr=RATE, betas=usual.betas, eps=usual.epsilon, weight_decay=usual.weight_decay, fused=True
    )

    def step() -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of the peers
            loss = run(model)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(parameters, 1.0)
        loss.item()
        optimizer.step()
        optimizer.zero_grad()

    return step


def _shift_right(target: Tensor) -> Tensor:
    """The input of the decoder: the start id, then the target without its last token."""
    shifted = torch.cat([torch.full_like(target[:, :1], START), target[:, :-1]], dim=1)
    return shifted.masked_fill(target == PAD, PAD)


def _parallel(batch: TranslationBatch) -> ParallelBatch:
    source, target = batch.source.numpy(), batch.target.numpy()
    return ParallelBatch(source, source != PAD, _shift_right(batch.target).numpy(), target, target != PAD)


def _head(config: ModelConfig) -> int:
    return config.width * config.vocabulary
