"""The nouns of the lexicon: English, French, gender. Irregular plurals follow a slash."""

from __future__ import annotations

from regard.demo.words import listed, read_nouns

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
