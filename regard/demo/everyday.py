"""Sentences of every day: going, having, losing, seeing somebody, the weather and the clock."""

from __future__ import annotations

from random import Random

from regard.demo.clauses import BECAUSE, is_called, object_for, question, statement, with_pronoun
from regard.demo.lexicon import ADJECTIVES, NOUNS, VERBS, words
from regard.demo.people import NAMES, may_be_asked, someone
from regard.demo.phrases import NUMBERS, PRONOUNS, Phrase, Subject, he_or_she, named, noun_phrase, say
from regard.demo.sentences import Sentence
from regard.demo.things import described
from regard.demo.words import Tense, listed

PLACES = listed("market school library hotel station park village farm lake garden")
TIMES: dict[Tense, tuple[Phrase, ...]] = {
    "present": (say("every day", "chaque jour"), say("every morning", "chaque matin")),
    "past": (say("yesterday", "hier"), say("this morning", "ce matin"), say("", "")),
    "future": (say("tomorrow", "demain"), say("this evening", "ce soir"), say("", "")),
}
GOODS = listed("car house dog cat book guitar lamp coat dress hat computer painting robot bag")
SEVERAL = listed("apple egg book letter flower key cat dog horse cow chair cake bird child hat car")
SUPPLIES = {"eat": listed("bread cheese meat soup fish cake"), "drink": ["water", "milk", "coffee"]}
OWN = {
    "lose": listed("key book letter hat coat bag suitcase guitar dog cat"),
    "find": listed("key book letter hat coat bag suitcase guitar dog cat"),
    "see": listed("friend sister brother dog cat horse"),
    "love": listed("house car dog cat horse guitar book friend sister brother garden"),
    "read": ["book", "letter"],
}
OWNER = {"I": "my", "he": "his", "she": "her", "we": "our", "you": "your", "they": "their"}
GOING: dict[str, tuple[Tense, ...]] = {
    "go to": ("present", "past", "future"),
    "arrive at": ("past", "future"),
    "return to": ("past",),
    "come back from": ("past",),
}
HAVING: dict[str, tuple[Tense, ...]] = {
    "have": ("present", "past"),
    "want": ("present",),
    "see": ("past",),
    "buy": ("past",),
    "find": ("past",),
}
# "We read" would be present and past at once: reading is told in the present only.
OWNING: tuple[tuple[str, Tense], ...] = (
    ("lose", "past"), ("find", "past"), ("see", "past"), ("love", "present"), ("read", "present"),
)  # fmt: skip
SEEING: tuple[tuple[str, Tense], ...] = (
    ("see", "present"), ("see", "past"), ("know", "present"),
)  # fmt: skip
OBJECTS = {
    "me": Subject(("me",), words("me")),
    "you": Subject(("you",), words("vous")),
    "him": Subject(("him",), words("le:him")),
    "her": Subject(("her",), words("la:her"), gender="f"),
    "us": Subject(("us",), words("nous:us"), plural=True),
    "them": Subject(("them",), words("les:them"), plural=True),
}
SELF = {
    "I": ("me", "us"),
    "we": ("us", "me"),
    "you": ("you",),
    "he": ("him",),
    "she": ("her",),
    "they": ("them",),
}
WEATHER = {
    "it is raining": "il:it pleut",
    "it is snowing": "il:it neige",
    "it is cold": "il:it fait froid",
    "it is hot": "il:it fait chaud",
    "it rained": "il:it a:has plu",
    "it was cold": "il:it faisait froid",
    "it was hot": "il:it faisait chaud",
    "it will rain": "il:it pleuvra",
    "it will be cold": "il:it fera froid",
    "it will be hot": "il:it fera chaud",
}
DAYS = {"present": ("today", "aujourd'hui"), "past": ("yesterday", "hier"), "future": ("tomorrow", "demain")}
NOTHING = say("", "")
HOURS = NUMBERS


def going(draw: Random) -> Sentence:
    """ "We went to the market yesterday", with être and a participle that agrees."""
    verb = draw.choice(("go to", "go to", "return to", "come back from", "arrive at"))
    tense: Tense = draw.choice(GOING[verb])
    when = draw.choice(TIMES[tense])
    where = noun_phrase(NOUNS[draw.choice(PLACES)]) + when
    who = someone(draw)
    if may_be_asked(who) and draw.random() < 0.15:
        return Sentence(question(who, VERBS[verb], tense, where), "?")
    return Sentence(statement(who, VERBS[verb], tense, where, negated=draw.random() < 0.2))


def having(draw: Random) -> Sentence:
    """ "She bought two red apples"; "I do not have a car", je n'ai pas de voiture."""
    who = someone(draw)
    verb = draw.choice(list(HAVING))
    tense: Tense = draw.choice(HAVING[verb])
    negated = draw.random() < 0.25
    if draw.random() < 0.5:
        what, met = described(draw, draw.choice(GOODS), "not a" if negated else "a", most=1)
    else:
        number = "any" if negated else draw.choice(("some", *NUMBERS))
        what, met = described(draw, draw.choice(SEVERAL), number, plural=True, most=1)
    if not negated and "some" not in what.english and may_be_asked(who) and draw.random() < 0.4:
        return Sentence(question(who, VERBS[verb], tense, what), "?", met)
    return Sentence(statement(who, VERBS[verb], tense, what, negated), combinations=met)


