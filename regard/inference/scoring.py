"""Whole passes of a torch model over padded rows, and the perplexity of a text of any length."""

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
from regard.inference.search.requests import check_numbers
from regard.inference.tokens import Tokens, beginning
from regard.inference.windows import BUDGET
from regard.model.masks import EVERYTHING, Mask
from regard.model.transformer import DecoderOnly, EncoderDecoder, EncoderOnly, Transformer
from regard.model.watch import Part, attention_path, parts_of, watch
from regard.text.collate import pad, token_mask
from regard.text.tokenizer import Tokenizer

Rows = Sequence[Sequence[int] | np.ndarray]

_AT_ONCE = 512  # places whose logits are held together


@torch.inference_mode()
def forced(
    model: EncoderDecoder | DecoderOnly,
    inputs: Rows,
    outputs: Rows,
    sources: Rows | None,
    ablate: Part | Iterable[Part],
    blend: Blend | None = None,
) -> list[np.ndarray]:
    """The log-probability of each output id, which follows the input id at its place.

    `blend` has the last word on it, as it has in a stepper.
    """
    with _switched(model, ablate):
        hidden = last_vectors(model, inputs, sources)
        chances = [_chances(model, *part, blend) for part in _in_parts(hidden, np.concatenate(outputs))]
    found = _sound(np.concatenate(chances))
    return np.split(found, np.cumsum([len(one) for one in outputs])[:-1])


@torch.inference_mode()
def last_vectors(model: EncoderDecoder | DecoderOnly, inputs: Rows, sources: Rows | None) -> Tensor:
    """What the head reads at each place of the inputs, a row of them after the other: N D."""
    ids, _ = _padded(model, inputs)
    if isinstance(model, EncoderDecoder):
        assert sources is not None
        read, mask = _padded(model, sources)
        hidden = model.decode(ids, model.encode(read, mask), mask)
    else:
        hidden = model.decode(ids)  # padding stands on the right, where no token of the text looks
    return torch.cat([row[: len(one)] for row, one in zip(hidden, inputs, strict=True)])


@torch.inference_mode()
def cross_weights(
    model: EncoderDecoder, source: Sequence[int], target: Sequence[int], ablate: Part | Iterable[Part] = ()
) -> np.ndarray:
    """L H T S: how much each place of a target looked at each token of its source."""
    layers = len(model.decoder.blocks)
    names = [f"{attention_path('cross', layer)}.weights" for layer in range(layers)]
    with watch(model, only=names, ablate=ablate) as seen:
        model(_padded(model, [source])[0], _padded(model, [target])[0])
    return np.stack([seen[name][0].float().cpu().numpy() for name in names])


@torch.inference_mode()
def vectors(model: EncoderOnly, rows: Rows) -> list[np.ndarray]:
    """T D for each row: the contextual vector of every token."""
    ids, mask = _padded(model, rows)
    hidden = _sound(model.encode(ids, mask).float().cpu().numpy())
    return [row[: len(one)] for row, one in zip(hidden, rows, strict=True)]


@torch.inference_mode()
def word_probabilities(model: EncoderOnly, rows: Rows, places: Rows) -> list[np.ndarray]:
    """For each row, the probability of every word at some of its places."""
    ids, mask = _padded(model, rows)
    hidden = model.encode(ids, mask)
    found = []
    for row, some in zip(hidden, places, strict=True):
        wanted = row[torch.as_tensor(np.asarray(some), device=row.device)]
        found.append(_sound(model.head(wanted[None])[0].float().softmax(-1).cpu().numpy()))
    return found


@torch.inference_mode()
def class_probabilities(model: EncoderOnly, rows: Rows) -> np.ndarray:
    """The probability of every class for each row."""
    ids, mask = _padded(model, rows)
    return _sound(model(ids, mask).float().softmax(-1).cpu().numpy())


def _sound(numbers: np.ndarray) -> np.ndarray:
    """The same, unless the model has lost its senses."""
    check_numbers(numbers)
    return numbers


def _padded(model: Transformer, rows: Rows) -> tuple[Tensor, Mask]:
    """Rows filled up on the right; no mask where nothing had to be filled."""
    device = next(model.parameters()).device
    arrays = [np.asarray(row, dtype=np.int64) for row in rows]
    keys = token_mask(arrays)
    mask = EVERYTHING if keys.all() else Mask(keys=torch.from_numpy(keys).to(device))
    return torch.from_numpy(pad(arrays, 0)).to(device), mask


def _switched(model: Transformer, ablate: Part | Iterable[Part]) -> AbstractContextManager[object]:
    parts = parts_of(ablate)
    return watch(model, only=(), ablate=parts) if parts else nullcontext()


def _in_parts(hidden: Tensor, ids: np.ndarray) -> Iterator[tuple[Tensor, Tensor]]:
    wanted = torch.from_numpy(ids.astype(np.int64)).to(hidden.device)
    yield from zip(hidden.split(_AT_ONCE), wanted.split(_AT_ONCE), strict=True)


def _chances(
    model: EncoderDecoder | DecoderOnly, hidden: Tensor, ids: Tensor, blend: Blend | None
) -> np.ndarray:
    chances = model.head(hidden[None])[0].float().log_softmax(-1)
    chances = chances if blend is None else blend(hidden, chances)
    return chances.gather(-1, ids[:, None])[:, 0].cpu().numpy()


@dataclass(frozen=True)
class Perplexity:
    """e to the mean loss of a token; the score is the log-probability of the text, token by token."""

    perplexity: float
    score: float
    tokens: Tokens


@dataclass(frozen=True)
class Span:
    """A window over a text: it reads from begin to end, and counts from `counted` on."""

    begin: int
    counted: int
    end: int


def perplexity_of(
    model: DecoderOnly, tokenizer: Tokenizer, text: str, stride: int | None, ablate: Part | Iterable[Part]
) -> Perplexity:
    """Every token once, each in a window that looks back on at least `context - stride` others."""
    ids, parts = tokenizer.encode(text), parts_of(ablate)
    if not ids:
        raise DataError("the text has no token, so nothing can be surprising; give a longer one")
    whole = np.array([beginning(tokenizer)[-1], *ids])
    spans = list(spans_over(len(ids), model.config.context, stride))
    rows = max(1, BUDGET // model.config.context)
    chances: list[float] = []
    for first in range(0, len(spans), rows):
        few = spans[first : first + rows]
        inputs = [whole[span.begin : span.end] for span in few]
        outputs = [whole[span.begin + 1 : span.end + 1] for span in few]
        for span, found in zip(few, forced(model, inputs, outputs, None, parts), strict=True):
            chances += found[span.counted - span.begin :].tolist()
    score = math.fsum(chances)
    return Perplexity(_exp(-score / len(ids)), score, Tokens(tokenizer, ids, chances))


def spans_over(tokens: int, context: int, stride: int | None = None) -> Iterator[Span]:
    """Windows of at most `context` places that move on by `stride`, half of it where none is given."""
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
