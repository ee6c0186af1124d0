"""The computation of each request, under the lock of its model. Imports torch."""

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
from regard.service.http_errors import RequestError
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
    with loaded.lock, suppress(UsageError):  # the example may be too long for a small model
        inspection = inspect_request(
            loaded.subject, TraceRequest(model=entry.name, text=entry.card()["examples"][0])
        )
        payload.describe(inspection, payload.annotated_overview(inspection, entry.notes), entry.notes)


def inspect_request(subject: TextModel, request: TraceRequest) -> Inspection:
    """The inspection of a request; without target and ids, that of the default translation."""
    interventions, ablate = interventions_of(request.interventions), parts_of(request.ablate)
    source = _source(subject, request.text)
    check_length(subject, source)
    check_interventions(subject, source, interventions)
    patch, target = (
        patches(interventions),
        request.target if request.target_ids is None else request.target_ids,
    )
    _, written = sides = read_sides(subject, request.text, target, ablate, patch)
    is_own = isinstance(target, str) and isinstance(subject, Translator)
    check_length(subject, written, "the translation" if is_own else None)
    return Inspection(subject.model, *sides, ablate, patch)


def check_length(subject: TextModel, side: Side | None, name: str | None = None) -> None:
    """Raise if a side has more tokens than the context of the model."""
    limit = subject.config.context
    if side is not None and len(side) > limit:
        is_output = isinstance(subject, Translator) and side.name == "target"
        name = name or ("the output" if is_output else "the text")
        raise RequestError(
            f"{name} has {len(side):,} tokens, and the context of this model is {limit:,}; shorten it"
        )


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
    """The stored trace of a request, or a new one."""
    entry = models[request.model]
    loaded = entry.loaded(request.snapshot)
    name = id_of(request.model_dump(mode="json"), loaded.key)
    with loaded.lock:  # an equal request at the same time finds the trace here
        stored = traces.find(name)
        if stored is None:
            inspection = inspect_request(loaded.subject, request)
            overview = payload.annotated_overview(inspection, entry.notes)
            origin = {"trace": name, "model": entry.name, "text": request.text}
            description = {**origin, **payload.describe(inspection, overview, entry.notes)}
            stored = Trace(name, entry, loaded, inspection, overview, description)
            traces.keep(stored)
    return stored


def attention(stored: Trace, kind: str, layer: int, words: bool) -> bytes:
    """The attention weights of one layer."""
    with stored.loaded.lock:
        return payload.attention(stored.inspection, kind, layer, words)


def vectors(stored: Trace, side: str) -> bytes:
    """The vectors of a side."""
    with stored.loaded.lock:
        return payload.vectors(stored.inspection, side)


def steps(stored: Trace, kind: str, layer: int, head: int, query: int) -> bytes:
    """The steps of one row."""
    with stored.loaded.lock:
        return payload.steps(stored.inspection, kind, layer, head, query)


def next_logits(stored: Trace, position: int) -> bytes:
    """The logits of the token after a position."""
    with stored.loaded.lock:
        return payload.next_logits(stored.inspection, position)


def next_after(models: Models, request: NextRequest) -> bytes:
    """The logits of the token after a text and the output ids so far."""
    loaded = models[request.model].loaded(request.snapshot)
    subject = loaded.subject
    if isinstance(subject, Reader):
        raise RequestError("an encoder-only model has no next token; choose a model with a decoder")
    ablate, interventions = parts_of(request.ablate), interventions_of(request.interventions)
    with loaded.lock:
        source, written = _continued_sides(subject, request)
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
    texts = pieces(tokenizer, request.ids, [] if source else tokenizer.encode(request.text))
    description = {
        "text": written.text,
        "tokens": [{"id": n, "text": text} for n, text in zip(request.ids, texts, strict=True)],
        "ended": bool(request.ids) and request.ids[-1] == end,
        "room": max(0, subject.config.context - len(written)),
    }
    return pack(description, {"logits": logits})


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
    with loaded.lock:
        check_length(translator, source_side(translator, request.text))
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
    """The predictions at each mask of a text."""
    loaded, reader = _reader(models, request)
    with loaded.lock:
        return reader.fill(request.text, top=request.top).as_dict()


def classify(models: Models, request: ClassifyRequest) -> dict[str, Any]:
    """The label of a text."""
    loaded, reader = _reader(models, request)
    with loaded.lock:
        return reader.classify(request.text).as_dict()


def _reader(models: Models, request: FillRequest | ClassifyRequest) -> tuple[Loaded, Reader]:
    loaded = models[request.model].loaded(request.snapshot)
    if not isinstance(loaded.subject, Reader):
        raise RequestError(f"{request.model} has a decoder; choose an encoder-only model")
    return loaded, loaded.subject
