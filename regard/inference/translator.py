"""Translator: text in one language in, text in the other out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol, TypedDict, Unpack, overload

import numpy as np

from regard.engine.choice import Engine, engine_of
from regard.engine.stepper import Stepper
from regard.errors import SettingError, ShapeError, UnknownName, UsageError, nearest
from regard.inference.search.beam import Beam, BeamSettings
from regard.inference.search.constraints import Constraints
from regard.inference.search.constraints import length_penalty as penalty_of
from regard.inference.search.requests import Answer, Request, check_numbers, run
from regard.inference.search.sampling import Sampling
from regard.inference.sentences import split_to_fit
from regard.inference.tokens import Choice, Tokens, choices, pieces, spellings
from regard.inference.translation import (
    Alignment,
    Source,
    Translation,
    empty_translation,
    join_parts,
    translation_of,
)
from regard.inference.windows import BUDGET, WINDOW, Job, Label
from regard.model.parts import Part, parts_of
from regard.text.tokenizer import Tokenizers

if TYPE_CHECKING:
    from torch import Tensor

    from regard.model.config import ModelConfig
    from regard.model.transformer import EncoderDecoder


SPLITS = ("error", "sentences")
EXTRA_LENGTH = 50  # section 6.1: a translation has at most so many tokens more than its source
NO_MAX_LENGTH = 1 << 16  # then EXTRA_LENGTH holds


class Rescorer(Protocol):
    """Reranks hypotheses after the search: n-best lists in, n-best lists out."""

    def __call__(
        self, sources: Sequence[Source], n_best: Sequence[Sequence[Translation]], settings: BeamSettings
    ) -> list[list[Translation]]:
        """The hypotheses of each source, the best first."""
        ...


class Blend(Protocol):
    """Changes the distribution of every step, behind the model's head."""

    def check(self, model: EncoderDecoder) -> None:
        """Raise if it cannot be used with this model."""
        ...

    def __call__(self, hidden: Tensor, log_probabilities: Tensor) -> Tensor:
        """Hidden states R D and log-probabilities R V to log-probabilities R V."""
        ...


StepperFactory = Callable[["EncoderDecoder", Sequence[Part], "Blend | None"], Stepper]


class SearchOptions(TypedDict, total=False):
    """The fields of BeamSettings that `translate` also takes as keywords."""

    beams: int
    n_best: int
    length_penalty: float
    patience: float | None
    max_length: int | None
    min_length: int
    no_repeat_ngram_size: int | None
    tree: bool


class TaskOptions(SearchOptions, total=False):
    """The keywords of `prepare`."""

    prefix: str
    forbidden: Sequence[str]
    split: str
    alignment: bool
    rescorer: Rescorer | None
    blend: Blend | None
    ablate: Part | Iterable[Part]


class TranslationOptions(TaskOptions, total=False):
    """The keywords of `translate`."""

    batch_tokens: int
    window: int


