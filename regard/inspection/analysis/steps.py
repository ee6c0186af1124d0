"""One query's row, step by step: every number real, worked out anew and compared with the model's own.

Each step starts from the model's own float32 numbers, is worked out in plain float64 arithmetic, and must
meet what the model has at that place. H heads, K keys, E key width of a head, F value width, D width.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import nn

from regard.errors import UnknownName, UsageError, nearest
from regard.inspection.record.inspection import Inspection
from regard.model.attention import MultiHeadAttention, SeparateProjections
from regard.model.blocks import LayerNorm, RMSNorm
from regard.model.positions import Rotation
from regard.model.similarity import Additive, Bilinear, Cosine, ScaledDot
from regard.model.watch import attention_path, watching

Array = np.ndarray


def as_array(tensor: Any) -> Array:
    """A tensor's numbers in float64."""
    return tensor.detach().cpu().double().numpy()


def products(similarity: Any, query: Array, key: Array, head: int) -> Array | None:
    """What is added up to a raw score, K E: for a dot product q_i k_i, and its like for other measures."""
    for known, terms in _TERMS.items():
        if isinstance(similarity, known):
            return terms(similarity, query, key, head)
    return None


def formulas(similarity: Any) -> tuple[str, str]:
    """How its products and its score are written."""
    found = (written for known, written in _FORMULAS.items() if isinstance(similarity, known))
    return next(found, ("", "s = similarity(q, k)"))


def _dot(similarity: ScaledDot, query: Array, key: Array, head: int) -> Array:
    return query * key


def _cosine(similarity: Cosine, query: Array, key: Array, head: int) -> Array:
    return _unit(query) * _unit(key)


def _bilinear(similarity: Bilinear, query: Array, key: Array, head: int) -> Array:
    return (query @ as_array(similarity.weight)[head]) * key


def _additive(similarity: Additive, query: Array, key: Array, head: int) -> Array:
    q, k, v = (as_array(x)[head] for x in (similarity.query_weight, similarity.key_weight, similarity.vector))
    return np.tanh(query @ q + key @ k) * v[:, 0]


_FORMULAS = {
    ScaledDot: ("q_i k_i", "s = q · k"),
    Cosine: ("q_i k_i / (|q| |k|)", "s = q · k / (|q| |k|)"),
    Bilinear: ("(qW)_i k_i", "s = q W k"),
    Additive: ("v_i tanh(Wq + Uk)_i", "s = v · tanh(Wq + Uk)"),
}
_TERMS: dict[type, Callable[[Any, Array, Array, int], Array]] = {
    ScaledDot: _dot, Cosine: _cosine, Bilinear: _bilinear, Additive: _additive,
}  # fmt: skip


def _unit(x: Array) -> Array:
    return x / np.maximum(np.linalg.norm(x, axis=-1, keepdims=True), 1e-12)


def project(
    attention: MultiHeadAttention, part: str, x: Array, head: int, rotation: Rotation | None
) -> Array | None:
    """xW + b for the queries, keys or values of one head (or of the group that it shares), then turned.

    x is .. D. None where the projections are others than W^Q, W^K and W^V.
    """
    projections = attention.projections
    if not isinstance(projections, SeparateProjections):
        return None
    number = ("query", "key", "value").index(part)
    width = projections.value_width if part == "value" else projections.key_width
    group = head if part == "query" else head * projections.groups // projections.heads
    first = sum(projections.sections[:number]) + group * width
    made = x @ as_array(projections.weight)[first : first + width].T
    if projections.bias is not None:
        made = made + as_array(projections.bias)[first : first + width]
    return made if rotation is None or part == "value" else turn(made, rotation)


def turn(x: Array, rotation: Rotation) -> Array:
    """Each pair (x[i], x[i + E/2]) turned by its token's angle; x is Q E."""
    cosine, sine = (as_array(x).reshape(-1, x.shape[-1]) for x in (rotation.cosine, rotation.sine))
    left, right = np.split(x, 2, axis=-1)
    return np.concatenate([left * cosine - right * sine, right * cosine + left * sine], axis=-1)


