"""The promised quality and time of the demo, and their check."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from regard.demo.corpus import Corpus
from regard.demo.lectures import LECTURES, REVERSED, Lecture
from regard.inference.translator import Translator


@dataclass(frozen=True)
class Promises:
    """The minimum exact match on the test set, and the maximum seconds of the whole command."""

    exact_match: float
    seconds: float


# All sentences of the lectures must be right too. The time limit holds for English to French.
PROMISES = {"demo": Promises(0.99, 180.0), "demo-reverse": Promises(0.99, float("inf"))}


@dataclass(frozen=True)
class Judgement:
    """The results of a model on the test set and on the lectures' sentences."""

    exact_match: float
    lectures_right: int
    lectures_total: int
    tested: int


@dataclass(frozen=True)
class Verdict:
    """The result of `--check`; its fields are those of the JSON output."""

    exact_match: float
    lectures_right: int
    lectures_total: int
    seconds: float

    @classmethod
    def of(cls, facts: Mapping[str, Any], seconds: float) -> Verdict:
        """From the facts of a model and the seconds of the command."""
        return cls(facts["exact_match"], facts["lectures_right"], facts["lectures_total"], seconds)

    def missed(self, promises: Promises) -> list[str]:
        """A sentence for each promise that was not kept."""
        missed = []
        if self.exact_match < promises.exact_match:
            exact, promised = 100 * self.exact_match, 100 * promises.exact_match
            missed.append(f"exact match is {exact:.2f} %, and {promised:.0f} % is promised")
        if self.lectures_right < self.lectures_total:
            wrong = self.lectures_total - self.lectures_right
            missed.append(f"{wrong} of the lectures' {self.lectures_total} sentences are not right")
        if self.seconds > promises.seconds:
            missed.append(f"it took {self.seconds:.0f} seconds, and {promises.seconds:.0f} are promised")
        return missed

    def as_dict(self) -> dict[str, Any]:
        """The fields by name."""
        return asdict(self)


def lectures_for(facts: Mapping[str, Any]) -> tuple[Lecture, ...]:
    """The lectures' sentences in the source language of this model."""
    return REVERSED if facts["name"] == "demo-reverse" else LECTURES


def translate(translator: Translator, texts: Sequence[str]) -> list[str]:
    """Greedy translations, as the demo shows them."""
    return [translation.text for translation in translator.translate(list(texts), beams=1)]


def judge(translator: Translator, sentences: Corpus) -> Judgement:
    """Translate the test set, which has new combinations of words, and the lectures' sentences."""
    outputs = translate(translator, [pair.source for pair in sentences.test])
    exact = sum(text == pair.target for text, pair in zip(outputs, sentences.test, strict=True))
    answers = translate(translator, [lecture.source for lecture in sentences.lectures])
    right = sum(counted(sentences.lectures, answers))
    return Judgement(exact / len(outputs), right, len(answers), len(outputs))


def counted(lectures: Sequence[Lecture], answers: Sequence[str]) -> list[bool]:
    """Whether each sentence counts as right; the sentences of a pair count only if both are right."""
    right = [lecture.accepts(answer) for lecture, answer in zip(lectures, answers, strict=True)]
    broken = {lecture.pair for lecture, is_right in zip(lectures, right, strict=True) if not is_right}
    return [
        is_right and not (lecture.pair and lecture.pair in broken)
        for lecture, is_right in zip(lectures, right, strict=True)
    ]
