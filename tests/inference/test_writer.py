"""Writer: what it writes, how it streams, and how it is surprised."""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from regard.errors import DataError, SettingError, ShapeError
from regard.inference.scoring import spans_over
from regard.inference.writer import StopStrings, Writer
from regard.model.watch import watch
from regard.text.tokenizer import Tokenizer

pytestmark = pytest.mark.xdist_group("toy-models")

PROMPTS = ["the cat", "the king sees", "a", "le chien âgé voit", "", "the red dog follows the bird."]


def chances_after(writer, ids):
    """Log-probabilities of every token after some ids, by one pass of the model."""
    with torch.inference_mode():
        return writer.model(torch.tensor([list(ids)]))[0, -1].log_softmax(-1).double().numpy()


def forced_by_hand(writer, before, ids):
    held, found = list(before), []
    for number in ids:
        found.append(chances_after(writer, held)[number])
        held.append(number)
    return found


def test_temperature_0_takes_the_most_probable_token(writer):
    held = writer.tokenizer.encode("the cat")
    found = writer.complete("the cat", temperature=0, max_tokens=12)
    for token in found.tokens:
        assert token.id == chances_after(writer, held).argmax()
        held.append(token.id)
    for same in (dict(top_k=1), dict(top_p=1e-6), dict(min_p=1.0), dict(temperature=1e-6)):
        assert writer.complete("the cat", max_tokens=12, **same).text == found.text


def test_a_score_is_that_of_a_forced_pass(writer):
    for seed in range(5):
        found = writer.complete("the king", max_tokens=15, seed=seed, top_k=20)
        ids = found.tokens.ids.tolist()
        by_hand = forced_by_hand(writer, writer.tokenizer.encode("the king"), ids)
        assert found.tokens.log_probabilities == pytest.approx(by_hand, abs=1e-5)
        assert found.score == pytest.approx(sum(by_hand), abs=1e-5)


@pytest.mark.parametrize(
    "option",
    [
        dict(temperature=0.3),
        dict(top_k=3),
        dict(top_p=0.3),
        dict(min_p=0.5),
        dict(repetition_penalty=5.0),
        dict(seed=1),
        dict(max_tokens=7),
        dict(ablate=[("decoder", 1, 2)]),
        dict(ablate=["positions"]),
    ],
)
def test_every_option_changes_the_text(writer, option):
    usual = writer.complete("the cat", max_tokens=20)
    assert writer.complete("the cat", **{"max_tokens": 20, **option}).text != usual.text


def test_the_same_call_gives_the_same_bits(writer):
    assert writer.complete(PROMPTS, max_tokens=20, seed=3) == writer.complete(PROMPTS, max_tokens=20, seed=3)


def test_a_completion_does_not_depend_on_its_neighbours(writer):
    prompts = [prompt + end for end in ("", " and", "x y z", ".") for prompt in PROMPTS if prompt] * 5
    together = writer.complete(prompts, max_tokens=15, seed=9)
    small = writer.complete(prompts, max_tokens=15, seed=9, batch_tokens=60, window=7)
    alone = [writer.complete(prompt, max_tokens=15, seed=9 + i) for i, prompt in enumerate(prompts)]
    texts = [each.text for each in alone]
    assert [each.text for each in together] == texts
    assert [each.text for each in small] == texts
    assert [each.prompt for each in together] == prompts
    assert len(set(texts)) > len(prompts) // 2  # each has random numbers of its own


def test_lengths_are_kept(writer):
    assert len(writer.complete("the cat", max_tokens=7).tokens) == 7
    assert writer.complete("the cat", max_tokens=7).reason == "length"
    full = writer.complete("the cat", max_tokens=1000)
    prompt = len(writer.tokenizer.encode("the cat"))
    assert (full.reason, len(full.tokens) + prompt) == ("context", writer.config.context)
    with pytest.raises(
        ShapeError, match=r"the text has \d+ tokens; prompt and completion share this model's context of 48"
    ):
        writer.complete("the cat sees " * 50)


