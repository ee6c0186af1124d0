"""Writer: the beginning of a text in, its continuation out."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from regard.engine.stepper import Stepper
from regard.errors import SettingError, ShapeError
from regard.inference.alignment import entropy
from regard.inference.search.decoding import run
from regard.inference.search.requests import Answer, Request, check_numbers
from regard.inference.search.sampling import Sampling, SamplingSettings
from regard.inference.tokens import Choice, Tokens, beginning, choices, spellings, stream_after
from regard.inference.windows import BUDGET, WINDOW, Job, Label
from regard.text.tokenizer import TextStream, Tokenizer

if TYPE_CHECKING:
    from regard.inference.scoring import Perplexity
    from regard.model.config import ModelConfig
    from regard.model.transformer import DecoderOnly
    from regard.model.watch import Part


class Spoken:
    """The text of ids as they are said, up to the first stop string.

    Where several could end it, the one that is complete first does, as if characters came one by one; so
    the outcome does not depend on where tokens end.
    """

    def __init__(self, stream: TextStream, stops: Sequence[str] = ()):
        self.stopped = False
        self.pieces: list[str] = []  # what may be shown so far
        self._stream, self._stops = stream, stops
        self._heard, self._held = 0, ""

    def hear(self, ids: Sequence[int] | np.ndarray) -> bool:
        """Take in all ids that were said so far, and tell whether a stop string is among their text."""
        for number in ids[self._heard :]:
            self.pieces.append(self._let_out(self._stream.add(int(number))))
        self._heard = len(ids)
        return self.stopped

    def finish(self, ids: Sequence[int] | np.ndarray) -> str:
        """The whole text, now that these ids are all there will be."""
        if not self.hear(ids):
            self.pieces.append(self._let_out(self._stream.finish()) + self._held)
        return "".join(self.pieces)

    def _let_out(self, piece: str) -> str:
        if self.stopped:
            return ""
        self._held += piece
        begin = _first_stop(self._held, self._stops)
        self.stopped = begin is not None
        if begin is None:
            begin = len(self._held) - _begun(self._held, self._stops)
        shown, self._held = self._held[:begin], "" if self.stopped else self._held[begin:]
        return shown


def check_stops(stop: str | Sequence[str]) -> tuple[str, ...]:
    """Stop strings as a tuple; one may be given alone."""
    stops = (stop,) if isinstance(stop, str) else tuple(stop)
    for each in stops:
        if not isinstance(each, str) or not each:
            raise SettingError(f"stop ({each!r}) must be a string of one character or more; leave it out")
    return stops


def _first_stop(text: str, stops: Sequence[str]) -> int | None:
    """Where the stop string begins that is complete first; of two, the longer."""
    ends = [(text.find(stop) + len(stop), -len(stop)) for stop in stops if stop in text]
    return sum(min(ends)) if ends else None


def _begun(text: str, stops: Sequence[str]) -> int:
    """How many characters at the end may be the beginning of a stop string."""
    longest = max(map(len, stops), default=1) - 1
    lengths = range(min(longest, len(text)), 0, -1)
    return next((n for n in lengths if any(stop.startswith(text[-n:]) for stop in stops)), 0)


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

    def as_dict(self) -> dict[str, Any]:
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


@dataclass(frozen=True, eq=False)
class NextWords:
    """What may follow a text: the probability of every token, and how undecided the model is, in nats."""

    probabilities: np.ndarray  # V
    entropy: float
    tokenizer: Tokenizer
    before: Sequence[int]

    def top(self, count: int = 10) -> list[Choice]:
        """The likeliest tokens."""
        return choices(self.tokenizer, self.probabilities, count, self.before)


class Writer:
    """A trained model that continues text. It keeps nothing between calls, so threads may share it."""

    def __init__(self, model: DecoderOnly, tokenizer: Tokenizer):
        self.model, self.tokenizer = model, tokenizer

    @property
    def config(self) -> ModelConfig:
        """The shape of the model."""
        return self.model.config

    def complete(
        self,
        prompt: str | Iterable[str],
        *,
        temperature: float = 1.0,
        top_k: int | None = None,
        top_p: float | None = None,
        min_p: float | None = None,
        repetition_penalty: float = 1.0,
        max_tokens: int = 100,
        min_tokens: int = 0,
        seed: int = 0,
        stop: str | Sequence[str] = (),
        forbidden: Sequence[str] = (),
        no_repeat_ngram_size: int | None = None,
        ablate: Part | Iterable[Part] = (),
        batch_tokens: int = BUDGET,
        window: int = WINDOW,
    ) -> Any:
        """A Completion of a string, a list of them for a sequence, an iterator for any other iterable.

        temperature        0 always takes the likeliest token
        top_k, top_p, min_p, repetition_penalty      see SamplingSettings
        max_tokens         at most so many; fewer where the model's context is full
        min_tokens         at least so many before an end token
        seed               of the random numbers; prompt i of many draws from seed + i
        stop               strings that end the text and are not part of it
        forbidden          words never said; no_repeat_ngram: so many tokens never stand twice
        ablate             parts to ablate, such as ("decoder", layer, head) or "scaling"
        batch_tokens       computed together; window: so many prompts are sorted by length

        An empty prompt begins a new line, or a new document where the tokenizer has a token between those.
        """
        with _in_words_of_the_caller():
            settings = SamplingSettings(
                temperature=temperature,
                top_k=top_k,
                top_p=top_p,
                min_p=min_p,
                repetition_penalty=repetition_penalty,
                max_length=max_tokens,
                min_length=min_tokens,
                seed=seed,
                no_repeat_ngram_size=no_repeat_ngram_size,
            )
        task = self._writing(settings, stop, forbidden, ablate)
        encode = self.tokenizer.encode_batch
        return Job(encode, task.read, task.size, task.answer, task.join, batch_tokens, window).run(prompt)

    def stream(
        self,
        prompt: str,
        *,
        temperature: float = 1.0,
        top_k: int | None = None,
        top_p: float | None = None,
        min_p: float | None = None,
        repetition_penalty: float = 1.0,
        max_tokens: int = 100,
        min_tokens: int = 0,
        seed: int = 0,
        stop: str | Sequence[str] = (),
        forbidden: Sequence[str] = (),
        no_repeat_ngram_size: int | None = None,
        ablate: Part | Iterable[Part] = (),
    ) -> CompletionStream:
        """The text that `complete` would give, piece by piece as it is written.

        No character is split, and of a stop string not even the beginning is shown. When the pieces have
        ended, `completion` of the stream holds the whole.
        """
        with _in_words_of_the_caller():
            settings = SamplingSettings(
                temperature=temperature,
                top_k=top_k,
                top_p=top_p,
                min_p=min_p,
                repetition_penalty=repetition_penalty,
                max_length=max_tokens,
                min_length=min_tokens,
                seed=seed,
                no_repeat_ngram_size=no_repeat_ngram_size,
            )
        task = self._writing(settings, stop, forbidden, ablate)
        label = Label()
        return CompletionStream(task, task.read(label, prompt, self.tokenizer.encode(prompt))[0])

    def next_words(
        self, text: str, *, temperature: float = 1.0, ablate: Part | Iterable[Part] = ()
    ) -> NextWords:
        """Everything that may follow a text, with its probability at a temperature."""
        if not 1e-4 <= temperature <= 100:
            raise SettingError(f"temperature ({temperature}) must lie between 0.0001 and 100; try 1")
        task = self._writing(SamplingSettings(), (), (), ablate)
        ids = task.read(Label(), text, self.tokenizer.encode(text))[0].ids
        stepper = task.stepper()
        stepper.admit([np.array(ids)])
        cooled = stepper.step(np.array(ids[-1:])).log_probabilities[0].astype(np.float64) / temperature
        check_numbers(cooled)
        weights = np.exp(cooled - cooled.max())
        probabilities = weights / weights.sum()
        return NextWords(probabilities, float(entropy(probabilities)), self.tokenizer, ids)

    def perplexity(
        self, text: str, *, stride: int | None = None, ablate: Part | Iterable[Part] = ()
    ) -> Perplexity:
        """How the model is surprised by a text of any length, every token counted once.

        A long text is read in windows as long as the context that move on by `stride` tokens, half of it
        where none is given: the larger, the quicker, the smaller, the more each token can look back on.
        """
        from regard.inference.scoring import perplexity_of

        return perplexity_of(self.model, self.tokenizer, text, stride, ablate)

    def _writing(
        self,
        settings: SamplingSettings,
        stop: str | Sequence[str],
        forbidden: Sequence[str],
        ablate: Part | Iterable[Part],
    ) -> Writing:
        from regard.engine.torch_stepper import TorchStepper
        from regard.model.watch import parts_of

        switched, end = parts_of(ablate), self.tokenizer.specials.get("end")
        words = spellings(self.tokenizer, forbidden)
        complete = settings.changed(forbidden=words, end=() if end is None else (end,))

        def stepper() -> Stepper:
            return TorchStepper(self.model, ablate=switched)

        return Writing(self.tokenizer, self.config.context, complete, check_stops(stop), stepper)


@contextmanager
def _in_words_of_the_caller() -> Iterator[None]:
    """Mistakes in the search's settings, told with the names that `complete` has for them."""
    try:
        yield
    except SettingError as error:
        raise SettingError(re.sub(r"\b(max|min)_length\b", r"\1_tokens", str(error))) from None
