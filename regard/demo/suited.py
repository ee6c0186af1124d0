"""Which adjectives suit which nouns, and where things are found: data for sentences about things."""

from __future__ import annotations

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
