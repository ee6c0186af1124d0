"""Words that the demo's model never met, what French ones say, and which are nouns."""

from __future__ import annotations

import pytest

from regard.inspection.record.tokens import Side
from regard.inspection.render.payload import NOTHING
from regard.service.notes import DemoNotes, notes_of
from regard.text.tokenizer import Tokenizer

ENGLISH = "The animal didn't cross the street because it was too tired."
FRENCH = "L'animal n'a pas traversé la rue parce qu'il était trop fatigué."
WORDS = ["the", "animal", "didn't", "cross", "street", "because", "it", "was", "too", "tired"]


@pytest.fixture(scope="module", params=["word", "bpe"])
def sides(request):
    """Both sentences as a tokenizer of words cuts them, and one of pieces."""
    size = {"vocabulary": 300} if request.param == "bpe" else {}
    tokenizer = Tokenizer.train([ENGLISH, FRENCH], kind=request.param, normalisation="plain", **size)

    def make(name, text):
        return Side.of_text(name, tokenizer, text)

    return make


def words_at(side, positions):
    return sorted({side.words[side.tokens[n].word].text for n in positions})


def test_words_never_met_are_strange(sides):
    notes = DemoNotes({"name": "demo", "words": WORDS})
    assert notes.strange(sides("source", ENGLISH)) == set()
    side = sides("source", "The animal didn’t cross the canal.")
    strange = notes.strange(side)
    covered = "".join(side.text[side.tokens[n].start : side.tokens[n].end] for n in sorted(strange))
    assert covered.replace(" ", "").replace(".", "") == "canal"


def test_what_is_written_is_not_called_strange(sides):
    notes = DemoNotes({"name": "demo", "words": WORDS})
    assert notes.strange(sides("target", FRENCH)) == set()


def test_the_writing_model_reads_its_target(sides):
    notes = DemoNotes({"name": "demo-language-model", "words": WORDS})
    assert notes.strange(sides("target", "The canal"))
    assert notes.glosses(sides("target", "The animal"), None) == {}


def test_french_words_have_a_gloss(sides):
    notes = DemoNotes({"name": "demo", "words": WORDS})
    source, target = sides("source", ENGLISH), sides("target", FRENCH.replace("'", "’"))
    told = notes.glosses(target, source)
    said = {word.text.replace("’", "'"): told.get(n) for n, word in enumerate(target.words)}
    whole = " ".join(filter(None, said.values()))
    assert "street" in said["rue"]
    assert "it, masculine, as animal is" in whole
    assert said["."] is None
    assert notes.glosses(source, target) == {}


def test_in_reverse_the_source_is_french(sides):
    notes = DemoNotes({"name": "demo-reverse", "words": ["la", "rue"]})
    source = sides("source", "la rue")
    assert list(notes.glosses(source, sides("target", "the street")).values()) == ["the", "street"]
    assert notes.strange(source) == set()
    assert notes.strange(sides("source", "la banque"))
    assert [source.words[n].text for n in notes.nouns(source)] == ["rue"]


def test_nouns_that_it_may_stand_for(sides):
    notes = DemoNotes({"name": "demo", "words": WORDS})
    side = sides("source", ENGLISH)
    assert [side.words[n].text for n in notes.nouns(side)] == ["animal", "street"]


@pytest.mark.parametrize(("pronoun", "meant"), [("il", 0), ("elle", 1), ("ils", None)])
def test_the_noun_that_the_pronoun_agrees_with_is_the_one(sides, pronoun, meant):
    notes = DemoNotes({"name": "demo", "words": WORDS})
    source, target = sides("source", ENGLISH), sides("target", FRENCH.replace("il ", f"{pronoun} "))
    for side, other, names in ((source, target, ["animal", "street"]), (target, source, ["animal", "rue"])):
        expected = names if meant is None else [names[meant]]
        assert [side.words[n].text.removeprefix("L'") for n in notes.nouns(side, other)] == expected


def test_french_nouns_too(sides):
    notes = DemoNotes({"name": "demo", "words": WORDS})
    side = sides("target", FRENCH)
    assert [side.words[n].text.removeprefix("L'") for n in notes.nouns(side)] == ["animal", "rue"]


@pytest.mark.parametrize(
    ("text", "other", "begin"),
    [
        (FRENCH, ENGLISH, ["il"]),
        (FRENCH.replace("'", "’"), ENGLISH, ["il"]),
        ("Il est fatigué.", "He is tired.", []),
        ("La rue était large.", ENGLISH, []),
    ],
)
def test_words_that_say_it(sides, text, other, begin):
    notes = DemoNotes({"name": "demo", "words": WORDS})
    source, target = sides("source", other), sides("target", text)
    found = notes.pronouns(target, source)
    assert [target.text[target.tokens[place].start :].strip()[:2] for place in found] == begin
    read = [source.text[source.tokens[place].start :].strip()[:2] for place in notes.pronouns(source, target)]
    assert read == ["it"] * (" it " in other)


def test_a_folder_is_known_by_what_lies_beside_it(demo_run, tmp_path):
    assert isinstance(notes_of(demo_run / "model"), DemoNotes)
    assert notes_of(demo_run / "weights" / "step-00000020") is NOTHING
    for unknown in (tmp_path, tmp_path / "nowhere"):
        assert notes_of(unknown) is NOTHING


def test_the_page_is_told(ask):
    trace = ask("trace", model="small", text="The zebra was tired.", target="L'animal").json()
    source, target = trace["sides"]["source"], trace["sides"]["target"]
    assert [word["text"] for word in source["words"] if not word["known"]] == ["zebra"]
    assert [word["gloss"] for word in target["words"]][1:] == ["the", "animal"]


def test_the_step_that_writes_it_is_a_first_look(ask, read_sheet, lines):
    english, french = lines
    trace = ask("trace", model="small", text=english, target=french).json()
    pinned, sides = trace["pinned"], trace["sides"]
    tokens = {name: [token["text"] for token in side["tokens"]] for name, side in sides.items()}
    it, il = tokens["source"].index("it"), tokens["target"].index("il")
    asked = {"encoder": (it, 1), "decoder": (il - 1, tokens["target"].index("animal")), "cross": (il - 1, 1)}
    weights = {
        (kind, layer): read_sheet(trace, f"attention/{kind}/{layer}").arrays["weights"]
        for kind in asked
        for layer in range(2)
    }
    best = max(each[(slice(None), *asked[kind])].max() for (kind, _), each in weights.items())
    assert pinned["query"] == asked[pinned["kind"]][0]
    row = weights[pinned["kind"], pinned["layer"]][pinned["head"], pinned["query"]]
    assert row[pinned["key"]] == best
