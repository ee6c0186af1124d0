"""Sentences in which the last word settles what "it" is."""

from __future__ import annotations

from itertools import accumulate
from random import Random

from regard.demo.clauses import BECAUSE, is_called, statement
from regard.demo.lexicon import ADJECTIVES, COUNTED, NOUNS, VERBS
from regard.demo.phrases import Subject, noun_phrase, standing_for
from regard.demo.scenes import CONTAINERS, PACKED, SCENES
from regard.demo.sentences import Sentence
from regard.demo.words import Tense, listed

PETS = frozenset(listed("dog cat horse rabbit donkey cow tortoise goat hen goose"))
PLURAL = frozenset(one for one in COUNTED if one not in ("robot", "machine", "car", "truck"))
SHARED = frozenset(listed("tired ill lazy young nervous hungry thirsty afraid sleepy"))
COLOURED = frozenset(listed("dog cat horse fox wolf bear rabbit donkey cow mouse goat hen goose bird"))
OWNERS = ("my", "our", "your")
LOOKS = tuple(ADJECTIVES[one] for one in ("small", "old", "black", "white", "brown", "grey"))
# A scene is drawn as often as it has things to say.
WIDTHS = tuple(
    accumulate(len(one.subjects.split()) * len(" ".join(one.of_object.values()).split()) for one in SCENES)
)


def because_it(draw: Random) -> Sentence:
    """ "The animal did not cross the street because it was too tired." """
    scene = draw.choices(SCENES, cum_weights=WIDTHS)[0]
    subject = draw.choice(scene.subjects.split())
    thing = draw.choice(list(scene.of_object))
    of_subject = draw.random() < 0.5
    reason = ADJECTIVES[draw.choice((scene.of_subject if of_subject else scene.of_object[thing]).split())]
    several = subject in PLURAL and (reason.english in SHARED or not of_subject) and draw.random() < 0.2
    tense: Tense = "past" if several or draw.random() < 0.7 else "present"
    doer, looks = _doer(draw, subject, several, plain=reason.english == "young")
    deed = statement(doer, VERBS[scene.verb], tense, noun_phrase(NOUNS[thing]), scene.negated)
    it = standing_for(NOUNS[subject], several) if of_subject else standing_for(NOUNS[thing])
    degree = "too" if scene.negated and reason.gradable and draw.random() < 0.7 else ""
    met = (f"{subject}/{thing}", f"{reason.english} {subject if of_subject else thing}", *looks)
    return Sentence(deed + BECAUSE + is_called(it, reason, tense, degree), combinations=met)


def _doer(draw: Random, subject: str, several: bool, plain: bool) -> tuple[Subject, tuple[str, ...]]:
    """Who does it, now and then with an owner or a colour, and the combination that makes."""
    owner = draw.choice(OWNERS) if subject in PETS and draw.random() < 0.15 else "the"
    if plain or draw.random() > 0.1:
        return noun_phrase(NOUNS[subject], owner, (), several), ()
    look = draw.choice(LOOKS if subject in COLOURED else LOOKS[:2])
    return noun_phrase(NOUNS[subject], owner, (look,), several), (f"{look.english} {subject}",)


def does_not_fit(draw: Random) -> Sentence:
    """ "The trophy did not fit in the suitcase because it was too big." """
    packed, container = draw.choice(list(PACKED)), draw.choice(list(CONTAINERS))
    of_packed = draw.random() < 0.5
    reason = ADJECTIVES[draw.choice((PACKED[packed] if of_packed else CONTAINERS[container]).split())]
    tense: Tense = draw.choice(("past", "past", "present"))
    place = noun_phrase(NOUNS[container], draw.choice(("the", "the", "my", "this")))
    deed = statement(noun_phrase(NOUNS[packed]), VERBS["fit in"], tense, place, negated=True)
    thing = packed if of_packed else container
    combinations = (f"{packed}/{container}", f"{reason.english} {thing}")
    why = is_called(standing_for(NOUNS[thing]), reason, tense, "too")
    return Sentence(deed + BECAUSE + why, combinations=combinations)
