"""Pairs of sentences of the grammar in which one word refers to different things.

"The animal didn't cross the street because it was too tired" and "... too wide" are such a pair. A head that
always attends to one position is right in at most one sentence of a pair.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from random import Random
from typing import NamedTuple

from regard.demo.clauses import BECAUSE, is_called, statement
from regard.demo.corpus import Corpus, is_held_out
from regard.demo.lexicon import ADJECTIVES, NOUNS, VERBS
from regard.demo.people import FIELDS, MEN, OFFERS, TAKEN, TOPIC, WOMEN, field
from regard.demo.phrases import Phrase, Subject, he_or_she, named, noun_phrase, say, standing_for
from regard.demo.scenes import SCENES
from regard.demo.senses import BANKS, STREETS, WATERS, WAYS, walker
from regard.demo.sentences import Sentence, same

SEED = 20
KNOWING = ("love", "know", "understand")


class Reference(NamedTuple):
    """A sentence, one of its words, and the word that it refers to."""

    text: str
    word: str
    referent: str


Contrast = tuple[Reference, Reference]


def contrasts(corpus: Corpus, word: str, pairs: int) -> list[Contrast]:
    """Distinct pairs of sentences with "it", "she", "she or he" or "bank", none of them in training."""
    known = {same(pair.english) for pair in corpus.train}
    return list(islice(_unknown(DRAWN[word], Random(SEED), known), pairs))


def _unknown(drawn: Callable[[Random], Contrast], draw: Random, known: set[str]) -> Iterator[Contrast]:
    while True:
        contrast = drawn(draw)
        texts = {same(reference.text) for reference in contrast}
        if len(texts) == 2 and known.isdisjoint(texts):
            known |= texts
            yield contrast


def _written(phrase: Phrase, short: bool = False) -> str:
    return Sentence(phrase).pair("", "written", short).source


def _it(draw: Random) -> Contrast:
    """ "... because it was too tired" and "... too wide": nouns of two genders that never met in training."""
    while True:
        scene = draw.choice(SCENES)
        subject, thing = draw.choice(scene.subjects.split()), draw.choice(list(scene.of_object))
        if NOUNS[subject].gender != NOUNS[thing].gender and is_held_out(f"{subject}/{thing}"):
            break
    deed = statement(
        noun_phrase(NOUNS[subject]), VERBS[scene.verb], "past", noun_phrase(NOUNS[thing]), scene.negated
    )
    reasons = draw.choice(scene.of_subject.split()), draw.choice(scene.of_object[thing].split())
    short, degree = draw.random() < 0.5, "too" if scene.negated and draw.random() < 0.5 else ""

    def about(noun: str, reason: str) -> Reference:
        adjective = ADJECTIVES[reason]
        why = is_called(standing_for(NOUNS[noun]), adjective, "past", degree if adjective.gradable else "")
        return Reference(_written(deed + BECAUSE + why, short), "it", noun)

    return about(subject, reasons[0]), about(thing, reasons[1])


def _she(draw: Random) -> Contrast:
    """Two women who "accepted a job in deep learning because she loves the topic"."""
    verb, knows = VERBS[draw.choice(TAKEN)], VERBS[draw.choice(KNOWING)]
    offer = noun_phrase(NOUNS[draw.choice(OFFERS)], "a") + say("in", "en")
    offer += field(draw.choice(list(FIELDS)), article=False)

    def about(name: str) -> Reference:
        why = statement(he_or_she(name, "f"), knows, "present", TOPIC)
        return Reference(
            _written(statement(named(name, "f"), verb, "past", offer) + BECAUSE + why), "she", name
        )

    first, second = draw.sample(WOMEN, 2)
    return about(first), about(second)


def _she_or_he(draw: Random) -> Contrast:
    """ "Paul called Fatima because she understands physics" and "... he ...": a woman and a man."""
    woman, man = named(draw.choice(WOMEN), "f"), named(draw.choice(MEN), "m")
    caller, called = draw.sample((woman, man), 2)
    deed = statement(caller, VERBS[draw.choice(("invite", "call"))], "past", called)
    knows, topic = VERBS[draw.choice(KNOWING)], field(draw.choice(list(FIELDS)), article=True)

    def about(person: Subject) -> Reference:
        pronoun, name = he_or_she(person.english[0], person.gender), person.english[0]
        why = statement(pronoun, knows, "present", topic)
        return Reference(_written(deed + BECAUSE + why), pronoun.english[0], name)

    return about(woman), about(man)


def _bank(draw: Random) -> Contrast:
    """ "I arrived at the bank after crossing the river" and "... the street"."""
    who, way = walker(draw), VERBS[draw.choice(WAYS)]

    def after(place: str) -> Reference:
        crossing = say("after crossing", "après avoir traversé:crossed") + noun_phrase(NOUNS[place])
        where = noun_phrase(NOUNS[BANKS[place]]) + crossing
        return Reference(_written(statement(who, way, "past", where)), "bank", place)

    return after(draw.choice(WATERS)), after(draw.choice(STREETS))


DRAWN: dict[str, Callable[[Random], Contrast]] = {
    "it": _it,
    "she": _she,
    "she or he": _she_or_he,
    "bank": _bank,
}