def normalise(norm: nn.Module, x: Array) -> Array | None:
    """(x - mean) / deviation, then gamma and beta; or x / root mean square, then gamma."""
    if isinstance(norm, LayerNorm):
        centred = x - x.mean(-1, keepdims=True)
        scaled = centred / np.sqrt((centred**2).mean(-1, keepdims=True) + norm.epsilon)
        return scaled * as_array(norm.weight) + as_array(norm.bias)
    if isinstance(norm, RMSNorm):
        return x / np.sqrt((x**2).mean(-1, keepdims=True) + norm.epsilon) * as_array(norm.weight)
    return None


def softmax(scores: Array) -> tuple[Array, Array]:
    """e^(score - largest) for every score, and their shares; a row of nothing but -inf weighs 0."""
    largest = scores.max()
    exponentials = np.zeros_like(scores) if np.isneginf(largest) else np.exp(scores - largest)
    total = exponentials.sum()
    return exponentials, exponentials / total if total else exponentials


TOLERANCE = 1e-5  # of the tensor's largest magnitude
STEPS = {  # name: formula, and what it means
    "input": ("x", "The vector of this word as it comes in."),
    "normed": ("x' = norm(x)", "Here the norm comes before the attention."),
    "query": ("q = x W^Q", "What this word looks for."),
    "keys": ("k = x W^K", "What each word offers."),
    "products": ("q_i k_i", "Each number of q with its partner in k."),
    "scores": ("s = q · k", "Their sum: how well each key answers the query."),
    "scaled": ("s / √d_k", "Divided, so that long vectors do not make softmax too sure."),
    "masked": ("s, or -∞", "What this word may not look at gets minus infinity."),
    "exponentials": ("e^(s - largest)", "Every score becomes positive; the largest gives 1."),
    "sum": ("Σ e^(s - largest)", "What all of them are divided by."),
    "weights": ("a = e^(s - largest) / Σ", "Shares of one whole: how much this word looks at each."),
    "values": ("v = x W^V", "What each word hands over."),
    "weighted": ("a v", "Each value times its weight."),
    "head": ("z = Σ a v", "Added up: what this head found."),
    "contribution": ("z W^O", "What this head writes into the word's vector."),
    "contributions": ("z_h W^O_h", "What every head writes."),
    "bias": ("b^O", "The same for every word."),
    "output": ("Σ z_h W^O_h + b^O", "All heads together."),
    "residual": ("x + output", "What came in is kept, and this is added."),
    "norm": ("norm(x + output)", "Brought to one scale again."),
}


@dataclass(frozen=True, eq=False)
class Step:
    """One step: its formula, a sentence, its numbers, and whether they are the model's.

    `deviation` is the largest difference from the model's own numbers, as a share of the largest magnitude
    in the model's tensor; it and `agrees` are None where the model keeps no such number.
    """

    name: str
    formula: str
    saying: str
    value: Array
    agrees: bool | None = None
    deviation: float | None = None

    def as_dict(self) -> dict[str, Any]:
        """The same for JSON; null stands for minus infinity."""
        told = {"name": self.name, "formula": self.formula, "saying": self.saying}
        return {**told, "value": _listed(self.value), "agrees": self.agrees, "deviation": self.deviation}


@dataclass(frozen=True, eq=False)
class Steps:
    """All steps of one query in one head, in order; `steps["weights"].value` are its weights."""

    kind: str
    layer: int
    head: int
    query: int
    word: str
    keys: tuple[str, ...]
    divisor: float  # sqrt(d_k), or 1 where scores are not divided
    steps: tuple[Step, ...]

    def __getitem__(self, name: str) -> Step:
        for step in self.steps:
            if step.name == name:
                return step
        raise UnknownName(f"no step {name!r}; {nearest(name, [step.name for step in self.steps])}")

    def __iter__(self) -> Iterator[Step]:
        return iter(self.steps)

    @property
    def agree(self) -> bool:
        """Whether every step that can be compared is the model's own."""
        return all(step.agrees is not False for step in self.steps)

    def as_dict(self) -> dict[str, Any]:
        """The same for JSON."""
        place = {"kind": self.kind, "layer": self.layer, "head": self.head, "query": self.query}
        words = {"word": self.word, "keys": list(self.keys), "divisor": self.divisor, "agree": self.agree}
        return {**place, **words, "steps": [step.as_dict() for step in self.steps]}


