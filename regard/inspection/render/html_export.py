"""One sentence to keep: the data that the view draws without a model, and a page that holds both.

A kept page fetches nothing. Its own policy lets its scripts and its one style be used, known by their hashes,
and no host be asked; what people and models wrote stands in it as data. The view's script and the sheets are
deflated, which every browser of the last years undoes by itself.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from regard.errors import DataError
from regard.inspection.analysis.overview import Glance, most_telling
from regard.inspection.record.inspection import Inspection
from regard.inspection.render import payload

VIEW = Path(__file__).parents[1] / "view"
IMPORT = re.compile(r'import \{ ([\w$]+(?:, [\w$]+)*) \} from "\./([\w-]+\.js)";')
EXPORT = re.compile(r"export ((?:async )?function |class |const )([\w$]+)")
# What a bundle could not honour: other forms at the start of a line, the dynamic ones anywhere.
STRANGE = re.compile(r"^(?:import|export)\b|(?<![.\w$])import\s*(?:\(|\.\s*meta)")
# A line inside of nothing that waits; a function that waits says async on the line where it begins.
WAITS = re.compile(r"^(?!.*\basync\b)(?=\S).*\bawait\b")
COMMENT = re.compile(r"\s*(?://|/\*|\*)")


@dataclass
class Module:
    """A module taken apart: what it takes from which other, what it hands out, and its lines."""

    name: str
    imports: dict[str, list[str]] = field(default_factory=dict)
    exports: list[str] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)

    @property
    def script(self) -> str:
        """The module as a function that is called at once and returns what it hands out."""
        taken = (f"const {{ {', '.join(names)} }} = {_place(name)};" for name, names in self.imports.items())
        given = f"return {{ {', '.join(self.exports)} }};"
        return "\n".join([f"{_place(self.name)} = (() => {{", *taken, *self.lines, given, "})();"])


def bundle(entry: str = "studio.js", folder: Path = VIEW) -> str:
    """A module and all that it needs as one expression; its value holds what the module hands out."""
    modules = in_order(read_modules(entry, folder), entry)
    scripts = (module.script for module in modules)
    opening = ["(() => {", '"use strict";', "const modules = {};"]
    return "\n".join([*opening, *scripts, f"return {_place(entry)};", "})()"])


def read_modules(entry: str, folder: Path) -> dict[str, Module]:
    """The entry and every module that it needs, however far away, taken apart."""
    found: dict[str, Module] = {}
    wanted = [(entry, "the bundle")]
    while wanted:
        name, by = wanted.pop()
        if name in found:
            continue
        file = folder / name
        if not file.is_file():
            raise DataError(
                f"{name}, which {by} imports, is not in {folder.name}/; write it or import another"
            )
        found[name] = take_apart(name, file.read_text(encoding="utf-8"))
        wanted += [(other, name) for other in found[name].imports]
    _check_names(found)
    return found


def take_apart(name: str, text: str) -> Module:
    """Read a module line by line."""
    module = Module(name)
    for number, line in enumerate(text.splitlines(), 1):
        if taken := IMPORT.fullmatch(line):
            module.imports.setdefault(taken[2], []).extend(taken[1].split(", "))
            continue
        if given := EXPORT.match(line):
            module.exports.append(given[2])
            line = line.removeprefix("export ")
        _check_line(f"{name}, line {number}", line)
        module.lines.append(line)
    return module


def in_order(modules: Mapping[str, Module], entry: str) -> list[Module]:
    """The modules, each after those that it imports."""
    done: dict[str, Module] = {}

    def visit(name: str, path: tuple[str, ...]) -> None:
        if name in path:
            circle = " imports ".join([*path[path.index(name) :], name])
            raise DataError(f"{circle}: modules may not import in a circle; move what both need to a third")
        if name not in done:
            for other in modules[name].imports:
                visit(other, (*path, name))
            done[name] = modules[name]

    visit(entry, ())
    return list(done.values())


def _check_line(place: str, line: str) -> None:
    if COMMENT.match(line):
        return
    if STRANGE.search(line):
        raise DataError(
            f'{place}: {line.strip()!r} cannot be bundled; imports are import {{ a, b }} from "./x.js"; '
            "on one line, exports are functions, classes and constants where they are declared"
        )
    if WAITS.match(line):
        raise DataError(f"{place}: {line.strip()!r} waits outside of a function; put it into an async one")


def _check_names(modules: Mapping[str, Module]) -> None:
    for module in modules.values():
        for other, names in module.imports.items():
            for name in names:
                if name not in modules[other].exports:
                    raise DataError(f"{module.name} imports {name} from {other}, which does not export it")


def _place(name: str) -> str:
    return f'modules["{name}"]'


LARGEST = 950_000  # letters of view and sheets, as written, up to which more is kept than the maps need
FAMILIES = {"encoder-decoder": "translation", "decoder-only": "writing", "encoder-only": "reading"}
TITLE = 80  # letters of the sentence that a title holds at most
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
<noscript><p>A script inside this page draws it, and scripts are switched off here.</p></noscript>
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
    """What is pinned when the view opens; what is left open is chosen well."""

    kind: str | None = None
    layer: int | None = None
    head: int | None = None
    query: int | str | None = None
    words: bool = False
    tab: str | None = None


def save_page(seen: Inspection, path: Path, choice: Choice, notes: payload.Notes | None = None) -> None:
    """Write a page that shows this inspection wherever it is opened."""
    style, script = read_style(), f"const view = {bundle()};{BEGIN}"
    room = LARGEST - len(style) - len(packed(script.encode()))
    data = keep(seen, choice, room, notes or payload.NOTHING)
    text = " ".join(_text(seen).split())
    title = text if len(text) <= TITLE else f"{text[: TITLE - 1]}…"
    page = write_page(f"{title} · Regard", style, script, data)
    path.write_text(page, encoding="utf-8", newline="\n")


def read_style() -> str:
    """All style sheets of the view as one, the tokens and the general ones first."""
    sheets = sorted(VIEW.glob("*.css"), key=lambda file: (file.name != "style.css", file.name))
    return "\n".join(file.read_text(encoding="utf-8") for file in sheets)


def write_page(title: str, style: str, script: str, data: Any) -> str:
    """A page of its parts; no text in it can end the element that it stands in."""
    if "</style" in style.lower() or "<!--" in style:
        raise DataError("the view's style holds </style or <!--, which could end it; write it otherwise")
    parts = {"style": style, "script": script, "unpacking": UNPACKING}
    policy = POLICY.format(**{name: _hash(text) for name, text in parts.items()})
    told = json.dumps(data, allow_nan=False, separators=(",", ":")).replace("<", r"\u003c")
    written = {**parts, "script": packed(script.encode())}
    return PAGE.format(policy=policy, title=html.escape(title), data=told, **written)


def packed(data: bytes) -> str:
    """Data deflated, in base64; the view's `inflate` undoes it."""
    return base64.b64encode(zlib.compress(data, 9)).decode()


