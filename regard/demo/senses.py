"""Words with two senses that the rest of the sentence settles: bank, Python, match, fan."""

from __future__ import annotations

from random import Random

from regard.demo.clauses import BECAUSE, is_called, question, statement
from regard.demo.lexicon import ADJECTIVES, NOUNS, VERBS
from regard.demo.people import NAMES, RELATIVES
from regard.demo.phrases import PRONOUNS, Phrase, Subject, named, noun_phrase, say, standing_for
from regard.demo.sentences import Sentence
from regard.demo.words import Noun, Tense, Word, listed

WATERS = listed("river stream canal lake pond")
STREETS = listed("street road avenue square park market")
BANKS = {**dict.fromkeys(WATERS, "bank:river"), **dict.fromkeys(STREETS, "bank:money")}
OF_BANK = {
    "bank:river": ["steep", "muddy", "slippery"],
    "bank:money": ["closed", "crowded", "modern"],
}
SOON = (VERBS["arrive at"], VERBS["go to"])
WAYS = ("arrive at", "go to", "return to", "walk to", "reach", "find")

ADVERBS = {
    "quickly": "rapidement",
    "slowly": "lentement",
    "every day": "chaque jour",
    "every morning": "chaque matin",
    "at night": "la nuit",
    "now": "maintenant",
    "here": "ici",
    "today": "aujourd'hui",
    "late": "tard",
    "soon": "bientôt",
    "loudly": "fort",
}
GRADED, WHENS = ("quickly", "slowly", "loudly"), ("every day", "every morning", "today", "now", "at night")
PACE, TIME, NIGHT = "quickly,slowly", "every day,every morning,now,here,today", "at night"

PROGRAM = Subject(("Python",), (Word("Python", "Python, the language"),))
SNAKE = Subject(("Python",), noun_phrase(NOUNS["Python:animal"]).french)
PYTHON = {
    "execute": (PROGRAM, f"{PACE},{TIME}"),
    "load": (PROGRAM, f"{PACE},{TIME}"),
    "start": (PROGRAM, f"{PACE},{TIME}"),
    "crash": (PROGRAM, TIME),
    "crawl": (SNAKE, f"{PACE},{TIME},{NIGHT}"),
    "eat": (SNAKE, f"{PACE},{TIME},{NIGHT}"),
    "swim": (SNAKE, f"{PACE},{TIME},{NIGHT}"),
    "hunt": (SNAKE, f"{TIME},{NIGHT}"),
    "sleep": (SNAKE, f"{TIME},{NIGHT}"),
}
OF_PROGRAM, OF_SNAKE = ["modern", "useful"], ["hungry", "tired", "lazy", "ill", "afraid"]
OTHERS = {
    "match:fire": {"burn": f"{PACE},now,here,today"},
    "match:sport": {"end": "late,soon,now,today", "begin": "late,soon,now,today"},
    "fan:air": {"spin": f"{PACE},{TIME},{NIGHT}"},
    "fan:sport": {"shout": f"loudly,{TIME}"},
}
OF_OTHERS = {"fan:air": ("broken", "useful"), "fan:sport": ("happy", "sad", "tired", "hungry", "angry")}
ONCE = ("quickly", "slowly", "late", "loudly", "today")


def walker(draw: Random) -> Subject:
    """Somebody who can go to a bank."""
    kind = draw.random()
    if kind < 0.55:
        return PRONOUNS[draw.choice(list(PRONOUNS))]
    if kind < 0.8:
        name = draw.choice(list(NAMES))
        return named(name, NAMES[name])
    if kind < 0.9:
        return noun_phrase(NOUNS[draw.choice(("child", "man", "woman"))])
    return noun_phrase(NOUNS[draw.choice(RELATIVES)], draw.choice(("my", "our")))


