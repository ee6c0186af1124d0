"""Tokenizers: lossless, unforgeable, the same every time."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pytest
import tokenizers
from hypothesis import example, given
from hypothesis import strategies as st

from regard.errors import DataError, SettingError
from regard.text.tokenizer import SPECIALS, Tokenizer, Tokenizers
from tests.text.conftest import SENTENCES

any_text = st.text(st.characters(exclude_categories=["Cs"]))
FORGERIES = [*SPECIALS.values(), "<s></s>", "a[MASK]b", " <pad> ", "<mask> [CLS]"]


@given(any_text)
@example("\0\x01\x1f\x7f\x85\u2028\r\n\t \u00a0")
@example("e\u0301 \u0301 🏳️\u200d🌈 👩\u200d👩\u200d👧 \ufffd \ufeff 𝔘 \U0010ffff")
@example("</s> [MASK] <unk><pad> Ġthe ▁")
def test_bytes_come_back_as_they_were(bpe, text):
    assert bpe.decode(bpe.encode(text)) == text


@given(st.lists(any_text, max_size=5))
def test_a_batch_is_its_texts_one_by_one(bpe, texts):
    assert bpe.encode_batch(texts) == [bpe.encode(text) for text in texts]


@pytest.mark.parametrize("text", FORGERIES)
def test_special_tokens_in_text_stay_text(any_kind, tmp_path, text):
    any_kind.save(tmp_path / "tokenizer.json")
    for tokenizer in (any_kind, Tokenizer.load(tmp_path / "tokenizer.json")):
        ids = {*tokenizer.encode(text), *tokenizer.encode_batch([text])[0]}
        assert not ids & (set(tokenizer.specials.values()) - {tokenizer.unknown})


@pytest.mark.parametrize("text", FORGERIES)
def test_special_tokens_in_text_come_back_after_a_reload(bpe, tmp_path, text):
    bpe.save(tmp_path / "tokenizer.json")
    again = Tokenizer.load(tmp_path / "tokenizer.json")
    assert again.decode(again.encode(text)) == text


def test_a_file_that_calls_its_special_tokens_ordinary_is_not_believed(bpe, tmp_path):
    bpe.save(tmp_path / "tokenizer.json")
    content = json.loads((tmp_path / "tokenizer.json").read_bytes())
    for token in content["added_tokens"]:
        token["special"] = False
    (tmp_path / "tokenizer.json").write_text(json.dumps(content), encoding="utf-8")
    again = Tokenizer.load(tmp_path / "tokenizer.json")
    assert again.encode("</s>[MASK]") == bpe.encode("</s>[MASK]")


def test_only_the_mask_is_admitted_and_only_when_asked(any_kind):
    text = "The [MASK] didn't </s> cross."
    plain, masked = any_kind.encode(text), any_kind.encode(text, with_mask=True)
    assert any_kind.mask not in plain
    assert masked.count(any_kind.mask) == 1
    assert any_kind.end not in masked


def test_a_mask_stands_for_the_word_with_its_space(bpe, word):
    for tokenizer in (bpe, word):
        hidden = tokenizer.encode("The [MASK] didn't cross.", with_mask=True)
        whole = tokenizer.encode("The animal didn't cross.")
        animal = tokenizer.encode("The animal")[len(tokenizer.encode("The")) :]
        at = hidden.index(tokenizer.mask)
        assert hidden[:at] + animal + hidden[at + 1 :] == whole


def test_decode_is_silent_about_all_but_the_unknown(word):
    ids = [word.start, *word.encode("The zebra"), word.mask, word.end, word.pad, word.pad]
    assert word.decode(ids) == "The <unk>"
    assert word.decode(np.array(ids)) == "The <unk>"


@pytest.mark.parametrize(
    "text", [*SENTENCES[:5], '"Tired", she said (twice): "too ... wide"! A well-known 5,000.']
)
def test_words_are_joined_as_people_write(text):
    word = Tokenizer.train([text], kind="word")
    assert word.decode(word.encode(text)) == text


@given(st.text(st.sampled_from("ab1é'’\".,!-($ \n")))
def test_words_and_signs_join_with_one_space_for_white_space(text):
    word = Tokenizer.train([text or "a"], kind="word", vocabulary=100)
    assert word.decode(word.encode(text)) == " ".join(text.split())


def test_a_word_is_the_same_token_wherever_it_stands(word):
    first, quoted, late = (word.encode(text) for text in ("tired", '"tired"', "(too tired)"))
    assert first[0] == quoted[1] == late[2] != word.unknown


def test_words_take_any_white_space_for_one_space(word):
    assert word.decode(word.encode("  The\n\n quick\u00a0brown ")) == "The quick brown"


def test_a_contraction_is_a_word_and_an_elided_article_too(word):
    pieces = [piece.text.strip() for piece in word.tokens("It didn't cross l'animal.")]
    assert pieces == ["It", "didn't", "cross", "l'", "animal", "."]


@given(any_text)
def test_characters_are_code_points(text):
    tokenizer = Tokenizer.train([text or "a"], kind="character", vocabulary=1000)
    assert len(tokenizer.encode(text)) == len(text)
    assert tokenizer.decode(tokenizer.encode(text)) == text


def test_what_was_never_met_is_unknown(word, character):
    assert word.encode("zebra") == [word.unknown]
    assert character.encode("ж") == [character.unknown]


@pytest.mark.parametrize(
    ("normalisation", "raw", "same"),
    [
        ("nfc", "e\u0301te\u0301", "été"),
        ("nfkc", "ﬁne ①", "fine 1"),
        ("plain", "“it’s”\u00a0‘so’\u202f!", "\"it's\" 'so' !"),
        ("plain", "soft\u00adhyphen\u200b", "softhyphen"),
        ("plain", "e\u0301te\u0301", "été"),
    ],
)
def test_normalisation_lives_in_the_file(tmp_path, normalisation, raw, same):
    tokenizer = Tokenizer.train(SENTENCES, vocabulary=300, normalisation=normalisation)
    tokenizer.save(tmp_path / "tokenizer.json")
    again = Tokenizer.load(tmp_path / "tokenizer.json")
    assert again.encode(raw) == again.encode(same) == tokenizer.encode(raw)
    assert again.decode(again.encode(raw)) == same


def test_lower_casing_is_a_choice(bpe):
    lower = Tokenizer.train(SENTENCES, vocabulary=300, lowercase=True)
    assert lower.is_lowercase
    assert not Tokenizer.train(SENTENCES, vocabulary=300, normalisation="nfkc").is_lowercase
    assert not Tokenizer.train(SENTENCES, vocabulary=300).is_lowercase
    assert lower.decode(lower.encode("The ANIMAL É")) == "the animal é"
    assert bpe.encode("The") != bpe.encode("the")


def test_normalised_pieces_point_into_the_raw_text():
    tokenizer = Tokenizer.train(SENTENCES, kind="word", normalisation="nfkc", lowercase=True)
    raw = "THE\u00a0 ﬁne Animal"
    assert [raw[p.start : p.end].strip() for p in tokenizer.tokens(raw)] == ["THE", "ﬁne", "Animal"]


@given(any_text)
def test_pieces_cover_the_text_and_keep_words_together(bpe, text):
    pieces = bpe.tokens(text)
    assert [piece.id for piece in pieces] == bpe.encode(text)
    assert "".join(p.text for i, p in enumerate(pieces) if i == 0 or pieces[i - 1].end <= p.start) == text
    words = [piece.word for piece in pieces if piece.word is not None]
    assert words == sorted(words)
    assert set(words) == set(range(len(set(words))))


def test_pieces_know_their_words(bpe):
    text = "The animal didn't  cross."
    words: dict[int | None, str] = {}
    for piece in bpe.tokens(text):
        words[piece.word] = words.get(piece.word, "") + piece.text
    assert {number: word.strip() for number, word in words.items() if number is not None} == {
        0: "The",
        1: "animal",
        2: "didn't",
        3: "cross",
        4: ".",
    }


def test_the_mask_is_one_piece_and_one_word(any_kind):
    pieces = any_kind.tokens("The [MASK] cross", with_mask=True)
    (mask,) = [piece for piece in pieces if piece.id == any_kind.mask]
    assert mask.text.strip() == "[MASK]"
    assert [piece.word for piece in pieces if piece.word == mask.word] == [mask.word]
    assert {piece.word for piece in pieces} - {None} == {0, 1, 2}


def test_learning_gives_the_same_file_in_any_process(tmp_path):
    program = (
        "import sys; from regard.text.tokenizer import Tokenizer; from tests.text.conftest import SENTENCES\n"
        "for kind in ('bpe', 'word', 'character'):\n"
        "    Tokenizer.train(SENTENCES, kind, vocabulary=400).save(f'{sys.argv[1]}-{kind}')"
    )
    for run in ("one", "two"):
        subprocess.run([sys.executable, "-c", program, str(tmp_path / run)], check=True, timeout=300)
    for kind in ("bpe", "word", "character"):
        first = (tmp_path / f"one-{kind}").read_bytes()
        assert first == (tmp_path / f"two-{kind}").read_bytes()
        Tokenizer.load(tmp_path / f"one-{kind}").save(tmp_path / "again")
        assert (tmp_path / "again").read_bytes() == first


def test_options_that_are_off_do_not_change_the_fingerprint(bpe, monkeypatch):
    before = bpe.fingerprint
    content = json.loads(bpe.to_json())
    more = {**content, "later": None, "model": {"newer": False, **dict(reversed(content["model"].items()))}}
    for values, is_same in ((more, True), ({**more, "later": True}, False)):
        again = Tokenizer(bpe._inner)
        monkeypatch.setattr(again, "to_json", lambda values=values: json.dumps(values))
        assert (again.fingerprint == before) == is_same


def test_the_fingerprint_is_of_the_content(bpe, word, tmp_path):
    bpe.save(tmp_path / "a.json")
    assert Tokenizer.load(tmp_path / "a.json").fingerprint == bpe.fingerprint != word.fingerprint
    assert Tokenizer.train(SENTENCES, vocabulary=400, lowercase=True).fingerprint != bpe.fingerprint


def test_the_vocabulary_is_what_was_asked_for(bpe, word):
    assert Tokenizer.train(SENTENCES, vocabulary=300).vocabulary == 300
    assert word.vocabulary < 100
    assert max(bpe.encode("".join(SENTENCES))) < bpe.vocabulary
    assert Tokenizer.train(SENTENCES, kind="word", min_count=20).vocabulary < word.vocabulary


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"vocabulary": 260}, "between 261 and"),
        ({"vocabulary": 2**40}, "between 261 and"),
        ({"kind": "bpee"}, "did you mean bpe"),
        ({"normalisation": "nfd"}, "known"),
    ],
)
def test_impossible_settings_are_refused(settings, message):
    with pytest.raises(SettingError, match=message):
        Tokenizer.train(SENTENCES, **settings)


def test_nothing_to_learn_from_is_told():
    with pytest.raises(DataError, match="no text"):
        Tokenizer.train([])


def test_half_a_surrogate_pair_is_an_error_and_not_a_crash(bpe):
    with pytest.raises(DataError):
        bpe.encode("\ud800")
    with pytest.raises(DataError):
        bpe.encode_batch(["fine", "\ud800"])


def test_other_makers_names_are_found_or_given(tmp_path):
    inner = tokenizers.Tokenizer(
        tokenizers.models.WordLevel({"[PAD]": 0, "[UNK]": 1, "a": 2, "!!": 3}, "[UNK]")
    )
    inner.add_special_tokens(["[PAD]", "[UNK]", "!!"])
    inner.save(str(tmp_path / "t.json"))
    tokenizer = Tokenizer.load(tmp_path / "t.json", specials={"end": "!!"})
    assert tokenizer.specials == {"pad": 0, "end": 3, "unknown": 1}
    with pytest.raises(DataError, match="no mask token"):
        _ = tokenizer.mask
    with pytest.raises(DataError, match="not a special token"):
        Tokenizer.load(tmp_path / "t.json", specials={"end": "a"})


@given(st.lists(st.integers(0, 399), max_size=60))
@example([5 + 255] * 50)
def test_streamed_pieces_join_to_the_whole(bpe, ids):
    stream = bpe.stream()
    assert "".join([*map(stream.add, ids), stream.finish()]) == bpe.decode(ids)


@given(st.lists(st.integers(0, 399), max_size=40), st.integers(0, 399))
@example([5 + 226, 5 + 130], 5 + 172)
def test_a_stream_tells_what_a_last_id_would_add(bpe, ids, last):
    stream, other = bpe.stream(), bpe.stream()
    before = [*map(stream.add, ids)]
    text = stream.peek(last)
    assert text == stream.peek(last)
    assert before == [*map(other.add, ids)]
    assert text == other.add(last) + other.finish()


@given(any_text)
def test_streams_of_any_text_are_whole_and_never_split_a_character(bpe, text):
    stream = bpe.stream()
    pieces = [*map(stream.add, bpe.encode(text)), stream.finish()]
    assert "".join(pieces) == text
    if "\ufffd" not in text:
        assert "\ufffd" not in "".join(pieces)


def test_streams_speak_as_soon_as_they_can(bpe, any_kind):
    stream = bpe.stream()
    assert all(map(stream.add, bpe.encode("The animal")))
    euro = bpe.encode("€")
    assert [stream.add(number) for number in euro] == ["", "", "€"]
    text = "The animal didn't cross the street"
    spoken = any_kind.stream()
    assert "".join(map(spoken.add, [any_kind.start, *any_kind.encode(text), any_kind.end])) == text


def test_either_layout_is_saved_and_loaded(bpe, word, tmp_path):
    joint, apart = tmp_path / "joint", tmp_path / "apart"
    joint.mkdir()
    apart.mkdir()
    assert Tokenizers.joint(bpe).save(joint) == ["tokenizer.json"]
    assert Tokenizers(bpe, word).save(apart) == ["tokenizer.source.json", "tokenizer.target.json"]
    assert Tokenizers.load(joint).are_joint
    again = Tokenizers.load(apart)
    assert not again.are_joint
    assert again.fingerprint == Tokenizers(bpe, word).fingerprint


@pytest.mark.parametrize(
    "names", [[], ["tokenizer.source.json"], ["tokenizer.json", "tokenizer.target.json"]]
)
def test_half_a_layout_is_refused(bpe, tmp_path, names):
    for name in names:
        bpe.save(tmp_path / name)
    with pytest.raises(DataError, match="alone"):
        Tokenizers.load(tmp_path)
