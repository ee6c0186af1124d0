"""Export a record as one HTML page that holds the view, its data and no link to anything else.

The content security policy of the page allows its scripts and its style by their hashes and no host. Texts
are embedded as data. The script of the view and the sheets are deflated; browsers inflate them.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from regard.errors import DataError
from regard.inspection.analysis.overview import Overview, most_informative
from regard.inspection.record.record import Record
from regard.inspection.render import payload
from regard.inspection.render.bundle import bundle, read_style
from regard.inspection.render.model_card import model_card
from regard.model.transformer import count_parameters

LARGEST = 950_000  # characters of view and sheets up to which optional sheets are added
TITLE = 80  # characters of the sentence in the title at most
PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{title}</title>
<link rel="icon" href="data:,">
<style>{style}</style>
</head>
<body class="regard-page">
<div id="studio" class="regard"></div>
<noscript><p>A script in this page draws it, and scripts are disabled here.</p></noscript>
<script type="application/json" id="kept">{data}</script>
<script type="text/plain" id="view">{script}</script>
<script>{unpacking}</script>
</body>
</html>
"""
POLICY = (
    "default-src 'none'; script-src '{script}' '{unpacking}'; style-src '{style}'; img-src data: blob:; "
    "base-uri 'none'; form-action 'none'"
)
UNPACKING = """
(async () => {
  const packed = atob(document.getElementById("view").textContent);
  const bytes = Uint8Array.from(packed, (letter) => letter.charCodeAt(0));
  const plain = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  const script = document.createElement("script");
  script.textContent = await new Response(plain).text();
  document.body.append(script);
})().catch(() => {
  const told = "This browser cannot unpack this page; open it in a newer one.";
  document.getElementById("studio").textContent = told;
});
"""
BEGIN = """
const kept = JSON.parse(document.getElementById("kept").textContent);
view.startKept(document.getElementById("studio"), kept, { values: kept.values });
"""


@dataclass(frozen=True)
class Choice:
    """What a file shows; None leaves the choice to the overview, or includes everything.

    `words` merges the tokens of a word. `query`, the word whose row is pinned, and `tab`, the tab that opens
    ("translate"), are for pages.
    """

    kind: str | None = None
    layer: int | None = None
    head: int | None = None
    query: int | str | None = None
    words: bool = False
    tab: str | None = None


def save_page(record: Record, path: Path, choice: Choice, notes: payload.Notes | None = None) -> None:
    """Write a page that shows a record in any browser."""
    style, script = read_style(), f"const view = {bundle()};{BEGIN}"
    budget = LARGEST - len(style) - len(packed(script.encode()))
    data = page_data(record, choice, budget, notes or payload.NOTHING)
    text = " ".join(_text(record).split())
    title = text if len(text) <= TITLE else f"{text[: TITLE - 1]}…"
    page = write_page(f"{title} · Regard", style, script, data)
    path.write_text(page, encoding="utf-8", newline="\n")


def write_page(title: str, style: str, script: str, data: Any) -> str:
    """The page as HTML; no embedded text can end its element."""
    if "</style" in style.lower() or "<!--" in style:
        raise DataError("the view's style holds </style or <!--, which ends the element; remove it")
    parts = {"style": style, "script": script, "unpacking": UNPACKING}
    policy = POLICY.format(**{name: _hash(text) for name, text in parts.items()})
    embedded = json.dumps(data, allow_nan=False, separators=(",", ":")).replace("<", r"\u003c")
    written = {**parts, "script": packed(script.encode())}
    return PAGE.format(policy=policy, title=html.escape(title), data=embedded, **written)


def packed(data: bytes) -> str:
    """Data deflated, in base64; `inflate` of the view reads it."""
    return base64.b64encode(zlib.compress(data, 9)).decode()


