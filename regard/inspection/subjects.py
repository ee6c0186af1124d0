"""What a Translator, a Writer or a Reader reads when it is inspected: the seam to inference."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from regard.errors import UsageError
from regard.inference.request import Request
from regard.inference.sampling import SamplingSettings
from regard.inference.search import greedy
from regard.inspection.tokens import Side
from regard.model.stepper import TorchStepper
from regard.model.transformer import DecoderOnly, EncoderDecoder
from regard.model.watch import Part
from regard.text.pair import Tokenizers
from regard.text.tokenizer import Tokenizer


def read_by(
    model: Any, text: str, target: str | None, off: Sequence[Part] = ()
) -> tuple[Side | None, Side | None]:
    """The source and the target, where there is one, as the model reads them."""
    if isinstance(model.model, EncoderDecoder):
        return pair(model.model, model.tokenizers, text, target, off)
    if isinstance(model.model, DecoderOnly):
        return None, Side.of_text("target", model.tokenizer, text + (target or ""))
    if target is not None:
        raise UsageError("a model that reads has no target; leave it out")
    tokenizer: Tokenizer = model.tokenizer
    return Side.of_text("source", tokenizer, text, [tokenizer.start], [tokenizer.end]), None


def pair(
    model: EncoderDecoder, tokenizers: Tokenizers, text: str, target: str | None, off: Sequence[Part] = ()
) -> tuple[Side, Side]:
    """A source and its translation: the given one, or the one that the model writes."""
    source = Side.of_text("source", tokenizers.source, text, last=[tokenizers.source.end])
    first = [tokenizers.target.start]
    if target is not None:
        return source, Side.of_text("target", tokenizers.target, target, first)
    return source, Side.of_ids(
        "target", tokenizers.target, translate(model, source, tokenizers.target, off), first
    )


def translate(
    model: EncoderDecoder, source: Side, tokenizer: Tokenizer, off: Sequence[Part] = ()
) -> list[int]:
    """The ids that the model writes for a source, the likeliest at each step, without its end."""
    longest = 2 * len(source) + 10
    settings = SamplingSettings(max_length=longest, end=(tokenizer.end,), temperature=0.0)
    asked = Request([tokenizer.start], settings, source.ids)  # type: ignore[arg-type]
    (answer,) = greedy(TorchStepper(model, off=off), [asked])
    return answer.best.content.tolist()
