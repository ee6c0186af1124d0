"""Two sentences side by side, and a sentence with parts switched off: what changes, in numbers and words."""

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
from regard.service.http_errors import Refused
from regard.service.models import Entry, Models
from regard.service.requests import AblationAsked, CompareAsked, TraceAsked
from regard.service.traces import Trace, Traces

NOTICED = 0.005  # of a probability; a smaller change would not show in two digits


def compare(models: Models, traces: Traces, asked: CompareAsked) -> dict[str, Any]:
    """What a word looks at in the one sentence and in the other, over all heads."""
    first, second = (
        trace(
            models,
            traces,
            TraceAsked(model=asked.model, text=text, ablate=asked.ablate, snapshot=asked.snapshot),
        )
        for text in (asked.first, asked.second)
    )
    side = asked.side or first.seen.sides(first.seen.kinds[0])[0].name
    with first.loaded.lock:
        both = Comparison(first.seen, second.seen)
        _check_partner(both, side, asked.word)
        changes = both.changes(asked.word, side)
        notes, sides = first.entry.notes, [each.seen.side(side) for each in (first, second)]
        others = [_other(each.seen, side) for each in (first, second)]
        return {
            **{
                name: side_data(one, other, notes)
                for name, one, other in zip(("first", "second"), sides, others, strict=True)
            },
            "word": asked.word,
            "pairs": [vars(pair) for pair in both.pairs[side]],
            "keys": {name: both.labels(name) for name in both.pairs},
            "changes": [{**each.as_dict(), "keys": first.seen.sides(each.kind)[1].name} for each in changes],
            "next": [each.as_dict() for each in _next(both, first.loaded.subject)],
            "outputs": [_output(each) for each in (first, second)],
        }


def _check_partner(both: Comparison, side: str, word: int) -> None:
    words = both.first.side(side).words
    if word >= len(words):
        raise Refused(f"no word {word} in the first sentence; it has {len(words)}, counted from 0")
    pair = next(pair for pair in both.pairs[side] if pair.first == word)
    if pair.second is None:
        raise Refused(f"“{words[word].text}” has no partner in the second sentence; choose another word")


def _other(seen: Record, side: str) -> Any:
    return seen.target if side == "source" else seen.source


def _next(both: Comparison, subject: TextModel) -> Sequence[Any]:
    """What follows where two translations part, or each of two texts, or what the first mask hides."""
    if both.first.model.config.output not in ("words", "masked"):
        return []
    if isinstance(subject, Writer):
        return both.after_both()
    return both.next(_mask(both.first) if isinstance(subject, Reader) else None)


def _output(kept: Trace) -> str:
    """What comes out: the translation, the label, the word at the mask or the one that follows."""
    seen, subject = kept.seen, kept.loaded.subject
    if isinstance(subject, Translator):
        return seen.written.text
    found = _said_at(seen, subject, -1)
    return "" if found is None else _spell(kept.entry, subject, int(found.argmax()))


def ablation(models: Models, traces: Traces, asked: AblationAsked) -> dict[str, Any]:
    """What changes with parts off; probabilities are compared for the same output."""
    whole = trace(models, traces, TraceAsked(model=asked.model, text=asked.text, snapshot=asked.snapshot))
    entry, subject, seen, ablate = whole.entry, whole.loaded.subject, whole.seen, parts_of(asked.ablate)
    with whole.loaded.lock:
        without = seen.again(ablate=ablate)
        if isinstance(subject, Reader):
            return _reader_ablation(entry, subject, seen, without, asked)
        place = _where_it_shows(seen, without)
        before, after = (np.exp(log_softmax(each.logits[place])) for each in (seen, without))
        rivals = _rivals(entry, subject, place, before, after)
        result = Ablation(ablate, seen.log_probability, without.log_probability, rivals)
        if isinstance(subject, Translator):
            text = subject.tokenizers.target.decode(translate_by_default(subject, asked.text, ablate))
            result = replace(result, text=seen.written.text, text_without=text)
    what = "translation" if isinstance(subject, Translator) else ""
    told = {"text": result.text, "text_without": result.text_without}
    return {**result.as_dict(), "sentence": _sentence(bool(ablate), rivals, what, **told)}


