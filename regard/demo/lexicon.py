"""The lexicon: nouns, adjectives, verbs and function words, as tables."""

from __future__ import annotations

from functools import cache

from regard.demo.words import Word, listed, read_adjectives, read_nouns, read_verbs

ANIMALS = """
animal           | animal       | m
dog              | chien        | m
cat              | chat         | m
horse            | cheval       | m
fox              | renard       | m
wolf/wolves      | loup/loups   | m
bear             | ours         | m
rabbit           | lapin        | m
donkey           | âne          | m
elephant         | éléphant     | m
lion             | lion         | m
owl              | hibou        | m
bird             | oiseau       | m
cow              | vache        | f
mouse/mice       | souris       | f
tortoise         | tortue       | f
goat             | chèvre       | f
hen              | poule        | f
goose/geese      | oie          | f
giraffe          | girafe       | f
creature         | créature     | f
"""

MACHINES = """
car              | voiture      | f
truck            | camion       | m
robot            | robot        | m
machine          | machine      | f
computer         | ordinateur   | m
"""

PLACES = """
street           | rue          | f
road             | route        | f
avenue           | avenue       | f
square           | place        | f
river            | rivière      | f
stream           | ruisseau     | m
canal            | canal        | m
lake             | lac          | m
pond             | étang        | m
bridge           | pont         | m
field            | champ        | m
forest           | forêt        | f
valley           | vallée       | f
garden           | jardin       | m
park             | parc         | m
hill             | colline      | f
mountain         | montagne     | f
wall             | mur          | m
rock             | rocher       | m
fence            | clôture      | f
house            | maison       | f
cave             | grotte       | f
kitchen          | cuisine      | f
barn             | grange       | f
tunnel           | tunnel       | m
village          | village      | m
farm             | ferme        | f
market           | marché       | m
school           | école        | f
library          | bibliothèque | f
hotel            | hôtel        | m
station          | gare         | f
"""

THINGS = """
bag              | sac          | m
box              | boîte        | f
suitcase         | valise       | f
basket           | panier       | m
drawer           | tiroir       | m
stone            | pierre       | f
cart             | charrette    | f
door             | porte        | f
gate             | portail      | m
window           | fenêtre      | f
table            | table        | f
chair            | chaise       | f
sofa             | canapé       | m
bed              | lit          | m
carpet           | tapis        | m
cup              | tasse        | f
vase             | vase         | m
lamp             | lampe        | f
mirror           | miroir       | m
trophy           | trophée      | m
guitar           | guitare      | f
painting         | tableau      | m
book             | livre        | m
letter           | lettre       | f
key              | clé          | f
hat              | chapeau      | m
coat             | manteau      | m
dress            | robe         | f
flower           | fleur        | f
tree             | arbre        | m
"""

FOOD = """
apple            | pomme        | f
carrot           | carotte      | f
cake             | gâteau       | m
egg              | œuf          | m
fish/fish        | poisson      | m
cheese           | fromage      | m
bread            | pain         | m
meat             | viande       | f
soup             | soupe        | f
water            | eau          | f
milk             | lait         | m
coffee           | café         | m
"""

PEOPLE = """
child/children   | enfant       | m
man/men          | homme        | m
woman/women      | femme        | f
friend           | ami          | m
brother          | frère        | m
sister           | sœur         | f
"""

WORK = """
job              | emploi       | m
internship       | stage        | m
course           | cours        | m
topic            | sujet        | m
"""

# An English word with two French ones; the name after the colon is the sense.
SENSES = """
bank:river       | rive         | f
bank:money       | banque       | f
match:fire       | allumette    | f
match:sport      | match        | m
fan:air          | ventilateur  | m
fan:sport        | supporter    | m
Python:animal    | python       | m
"""

# The nouns that are met in the plural.
COUNTED = listed(
    "animal dog cat horse wolf donkey bird cow mouse goat goose rabbit fox creature robot "
    "machine car apple egg cake book letter key hat flower tree chair child man woman"
)

