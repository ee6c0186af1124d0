"""One call of complete or stream: how a prompt becomes a request to the search, and its answer text."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from regard.errors import ShapeError
from regard.inference.request import Answer, Request
from regard.inference.sampling import Sampling, SamplingSettings
from regard.inference.search import run
from regard.inference.streaming import Spoken
from regard.inference.tokens import Tokens, stream_after
from regard.inference.windows import Label
from regard.stepping import Stepper
from regard.text.tokenizer import Tokenizer


@dataclass(frozen=True)
class Completion:
    """What a model wrote behind a prompt.

    `score` is the log-probability of all tokens, those of an end or a stop string too, which the text
    does not show. `reason` says why it is over: end, stop, length, context where the model has no more
    room, or stuck.
    """

    text: str
    score: float
    tokens: Tokens
    reason: str
    prompt: str

    def as_data(self) -> dict[str, Any]:
        """The same in values that JSON can hold."""
        told = {name: getattr(self, name) for name in ("prompt", "text", "score", "reason")}
        return told | {"tokens": [vars(token) for token in self.tokens]}


@dataclass(frozen=True, eq=False)
class Prompt:
    """A prompt, its ids, and the number of its random numbers."""

    text: str
    ids: list[int]
    seed: int


@dataclass(frozen=True)
class Writing:
    """What one call wants."""

    tokenizer: Tokenizer
    context: int
    settings: SamplingSettings
    stops: tuple[str, ...]
    stepper: Callable[[], Stepper]

    def read(self, label: Label, text: str, ids: list[int]) -> list[Prompt]:
        """A prompt as the model takes it; each of a list has a seed of its own."""
        ids = ids or beginning(self.tokenizer)
        if len(ids) >= self.context:
            raise ShapeError(
                f"{label} has {len(ids):,} tokens and this model has room for {self.context - 1:,}, "
                "what it writes included; shorten it"
            )
        room, least = self.context - len(ids), self.settings.min_length
        if room < least:
            raise ShapeError(
                f"{label} has {len(ids):,} tokens and leaves {room:,} of this model's {self.context:,} for "
                f"min_tokens ({least:,}); shorten it, or lower min_tokens"
            )
        return [Prompt(text, ids, (self.settings.seed + label.number - 1) % (1 << 64))]

    def size(self, prompt: Prompt) -> int:
        """The tokens that a prompt may come to."""
        return min(len(prompt.ids) + self.settings.max_length, self.context)

    def answer(self, prompts: list[Prompt]) -> list[Completion]:
        """A completion of each prompt; only where there are stop strings is text listened to on the way."""
        spoken = [self.spoken(prompt) for prompt in prompts]
        pairs = list(zip(prompts, spoken, strict=True))
        requests = [self.request(prompt, voice if self.stops else None) for prompt, voice in pairs]
        answers = run(Sampling(self.stepper()), requests)
        return [self.told(*pair, answer) for pair, answer in zip(pairs, answers, strict=True)]

    def spoken(self, prompt: Prompt) -> Spoken:
        """What tells the text of a completion, as it stands behind its prompt."""
        return Spoken(stream_after(self.tokenizer, prompt.ids), self.stops)

    def request(self, prompt: Prompt, listener: Spoken | None) -> Request:
        """What to ask the search."""
        longest = min(self.settings.max_length, self.context - len(prompt.ids))
        settings = self.settings.changed(max_length=longest, seed=prompt.seed)
        return Request(np.array(prompt.ids), settings, until=None if listener is None else listener.hear)

    def told(self, prompt: Prompt, spoken: Spoken, answer: Answer) -> Completion:
        """The completion that came of a prompt."""
        best = answer.best
        text = spoken.finish(best.ids)
        tokens = Tokens(self.tokenizer, best.ids.tolist(), best.log_probabilities.tolist(), before=prompt.ids)
        full = best.reason == "length" and len(best.ids) < self.settings.max_length
        return Completion(text, best.score, tokens, "context" if full else best.reason, prompt.text)

    def join(self, text: str, prompts: Sequence[Prompt], found: Sequence[Completion]) -> Completion:
        """A prompt has one completion."""
        return found[0]


class CompletionStream(Iterator[str]):
    """The text of a completion piece by piece; `completion` is the whole of it when the pieces have ended."""

    def __init__(self, task: Writing, prompt: Prompt):
        self.completion: Completion | None = None
        self._pieces = self._run(task, prompt)

    def __next__(self) -> str:
        return next(self._pieces)

    def _run(self, task: Writing, prompt: Prompt) -> Iterator[str]:
        search, spoken = Sampling(task.stepper()), task.spoken(prompt)
        search.admit([task.request(prompt, spoken)])
        shown = 0
        while self.completion is None:
            for answer in search.step():
                self.completion = task.told(prompt, spoken, answer)
            yield from filter(None, spoken.pieces[shown:])
            shown = len(spoken.pieces)


def beginning(tokenizer: Tokenizer) -> list[int]:
    """What stands before the first word of a text: the token between documents, or the end of a line."""
    start, end = tokenizer.specials.get("start"), tokenizer.specials.get("end")
    line_end = tokenizer.encode("\n")
    if start is not None and start == end:
        return [start]
    known = line_end and tokenizer.specials.get("unknown") not in line_end
    return line_end if known or start is None else [start]
