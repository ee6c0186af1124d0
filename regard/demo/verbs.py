"""The verbs of the lexicon.

Columns: English base and preposition/past, French infinitive and preposition, present (je, il, nous, vous,
ils), participle, marks. What is left empty is regular.
"""

from __future__ import annotations

from regard.demo.words import read_verbs

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