def page_data(
    record: Record, choice: Choice, budget: int = LARGEST, notes: payload.Notes = payload.NOTHING
) -> dict[str, Any]:
    """The data of the view's KeptSource: model, trace, and sheets by the path of their request.

    All attention maps are included. The steps of the pinned cell, the next-token logits, and the steps of
    neighbouring cells are included while they fit in `budget` characters.
    """
    overview = payload.annotated_overview(record, notes)
    pinned = pin(record, choice, overview)
    config = record.model.config
    model = model_card("kept", config.family, config, count_parameters(record.model))
    request = {"trace": "kept", "model": model["name"], "text": _text(record), "pinned": pinned}
    sheets = _Sheets(budget)
    sheets.put({"overview": payload.overview_sheet(overview), **dict(_maps(record))})
    sheets.offer(dict([_cell(record, pinned)]))
    vocabulary = _add_next(record, sheets)
    for place in _neighbours(record, pinned):
        if not sheets.offer(dict([_cell(record, place)])):
            break
    return {
        "model": model,
        "trace": {**payload.describe(record, overview, notes), **request},
        "vocabulary": vocabulary,
        "sheets": sheets.by_path,
        "values": {
            **({"words": True} if choice.words else {}),
            **({"tab": choice.tab} if choice.tab else {}),
        },
    }


def pin(record: Record, choice: Choice, overview: Overview) -> dict[str, Any]:
    """The pinned kind, layer, head and query; the choice completed by the overview."""
    if replace(choice, words=False, tab=None) == Choice():
        return overview.pinned.place
    kind = choice.kind or record.kind_of_query(choice.query)
    layer = record.layers(kind) - 1 if choice.layer is None else choice.layer
    record.check(kind, layer, choice.head)
    weights, head = record.attention(kind, layer), choice.head
    if choice.query is None:
        chosen = slice(None) if head is None else slice(head, head + 1)
        best = most_informative(record, kind, layer, weights[chosen])
        return {"kind": kind, "layer": layer, "head": best.head + (head or 0), "query": best.query}
    query = record.sides(kind)[0].find(choice.query, choice.words)[0]
    if head is None:
        head = int(np.square(weights[:, query]).sum(-1).argmax())  # in which this row is most concentrated
    return {"kind": kind, "layer": layer, "head": head, "query": query}


class _Sheets:
    """Packed sheets by their path; optional ones are added while they fit."""

    def __init__(self, budget: int):
        self.budget, self.by_path = budget, {}

    def put(self, sheets: Mapping[str, bytes]) -> None:
        self._add({path: packed(sheet) for path, sheet in sheets.items()}, 0)

    def offer(self, sheets: Mapping[str, bytes], besides: int = 0) -> bool:
        letters = {path: packed(sheet) for path, sheet in sheets.items()}
        fits = besides + sum(map(len, letters.values())) < self.budget
        if fits:
            self._add(letters, besides)
        return fits

    def _add(self, letters: Mapping[str, str], besides: int) -> None:
        self.by_path |= letters
        self.budget -= besides + sum(map(len, letters.values()))


def _maps(record: Record) -> Iterator[tuple[str, bytes]]:
    for kind in record.kinds:
        for layer in range(record.layers(kind)):
            yield f"attention/{kind}/{layer}", payload.attention(record, kind, layer)
    for side in record.all_sides:
        yield f"vectors/{side.name}", payload.vectors(record, side.name)


def _cell(record: Record, place: Mapping[str, Any]) -> tuple[str, bytes]:
    row = {name: place[name] for name in ("kind", "layer", "head", "query")}
    return "steps/{kind}/{layer}/{head}/{query}".format(**row), payload.steps(record, **row)


def _neighbours(record: Record, pinned: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The cells of the other heads for this query, then of the other queries in this head."""
    for head in range(record.heads):
        if head != pinned["head"]:
            yield {**pinned, "head": head}
    for query in range(len(record.sides(pinned["kind"])[0])):
        if query != pinned["query"]:
            yield {**pinned, "query": query}


def _add_next(record: Record, sheets: _Sheets) -> list[str] | None:
    """Add the next-token logits of all positions if they fit, and give their vocabulary."""
    if record.model.config.output not in ("words", "masked"):
        return None
    positions, size = record.logits.shape
    if positions * size * 4 > sheets.budget:
        return None
    vocabulary = payload.vocabulary(record.written.tokenizer, size)
    logits = {f"next/{position}": payload.next_logits(record, position) for position in range(positions)}
    return vocabulary if sheets.offer(logits, besides=len(json.dumps(vocabulary))) else None


def _text(record: Record) -> str:
    return (record.source or record.side()).text


def _hash(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"
