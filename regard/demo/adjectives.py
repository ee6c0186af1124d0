"""The adjectives of the lexicon, and the professions, which agree as adjectives do.

Columns: English, French masculine/feminine/before a vowel (where a regular ending does not give them), marks.
"""

from __future__ import annotations

from regard.demo.words import read_adjectives

# What an animal or a person can be; a street or a box cannot.
MOODS = """
tired       | fatigué          |
ill         | malade           |
lazy        | paresseux        |
weak        | faible           |
young       | jeune            | before
clumsy      | maladroit        |
shy         | timide           |
nervous     | nerveux          |
curious     | curieux          |
happy       | heureux          |
sad         | triste           |
busy        | occupé           |
angry       | en colère        | invariable
hungry      | faim             | have
thirsty     | soif             | have
afraid      | peur             | have
sleepy      | sommeil          | have
"""

# What a place or a thing can be.
QUALITIES = """
wide        | large            |
narrow      | étroit           |
deep        | profond          |
steep       | raide            |
long        | long/longue      | before
high        | haut             |
heavy       | lourd            |
slippery    | glissant         |
dangerous   | dangereux        |
dark        | sombre           |
noisy       | bruyant          |
muddy       | boueux           |
crowded     | bondé            |
full        | plein            |
closed      | fermé            | absolute
locked      | verrouillé       | absolute
far         | loin             | invariable
comfortable | confortable      | absolute
quiet       | calme            | absolute
fragile     | fragile          |
rotten      | pourri           | absolute
salty       | salé             |
bitter      | amer/amère       |
hard        | dur              |
fresh       | frais/fraîche    | absolute
delicious   | délicieux        | absolute
dirty       | sale             |
broken      | cassé            | absolute
expensive   | cher/chère       |
modern      | moderne          | absolute
useful      | utile            | absolute
"""

# Words that stand beside a noun.
EPITHETS = """
small       | petit                    | before
big         | grand                    | before
old         | vieux/vieille/vieil      | before
new         | nouveau/nouvelle/nouvel  | before
beautiful   | beau/belle/bel           | before
good        | bon/bonne                | before
black       | noir                     |
white       | blanc/blanche            |
brown       | brun                     |
grey        | gris                     |
red         | rouge                    |
blue        | bleu                     |
green       | vert                     |
orange      | orange                   | invariable
fluffy      | duveteux                 |
quick       | rapide                   |
slow        | lent                     |
verdant     | verdoyant                |
thinking    | pensant                  |
talking     | parlant                  |
flying      | volant                   |
"""

PROFESSIONS = """
student     | étudiant                 |
teacher     | professeur               |
doctor      | médecin/médecin          |
nurse       | infirmier/infirmière     |
baker       | boulanger/boulangère     |
singer      | chanteur/chanteuse       |
lawyer      | avocat                   |
artist      | artiste                  |
engineer    | ingénieur                |
musician    | musicien/musicienne      |
pilot       | pilote                   |
"""

ADJECTIVES = read_adjectives(MOODS + QUALITIES.lstrip() + EPITHETS.lstrip())
PROFESSION = read_adjectives(PROFESSIONS)