def test_an_end_token_ends_it(writer, toy_model, toy_tokenizer):
    model = toy_model(5, family="decoder-only", positions="learned", head_bias=True)
    model.head.bias.data[toy_tokenizer.end] = 50.0
    ending = Writer(model, toy_tokenizer)
    found = ending.complete("the cat")
    assert (found.text, found.reason, len(found.tokens)) == ("", "end", 1)
    longer = ending.complete("the cat", min_tokens=5)
    assert (len(longer.tokens), longer.reason) == (6, "end")
    assert list(ending.stream("the cat")) == []


def test_forbidden_words_and_repetitions_are_not_written(writer):
    free = writer.complete("the cat", temperature=0, max_tokens=40)
    words = sorted({token.text.strip() for token in free.tokens if token.text.strip().isalpha()})
    pairs = list(pairwise(free.tokens.ids.tolist()))
    assert words

    def holds(found, word):
        """Whether any spelling of a word, at the beginning or after a space, stands in what was written."""
        ids, encode = tuple(found.tokens.ids.tolist()), writer.tokenizer.encode
        spelled = [tuple(encode(text)) for text in (word, f" {word}")]
        return any(ids[i : i + len(one)] == one for one in spelled for i in range(len(ids)))

    for options in (dict(temperature=0), dict(seed=3), dict(top_k=5, repetition_penalty=1.2)):
        bound = writer.complete("the cat", max_tokens=40, forbidden=words, **options)
        assert not any(holds(bound, word) for word in words)
    assert all(holds(free, word) for word in words)
    once = writer.complete("the cat", temperature=0, max_tokens=40, no_repeat_ngram_size=2)
    seen = list(pairwise(once.tokens.ids.tolist()))
    assert len(set(seen)) == len(seen)
    assert len(set(pairs)) < len(pairs)


def test_streaming_equals_complete(writer):
    for seed in range(60):
        prompt = PROMPTS[seed % len(PROMPTS)]
        whole = writer.complete(prompt, max_tokens=25, seed=seed)
        stream = writer.stream(prompt, max_tokens=25, seed=seed)
        assert stream.completion is None
        assert "".join(stream) == whole.text
        assert stream.completion == whole


def test_pieces_come_as_they_are_written(writer):
    stream = writer.stream("the cat", max_tokens=30, seed=2)
    first = next(stream)
    assert first
    assert stream.completion is None
    assert all(stream)


def test_no_character_is_split():
    text = "日本語のテキスト 🙂👩\u200d👩\u200d👧 ünïcödé ñandú"
    tokenizer = Tokenizer.train([text], vocabulary=270)  # hardly more than the bytes themselves
    ids, spoken = tokenizer.encode(text), StopStrings(tokenizer.stream())
    for count in range(1, len(ids) + 1):
        spoken.read(ids[:count])
        assert text.startswith("".join(spoken.pieces))
    assert len(spoken.pieces) > len(text)
    assert spoken.finish(ids) == text


def test_stop_strings_across_token_borders(writer):
    stopped = 0
    for seed in range(30):
        whole = writer.complete("the cat", max_tokens=25, seed=seed)
        text, pieces = whole.text, [token.text for token in whole.tokens]
        border = len("".join(pieces[:8]))
        stop = text[max(border - 1, 0) : border + 2]  # begins in one token and ends in another
        if len(stop) < 3 or "�" in stop:
            continue
        stopped += 1
        found = writer.complete("the cat", max_tokens=25, seed=seed, stop=[stop, "never said"])
        assert found.text == text[: text.index(stop)]
        assert found.reason == "stop"
        assert len(found.tokens) < 25
        assert found.tokens.ids.tolist() == whole.tokens.ids.tolist()[: len(found.tokens)]
        stream = writer.stream("the cat", max_tokens=25, seed=seed, stop=stop)
        assert "".join(stream) == found.text
        assert stream.completion == found
    assert stopped > 5
    with pytest.raises(SettingError, match="stop"):
        writer.complete("the cat", stop=[""])


class Characters:
    """A stream in which an id is a character."""

    def add(self, number):
        return chr(number)

    def finish(self):
        return ""


