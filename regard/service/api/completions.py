"""/v1/completions: continue prompts, whole or streamed."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any
from uuid import uuid4

import numpy as np
from fastapi import Request, Response

from regard.inference.search.requests import Answer, Result
from regard.inference.writer import Writer
from regard.service.api.event_stream import EventStream
from regard.service.api.generation import FINISH, Delta, Generated, Generation, Scored, ScoredTokens, usage
from regard.service.api.routing import Service
from regard.service.api.schemas import CompletionRequest
from regard.service.api.served_models import ServedModel
from regard.service.api.works import TextWork
from regard.service.app import json_response
from regard.service.http_errors import Malformed


async def complete(service: Service, request: Request, body: CompletionRequest) -> Response:
    """Answer a completion request."""
    served = service.models[body.model]
    writer = served.as_kind(Writer, "complete")
    served.scheduler.check_room(_prompts(body) * max(body.n or 1, body.best_of or 1))
    job = await service.in_thread_if_long(body, lambda: CompletionJob.of(served, writer, body))
    if body.stream:
        return await EventStream.begin(_stream(service, request, job))
    echoes = await _echoes(service, request, job)
    works = [each.work(stream=False) for each in job.sequences]
    answers = await service.results(served, request, works)
    read, written = job.counted(answers)
    response = await service.in_thread_if_many(
        written * (1 + (body.logprobs or 0)), lambda: json_response(job.response(answers, echoes))
    )
    service.metrics.count_tokens(served.name, read, written)
    return response


@dataclass(frozen=True, eq=False)
class CompletionJob:
    """A completion request with its sequences."""

    served: ServedModel
    body: CompletionRequest
    generation: Generation
    name: str
    created: int

    @classmethod
    def of(cls, served: ServedModel, writer: Writer, body: CompletionRequest) -> CompletionJob:
        """Check a request and encode its prompts."""
        count = max(body.n or 1, body.best_of or 1)
        if (body.best_of or count) < (body.n or 1):
            raise Malformed(f"best_of ({body.best_of}) must not be below n ({body.n}); raise it")
        if body.stream and body.best_of not in (None, body.n or 1):
            raise Malformed("best_of above n cannot be streamed; leave out stream or best_of")
        if body.max_tokens == 0 and not body.echo:
            raise Malformed("max_tokens is 0, so nothing is generated; raise it, or set echo")
        max_tokens = 16 if body.max_tokens is None else body.max_tokens
        prompts = prompt_ids(writer, body)
        generation = Generation(writer, body, prompts, max_tokens, count, body.logprobs)
        return cls(served, body, generation, f"cmpl-{uuid4().hex}", int(time.time()))

    @property
    def sequences(self) -> list[Generated]:
        """The sequences to generate; none if only the prompt is echoed."""
        return [] if self.body.max_tokens == 0 else self.generation.sequences

    @property
    def head(self) -> dict[str, Any]:
        """What every response and every event begins with."""
        return {
            "id": self.name, "object": "text_completion", "created": self.created, "model": self.served.name,
            "system_fingerprint": self.served.fingerprint,
        }  # fmt: skip

    def counted(self, answers: Sequence[Answer]) -> tuple[int, int]:
        """The tokens read and written."""
        return self.generation.prompt_tokens, sum(len(answer.best.ids) for answer in answers)

    def response(self, answers: Sequence[Answer], echoes: Sequence[Echo]) -> dict[str, Any]:
        """The response to all prompts."""
        count, wanted = self.generation.count, self.body.n or 1
        choices = []
        for number, echo in enumerate(echoes):
            own = slice(number * count, (number + 1) * count)
            answered = list(zip(self.sequences[own], answers[own], strict=True))
            if count > wanted:
                answered.sort(key=lambda pair: -_mean(pair[1].best))
            pairs: list[Any] = answered[:wanted] or [(None, None)] * wanted
            choices += [self._choice(echo, *pair) for pair in pairs]
        numbered = [{"index": index, **choice} for index, choice in enumerate(choices)]
        return self.head | {"choices": numbered, "usage": usage(*self.counted(answers))}

    def _choice(self, echo: Echo, each: Generated | None, answer: Answer | None) -> dict[str, Any]:
        text, tokens, reason = echo.text, list(echo.tokens), "length"
        if each is not None and answer is not None:
            completion = each.completion(answer)
            text, reason = text + completion.text, FINISH[completion.reason]
            tokens += each.tokens(answer.best, len(completion.text)) if each.with_tokens else []
        logprobs = None if self.body.logprobs is None else log_probability_lists(tokens)
        return {"text": text, "logprobs": logprobs, "finish_reason": reason}


@dataclass(frozen=True)
class Echo:
    """The prompt as a part of the answer, with the log-probabilities of its tokens if they are wanted."""

    text: str = ""
    tokens: Sequence[Scored] = ()


def _prompts(body: CompletionRequest) -> int:
    """How many prompts there are; a list of ids is one."""
    return 1 if isinstance(body.prompt, str) or isinstance(body.prompt[0], int) else len(body.prompt)


def prompt_ids(writer: Writer, body: CompletionRequest) -> list[list[int]]:
    """The ids of each prompt."""
    prompt = body.prompt
    if isinstance(prompt, str):
        return [writer.tokenizer.encode(prompt)]
    if isinstance(prompt[0], str):
        return writer.tokenizer.encode_batch(list(prompt))  # pyright: ignore[reportArgumentType]
    several: Any = prompt if isinstance(prompt[0], list) else [prompt]
    vocabulary = writer.config.output_vocabulary
    for ids in several:
        if max(ids) >= vocabulary:
            raise Malformed(
                f"prompt has the id {max(ids)}, and this model has {vocabulary} ids; use lower ones"
            )
    return [list(ids) for ids in several]


async def _echoes(service: Service, request: Request, job: CompletionJob) -> list[Echo]:
    """The prompts as parts of the answers."""
    generation = job.generation
    if not job.body.echo:
        return [Echo()] * len(generation.prompts)
    texts = [generation.writer.tokenizer.decode(ids) for ids in generation.prompts]
    if job.body.logprobs is None:
        return [Echo(text) for text in texts]
    firsts = generation.sequences[:: generation.count]
    works = [
        _scoring(generation, each.prompt.ids, len(each.prompt.ids) - len(ids))
        for each, ids in zip(firsts, generation.prompts, strict=True)
    ]
    tokens = await service.results(job.served, request, works)
    return [Echo(text, scores) for text, scores in zip(texts, tokens, strict=True)]


def _scoring(generation: Generation, ids: list[int], opening: int) -> TextWork:
    """The log-probabilities of the tokens of a prompt after those that begin a text, by a pass over it."""
    writer, count = generation.writer, generation.alternatives or 0

    def answer(_: list[str]) -> list[list[Scored]]:
        from regard.inference.scoring import likeliest

        values, alternatives = likeliest(writer.model, ids, count)
        tokens = ScoredTokens(writer, ids[:1]).read(ids[1:], values, alternatives)
        if opening == 0:  # nothing predicts the first token
            tokens = [Scored(first_text(writer, ids), None, {}), *tokens]
        return [tokens[max(0, opening - 1) :]]

    return TextWork(object(), "", answer)


def first_text(writer: Writer, ids: Sequence[int]) -> str:
    """The text of the first id."""
    return writer.tokenizer.decode(list(ids[:1]))


async def _stream(service: Service, request: Request, job: CompletionJob) -> AsyncGenerator[dict[str, Any]]:
    """The events of a streamed answer."""
    body, written = job.body, 0
    echoes = [echo for echo in await _echoes(service, request, job) for _ in range(job.generation.count)]
    works = [each.work(stream=True) for each in job.sequences]
    async with service.outcomes(job.served, request, works) as outcomes:
        for index, echo in enumerate(echoes):
            if body.echo:
                reason = None if works else "length"
                yield _event(job, index, Delta(echo.text, list(echo.tokens), 0, reason))
        async for outcome in outcomes:
            delta: Delta = outcome.value
            if outcome.is_final:
                written += len(outcome.value.best.ids)
                delta = job.sequences[outcome.index].last_delta(outcome.value)
            yield _event(job, outcome.index, delta, len(echoes[outcome.index].text))
    service.metrics.count_tokens(job.served.name, job.generation.prompt_tokens, written)
    if body.stream_options is not None and body.stream_options.include_usage:
        yield job.head | {"choices": [], "usage": usage(job.generation.prompt_tokens, written)}


def _event(job: CompletionJob, index: int, delta: Delta, before: int = 0) -> dict[str, Any]:
    """An event; `before` is the length of the echoed prompt."""
    logprobs = None
    if job.body.logprobs is not None:
        logprobs = log_probability_lists(delta.tokens, before + delta.offset)
    choice = {"index": index, "text": delta.text, "logprobs": logprobs, "finish_reason": delta.reason}
    return job.head | {"choices": [choice]}


def log_probability_lists(tokens: Sequence[Scored], offset: int = 0) -> dict[str, Any]:
    """Tokens as OpenAI's lists; `offset` is that of the first one in the text."""
    starts = accumulate((len(token.text) for token in tokens), initial=offset)
    return {
        "tokens": [token.text for token in tokens],
        "token_logprobs": [token.log_probability for token in tokens],
        "top_logprobs": [_with_itself(token) or None for token in tokens],
        "text_offset": list(starts)[: len(tokens)],
    }


def _with_itself(token: Scored) -> dict[str, float]:
    """The alternatives with the token itself, which may be one more than was asked for, as OpenAI has it."""
    if not token.alternatives or token.log_probability is None:
        return token.alternatives
    return {**token.alternatives, token.text: token.alternatives.get(token.text, token.log_probability)}


def _mean(result: Result) -> float:
    """The mean log-probability of an answer."""
    return float(np.mean(result.log_probabilities)) if len(result.ids) else 0.0
