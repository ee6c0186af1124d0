"""The computation of each request; a forward pass holds the lock of its model. Imports torch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
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
from regard.model.parts import Part
from regard.model.watch import Replacement, watch
from regard.service.app import json_bytes
from regard.service.http_errors import RequestError, too_long
from regard.service.models import Entry, Loaded, Models
from regard.service.requests import (
    ClassifyRequest,
    FillRequest,
    InterventionRequest,
    NextRequest,
    TraceRequest,
    TranslateRequest,
)
from regard.service.traces import Trace, Traces, id_of


def warm_up(entry: Entry) -> None:
    """Load a model and run it once, so that the first request is as fast as later ones."""
    loaded = entry.loaded()
    request = TraceRequest(model=entry.name, text=entry.card()["examples"][0])
    with loaded.lock, suppress(UsageError):  # the example may be too long for a small model
        inspection = inspect_request(loaded.subject, request, read_request(loaded.subject, request))
        _described("", entry, loaded, inspection, request.text)


@dataclass(frozen=True, eq=False)
class Reading:
    """What is read for a request: both sides, where they are known before the model runs, and the changes."""

    source: Side | None
    written: Side | None
    ablate: tuple[Part, ...]
    patch: Mapping[str, Replacement]


def read_request(subject: TextModel, request: TraceRequest) -> Reading:
    """The tokens of a request, checked; the model does not run."""
    interventions, ablate = interventions_of(request.interventions), parts_of(request.ablate)
    source, written = _source(subject, request.text), None
    check_length(subject, source)
    check_interventions(subject, source, interventions)
    patch = patches(interventions)
    target = request.target if request.target_ids is None else request.target_ids
    if target is not None or not isinstance(subject, Translator):
        _, written = read_sides(subject, request.text, target, ablate, patch)
        is_own = isinstance(target, str) and isinstance(subject, Translator)
        check_length(subject, written, "the translation" if is_own else None)
    return Reading(source, written, ablate, patch)


def inspect_request(subject: TextModel, request: TraceRequest, reading: Reading) -> Inspection:
    """The inspection of a request; without target and ids, that of the default translation."""
    written = reading.written
    if written is None and isinstance(subject, Translator):
        _, written = read_sides(subject, request.text, None, reading.ablate, reading.patch)
    return Inspection(subject.model, reading.source, written, reading.ablate, reading.patch)


def check_length(subject: TextModel, side: Side | None, name: str | None = None) -> None:
    """Raise if a side has more tokens than the context of the model."""
    limit = subject.config.context
    if side is not None and len(side) > limit:
        is_output = isinstance(subject, Translator) and side.name == "target"
        raise too_long(name or ("the output" if is_output else "the text"), len(side), limit)


def _source(subject: TextModel, text: str) -> Side | None:
    if isinstance(subject, Translator):
        return source_side(subject, text)
    return reader_side(subject, text) if isinstance(subject, Reader) else None


def parts_of(ablate: Sequence[str | tuple[str, int, int]]) -> tuple[Part, ...]:
    """The ablated parts, without repetitions."""
    return tuple(dict.fromkeys(ablate))


def interventions_of(request: Sequence[InterventionRequest]) -> list[Intervention]:
    """The interventions of a request."""
    return [Intervention(each.kind, each.layer, each.head, each.query, tuple(each.row)) for each in request]


def check_interventions(
    subject: TextModel, source: Side | None, interventions: Sequence[Intervention]
) -> None:
    """Raise if a row does not fit; the length of the output is not known yet."""
    for row in interventions:
        keys = None if source is None or row.kind == "decoder" else len(source)
        check_intervention(subject.model, row, keys)


def trace(models: Models, traces: Traces, request: TraceRequest) -> Trace:
    """The stored trace of a request, or a new one; only the forward passes hold the model's lock."""
    entry = models[request.model]
    loaded = entry.loaded(request.snapshot)
    name = id_of(request, loaded.key)
    stored = traces.find(name)
    if stored is not None:
        return stored
    reading = read_request(loaded.subject, request)
    with loaded.lock:  # an equal request at the same time finds the trace here
        stored = traces.find(name)
        if stored is None:
            inspection = inspect_request(loaded.subject, request, reading)
            stored = _described(name, entry, loaded, inspection, request.text)
            traces.keep(stored)
    return stored


def _described(name: str, entry: Entry, loaded: Loaded, inspection: Inspection, text: str) -> Trace:
    overview = payload.annotated_overview(inspection, entry.notes)
    origin = {"trace": name, "model": entry.name, "text": text}
    description = json_bytes({**origin, **payload.describe(inspection, overview, entry.notes)})
    return Trace(name, entry, loaded, inspection, description, payload.overview_sheet(overview))


def attention(stored: Trace, kind: str, layer: int, words: bool) -> bytes:
    """The attention weights of one layer."""
    with stored.lock(weights_only=True):
        return payload.attention(stored.inspection, kind, layer, words)


