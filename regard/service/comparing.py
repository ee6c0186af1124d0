"""Comparison of two sentences, and of a sentence with and without ablated parts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from regard.inference.reader import Reader
from regard.inference.translator import Translator
from regard.inference.writer import Writer
from regard.inspection.analysis.ablation import Ablation, Rivals, spell_part
from regard.inspection.analysis.compare import Comparison
from regard.inspection.record.inputs import TextModel, translate_by_default
from regard.inspection.record.record import Record, log_softmax
from regard.inspection.render.payload import side_data
from regard.service.handlers import parts_of, trace
from regard.service.http_errors import RequestError
from regard.service.models import Entry, Models
from regard.service.requests import AblationRequest, CompareRequest, TraceRequest
from regard.service.traces import Trace, Traces

NOTICED = 0.005  # of a probability; a smaller change would not show in two digits


def compare(models: Models, traces: Traces, request: CompareRequest) -> dict[str, Any]:
    """The attention of a word in two sentences, over all heads."""
    first, second = (
        trace(
            models,
            traces,
            TraceRequest(model=request.model, text=text, ablate=request.ablate, snapshot=request.snapshot),
        )
        for text in (request.first, request.second)
    )
    side = request.side or first.inspection.sides(first.inspection.kinds[0])[0].name
    with first.lock(), second.lock():
        both = Comparison(first.inspection, second.inspection)
        word = _nearest_partnered(both, side, request.word) if request.nearest else request.word
        _check_partner(both, side, word)
        changes = both.changes(word, side)
        notes, sides = first.entry.notes, [each.inspection.side(side) for each in (first, second)]
        others = [_other(each.inspection, side) for each in (first, second)]
        return {
            **{
                name: side_data(one, other, notes)
                for name, one, other in zip(("first", "second"), sides, others, strict=True)
            },
            "word": word,
            "pairs": [vars(pair) for pair in both.pairs[side]],
            "keys": {name: both.labels(name) for name in both.pairs},
            "changes": [
                {**each.as_dict(), "keys": first.inspection.sides(each.kind)[1].name} for each in changes
            ],
            "next": [each.as_dict() for each in _next(both, first.loaded.subject)],
            "outputs": [_output(each) for each in (first, second)],
        }


def _nearest_partnered(both: Comparison, side: str, word: int) -> int:
    words = both.first.side(side).words
    partnered = [
        pair.first
        for pair in both.pairs[side]
        if pair.first is not None and pair.second is not None and words[pair.first].special is None
    ]
    return min(partnered, key=lambda number: abs(number - word), default=word)


def _check_partner(both: Comparison, side: str, word: int) -> None:
    words = both.first.side(side).words
    if word >= len(words):
        raise RequestError(f"no word {word} in the first sentence; it has {len(words)}, counted from 0")
    pair = next(pair for pair in both.pairs[side] if pair.first == word)
    if pair.second is None:
        raise RequestError(f"“{words[word].text}” has no partner in the second sentence; choose another word")


def _other(inspection: Record, side: str) -> Any:
    return inspection.target if side == "source" else inspection.source


def _next(both: Comparison, subject: TextModel) -> Sequence[Any]:
    """The next tokens where two translations diverge, after two texts, or at the first mask."""
    if both.first.model.config.output not in ("words", "masked"):
        return []
    if isinstance(subject, Writer):
        return both.after_both()
    return both.next(_mask(both.first) if isinstance(subject, Reader) else None)


def _output(stored: Trace) -> str:
    """The output: the translation, the label, the word at the mask or the next word."""
    inspection, subject = stored.inspection, stored.loaded.subject
    if isinstance(subject, Translator):
        return inspection.written.text
    probabilities = _probabilities_at(inspection, subject, -1)
    return "" if probabilities is None else _spell(stored.entry, subject, int(probabilities.argmax()))


def ablation(models: Models, traces: Traces, request: AblationRequest) -> dict[str, Any]:
    """The effect of ablating parts; probabilities are compared for the same output."""
    whole = trace(
        models, traces, TraceRequest(model=request.model, text=request.text, snapshot=request.snapshot)
    )
    entry, subject, inspection, ablate = (
        whole.entry,
        whole.loaded.subject,
        whole.inspection,
        parts_of(request.ablate),
    )
    with whole.loaded.lock:
        without = inspection.again(ablate=ablate)
        if isinstance(subject, Reader):
            return _reader_ablation(entry, subject, inspection, without, request)
        place = _most_changed_position(inspection, without)
        before, after = (np.exp(log_softmax(each.logits[place])) for each in (inspection, without))
        rivals = _rivals(entry, subject, place, before, after)
        result = Ablation(ablate, inspection.log_probability, without.log_probability, rivals)
        if isinstance(subject, Translator):
            text = subject.tokenizers.target.decode(translate_by_default(subject, request.text, ablate))
            result = replace(result, text=inspection.written.text, text_without=text)
    what = "translation" if isinstance(subject, Translator) else ""
    sentence = _sentence(bool(ablate), rivals, what, result.text, result.text_without)
    return {**result.as_dict(), "sentence": sentence}


def _reader_ablation(
    entry: Entry, reader: Reader, inspection: Record, without: Record, request: AblationRequest
) -> dict[str, Any]:
    place = _mask(inspection)
    before, after = (_probabilities_at(each, reader, place) for each in (inspection, without))
    values: dict[str, Any] = {
        "ablated": [spell_part(part) for part in without.recording.ablated],
        **dict.fromkeys(("log_probability", "without", "change", "rivals", "text", "text_without")),
        "flips": False,
        "sentence": "This model gives vectors and no words; look at how its attention changes.",
    }
    if before is None or after is None:
        return values
    rivals = _rivals(entry, reader, place or 0, before, after)
    texts = [_spell(entry, reader, int(each.argmax())) for each in (before, after)]
    what = "label" if reader.config.output == "classes" else "word"
    return {
        **values,
        "rivals": vars(rivals),
        "text": texts[0],
        "text_without": texts[1],
        "flips": texts[0] != texts[1],
        "sentence": _sentence(bool(request.ablate), rivals, what, *texts),
    }


def _most_changed_position(inspection: Record, without: Record) -> int:
    """The first position where another token becomes the likeliest, or else where the token loses most."""
    output = inspection.followed
    rows = np.arange(len(output))
    if not len(output):
        return len(inspection.written) - 1
    before, after = (log_softmax(record.logits[: len(output)]) for record in (inspection, without))
    flips = (before.argmax(-1) == output) & (after.argmax(-1) != output)
    lost = before[rows, output] - after[rows, output]
    return int(flips.argmax()) if flips.any() else int(np.nan_to_num(lost).argmax())


def _rivals(entry: Entry, subject: TextModel, place: int, before: np.ndarray, after: np.ndarray) -> Rivals:
    """The likeliest token before, and the strongest other token after."""
    first = int(before.argmax())
    second = int(np.where(np.arange(len(after)) == first, -1.0, after).argmax())
    words = _spell(entry, subject, first), _spell(entry, subject, second)
    shares = [(float(each[first]), float(each[second])) for each in (before, after)]
    return Rivals(place, words, *shares)


def _probabilities_at(inspection: Record, subject: TextModel, place: int | None) -> np.ndarray | None:
    """Probabilities of labels, or of tokens at a position; None if the model has neither."""
    output = inspection.recording.output.float().cpu().numpy()
    if isinstance(subject, Reader) and subject.config.output == "classes":
        return np.exp(log_softmax(output))
    if inspection.model.config.output not in ("words", "masked"):
        return None
    return np.exp(log_softmax(output[place or 0]))


def _mask(inspection: Record) -> int | None:
    """The position of the first mask, or 0 without one."""
    masks = [place for place, token in enumerate(inspection.written.tokens) if token.special == "mask"]
    return masks[0] if masks else 0


def _spell(entry: Entry, subject: TextModel, number: int) -> str:
    if isinstance(subject, Reader) and subject.config.output == "classes":
        return subject.labels[number]
    return entry.vocabulary[number].strip() or entry.vocabulary[number]


def _sentence(
    any_off: bool, rivals: Rivals, what: str, text: str | None = None, text_without: str | None = None
) -> str:
    """The change as a sentence for the page."""
    if not any_off:
        return "Nothing is switched off."
    first, second = rivals.words
    moved = [abs(after - before) for before, after in zip(rivals.before, rivals.after, strict=True)]
    if max(moved) < NOTICED and text == text_without:
        return (
            f"Hardly anything changes: “{first}” goes from {rivals.before[0]:.3f} to {rivals.after[0]:.3f}."
        )
    said = f"“{first}” {rivals.before[0]:.2f} to {rivals.after[0]:.2f}"
    if moved[1] >= NOTICED:
        said += f", “{second}” {rivals.before[1]:.2f} to {rivals.after[1]:.2f}"
    if not what:
        return f"{said}."
    if text == text_without:
        return f"{said}; the {what} stays the same."
    return f"{said}; the {what} {f'flips to “{text_without}”' if text_without else 'becomes empty'}."
