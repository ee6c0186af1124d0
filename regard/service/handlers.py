"""What is worked out for each request, under the lock of its model. This is where torch comes in."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import torch

from regard.errors import UsageError
from regard.inference.reader import Reader
from regard.inference.tokens import pieces
from regard.inference.translator import Translator
from regard.inspection.analysis.interventions import Intervention, check_intervention, patches
from regard.inspection.inspection import Inspection
from regard.inspection.record.inputs import (
    TextModel,
    output_side,
    read_sides,
    reader_side,
    source_side,
    writer_side,
)
from regard.inspection.record.recording import evaluation_mode
from regard.inspection.record.tokens import Side
from regard.inspection.render import payload
from regard.inspection.render.payload import pack
from regard.model.watch import Part, watch
from regard.service.http_errors import Refused
from regard.service.models import Entry, Loaded, Models
from regard.service.requests import (
    ClassifyAsked,
    FillAsked,
    InterventionAsked,
    NextAsked,
    TraceAsked,
    TranslateAsked,
)
from regard.service.traces import Trace, Traces, id_of


def warm_up(entry: Entry) -> None:
    """Load a model and run it once, so that the first request is as quick as later ones."""
    loaded = entry.loaded()
    with loaded.lock, suppress(UsageError):  # the example may be too long for a small model
        seen = inspect_asked(loaded.subject, TraceAsked(model=entry.name, text=entry.card()["examples"][0]))
        payload.describe(seen, payload.annotated_overview(seen, entry.notes), entry.notes)


def inspect_asked(subject: TextModel, asked: TraceAsked) -> Inspection:
    """The inspection that a request asks for; without target and ids, of the default translation."""
    interventions, ablate = interventions_of(asked.interventions), parts_of(asked.ablate)
    source = _source(subject, asked.text)
    check_length(subject, source)
    check_interventions(subject, source, interventions)
    patch, target = patches(interventions), asked.target if asked.target_ids is None else asked.target_ids
    _, written = sides = read_sides(subject, asked.text, target, ablate, patch)
    given = isinstance(target, str) and isinstance(subject, Translator)
    check_length(subject, written, "the translation" if given else None)
    return Inspection(subject.model, *sides, ablate, patch)


def check_length(subject: TextModel, side: Side | None, name: str | None = None) -> None:
    """Refuse a side with more tokens than the context of the model."""
    limit = subject.config.context
    if side is not None and len(side) > limit:
        is_output = isinstance(subject, Translator) and side.name == "target"
        name = name or ("the output" if is_output else "the text")
        raise Refused(f"{name} has {len(side):,} tokens and this model has room for {limit:,}; shorten it")


def _source(subject: TextModel, text: str) -> Side | None:
    if isinstance(subject, Translator):
        return source_side(subject, text)
    return reader_side(subject, text) if isinstance(subject, Reader) else None


def parts_of(ablate: Sequence[str | tuple[str, int, int]]) -> tuple[Part, ...]:
    """The parts that are off, each once."""
    return tuple(dict.fromkeys(ablate))


def interventions_of(asked: Sequence[InterventionAsked]) -> list[Intervention]:
    """The interventions of a request."""
    return [Intervention(each.kind, each.layer, each.head, each.query, tuple(each.row)) for each in asked]


def check_interventions(
    subject: TextModel, source: Side | None, interventions: Sequence[Intervention]
) -> None:
    """Raise if a row does not fit; the length of the output is not known yet."""
    for row in interventions:
        keys = None if source is None or row.kind == "decoder" else len(source)
        check_intervention(subject.model, row, keys)


def trace(models: Models, traces: Traces, asked: TraceAsked) -> Trace:
    """The trace of a request: the one that is kept, or a new one."""
    entry = models[asked.model]
    loaded = entry.loaded(asked.snapshot)
    name = id_of(asked.model_dump(mode="json"), loaded.key)
    with loaded.lock:  # whoever asks the same at the same time finds it made
        found = traces.find(name)
        if found is None:
            seen = inspect_asked(loaded.subject, asked)
            overview = payload.annotated_overview(seen, entry.notes)
            said = {"trace": name, "model": entry.name, "text": asked.text}
            told = {**said, **payload.describe(seen, overview, entry.notes)}
            found = Trace(name, entry, loaded, seen, overview, told)
            traces.keep(found)
    return found


def attention(kept: Trace, kind: str, layer: int, words: bool) -> bytes:
    """One layer's weights."""
    with kept.loaded.lock:
        return payload.attention(kept.seen, kind, layer, words)


