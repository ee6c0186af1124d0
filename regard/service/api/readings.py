"""/v1/embeddings, /v1/fill, /v1/classify and /v1/inspect: what a model reads in a text."""

from __future__ import annotations

import base64
from collections.abc import Callable, Hashable
from typing import Any

import numpy as np
from anyio import to_thread
from fastapi import Request, Response

from regard.inference.reader import Reader
from regard.service.api.errors import ContextLength, WrongModel
from regard.service.api.generation import usage
from regard.service.api.limits import MOST_INSPECTED, MOST_WEIGHTS
from regard.service.api.routing import Service
from regard.service.api.schemas import ClassifyRequest, EmbeddingRequest, FillRequest, InspectRequest
from regard.service.api.served_models import ServedModel
from regard.service.api.works import TextWork
from regard.service.app import json_response
from regard.service.http_errors import Malformed, RequestError


async def embed(service: Service, request: Request, body: EmbeddingRequest) -> Response:
    """A vector for each text."""
    served = service.models[body.model]
    reader = served.as_kind(Reader, "embed")
    if body.dimensions not in (None, reader.config.width):
        raise Malformed(
            f"dimensions ({body.dimensions}) must be {reader.config.width}, the model's width; leave it out"
        )

    texts = _texts(body.input)
    vectors = await _read(
        service,
        served,
        request,
        texts,
        ("embed", body.truncate),
        lambda texts: reader.embed(texts, truncate=body.truncate),
    )
    data = [
        {"object": "embedding", "index": index, "embedding": _encoded(vector, body.encoding_format)}
        for index, vector in enumerate(vectors)
    ]
    return await _response(service, served, data, _rows(reader, texts, reader.embedding.limit))


async def fill(service: Service, request: Request, body: FillRequest) -> Response:
    """The likeliest words of each mask."""
    served = service.models[body.model]
    reader = served.as_kind(Reader, "fill")
    texts = _texts(body.text)
    filled = await _read(
        service, served, request, texts, ("fill", body.top), lambda texts: reader.fill(texts, top=body.top)
    )
    data = [{"index": index, **each.as_dict()} for index, each in enumerate(filled)]
    return await _response(service, served, data, _rows(reader, texts, with_mask=True))


async def classify(service: Service, request: Request, body: ClassifyRequest) -> Response:
    """The label of each text."""
    served = service.models[body.model]
    reader = served.as_kind(Reader, "classify")
    texts = _texts(body.text)
    classified = await _read(
        service,
        served,
        request,
        texts,
        ("classify", body.truncate),
        lambda texts: reader.classify(texts, truncate=body.truncate),
    )
    data = [{"index": index, **each.as_dict()} for index, each in enumerate(classified)]
    return await _response(service, served, data, _rows(reader, texts))


async def inspect(service: Service, request: Request, body: InspectRequest) -> Response:
    """The attention weights of a text."""
    served = service.models[body.model]
    subject = served.subject
    work = TextWork(object(), body.text, lambda texts: [_inspected(served.name, subject, body)])
    results = await service.results(served, request, [work])
    return await to_thread.run_sync(json_response, results[0])


def _inspected(name: str, subject: Any, body: InspectRequest) -> dict[str, Any]:
    from regard.inspection.inspection import inspect as inspect_text

    if not body.text.strip():
        raise Malformed("text is blank, so there is nothing to inspect; give one that has words")
    _check_length(subject, body)
    seen = inspect_text(subject, body.text, body.target)
    kind = body.kind or seen.kinds[0]
    if kind not in seen.kinds:
        raise WrongModel(f"kind ({kind}) must be one of {', '.join(seen.kinds)}, which this model has")
    layers = range(seen.layers(kind)) if body.layer is None else [body.layer]
    heads = range(seen.heads) if body.head is None else [body.head]
    for layer in layers:
        seen.check(kind, layer, body.head)
    queries, keys = (_labels(side, body.words) for side in seen.sides(kind))
    _check_weights(len(layers) * len(heads) * len(queries) * len(keys))
    weights = [[seen.attention(kind, layer, head, body.words).tolist() for head in heads] for layer in layers]
    return {
        "object": "attention", "model": name, "kind": kind, "queries": queries, "keys": keys,
        "layers": list(layers), "heads": list(heads), "weights": weights,
    }  # fmt: skip


def _labels(side: Any, words: bool) -> list[str]:
    return [each.text for each in (side.words if words else side.tokens)]


def _check_length(subject: Any, body: InspectRequest) -> None:
    tokenizers = getattr(subject, "tokenizers", None)
    source, target = (tokenizers.source, tokenizers.target) if tokenizers else (subject.tokenizer,) * 2
    tokens = len(source.encode(body.text)) + len(target.encode(body.target or ""))
    if tokens > MOST_INSPECTED:
        raise ContextLength(
            f"text and target have {tokens} tokens, and at most {MOST_INSPECTED} are inspected; shorten them"
        )


def _check_weights(count: int) -> None:
    if count > MOST_WEIGHTS:
        raise RequestError(
            f"the response would have {count:,} weights, and at most {MOST_WEIGHTS:,} are sent; "
            "choose a layer or a head"
        )


def _texts(texts: str | list[str]) -> list[str]:
    return [texts] if isinstance(texts, str) else list(texts)


async def _read(
    service: Service,
    served: ServedModel,
    request: Request,
    texts: list[str],
    key: Hashable,
    read: Callable[[Any], Any],
) -> list[Any]:
    """The results of texts, which share batches with texts of other requests with the same key.

    A text that is read alone, such as one that cannot be read, has no number in an error: a batch numbers
    the texts of several requests.
    """

    def answer(batch: list[str]) -> list[Any]:
        return [read(batch[0])] if len(batch) == 1 else list(read(batch))

    return await service.results(served, request, [TextWork(key, text, answer) for text in texts])


def _encoded(vector: np.ndarray, form: str) -> list[float] | str:
    if form == "float":
        return vector.tolist()
    return base64.b64encode(vector.astype("<f4").tobytes()).decode("ascii")


def _rows(
    reader: Reader, texts: list[str], limit: int | None = None, with_mask: bool = False
) -> Callable[[], int]:
    """What counts the tokens that were read, with start and end."""
    longest = min(limit or reader.config.context, reader.config.context)

    def count() -> int:
        encoded = (reader.tokenizer.encode(text, with_mask=with_mask) for text in texts)
        return sum(min(len(ids) + 2, longest) for ids in encoded)

    return count


async def _response(
    service: Service, served: ServedModel, data: list[dict[str, Any]], count: Callable[[], int]
) -> Response:
    """The response, made in a thread, because it may be large."""

    def make() -> Response:
        tokens = count()
        service.metrics.count_tokens(served.name, tokens, 0)
        return json_response({"object": "list", "model": served.name, "data": data, "usage": usage(tokens)})

    return await to_thread.run_sync(make)
