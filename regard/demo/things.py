"""Sentences about things: what they are like, and where they are."""

from __future__ import annotations

from random import Random

from regard.demo.clauses import is_called, question, statement, there_is
from regard.demo.lexicon import ADJECTIVES, COUNTED, NOUNS, VERBS
from regard.demo.phrases import NUMBERS, Phrase, Subject, noun_phrase, say
from regard.demo.scenes import (
    INSIDE,
    LEAPERS,
    LEAPT,
    ROAMED,
    ROAMERS,
    SCENES,
    STATES,
    SUITED,
    TITLED,
    UPON,
)
from regard.demo.sentences import Sentence
from regard.demo.words import Tense

SUITING = {
    noun: [
        (qualities.split(), colours.split()) for nouns, qualities, colours in SUITED if noun in nouns.split()
    ]
    for noun in NOUNS
}
PLACED = [
    (thing, (preposition, place))
    for preposition, places in ((("in", "dans"), INSIDE), (("on", "sur"), UPON))
    for place, things in places.items()
    for thing in things.split()
]
SHOWN = [noun for noun in NOUNS if SUITING[noun] and noun not in ("bread", "cheese", "soup", "fish")]
TITLES = [(one, noun) for nouns, found in TITLED for noun in nouns.split() for one in found.split()]
WILD = ("fox", "wolf", "bear", "owl", "bird", "creature", "mouse", "lion", "elephant", "animal")
DRUNK = ("water", "milk", "soup", "bread", "cheese")
# What is said of places and things in the scenes of reasons.
QUALITIES = sorted(
    {(noun, one) for scene in SCENES for noun, found in scene.of_object.items() for one in found.split()}
    | {(noun, one) for noun, found in STATES.items() for one in found.split()}
)


def described(
    draw: Random, noun: str, determiner: str = "the", plural: bool = False, most: int = 2
) -> tuple[Subject, tuple[str, ...]]:
    """A noun with up to so many adjectives that suit it, and the combinations that makes."""
    chosen: list[str] = []
    if most and SUITING[noun]:
        qualities, colours = draw.choice(SUITING[noun])
        kind = draw.random()
        if kind < 0.75 or not colours:
            chosen.append(draw.choice(qualities))
        if colours and (kind >= 0.75 or (most > 1 and kind < 0.4)):
            chosen.append(draw.choice(colours))
    phrase = noun_phrase(NOUNS[noun], determiner, tuple(ADJECTIVES[one] for one in chosen), plural)
    return phrase, tuple(f"{one} {noun}" for one in chosen)


def bare_phrase(draw: Random) -> Sentence:
    """ "a small blue house" without a verb, as on a label."""
    noun = draw.choice(SHOWN)
    several = noun in COUNTED and draw.random() < 0.6
    number = (
        draw.choice(list(NUMBERS))
        if several
        else draw.choice(("a", "a", "the", "this", "the" if noun in WILD else "my"))
    )
    phrase, met = described(draw, noun, number, several)
    return Sentence(phrase, "", met, usual="lower", styles=("bare",))


def title(draw: Random) -> Sentence:
    """ "Thinking Machines"; "Small Robots and Talking Animals": French titles have one capital."""
    (one, noun), (other, second) = draw.sample(TITLES, 2)
    phrase: Phrase = noun_phrase(NOUNS[noun], "", (ADJECTIVES[one],), plural=True)
    if draw.random() < 0.3:
        return Sentence(phrase, "", (f"{one} {noun}",), "title")
    phrase += say("and", "et") + noun_phrase(NOUNS[second], "", (ADJECTIVES[other],), plural=True)
    return Sentence(phrase, "", (f"{one} {noun}", f"{other} {second}"), "title")


def roaming(draw: Random) -> Sentence:
    """ "A fluffy blue creature roamed the verdant forest", or watched it or lived there."""
    noun = draw.choice(ROAMERS)
    verb = draw.choice(("roam", "roam", "watch", "live in"))
    place = draw.choice(ROAMED[:-2] if verb == "live in" else ROAMED)
    plural = noun in COUNTED and draw.random() < 0.4
    number = draw.choice(("the", *NUMBERS)) if plural else draw.choice(("a", "the"))
    who, met = described(draw, noun, number, plural)
    where, met_there = described(draw, place, most=1 if draw.random() < 0.7 else 0)
    tense: Tense = draw.choice(("past", "past", "present"))
    return Sentence(statement(who, VERBS[verb], tense, where), combinations=met + met_there)


def leaping(draw: Random) -> Sentence:
    """ "The quick brown fox jumps over the lazy dog." """
    noun = draw.choice(LEAPERS)
    over = draw.choice([one for one in LEAPT if one != noun])
    who, met = described(draw, noun)
    what, met_there = described(draw, over, most=1)
    tense: Tense = draw.choice(("present", "past"))
    clause = statement(who, VERBS["jump over"], tense, what, negated=draw.random() < 0.1)
    return Sentence(clause, combinations=met + met_there)


def quick_brown_fox() -> Sentence:
    """The sentence that uses every letter."""
    quick_brown = (ADJECTIVES["quick"], ADJECTIVES["brown"])
    fox = noun_phrase(NOUNS["fox"], "the", quick_brown)
    dog = noun_phrase(NOUNS["dog"], "the", (ADJECTIVES["lazy"],))
    met = ("quick fox", "brown fox", "lazy dog")
    return Sentence(statement(fox, VERBS["jump over"], "present", dog), combinations=met)


def placed(draw: Random) -> Sentence:
    """ "There are three eggs in the basket"; "The key is on the table"; "Is the key on the table?" """
    thing, place = draw.choice(PLACED)
    there = say(*place[0]) + noun_phrase(NOUNS[place[1]])
    plural = thing in COUNTED and draw.random() < 0.6
    tense: Tense = draw.choice(("present", "past"))
    if draw.random() < 0.5:
        number = draw.choice(("some", *NUMBERS)) if plural else "a"
        what, met = described(draw, thing, number, plural, most=1 if draw.random() < 0.6 else 0)
        return Sentence(there_is(what, tense) + there, combinations=met)
    owner = "the" if thing in WILD else draw.choice(("the", "the", "my", "your", "our"))
    what, met = described(draw, thing, owner, plural, most=1 if draw.random() < 0.4 else 0)
    kind = draw.random()
    if kind < 0.2:
        return Sentence(_where_is(what, tense), "?", met)
    if kind < 0.35:
        return Sentence(question(what, VERBS["be"], tense, there), "?", met)
    return Sentence(statement(what, VERBS["be"], tense, there, negated=draw.random() < 0.2), combinations=met)


def _where_is(what: Subject, tense: Tense) -> Phrase:
    """ "Where is the key?", où est la clé ?"""
    clause = statement(what, VERBS["be"], tense)
    is_, est = clause.english[len(what.english) :], clause.french[len(what.french) :]
    return say("where", "où") + Phrase(is_ + what.english, est + what.french)


def quality(draw: Random) -> Sentence:
    """ "The street was narrow." """
    noun, one = draw.choice(QUALITIES)
    adjective = ADJECTIVES[one]
    owner = "our" if noun not in DRUNK and draw.random() < 0.2 else "the"
    what = noun_phrase(NOUNS[noun], owner)
    tense: Tense = draw.choice(("present", "past"))
    degree = draw.choice(("too", "", "") if one == "crowded" else ("too", "very", "", ""))
    degree = degree if adjective.gradable else ""
    negated = not degree and draw.random() < 0.3
    clause = is_called(what, adjective, tense, degree, negated)
    return Sentence(clause, combinations=(f"{one} {noun}",))
