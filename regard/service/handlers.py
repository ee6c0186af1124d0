"""What is worked out for each request, under the lock of its model. This is where torch comes in."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import torch

from regard.errors import UsageError
from regard.inference.reader import Reader
from regard.inference.tokens import pieces
from regard.inference.translator import Translator
from regard.inspection.analysis.interventions import patches
from regard.inspection.record.inputs import Subject
from regard.inspection.record.recording import at_rest
from regard.inspection.record.tokens import Side
from regard.inspection.render import payload
from regard.inspection.render.payload import pack
from regard.model.watch import watch
from regard.service.http_errors import Refused
from regard.service.model_inputs import (
    check_pulls,
    inspect_asked,
    parts_of,
    pulls_of,
    said_by,
    source_of,
    text_of,
)
from regard.service.models import Entry, Loaded, Models
from regard.service.requests import ClassifyAsked, FillAsked, NextAsked, TraceAsked, TranslateAsked
from regard.service.traces import Trace, Traces, id_of


def rehearse(entry: Entry) -> None:
    """Load a model and let it work once, so that a person's first sentence is as quick as the second."""
    loaded = entry.loaded()
    with loaded.lock, suppress(UsageError):  # the example may be too long for a small model
        seen = inspect_asked(loaded.subject, TraceAsked(model=entry.name, text=entry.card()["examples"][0]))
        payload.describe(seen, payload.look_over(seen, entry.notes), entry.notes)


def trace(models: Models, traces: Traces, asked: TraceAsked) -> Trace:
    """The trace of a request: the one that is kept, or a new one."""
    entry = models[asked.model]
    loaded = entry.loaded(asked.snapshot)
    name = id_of(asked.model_dump(mode="json"), loaded.key)
    with loaded.lock:  # whoever asks the same at the same time finds it made
        found = traces.find(name)
        if found is None:
            seen = inspect_asked(loaded.subject, asked)
            glance = payload.look_over(seen, entry.notes)
            said = {"trace": name, "model": entry.name, "text": asked.text}
            told = {**said, **payload.describe(seen, glance, entry.notes)}
            found = Trace(name, entry, loaded, seen, glance, told)
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
    off, pulls = parts_of(asked.off), pulls_of(asked.pulls)
    with loaded.lock:
        source, written = _going_on(subject, asked)
        check_pulls(subject, source, pulls)
        ids = [torch.as_tensor(side.ids)[None] for side in (source, written) if side is not None]
        with (
            torch.no_grad(),
            at_rest(subject.model),
            watch(subject.model, only=(), off=off, patch=patches(pulls)),
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


def _going_on(subject: Subject, asked: NextAsked) -> tuple[Side | None, Side]:
    if isinstance(subject, Translator):
        return source_of(subject, asked.text), said_by(subject, asked.ids)
    assert not isinstance(subject, Reader)
    return None, text_of(subject, asked.text, asked.ids)


def translate(models: Models, asked: TranslateAsked) -> dict[str, Any]:
    """A translation by beam search, the best few, and the tree of all that was tried."""
    entry = models[asked.model]
    loaded = entry.loaded(asked.snapshot)
    translator = loaded.subject
    if not isinstance(translator, Translator):
        raise Refused(f"{entry.name} does not translate; choose a model that does")
    with loaded.lock:
        source_of(translator, asked.text)
        found = translator.translate(
            asked.text,
            beams=asked.beams,
            n_best=asked.beams,
            length_penalty=asked.length_penalty,
            tree=True,
            off=parts_of(asked.off),
        )
    told = {name: getattr(found, name) for name in ("text", "score", "rank_score")}
    best = [found, *found.others]
    return {
        **told,
        "tokens": [vars(token) for token in found.tokens],
        "best": [{name: getattr(each, name) for name in told} for each in best],
        "tree": [_node(entry, node) for node in (found.tree.as_data() if found.tree else [])],
    }


def _node(entry: Entry, node: dict[str, Any]) -> dict[str, Any]:
    token = node["token"]
    return {**node, "text": "" if token is None else entry.vocabulary[token]}


def fill(models: Models, asked: FillAsked) -> dict[str, Any]:
    """What each mask of a text hides."""
    loaded, reader = _reader(models, asked)
    with loaded.lock:
        return reader.fill(asked.text, top=asked.top).as_data()


def classify(models: Models, asked: ClassifyAsked) -> dict[str, Any]:
    """The label of a text."""
    loaded, reader = _reader(models, asked)
    with loaded.lock:
        return reader.classify(asked.text).as_data()


def _reader(models: Models, asked: FillAsked | ClassifyAsked) -> tuple[Loaded, Reader]:
    loaded = models[asked.model].loaded(asked.snapshot)
    if not isinstance(loaded.subject, Reader):
        raise Refused(f"{asked.model} does not read; choose a model that fills masks or tells classes")
    return loaded, loaded.subject
