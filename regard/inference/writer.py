"""Writer: the beginning of a text in, its continuation out."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypedDict, Unpack, overload

import numpy as np

from regard.engine.choice import Engine, engine_of
from regard.engine.stepper import Stepper
from regard.errors import SettingError, ShapeError
from regard.inference.search.requests import Answer, Request, check_numbers, run
from regard.inference.search.sampling import Sampling, SamplingSettings
from regard.inference.tokens import Choice, Tokens, beginning, choices, entropy, spellings, stream_after
from regard.inference.windows import BUDGET, WINDOW, Job, Label
from regard.model.parts import Part, parts_of
from regard.text.tokenizer import TextStream, Tokenizer

if TYPE_CHECKING:
    from regard.inference.scoring import Perplexity
    from regard.model.config import ModelConfig
    from regard.model.transformer import DecoderOnly

MAX_TOKENS = 100


class SamplingOptions(TypedDict, total=False):
    """The fields of SamplingSettings that `complete` and `stream` also take as keywords."""

    temperature: float
    top_k: int | None
    top_p: float | None
    min_p: float | None
    repetition_penalty: float
    max_tokens: int
    min_tokens: int
    seed: int
    no_repeat_ngram_size: int | None


class CompletionOptions(SamplingOptions, total=False):
    """The keywords of `complete` and `stream`.

    stop         strings that end the text and are not part of it
    forbidden    words that the text must not contain
    ablate       parts to ablate, such as ("decoder", layer, head) or "scaling"
    """

    stop: str | Sequence[str]
    forbidden: Sequence[str]
    ablate: Part | Iterable[Part]


@dataclass(frozen=True)
class Completion:
    """The text that a model wrote after a prompt.

    `score` is the log-probability of all tokens, also of an end token or a stop string, which the text does
    not contain. `reason` says why it ended: end, stop, length, context if the model's context is full, or
    stuck.
    """

    text: str
    score: float
    tokens: Tokens
    reason: str
    prompt: str

    def as_dict(self) -> dict[str, Any]:
        """The completion as JSON values."""
        values = {name: getattr(self, name) for name in ("prompt", "text", "score", "reason")}
        return values | {"tokens": [vars(token) for token in self.tokens]}


@dataclass(frozen=True, eq=False)
class NextWords:
    """The distribution of the next token: every probability, and the entropy in nats."""

    probabilities: np.ndarray  # V
    entropy: float
    tokenizer: Tokenizer
    before: Sequence[int]

    def top(self, count: int = 10) -> list[Choice]:
        """The likeliest tokens."""
        return choices(self.tokenizer, self.probabilities, count, self.before)


class Writer:
    """A trained model that continues text. It keeps no state between calls, so threads may share it.

    `engine` is "native" or "torch", see `regard.engine.choice`.
    """

    def __init__(self, model: DecoderOnly | Engine, tokenizer: Tokenizer, engine: str | None = None):
        self.engine, self.tokenizer = engine_of(model, engine), tokenizer

    @property
    def model(self) -> DecoderOnly:
        """The torch model."""
        return self.engine.module

    @property
    def config(self) -> ModelConfig:
        """The model's configuration."""
        return self.engine.config

    @overload
    def complete(  # pyright: ignore[reportOverlappingOverload] a str is also a sequence of str
        self,
        prompt: str,
        settings: SamplingSettings | None = None,
        *,
        batch_tokens: int = BUDGET,
        window: int = WINDOW,
        **options: Unpack[CompletionOptions],
    ) -> Completion: ...
    @overload
    def complete(
        self,
        prompt: Sequence[str],
        settings: SamplingSettings | None = None,
        *,
        batch_tokens: int = BUDGET,
        window: int = WINDOW,
        **options: Unpack[CompletionOptions],
    ) -> list[Completion]: ...
    @overload
    def complete(
        self,
        prompt: Iterable[str],
        settings: SamplingSettings | None = None,
        *,
        batch_tokens: int = BUDGET,
        window: int = WINDOW,
        **options: Unpack[CompletionOptions],
    ) -> Iterator[Completion]: ...
    def complete(
        self,
        prompt: str | Iterable[str],
        settings: SamplingSettings | None = None,
        *,
        batch_tokens: int = BUDGET,
        window: int = WINDOW,
        **options: Unpack[CompletionOptions],
    ) -> Completion | list[Completion] | Iterator[Completion]:
        """Continue a string, a sequence (to a list) or any other iterable (to an iterator).

        settings         how to sample; the keywords temperature, top_k, top_p, min_p, repetition_penalty,
                         max_tokens (100), min_tokens, seed and no_repeat_ngram_size replace its fields.
                         Prompt i of many draws from seed + i
        stop, forbidden, ablate    see CompletionOptions
        batch_tokens     tokens per batch; window: how many prompts are sorted by length together

        An empty prompt begins a new line, or a new document if the tokenizer has a token between documents.
        """
        task = self.prepare(settings, **options)
        encode = self.tokenizer.encode_batch
        return Job(encode, task.read, task.size, task.answer, task.join, batch_tokens, window).run(prompt)

    def stream(
        self, prompt: str, settings: SamplingSettings | None = None, **options: Unpack[CompletionOptions]
    ) -> CompletionStream:
        """The text that `complete` gives, piece by piece as it is written.

        No character is split, and no part of a stop string is shown. After the last piece, `completion` of
        the stream holds the whole.
        """
        task = self.prepare(settings, **options)
        return CompletionStream(task, task.read(Label(), prompt, self.tokenizer.encode(prompt))[0])

    def next_words(
        self, text: str, *, temperature: float = 1.0, ablate: Part | Iterable[Part] = ()
    ) -> NextWords:
        """The distribution of the token after a text, at a temperature."""
        if not 1e-4 <= temperature <= 100:
            raise SettingError(f"temperature ({temperature}) must lie between 0.0001 and 100; try 1")
        task = self.prepare(None, ablate=ablate)
        ids = task.read(Label(), text, self.tokenizer.encode(text))[0].ids
        stepper = task.stepper()
        stepper.admit([np.array(ids)])
        logits = stepper.step(np.array(ids[-1:])).log_probabilities[0].astype(np.float64) / temperature
        check_numbers(logits)
        weights = np.exp(logits - logits.max())
        probabilities = weights / weights.sum()
        return NextWords(probabilities, float(entropy(probabilities)), self.tokenizer, ids)

    def perplexity(
        self, text: str, *, stride: int | None = None, ablate: Part | Iterable[Part] = ()
    ) -> Perplexity:
        """The perplexity of a text of any length, every token counted once.

        A long text is read in windows of the context's length that advance by `stride` tokens, by default
        half of it. A larger stride is faster; a smaller one gives each token more context.
        """
        from regard.inference.scoring import perplexity_of

        return perplexity_of(self.model, self.tokenizer, text, stride, ablate)

    def prepare(
        self,
        settings: SamplingSettings | None,
        *,
        stop: str | Sequence[str] = (),
        forbidden: Sequence[str] = (),
        ablate: Part | Iterable[Part] = (),
        **sampling: Unpack[SamplingOptions],
    ) -> CompletionTask:
        """The task of a call of `complete`, for a caller that runs the search itself."""
        base = settings or SamplingSettings(max_length=MAX_TOKENS)
        end = self.tokenizer.specials.get("end")
        changes = {name.replace("_tokens", "_length"): value for name, value in sampling.items()}
        with _with_names_of_options():
            complete = base.changed(
                **changes,
                forbidden=(*base.forbidden, *spellings(self.tokenizer, forbidden)),
                end=base.end or (() if end is None else (end,)),
            )
        return CompletionTask(self, complete, check_stops(stop), parts_of(ablate))


