"""A kept sentence holds the model's numbers, opens with what was chosen, and its text stays text."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import zlib
from html.parser import HTMLParser

import numpy as np
import pytest
import torch

from regard.errors import DataError, RegardError
from regard.inference.translator import Translator
from regard.inspection.inspection import inspect
from regard.inspection.render.html_export import UNPACKING, Choice, page_data, save_page, write_page
from regard.inspection.render.payload import unpack
from regard.model.config import ModelConfig
from regard.model.transformer import build_model
from regard.text.tokenizer import Tokenizer, Tokenizers

from ..conftest import ENGLISH, inspected, subject

HOSTILE = [
    "</script><script>alert(1)</script>",
    "</ScRiPt >",
    "<!-- <script>",
    "]]>",
    "\u2028\u2029",
    "שלום 😀 \x00 \\ \" ' & {title}",
]
PARTS = dict(style="p { color: red }", script="view();")


class Elements(HTMLParser):
    """The elements of a page with their attributes, and what stands in scripts, style and title."""

    def __init__(self, page: str):
        super().__init__()
        self.found, self.inside, self.open = [], {}, -1
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))
        self.open = len(self.found) - 1

    def handle_endtag(self, tag):
        self.open = -1

    def handle_data(self, data):
        self.inside[self.open] = self.inside.get(self.open, "") + data

    def texts(self, tag):
        return [self.inside.get(n, "") for n, (name, _) in enumerate(self.found) if name == tag]


def kept_data(page: str):
    return json.loads(Elements(page).texts("script")[0])


def inflate(text: str) -> bytes:
    """What the page does with what is packed."""
    return zlib.decompress(base64.b64decode(text))


def sheets_of(kept):
    return {path: unpack(inflate(sheet)) for path, sheet in kept["sheets"].items()}


@pytest.mark.parametrize("text", HOSTILE)
def test_text_cannot_leave_its_element(text):
    plain = Elements(write_page("plain", **PARTS, data={"text": "plain"}))
    page = write_page(text, **PARTS, data={"text": text, text: [text]})
    parsed = Elements(page)
    assert [tag for tag, _ in parsed.found] == [tag for tag, _ in plain.found]
    assert parsed.texts("title") == [text]
    assert kept_data(page) == {"text": text, text: [text]}
    assert page.partition("</title>")[2].isascii()


@pytest.mark.parametrize("text", ["</style>", "</STYLE x", "a <!-- b"])
def test_a_style_that_could_end_its_element_is_refused(text):
    with pytest.raises(DataError, match="the view's style holds"):
        write_page("title", **{**PARTS, "style": text}, data={})


@pytest.mark.parametrize("script", ["view();", "a = '</script>' + `<!-- “ü” \\u2028`; // \n/[/]'/.test(a)"])
def test_the_script_is_packed_as_it_is(script):
    parsed = Elements(write_page("title", **{**PARTS, "script": script}, data={}))
    _, view, unpacking = parsed.texts("script")
    assert inflate(view).decode() == script
    assert unpacking == UNPACKING


def test_the_policy_names_the_hashes_and_no_host():
    page = write_page("title", **PARTS, data={})
    attributes = [attrs for tag, attrs in Elements(page).found if tag == "meta"]
    (policy,) = [one["content"] for one in attributes if one.get("http-equiv") == "Content-Security-Policy"]
    for name, text in PARTS.items():
        assert f"{name}-src 'sha256-{digest_of(text)}'" in policy
    assert policy.count("'sha256-") == 3
    assert f" 'sha256-{digest_of(UNPACKING)}'; style-src" in policy
    assert policy.startswith("default-src 'none';")
    assert not re.search(r"unsafe|https?:|\*|'self'", policy)


def digest_of(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def test_every_map_is_kept_as_it_is(words):
    seen = inspected(words)
    kept = page_data(seen, Choice())
    sheets = sheets_of(kept)
    for kind in seen.kinds:
        for layer in range(2):
            sheet = sheets[f"attention/{kind}/{layer}"]
            assert np.allclose(sheet.arrays["weights"], seen.attention(kind, layer), atol=1e-3)
            assert np.array_equal(sheet.arrays["visible"] > 0, seen.visible(kind, layer))
    for side in ("source", "target"):
        assert np.allclose(sheets[f"vectors/{side}"].arrays["embeddings"], seen.embeddings(side), rtol=1e-3)
    for position in range(len(seen.target)):
        assert np.array_equal(sheets[f"next/{position}"].arrays["logits"], seen.logits[position])
    assert kept["vocabulary"][words.encode("street")[0]] == "street"
    assert [token["text"] for token in kept["trace"]["sides"]["source"]["tokens"]] == seen.source.labels()


def test_the_steps_of_the_pinned_cell_are_kept(words):
    seen = inspected(words)
    kept = page_data(seen, Choice("encoder", 1, 2, "it"))
    query = seen.source.find("it")[0]
    assert kept["trace"]["pinned"] == {"kind": "encoder", "layer": 1, "head": 2, "query": query}
    sheet = sheets_of(kept)[f"steps/encoder/1/2/{query}"]
    for step in seen.steps("encoder", 1, 2, query):
        assert np.array_equal(sheet.arrays[step.name], step.value.astype(np.float32)), step.name
    assert sheet.meta["agree"]


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        (Choice("decoder", 0, 3, 2), {"kind": "decoder", "layer": 0, "head": 3, "query": 2}),
        (Choice(query="rue"), {"kind": "decoder", "layer": 1}),
        (Choice(query="street"), {"kind": "encoder", "layer": 1, "query": 5}),
        (Choice(layer=0), {"kind": "cross", "layer": 0}),
        (Choice(kind="encoder", head=1), {"kind": "encoder", "layer": 1, "head": 1}),
        (Choice(query=2, words=True), {"kind": "encoder", "query": 2}),
    ],
)
def test_what_is_chosen_is_pinned(words, choice, expected):
    seen = inspected(words)
    pinned = page_data(seen, choice)["trace"]["pinned"]
    assert {name: pinned[name] for name in expected} == expected
    assert pinned["head"] in range(4)
    assert pinned["query"] in range(len(seen.sides(pinned["kind"])[0]))


def test_a_tab_is_opened_and_pins_nothing(words):
    seen = inspected(words)
    kept = page_data(seen, Choice(tab="translate"))
    assert kept["values"] == {"tab": "translate"}
    assert kept["trace"]["pinned"] == page_data(seen, Choice())["trace"]["pinned"]


def test_a_page_opens_with_words_where_they_are_chosen(pieces):
    seen = inspected(pieces)
    assert page_data(seen, Choice())["values"] == {}
    kept = page_data(seen, Choice(query="street", words=True))
    assert kept["values"] == {"words": True}
    assert kept["trace"]["pinned"]["query"] == seen.source.find("street")[0]


@pytest.mark.parametrize(
    ("family", "output", "next_word"),
    [("decoder-only", "words", True), ("encoder-only", "masked", True), ("encoder-only", "pooled", False)],
)
def test_every_family_can_be_kept(words, family, output, next_word):
    seen = inspect(subject(words, family=family, output=output), ENGLISH)
    kept = page_data(seen, Choice())
    assert kept["model"]["output"] == ("vectors" if output == "pooled" else output)
    assert (kept["vocabulary"] is not None) == next_word
    assert any(path.startswith("next/") for path in kept["sheets"]) == next_word
    json.dumps(kept, allow_nan=False)


def test_what_does_not_fit_is_left_out_whole(words):
    kept = page_data(inspected(words), Choice(), budget=20_000)
    assert kept["vocabulary"] is None
    assert not any(path.startswith("next/") for path in kept["sheets"])
    assert sum(path.startswith("steps/") for path in kept["sheets"]) < 4
    assert {f"attention/cross/{layer}" for layer in range(2)} < set(kept["sheets"])


@pytest.fixture(scope="module")
def demo_sized():
    """A model that has learned nothing, a layer larger than the demo's, and a sentence of twenty words.

    Its vocabulary is the largest that the demo's recipe allows.
    """
    torch.manual_seed(0)
    tokenizer = Tokenizer.train([" ".join(f"word{n}" for n in range(4000))], kind="word", vocabulary=4000)
    config = ModelConfig(
        vocabulary=tokenizer.vocabulary, layers=4, width=128, heads=4, feed_forward_width=384, context=64
    )
    translator = Translator(build_model(config).eval(), Tokenizers.joint(tokenizer))
    return translator, " ".join(f"word{n}" for n in range(20))


def test_a_sentence_of_twenty_words_takes_less_than_a_megabyte(demo_sized, tmp_path):
    translator, text = demo_sized
    seen = inspect(translator, text, text)
    page = seen.save(tmp_path / "kept.html", kind="cross", layer=2, head=1, query=5)
    assert page.stat().st_size < 1_000_000
    data = kept_data(page.read_text(encoding="utf-8"))
    assert data["trace"]["pinned"] == {"kind": "cross", "layer": 2, "head": 1, "query": 5}
    assert "next/20" in data["sheets"]
    assert sum(path.startswith("attention/") for path in data["sheets"]) == 12
    assert sum(path.startswith("steps/") for path in data["sheets"]) >= 8


def test_a_page_has_a_title_and_a_language(words, tmp_path):
    page = inspected(words).save(tmp_path / "kept.html").read_text(encoding="utf-8")
    parsed = Elements(page)
    assert dict(parsed.found)["html"] == {"lang": "en"}
    assert parsed.texts("title") == [f"{ENGLISH} · Regard"]
    assert "https://" not in page.replace("http://www.w3.org", "")


def test_a_wrong_choice_leaves_no_file(words, tmp_path):
    with pytest.raises(RegardError, match="no head 9"):
        save_page(inspected(words), tmp_path / "kept.html", Choice(kind="cross", head=9))
    assert list(tmp_path.iterdir()) == []