NOUNS = read_nouns(ANIMALS + MACHINES.lstrip() + PLACES.lstrip() + THINGS.lstrip() + FOOD.lstrip())
NOUNS |= read_nouns(PEOPLE + WORK.lstrip() + SENSES.lstrip())


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


AUXILIARIES = """
be/was          | être         | suis est sommes êtes sont | été | imparfait future=ser
have/had        | avoir        | ai a avons avez ont | eu | imparfait future=aur
"""

# What an animal does, or does not do because of something.
DEEDS = """
cross           | traverser    |  |  |
climb           | escalader    |  |  |
enter           | entrer dans  |  |  | être
leave/left      | quitter      |  |  |
reach           | atteindre    | atteins atteint atteignons atteignez atteignent | atteint |
carry           | porter       |  |  |
push            | pousser      |  |  |
lift            | soulever     | soulève soulève soulevons soulevez soulèvent | soulevé | future=soulèver
open            | ouvrir       | ouvre ouvre ouvrons ouvrez ouvrent | ouvert |
break/broke     | casser       |  |  |
avoid           | éviter       |  |  |
sleep on/slept  | dormir sur   | dors dort dormons dormez dorment | dormi | imparfait
fit in/fit      | tenir dans   | tiens tient tenons tenez tiennent | tenu | imparfait future=tiendr
jump over       | sauter par-dessus |  |  |
roam | parcourir | parcours parcourt parcourons parcourez parcourent | parcouru | imparfait future=parcourr
watch           | regarder     |  |  | imparfait
live in         | vivre dans   | vis vit vivons vivez vivent | vécu | imparfait
"""

# What people do every day.
EVERYDAY = """
see/saw         | voir         | vois voit voyons voyez voient | vu | future=verr
buy/bought      | acheter      | achète achète achetons achetez achètent | acheté | future=achèter
want            | vouloir      | veux veut voulons voulez veulent | voulu | imparfait future=voudr
eat/ate         | manger       | mange mange mangeons mangez mangent | mangé |
drink/drank     | boire        | bois boit buvons buvez boivent | bu |
read/read       | lire         | lis lit lisons lisez lisent | lu |
lose/lost       | perdre       | perds perd perdons perdez perdent | perdu |
find/found      | trouver      |  |  |
love            | aimer        |  |  | imparfait
know/knew       | connaître    | connais connaît connaissons connaissez connaissent | connu | imparfait
hate            | détester     |  |  | imparfait
understand/understood | comprendre | comprends comprend comprenons comprenez comprennent | compris | imparfait
prefer/preferred | préférer     | préfère préfère préférons préférez préfèrent | préféré | imparfait
accept          | accepter     |  |  |
refuse          | refuser      |  |  |
invite          | inviter      |  |  |
call            | appeler      | appelle appelle appelons appelez appellent | appelé |
sell/sold       | vendre       | vends vend vendons vendez vendent | vendu |
choose/chose    | choisir      | choisis choisit choisissons choisissez choisissent | choisi |
"""

# Ways to a place.
MOTION = """
arrive at       | arriver à    |  |  | être
go to/went      | aller à      | vais va allons allez vont | allé | être future=ir
return to       | retourner à  |  |  | être
walk to         | marcher jusque à |  |  |
come back from/came | revenir de | reviens revient revenons revenez reviennent | revenu | être future=reviendr
"""

# What settles the sense of a word such as Python.
SETTLING = """
execute         | se exécuter  |  |  |
load            | se charger   |  |  |
start           | démarrer     |  |  |
crash           | planter      |  |  |
crawl           | ramper       |  |  |
hunt            | chasser      |  |  |
swim/swam       | nager        | nage nage nageons nagez nagent |  |
sleep/slept     | dormir       | dors dort dormons dormez dorment | dormi | imparfait
burn            | brûler       |  |  |
end             | finir        | finis finit finissons finissez finissent | fini |
begin/began     | commencer    | commence commence commençons commencez commencent |  |
spin/spun       | tourner      |  |  |
shout           | crier        |  |  |
"""

VERBS = read_verbs("".join(t.lstrip() for t in (AUXILIARIES, DEEDS, EVERYDAY, MOTION, SETTLING)))


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
