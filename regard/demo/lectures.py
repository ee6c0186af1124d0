"""The lectures' own sentences, with every French answer that is right."""

from __future__ import annotations

from dataclasses import dataclass

from regard.demo.sentences import same


@dataclass(frozen=True)
class Lecture:
    """A sentence and its right translations, the grammar's own first.

    Sentences that share a `pair` count only where all of them are right: a model that always writes il is
    right by chance in half of them. Only the sentence of the writing demo is met in training.
    """

    source: str
    accepted: tuple[str, ...]
    pair: str = ""
    in_training: bool = False

    def accepts(self, translation: str) -> bool:
        """Whether a translation is right; case and punctuation are left out of account."""
        return same(translation) in map(same, self.accepted)


def _because(*reasons: str) -> tuple[str, ...]:
    crossed = "L'animal n'a pas traversé la rue"
    return tuple(f"{crossed} {reason}" for reason in reasons)


TIRED = _because("parce qu'il était fatigué", "car il était fatigué")
WIDE = _because("parce qu'elle était large", "car elle était large")
TOO_TIRED = _because("parce qu'il était trop fatigué", "car il était trop fatigué")
TOO_WIDE = _because("parce qu'elle était trop large", "car elle était trop large")


def _arrived(*places: str) -> tuple[str, ...]:
    """Whoever says "I arrived" may be a man or a woman."""
    return tuple(f"Je suis {arrived} {place}" for place in places for arrived in ("arrivé", "arrivée"))


def _accepted_job(name: str) -> tuple[str, ...]:
    deed = f"{name} a accepté un emploi en apprentissage profond parce qu'elle"
    return (f"{deed} aime le sujet", f"{deed} adore le sujet")


LECTURES = (
    Lecture("The animal didn't cross the street because it was too tired", TOO_TIRED, "it, too"),
    Lecture("The animal didn't cross the street because it was too wide", TOO_WIDE, "it, too"),
    Lecture("The animal didn't cross the street because it was tired", TIRED, "it"),
    Lecture("The animal didn't cross the street because it was wide", WIDE, "it"),
    Lecture("The animal didn’t cross the street because it was too tired", TOO_TIRED, "it, curly"),
    Lecture("The animal didn’t cross the street because it was too wide", TOO_WIDE, "it, curly"),
    Lecture(
        "I arrived at the bank after crossing the river",
        _arrived(
            "à la rive après avoir traversé la rivière",
            "sur la rive après avoir traversé la rivière",
            "à la berge après avoir traversé la rivière",
        ),
        "bank",
    ),
    Lecture(
        "I arrived at the bank after crossing the street",
        _arrived("à la banque après avoir traversé la rue"),
        "bank",
    ),
    # Open: a bank across the river may be its bank or a bank with money.
    Lecture(
        "I arrived at the bank across the river",
        _arrived(
            "à la rive de l'autre côté de la rivière",
            "à la banque de l'autre côté de la rivière",
            "sur la rive de l'autre côté de la rivière",
            "sur l'autre rive de la rivière",
        ),
    ),
    Lecture("Fatima accepted a job in deep learning because she loves the topic", _accepted_job("Fatima")),
    Lecture(
        "Rashonda accepted a job in deep learning because she loves the topic", _accepted_job("Rashonda")
    ),
    Lecture("I am a student", ("Je suis étudiant", "Je suis étudiante", "Je suis un étudiant")),
    Lecture(
        "The quick brown fox jumps over the lazy dog",
        (
            "Le renard brun et rapide saute par-dessus le chien paresseux",
            "Le rapide renard brun saute par-dessus le chien paresseux",
            "Le renard brun rapide saute par-dessus le chien paresseux",
        ),
        in_training=True,
    ),
    Lecture(
        "a fluffy blue creature roamed the verdant forest",
        (
            "une créature bleue et duveteuse parcourait la forêt verdoyante",
            "une créature duveteuse et bleue parcourait la forêt verdoyante",
            "une créature bleue duveteuse parcourait la forêt verdoyante",
            "une créature bleue et duveteuse a parcouru la forêt verdoyante",
        ),
    ),
    Lecture(
        "Thinking Machines",
        ("Machines pensantes", "Les machines pensantes", "Des machines pensantes", "Machines qui pensent"),
    ),
    Lecture(
        "Python executes quickly",
        ("Python s'exécute rapidement", "Python s'exécute vite"),
        "Python",
    ),
    Lecture(
        "Python crawls quickly",
        ("Le python rampe rapidement", "Le python rampe vite", "Python rampe rapidement"),
        "Python",
    ),
)

# Contractions are never written in the reverse corpus, and are right all the same.
REVERSED = (
    Lecture("Je suis étudiant", ("I am a student",)),
    Lecture(TOO_TIRED[0], ("The animal did not cross the street because it was too tired",), "it, too"),
    Lecture(TOO_WIDE[0], ("The animal did not cross the street because it was too wide",), "it, too"),
    Lecture(
        "Je suis arrivé à la rive après avoir traversé la rivière",
        ("I arrived at the bank after crossing the river",),
        "bank",
    ),
    Lecture(
        "Je suis arrivé à la banque après avoir traversé la rue",
        ("I arrived at the bank after crossing the street",),
        "bank",
    ),
)

# Combinations that meet only in these sentences, so that training never shows them.
HELD_OUT = frozenset(
    (
        "animal/street", "fluffy creature", "blue creature", "verdant forest", "thinking machine",
        "Fatima/deep learning", "Rashonda/deep learning",
    )
)  # fmt: skip
