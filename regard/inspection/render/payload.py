"""The payload of the view: a record as a JSON description and as binary sheets of numbers.

The studio, the notebook widget and exported pages all draw this data. Q queries, K keys, D width,
V vocabulary.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Protocol

import numpy as np

from regard.errors import DataError, SettingError
from regard.inspection.analysis.overview import Overview, finding, overview_of
from regard.inspection.analysis.steps import Step, Steps, work_out
from regard.inspection.record.record import Record
from regard.inspection.record.tokens import Side, Token, word_of
from regard.model.transformer import EncoderDecoder, EncoderOnly
from regard.model.watch import ablatable_parts, attention_path
from regard.text.tokenizer import Tokenizer

DTYPES = ("float32", "float16", "uint8")
ALIGNED = 8
LARGEST_HALF = float(np.finfo(np.float16).max)


@dataclass(frozen=True, eq=False)
class Coarse:
    """An array quantised to 255 steps from 0 to its largest value."""

    stored: np.ndarray  # uint8
    scale: float


@dataclass(frozen=True, eq=False)
class Sheet:
    """The facts and arrays of a message."""

    meta: dict[str, Any]
    arrays: dict[str, np.ndarray]  # float32


def coarse(values: np.ndarray) -> Coarse:
    """Quantise values of 0 or more to one byte each; nan and infinity become 0."""
    if not math.isfinite(values.sum()):
        values = np.nan_to_num(values, nan=0.0, posinf=0.0, neginf=0.0)
    largest = float(values.max(initial=0.0))
    scale = largest / 255 if largest > 0 else 1.0
    steps = values / values.dtype.type(scale)
    return Coarse(np.rint(steps, out=steps).astype(np.uint8), scale)


def half(values: np.ndarray) -> np.ndarray:
    """Values as float16, or as float32 if one exceeds its range."""
    largest = float(np.abs(values).max(initial=0.0))
    return values.astype(np.float16 if largest <= LARGEST_HALF else np.float32)


def pack(meta: Mapping[str, Any], arrays: Mapping[str, np.ndarray | Coarse]) -> bytes:
    """Pack facts and arrays; arrays other than float16 and uint8 become float32."""
    entries, parts, offset = [], [], 0
    for name, array in arrays.items():
        stored, scale = (array.stored, array.scale) if isinstance(array, Coarse) else (_plain(array), 1.0)
        place = {"name": name, "dtype": stored.dtype.name, "shape": list(stored.shape)}
        entries.append({**place, "offset": offset, "scale": scale})
        parts.append(_padded(stored.astype(stored.dtype.newbyteorder("<"), order="C").tobytes(), b"\0"))
        offset += len(parts[-1])
    text = json.dumps({"meta": dict(meta), "arrays": entries}, ensure_ascii=False, allow_nan=False)
    header = _padded(text.encode(), b" ", before=4)
    return b"".join([len(header).to_bytes(4, "little"), header, *parts])


def unpack(message: bytes) -> Sheet:
    """Unpack a message."""
    length = int.from_bytes(message[:4], "little")
    try:
        header = json.loads(message[4 : 4 + length])
        arrays = {entry["name"]: _read(message, 4 + length, entry) for entry in header["arrays"]}
        return Sheet(header["meta"], arrays)
    except (ValueError, LookupError, TypeError):
        raise DataError("the sheet is damaged; request it again") from None


def _plain(values: np.ndarray) -> np.ndarray:
    """Booleans as bytes, other numbers in a type that the view reads."""
    if values.dtype == np.bool_:
        return values.astype(np.uint8)
    return values if values.dtype.name in DTYPES else values.astype(np.float32)


def _padded(data: bytes, filler: bytes, before: int = 0) -> bytes:
    return data + filler * (-(before + len(data)) % ALIGNED)


def _read(message: bytes, start: int, entry: Mapping[str, Any]) -> np.ndarray:
    if entry["dtype"] not in DTYPES:
        raise ValueError(entry["dtype"])
    dtype = np.dtype(entry["dtype"]).newbyteorder("<")
    count = int(np.prod(entry["shape"], dtype=np.int64))
    stored = np.frombuffer(message, dtype, count, start + entry["offset"])
    return stored.reshape(entry["shape"]).astype(np.float32) * np.float32(entry["scale"])


SWITCHES = ("scaling", "positions", "residual", "norm")
LONG = 256  # tokens; weights of longer sequences have one byte


class Notes(Protocol):
    """Knowledge about words that the model itself does not have."""

    def strange(self, side: Side) -> set[int]:
        """The positions of tokens that are not in the training text."""
        ...

    def glosses(self, side: Side, other: Side | None) -> Mapping[int, str]:
        """Glosses of words by their number; `other` is the sentence that the side translates."""
        ...

    def nouns(self, side: Side, other: Side | None) -> list[int]:
        """The numbers of words that "it" can refer to; `other` is the other sentence of a translation."""
        ...

    def pronouns(self, side: Side, other: Side | None) -> list[int]:
        """The positions of the first tokens of words that mean "it"."""
        ...


class NoNotes:
    """No notes."""

    def strange(self, side: Side) -> set[int]:
        """No token is strange."""
        return set()

    def glosses(self, side: Side, other: Side | None) -> Mapping[int, str]:
        """No word has a gloss."""
        return {}

    def nouns(self, side: Side, other: Side | None) -> list[int]:
        """No word is known."""
        return []

    def pronouns(self, side: Side, other: Side | None) -> list[int]:
        """No word is known."""
        return []


NOTHING = NoNotes()


def annotated_overview(record: Record, notes: Notes = NOTHING) -> Overview:
    """The overview of all heads, with the nouns and pronouns of the notes."""
    pairs = _sides_with_other(record)
    nouns = {side.name: notes.nouns(side, other) for side, other in pairs}
    return overview_of(record, nouns, {side.name: notes.pronouns(side, other) for side, other in pairs})


def describe(record: Record, overview: Overview, notes: Notes = NOTHING) -> dict[str, Any]:
    """The record without its numbers: words of both sides, kinds of attention, switchable parts."""
    translates = isinstance(record.model, EncoderDecoder)
    return {
        "written": record.written.name,
        "sides": {side.name: side_data(side, other, notes) for side, other in _sides_with_other(record)},
        "kinds": [_kind(record, kind) for kind in record.kinds],
        "heads": record.heads,
        "head_width": record.model.config.key_size,
        "divisor": _divisor(record),
        "switches": switches_of(record.model),
        "ablated": [part if isinstance(part, str) else list(part) for part in record.recording.ablated],
        "translation": record.written.text if translates else None,
        "log_probability": _log_probability(record),
        "pinned": overview.pinned.place,
        "finding": asdict(finding(record, overview.pinned)),
    }


def _sides_with_other(record: Record) -> list[tuple[Side, Side | None]]:
    """Each side, and the other one or None."""
    pairs = (record.source, record.target), (record.target, record.source)
    return [(side, other) for side, other in pairs if side is not None]


def side_data(side: Side, other: Side | None = None, notes: Notes = NOTHING) -> dict[str, Any]:
    """The tokens and words of a side; those that are not in the training text are not `known`.

    The span of a word counts the characters of the text.
    """
    strange, glosses = notes.strange(side), notes.glosses(side, other)
    labels = labels_of(side)
    tokens = [
        {"id": t.id, "text": labels[n], "word": t.word, "special": t.special, "known": n not in strange}
        for n, t in enumerate(side.tokens)
    ]
    words = [
        {
            "text": labels[word.positions[0]] if word.special else word.text,
            "positions": list(word.positions),
            "span": list(span) if (span := side.span(word)) else None,
            "special": word.special,
            "known": strange.isdisjoint(word.positions),
            "gloss": glosses.get(number),
        }
        for number, word in enumerate(side.words)
    ]
    return {"text": side.text, "tokens": tokens, "words": words}


def labels_of(side: Side) -> list[str]:
    """The labels of the tokens; an unknown token shows the word in the text."""
    return [_typed(side, token) or token.text for token in side.tokens]


def _typed(side: Side, token: Token) -> str:
    return side.text[token.start : token.end].strip() if token.special == "unknown" else ""


def vocabulary(tokenizer: Tokenizer, size: int) -> list[str]:
    """The text of every id of a model's vocabulary; empty for ids that the tokenizer lacks."""
    return [word_of(tokenizer, number) if number < tokenizer.vocabulary else "" for number in range(size)]


