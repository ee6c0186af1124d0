"""/v1/chat/completions: the next message of a conversation, whole or streamed."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from anyio import to_thread
from fastapi import Request, Response

from regard.inference.search.requests import Answer
from regard.service.api.event_stream import EventStream
from regard.service.api.generation import FINISH, Delta, Generated, Generation, Scored, usage
from regard.service.api.routing import Service
from regard.service.api.schemas import ChatRequest
from regard.service.api.served_models import ServedModel
from regard.service.app import json_response
from regard.service.http_errors import Malformed


async def chat(service: Service, request: Request, body: ChatRequest) -> Response:
    """Answer a chat request."""
    served = service.models[body.model]
    served.scheduler.check_room(body.n or 1)
    # In a thread, because the template is rendered by another process.
    job = await to_thread.run_sync(lambda: ChatJob.of(served, body))
    if body.stream:
        return await EventStream.begin(_stream(service, request, job))
    works = [each.work(stream=False) for each in job.generation.sequences]
    answers = await service.results(served, request, works)
    read, written = job.counted(answers)
    response = await service.in_thread_if_many(
        written * (1 + (body.top_logprobs or 0)), lambda: json_response(job.response(answers))
    )
    service.metrics.count_tokens(served.name, read, written)
    return response


@dataclass(frozen=True, eq=False)
class ChatJob:
    """A chat request with its sequences."""

    served: ServedModel
    body: ChatRequest
    generation: Generation
    name: str
    created: int

    @classmethod
    def of(cls, served: ServedModel, body: ChatRequest) -> ChatJob:
        """Check a request, render its conversation and encode it."""
        max_tokens = body.max_tokens if body.max_completion_tokens is None else body.max_completion_tokens
        if max_tokens == 0:
            raise Malformed("max_tokens is 0, so nothing is generated; raise it")
        if body.top_logprobs is not None and not body.logprobs:
            raise Malformed("top_logprobs needs logprobs; set logprobs to true")
        chat = served.chat
        _, ids = chat.encode([{"role": each.role, "content": each.text} for each in body.messages])
        alternatives = (body.top_logprobs or 0) if body.logprobs else None
        generation = Generation(chat.writer, body, [ids], max_tokens, body.n or 1, alternatives, chat.ends)
        return cls(served, body, generation, f"chatcmpl-{uuid4().hex}", int(time.time()))

    def head(self, kind: str) -> dict[str, Any]:
        """What a response and every event begins with."""
        return {
            "id": self.name, "object": kind, "created": self.created, "model": self.served.name,
            "system_fingerprint": self.served.fingerprint,
        }  # fmt: skip

    def counted(self, answers: Sequence[Answer]) -> tuple[int, int]:
        """The tokens read and written."""
        return self.generation.prompt_tokens, sum(len(answer.best.ids) for answer in answers)

    def response(self, answers: Sequence[Answer]) -> dict[str, Any]:
        """The response: `n` messages."""
        pairs = zip(self.generation.sequences, answers, strict=True)
        choices = [{"index": index, **self._choice(*pair)} for index, pair in enumerate(pairs)]
        return self.head("chat.completion") | {"choices": choices, "usage": usage(*self.counted(answers))}

    def event(self, index: int, delta: dict[str, Any], tokens: Sequence[Scored], reason: str | None) -> Any:
        """An event of a streamed answer."""
        choice = {"index": index, "delta": delta, "logprobs": self._logprobs(tokens), "finish_reason": reason}
        return self.head("chat.completion.chunk") | {"choices": [choice]}

    def _choice(self, each: Generated, answer: Answer) -> dict[str, Any]:
        completion = each.completion(answer)
        message = {"role": "assistant", "content": completion.text}
        tokens = each.tokens(answer.best, len(completion.text)) if each.with_tokens else []
        reason = FINISH[completion.reason]
        return {"message": message, "logprobs": self._logprobs(tokens), "finish_reason": reason}

    def _logprobs(self, tokens: Sequence[Scored]) -> dict[str, Any] | None:
        return {"content": list(map(_token, tokens))} if self.body.logprobs else None


async def _stream(service: Service, request: Request, job: ChatJob) -> AsyncGenerator[dict[str, Any]]:
    """The events of a streamed answer: the role, the pieces of the text, the reason of its end."""
    written, sequences = 0, job.generation.sequences
    works = [each.work(stream=True) for each in sequences]
    async with service.outcomes(job.served, request, works) as outcomes:
        for index in range(len(sequences)):
            yield job.event(index, {"role": "assistant", "content": ""}, [], None)
        async for outcome in outcomes:
            delta: Delta = outcome.value
            if outcome.is_final:
                written += len(outcome.value.best.ids)
                delta = sequences[outcome.index].last_delta(outcome.value)
            text = {"content": delta.text} if delta.text else {}
            yield job.event(outcome.index, text, delta.tokens, delta.reason)
    service.metrics.count_tokens(job.served.name, job.generation.prompt_tokens, written)
    if job.body.stream_options is not None and job.body.stream_options.include_usage:
        counts = usage(job.generation.prompt_tokens, written)
        yield job.head("chat.completion.chunk") | {"choices": [], "usage": counts}


def _token(token: Scored) -> dict[str, Any]:
    alternatives = [_logprob(text, value) for text, value in token.alternatives.items()]
    return _logprob(token.text, token.log_probability) | {"top_logprobs": alternatives}


def _logprob(text: str, value: float | None) -> dict[str, Any]:
    return {"token": text, "logprob": value, "bytes": list(text.encode())}