def keep(
    seen: Inspection, choice: Choice, room: int = LARGEST, notes: payload.Notes = payload.NOTHING
) -> dict[str, Any]:
    """What the view's KeptSource takes: model, trace, and sheets by the path of their request.

    Every map is there. The steps of the pinned cell, what may come next, and the steps of its neighbours
    are there as far as `room`, in letters, allows.
    """
    found = payload.look_over(seen, notes)
    pinned = pin(seen, choice, found)
    model = describe_model(seen)
    said = {"trace": "kept", "model": model["name"], "text": _text(seen), "pinned": pinned}
    shelf = _Shelf(room)
    shelf.put({"overview": payload.overview(found), **dict(_maps(seen))})
    shelf.offer(dict([_cell(seen, pinned)]))
    vocabulary = _keep_next(seen, shelf)
    for place in _neighbours(seen, pinned):
        if not shelf.offer(dict([_cell(seen, place)])):
            break
    return {
        "model": model,
        "trace": {**payload.describe(seen, found, notes), **said},
        "vocabulary": vocabulary,
        "sheets": shelf.sheets,
        "values": {
            **({"words": True} if choice.words else {}),
            **({"tab": choice.tab} if choice.tab else {}),
        },
    }


def pin(seen: Inspection, choice: Choice, found: Glance) -> dict[str, Any]:
    """The choice made whole: kind, layer, head and query."""
    if replace(choice, words=False, tab=None) == Choice():
        return found.pinned.place
    kind = choice.kind or _kind_of(seen, choice.query)
    layer = seen.layers(kind) - 1 if choice.layer is None else choice.layer
    seen.check(kind, layer, choice.head)
    weights, head = seen.attention(kind, layer), choice.head
    if choice.query is None:
        chosen = slice(None) if head is None else slice(head, head + 1)
        telling = most_telling(seen, kind, layer, weights[chosen])
        return {"kind": kind, "layer": layer, "head": telling.head + (head or 0), "query": telling.query}
    query = seen.sides(kind)[0].find(choice.query, choice.words)[0]
    if head is None:
        head = int(np.square(weights[:, query]).sum(-1).argmax())  # in which this row is gathered the most
    return {"kind": kind, "layer": layer, "head": head, "query": query}