@contextmanager
def _with_names_of_options() -> Iterator[None]:
    """Error messages about settings, with the names that `complete` has for them."""
    try:
        yield
    except SettingError as error:
        raise SettingError(re.sub(r"\b(max|min)_length\b", r"\1_tokens", str(error))) from None


class StopStrings:
    """The text of ids as they are generated, up to the first stop string.

    If several stop strings occur, the one that is complete first ends the text, as if characters came one by
    one. So the result does not depend on where tokens end.
    """

    def __init__(self, stream: TextStream, stops: Sequence[str] = ()):
        self.stopped = False
        self.pieces: list[str] = []  # the text that may be shown so far
        self._stream, self._stops = stream, stops
        self._read, self._held = 0, ""

    def read(self, ids: Sequence[int] | np.ndarray) -> bool:
        """Read all ids generated so far, and say whether their text contains a stop string."""
        for number in ids[self._read :]:
            self.pieces.append(self._release(self._stream.add(int(number))))
        self._read = len(ids)
        return self.stopped

    def finish(self, ids: Sequence[int] | np.ndarray) -> str:
        """The whole text of all ids."""
        if not self.read(ids):
            self.pieces.append(self._release(self._stream.finish()) + self._held)
        return "".join(self.pieces)

    def _release(self, piece: str) -> str:
        """The text that cannot be part of a stop string any more."""
        if self.stopped:
            return ""
        self._held += piece
        end = _first_stop(self._held, self._stops)
        self.stopped = end is not None
        if end is None:
            end = len(self._held) - _possible_stop(self._held, self._stops)
        released, self._held = self._held[:end], "" if self.stopped else self._held[end:]
        return released


def check_stops(stop: str | Sequence[str]) -> tuple[str, ...]:
    """The stop strings as a tuple; a single one may be given as a string."""
    stops = (stop,) if isinstance(stop, str) else tuple(stop)
    for string in stops:
        if not isinstance(string, str) or not string:
            raise SettingError(f"stop ({string!r}) must be a string of one character or more; leave it out")
    return stops


