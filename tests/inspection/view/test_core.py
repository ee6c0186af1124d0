"""What the view keeps apart from any drawing: its address, the newest sentence, the choice, its colours."""

from __future__ import annotations

import numpy as np
import pytest

from regard.inspection.record.tokens import Side, Token, merge_words
from regard.inspection.render.heat_map import DIVERGING, SCALE, shade, shade_of_difference
from regard.inspection.render.html_export import packed
from regard.inspection.render.payload import coarse, half, pack
from regard.text.tokenizer import Tokenizer

ASK = """await (async () => {
    const shown = [], sent = [], state = { get: () => "model", on() {} };
    const rest = (time) => new Promise((done) => setTimeout(done, time));
    const trace = async ({ text, wait }) => { sent.push(text); await rest(wait); return { text }; };
    const tracing = new it.Tracing({ boundTo: () => ({ trace }) }, state);
    tracing.on(({ text }) => shown.push(text));
    for (const [text, wait] of asked.requests) tracing.ask({ text, wait });
    await rest(asked.after);
    return { shown, sent };
})()"""
RUNS = """await (async () => {
    const [drawn, told] = [[], []];
    const place = { model: "one", text: 1 }, heard = [];
    const rest = (time) => new Promise((done) => setTimeout(done, time));
    const state = { get: () => place.model, on: (_, callback) => heard.push(callback) };
    const fail = (error) => told.push(error?.message ?? null);
    const card = { fail, blank: (isBlank) => drawn.push(isBlank ? "blank" : "seen") };
    const source = new it.Source();
    const requests = new it.PanelRequests(
        { state, source }, { name: "test", cards: [card], subject: () => place.text });
    const run = (name, wait, error) => requests.run(async (ask) => {
        await ask.rest(wait);
        if (error) throw new Error(error);
        return name;
    }, (answer) => drawn.push(answer));
    const changeModel = (model) => { place.model = model; heard.forEach((callback) => callback()); };
    await (SCENARIO)();
    return { drawn, told };
})()"""
PALETTE = "it.usePalette({ ...asked, hues: [], ideas: {} })"


def colours(scale):
    """Hex colours as lists of red, green and blue."""
    return [[int(colour[n : n + 2], 16) for n in (1, 3, 5)] for colour in scale]


def test_an_address_is_read_as_it_was_written(run):
    values = {
        "model": "demo", "text": "a & b = <c> #1", "layer": 0, "words": False, "temperature": 0.7,
        "ablate": [["encoder", 2, 1], "scaling"], "interventions": [{"kind": "cross", "row": [0.5, 0.5]}],
        "heads": [0, 3], "own": "kept as text",
    }  # fmt: skip
    assert run("core/state.js", "it.readAddress(it.writeAddress(asked))", **values) == values


def test_a_broken_address_is_read_as_far_as_it_goes(run):
    told = run(
        "core/state.js",
        "it.readAddress(asked.hash)",
        hash="#layer=two&head=1&interventions=[&ablate=,&toString=1",
    )
    assert told == {"head": 1, "toString": "1"}


def test_while_an_answer_is_awaited_only_the_newest_request_waits(run):
    told = run("core/tracing.js", ASK, requests=[["a", 100], ["b", 10], ["c", 10], ["d", 10]], after=200)
    assert told == {"shown": ["a", "d"], "sent": ["a", "d"]}


@pytest.mark.parametrize(
    ("scenario", "drawn", "told"),
    [
        ("() => Promise.all([run('slow', 60), run('fast', 5)])", ["fast", "seen"], [None]),
        ("() => Promise.all([run('a', 5), run('b', 60), run('a', 30)])", ["a", "seen"], [None]),
        ("async () => { await run('a', 1, 'no'); await run('b', 1) }", ["b", "seen"], ["no", None]),
        ("async () => { const one = run('a', 30); place.text = 2; await one }", [], []),
        ("async () => { const one = run('a', 30, 'no'); place.text = 2; await one }", [], []),
        ("async () => { const one = run('a', 30); requests.stop(); await one }", [], []),
        (
            "async () => { await run('a', 1); changeModel('two'); await run('b', 1, 'no') }",
            ["a", "seen", "blank"],
            [None, None, "no"],
        ),
        (
            "async () => { await run('a', 1); changeModel('two'); await run('b', 1) }",
            ["a", "seen", "blank", "b", "seen"],
            [None, None, None],
        ),
    ],
)
def test_the_latest_request_of_a_panel_wins(run, scenario, drawn, told):
    assert run("core/requests.js", RUNS.replace("SCENARIO", scenario)) == {"drawn": drawn, "told": told}


def test_pieces_are_merged_to_words_as_in_python(run):
    weights = np.random.default_rng(0).dirichlet(np.ones(5), size=(2, 4)).astype(np.float32)
    rows, columns = [[0], [1, 2, 3]], [[0, 1], [2], [3, 4]]
    told = run(
        "core/kept.js",
        "it.mergeWords(asked.weights, asked.rows, asked.columns, true)",
        weights={"shape": weights.shape, "data": weights.ravel().tolist()},
        rows=[{"positions": each} for each in rows],
        columns=[{"positions": each} for each in columns],
    )
    expected = merge_words(weights, side_of(rows), side_of(columns))
    assert told["shape"] == list(expected.shape)
    assert np.allclose(np.reshape(told["data"], expected.shape), expected, atol=1e-6)


