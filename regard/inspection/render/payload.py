"""An Inspection as the data that the view draws: a description for JSON, and sheets of numbers.

What is drawn on the page, in a notebook and in a saved file comes from here. Q queries, K keys, D width,
V vocabulary.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np

from regard.errors import DataError, SettingError
from regard.inspection.analysis.overview import Glance, glance
from regard.inspection.analysis.steps import Step, Steps
from regard.inspection.record.inspection import Inspection
from regard.inspection.record.tokens import Side, Token, word_of
from regard.model.transformer import EncoderDecoder, EncoderOnly
from regard.model.watch import attention_path, switchable
from regard.text.tokenizer import Tokenizer

DTYPES = ("float32", "float16", "uint8")
ALIGNED = 8
LARGEST_HALF = float(np.finfo(np.float16).max)


@dataclass(frozen=True, eq=False)
class Coarse:
    """An array in 255 steps from 0 to its largest value."""

    stored: np.ndarray  # uint8
    scale: float


@dataclass(frozen=True, eq=False)
class Sheet:
    """What a message holds."""

    meta: dict[str, Any]
    arrays: dict[str, np.ndarray]  # float32


def coarse(values: np.ndarray) -> Coarse:
    """Values of 0 or more in a byte each; what is no number counts as 0."""
    if not math.isfinite(values.sum()):
        values = np.nan_to_num(values, nan=0.0, posinf=0.0, neginf=0.0)
    largest = float(values.max(initial=0.0))
    scale = largest / 255 if largest > 0 else 1.0
    steps = values / values.dtype.type(scale)
    return Coarse(np.rint(steps, out=steps).astype(np.uint8), scale)


def half(values: np.ndarray) -> np.ndarray:
    """Values as float16, or as float32 where one is too large for that."""
    largest = float(np.abs(values).max(initial=0.0))
    return values.astype(np.float16 if largest <= LARGEST_HALF else np.float32)


def pack(meta: Mapping[str, Any], arrays: Mapping[str, np.ndarray | Coarse]) -> bytes:
    """A message of facts and arrays; what is neither float16 nor a byte becomes float32."""
    entries, parts, offset = [], [], 0
    for name, given in arrays.items():
        stored, scale = (given.stored, given.scale) if isinstance(given, Coarse) else (_plain(given), 1.0)
        place = {"name": name, "dtype": stored.dtype.name, "shape": list(stored.shape)}
        entries.append({**place, "offset": offset, "scale": scale})
        parts.append(_padded(stored.astype(stored.dtype.newbyteorder("<"), order="C").tobytes(), b"\0"))
        offset += len(parts[-1])
    told = json.dumps({"meta": dict(meta), "arrays": entries}, ensure_ascii=False, allow_nan=False)
    header = _padded(told.encode(), b" ", before=4)
    return b"".join([len(header).to_bytes(4, "little"), header, *parts])


def unpack(message: bytes) -> Sheet:
    """The facts and arrays of a message."""
    length = int.from_bytes(message[:4], "little")
    try:
        header = json.loads(message[4 : 4 + length])
        arrays = {each["name"]: _read(message, 4 + length, each) for each in header["arrays"]}
        return Sheet(header["meta"], arrays)
    except (ValueError, LookupError, TypeError):
        raise DataError("this is no sheet, or a damaged one; ask for it again") from None


def _plain(values: np.ndarray) -> np.ndarray:
    """Truth as bytes, other numbers as one of the kinds that the view knows."""
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
LONG = 256  # tokens beyond which a weight has one byte


class Notes(Protocol):
    """What may be said about words beyond what the model itself knows."""

    def strange(self, side: Side) -> set[int]:
        """The positions of tokens that the model never met in training."""
        ...

    def glosses(self, side: Side, other: Side | None) -> Mapping[int, str]:
        """What words say, by their number; `other` is the sentence that the side is a translation of."""
        ...

    def nouns(self, side: Side) -> list[int]:
        """The numbers of words that "it" may stand for."""
        ...

    def pronouns(self, side: Side, other: Side | None) -> list[int]:
        """The positions at which a word begins that says "it"."""
        ...


class NoNotes:
    """Nothing is known beyond the model."""

    def strange(self, side: Side) -> set[int]:
        """None is strange."""
        return set()

    def glosses(self, side: Side, other: Side | None) -> Mapping[int, str]:
        """None has a gloss."""
        return {}

    def nouns(self, side: Side) -> list[int]:
        """None is known to be one."""
        return []

    def pronouns(self, side: Side, other: Side | None) -> list[int]:
        """None is known to be one."""
        return []


NOTHING = NoNotes()


def look_over(seen: Inspection, notes: Notes = NOTHING) -> Glance:
    """Every head at a glance; `describe` and `overview` both draw on it."""
    pairs = _both_ways(seen)
    nouns = {side.name: notes.nouns(side) for side, _ in pairs}
    return glance(seen, nouns, {side.name: notes.pronouns(side, other) for side, other in pairs})


def describe(seen: Inspection, found: Glance, notes: Notes = NOTHING) -> dict[str, Any]:
    """Everything but the numbers: the words of both sides, the kinds of attention, what may be off."""
    translates = isinstance(seen.model, EncoderDecoder)
    return {
        "written": seen.written.name,
        "sides": {side.name: side_data(side, other, notes) for side, other in _both_ways(seen)},
        "kinds": [_kind(seen, kind) for kind in seen.kinds],
        "heads": seen.heads,
        "head_width": seen.model.config.key_size,
        "divisor": _divisor(seen),
        "switches": switches_of(seen.model),
        "off": [part if isinstance(part, str) else list(part) for part in seen.recording.off],
        "translation": seen.written.text if translates else None,
        "log_probability": _log_probability(seen),
        "pinned": found.pinned.place,
    }


def _both_ways(seen: Inspection) -> list[tuple[Side, Side | None]]:
    """Each side with the other one, where there is one."""
    both = (seen.source, seen.target), (seen.target, seen.source)
    return [(side, other) for side, other in both if side is not None]


def side_data(side: Side, other: Side | None = None, notes: Notes = NOTHING) -> dict[str, Any]:
    """A side's tokens and words; those that the model never met are not `known`."""
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
            "special": word.special,
            "known": strange.isdisjoint(word.positions),
            "gloss": glosses.get(number),
        }
        for number, word in enumerate(side.words)
    ]
    return {"text": side.text, "tokens": tokens, "words": words}