def bank(draw: Random) -> Sentence:
    """ "I arrived at the bank after crossing the river": la rive; "... the street": la banque."""
    place = draw.choice(list(BANKS))
    across, the_bank = noun_phrase(NOUNS[place]), noun_phrase(NOUNS[BANKS[place]])
    beyond = say("across", "de:on le autre côté de") + across
    kind = draw.random()
    if kind > 0.85:
        return _bank_is(draw, BANKS[place], the_bank if draw.random() < 0.2 else _joined(the_bank, beyond))
    if kind > 0.7:
        goal = say("to go to", "pour aller à") + the_bank
        return Sentence(statement(walker(draw), VERBS["cross"], "past", across + goal))
    way = VERBS[draw.choice(WAYS)]
    tense: Tense = "future" if way in SOON and draw.random() < 0.2 else "past"
    crossing = say("after crossing", "après avoir traversé:crossed") + across
    where = the_bank + (crossing if kind < 0.45 else beyond)
    return Sentence(statement(walker(draw), way, tense, where, negated=draw.random() < 0.1))


def _bank_is(draw: Random, sense: str, subject: Subject) -> Sentence:
    """ "The bank across the river was muddy." """
    quality = ADJECTIVES[draw.choice(OF_BANK[sense])]
    tense: Tense = draw.choice(("present", "past"))
    return Sentence(is_called(subject, quality, tense, negated=draw.random() < 0.2))


def _joined(head: Subject, tail: Phrase) -> Subject:
    return Subject(
        head.english + tail.english, head.french + tail.french, head.person, head.gender, head.plural
    )


def how_and_when(draw: Random, adverbs: str) -> Phrase:
    """One adverb after the verb, or two: "very quickly every day", très rapidement chaque jour."""
    first = draw.choice(adverbs.split(","))
    degree = draw.choice((("very", "très"), ("too", "trop"), ("", ""))) if first in GRADED else ("", "")
    how = say(*degree) + say(first, ADVERBS[first])
    second = [one for one in WHENS if one in adverbs.split(",")] if first in GRADED else []
    if second and draw.random() < 0.4:
        when = draw.choice(second)
        how += say(when, ADVERBS[when])
    return how


def python(draw: Random) -> Sentence:
    """ "Python executes quickly", Python; "Python crawls quickly", le python."""
    verb = draw.choice(list(PYTHON))
    subject, adverbs = PYTHON[verb]
    kind = draw.random()
    qualities = OF_PROGRAM if subject is PROGRAM else OF_SNAKE
    quality = ADJECTIVES[draw.choice(qualities)]
    if kind < 0.25:
        degree = draw.choice(("very", ""))
        return Sentence(is_called(subject, quality, "present", degree, negated=draw.random() < 0.3))
    how = how_and_when(draw, adverbs)
    if kind < 0.4:
        return Sentence(question(subject, VERBS[verb], "present", how), "?")
    clause = statement(subject, VERBS[verb], "present", how, negated=draw.random() < 0.3)
    if kind < 0.6:
        it = standing_for(NOUNS["Python:animal"])
        return Sentence(clause + BECAUSE + is_called(it, quality))
    return Sentence(clause)


def two_senses(draw: Random) -> Sentence:
    """ "The match burns quickly", l'allumette; "The match ends late", le match."""
    sense = draw.choice(list(OTHERS))
    noun: Noun = NOUNS[sense]
    subject = noun_phrase(
        noun, draw.choice(("the", "this") if sense == "match:fire" else ("the", "this", "our"))
    )
    if sense in OF_OTHERS and draw.random() < 0.25:
        quality = ADJECTIVES[draw.choice(OF_OTHERS[sense])]
        return Sentence(is_called(subject, quality, draw.choice(("present", "past"))))
    verb = draw.choice(list(OTHERS[sense]))
    how = how_and_when(draw, OTHERS[sense][verb])
    if draw.random() < 0.2:
        return Sentence(question(subject, VERBS[verb], "present", how), "?")
    tense: Tense = "past" if how.english[-1] in ONCE and draw.random() < 0.5 else "present"
    return Sentence(statement(subject, VERBS[verb], tense, how, negated=draw.random() < 0.2))
