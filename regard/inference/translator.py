"""Translator: text in one language in, text in the other out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from regard.engine.stepper import Stepper
from regard.errors import SettingError, ShapeError, UnknownName, UsageError, nearest
from regard.inference.alignment import Alignment
from regard.inference.rescoring.noisy_channel import Backwards, check_backwards
from regard.inference.search.beam import Beam, BeamSettings
from regard.inference.search.constraints import Constraints
from regard.inference.search.constraints import length_penalty as penalty_of
from regard.inference.search.decoding import run
from regard.inference.search.requests import Request, check_numbers
from regard.inference.search.sampling import Sampling
from regard.inference.sentences import split_to_fit
from regard.inference.tokens import Choice, Tokens, choices, pieces, spellings
from regard.inference.translation import Source, Translation, empty, joined, told
from regard.inference.windows import BUDGET, WINDOW, Job, Label
from regard.text.tokenizer import Tokenizers

if TYPE_CHECKING:
    from regard.inference.rescoring.datastore import Datastore
    from regard.model.config import ModelConfig
    from regard.model.transformer import EncoderDecoder
    from regard.model.watch import Part


SPLITS = ("error", "sentences")
LONGER = 50  # a translation may have so many tokens more than its source (section 6.1)


@dataclass(frozen=True)
class Translating:
    """What one call wants; `by_source` lets the longest translation go by the length of its source."""

    tokenizers: Tokenizers
    context: int
    settings: BeamSettings
    by_source: bool
    prefix: list[int]
    split: str
    stepper: Callable[[], Stepper]

    def __post_init__(self):
        if self.split not in SPLITS:
            raise UnknownName(f"unknown split {self.split!r}; {nearest(self.split, SPLITS)}")
        if self._room < 1:
            raise SettingError(
                f"prefix ({len(self.prefix)} tokens) fills the {self.context} that this model has; shorten it"
            )
        if self.settings.min_length > self._room:
            raise SettingError(
                f"min_length ({self.settings.min_length}) must not be above {self._room}, the tokens that go "
                "into this model behind the prefix; lower it"
            )

    def read(self, label: Label, text: str, ids: list[int]) -> list[Source]:
        """What is translated of a text: all of it, its parts, or nothing where it is blank."""
        if not ids or not text.strip():
            return []
        if self._fits(ids):
            return [self._source(text, ids)]
        if self.split == "error":
            raise ShapeError(
                f"{label} has {len(ids):,} tokens and this model reads {self.context - 1:,}; "
                "shorten it, or set split to sentences"
            )
        return self._parts(label, text)

    def size(self, source: Source) -> int:
        """What a source costs: its tokens, for every beam."""
        return len(source.ids) * self.settings.beams

    def answer(self, sources: list[Source]) -> list[Translation]:
        """The translation of each source."""
        search = Sampling(self.stepper()) if self._is_greedy else Beam(self.stepper())
        answers = run(search, [self._request(source) for source in sources])
        return [told(answer, self.tokenizers.target) for answer in answers]

    def join(self, text: str, sources: Sequence[Source], found: Sequence[Translation]) -> Translation:
        """The translation of a text from those of its sources."""
        if not found:
            return empty(self.tokenizers.target)
        if len(found) == 1:
            return found[0]
        return joined(found, [source.gap for source in sources])

    @property
    def _is_greedy(self) -> bool:
        return self.settings.beams == 1 and not self.settings.tree

    @cached_property
    def _limits(self) -> Constraints:
        """What the search is told: a beam of one needs no more than the limits that hold for any search."""
        if not self._is_greedy:
            return self.settings
        return Constraints(**self.settings.model_dump(include=set(Constraints.model_fields)))

    @property
    def _room(self) -> int:
        """How many tokens can be generated at most."""
        return self.context - 1 - len(self.prefix)

    def _fits(self, ids: list[int]) -> bool:
        return len(ids) < self.context

    def _source(self, text: str, ids: list[int], gap: str = "", place: int = 0) -> Source:
        return Source(text, np.array([*ids, self.tokenizers.source.end]), gap, place)

    def _parts(self, label: Label, text: str) -> list[Source]:
        encode = self.tokenizers.source.encode
        parts = split_to_fit(text, lambda part: self._fits(encode(part)))
        encoded = self.tokenizers.source.encode_batch([part.text for part in parts])
        if not all(map(self._fits, encoded)):
            raise ShapeError(f"{label} has a character of more tokens than this model reads; leave it out")
        pairs = enumerate((part, ids) for part, ids in zip(parts, encoded, strict=True) if ids)
        return [self._source(part.text, ids, part.gap, place) for place, (part, ids) in pairs]

    def _request(self, source: Source) -> Request:
        """The prefix begins the first part of a text alone."""
        prefix = [self.tokenizers.target.start, *(self.prefix if source.place == 0 else [])]
        longest = min(self.settings.max_length, self._room)
        if self.by_source:
            longest = min(longest, max(len(source.ids) + LONGER, self.settings.min_length))
        return Request(np.array(prefix), self._limits.changed(max_length=longest), source.ids)


LONGEST = 1 << 16


class Translator:
    """A trained model that translates. It keeps nothing between calls, so threads may share it."""

    def __init__(self, model: EncoderDecoder, tokenizers: Tokenizers):
        self.model, self.tokenizers = model, tokenizers

    @property
    def config(self) -> ModelConfig:
        """The shape of the model."""
        return self.model.config

    def translate(
        self,
        text: str | Iterable[str],
        *,
        beams: int = 4,
        n_best: int = 1,
        length_penalty: float = 0.6,
        backwards: float = 0.0,
        remembered: Datastore | None = None,
        patience: float | None = 1.0,
        max_length: int | None = None,
        min_length: int = 0,
        prefix: str = "",
        forbidden: Sequence[str] = (),
        no_repeat_ngram_size: int | None = None,
        split: str = "error",
        alignment: bool = False,
        tree: bool = False,
        ablate: Part | Iterable[Part] = (),
        batch_tokens: int = BUDGET,
        window: int = WINDOW,
    ) -> Any:
        """A Translation of a string, a list of them for a sequence, an iterator for any other iterable.

        beams, n_best     hypotheses kept while searching (1 is greedy), and how many are given back
        length_penalty    the exponent of section 6.1; 0 ranks by log-probability alone
        backwards         weight of how well the source is said again from a translation, for a model trained
                          both ways; 0 leaves it out
        remembered        known translations that have a say at every step; `remember` makes them
        patience          how many hypotheses must finish, in beams; see BeamSettings
        max_length        tokens at most, the end among them; 50 more than the source where none is given
        prefix            how the translation begins
        forbidden         words that it must not hold; no_repeat_ngram: so many tokens never stand twice
        split             what becomes of a text longer than the model reads: an "error", or "sentences"
        alignment, tree   give these as well
        ablate            parts to ablate, such as ("cross", layer, head) or "scaling"
        batch_tokens      computed together; window: so many texts are sorted by length

        A text of white space alone has the empty translation. In float32 the text of a translation does
        not depend on its neighbours.
        """
        from regard.model.watch import parts_of

        switched = parts_of(ablate)
        settings = BeamSettings(
            beams=beams,
            n_best=n_best,
            patience=patience,
            tree=tree,
            max_length=LONGEST if max_length is None else max_length,
            min_length=min_length,
            end=(self.tokenizers.target.end,),
            forbidden=spellings(self.tokenizers.target, forbidden),
            no_repeat_ngram_size=no_repeat_ngram_size,
            length_penalty=length_penalty,
        )
        check_backwards(backwards, beams, self.tokenizers)
        self._check_remembered(remembered)
        way_back = Backwards(backwards, self.model, self.tokenizers, length_penalty, switched)
        if backwards:
            settings = settings.changed(n_best=beams)  # all are judged, however few are given back
        task = Translating(
            self.tokenizers,
            self.config.context,
            settings,
            max_length is None,
            self.tokenizers.target.encode(prefix),
            split,
            lambda: self._stepper(switched, remembered),
        )

        def answer(sources: list[Source]) -> list[Translation]:
            found = task.answer(sources)
            if backwards:
                found = way_back.ranked(sources, found, n_best)
            return self._aligned(sources, found, switched) if alignment else found

        job = Job(
            self.tokenizers.source.encode_batch, task.read, task.size, answer, task.join, batch_tokens, window
        )
        return job.run(text)

    def score(
        self,
        text: str,
        translation: str | Translation,
        *,
        length_penalty: float = 0.6,
        remembered: Datastore | None = None,
        ablate: Part | Iterable[Part] = (),
    ) -> Translation:
        """What the model thinks of a given translation: the same with the score of a forced pass.

        A string is scored with the end behind it, a Translation as the tokens that it has, given ones too.
        """
        from regard.inference.scoring import forced

        target, ids = self.tokenizers.target, self._ids(translation)
        source = self._source("the text", text)
        self._check_remembered(remembered)
        chances = forced(self.model, [[target.start, *ids[:-1]]], [ids], [source], ablate, remembered)[0]
        score = float(np.cumsum(chances, dtype=np.float64)[-1])
        return Translation(
            translation if isinstance(translation, str) else translation.text,
            score,
            score / penalty_of(len(ids), length_penalty),
            Tokens(target, ids, chances.tolist()),
            "scored",
        )

    def align(
        self, text: str, translation: str | Translation, *, ablate: Part | Iterable[Part] = ()
    ) -> Alignment:
        """Which token of a text each token of its translation came from, by one forced pass."""
        from regard.inference.scoring import cross_weights

        target, ids = self.tokenizers.target, self._ids(translation)
        source = self._source("the text", text)
        if len(source) == 1:
            raise UsageError("the text is empty, so nothing can be aligned with it; give one that has words")
        weights = cross_weights(self.model, source, [target.start, *ids[:-1]], ablate)
        read = [piece.text for piece in self.tokenizers.source.tokens(text)]
        return Alignment((*read, ""), tuple(pieces(target, ids)), weights, ids[-1] == target.end)

    def alternatives(
        self,
        text: str,
        position: int,
        *,
        translation: str | Translation | None = None,
        top: int = 10,
        remembered: Datastore | None = None,
        ablate: Part | Iterable[Part] = (),
    ) -> list[Choice]:
        """What could stand at a position of a translation, given the tokens before it; the end has no text.

        Positions count tokens from 0. Without a translation, that of `translate` is meant.
        """
        from regard.model.watch import parts_of

        parts = parts_of(ablate)
        self._check_remembered(remembered)
        wanted = {"remembered": remembered, "ablate": parts}
        ids = self._ids(self.translate(text, **wanted) if translation is None else translation)
        if not 0 <= position < len(ids):
            raise SettingError(f"position ({position}) must lie between 0 and {len(ids) - 1}, the last")
        before, stepper = ids[:position], self._stepper(parts, remembered)
        prefix = np.array([self.tokenizers.target.start, *before])
        stepper.admit([prefix], [np.array(self._source("the text", text))])
        chances = stepper.step(prefix[-1:]).log_probabilities[0]
        check_numbers(chances)
        return choices(self.tokenizers.target, np.exp(chances), top, before)

    def remember(self, pairs: Iterable[tuple[str, str]]) -> Datastore:
        """Known translations, pairs of source and target, as this model meets them; see Remembered."""
        from regard.inference.rescoring.datastore import remember

        return remember(self.model, self.tokenizers, pairs)

    def tuned(self, remembered: Datastore, pairs: Iterable[tuple[str, str]]) -> Datastore:
        """The same with the recall under which other known translations are likeliest."""
        from regard.inference.rescoring.datastore import tuned

        return tuned(remembered, self.model, self.tokenizers, pairs)

    def _stepper(self, ablate: Sequence[Part], remembered: Datastore | None = None) -> Stepper:
        from regard.engine.torch_stepper import TorchStepper

        return TorchStepper(self.model, ablate=ablate, blend=remembered)

    def _check_remembered(self, remembered: Datastore | None) -> None:
        if remembered is not None:
            remembered.check(self.model)

    def _aligned(
        self, sources: list[Source], found: list[Translation], ablate: Sequence[Part]
    ) -> list[Translation]:
        pairs = zip(sources, found, strict=True)
        return [
            replace(each, alignment=self.align(source.text, each, ablate=ablate))
            if len(each.tokens)
            else each
            for source, each in pairs
        ]

    def _source(self, name: str, text: str) -> list[int]:
        """The ids that the encoder reads."""
        if not isinstance(text, str):
            raise UsageError(f"{name} must be a string, not {type(text).__name__}; ask for each by itself")
        return [*self._fitting(name, self.tokenizers.source.encode(text)), self.tokenizers.source.end]

    def _ids(self, translation: str | Translation) -> list[int]:
        """The ids of a translation: those it has, or those of a text with the end behind them."""
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
        if len(ids) >= self.config.context:
            raise ShapeError(
                f"{name} has {len(ids):,} tokens and this model has room for {self.config.context - 1:,}; "
                "shorten it"
            )
        return ids
