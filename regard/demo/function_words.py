"""The small words of French, each with a gloss for people who read none."""

from __future__ import annotations

from functools import cache

from regard.demo.words import Word

GLOSSES = {
    "le": "the", "la": "the", "les": "the", "un": "a", "une": "a, feminine", "des": "some",
    "ce": "this", "cet": "this", "cette": "this, feminine",
    "mon": "my", "ma": "my, feminine", "mes": "my, plural",
    "votre": "your", "vos": "your, plural", "notre": "our", "nos": "our, plural",
    "leur": "their", "leurs": "their, plural",
    "son": "his or her", "sa": "his or her, feminine", "ses": "his or her, plural",
    "je": "I", "vous": "you", "il": "he or it", "elle": "she or it", "nous": "we",
    "ils": "they", "elles": "they, feminine", "me": "me", "y": "there",
    "ne": "not (first half)", "pas": "not", "est-ce": "is it (opens a question)", "que": "that",
    "parce": "because", "et": "and", "mais": "but", "pour": "in order to", "après": "after",
    "trop": "too", "très": "very", "à": "to", "de": "of", "en": "in", "dans": "in", "sur": "on",
    "par-dessus": "over", "jusque": "as far as", "côté": "side", "autre": "other",
    "où": "where", "se": "itself",
    "deux": "two", "trois": "three", "quatre": "four", "cinq": "five", "six": "six",
    "huit": "eight", "dix": "ten", "heures": "hours",
    "hier": "yesterday", "demain": "tomorrow", "aujourd'hui": "today", "chaque": "each", "jour": "day",
    "matin": "morning", "soir": "evening", "nuit": "night", "rapidement": "quickly",
    "lentement": "slowly", "bien": "well", "tard": "late",
    "fort": "loudly", "ici": "here", "bientôt": "soon", "maintenant": "now",
    "apprentissage": "learning", "profond": "deep", "automatique": "machine (adjective)",
    "physique": "physics", "histoire": "history", "médecine": "medicine", "droit": "law",
    "musique": "music", "informatique": "computer science", "argent": "money", "besoin": "need",
    "voyager": "to travel", "aller": "to go", "avoir": "having", "pleut": "is raining",
    "neige": "is snowing", "fait": "is (literally makes)", "faisait": "was (literally made)",
    "fera": "will be (literally will make)", "plu": "rained", "pleuvra": "will rain", "froid": "cold",
    "chaud": "hot",
}  # fmt: skip


@cache
def words(text: str) -> tuple[Word, ...]:
    """The words of a text with their usual glosses; `form:gloss` gives another, with _ for a space."""
    parts = (part.partition(":") for part in text.split())
    return tuple(Word(form, gloss.replace("_", " ") or GLOSSES[form]) for form, _, gloss in parts)