def habit(draw: Random) -> Sentence:
    """ "He drinks some milk every morning", du lait; "They do not eat any meat", pas de viande."""
    who = someone(draw)
    if draw.random() < 0.25:
        what = noun_phrase(
            NOUNS[draw.choice(("book", "letter"))], draw.choice(("a", "the", "this", "my", "your"))
        )
        return Sentence(statement(who, VERBS["read"], "present", what + draw.choice(TIMES["present"])))
    verb = draw.choice(list(SUPPLIES))
    tense: Tense = draw.choice(("present", "present", "past"))
    negated = draw.random() < 0.3
    food = noun_phrase(NOUNS[draw.choice(SUPPLIES[verb])], "any" if negated else "some")
    if draw.random() < 0.5:
        food += say("in", "dans") + noun_phrase(NOUNS[draw.choice(("kitchen", "garden", "park", "hotel"))])
    when = NOTHING if negated and tense == "present" else draw.choice(TIMES[tense])
    return Sentence(statement(who, VERBS[verb], tense, food + when, negated))


def owning(draw: Random) -> Sentence:
    """ "They lost their key", ils ont perdu leur clé."""
    pronoun = draw.choice(list(OWNER))
    who, owner = PRONOUNS[pronoun], OWNER[pronoun]
    if draw.random() < 0.3:
        name = draw.choice(list(NAMES))
        who, owner = named(name, NAMES[name]), "her" if NAMES[name] == "f" else "his"
    verb, tense = draw.choice(OWNING)
    thing = draw.choice(OWN[verb])
    what = noun_phrase(NOUNS[thing], owner, plural=thing in SEVERAL and draw.random() < 0.5)
    return Sentence(statement(who, VERBS[verb], tense, what, negated=draw.random() < 0.2))


def seeing_someone(draw: Random) -> Sentence:
    """ "He knows us", il nous connaît: object pronouns stand before a French verb."""
    subject = draw.choice(list(PRONOUNS))
    who = PRONOUNS[subject]
    if draw.random() < 0.3:
        subject, name = "", draw.choice(list(NAMES))
        who = named(name, NAMES[name])
    verb, tense = draw.choice(SEEING)
    english = draw.choice([one for one in OBJECTS if one not in SELF.get(subject, ())])
    clause = with_pronoun(who, VERBS[verb], tense, OBJECTS[english], negated=draw.random() < 0.3)
    return Sentence(clause + draw.choice((NOTHING, say("well", "bien")) if verb == "know" else TIMES[tense]))


def loving_it(draw: Random) -> Sentence:
    """ "Fatima bought a lamp and she loves it": le, la or les by what was bought."""
    name = draw.choice(list(NAMES))
    plural = draw.random() < 0.25
    noun = draw.choice(("book", "letter", "flower", "key", "cat", "dog") if plural else GOODS)
    what = noun_phrase(NOUNS[noun], "some" if plural else "a", (), plural)
    deed = statement(named(name, NAMES[name]), VERBS[draw.choice(("buy", "find"))], "past", what)
    she = he_or_she(name, NAMES[name])
    it = object_for(NOUNS[noun], plural)
    if draw.random() < 0.5:
        then = say("and", "et") + with_pronoun(she, VERBS["love"], "present", it)
    else:
        then = say("but", "mais") + with_pronoun(she, VERBS["sell"], "past", it)
    return Sentence(deed + then, combinations=(f"{name}/{noun}",))


def loving_the_old(draw: Random) -> Sentence:
    """ "The lamp is old but I love it." """
    noun = draw.choice(GOODS)
    plural = noun in SEVERAL and draw.random() < 0.4
    mood = ADJECTIVES[draw.choice(("old", "small", "expensive", "expensive"))]
    thing = noun_phrase(NOUNS[noun], "the" if plural else draw.choice(("the", "this")), (), plural)
    who = PRONOUNS[draw.choice(list(PRONOUNS))]
    verb = VERBS[draw.choice(("love", "want"))]
    clause = with_pronoun(who, verb, "present", object_for(NOUNS[noun], plural))
    first = is_called(thing, mood) + say("but", "mais")
    return Sentence(first + clause, combinations=(f"{mood.english} {noun}",))


def clock(draw: Random) -> Sentence:
    """ "It is three o'clock." """
    hour = draw.choice(list(HOURS))
    half = draw.choice((("now", "maintenant"), ("in the morning", "de le matin"), ("", "")))
    return Sentence(say(f"it is {hour} o'clock", f"il:it est:is {HOURS[hour]} heures") + say(*half))


def weather(draw: Random) -> Sentence:
    """ "It is raining today"; "Paul is sad because it is cold": here "it" is nothing that was named."""
    english = draw.choice(list(WEATHER))
    tense: Tense = "future" if "will" in english else "present" if " is " in english else "past"
    clause = say(english, WEATHER[english])
    if draw.random() < 0.5:
        mood = ADJECTIVES[draw.choice(("happy", "sad", "angry"))]
        state = is_called(someone(draw), mood, "past" if " was " in english else "present")
        return Sentence(state + BECAUSE + clause + draw.choice((say(*DAYS[tense]), NOTHING)))
    where = draw.choice(("garden", "village", "forest", "mountain", "valley", ""))
    there = say("in", "dans") + noun_phrase(NOUNS[where]) if where else NOTHING
    return Sentence(clause + there + draw.choice((say(*DAYS[tense]), NOTHING)))
