"""Translator: right, the same every time, and every option with its effect."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise, product

import numpy as np
import pytest
import torch

from regard.errors import DataError, SettingError, ShapeError, UnknownName, UsageError
from regard.inference.tokens import Tokens
from regard.inference.translation import Alignment, Translation, join_parts
from regard.inference.translator import Translator
from regard.model.watch import watch
from regard.text.tokenizer import Tokenizer, Tokenizers

pytestmark = pytest.mark.xdist_group("toy-models")


def forced_by_hand(translator, text, ids):
    """Log-probabilities of ids, one forward pass of the model and nothing else."""
    source = torch.tensor([[*translator.tokenizers.source.encode(text), translator.tokenizers.source.end]])
    target = torch.tensor([[translator.tokenizers.target.start, *ids[:-1]]])
    with torch.inference_mode():
        chances = translator.model(source, target)[0].log_softmax(-1)
    return [float(chances[place, number]) for place, number in enumerate(ids)]


def texts_of(found):
    return [each.text for each in found]


@pytest.fixture(scope="module")
def sources(toy_pairs):
    return [source for source, _ in toy_pairs(200, 77)]


@pytest.mark.parametrize("beams", [1, 4])
def test_learned_sentences_are_translated(translator, toy_pairs, beams):
    pairs = toy_pairs(200, 78)
    found = translator.translate([source for source, _ in pairs], beams=beams)
    right = sum(each.text == target for each, (_, target) in zip(found, pairs, strict=True))
    assert right >= 190
    assert {each.reason for each in found} == {"end"}


@pytest.mark.parametrize("beams", [1, 4])
@pytest.mark.parametrize("which", ["translator", "guesser"])
def test_a_translation_does_not_depend_on_its_neighbours(request, which, sources, beams):
    translator = request.getfixturevalue(which)
    sources = sources if which == "translator" else sources[:100]
    alone = [translator.translate(source, beams=beams) for source in sources]
    for size in (2, 8, 32):
        found = [
            each
            for first in range(0, len(sources), size)
            for each in translator.translate(sources[first : first + size], beams=beams)
        ]
        assert texts_of(found) == texts_of(alone)
        assert [each.score for each in found] == pytest.approx([each.score for each in alone], abs=1e-4)
    long = " ".join(sources[:3])
    padded = [translator.translate([source, long], beams=beams)[0] for source in sources[:20]]
    assert texts_of(padded) == texts_of(alone[:20])


@pytest.mark.parametrize("which", ["translator", "guesser"])
def test_a_translation_is_the_same_without_a_cache(request, which, sources):
    translator = request.getfixturevalue(which)
    target = translator.tokenizers.target
    for source, found in zip(sources[:30], translator.translate(sources[:30], beams=1), strict=True):
        ids = [target.start]
        read = torch.tensor([[*translator.tokenizers.source.encode(source), target.end]])
        with torch.inference_mode():
            while ids[-1] != target.end and len(ids) <= len(found.tokens):
                ids.append(int(translator.model(read, torch.tensor([ids]))[0, -1].argmax()))
        assert ids[1:] == found.tokens.ids.tolist()


def test_the_same_call_gives_the_same_bits(guesser, sources):
    assert guesser.translate(sources[:40], n_best=3) == guesser.translate(sources[:40], n_best=3)


@pytest.mark.parametrize(("budget", "window"), [(1, 7), (100, 1), (4096, 33), (10**6, 1000)])
def test_order_is_kept_in_any_batches(translator, sources, budget, window):
    expected = texts_of(translator.translate(sources[:60], beams=1))
    found = translator.translate(sources[:60], beams=1, batch_tokens=budget, window=window)
    assert texts_of(found) == expected


def test_an_iterable_streams_a_window_at_a_time(guesser, sources):
    taken = []

    def lines():
        for source in sources:
            taken.append(source)
            yield source

    stream = guesser.translate(lines(), beams=1, max_length=3, window=5)
    assert taken == []
    first = next(stream)
    assert len(taken) == 5
    assert first.text == guesser.translate(sources[0], beams=1, max_length=3).text
    assert len([first, *stream]) == len(sources)


def test_a_score_is_that_of_a_forced_pass(translator, guesser, sources):
    for each, beams in product((translator, guesser), (1, 4)):
        for source, found in zip(sources[:20], each.translate(sources[:20], beams=beams), strict=True):
            ids = found.tokens.ids.tolist()
            by_hand = forced_by_hand(each, source, ids)
            assert found.tokens.log_probabilities == pytest.approx(by_hand, abs=1e-5)
            assert found.score == pytest.approx(sum(by_hand), abs=1e-5)
            scored = each.score(source, found)
            assert scored.score == pytest.approx(found.score, abs=1e-5)
            assert scored.rank_score == pytest.approx(found.rank_score, abs=1e-5)
            assert found.rank_score == pytest.approx(found.score / ((5 + len(ids)) / 6) ** 0.6)


def test_a_given_text_is_scored_with_its_end(translator):
    right = translator.score("the cat sees the dog.", "le chat voit le chien.")
    wrong = translator.score("the cat sees the dog.", "le chien voit le chat.")
    assert right.score > wrong.score + 3
    assert right.tokens[-1].id == translator.tokenizers.target.end
    assert right.text == "le chat voit le chien."
    assert "".join(token.text for token in right.tokens) == right.text


def test_one_pair_is_scored_at_a_time(translator):
    for ask in (translator.score, translator.align):
        with pytest.raises(UsageError, match="the text must be a string, not list; call it for each text"):
            ask(["the cat sees the dog."], "le chat voit le chien.")
        with pytest.raises(UsageError, match="must be a string or a Translation, not list"):
            ask("the cat sees the dog.", ["le chat voit le chien."])
    with pytest.raises(UsageError, match="the text must be a string, not bytes"):
        translator.alternatives(b"the cat", 0, translation="le chat")


def test_tokens_join_to_the_text_and_to_the_score(guesser, sources):
    for found in guesser.translate(sources[:30], n_best=2):
        for each in (found, *found.others):
            assert "".join(token.text for token in each.tokens) == each.text
            assert sum(token.log_probability for token in each.tokens) == pytest.approx(each.score)


def test_more_beams_find_a_likelier_translation(guesser, sources):
    narrow = guesser.translate(sources[:40], beams=1, length_penalty=0.0)
    wide = guesser.translate(sources[:40], beams=16, length_penalty=0.0)
    assert sum(each.score for each in wide) > sum(each.score for each in narrow) + 1
    assert texts_of(narrow) != texts_of(wide)


def test_the_best_few_are_in_order_and_differ(guesser, sources):
    found = guesser.translate(sources[0], beams=6, n_best=4)
    several = [found, *found.others]
    assert len({tuple(each.tokens.ids.tolist()) for each in several}) == 4
    ranks = [each.rank_score for each in several]
    assert ranks == sorted(ranks, reverse=True)
    assert guesser.translate(sources[0], beams=6) == found.__class__(
        found.text, found.score, found.rank_score, found.tokens, found.reason
    )


def test_a_length_penalty_favours_longer_ones(guesser, sources):
    lengths = [
        sum(
            len(each.tokens)
            for each in guesser.translate(sources[:30], length_penalty=alpha, patience=None, max_length=30)
        )
        for alpha in (0.0, 3.0)
    ]
    assert lengths[1] > lengths[0]


def test_patience_waits_for_better_ones(guesser, sources):
    hasty, patient = (
        guesser.translate(sources[:40], patience=patience, length_penalty=2.0, max_length=20)
        for patience in (0.25, None)
    )
    ranks = [[each.rank_score for each in found] for found in (hasty, patient)]
    assert all(late >= early - 1e-6 for early, late in zip(*ranks, strict=True))
    assert texts_of(hasty) != texts_of(patient)


def test_lengths_are_kept(guesser, translator, sources):
    for beams in (1, 4):
        short = translator.translate(sources[:20], max_length=3, beams=beams)
        assert {len(each.tokens) for each in short} == {3}
        assert {each.reason for each in short} == {"length"}
    for beams in (1, 4):
        long = translator.translate(sources[:20], min_length=25, beams=beams)
        assert min(len(each.tokens) for each in long) > 25  # the end comes behind
    most = 51 + len(translator.tokenizers.source.encode("the cat"))
    endless = translator.translate("the cat", beams=1, min_length=40)
    assert 40 < len(endless.tokens) <= most


def test_a_prefix_begins_the_translation(translator):
    free = translator.translate("the cat sees the dog.")
    led = translator.translate("the cat sees the dog.", prefix="le chien")
    assert free.text == "le chat voit le chien."
    assert led.text.startswith("le chien")
    assert [token.log_probability for token in led.tokens[:2]] == [None, None]
    rest = forced_by_hand(translator, "the cat sees the dog.", led.tokens.ids.tolist())[led.tokens.forced :]
    assert led.score == pytest.approx(sum(rest), abs=1e-5)


def test_forbidden_words_are_not_written(translator):
    assert "chat" in translator.translate("the cat sees the dog.").text
    for beams in (1, 4):
        found = translator.translate("the cat sees the dog.", forbidden=["chat", "le"], beams=beams)
        assert not {"chat", "le"} & set(found.text.replace(".", "").split())
    with pytest.raises(SettingError, match="must be a list of words"):
        translator.translate("the cat", forbidden="chat")
    with pytest.raises(SettingError, match="is no word"):
        translator.translate("the cat", forbidden=[" "])


def test_no_ngram_is_repeated(guesser, sources):
    def repeats(found):
        rows = [each.tokens.ids.tolist() for each in found]
        return sum(len(row) - 1 - len(set(pairwise(row))) for row in rows)

    free = guesser.translate(sources[:40], min_length=30, beams=1)
    bound = guesser.translate(sources[:40], min_length=30, beams=1, no_repeat_ngram_size=2)
    assert repeats(free) > 0
    assert repeats(bound) == 0


def test_a_translation_has_the_tree_of_its_search(translator):
    found = translator.translate("the cat sees the dog.", tree=True)
    assert found.tree is not None
    best = next(node for node in found.tree.nodes if node.place == 0)
    assert best.score == pytest.approx(found.score)
    assert translator.translate("the cat sees the dog.").tree is None
    assert translator.translate("the cat sees the dog.", beams=1, tree=True).tree is not None


def test_heads_can_be_ablated(translator, sources):
    ablate = [("cross", layer, head) for layer in range(2) for head in range(4)]
    blind = translator.translate(sources[:10], ablate=ablate)
    assert texts_of(blind) != texts_of(translator.translate(sources[:10]))
    assert len(set(texts_of(blind))) == 1  # nothing of the source is seen
    with watch(translator.model, only=(), ablate=ablate):
        by_hand = forced_by_hand(translator, sources[0], blind[0].tokens.ids.tolist())
    assert blind[0].score == pytest.approx(sum(by_hand), abs=1e-5)
    assert translator.score(sources[0], blind[0], ablate=ablate).score == pytest.approx(
        blind[0].score, abs=1e-5
    )
    with pytest.raises(SettingError, match="no head 9"):
        translator.translate("the cat", ablate=[("cross", 0, 9)])


@pytest.mark.parametrize("blank", ["", " ", "\t \n", "\u2003"])
def test_white_space_has_the_empty_translation(translator, blank):
    found = translator.translate(blank)
    assert (found.text, found.score, found.rank_score, len(found.tokens)) == ("", 0.0, 0.0, 0)
    assert found.reason == "empty"
    several = translator.translate(["the cat sees the dog.", blank, "the dog sees the cat."])
    assert texts_of(several) == ["le chat voit le chien.", "", "le chien voit le chat."]


def test_no_texts_give_no_translations(translator):
    assert translator.translate([]) == []
    assert list(translator.translate(iter([]))) == []


@pytest.mark.parametrize(
    "text", ["\x00\x01\x7f", "the\x00cat", "\u2028x\u0085", "🙂👩\u200d👩", "</s><pad>[MASK]"]
)
def test_odd_characters_pass_through(translator, text):
    assert isinstance(translator.translate(text, max_length=5).text, str)


def test_a_text_too_long_is_an_error_with_its_number(translator):
    long = "the cat sees the dog. " * 20
    with pytest.raises(ShapeError, match=r"the text has 1\d\d tokens and this model reads 63; shorten it"):
        translator.translate(long)
    with pytest.raises(ShapeError, match="text number 2 has"):
        translator.translate(["the cat", long])
    stream = translator.translate(iter(["the cat sees the dog.", long, "x"]))
    assert next(stream).text == "le chat voit le chien."  # what came before it is answered
    with pytest.raises(ShapeError, match="text number 2 has"):
        next(stream)


def test_a_megabyte_is_one_clear_error_or_is_split(translator):
    mega = "the cat sees the dog.\n" * 50_000
    with pytest.raises(ShapeError, match=r"has \d{3},\d{3} tokens"):
        translator.translate(mega)
    part = mega[:20_000]
    found = translator.translate(part, split="sentences", beams=1)
    whole, left = divmod(len(part), len("the cat sees the dog.\n"))
    assert found.text.startswith("le chat voit le chien.\n" * whole)
    assert len(found.parts) == whole + bool(left)


def test_a_translation_that_cannot_be_as_long_as_asked_is_refused_by_name(translator):
    room = translator.config.context - 1
    assert len(translator.translate("the cat", min_length=room, beams=1).tokens) == room
    with pytest.raises(
        SettingError, match=rf"min_length \({room + 1}\) must not be above {room}, the tokens"
    ):
        translator.translate("the cat", min_length=room + 1)
    with pytest.raises(SettingError, match=rf"min_length \({room}\) must not be above \d+, the tokens"):
        translator.translate("the cat", min_length=room, prefix="le chat")


@pytest.mark.parametrize("part", ["scaling", ("cross", 0, 1)])
def test_one_ablated_part_needs_no_list(guesser, part):
    text = "the cat sees the dog."
    assert guesser.translate(text, ablate=part) == guesser.translate(text, ablate=[part])
    assert guesser.score(text, "le chat", ablate=part) == guesser.score(text, "le chat", ablate=iter([part]))
    assert guesser.score(text, "le chat", ablate=part) != guesser.score(text, "le chat")
    assert guesser.alternatives(text, 0, ablate=part) == guesser.alternatives(text, 0, ablate=[part])


def test_nothing_is_aligned_with_an_empty_text(translator):
    with pytest.raises(UsageError, match="the text is empty"):
        translator.align("", "le chat")
    assert translator.align("the cat", "").pairs == []
    assert translator.translate("", alignment=True).alignment is None


def test_the_tokens_of_a_split_text_join_to_its_text(translator):
    sentences = ["the cat sees the dog.", "the king hears the bird.", "the dog sees the cat."] * 4
    text = "\n \t".join(sentences)
    for options in (dict(), dict(prefix="le"), dict(max_length=3), dict(beams=1)):
        found = translator.translate(text, split="sentences", **options)
        assert len(found.parts) > 1
        assert "".join(token.text for token in found.tokens) == found.text
        assert found.tokens.ids.tolist() == [n for part in found.parts for n in part.tokens.ids.tolist()]
        assert sum(token.log_probability or 0.0 for token in found.tokens) == pytest.approx(found.score)


def test_a_split_text_is_the_sum_of_its_parts(translator, toy_pairs):
    pairs = toy_pairs(9, 5)
    gaps = ["\u00a0", "  ", "\n", "\n\n", " \t", "\u3000", "\n ", "  ", ""]
    text = "".join(source + gap for (source, _), gap in zip(pairs, gaps, strict=True))
    found = translator.translate(text, split="sentences")
    alone = translator.translate([source for source, _ in pairs])
    assert found.text == "".join(each.text + gap for each, gap in zip(alone, gaps, strict=True))
    assert found.score == pytest.approx(sum(each.score for each in alone), abs=1e-4)
    assert texts_of(found.parts) == texts_of(alone)
    short = "the cat sees the dog. the dog sees the cat."
    assert translator.translate(short, split="sentences").parts == ()  # what fits is not touched
    packed = translator.translate("the cat sees the dog. " * 20, split="sentences")
    assert 2 <= len(packed.parts) < 10  # several sentences to a part
    unbroken = translator.translate("x" * 3000, split="sentences", max_length=2)
    assert len(unbroken.parts) > 40
    with pytest.raises(UnknownName, match="unknown split 'word'"):
        translator.translate("x", split="word")


def test_alternatives_are_the_distribution_at_a_position(translator):
    text = "the cat sees the dog."
    found = translator.translate(text)
    ids = found.tokens.ids.tolist()
    for position in range(len(ids)):
        some = translator.alternatives(text, position, top=5)
        by_hand = [forced_by_hand(translator, text, [*ids[:position], each.id])[-1] for each in some]
        assert [each.probability for each in some] == pytest.approx(np.exp(by_hand), abs=1e-5)
        assert some[0].id == ids[position]
    everything = translator.alternatives(text, 1, top=10**6)
    assert len(everything) == translator.config.vocabulary
    assert sum(each.probability for each in everything) == pytest.approx(1, abs=1e-4)
    assert everything[0].text == " chat"
    other = translator.alternatives(text, 1, translation="le chien voit le chat.", top=1)
    assert other[0].text == " chat"
    with pytest.raises(SettingError, match=r"position \(99\) must lie between 0 and"):
        translator.alternatives(text, 99)
    with pytest.raises(SettingError, match=r"top \(-1\) must be 1 or more"):
        translator.alternatives(text, 0, top=-1)


def test_an_alignment_has_the_weights_of_a_forced_pass(translator):
    text = "the red dog sees the old cat."
    found = translator.translate(text, alignment=True)
    alignment = found.alignment
    source = [*translator.tokenizers.source.encode(text), translator.tokenizers.source.end]
    ids = found.tokens.ids.tolist()
    target = [translator.tokenizers.target.start, *ids[:-1]]
    with torch.inference_mode(), watch(translator.model) as seen:
        translator.model(torch.tensor([source]), torch.tensor([target]))
    for layer in range(2):
        assert np.allclose(alignment.weights[layer], seen[f"decoder.{layer}.cross.weights"][0], atol=1e-6)
    assert alignment.weights.shape == (2, 4, len(ids), len(source))
    assert np.allclose(alignment.weights.sum(-1), 1, atol=1e-5)
    assert "".join(alignment.target) == found.text
    assert "".join(alignment.source) == text
    assert (alignment.layer, alignment.head) == np.unravel_index(alignment.information.argmax(), (2, 4))
    chien, dog = alignment.target.index(" chien"), alignment.source.index(" dog")
    assert any((chien, dog) in alignment.pairs_of(layer, head) for layer in range(2) for head in range(4))
    assert len(alignment.pairs) == len(ids) - 1
    again = translator.align(text, found.text)
    assert np.allclose(again.weights, alignment.weights)
    assert translator.translate(text).alignment is None


def test_the_alignment_uses_the_head_with_the_most_information():
    diffuse = np.full((4, 4), 0.25)
    stuck = np.tile(np.eye(4)[3], (4, 1))
    sharp = np.eye(4)[[1, 0, 2, 3]]
    alignment = Alignment(
        ("a", "b", "c", ""), ("b", "a", "c", ""), np.array([[diffuse, stuck], [sharp, diffuse]])
    )
    assert alignment.information == pytest.approx(np.array([[0, 0], [np.log(4), 0]]))
    assert (alignment.layer, alignment.head) == (1, 0)
    assert alignment.pairs == [(0, 1), (1, 0), (2, 2)]
    assert (alignment.matrix == sharp).all()
    with pytest.raises(SettingError, match="there are 2 layers of 2 heads"):
        alignment.pairs_of(2, 0)


def test_two_vocabularies_are_told_apart(toy_model, toy_tokenizer):
    words = Tokenizer.train(["le chat voit le chien ."], kind="word")
    model = toy_model(3, target_vocabulary=words.vocabulary, share_embeddings=False)
    found = Translator(model, Tokenizers(toy_tokenizer, words)).translate("the cat", max_length=6)
    assert found.tokens.ids.max() < words.vocabulary
    assert "".join(token.text for token in found.tokens) == found.text


def test_threads_share_one_translator(translator, sources):
    options = [
        dict(beams=1),
        dict(beams=3),
        dict(ablate=[("cross", 1, 0)]),
        dict(prefix="le roi"),
        dict(n_best=2),
    ]
    calls = [(sources[i : i + 8], option) for i, option in enumerate(options * 3)]
    alone = [translator.translate(texts, **option) for texts, option in calls]
    with ThreadPoolExecutor(5) as pool:
        together = list(pool.map(lambda call: translator.translate(call[0], **call[1]), calls))
    assert together == alone


@pytest.mark.parametrize("wrong", [5, None, b"bytes"])
def test_what_is_no_text_is_refused(translator, wrong):
    with pytest.raises(UsageError, match="a text must be a string"):
        translator.translate(wrong)
    with pytest.raises(UsageError, match="a text must be a string"):
        translator.translate(["the cat", wrong])


def test_what_is_no_unicode_is_refused(translator):
    with pytest.raises(DataError, match="is it valid Unicode"):
        translator.translate(["the cat", "\ud800"])


@pytest.mark.parametrize(
    ("option", "line"),
    [
        (dict(beams=0), r"beams \(0\)"),
        (dict(n_best=9), r"n_best \(9\)"),
        (dict(max_length=0), r"max_length \(0\)"),
        (dict(min_length=9, max_length=3), r"min_length \(9\)"),
        (dict(length_penalty=float("nan")), "length_penalty"),
        (dict(prefix="le chat " * 40), "prefix"),
        (dict(window=0), r"window \(0\)"),
        (dict(batch_tokens=0), r"batch_tokens \(0\)"),
    ],
)
def test_impossible_options_are_refused_at_once(translator, option, line):
    with pytest.raises(SettingError, match=line):
        translator.translate(iter(["the cat"]), **option)


@pytest.mark.parametrize(
    ("texts", "gaps", "expected"),
    [
        (["Hello.", "Bye!", "End"], ["", "", ""], "Hello. Bye! End"),
        (["你好。", "再见！"], ["", ""], "你好。再见！"),
        (["half a wo", "rd."], ["", ""], "half a word."),
        (["One.", "Two."], ["\n\n", " "], "One.\n\nTwo. "),
    ],
)
def test_parts_are_joined_with_the_spaces_of_their_language(translator, texts, gaps, expected):
    target = translator.tokenizers.target
    spelled = [target.encode(text) for text in texts]
    tokens = [Tokens(target, ids, [0.0] * len(ids)) for ids in spelled]
    parts = [Translation(text, 0.0, 0.0, each) for text, each in zip(texts, tokens, strict=True)]
    found = join_parts(parts, gaps)
    assert found.text == expected
    assert "".join(token.text for token in found.tokens) == expected