def overview_sheet(overview: Overview) -> bytes:
    """The sheet of all small maps: for each kind an array layers x heads x q x k."""
    return pack({}, {kind: coarse(maps) for kind, maps in overview.maps.items()})


def attention(record: Record, kind: str, layer: int, words: bool = False) -> bytes:
    """The sheet of one layer: `weights` H Q K, and `visible` Q K."""
    weights = record.attention(kind, layer, words=words)
    stored = coarse(weights) if max(weights.shape[1:]) > LONG else half(weights)
    return pack(
        {"kind": kind, "layer": layer, "words": words},
        {"weights": stored, "visible": record.visible(kind, layer, words=words)},
    )


def vectors(record: Record, side: str) -> bytes:
    """The sheet of a side's embeddings Q D and, if the model adds any, its position vectors Q D."""
    arrays = {"embeddings": record.embeddings(side), "positions": record.positions(side)}
    return pack({"side": side}, {name: half(each) for name, each in arrays.items() if each is not None})


def steps(record: Record, kind: str, layer: int, head: int, query: int) -> bytes:
    """The sheet of one query's row in one head: an array for each step, in float32."""
    worked = _with_intervention(record, work_out(record, kind, layer, head, query))
    queries, keys = map(labels_of, record.sides(kind))
    meta = {
        **{name: getattr(worked, name) for name in ("kind", "layer", "head", "query", "divisor", "agree")},
        "word": queries[worked.query],
        "keys": keys,
        "steps": list(map(_step, worked)),
    }
    return pack(meta, {step.name: step.value.astype(np.float32) for step in worked})