def vectors(stored: Trace, side: str) -> bytes:
    """The vectors of a side."""
    with stored.lock():
        return payload.vectors(stored.inspection, side)


def steps(stored: Trace, kind: str, layer: int, head: int, query: int) -> bytes:
    """The steps of one row."""
    with stored.lock():
        return payload.steps(stored.inspection, kind, layer, head, query)


def next_logits(stored: Trace, position: int) -> bytes:
    """The logits of the token after a position."""
    return payload.next_logits(stored.inspection, position)


def next_after(models: Models, request: NextRequest) -> bytes:
    """The logits of the token after a text and the output ids so far."""
    loaded = models[request.model].loaded(request.snapshot)
    subject = loaded.subject
    if isinstance(subject, Reader):
        raise RequestError("an encoder-only model has no next token; choose a model with a decoder")
    ablate, interventions = parts_of(request.ablate), interventions_of(request.interventions)
    source, written = _continued_sides(subject, request)
    check_length(subject, source)
    check_length(subject, written)
    check_interventions(subject, source, interventions)
    ids = [torch.as_tensor(side.ids)[None] for side in (source, written) if side is not None]
    with loaded.lock, torch.no_grad(), _changed(subject, ablate, interventions):
        logits = subject.model(*ids)[0, -1].float().numpy()
    tokenizer = written.tokenizer
    end = tokenizer.specials.get("end")
    texts = pieces(tokenizer, request.ids, [] if source else tokenizer.encode(request.text))
    description = {
        "text": written.text,
        "tokens": [{"id": n, "text": text} for n, text in zip(request.ids, texts, strict=True)],
        "ended": bool(request.ids) and request.ids[-1] == end,
        "room": max(0, subject.config.context - len(written)),
    }
    return pack(description, {"logits": logits})


@contextmanager
def _changed(
    subject: TextModel, ablate: Sequence[Part], interventions: Sequence[Intervention]
) -> Iterator[None]:
    """Run the model in this block with parts ablated and rows of attention weights replaced."""
    with (
        evaluation_mode(subject.model),
        watch(subject.model, only=(), ablate=ablate, patch=patches(interventions)),
    ):
        yield


def _continued_sides(subject: TextModel, request: NextRequest) -> tuple[Side | None, Side]:
    if isinstance(subject, Translator):
        return source_side(subject, request.text), output_side(subject, request.ids)
    assert not isinstance(subject, Reader)
    return None, writer_side(subject, request.text, request.ids)


def translate(models: Models, request: TranslateRequest) -> dict[str, Any]:
    """A translation by beam search, with its n-best list and search tree."""
    entry = models[request.model]
    loaded = entry.loaded(request.snapshot)
    translator = loaded.subject
    if not isinstance(translator, Translator):
        raise RequestError(f"{entry.name} does not translate; choose a model that does")
    check_length(translator, source_side(translator, request.text))
    with loaded.lock:
        translation = translator.translate(
            request.text,
            beams=request.beams,
            n_best=request.beams,
            length_penalty=request.length_penalty,
            tree=True,
            ablate=parts_of(request.ablate),
        )
    n_best = [
        {name: getattr(hypothesis, name) for name in ("text", "score", "rank_score")}
        for hypothesis in (translation, *translation.others)
    ]
    return {
        **n_best[0],
        "tokens": [vars(token) for token in translation.tokens],
        "best": n_best,
        "tree": [_node(entry, node) for node in (translation.tree.as_dict() if translation.tree else [])],
    }


def _node(entry: Entry, node: dict[str, Any]) -> dict[str, Any]:
    token = node["token"]
    return {**node, "text": "" if token is None else entry.vocabulary[token]}


def fill(models: Models, request: FillRequest) -> dict[str, Any]:
    """The predictions at each mask of a text, with the parts and rows of the request changed."""
    loaded, reader, interventions = _reader(models, request)
    with loaded.lock, _changed(reader, parts_of(request.ablate), interventions):
        return reader.fill(request.text, top=request.top).as_dict()


def classify(models: Models, request: ClassifyRequest) -> dict[str, Any]:
    """The label of a text, with the parts and rows of the request changed."""
    loaded, reader, interventions = _reader(models, request)
    with loaded.lock, _changed(reader, parts_of(request.ablate), interventions):
        return reader.classify(request.text).as_dict()


def _reader(
    models: Models, request: FillRequest | ClassifyRequest
) -> tuple[Loaded, Reader, list[Intervention]]:
    """The model of a request and its interventions, checked."""
    loaded = models[request.model].loaded(request.snapshot)
    reader = loaded.subject
    if not isinstance(reader, Reader):
        raise RequestError(f"{request.model} has a decoder; choose an encoder-only model")
    source, interventions = reader_side(reader, request.text), interventions_of(request.interventions)
    check_length(reader, source)
    check_interventions(reader, source, interventions)
    return loaded, reader, interventions