def describe_model(seen: Inspection) -> dict[str, Any]:
    """The model as the studio describes one; a kept one has no examples and no course."""
    config = seen.model.config
    sizes = {kind: seen.layers(kind) for kind in seen.kinds}
    layers = {"encoder": sizes.get("encoder", 0), "decoder": sizes.get("decoder", 0)}
    numbers = sum(weight.numel() for weight in seen.model.parameters())
    family, depth = FAMILIES[config.family], "+".join(str(n) for n in layers.values() if n)
    return {
        "name": "kept",
        "title": f"{family}, {depth} layers, {config.heads} heads, {numbers / 1e6:.1f} M weights",
        "family": family,
        "output": "vectors" if config.output == "pooled" else config.output,
        "layers": layers,
        "heads": config.heads,
        "width": config.width,
        "head_width": config.key_size,
        "vocabulary": config.target_vocabulary or config.vocabulary,
        "parameters": numbers,
        "context": config.context,
        "residual": config.residual,
        "labels": [],
        "snapshots": [],
        "examples": [],
        "pairs": [],
        "state": "ready",
        "known_words": False,
    }


class _Shelf:
    """Sheets by their path, packed; what is offered is taken as long as there is room."""

    def __init__(self, room: int):
        self.room, self.sheets = room, {}

    def put(self, sheets: Mapping[str, bytes]) -> None:
        self._take({path: packed(sheet) for path, sheet in sheets.items()}, 0)

    def offer(self, sheets: Mapping[str, bytes], besides: int = 0) -> bool:
        letters = {path: packed(sheet) for path, sheet in sheets.items()}
        fits = besides + sum(map(len, letters.values())) < self.room
        if fits:
            self._take(letters, besides)
        return fits

    def _take(self, letters: Mapping[str, str], besides: int) -> None:
        self.sheets |= letters
        self.room -= besides + sum(map(len, letters.values()))


def _maps(seen: Inspection) -> Iterator[tuple[str, bytes]]:
    for kind in seen.kinds:
        for layer in range(seen.layers(kind)):
            yield f"attention/{kind}/{layer}", payload.attention(seen, kind, layer)
    for side in (seen.source, seen.target):
        if side is not None:
            yield f"vectors/{side.name}", payload.vectors(seen, side.name)


def _cell(seen: Inspection, place: Mapping[str, Any]) -> tuple[str, bytes]:
    row = {name: place[name] for name in ("kind", "layer", "head", "query")}
    return "steps/{kind}/{layer}/{head}/{query}".format(**row), payload.steps(seen, **row)


def _neighbours(seen: Inspection, pinned: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The other heads for the same query, then the other queries of the same head."""
    for head in range(seen.heads):
        if head != pinned["head"]:
            yield {**pinned, "head": head}
    for query in range(len(seen.sides(pinned["kind"])[0])):
        if query != pinned["query"]:
            yield {**pinned, "query": query}


def _keep_next(seen: Inspection, shelf: _Shelf) -> list[str] | None:
    """Put what may come next on the shelf, for all positions or for none, and give the words it speaks of."""
    if seen.model.config.output not in ("words", "masked"):
        return None
    positions, size = seen.logits.shape
    if positions * size * 4 > shelf.room:
        return None
    vocabulary = payload.vocabulary(seen.written.tokenizer, size)
    sheets = {f"next/{position}": payload.next_logits(seen, position) for position in range(positions)}
    return vocabulary if shelf.offer(sheets, besides=len(json.dumps(vocabulary))) else None


def _kind_of(seen: Inspection, query: int | str | None) -> str:
    """The first kind of attention in which this word looks at others; the last one for none."""
    able = [kind for kind in seen.kinds if isinstance(query, str) and seen.sides(kind)[0].has(query)]
    return able[0] if able else seen.kinds[-1 if query is None else 0]


def _text(seen: Inspection) -> str:
    return (seen.source or seen.side()).text


def _hash(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"
