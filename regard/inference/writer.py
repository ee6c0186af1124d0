"""Writer: the beginning of a text in, its continuation out."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from regard.errors import SettingError
from regard.inference.alignment import entropy
from regard.inference.request import check_numbers
from regard.inference.sampling import SamplingSettings
from regard.inference.streaming import check_stops
from regard.inference.tokens import Choice, choices
from regard.inference.windows import BUDGET, WINDOW, Job, Label
from regard.inference.words import spellings
from regard.inference.writing import CompletionStream, Writing
from regard.stepping import Stepper
from regard.text.tokenizer import Tokenizer

if TYPE_CHECKING:
    from regard.inference.perplexity import Perplexity
    from regard.model.config import ModelConfig
    from regard.model.transformer import DecoderOnly
    from regard.model.watch import Part


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
        no_repeat_ngram: int | None = None,
        off: Part | Iterable[Part] = (),
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
        off                parts to switch off, such as ("decoder", layer, head) or "scaling"
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
                no_repeat_ngram=no_repeat_ngram,
            )
        task = self._writing(settings, stop, forbidden, off)
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
        no_repeat_ngram: int | None = None,
        off: Part | Iterable[Part] = (),
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
                no_repeat_ngram=no_repeat_ngram,
            )
        task = self._writing(settings, stop, forbidden, off)
        label = Label(1, alone=True)
        return CompletionStream(task, task.read(label, prompt, self.tokenizer.encode(prompt))[0])

    def next_words(
        self, text: str, *, temperature: float = 1.0, off: Part | Iterable[Part] = ()
    ) -> NextWords:
        """Everything that may follow a text, with its probability at a temperature."""
        if not 1e-4 <= temperature <= 100:
            raise SettingError(f"temperature ({temperature}) must lie between 0.0001 and 100; try 1")
        task = self._writing(SamplingSettings(), (), (), off)
        ids = task.read(Label(1, alone=True), text, self.tokenizer.encode(text))[0].ids
        stepper = task.stepper()
        stepper.admit([np.array(ids)])
        cooled = stepper.step(np.array(ids[-1:])).log_probabilities[0].astype(np.float64) / temperature
        check_numbers(cooled)
        weights = np.exp(cooled - cooled.max())
        probabilities = weights / weights.sum()
        return NextWords(probabilities, float(entropy(probabilities)), self.tokenizer, ids)

    def perplexity(
        self, text: str, *, stride: int | None = None, off: Part | Iterable[Part] = ()
    ) -> Perplexity:
        """How the model is surprised by a text of any length, every token counted once.

        A long text is read in windows as long as the context that move on by `stride` tokens, half of it
        where none is given: the larger, the quicker, the smaller, the more each token can look back on.
        """
        from regard.inference.perplexity import perplexity_of

        return perplexity_of(self.model, self.tokenizer, text, stride, off)

    def _writing(
        self,
        settings: SamplingSettings,
        stop: str | Sequence[str],
        forbidden: Sequence[str],
        off: Part | Iterable[Part],
    ) -> Writing:
        from regard.model.stepper import TorchStepper
        from regard.model.watch import parts_of

        switched, end = parts_of(off), self.tokenizer.specials.get("end")
        words = spellings(self.tokenizer, forbidden)
        complete = settings.changed(forbidden=words, end=() if end is None else (end,))

        def stepper() -> Stepper:
            return TorchStepper(self.model, off=switched)

        return Writing(self.tokenizer, self.config.context, complete, check_stops(stop), stepper)


@contextmanager
def _in_words_of_the_caller() -> Iterator[None]:
    """Mistakes in the search's settings, told with the names that `complete` has for them."""
    try:
        yield
    except SettingError as error:
        raise SettingError(re.sub(r"\b(max|min)_length\b", r"\1_tokens", str(error))) from None
