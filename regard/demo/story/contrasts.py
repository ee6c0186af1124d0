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
from regard.demo.people import CALLING, FIELDS, MEN, WOMEN, field
from regard.demo.phrases import Phrase, Subject, he_or_she, named, noun_phrase, say, standing_for
from regard.demo.scenes import SCENES
from regard.demo.senses import BANKS, STREETS, WATERS, WAYS, walker
from regard.demo.sentences import Sentence, same
from regard.demo.words import Verb

SEED = 20
KNOWING = ("love", "know", "understand")
MOODS = {"invite": ("happy", "nervous", "curious"), "call": CALLING}


class Reference(NamedTuple):
    """A sentence, one of its words, and the word that it refers to."""

    text: str
    word: str
    referent: str


Contrast = tuple[Reference, Reference]


def contrasts(corpus: Corpus, word: str, pairs: int) -> list[Contrast]:
    """Distinct pairs of sentences with "it", "she" or "bank", none of them in training."""
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
    """ "Fatima called Paul because she was ill" and "Paul called Fatima because she loves physics".

    The woman is named first in one sentence and second in the other.
    """
    woman, man = named(draw.choice(WOMEN), "f"), named(draw.choice(MEN), "m")
    (name,), she = woman.english, he_or_she(woman.english[0], "f")
    verb = draw.choice(("invite", "call"))
    topic = field(draw.choice(list(FIELDS)), article=True)
    mood = ADJECTIVES[draw.choice(MOODS[verb])]

    def because(caller: Subject, called: Subject, why: Phrase) -> Reference:
        return Reference(
            _written(statement(caller, VERBS[verb], "past", called) + BECAUSE + why), "she", name
        )

    knows = statement(she, VERBS[draw.choice(KNOWING)], "present", topic)
    return because(woman, man, is_called(she, mood, "past")), because(man, woman, knows)


def _bank(draw: Random) -> Contrast:
    """ "I arrived at the bank after crossing the river" and "... the street", or with the bank last."""
    frame, who, way = draw.choice((_after, _beyond, _before)), walker(draw), VERBS[draw.choice(WAYS)]

    def about(place: str) -> Reference:
        the_bank, across = noun_phrase(NOUNS[BANKS[place]]), noun_phrase(NOUNS[place])
        return Reference(_written(frame(who, way, the_bank, across)), "bank", place)

    return about(draw.choice(WATERS)), about(draw.choice(STREETS))


def _after(who: Subject, way: Verb, the_bank: Phrase, across: Phrase) -> Phrase:
    crossing = say("after crossing", "après avoir traversé:crossed") + across
    return statement(who, way, "past", the_bank + crossing)


def _beyond(who: Subject, way: Verb, the_bank: Phrase, across: Phrase) -> Phrase:
    return statement(who, way, "past", the_bank + say("across", "de:on le autre côté de") + across)


def _before(who: Subject, way: Verb, the_bank: Phrase, across: Phrase) -> Phrase:
    goal = say("to go to", "pour aller à") + the_bank
    return statement(who, VERBS["cross"], "past", across + goal)


DRAWN: dict[str, Callable[[Random], Contrast]] = {
    "it": _it,
    "she": _she,
    "bank": _bank,
}