def labels_of(side: Side) -> list[str]:
    """What to write for each token; one that stands for a word unknown to the tokenizer shows that word."""
    return [_typed(side, token) or token.text for token in side.tokens]


def _typed(side: Side, token: Token) -> str:
    return side.text[token.start : token.end].strip() if token.special == "unknown" else ""


def vocabulary(tokenizer: Tokenizer, size: int) -> list[str]:
    """Every id of a model's vocabulary as a person reads it; one that the tokenizer lacks says nothing."""
    return [word_of(tokenizer, number) if number < tokenizer.vocabulary else "" for number in range(size)]


def overview(found: Glance) -> bytes:
    """The sheet of all small maps: for each kind an array layers x heads x q x k."""
    return pack({}, {kind: coarse(maps) for kind, maps in found.overview.items()})


def attention(seen: Inspection, kind: str, layer: int, words: bool = False) -> bytes:
    """The sheet of one layer: `weights` H Q K, and `visible` Q K."""
    weights = seen.attention(kind, layer, words=words)
    stored = coarse(weights) if max(weights.shape[1:]) > LONG else half(weights)
    return pack(
        {"kind": kind, "layer": layer, "words": words},
        {"weights": stored, "visible": seen.visible(kind, layer, words=words)},
    )


def vectors(seen: Inspection, side: str) -> bytes:
    """The sheet of a side's embeddings Q D and, where the model adds any, its positions Q D."""
    arrays = {"embeddings": seen.embeddings(side), "positions": seen.positions(side)}
    return pack({"side": side}, {name: half(each) for name, each in arrays.items() if each is not None})


def steps(seen: Inspection, kind: str, layer: int, head: int, query: int) -> bytes:
    """The sheet of one query's row in one head: an array for each step, in float32."""
    worked = _with_pulled_row(seen, seen.steps(kind, layer, head, query))
    queries, keys = map(labels_of, seen.sides(kind))
    told = {
        **{name: getattr(worked, name) for name in ("kind", "layer", "head", "query", "divisor", "agree")},
        "word": queries[worked.query],
        "keys": keys,
        "steps": list(map(_step, worked)),
    }
    return pack(told, {step.name: step.value.astype(np.float32) for step in worked})


def _step(step: Step) -> dict[str, Any]:
    told = {"name": step.name, "formula": step.formula, "saying": step.saying, "agrees": step.agrees}
    return {**told, "deviation": _finite(step.deviation)}


def _with_pulled_row(seen: Inspection, worked: Steps) -> Steps:
    """The same with the weights that were set by hand, where they are not those that softmax gives."""
    name = f"{attention_path(worked.kind, worked.layer)}.weights"
    if name not in seen.recording.patch or worked["weights"].agrees:
        return worked
    row = seen[name][worked.head, worked.query]
    pulled = replace(
        worked["weights"], value=row, formula="a", saying="Pulled by hand.", agrees=None, deviation=None
    )
    return replace(worked, steps=tuple(pulled if step.name == "weights" else step for step in worked))


def next_logits(seen: Inspection, position: int) -> bytes:
    """The sheet of what may follow a position, or stand at it where the model fills gaps: `logits` V."""
    rows, followed = seen.logits, seen.followed
    if not 0 <= position < len(rows):
        raise SettingError(f"no position {position}; there are {len(rows)}, counted from 0")
    fills = isinstance(seen.model, EncoderOnly)
    after = None if fills or position >= len(followed) else int(followed[position])
    return pack({"position": position, "followed": after}, {"logits": rows[position]})


def switches_of(model: Any) -> list[str]:
    """The parts that can be switched off everywhere in this model."""
    has = {name.rpartition(".")[2] for name in switchable(model)}
    return [name for name in SWITCHES if name in has]


def _kind(seen: Inspection, kind: str) -> dict[str, Any]:
    queries, keys = seen.sides(kind)
    told = {"name": kind, "queries": queries.name, "keys": keys.name}
    return {**told, "layers": seen.layers(kind), "causal": kind == "decoder"}


def _divisor(seen: Inspection) -> float:
    """What scores are divided by: sqrt(d_k), or 1 where they are not."""
    stack: Any = seen.model.get_submodule("encoder" if "encoder" in seen.kinds else "decoder")
    similarity = getattr(stack.blocks[0].attention, "similarity", None)
    is_off = "scaling" in seen.recording.off
    return 1.0 if is_off else 1 / float(getattr(similarity, "scale", 1.0))


def _log_probability(seen: Inspection) -> float | None:
    """How likely the output is, in nats; a model that reads gives none."""
    if isinstance(seen.model, EncoderOnly):
        return None
    output, ids = seen.recording.output.float(), seen.followed
    chosen = output[range(len(ids)), ids.tolist()] - output[: len(ids)].logsumexp(-1)
    return _finite(float(chosen.double().sum()))


def _finite(number: float | None) -> float | None:
    """A number that JSON can say, or nothing."""
    return number if number is not None and math.isfinite(number) else None
