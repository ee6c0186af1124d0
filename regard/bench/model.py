"""`regard bench model`: forward and backward of the whole stack, without head and loss."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from regard.bench.interleaved import COMPILED, OURS, Case, Implementation
from regard.bench.peers import TorchDecoder, TorchTransformer, gpt2, marian
from regard.bench.report import has_compiler
from regard.bench.shapes import (
    LANGUAGE_MODELS,
    PAD,
    TRANSLATION,
    language_batch,
    language_operations,
    translation_batch,
    translation_operations,
)
from regard.model.config import ModelConfig
from regard.model.masks import Mask
from regard.model.transformer import EncoderDecoder, build_model


def cases(compiled: bool = False) -> list[Case]:
    """The four shapes; with `compiled`, each implementation is also measured under torch.compile."""
    translations = [_translation(name, config, compiled) for name, config in TRANSLATION.items()]
    models = [_language(name, config, rows, compiled) for name, (config, rows) in LANGUAGE_MODELS.items()]
    return translations + models


def _translation(name: str, config: ModelConfig, compiled: bool) -> Case:
    batch = translation_batch(config.vocabulary)
    source, target, mask = batch.source, batch.target, Mask.of_padding(batch.source, PAD)

    def ours(model: EncoderDecoder) -> Tensor:
        return model.decode(target, model.encode(source, mask), mask)

    def theirs(model: Any) -> Tensor:
        exists = (source != PAD).long()
        return model(input_ids=source, attention_mask=exists, decoder_input_ids=target).last_hidden_state

    def implementations() -> list[Implementation]:
        models = [
            (OURS, build_model(config), ours),
            ("torch.nn.Transformer", TorchTransformer(config), lambda model: model(source, target)),
            ("transformers", marian(config), theirs),
        ]
        return _with_compiled(models, compiled)

    return Case(name, "target tokens/s", batch.tokens, implementations, translation_operations(config, batch))


def _language(name: str, config: ModelConfig, rows: int, compiled: bool) -> Case:
    ids = language_batch(config.vocabulary, rows, config.context)

    def implementations() -> list[Implementation]:
        models = [
            (OURS, build_model(config), lambda model: model.decode(ids)),
            ("torch.nn.Transformer", TorchDecoder(config), lambda model: model(ids)),
            ("transformers", gpt2(config), lambda model: model(input_ids=ids).last_hidden_state),
        ]
        return _with_compiled(models, compiled)

    return Case(name, "tokens/s", ids.numel(), implementations, language_operations(config, ids.numel()))


Models = list[tuple[str, nn.Module, Callable[[Any], Tensor]]]


def _with_compiled(models: Models, compiled: bool) -> list[Implementation]:
    implementations = [Implementation(name, _step(model, run)) for name, model, run in models]
    if compiled and has_compiler():
        implementations += [
            Implementation(name, _step(model, torch.compile(run)), COMPILED) for name, model, run in models
        ]
    return implementations


def _step(model: nn.Module, run: Callable[[Any], Tensor]) -> Callable[[], None]:
    """One forward and one backward pass with new gradients."""
    model.train()

    def step() -> None:
        model.zero_grad(set_to_none=True)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of the peers
            hidden = run(model)
        hidden.backward(torch.full_like(hidden, 1e-3))

    return step