def _first_stop(text: str, stops: Sequence[str]) -> int | None:
    """The beginning of the stop string that is complete first; of two, the longer."""
    ends = [(text.find(stop) + len(stop), -len(stop)) for stop in stops if stop in text]
    return sum(min(ends)) if ends else None


def _possible_stop(text: str, stops: Sequence[str]) -> int:
    """How many characters at the end may be the beginning of a stop string."""
    longest = max(map(len, stops), default=1) - 1
    lengths = range(min(longest, len(text)), 0, -1)
    return next((n for n in lengths if any(stop.startswith(text[-n:]) for stop in stops)), 0)


@dataclass(frozen=True, eq=False)
class Prompt:
    """A text to continue: its ids with what begins a text, and the seed of its random numbers."""

    text: str
    ids: list[int]
    seed: int


@dataclass(frozen=True)
class CompletionTask:
    """One call of `complete` or `stream`: texts to prompts, prompts to requests, answers to completions."""

    writer: Writer
    settings: SamplingSettings
    stops: tuple[str, ...]
    ablate: Sequence[Part]

    def read(self, label: Label, text: str, ids: list[int]) -> list[Prompt]:
        """The prompt as ids, with those that begin a text."""
        tokenizer = self.writer.tokenizer
        return [self.prompt(label, text, [*tokenizer.opening, *ids] if ids else beginning(tokenizer))]

    def prompt(self, label: Label, text: str, ids: list[int]) -> Prompt:
        """The prompt of these ids; each prompt of a list has its own seed."""
        context = self.writer.config.context
        if len(ids) >= context:
            raise ShapeError(
                f"{label} has {len(ids):,} tokens; prompt and completion share this model's context of "
                f"{context:,}; shorten it"
            )
        free, min_tokens = context - len(ids), self.settings.min_length
        if free < min_tokens:
            raise ShapeError(
                f"{label} has {len(ids):,} tokens and leaves {free:,} of this model's {context:,} for "
                f"min_tokens ({min_tokens:,}); shorten it, or lower min_tokens"
            )
        return Prompt(text, ids, (self.settings.seed + label.number - 1) % (1 << 64))

    def size(self, prompt: Prompt) -> int:
        """The maximum number of tokens of a prompt and its completion."""
        return min(len(prompt.ids) + self.settings.max_length, self.writer.config.context)

    def answer(self, prompts: list[Prompt]) -> list[Completion]:
        """A completion of each prompt."""
        texts = [self.text_of(prompt) for prompt in prompts]
        pairs = list(zip(prompts, texts, strict=True))
        requests = [self.request(prompt, text if self.stops else None) for prompt, text in pairs]
        answers = run(Sampling(self.stepper()), requests)
        return [self.completion(*pair, answer) for pair, answer in zip(pairs, answers, strict=True)]

    def join(self, text: str, prompts: Sequence[Prompt], completions: Sequence[Completion]) -> Completion:
        """A prompt has one completion."""
        return completions[0]

    def stepper(self) -> Stepper:
        """A new stepper of the model."""
        return self.writer.engine.stepper(self.ablate)

    def text_of(self, prompt: Prompt) -> StopStrings:
        """What turns generated ids into the text after the prompt."""
        return StopStrings(stream_after(self.writer.tokenizer, prompt.ids), self.stops)

    def request(self, prompt: Prompt, text: StopStrings | None) -> Request:
        """The search request of a prompt; `text` is read on the way, to find stop strings."""
        max_length = min(self.settings.max_length, self.writer.config.context - len(prompt.ids))
        settings = self.settings.changed(max_length=max_length, seed=prompt.seed)
        return Request(np.array(prompt.ids), settings, until=None if text is None else text.read)

    def completion(self, prompt: Prompt, text: StopStrings, answer: Answer) -> Completion:
        """The completion of a prompt from the answer of the search."""
        best = answer.best
        whole = text.finish(best.ids)
        log_probabilities = best.log_probabilities.tolist()
        tokens = Tokens(self.writer.tokenizer, best.ids.tolist(), log_probabilities, before=prompt.ids)
        is_full = best.reason == "length" and len(best.ids) < self.settings.max_length
        return Completion(whole, best.score, tokens, "context" if is_full else best.reason, prompt.text)


class CompletionStream(Iterator[str]):
    """The text of a completion piece by piece; `completion` is the whole after the last piece."""

    def __init__(self, task: CompletionTask, prompt: Prompt):
        self.completion: Completion | None = None
        self._pieces = self._run(task, prompt)

    def __next__(self) -> str:
        return next(self._pieces)

    def _run(self, task: CompletionTask, prompt: Prompt) -> Iterator[str]:
        search, text = Sampling(task.stepper()), task.text_of(prompt)
        search.admit([task.request(prompt, text)])
        shown = 0
        while self.completion is None:
            for answer in search.step():
                self.completion = task.completion(prompt, text, answer)
            yield from filter(None, text.pieces[shown:])
            shown = len(text.pieces)