class Translator:
    """A trained model that translates. It keeps no state between calls, so threads may share it.

    `engine` is "native" or "torch", see `regard.engine.choice`; `stepper` replaces what the search steps.
    """

    def __init__(
        self,
        model: EncoderDecoder | Engine,
        tokenizers: Tokenizers,
        stepper: StepperFactory | None = None,
        engine: str | None = None,
    ):
        self.engine, self.tokenizers = engine_of(model, engine), tokenizers
        self._stepper = stepper

    @property
    def model(self) -> EncoderDecoder:
        """The torch model."""
        return self.engine.module

    @property
    def config(self) -> ModelConfig:
        """The model's configuration."""
        return self.engine.config

    @overload
    def translate(  # pyright: ignore[reportOverlappingOverload] a str is also a sequence of str
        self, text: str, settings: BeamSettings | None = None, **options: Unpack[TranslationOptions]
    ) -> Translation: ...
    @overload
    def translate(
        self, text: Sequence[str], settings: BeamSettings | None = None, **options: Unpack[TranslationOptions]
    ) -> list[Translation]: ...
    @overload
    def translate(
        self, text: Iterable[str], settings: BeamSettings | None = None, **options: Unpack[TranslationOptions]
    ) -> Iterator[Translation]: ...
    def translate(
        self,
        text: str | Iterable[str],
        settings: BeamSettings | None = None,
        *,
        batch_tokens: int = BUDGET,
        window: int = WINDOW,
        **options: Unpack[TaskOptions],
    ) -> Translation | list[Translation] | Iterator[Translation]:
        """Translate a string, a sequence (to a list) or any other iterable (to an iterator).

        settings          how to search; keywords such as beams, n_best and length_penalty replace its fields.
                          Without max_length a translation has at most 50 tokens more than its source
        prefix            the beginning of the translation
        forbidden         words that the translation must not contain
        split             what to do with a text longer than the context: raise an "error", or "sentences"
        alignment         align each translation with its source
        rescorer          reranks the hypotheses, e.g. NoisyChannel
        blend             changes the distribution of every step, e.g. a Datastore (kNN-MT)
        ablate            parts to ablate, such as ("cross", layer, head) or "scaling"
        batch_tokens      tokens per batch; window: how many texts are sorted by length together

        A blank text has the empty translation. In float32 the text of a translation does not depend on the
        other texts of its batch.
        """
        task = self.prepare(settings, **options)
        encode = self.tokenizers.source.encode_batch
        job = Job(encode, task.read, task.size, task.answer, task.join, batch_tokens, window)
        return job.run(text)

    def prepare(
        self,
        settings: BeamSettings | None = None,
        *,
        prefix: str = "",
        forbidden: Sequence[str] = (),
        split: str = "error",
        alignment: bool = False,
        rescorer: Rescorer | None = None,
        blend: Blend | None = None,
        ablate: Part | Iterable[Part] = (),
        **search: Unpack[SearchOptions],
    ) -> TranslationTask:
        """The task of a call of `translate`, for a caller that runs the search itself."""
        if blend is not None:
            blend.check(self.model)
        return TranslationTask(
            self,
            self._settings(settings, search, forbidden),
            self.tokenizers.target.encode(prefix),
            split,
            alignment,
            parts_of(ablate),
            rescorer,
            blend,
        )

    def stepper(self, ablate: Sequence[Part] = (), blend: Blend | None = None) -> Stepper:
        """A new stepper of the model."""
        if self._stepper is not None:
            return self._stepper(self.model, ablate, blend)
        return self.engine.stepper(ablate, blend)

    def score(
        self,
        text: str,
        translation: str | Translation,
        *,
        length_penalty: float = 0.6,
        blend: Blend | None = None,
        ablate: Part | Iterable[Part] = (),
    ) -> Translation:
        """Score a given translation by a teacher-forced pass.

        A string is scored with the end token. A Translation is scored with all its tokens, also forced ones.
        """
        from regard.inference.scoring import forced

        target, ids = self.tokenizers.target, self._target_ids(translation)
        source = self._source_ids(text)
        if blend is not None:
            blend.check(self.model)
        inputs = [[target.start, *ids[:-1]]]
        log_probabilities = forced(self.model, inputs, [ids], [source], ablate, blend)[0]
        score = float(np.cumsum(log_probabilities, dtype=np.float64)[-1])
        return Translation(
            translation if isinstance(translation, str) else translation.text,
            score,
            score / penalty_of(len(ids), length_penalty),
            Tokens(target, ids, log_probabilities.tolist()),
            "scored",
        )

    def align(
        self, text: str, translation: str | Translation, *, ablate: Part | Iterable[Part] = ()
    ) -> Alignment:
        """Align each token of a translation with a token of the text, by a teacher-forced pass."""
        from regard.inference.scoring import cross_weights

        target, ids = self.tokenizers.target, self._target_ids(translation)
        source = self._source_ids(text)
        if len(source) == 1:
            raise UsageError("the text is empty, so nothing can be aligned with it; give one that has words")
        weights = cross_weights(self.model, source, [target.start, *ids[:-1]], ablate)
        source_texts = [piece.text for piece in self.tokenizers.source.tokens(text)]
        return Alignment((*source_texts, ""), tuple(pieces(target, ids)), weights, ids[-1] == target.end)

    def alternatives(
        self,
        text: str,
        position: int,
        *,
        translation: str | Translation | None = None,
        top: int = 10,
        blend: Blend | None = None,
        ablate: Part | Iterable[Part] = (),
    ) -> list[Choice]:
        """The likeliest tokens at a position of a translation, given the tokens before it.

        Positions count tokens from 0. The end token has no text. `translation` is by default what `translate`
        gives.
        """
        parts = parts_of(ablate)
        if translation is None:
            translation = self.translate(text, blend=blend, ablate=parts)
        elif blend is not None:
            blend.check(self.model)
        ids = self._target_ids(translation)
        if not 0 <= position < len(ids):
            raise SettingError(f"position ({position}) must lie between 0 and {len(ids) - 1}, the last")
        before, stepper = ids[:position], self.stepper(parts, blend)
        prefix = np.array([self.tokenizers.target.start, *before])
        stepper.admit([prefix], [np.array(self._source_ids(text))])
        log_probabilities = stepper.step(prefix[-1:]).log_probabilities[0]
        check_numbers(log_probabilities)
        return choices(self.tokenizers.target, np.exp(log_probabilities), top, before)

    def _settings(
        self, settings: BeamSettings | None, search: SearchOptions, forbidden: Sequence[str]
    ) -> BeamSettings:
        """The settings with the keywords applied, and with the ids of this model's tokenizer."""
        settings = settings or BeamSettings()
        changes: dict[str, Any] = {**search}
        if search.get("max_length") is None:
            is_set = "max_length" in settings.model_fields_set
            changes["max_length"] = settings.max_length if is_set else NO_MAX_LENGTH
        target = self.tokenizers.target
        words = spellings(target, forbidden)
        if target.start == target.specials.get("pad"):  # Marian: the start token is padding, never a word
            words = (*words, (target.start,))
        return settings.changed(
            **changes, end=settings.end or (target.end,), forbidden=(*settings.forbidden, *words)
        )

    def _source_ids(self, text: str) -> list[int]:
        """The ids that the encoder reads."""
        if not isinstance(text, str):
            raise UsageError(f"the text must be a string, not {type(text).__name__}; call it for each text")
        return [*self._fitting("the text", self.tokenizers.source.encode(text)), self.tokenizers.source.end]

    def _target_ids(self, translation: str | Translation) -> list[int]:
        """The ids of a Translation, or of a string with the end token."""
        target = self.tokenizers.target
        if isinstance(translation, str):
            return [*self._fitting("the translation", target.encode(translation)), target.end]
        if not isinstance(translation, Translation):
            kind = type(translation).__name__
            raise UsageError(f"the translation must be a string or a Translation, not {kind}")
        if translation.parts or not len(translation.tokens):
            raise UsageError("this translation is empty or of a split text; give the text of one part")
        return translation.tokens.ids.tolist()

    def _fitting(self, name: str, ids: list[int]) -> list[int]:
        limit = self.config.context - 1
        if len(ids) > limit:
            raise ShapeError(f"{name} has {len(ids):,} tokens and this model reads {limit:,}; shorten it")
        return ids


