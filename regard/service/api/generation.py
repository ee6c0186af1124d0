"""Prompts to sequences and answers to choices: what completions and chats share."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate, takewhile
from typing import Any

import numpy as np

from regard.errors import ShapeError
from regard.inference.search.requests import Alternatives, Answer, Request, Result
from regard.inference.tokens import stream_after
from regard.inference.windows import Label
from regard.inference.writer import Completion, CompletionTask, Prompt, StopStrings, Writer
from regard.service.api.errors import ContextLength
from regard.service.api.schemas import SamplingRequest
from regard.service.api.works import SearchWork
from regard.service.http_errors import Malformed, RequestError

FINISH = {"end": "stop", "stop": "stop", "stuck": "stop", "length": "length", "context": "length"}
LEAST_TOP_P = 1e-6  # of the sampler, where the likeliest token is the only one


@dataclass(frozen=True)
class Scored:
    """A generated token with its log-probability and those of its alternatives."""

    text: str
    log_probability: float | None
    alternatives: dict[str, float]


@dataclass(frozen=True)
class Delta:
    """What a step added to a streamed answer."""

    text: str
    tokens: list[Scored]
    offset: int  # characters of the answer before the tokens
    reason: str | None = None


@dataclass(eq=False)
class Generated:
    """One answer while it is generated: its prompt, its text, and what was sent of it.

    If it is generated again after a failed step, its text begins anew, and what was sent is not sent again.
    """

    task: CompletionTask
    prompt: Prompt
    with_tokens: bool
    _text: StopStrings = field(init=False)
    _tokens: ScoredTokens | None = None
    _pieces: int = 0  # of the text that were read
    _length: int = 0  # characters of these pieces
    _sent: int = 0  # characters
    _sent_tokens: int = 0
    _offset: int = 0  # characters of the sent tokens

    def work(self, stream: bool) -> SearchWork:
        """The work of the scheduler."""
        reads_text = stream or bool(self.task.stops)

        def again() -> Request:
            self._text, self._pieces, self._length = self.task.text_of(self.prompt), 0, 0
            self._tokens = ScoredTokens(self.task.writer, self.prompt.ids) if self.with_tokens else None
            return self.task.request(self.prompt, self._text if reads_text else None)

        return SearchWork(again(), on_step=self.delta if stream else None, again=again)

    def delta(self, generated: Callable[[], Result]) -> Delta | None:
        """What was added since the last call; None if nothing can be shown."""
        text = self._new_text()
        return self._delta(text, generated() if self.with_tokens else None) if text else None

    def last_delta(self, answer: Answer) -> Delta:
        """What the end of the answer added."""
        completion = self.completion(answer)
        return self._delta(
            self._new_text(), answer.best if self.with_tokens else None, FINISH[completion.reason]
        )

    def completion(self, answer: Answer) -> Completion:
        """The whole answer."""
        return self.task.completion(self.prompt, self._text, answer)

    def tokens(self, result: Result, length: int) -> list[Scored]:
        """The tokens of the first characters of an answer that were not sent, without the end token.

        A token that begins behind the text, which a stop string cuts, is left out.
        """
        assert self._tokens is not None
        ids = result.ids.tolist()[: len(result.ids) - (result.reason == "end")]
        tokens = self._tokens.read(ids, result.log_probabilities, result.alternatives)[self._sent_tokens :]
        starts = accumulate((len(token.text) for token in tokens), initial=self._offset)
        pairs = zip(tokens, starts, strict=False)
        return [token for token, _ in takewhile(lambda pair: pair[1] < length or not pair[0].text, pairs)]

    def _new_text(self) -> str:
        text = "".join(self._text.pieces[self._pieces :])
        self._pieces = len(self._text.pieces)
        known, self._length = max(0, self._sent - self._length), self._length + len(text)
        self._sent = max(self._sent, self._length)
        return text[known:]

    def _delta(self, text: str, result: Result | None, reason: str | None = None) -> Delta:
        tokens = [] if result is None else self.tokens(result, self._length)
        if reason is None and tokens and tokens[-1].text.endswith("\ufffd"):  # later bytes may change it
            tokens.pop()
        offset = self._offset
        self._sent_tokens += len(tokens)
        self._offset += sum(len(token.text) for token in tokens)
        return Delta(text, tokens, offset, reason)


class ScoredTokens:
    """The ids after others as tokens, with the texts of their alternatives; each is computed once.

    The text of an incomplete character at the end belongs to the last token until more follow.
    """

    def __init__(self, writer: Writer, before: Sequence[int]):
        self._stream = stream_after(writer.tokenizer, before)
        self._ids: list[int] = []
        self._tokens: list[Scored] = []

    def read(
        self,
        ids: Sequence[int],
        log_probabilities: Sequence[float] | np.ndarray,
        alternatives: Sequence[Alternatives],
    ) -> list[Scored]:
        """The tokens of all ids so far."""
        for index in range(len(self._ids), len(ids)):
            if self._ids:
                self._tokens[-1] = replace(self._tokens[-1], text=self._stream.add(self._ids[-1]))
            others = self._texts(alternatives[index]) if alternatives else {}
            text = self._stream.peek(ids[index])
            self._tokens.append(Scored(text, float(log_probabilities[index]), others))
            self._ids.append(ids[index])
        return self._tokens

    def _texts(self, others: Alternatives) -> dict[str, float]:
        texts: dict[str, float] = {}
        for number, value in zip(others.ids.tolist(), others.log_probabilities.tolist(), strict=True):
            if np.isfinite(value):
                texts.setdefault(self._stream.peek(number), value)
        return texts


@dataclass(frozen=True, eq=False)
class Generation:
    """The sequences of a request: `n` for each prompt, each with its own seed."""

    writer: Writer
    request: SamplingRequest
    prompts: list[list[int]]  # ids, without what begins a text
    max_tokens: int | None  # without it, as many as the context has
    count: int  # answers to each prompt
    alternatives: int | None  # None without log-probabilities
    ends: Sequence[int] | None = None  # of a chat: what ends an answer; nothing is put before its prompts
    sequences: list[Generated] = field(init=False)

    def __post_init__(self) -> None:
        if self.request.stream_options is not None and not self.request.stream:
            raise RequestError("stream_options needs stream; set stream to true, or leave it out")
        object.__setattr__(self, "sequences", list(self._sequences()))

    @property
    def prompt_tokens(self) -> int:
        """The tokens of all prompts."""
        return sum(len(sequence.prompt.ids) for sequence in self.sequences[:: self.count])

    def _sequences(self) -> list[Generated]:
        seed = self.request.seed
        task = self._task((secrets.randbits(63) if seed is None else seed) % (1 << 64))
        sequences = []
        for ids in self.prompts:
            for _ in range(self.count):
                label = Label(len(sequences) + 1)  # the number is added to the seed
                prompt = self._read(task, label, ids)
                sequences.append(Generated(task, prompt, self.alternatives is not None))
        return sequences

    def _read(self, task: CompletionTask, label: Label, ids: list[int]) -> Prompt:
        context = self.writer.config.context
        try:
            prompt = task.read(label, "", ids)[0] if self.ends is None else task.prompt(label, "", ids)
        except ShapeError as error:
            raise ContextLength(str(error)) from None
        wanted = self.max_tokens
        if wanted is not None and len(prompt.ids) + wanted > context:
            raise ContextLength(
                f"the prompt has {len(prompt.ids):,} tokens and max_tokens is {wanted:,}, which is more than "
                f"this model's context of {context:,}; shorten the prompt or lower max_tokens"
            )
        return prompt

    def _task(self, seed: int) -> CompletionTask:
        request = self.request
        context = self.writer.config.context
        max_tokens = context if self.max_tokens is None else max(self.max_tokens, 1)
        min_tokens = request.min_tokens or 0
        if min_tokens > max_tokens:
            raise Malformed(
                f"min_tokens ({min_tokens}) must not be above max_tokens ({max_tokens}); lower it"
            )
        task = self.writer.prepare(
            None,
            temperature=1.0 if request.temperature is None else request.temperature,
            top_p=None if request.top_p in (None, 1.0) else max(request.top_p, LEAST_TOP_P),
            top_k=request.top_k,
            min_p=request.min_p,
            repetition_penalty=1.0 if request.repetition_penalty is None else request.repetition_penalty,
            no_repeat_ngram_size=request.no_repeat_ngram_size,
            max_tokens=max_tokens,
            min_tokens=min_tokens,
            seed=seed,
            stop=request.stop or (),
            forbidden=request.forbidden or (),
        )
        settings = task.settings.changed(
            alternatives=self.alternatives or 0, end=tuple(self.ends or ()) or task.settings.end
        )
        return CompletionTask(task.writer, settings, task.stops, task.ablate)


def usage(read: int, written: int = 0) -> dict[str, Any]:
    """The tokens of a request."""
    return {"prompt_tokens": read, "completion_tokens": written, "total_tokens": read + written}