def _reader_ablation(
    entry: Entry, reader: Reader, seen: Record, without: Record, asked: AblationAsked
) -> dict[str, Any]:
    place = _mask(seen)
    before, after = (_said_at(each, reader, place) for each in (seen, without))
    told: dict[str, Any] = {
        "ablated": [spell_part(part) for part in without.recording.ablated],
        **dict.fromkeys(("log_probability", "without", "change", "rivals", "text", "text_without")),
        "flips": False,
        "sentence": "This model gives vectors and no words; look at how its attention changes.",
    }
    if before is None or after is None:
        return told
    rivals = _rivals(entry, reader, place or 0, before, after)
    texts = [_spell(entry, reader, int(each.argmax())) for each in (before, after)]
    what = "label" if reader.config.output == "classes" else "word"
    return {
        **told,
        "rivals": vars(rivals),
        "text": texts[0],
        "text_without": texts[1],
        "flips": texts[0] != texts[1],
        "sentence": _sentence(bool(asked.ablate), rivals, what, *texts),
    }


def _where_it_shows(seen: Record, without: Record) -> int:
    """The first position at which another token becomes the likeliest, else the one that loses most."""
    said = seen.followed
    rows = np.arange(len(said))
    if not len(said):
        return len(seen.written) - 1
    before, after = (log_softmax(each.logits[: len(said)]) for each in (seen, without))
    flips = (before.argmax(-1) == said) & (after.argmax(-1) != said)
    lost = before[rows, said] - after[rows, said]
    return int(flips.argmax()) if flips.any() else int(np.nan_to_num(lost).argmax())


def _rivals(entry: Entry, subject: TextModel, place: int, before: np.ndarray, after: np.ndarray) -> Rivals:
    """The likeliest before, and who then takes its place or comes nearest."""
    first = int(before.argmax())
    second = int(np.where(np.arange(len(after)) == first, -1.0, after).argmax())
    words = _spell(entry, subject, first), _spell(entry, subject, second)
    shares = [(float(each[first]), float(each[second])) for each in (before, after)]
    return Rivals(place, words, *shares)


def _said_at(seen: Record, subject: TextModel, place: int | None) -> np.ndarray | None:
    """Probabilities of labels, or of words at a position; None where the model has neither."""
    output = seen.recording.output.float().cpu().numpy()
    if isinstance(subject, Reader) and subject.config.output == "classes":
        return np.exp(log_softmax(output))
    if seen.model.config.output not in ("words", "masked"):
        return None
    return np.exp(log_softmax(output[place or 0]))


def _mask(seen: Record) -> int | None:
    """Where the first mask stands, or the first token where none does."""
    masks = [place for place, token in enumerate(seen.written.tokens) if token.special == "mask"]
    return masks[0] if masks else 0


def _spell(entry: Entry, subject: TextModel, number: int) -> str:
    if isinstance(subject, Reader) and subject.config.output == "classes":
        return subject.labels[number]
    return entry.vocabulary[number].strip() or entry.vocabulary[number]


def _sentence(
    any_off: bool, rivals: Rivals, what: str, text: str | None = None, text_without: str | None = None
) -> str:
    """What changed, in plain words."""
    if not any_off:
        return "Nothing is switched off."
    first, second = rivals.words
    said = f"“{first}” {rivals.before[0]:.2f} to {rivals.after[0]:.2f}"
    moved = [abs(after - before) for before, after in zip(rivals.before, rivals.after, strict=True)]
    if max(moved) < NOTICED and text == text_without:
        return f"Hardly anything changes: {said} at most."
    if moved[1] >= NOTICED:
        said += f", “{second}” {rivals.before[1]:.2f} to {rivals.after[1]:.2f}"
    if not what:
        return f"{said}."
    kept = text == text_without
    return f"{said}; the {what} {'stays the same' if kept else f'flips to “{text_without}”'}."
