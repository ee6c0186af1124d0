"""`regard bench model`: forward and backward of the whole stack, without head and loss."""

from __future__ import annotations

import shutil
import sys
import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from regard.bench.peers import TorchDecoder, TorchTransformer, gpt2, marian
from regard.bench.shapes import LANGUAGE_MODELS, PAD, TRANSLATION, language_batch, translation_batch
from regard.bench.turns import OURS, Case, Contender
from regard.model.config import ModelConfig
from regard.model.masks import Mask
from regard.model.transformer import EncoderDecoder, build_model


def cases(compiled: bool = False) -> list[Case]:
    """The four shapes, with compiled twins of all contenders if asked for."""
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

    def contenders() -> list[Contender]:
        made = [
            (OURS, build_model(config), ours),
            ("torch.nn.Transformer", TorchTransformer(config), lambda model: model(source, target)),
            ("transformers", marian(config), theirs),
        ]
        return _with_twins(made, compiled)

    source_tokens = int((source != PAD).sum())
    operations = _translation_operations(config, source_tokens, batch.tokens)
    return Case(name, "target tokens/s", batch.tokens, contenders, operations)


def _language(name: str, config: ModelConfig, rows: int, compiled: bool) -> Case:
    ids = language_batch(config.vocabulary, rows, config.context)

    def contenders() -> list[Contender]:
        made = [
            (OURS, build_model(config), lambda model: model.decode(ids)),
            ("torch.nn.Transformer", TorchDecoder(config), lambda model: model(ids)),
            ("transformers", gpt2(config), lambda model: model(input_ids=ids).last_hidden_state),
        ]
        return _with_twins(made, compiled)

    matrices = config.layers * (4 * config.width**2 + 2 * config.width * config.feed_forward_width)
    attention = config.layers * config.width * config.context  # half of 2 T D: no looking ahead
    return Case(name, "tokens/s", ids.numel(), contenders, 6.0 * ids.numel() * (matrices + attention))


def _translation_operations(config: ModelConfig, source: int, target: int) -> float:
    """Multiplications and additions of forward and backward, of real tokens in matrix products alone."""
    square, inner = config.width**2, 2 * config.width * config.feed_forward_width
    encoder, decoder, memory = 4 * square + inner, 6 * square + inner, 2 * square
    return 6.0 * config.layers * (source * (encoder + memory) + target * decoder)


Made = list[tuple[str, nn.Module, Callable[[Any], Tensor]]]


def _with_twins(made: Made, compiled: bool) -> list[Contender]:
    contenders = [Contender(name, _step(model, run)) for name, model, run in made]
    if compiled and _has_compiler():
        contenders += [
            Contender(f"{name} (compiled)", _step(model, torch.compile(run)), compiled=True)
            for name, model, run in made
        ]
    return contenders


def _step(model: nn.Module, run: Callable[[Any], Tensor]) -> Callable[[], None]:
    """One forward and one backward pass, with gradients made anew."""
    model.train()

    def step() -> None:
        model.zero_grad(set_to_none=True)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the peers warn about how they are called
            hidden = run(model)
        hidden.backward(torch.full_like(hidden, 1e-3))

    return step


def _has_compiler() -> bool:
    if shutil.which("c++") or shutil.which("g++") or shutil.which("clang++") or shutil.which("cl"):
        return True
    print("no C++ compiler here: compiled twins are left out", file=sys.stderr)
    return False


def gemm_speed(size: int = 1536, turns: int = 7) -> float:
    """Operations a second that this machine reaches in one large float32 product, at its best."""
    import time

    a, b = torch.randn(size, size), torch.randn(size, size)
    best = float("inf")
    for _ in range(turns):
        started = time.perf_counter()
        torch.mm(a, b)
        best = min(best, time.perf_counter() - started)
    return 2 * size**3 / best


def profile(case: Case, rows: int = 12) -> str:
    """Where our own step spends its time, as a table of torch operations."""
    from torch.profiler import ProfilerActivity
    from torch.profiler import profile as record

    ours = next(contender for contender in case.contenders() if contender.name == OURS)
    ours.work()
    with record(activities=[ProfilerActivity.CPU]) as seen:
        ours.work()
    return seen.key_averages().table(sort_by="self_cpu_time_total", row_limit=rows, max_name_column_width=50)