@given(st.text("abc", max_size=30), st.lists(st.text("abc", min_size=1, max_size=4), max_size=3), st.data())
def test_nothing_of_a_stop_string_leaks(text, stops, data):
    """Against the obvious way: add a character at a time and look whether any stop string is there."""
    expected, over = text, False
    for end in range(len(text) + 1):
        ending = [stop for stop in stops if text[:end].endswith(stop)]
        if ending:
            expected, over = text[: end - max(map(len, ending))], True
            break
    spoken = StopStrings(Characters(), stops)
    ids, at = [ord(sign) for sign in text], 0
    while at < len(ids) and not spoken.stopped:
        at += data.draw(st.integers(1, 5))
        spoken.read(ids[:at])
        assert expected.startswith("".join(spoken.pieces))
    assert spoken.finish(ids) == expected
    assert spoken.stopped == over


def test_next_words_are_the_distribution_over_the_whole_vocabulary(writer):
    ids = writer.tokenizer.encode("the cat")
    chances = chances_after(writer, ids)
    for temperature in (0.5, 1.0, 2.0):
        found = writer.next_words("the cat", temperature=temperature)
        expected = np.exp(chances / temperature) / np.exp(chances / temperature).sum()
        assert found.probabilities == pytest.approx(expected, abs=1e-6)
        assert found.probabilities.sum() == pytest.approx(1)
        assert found.entropy == pytest.approx(-(expected * np.log(expected)).sum(), abs=1e-5)
    top = found.top(3)
    assert [each.id for each in top] == np.argsort(-chances)[:3].tolist()
    assert writer.next_words("the cat", temperature=0.1).entropy < writer.next_words("the cat").entropy
    with pytest.raises(SettingError, match=r"temperature \(0\)"):
        writer.next_words("the cat", temperature=0)
    with pytest.raises(SettingError, match=r"top \(0\)"):
        found.top(0)
    ablate = writer.next_words("the cat", ablate=[("decoder", 0, 1)])
    with watch(writer.model, only=(), ablate=[("decoder", 0, 1)]):
        assert ablate.probabilities == pytest.approx(np.exp(chances_after(writer, ids)), abs=1e-6)


def test_perplexity_of_a_short_text_is_one_forced_pass(writer):
    text = "the cat sees the dog."
    ids = writer.tokenizer.encode(text)
    before = writer.tokenizer.encode("\n")[-1:]
    by_hand = forced_by_hand(writer, before, ids)
    found = writer.perplexity(text)
    assert found.tokens.log_probabilities == pytest.approx(by_hand, abs=1e-5)
    assert found.perplexity == pytest.approx(math.exp(-sum(by_hand) / len(ids)))
    assert found.score == pytest.approx(sum(by_hand), abs=1e-4)
    with pytest.raises(DataError, match="no token"):
        writer.perplexity("")


@pytest.mark.parametrize("stride", [None, 1, 17, 48])
def test_perplexity_of_a_long_text_counts_every_token_once(writer, stride):
    text = "the cat sees the dog. the king hears the bird. " * 9
    ids = writer.tokenizer.encode(text)
    whole, context = [*writer.tokenizer.encode("\n")[-1:], *ids], writer.config.context
    found = writer.perplexity(text, stride=stride)
    assert len(found.tokens) == len(ids) > 2 * context
    step = stride or context // 2
    by_hand = []
    for place in range(len(ids)):
        end = context if place < context else context + step * math.ceil((place + 1 - context) / step)
        begin = max(0, min(end, len(ids)) - context)
        by_hand.append(chances_after(writer, whole[begin : place + 1])[ids[place]])
    assert found.tokens.log_probabilities == pytest.approx(by_hand, abs=1e-4)


@given(st.integers(0, 300), st.integers(1, 40), st.data())
def test_windows_cover_a_text_without_gap(tokens, context, data):
    stride = data.draw(st.integers(1, context))
    spans = list(spans_over(tokens, context, stride))
    counted = [place for span in spans for place in range(span.counted, span.end)]
    assert counted == list(range(tokens))
    assert all(span.end - span.begin <= context for span in spans)
    assert all(span.counted - span.begin >= context - stride for span in spans[1:] if span.end < tokens)


