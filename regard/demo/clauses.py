"""Clauses in both languages: tense, agreement, negation, questions, object pronouns."""

from __future__ import annotations

from functools import cache

from regard.demo.lexicon import VERBS, words
from regard.demo.phrases import Phrase, Subject, as_noun, inflect, say
from regard.demo.words import Adjective, Gender, Noun, Tense, Verb, Word, french_plural

IMPERFECT = ("ais", "ait", "ions", "iez", "aient")
FUTURE = ("ai", "a", "ons", "ez", "ont")
BE_PRESENT = ("am", "is", "are", "are", "are")
BE_PAST = ("was", "was", "were", "were", "were")
REFLEXIVE = Word("se", "itself")
BECAUSE = say("because", "parce que")
WHETHER = words("est-ce que:that_(opens_a_question)")


@cache
def conjugate(verb: Verb, tense: Tense, person: int) -> str:
    """One French form of a simple tense; "past" is the imperfect."""
    if tense == "present":
        return verb.present[person]
    if tense == "future":
        return verb.future + FUTURE[person]
    stem = "ét" if verb.infinitive == "être" else verb.present[2].removesuffix("ons")
    return stem + IMPERFECT[person]


@cache
def participle(verb: Verb, gender: Gender, plural: bool) -> Word:
    """The past participle as it agrees."""
    form = verb.participle + "e" * (gender == "f")
    notes = [", feminine"] * (gender == "f") + [", plural"] * plural
    return Word(french_plural(form) if plural else form, verb.english[2] + "".join(notes))


@cache
def english_verb(verb: Verb, tense: Tense, person: int, negated: bool = False) -> tuple[str, ...]:
    """The English verb as it agrees: crosses, did not cross, will be."""
    base, third, past = verb.english
    no = ("not",) * negated
    if tense == "future":
        return ("will", *no, base)
    if base == "be":
        return ((BE_PRESENT if tense == "present" else BE_PAST)[person], *no)
    if negated:
        return (_do(tense, person), "not", base)
    return (past if tense == "past" else third if person == 1 else base,)


def _do(tense: Tense, person: int) -> str:
    return "did" if tense == "past" else "does" if person == 1 else "do"


@cache
def _french_verb(
    verb: Verb, tense: Tense, person: int, agreement: tuple[Gender, bool], negated: bool, clitic: Word | None
) -> tuple[Word, ...]:
    """The verb with what clings to it: ne l'a pas traversée."""
    ne, pas = words("ne") * negated, words("pas") * negated
    clinging = (clitic,) if clitic else ()
    if tense == "past" and verb.past == "composé":
        helper = VERBS[verb.auxiliary]
        has = english_verb(VERBS["have"], "present", person)[0]
        note = " (literally is)" if verb.auxiliary == "be" else ""
        auxiliary = Word(conjugate(helper, "present", person), has + note)
        return (*ne, *clinging, auxiliary, *pas, participle(verb, *agreement))
    gloss = " ".join(english_verb(verb, tense, person))
    return (*ne, *clinging, Word(conjugate(verb, tense, person), gloss), *pas)


def statement(
    subject: Subject,
    verb: Verb,
    tense: Tense = "present",
    complement: Phrase | None = None,
    negated: bool = False,
) -> Phrase:
    """Subject, verb, complement: "The animal did not cross the street", l'animal n'a pas traversé la rue."""
    agreement = (subject.gender, subject.plural) if verb.auxiliary == "be" else ("m", False)
    clitic = REFLEXIVE if verb.reflexive else None
    english = subject.english + english_verb(verb, tense, subject.person, negated)
    french = subject.french + _french_verb(verb, tense, subject.person, agreement, negated, clitic)
    return Phrase(english, french) + _complement(verb, complement)


@cache
def _prepositions(verb: Verb) -> Phrase:
    return Phrase(tuple(verb.english_preposition.split()), words(verb.preposition))


def _complement(verb: Verb, complement: Phrase | None) -> Phrase:
    if complement is None or not (verb.preposition or verb.english_preposition):
        return complement or Phrase()
    return _prepositions(verb) + complement


def question(
    subject: Subject,
    verb: Verb,
    tense: Tense = "present",
    complement: Phrase | None = None,
) -> Phrase:
    """A question to be answered with yes or no: "Does Python crawl?", est-ce que le python rampe ?"""
    clause = statement(subject, verb, tense, complement)
    french = WHETHER + clause.french
    base = verb.english[0]
    if tense != "future" and base != "be":
        tail = _complement(verb, complement).english
        return Phrase((_do(tense, subject.person), *subject.english, base, *tail), french)
    length = len(subject.english)
    return Phrase((clause.english[length], *subject.english, *clause.english[length + 1 :]), french)


def with_pronoun(
    subject: Subject, verb: Verb, tense: Tense, pronoun: Subject, negated: bool = False
) -> Phrase:
    """A clause whose object is a pronoun, in front of the verb in French: "she lost it", elle l'a perdue."""
    agreement = (pronoun.gender, pronoun.plural)
    english = english_verb(verb, tense, subject.person, negated) + pronoun.english
    french = _french_verb(verb, tense, subject.person, agreement, negated, pronoun.french[0])
    return Phrase(subject.english + english, subject.french + french)


@cache
def object_for(noun: Noun, plural: bool = False) -> Subject:
    """ "it" or "them" for a noun that a verb acts on: le, la or les, and the participle agrees."""
    english, french = ("them", "les") if plural else ("it", {"m": "le", "f": "la"}[noun.gender])
    word = Word(french, as_noun(english, noun, plural))
    return Subject((english,), (word,), 4 if plural else 1, noun.gender, plural)


def is_called(
    subject: Subject, adjective: Adjective, tense: Tense = "present", degree: str = "", negated: bool = False
) -> Phrase:
    """What somebody or something is: "it was too tired", il était trop fatigué; "I am hungry", j'ai faim."""
    english = subject.english + english_verb(VERBS["be"], tense, subject.person, negated)
    verb = _french_verb(VERBS[adjective.verb], tense, subject.person, ("m", False), negated, None)
    french = subject.french + verb + words({"": "", "too": "trop", "very": "très"}[degree])
    said = (degree, adjective.english) if degree else (adjective.english,)
    return Phrase(english + said, french + inflect(adjective, subject.gender, subject.plural))


def there_is(what: Subject, tense: Tense) -> Phrase:
    """ "There are two cats", il y a deux chats."""
    english = ("there", english_verb(VERBS["be"], tense, what.person)[0])
    avoir = conjugate(VERBS["have"], tense, 1)
    french = (Word("il", "there"), Word("y", "there"), Word(avoir, english[1]))
    return Phrase(english + what.english, french + what.french)
