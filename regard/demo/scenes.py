"""Who does what to what, and why: the data behind "it".

A scene lists its subjects, its objects with the adjectives that only they can have, and the adjectives that
only the subjects can have, so that the last word always settles what "it" is.
"""

from __future__ import annotations

from dataclasses import dataclass

from regard.demo.words import listed

# Nouns, their adjectives, and colours, which come last in English.
SUITED = (
    (
        "animal dog cat horse fox wolf bear rabbit donkey cow mouse goat hen goose bird owl",
        "small old young beautiful lazy quick slow tired",
        "black white brown grey",
    ),
    ("dog horse wolf bear", "big", "black white brown grey"),
    ("lion elephant", "big small old young beautiful tired", ""),
    ("creature", "fluffy fluffy small big beautiful shy", "blue green white orange"),
    ("rabbit bird cat owl mouse goose hen", "fluffy fluffy shy curious", "white grey black brown"),
    ("car truck", "small big old new beautiful quick slow", "red blue green black white orange"),
    ("robot machine computer", "small big old new useful", "red blue green grey white"),
    ("machine robot creature animal", "thinking talking flying", ""),
    ("cat mouse goat bird owl", "thinking talking", ""),
    ("forest valley hill garden field park", "verdant verdant quiet small big beautiful", ""),
    ("mountain farm", "verdant big beautiful", ""),
    ("house hotel school barn farm", "old new small big beautiful quiet", "white red grey"),
    ("street road bridge tunnel avenue", "long narrow wide old dark dangerous", ""),
    ("river lake pond", "deep wide dangerous beautiful", "green blue"),
    ("stream canal", "deep wide dangerous", ""),
    ("valley", "deep dark", ""),
    ("box cup", "deep", ""),
    ("forest", "dark", ""),
    (
        "bag box suitcase basket table chair door sofa",
        "heavy old new small big",
        "red blue green brown black orange",
    ),
    ("table chair door window", "broken", ""),
    ("dress coat hat carpet", "new old beautiful comfortable", "red blue green black white orange"),
    ("cup vase lamp mirror", "fragile beautiful old new small broken", "white blue green"),
    ("book letter key guitar painting trophy", "old new beautiful small", ""),
    ("book", "useful good", "red blue green"),
    ("key lamp box bag car", "useful", ""),
    ("dog cat horse rabbit hotel school hen cow guitar car table", "good", ""),
    ("flower tree", "beautiful small big", ""),
    ("flower", "beautiful small fragile", "red blue white orange"),
    ("apple", "small fresh delicious good", "red green"),
    ("carrot cake egg bread cheese soup fish", "fresh good delicious", ""),
)

# What else can be said of a place.
STATES = {
    "market": "closed noisy crowded far", "hotel": "closed full modern expensive quiet",
    "library": "closed quiet modern full", "school": "closed modern noisy", "station": "closed crowded far",
    "park": "closed quiet", "bridge": "closed modern", "road": "closed",
    "computer": "expensive modern useful",
}  # fmt: skip

# Nouns of titles, and their adjectives there: enough of both genders for every form of an adjective.
TITLED = (
    ("machine robot creature animal", "thinking talking flying"),
    ("machine robot creature animal car", "new old small beautiful big quick slow"),
    ("cat bird cow goat mouse", "thinking talking old small beautiful quick slow"),
    ("book letter key", "new old small beautiful"),
    ("flower tree", "small beautiful big"),
)

ROAMED = listed("forest valley garden field park farm hill mountain")
ROAMERS = listed(
    "animal dog cat horse fox wolf bear rabbit goat goose bird creature creature owl hen robot machine lion"
)
LEAPT = listed("dog cat fox rabbit wall fence stream stone")
LEAPERS = listed("dog cat fox horse wolf rabbit goat mouse")

INSIDE = {
    "garden": "dog cat hen goose bird flower tree",
    "field": "horse cow donkey rabbit goat tree",
    "forest": "fox wolf bear owl creature",
    "kitchen": "table chair lamp cup mouse",
    "box": "key book letter apple",
    "street": "car truck tree robot",
    "basket": "apple egg carrot flower cake",
    "drawer": "key letter book",
}
UPON = {
    "table": "key book letter cup lamp vase cake hat",
    "bed": "coat dress bag book cat",
    "chair": "hat coat bag guitar",
    "carpet": "dog cat lamp",
}


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