def test_an_impossible_stride_is_refused(writer):
    with pytest.raises(SettingError, match=r"stride \(49\)"):
        writer.perplexity("the cat", stride=49)


def test_words_keep_their_spaces(toy_model):
    tokenizer = Tokenizer.train(["the cat sees the dog , and sleeps ."], kind="word")
    writer = Writer(toy_model(3, family="decoder-only", vocabulary=tokenizer.vocabulary), tokenizer)
    for seed in range(10):
        found = writer.complete("the cat", max_tokens=6, seed=seed)
        whole = tokenizer.decode([*tokenizer.encode("the cat"), *found.tokens.ids.tolist()])
        assert "the cat" + found.text == whole
        assert "".join(writer.stream("the cat", max_tokens=6, seed=seed)) == found.text


def test_threads_share_one_writer(writer):
    calls = [(PROMPTS[i % 6], dict(seed=i, max_tokens=10, ablate=[("decoder", 0, i % 4)])) for i in range(20)]
    alone = [writer.complete(prompt, **options) for prompt, options in calls]
    with ThreadPoolExecutor(5) as pool:
        together = list(pool.map(lambda call: writer.complete(call[0], **call[1]), calls))
    assert together == alone


@pytest.mark.parametrize(
    "option", [dict(temperature=-1), dict(top_k=0), dict(top_p=2.0), dict(max_tokens=0), dict(seed=-1)]
)
def test_impossible_options_are_refused_at_once(writer, option):
    with pytest.raises(SettingError):
        writer.complete(iter(["the cat"]), **option)
    with pytest.raises(SettingError):
        writer.stream("the cat", **option)


def test_a_prompt_that_leaves_too_few_tokens_fails_alone(writer):
    long = "the cat sees the dog. " * 2
    room = writer.config.context - len(writer.tokenizer.encode(long))
    assert 0 < room < 40
    whole = writer.complete(["the cat", "a"], min_tokens=room + 1, max_tokens=60)
    stream = writer.complete(iter(["the cat", "a", long, "the"]), min_tokens=room + 1, max_tokens=60)
    assert [next(stream), next(stream)] == whole
    with pytest.raises(ShapeError, match=rf"text number 3 has \d+ tokens and leaves {room} .* min_tokens \("):
        next(stream)
    with pytest.raises(ShapeError, match=r"the text has .* lower min_tokens"):
        writer.stream(long, min_tokens=room + 1, max_tokens=60)
    assert len(writer.complete(long, min_tokens=room, max_tokens=60).tokens) == room


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (dict(min_tokens=20, max_tokens=9), r"^min_tokens \(20\) must not be above max_tokens \(9\)"),
        (dict(max_tokens=0), r"^max_tokens \(0\) must lie between"),
        (dict(min_tokens=-1), r"^min_tokens \(-1\) must lie between"),
        (dict(max_tokens="9"), r"^max_tokens \('9'\)"),
    ],
)
def test_a_mistake_is_told_with_the_names_of_the_call(writer, options, message):
    for call in (writer.complete, writer.stream):
        with pytest.raises(SettingError, match=message):
            call("the cat", **options)


@pytest.mark.parametrize("part", ["scaling", ("decoder", 0, 1)])
def test_one_ablated_part_needs_no_list(writer, part):
    alone, listed = (writer.next_words("the cat", ablate=ablate).probabilities for ablate in (part, [part]))
    assert (alone == listed).all()
    assert np.abs(alone - writer.next_words("the cat").probabilities).max() > 1e-4
    assert writer.complete("the", ablate=part, max_tokens=9) == writer.complete(
        "the", ablate=[part], max_tokens=9
    )
    found = [
        writer.perplexity("the cat sees", ablate=ablate).score for ablate in (part, [part], iter([part]))
    ]
    assert found[0] == found[1] == found[2]