def _step(step: Step) -> dict[str, Any]:
    text = {"name": step.name, "formula": step.formula, "saying": step.saying, "agrees": step.agrees}
    return {**text, "deviation": _finite(step.deviation)}


def _with_intervention(record: Record, worked: Steps) -> Steps:
    """The steps with the weights of an intervention, where these differ from the softmax."""
    name = f"{attention_path(worked.kind, worked.layer)}.weights"
    if name not in record.recording.patch or worked["weights"].agrees:
        return worked
    row = record[name][worked.head, worked.query]
    weights = replace(
        worked["weights"],
        value=row,
        formula="a",
        saying="Set by an intervention.",
        agrees=None,
        deviation=None,
    )
    return replace(worked, steps=tuple(weights if step.name == "weights" else step for step in worked))


def next_logits(record: Record, position: int) -> bytes:
    """The sheet of the `logits` V after a position, or at it for a masked model."""
    rows, followed = record.logits, record.followed
    if not 0 <= position < len(rows):
        raise SettingError(f"no position {position}; there are {len(rows)}, counted from 0")
    is_masked = isinstance(record.model, EncoderOnly)
    after = None if is_masked or position >= len(followed) else int(followed[position])
    return pack({"position": position, "followed": after}, {"logits": rows[position]})


def switches_of(model: Any) -> list[str]:
    """The parts of this model that can be switched off everywhere."""
    has = {name.rpartition(".")[2] for name in ablatable_parts(model)}
    return [name for name in SWITCHES if name in has]


def _kind(record: Record, kind: str) -> dict[str, Any]:
    queries, keys = record.sides(kind)
    sides = {"name": kind, "queries": queries.name, "keys": keys.name}
    return {**sides, "layers": record.layers(kind), "causal": kind == "decoder"}


def _divisor(record: Record) -> float:
    """The divisor of the scores: sqrt(d_k), or 1 where they are not scaled."""
    stack: Any = record.model.get_submodule("encoder" if "encoder" in record.kinds else "decoder")
    similarity = getattr(stack.blocks[0].attention, "similarity", None)
    is_off = "scaling" in record.recording.ablated
    return 1.0 if is_off else 1 / float(getattr(similarity, "scale", 1.0))


def _log_probability(record: Record) -> float | None:
    """The log-probability of the output in nats; None for an encoder-only model."""
    if isinstance(record.model, EncoderOnly):
        return None
    output, ids = record.recording.output.float(), record.followed
    chosen = output[range(len(ids)), ids.tolist()] - output[: len(ids)].logsumexp(-1)
    return _finite(float(chosen.double().sum()))


def _finite(number: float | None) -> float | None:
    """The number, or None if JSON cannot hold it."""
    return number if number is not None and math.isfinite(number) else None
