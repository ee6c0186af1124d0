"""Sentences about people: who "she" is, what they are by profession, how they feel."""

from __future__ import annotations

from random import Random

from regard.demo.clauses import BECAUSE, is_called, question, statement
from regard.demo.lexicon import ADJECTIVES, NOUNS, PROFESSION, VERBS
from regard.demo.phrases import (
    PRONOUNS,
    YOU_ALL,
    Phrase,
    Subject,
    he_or_she,
    inflect,
    named,
    noun_phrase,
    say,
)
from regard.demo.sentences import Sentence
from regard.demo.words import Gender, Tense, listed

WOMEN = listed("Fatima Rashonda Marie Sophie Anna Julie Amina Claire")
MEN = listed("Paul Pierre Omar Lucas David Karim Thomas Marc")
NAMES: dict[str, Gender] = {**dict.fromkeys(WOMEN, "f"), **dict.fromkeys(MEN, "m")}

# A field of study as it stands after aimer; after en it has no article.
FIELDS = {
    "deep learning": "le apprentissage profond",
    "machine learning": "le apprentissage automatique",
    "physics": "la physique",
    "history": "la histoire",
    "medicine": "la médecine",
    "law": "le droit",
    "music": "la musique",
    "computer science": "la informatique",
}
OFFERS = ("job", "internship", "course")
TAKEN = ("accept", "choose", "find")
LEFT = ("refuse", "leave")
RELATIVES = ("brother", "sister", "friend")
FORETOLD: tuple[Tense, ...] = ("present", "past", "future")
CALLING = listed("ill sad afraid nervous hungry tired")
TOPIC = noun_phrase(NOUNS["topic"])
FEELINGS = listed("tired ill lazy young nervous happy sad angry hungry thirsty afraid")


def field(name: str, article: bool) -> Phrase:
    """A field of study: la physique, or after en only physique."""
    whole = say(name, FIELDS[name])
    return whole if article else Phrase(whole.english, whole.french[1:])


def because_she(draw: Random) -> Sentence:
    """ "Fatima accepted a job in deep learning because she loves the topic." """
    name, subject = draw.choice(list(NAMES)), draw.choice(list(FIELDS))
    taken = draw.random() < 0.6
    verb = VERBS[draw.choice(TAKEN if taken else LEFT)]
    new = (ADJECTIVES["new"],) if draw.random() < 0.15 else ()
    offer = (
        noun_phrase(NOUNS[draw.choice(OFFERS)], "a", new) + say("in", "en") + field(subject, article=False)
    )
    deed = statement(named(name, NAMES[name]), verb, "past", offer)
    she = he_or_she(name, NAMES[name])
    why = _why_taken(draw, she, subject) if taken else _why_left(draw, she, subject)
    return Sentence(deed + BECAUSE + why, combinations=(f"{name}/{subject}",))


def _why_taken(draw: Random, she: Subject, subject: str) -> Phrase:
    kind = draw.random()
    if kind < 0.45:
        return statement(she, VERBS[draw.choice(("love", "know", "understand"))], "present", TOPIC)
    if kind < 0.65:
        return statement(she, VERBS["love"], "present", field(subject, article=True))
    if kind < 0.8:
        return is_called(she, ADJECTIVES["curious"], draw.choice(("present", "past")))
    if kind < 0.9:
        return Phrase(she.english, she.french) + say("needs money", "a:has besoin de argent")
    return Phrase(she.english, she.french) + say("wants to travel", "veut:wants voyager")


def _why_left(draw: Random, she: Subject, subject: str) -> Phrase:
    kind = draw.random()
    if kind < 0.2:
        return statement(she, VERBS["hate"], "present", TOPIC)
    if kind < 0.4:
        verb = VERBS[draw.choice(("love", "know", "understand"))]
        return statement(she, verb, "present", TOPIC, negated=True)
    if kind < 0.6:
        better = draw.choice([one for one in FIELDS if one != subject])
        return statement(she, VERBS["prefer"], "present", field(better, article=True))
    mood = ADJECTIVES[draw.choice(("tired", "ill", "busy", "sad", "angry"))]
    return is_called(she, mood, "past", draw.choice(("", "too" if mood.gradable else "")))


