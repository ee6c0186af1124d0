"""Teacher-forced passes of the torch model over padded rows, and the perplexity of a text of any length.

N tokens of all rows, D width, L layers, H heads, T target tokens, S source tokens.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from regard.engine.torch_stepper import Blend
from regard.errors import DataError, SettingError
from regard.inference.search.requests import Alternatives, check_numbers
from regard.inference.tokens import Tokens, beginning
from regard.inference.windows import BUDGET
from regard.model.masks import EVERYTHING, Mask
from regard.model.parts import Part, parts_of
from regard.model.transformer import DecoderOnly, EncoderDecoder, EncoderOnly, Transformer
from regard.model.watch import attention_path, watch
from regard.text.collate import pad, token_mask
from regard.text.tokenizer import Tokenizer

Rows = Sequence[Sequence[int] | np.ndarray]

_LOGIT_ROWS = 512  # positions whose logits are held at a time


@torch.inference_mode()
def forced(
    model: EncoderDecoder | DecoderOnly,
    inputs: Rows,
    outputs: Rows,
    sources: Rows | None,
    ablate: Part | Iterable[Part],
    blend: Blend | None = None,
) -> list[np.ndarray]:
    """The log-probability of each output id, given the input ids up to its position.

    `blend` changes the log-probabilities, as in a stepper.
    """
    ids = torch.from_numpy(np.concatenate(outputs).astype(np.int64))
    with _ablated(model, ablate):
        hidden = last_vectors(model, inputs, sources)
        parts = zip(hidden.split(_LOGIT_ROWS), ids.to(hidden.device).split(_LOGIT_ROWS), strict=True)
        log_probabilities = [_log_probabilities(model, *part, blend) for part in parts]
    ends = np.cumsum([len(row) for row in outputs])[:-1]
    return np.split(_checked(np.concatenate(log_probabilities)), ends)


def _log_probabilities(
    model: EncoderDecoder | DecoderOnly, hidden: Tensor, ids: Tensor, blend: Blend | None
) -> np.ndarray:
    log_probabilities = model.head(hidden[None])[0].float().log_softmax(-1)
    if blend is not None:
        log_probabilities = blend(hidden, log_probabilities)
    return log_probabilities.gather(-1, ids[:, None])[:, 0].cpu().numpy()


@torch.inference_mode()
def likeliest(model: DecoderOnly, ids: Sequence[int], count: int) -> tuple[np.ndarray, list[Alternatives]]:
    """The log-probability of each id but the first, and the `count` likeliest ids at its position."""
    if len(ids) < 2:
        return np.empty(0, np.float32), []
    hidden = last_vectors(model, [ids[:-1]], None)
    values: list[float] = []
    alternatives: list[Alternatives] = []
    for vectors, following in zip(
        hidden.split(_LOGIT_ROWS), torch.as_tensor(ids[1:]).split(_LOGIT_ROWS), strict=True
    ):
        log_probabilities = model.head(vectors[None])[0].float().log_softmax(-1).cpu()
        values += log_probabilities.gather(-1, following[:, None])[:, 0].tolist()
        best = log_probabilities.topk(min(count, log_probabilities.shape[-1]))
        alternatives += map(Alternatives, best.indices.numpy(), best.values.numpy())
    return _checked(np.array(values)), alternatives


@torch.inference_mode()
def last_vectors(model: EncoderDecoder | DecoderOnly, inputs: Rows, sources: Rows | None) -> Tensor:
    """N D: the hidden state that the head reads at each position of the inputs, row after row."""
    ids, _ = _padded(model, inputs)
    if isinstance(model, EncoderDecoder):
        assert sources is not None
        source_ids, mask = _padded(model, sources)
        hidden = model.decode(ids, model.encode(source_ids, mask), mask)
    else:
        hidden = model.decode(ids)  # causal attention never reads the padding on the right
    return torch.cat([row[: len(tokens)] for row, tokens in zip(hidden, inputs, strict=True)])


@torch.inference_mode()
def cross_weights(
    model: EncoderDecoder, source: Sequence[int], target: Sequence[int], ablate: Part | Iterable[Part] = ()
) -> np.ndarray:
    """L H T S: the cross-attention weights of a target on its source."""
    layers = len(model.decoder.blocks)
    names = [f"{attention_path('cross', layer)}.weights" for layer in range(layers)]
    with watch(model, only=names, ablate=ablate) as seen:
        model(_padded(model, [source])[0], _padded(model, [target])[0])
    return np.stack([seen[name][0].float().cpu().numpy() for name in names])


class TorchReader:
    """The passes of a Reader on the torch model; `regard.engine.native_reader` has the same functions."""

    def __init__(self, model: EncoderOnly):
        self._model = model

    def vectors(self, rows: Rows) -> list[np.ndarray]:
        """T D for each row: the contextual vector of every token."""
        return vectors(self._model, rows)

    @torch.inference_mode()
    def word_probabilities(self, rows: Rows, positions: Rows) -> list[np.ndarray]:
        """For each row, the probability of every word at some of its positions."""
        ids, mask = _padded(self._model, rows)
        probabilities = []
        for hidden, row_positions in zip(self._model.encode(ids, mask), positions, strict=True):
            masked = hidden[torch.as_tensor(np.asarray(row_positions), device=hidden.device)]
            probabilities.append(self._model.head(masked[None])[0].float().softmax(-1).cpu().numpy())
        return probabilities

    @torch.inference_mode()
    def class_probabilities(self, rows: Rows) -> np.ndarray:
        """The probability of every class for each row."""
        return self._model(*_padded(self._model, rows)).float().softmax(-1).cpu().numpy()


@torch.inference_mode()
def vectors(model: EncoderOnly, rows: Rows) -> list[np.ndarray]:
    """T D for each row: the contextual vector of every token."""
    ids, mask = _padded(model, rows)
    hidden = model.encode(ids, mask).float().cpu().numpy()
    return [vectors[: len(row)] for vectors, row in zip(hidden, rows, strict=True)]


@torch.inference_mode()
def image_probabilities(model: EncoderOnly, images: np.ndarray) -> np.ndarray:
    """The probability of every class for each image, B C height width."""
    device = next(model.parameters()).device
    return _checked(model(torch.from_numpy(images).to(device)).float().softmax(-1).cpu().numpy())


def _checked(numbers: np.ndarray) -> np.ndarray:
    """The numbers; raise if one is NaN."""
    check_numbers(numbers)
    return numbers


def _padded(model: Transformer, rows: Rows) -> tuple[Tensor, Mask]:
    """Rows padded on the right, and the mask of what exists."""
    device = next(model.parameters()).device
    arrays = [np.asarray(row, dtype=np.int64) for row in rows]
    keys = token_mask(arrays)
    mask = EVERYTHING if keys.all() else Mask(keys=torch.from_numpy(keys).to(device))
    return torch.from_numpy(pad(arrays, 0)).to(device), mask


def _ablated(model: Transformer, ablate: Part | Iterable[Part]) -> AbstractContextManager[object]:
    parts = parts_of(ablate)
    return watch(model, only=(), ablate=parts) if parts else nullcontext()


@dataclass(frozen=True)
class Perplexity:
    """e to the mean loss per token; `score` is the log-probability of the text."""

    perplexity: float
    score: float
    tokens: Tokens


@dataclass(frozen=True)
class Span:
    """A window over a text from begin to end; the tokens before `counted` are only context."""

    begin: int
    counted: int
    end: int


def perplexity_of(
    model: DecoderOnly, tokenizer: Tokenizer, text: str, stride: int | None, ablate: Part | Iterable[Part]
) -> Perplexity:
    """Score every token once, in a window with at least `context - stride` tokens before it."""
    ids, parts = tokenizer.encode(text), parts_of(ablate)
    if not ids:
        raise DataError("the text has no token, so it has no perplexity; give a longer one")
    tokens = np.array([beginning(tokenizer)[-1], *ids])
    spans = list(spans_over(len(ids), model.config.context, stride))
    rows = max(1, BUDGET // model.config.context)
    log_probabilities: list[float] = []
    for first in range(0, len(spans), rows):
        batch = spans[first : first + rows]
        inputs = [tokens[span.begin : span.end] for span in batch]
        outputs = [tokens[span.begin + 1 : span.end + 1] for span in batch]
        for span, values in zip(batch, forced(model, inputs, outputs, None, parts), strict=True):
            log_probabilities += values[span.counted - span.begin :].tolist()
    score = math.fsum(log_probabilities)
    return Perplexity(_exp(-score / len(ids)), score, Tokens(tokenizer, ids, log_probabilities))


def spans_over(tokens: int, context: int, stride: int | None = None) -> Iterator[Span]:
    """Windows of at most `context` positions that advance by `stride`, by default half of the context."""
    step = max(1, context // 2) if stride is None else stride
    if not 1 <= step <= context:
        raise SettingError(f"stride ({step}) must lie between 1 and the context of {context}; leave it out")
    end = 0
    while end < tokens:
        counted, end = end, min(tokens, end + step if end else context)
        yield Span(max(0, end - context), counted, end)


def _exp(loss: float) -> float:
    try:
        return math.exp(loss)
    except OverflowError:
        return math.inf