@dataclass(frozen=True)
class TranslationTask:
    """One call of `translate`: texts to sources, sources to search requests, answers to translations."""

    translator: Translator
    settings: BeamSettings
    prefix: list[int]
    split: str
    alignment: bool
    ablate: Sequence[Part]
    rescorer: Rescorer | None
    blend: Blend | None

    def __post_init__(self):
        if self.split not in SPLITS:
            raise UnknownName(f"unknown split {self.split!r}; {nearest(self.split, SPLITS)}")
        if self.rescorer is not None and self.settings.beams == 1:
            raise SettingError("rescoring needs several hypotheses, and beams is 1; set it to 2 or more")
        if self._max_length < 1:
            raise SettingError(
                f"prefix ({len(self.prefix)} tokens) fills the model's context of {self._context}; shorten it"
            )
        if self.settings.min_length > self._max_length:
            raise SettingError(
                f"min_length ({self.settings.min_length}) must not be above {self._max_length}, the tokens "
                "that the model's context has after the prefix; lower it"
            )

    @property
    def is_greedy(self) -> bool:
        """Whether the search is greedy; otherwise it is a beam search."""
        return self.settings.beams == 1 and not self.settings.tree

    def read(self, label: Label, text: str, ids: list[int]) -> list[Source]:
        """The sources of a text: the text itself, its parts, or none if it is blank."""
        if not ids or not text.strip():
            return []
        if len(ids) < self._context:
            return [self._source(text, ids)]
        if self.split == "error":
            raise ShapeError(
                f"{label} has {len(ids):,} tokens and this model reads {self._context - 1:,}; "
                "shorten it, or set split to sentences"
            )
        return self._parts(label, text)

    def size(self, source: Source) -> int:
        """The tokens of a source in all beams."""
        return len(source.ids) * self.settings.beams

    def answer(self, sources: list[Source]) -> list[Translation]:
        """The translation of each source."""
        stepper = self.translator.stepper(self.ablate, self.blend)
        search = Sampling(stepper) if self.is_greedy else Beam(stepper)
        return self.finish(sources, run(search, [self.request(source) for source in sources]))

    def request(self, source: Source) -> Request:
        """The search request of a source; the prefix begins only the first part of a text."""
        prefix = [self.translator.tokenizers.target.start, *(self.prefix if source.part == 0 else [])]
        max_length = min(self.settings.max_length, self._max_length)
        if self.settings.max_length == NO_MAX_LENGTH:
            max_length = min(max_length, max(len(source.ids) + EXTRA_LENGTH, self.settings.min_length))
        # All values are checked already; a validated copy takes as long as the rest of a small request.
        settings = self._search_settings.model_copy(update={"max_length": max_length})
        return Request(np.array(prefix), settings, source.ids)

    def finish(self, sources: list[Source], answers: Sequence[Answer]) -> list[Translation]:
        """The translation of each source from the answers of the search."""
        translations = [translation_of(answer, self.translator.tokenizers.target) for answer in answers]
        if self.rescorer is not None:
            translations = self._rescored(self.rescorer, sources, translations)
        return self._aligned(sources, translations) if self.alignment else translations

    def join(self, text: str, sources: Sequence[Source], parts: Sequence[Translation]) -> Translation:
        """The translation of a text from those of its sources."""
        if not parts:
            return empty_translation(self.translator.tokenizers.target)
        return parts[0] if len(parts) == 1 else join_parts(parts, [source.gap for source in sources])

    @property
    def _context(self) -> int:
        return self.translator.config.context

    @property
    def _max_length(self) -> int:
        """How many tokens the context has after the prefix."""
        return self._context - 1 - len(self.prefix)

    @cached_property
    def _search_settings(self) -> Constraints:
        """Plain constraints for greedy search; for a rescorer, all hypotheses of the beam."""
        if self.is_greedy:
            return Constraints(**self.settings.model_dump(include=set(Constraints.model_fields)))
        return self.settings if self.rescorer is None else self.settings.changed(n_best=self.settings.beams)

    def _source(self, text: str, ids: list[int], gap: str = "", part: int = 0) -> Source:
        return Source(text, np.array([*ids, self.translator.tokenizers.source.end]), gap, part)

    def _parts(self, label: Label, text: str) -> list[Source]:
        tokenizer = self.translator.tokenizers.source
        parts = split_to_fit(text, lambda part: len(tokenizer.encode(part)) < self._context)
        encoded = tokenizer.encode_batch([part.text for part in parts])
        if any(len(ids) >= self._context for ids in encoded):
            raise ShapeError(f"{label} has a character of more tokens than this model reads; leave it out")
        pairs = enumerate((part, ids) for part, ids in zip(parts, encoded, strict=True) if ids)
        return [self._source(part.text, ids, part.gap, index) for index, (part, ids) in pairs]

    def _rescored(
        self, rescorer: Rescorer, sources: list[Source], translations: list[Translation]
    ) -> list[Translation]:
        n_best = [[replace(best, others=(), tree=None), *best.others] for best in translations]
        rescored = []
        for first, hypotheses in zip(translations, rescorer(sources, n_best, self.settings), strict=True):
            best, *others = hypotheses[: self.settings.n_best]
            rescored.append(replace(best, others=tuple(others), tree=first.tree))
        return rescored

    def _aligned(self, sources: list[Source], translations: list[Translation]) -> list[Translation]:
        align = self.translator.align
        return [
            replace(translation, alignment=align(source.text, translation, ablate=self.ablate))
            if len(translation.tokens)
            else translation
            for source, translation in zip(sources, translations, strict=True)
        ]