def meeting(draw: Random) -> Sentence:
    """ "Paul called Fatima because she understands physics": she is the woman, he the man."""
    one, other = draw.choice(WOMEN), draw.choice(MEN)
    if draw.random() < 0.5:
        one, other = other, one
    verb = VERBS[draw.choice(("invite", "call"))]
    deed = statement(named(one, NAMES[one]), verb, "past", named(other, NAMES[other]))
    if draw.random() < 0.5:
        mood = draw.choice(["happy", "nervous", "curious"] if verb is VERBS["invite"] else CALLING)
        why = is_called(he_or_she(one, NAMES[one]), ADJECTIVES[mood], "past")
    else:
        loves = VERBS[draw.choice(("love", "know", "understand"))]
        topic = field(draw.choice(list(FIELDS)), article=True)
        why = statement(he_or_she(other, NAMES[other]), loves, "present", topic)
    return Sentence(deed + BECAUSE + why, combinations=(f"{one}/{other}",))


def glad_or_sad(draw: Random) -> Sentence:
    """ "Marie is happy because she found a job." """
    name = draw.choice(list(NAMES))
    glad = draw.random() < 0.5
    mood = ADJECTIVES[draw.choice(("happy",) if glad else ("sad", "angry", "nervous"))]
    thing = draw.choice(("key", "book", "letter", "hat", "coat", "dog", "cat", "bag", "suitcase", "guitar"))
    own = noun_phrase(NOUNS[thing], "her" if NAMES[name] == "f" else "his")
    lost = statement(he_or_she(name, NAMES[name]), VERBS["find" if glad else "lose"], "past", own)
    return Sentence(is_called(named(name, NAMES[name]), mood) + BECAUSE + lost)


def someone(draw: Random) -> Subject:
    """A pronoun, a name or a relative."""
    kind = draw.random()
    if kind < 0.7:
        return PRONOUNS[draw.choice(list(PRONOUNS))]
    if kind < 0.9:
        name = draw.choice(list(NAMES))
        return named(name, NAMES[name])
    owner = draw.choice(("my", "your", "our"))
    return noun_phrase(NOUNS[draw.choice(RELATIVES)], owner)


def may_be_asked(who: Subject) -> bool:
    """Whether one would ask about them: hardly about oneself or one's own sister."""
    return who.person not in (0, 2) and who.english[0] not in ("my", "our")


def identity(draw: Random) -> Sentence:
    """ "I am a student", je suis étudiant: French names a profession without an article."""
    who = YOU_ALL if draw.random() < 0.08 else someone(draw)
    profession = PROFESSION[draw.choice(list(PROFESSION))]
    english = (profession.english + "s",) if who.plural else ("a", profession.english)
    what = Phrase(english, inflect(profession, who.gender, who.plural))
    tense: Tense = "past" if draw.random() < 0.35 else "present"
    if may_be_asked(who) and draw.random() < 0.2:
        return Sentence(question(who, VERBS["be"], tense, what), "?")
    return Sentence(statement(who, VERBS["be"], tense, what, negated=draw.random() < 0.25))


def feeling(draw: Random) -> Sentence:
    """ "She is very tired." """
    who = someone(draw)
    mood = ADJECTIVES[draw.choice(FEELINGS)]
    tense: Tense = draw.choice(
        FORETOLD if mood.verb == "be" and mood.english != "young" else ("present", "past")
    )
    if mood.gradable and mood.english != "angry" and draw.random() < 0.3:
        return Sentence(is_called(who, mood, tense, draw.choice(("very", "too"))))
    return Sentence(is_called(who, mood, tense, negated=draw.random() < 0.3))