def vectors(kept: Trace, side: str) -> bytes:
    """A side's vectors."""
    with kept.loaded.lock:
        return payload.vectors(kept.seen, side)


def steps(kept: Trace, kind: str, layer: int, head: int, query: int) -> bytes:
    """One row, step by step."""
    with kept.loaded.lock:
        return payload.steps(kept.seen, kind, layer, head, query)


def next_logits(kept: Trace, position: int) -> bytes:
    """What may follow a position."""
    with kept.loaded.lock:
        return payload.next_logits(kept.seen, position)


def next_after(models: Models, asked: NextAsked) -> bytes:
    """What may follow a text and the ids that were written after it."""
    loaded = models[asked.model].loaded(asked.snapshot)
    subject = loaded.subject
    if isinstance(subject, Reader):
        raise Refused("a model that reads writes nothing; look at what it says of each position")
    ablate, interventions = parts_of(asked.ablate), interventions_of(asked.interventions)
    with loaded.lock:
        source, written = _going_on(subject, asked)
        check_length(subject, source)
        check_length(subject, written)
        check_interventions(subject, source, interventions)
        ids = [torch.as_tensor(side.ids)[None] for side in (source, written) if side is not None]
        with (
            torch.no_grad(),
            evaluation_mode(subject.model),
            watch(subject.model, only=(), ablate=ablate, patch=patches(interventions)),
        ):
            logits = subject.model(*ids)[0, -1].float().numpy()
    tokenizer = written.tokenizer
    end = tokenizer.specials.get("end")
    texts = pieces(tokenizer, asked.ids, [] if source else tokenizer.encode(asked.text))
    told = {
        "text": written.text,
        "tokens": [{"id": n, "text": text} for n, text in zip(asked.ids, texts, strict=True)],
        "ended": bool(asked.ids) and asked.ids[-1] == end,
        "room": max(0, subject.config.context - len(written)),
    }
    return pack(told, {"logits": logits})


def _going_on(subject: TextModel, asked: NextAsked) -> tuple[Side | None, Side]:
    if isinstance(subject, Translator):
        return source_side(subject, asked.text), output_side(subject, asked.ids)
    assert not isinstance(subject, Reader)
    return None, writer_side(subject, asked.text, asked.ids)


def translate(models: Models, asked: TranslateAsked) -> dict[str, Any]:
    """A translation by beam search, the best few, and the tree of all that was tried."""
    entry = models[asked.model]
    loaded = entry.loaded(asked.snapshot)
    translator = loaded.subject
    if not isinstance(translator, Translator):
        raise Refused(f"{entry.name} does not translate; choose a model that does")
    with loaded.lock:
        check_length(translator, source_side(translator, asked.text))
        found = translator.translate(
            asked.text,
            beams=asked.beams,
            n_best=asked.beams,
            length_penalty=asked.length_penalty,
            tree=True,
            ablate=parts_of(asked.ablate),
        )
    told = {name: getattr(found, name) for name in ("text", "score", "rank_score")}
    best = [found, *found.others]
    return {
        **told,
        "tokens": [vars(token) for token in found.tokens],
        "best": [{name: getattr(each, name) for name in told} for each in best],
        "tree": [_node(entry, node) for node in (found.tree.as_dict() if found.tree else [])],
    }


def _node(entry: Entry, node: dict[str, Any]) -> dict[str, Any]:
    token = node["token"]
    return {**node, "text": "" if token is None else entry.vocabulary[token]}


def fill(models: Models, asked: FillAsked) -> dict[str, Any]:
    """What each mask of a text hides."""
    loaded, reader = _reader(models, asked)
    with loaded.lock:
        return reader.fill(asked.text, top=asked.top).as_dict()


def classify(models: Models, asked: ClassifyAsked) -> dict[str, Any]:
    """The label of a text."""
    loaded, reader = _reader(models, asked)
    with loaded.lock:
        return reader.classify(asked.text).as_dict()


def _reader(models: Models, asked: FillAsked | ClassifyAsked) -> tuple[Loaded, Reader]:
    loaded = models[asked.model].loaded(asked.snapshot)
    if not isinstance(loaded.subject, Reader):
        raise Refused(f"{asked.model} does not read; choose a model that fills masks or tells classes")
    return loaded, loaded.subject
