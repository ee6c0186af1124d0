"""What the demo promises, and whether a trained model keeps it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from regard.demo.corpus import Corpus
from regard.demo.lectures import LECTURES, REVERSED, Lecture
from regard.inference.translator import Translator


@dataclass(frozen=True)
class Promises:
    """At least this share of the test translated to the letter, and at most so many seconds for it all."""

    exact_match: float
    seconds: float


# Every lecture's sentence must be right besides. The three minutes are those of English to French.
PROMISES = {"demo": Promises(0.99, 180.0), "demo-reverse": Promises(0.99, float("inf"))}


@dataclass(frozen=True)
class Judgement:
    """How well a model translates what it never met."""

    exact_match: float
    lectures_right: int
    lectures_total: int
    tested: int


@dataclass(frozen=True)
class Verdict:
    """What `--check` found; its fields are those of the JSON that programs read."""

    exact_match: float
    lectures_right: int
    lectures_total: int
    seconds: float

    @classmethod
    def of(cls, facts: Mapping[str, Any], seconds: float) -> Verdict:
        """From what is known of a model, and how long it all took."""
        return cls(facts["exact_match"], facts["lectures_right"], facts["lectures_total"], seconds)

    def missed(self, promises: Promises) -> list[str]:
        """Each promise that was not kept, in words."""
        found = []
        if self.exact_match < promises.exact_match:
            exact, promised = 100 * self.exact_match, 100 * promises.exact_match
            found.append(f"exact match is {exact:.2f} %, and {promised:.0f} % is promised")
        if self.lectures_right < self.lectures_total:
            wrong = self.lectures_total - self.lectures_right
            found.append(f"{wrong} of the lectures' {self.lectures_total} sentences are not right")
        if self.seconds > promises.seconds:
            found.append(f"it took {self.seconds:.0f} seconds, and {promises.seconds:.0f} are promised")
        return found

    def as_dict(self) -> dict[str, Any]:
        """The same for JSON."""
        return asdict(self)


def lectures_for(facts: Mapping[str, Any]) -> tuple[Lecture, ...]:
    """The sentences that this model is asked."""
    return REVERSED if facts["name"] == "demo-reverse" else LECTURES


def translate(translator: Translator, texts: Sequence[str]) -> list[str]:
    """The demo's translations: the likeliest word each time."""
    return [found.text for found in translator.translate(list(texts), beams=1)]


def judge(translator: Translator, sentences: Corpus) -> Judgement:
    """Translate the test, which asks for new combinations, and the lectures' sentences."""
    found = translate(translator, [pair.source for pair in sentences.test])
    exact = sum(text == pair.target for text, pair in zip(found, sentences.test, strict=True))
    answers = translate(translator, [lecture.source for lecture in sentences.lectures])
    right = sum(counted(sentences.lectures, answers))
    return Judgement(exact / len(found), right, len(answers), len(found))


def counted(lectures: Sequence[Lecture], answers: Sequence[str]) -> list[bool]:
    """Whether each sentence counts as right: those of a pair only where all of the pair are."""
    right = [lecture.accepts(answer) for lecture, answer in zip(lectures, answers, strict=True)]
    broken = {lecture.pair for lecture, is_right in zip(lectures, right, strict=True) if not is_right}
    return [
        is_right and not (lecture.pair and lecture.pair in broken)
        for lecture, is_right in zip(lectures, right, strict=True)
    ]
