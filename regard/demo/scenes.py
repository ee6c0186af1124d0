"""Who does what to what, and why: the data behind "it".

A scene lists its subjects, its objects with the adjectives that only they can have, and the adjectives that
only the subjects can have, so that the last word always settles what "it" is.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Scene:
    """One deed with its reasons; `negated` where they are reasons not to do it."""

    verb: str
    negated: bool
    subjects: str
    of_subject: str
    of_object: dict[str, str]


WALKERS = (
    "animal dog cat horse fox wolf bear rabbit donkey elephant lion "
    "cow mouse tortoise goat hen goose giraffe creature"
)
VISITORS = (
    "animal dog cat horse fox wolf bear rabbit donkey owl bird cow mouse tortoise goat hen goose creature"
)
CLIMBERS = "animal dog cat fox wolf bear rabbit lion mouse tortoise goat hen creature"
STRONG = "animal dog horse bear donkey elephant cow goat creature"
HANDY = "animal dog cat bear fox mouse goat creature"
HOUSE_PETS = "animal dog cat rabbit mouse hen goose creature tortoise"
EATERS = "animal dog cat horse fox bear rabbit donkey cow mouse goat hen goose bird creature"
VEHICLES = "car truck machine robot"

SCENES = (
    Scene(
        "cross", True, WALKERS,
        "tired ill lazy young nervous shy hungry thirsty afraid sleepy",
        {
            "street": "wide dangerous noisy crowded", "road": "wide dangerous noisy muddy",
            "avenue": "wide dangerous noisy", "square": "noisy crowded",
            "river": "wide deep dangerous", "stream": "wide deep", "canal": "wide deep",
            "lake": "wide deep", "pond": "wide deep muddy", "bridge": "long narrow high slippery dangerous",
            "field": "wide muddy", "forest": "dark dangerous", "valley": "wide deep muddy",
        },
    ),
    Scene(
        "climb", True, CLIMBERS,
        "tired ill lazy weak young clumsy hungry thirsty afraid",
        {
            "hill": "steep high muddy", "mountain": "steep high dangerous", "wall": "high slippery",
            "rock": "steep high slippery", "fence": "high slippery",
        },
    ),
    Scene(
        "enter", True, VISITORS,
        "tired ill nervous shy afraid",
        {
            "house": "noisy dark", "cave": "dark narrow muddy", "kitchen": "noisy", "barn": "dark full noisy",
            "tunnel": "dark narrow long", "forest": "dark dangerous",
            "garden": "muddy noisy", "village": "noisy crowded", "park": "noisy crowded",
        },
    ),
    Scene(
        "leave", True, VISITORS,
        "tired ill lazy young shy afraid sleepy",
        {
            "house": "comfortable quiet", "cave": "comfortable quiet", "barn": "comfortable quiet",
            "farm": "quiet", "garden": "quiet", "forest": "quiet", "village": "quiet", "park": "quiet",
        },
    ),
    Scene(
        "reach", True, WALKERS,
        "tired ill lazy weak slow",
        {
            "mountain": "far", "river": "far", "village": "far", "lake": "far", "forest": "far",
            "farm": "far", "pond": "far", "bridge": "far", "valley": "far",
        },
    ),
    Scene(
        "carry", True, STRONG,
        "tired ill lazy weak young",
        {
            "bag": "heavy full", "box": "heavy fragile", "suitcase": "heavy full",
            "stone": "heavy slippery", "basket": "heavy full",
        },
    ),
    Scene(
        "push", True, STRONG,
        "tired ill lazy weak young",
        {
            "cart": "heavy full", "table": "heavy", "door": "heavy", "gate": "heavy", "stone": "heavy",
            "sofa": "heavy", "bed": "heavy",
        },
    ),
    Scene(
        "lift", True, STRONG,
        "tired ill lazy weak young",
        {
            "box": "heavy", "stone": "heavy slippery", "bag": "heavy full", "suitcase": "heavy full",
            "table": "heavy", "chair": "heavy", "carpet": "heavy", "sofa": "heavy", "basket": "heavy full",
        },
    ),
    Scene(
        "open", True, HANDY,
        "weak clumsy lazy young tired nervous",
        {
            "door": "heavy locked", "gate": "heavy locked", "box": "locked", "window": "high locked",
            "drawer": "locked",
        },
    ),
    Scene(
        "eat", True, EATERS,
        "ill nervous shy afraid tired sleepy",
        {
            "apple": "rotten bitter hard", "carrot": "rotten hard", "cake": "hard salty", "egg": "rotten",
            "cheese": "salty hard", "bread": "hard salty", "soup": "salty bitter",
        },
    ),
    Scene(
        "eat", False, EATERS,
        "hungry",
        {
            "apple": "fresh delicious", "carrot": "fresh delicious", "cake": "fresh delicious",
            "egg": "fresh",
            "cheese": "delicious", "bread": "fresh delicious", "soup": "delicious",
        },
    ),
    Scene(
        "drink", True, WALKERS,
        "ill nervous shy afraid",
        {"water": "dirty salty", "milk": "bitter"},
    ),
    Scene(
        "break", False, HANDY + " elephant horse",
        "clumsy nervous angry curious",
        {
            "cup": "fragile", "vase": "fragile", "lamp": "fragile",
            "mirror": "fragile", "window": "fragile", "guitar": "fragile",
        },
    ),
    Scene(
        "avoid", False, WALKERS,
        "shy nervous afraid",
        {
            "street": "dangerous noisy crowded", "road": "dangerous noisy muddy", "river": "deep dangerous",
            "square": "noisy crowded", "forest": "dark dangerous", "village": "noisy crowded",
            "bridge": "slippery dangerous narrow", "canal": "deep", "market": "noisy crowded",
            "tunnel": "dark narrow",
        },
    ),
    Scene(
        "sleep on", False, HOUSE_PETS,
        "tired ill lazy sleepy",
        {"sofa": "comfortable", "bed": "comfortable", "carpet": "comfortable", "chair": "comfortable"},
    ),
    Scene(
        "drink", False, WALKERS,
        "thirsty",
        {"water": "fresh", "milk": "fresh delicious"},
    ),
    Scene(
        "cross", True, VEHICLES,
        "wide heavy",
        {"bridge": "narrow slippery fragile", "field": "muddy", "road": "muddy slippery", "river": "deep"},
    ),
    Scene(
        "enter", True, VEHICLES,
        "wide high",
        {"tunnel": "narrow closed dark", "barn": "full narrow", "garden": "muddy"},
    ),
)  # fmt: skip

# Things and what they would be put into: too big for it, or it too small.
PACKED = {
    "trophy": "big wide", "book": "big wide", "lamp": "big long", "guitar": "big long",
    "painting": "big wide", "vase": "big wide", "mirror": "big wide",
    "hat": "big wide", "coat": "big long", "dress": "big long", "carpet": "big long",
}  # fmt: skip
CONTAINERS = {
    "suitcase": "small narrow full", "box": "small narrow full", "bag": "small full",
    "drawer": "small narrow full", "basket": "small narrow full",
}  # fmt: skip