def work_out(seen: Inspection, kind: str, layer: int, head: int, query: int | str) -> Steps:
    """The steps of one query: a position, or a word, of which the first piece is taken."""
    seen.check(kind, layer, head)
    queries, keys = seen.sides(kind)
    row = _Row(seen, kind, layer, head, queries.find(query)[0])
    steps = [*row.vectors(), *row.scoring()]
    steps += [*row.weighing(steps[-1].value), *row.joining(), *row.around()]
    word, labels = queries.labels()[row.query], tuple(keys.labels())
    return Steps(kind, layer, head, row.query, word, labels, 1 / row.scale, tuple(steps))


class _Row:
    """The row of one query in one head, and the parts of the model that it goes through."""

    def __init__(self, seen: Inspection, kind: str, layer: int, head: int, query: int):
        self.seen, self.kind, self.layer, self.head, self.query = seen, kind, layer, head, query
        self.path = attention_path(kind, layer)
        block, _, name = self.path.rpartition(".")
        self.around_path = f"{block}.around_{name}"
        stack: Any = seen.model.get_submodule(block.partition(".")[0])
        self.attention = getattr(stack.blocks[layer], name)
        self.residual: Any = getattr(stack.blocks[layer], f"around_{name}")
        if not isinstance(self.attention, MultiHeadAttention):
            kind_of_attention = type(self.attention).__name__
            raise UsageError(f"{kind_of_attention} has no such steps; they are those of multi-head attention")
        self.norm_comes_first = "normed" in self.residual.points
        with seen.recording.parts_off():
            self.norm_off, self.residual_off = (watching(self.residual).off(x) for x in ("norm", "residual"))
            self.scale = 1.0 if watching(self.attention).off("scaling") else self.attention.similarity.scale
            self.rotation = self._rotation()

    def own(self, point: str) -> Array:
        """The model's numbers at a point of this attention, or of the residual around it."""
        around = point in ("before", "normed", "sublayer", "after")
        return self.seen[f"{self.around_path if around else self.path}.{point}"].astype(np.float64)

    def own_group(self, point: str) -> Array:
        """This head's keys or values, which it may share with others."""
        shared = self.own(point)
        return shared[self.head * len(shared) // self.attention.heads]

    def vectors(self) -> Iterator[Step]:
        """The vector that comes in; its query, and all keys."""
        x = self.own("before")
        yield _step("input", x[self.query])
        if self.norm_comes_first and not self.norm_off:
            made, x = normalise(self.residual.norm, x[self.query]), self.own("normed")
            yield _compared("normed", made, x, self.query)
        query = self._projected("query", x)
        query = query if query is None else query[self.query]
        yield self._turned(_compared("query", query, self.own("query"), self.head, self.query))
        keys = self._projected("key", self._looked_at())
        yield self._turned(_compared("keys", keys, self.own_group("key")))

    def scoring(self) -> Iterator[Step]:
        """Products, raw scores, the division, the mask."""
        place = self.head, self.query
        scores, scaled = self.own("scores"), self.own("scaled")
        similarity = self.attention.similarity
        terms = products(similarity, self.own("query")[place], self.own_group("key"), self.head)
        product, score = formulas(similarity)
        if terms is not None:
            yield replace(_step("products", terms), formula=product)
        total = None if terms is None else terms.sum(-1)
        yield replace(_compared("scores", total, scores, *place), formula=score)
        divided = _compared("scaled", scores[place] * self.scale, scaled, *place)
        yield divided if self.scale != 1 else replace(divided, formula="s, not divided")
        visible = self.seen.visible(self.kind, self.layer, self.head)[self.query]
        yield _step("masked", np.where(visible, scaled[place], -np.inf))

    def weighing(self, masked: Array) -> Iterator[Step]:
        """Softmax; values, weighted values, and their sum: what the head gives."""
        exponentials, weights = softmax(masked)
        yield _step("exponentials", exponentials)
        yield _step("sum", exponentials.sum())
        yield _compared("weights", weights, self.own("weights"), self.head, self.query)
        own = self.own_group("value")
        yield _compared("values", self._projected("value", self._looked_at()), own)
        weighted = self.own("weights")[self.head, self.query, :, None] * own
        yield _step("weighted", weighted)
        is_off = (self.kind, self.layer, self.head) in self.seen.recording.off
        total = _compared("head", weighted.sum(0) * (not is_off), self.own("heads"), self.head, self.query)
        yield replace(total, saying="This head is switched off and hands over nothing.") if is_off else total

    def joining(self) -> Iterator[Step]:
        """W^O: what this head writes, what every head writes, and their sum with the bias."""
        heads, output = self.own("heads")[:, self.query], self.attention.output  # H F
        weight = as_array(output.weight).reshape(output.out_features, len(heads), -1)  # D H F
        written = np.einsum("hf,dhf->hd", heads, weight)
        bias = np.zeros(output.out_features) if output.bias is None else as_array(output.bias)
        yield _step("contribution", written[self.head])
        yield _step("contributions", written)
        yield _step("bias", bias)
        yield _compared("output", written.sum(0) + bias, self.own("output"), self.query)

    def around(self) -> Iterator[Step]:
        """The residual connection and, in the paper's order, the norm behind it."""
        x, output, after = self.own("before")[self.query], self.own("sublayer")[self.query], self.own("after")
        total = output if self.residual_off else x + output
        if self.norm_off or self.norm_comes_first:
            step = _compared("residual", total, after, self.query)
        else:
            step = _step("residual", total)
        yield (
            replace(step, formula="output", saying="What came in is not kept.") if self.residual_off else step
        )
        if not (self.norm_off or self.norm_comes_first):
            yield _compared("norm", normalise(self.residual.norm, total), after, self.query)

    def _looked_at(self) -> Array:
        """The vectors of which keys and values are made."""
        if self.kind == "cross":
            return self.seen["encoder.output"].astype(np.float64)
        return self.own("normed" if self.norm_comes_first and not self.norm_off else "before")

    def _projected(self, part: str, x: Array) -> Array | None:
        return project(self.attention, part, x, self.head, self.rotation)

    def _turned(self, step: Step) -> Step:
        return (
            step if self.rotation is None else replace(step, formula=f"{step.formula}, turned by its place")
        )

    def _rotation(self) -> Rotation | None:
        if self.kind == "cross":
            return None
        side = self.seen.sides(self.kind)[0]
        embedding: Any = self.seen.model.get_submodule(side.name)
        places = torch.arange(len(side), device=next(self.seen.model.parameters()).device)
        return None if watching(embedding).off("positions") else embedding.positions.rotation(places)


def _step(name: str, value: Array) -> Step:
    formula, saying = STEPS[name]
    return Step(name, formula, saying, np.asarray(value))


def _compared(name: str, made: Array | None, own: Array, *place: int) -> Step:
    """A step beside the model's own numbers, which stand in for it where there is no formula."""
    if made is None:
        return _step(name, own[place])
    largest = float(np.abs(own).max(initial=0.0)) or 1.0
    deviation = float(np.abs(made - own[place]).max(initial=0.0)) / largest
    return replace(_step(name, made), agrees=deviation <= TOLERANCE, deviation=deviation)


def _listed(value: Array) -> Any:
    """Nested lists with null for what JSON cannot write."""
    if value.ndim:
        return [_listed(part) for part in value]
    return float(value) if np.isfinite(value) else None