def side_of(words):
    """A side of which only the words are known, each by the positions of its tokens."""
    tokens = tuple(Token(0, "", number) for number, positions in enumerate(words) for _ in positions)
    return Side("", "", tokens, Tokenizer.train(["a"], kind="character"))


def test_a_sheet_is_unpacked_to_the_numbers_that_were_packed(run):
    numbers = np.array([0.0, 1.0, -2.5, 6.1e-5, 0.333, 65504.0], dtype=np.float32)
    sheet = pack(
        {"word": "é"},
        {"plain": numbers, "half": half(numbers), "coarse": coarse(np.array([0.0, 0.5, 1.0], np.float32))},
    )
    told = run("core/wire.js", "it.unpack(Uint8Array.from(asked.bytes))", bytes=list(sheet))
    assert told["meta"] == {"word": "é"}
    assert np.array_equal(np.float32(told["arrays"]["plain"]["data"]), numbers)
    assert np.array_equal(np.float32(told["arrays"]["half"]["data"]), numbers.astype(np.float16))
    assert np.allclose(told["arrays"]["coarse"]["data"], [0, 0.5, 1], atol=1 / 255)


def test_a_kept_sheet_is_inflated(run):
    numbers = np.random.default_rng(0).normal(size=(5, 4)).astype(np.float32)
    sheets = {"vectors/source": packed(pack({"side": "source"}, {"embeddings": numbers}))}
    expression = "await new it.KeptSource(asked).vectors('kept', 'source')"
    told = run("core/kept.js", expression, sheets=sheets)
    assert np.array_equal(np.float32(told["arrays"]["embeddings"]["data"]).reshape(5, 4), numbers)
    told = run("core/kept.js", "await new it.KeptSource(asked).next('kept', 3)", sheets=sheets)
    assert "no more" in told["error"]


@pytest.mark.parametrize("weight", [0.0, 0.1, 0.5, 0.77, 1.0])
def test_a_weight_has_the_colour_that_pictures_give_it(run, weight):
    told = run(
        "core/colour.js",
        f"({PALETTE}, [it.attentionShade(asked.weight), it.signedShade(asked.weight, 1)])",
        attention=colours(SCALE), signed=colours(DIVERGING), weight=weight,
    )  # fmt: skip
    expected = colours([shade(weight), shade_of_difference(weight)])
    assert np.abs(np.array(told) - expected).max() <= 3  # the view has 256 steps


def test_letters_are_read_on_every_ground(run):
    told = run(
        "core/colour.js",
        f"""({PALETTE}, Array.from({{ length: 256 }}, (_, n) => n / 255).map((weight) => {{
            const ground = it.attentionShade(weight), ink = it.inkOn(ground) === "#000" ? 0 : 1;
            const [low, high] = [it.luminance(ground), ink].sort((a, b) => a - b);
            return (high + 0.05) / (low + 0.05);
        }}))""",
        attention=colours(SCALE),
        signed=colours(DIVERGING),
    )
    assert min(told) >= 4.5


def side(text):
    """A side of one token a word."""
    return {"tokens": [{"text": word} for word in text.split()]}


FOLLOW = """(() => {
    const kinds = [{ name: "encoder", queries: "source", keys: "source", layers: 3 }];
    const about = { model: "m", heads: 4, kinds };
    const trace = (text, source) => ({ ...about, text, sides: { source }, pinned: asked.proposals[text] });
    const values = { ...asked.chosen };
    const set = (given) => Object.assign(values, given);
    const state = { get: (name) => values[name] ?? null, set, on() {} };
    const [before, after] = asked.texts.map((text, n) => trace(text, asked.sides[n]));
    const tracing = { current: before };
    const choice = new it.Choice(state, tracing);
    choice.follow(null, before);
    tracing.current = after;
    choice.follow(before, after);
    return choice.pinned;
})()"""


def follow(run, texts, proposals, **chosen):
    """What is pinned after the sentence has changed."""
    told = dict(zip(texts, proposals, strict=True))
    return run(
        "core/choice.js",
        FOLLOW,
        texts=texts,
        sides=[side(text) for text in texts],
        proposals=told,
        chosen=chosen,
    )


def place(layer, head, query):
    """A cell of the encoder."""
    return {"kind": "encoder", "layer": layer, "head": head, "query": query}


def test_a_pinned_word_is_followed_to_its_new_place(run):
    texts = ["the cat is here", "now the cat is here"]
    told = follow(run, texts, [place(0, 0, 0)] * 2, **place(1, 2, 1), key=3)
    assert (told["query"], told["key"]) == (2, 4)


def test_a_pinned_word_that_is_gone_is_let_go(run):
    told = follow(run, ["the cat is here", "the dog is here"], [place(0, 0, 0)] * 2, **place(1, 2, 1), key=3)
    assert (told["layer"], told["head"], told["query"], told["key"]) == (1, 2, None, None)


def test_while_a_sentence_is_typed_the_head_stays(run):
    told = follow(run, ["the cat is her", "the cat is here"], [place(1, 2, 1), place(0, 3, 2)])
    assert (told["layer"], told["head"], told["query"]) == (1, 2, 2)


def test_another_sentence_brings_its_own_head(run):
    told = follow(run, ["the cat is here", "a ship sails"], [place(1, 2, 1), place(0, 3, 2)])
    assert (told["layer"], told["head"], told["query"]) == (0, 3, 2)
