"""The attention of one query step by step, computed again and compared with the model's values.

Each step starts from the model's float32 values, is computed in float64, and is compared with the value that
the model has at that point. H heads, K keys, E key width of a head, F value width, D width.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import nn

from regard.errors import UnknownName, UsageError, nearest
from regard.inspection.record.record import Record
from regard.model.attention import MultiHeadAttention, NormalisedProjections, SeparateProjections
from regard.model.blocks import LayerNorm, RMSNorm
from regard.model.positions import Rotation
from regard.model.similarity import Additive, Bilinear, Cosine, ScaledDot
from regard.model.watch import attention_path, watching

Array = np.ndarray


def as_array(tensor: Any) -> Array:
    """A tensor as a float64 array."""
    return tensor.detach().cpu().double().numpy()


def products(similarity: Any, query: Array, key: Array, head: int) -> Array | None:
    """The terms whose sum is the raw score, K E: q_i k_i for a dot product."""
    for known, terms in _TERMS.items():
        if isinstance(similarity, known):
            return terms(similarity, query, key, head)
    return None


def formulas(similarity: Any) -> tuple[str, str]:
    """The formulas of its products and its score."""
    known = (formula for kind, formula in _FORMULAS.items() if isinstance(similarity, kind))
    return next(known, ("", "s = similarity(q, k)"))


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
    """xW + b for the queries, keys or values of one head (or of the group that it shares), normed, turned.

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
    if isinstance(projections, NormalisedProjections) and part != "value":
        gamma = as_array((projections.query_norm if part == "query" else projections.key_norm).weight)
        made = made / np.sqrt((made**2).mean(-1, keepdims=True) + projections.epsilon) * gamma
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
    """e^(score - largest) for every score, and the softmax; a row of -inf alone gives 0."""
    largest = scores.max()
    exponentials = np.zeros_like(scores) if np.isneginf(largest) else np.exp(scores - largest)
    total = exponentials.sum()
    return exponentials, exponentials / total if total else exponentials


TOLERANCE = 1e-5  # of the tensor's largest magnitude
STEPS = {  # name: formula, and what it means
    "input": ("x", "The input vector of this word."),
    "normed": ("x' = norm(x)", "Here the norm comes before the attention."),
    "query": ("q = x W^Q", "What this word looks for."),
    "keys": ("k = x W^K", "What each word offers."),
    "products": ("q_i k_i", "Each number of q times the matching number of k."),
    "scores": ("s = q · k", "The sum of the products: how well each key matches the query."),
    "scaled": ("s / √d_k", "Divided by the root of the key width, so that softmax does not saturate."),
    "masked": ("s, or -∞", "Keys that this word may not look at get minus infinity."),
    "exponentials": ("e^(s - largest)", "Every score becomes positive; the largest becomes 1."),
    "sum": ("Σ e^(s - largest)", "The sum that softmax divides by."),
    "weights": (
        "a = e^(s - largest) / Σ",
        "The softmax: how much this word looks at each word. The weights sum to 1.",
    ),
    "values": ("v = x W^V", "What each word passes on."),
    "weighted": ("a v", "Each value times its weight."),
    "head": ("z = Σ a v", "The sum: the output of this head."),
    "contribution": ("z W^O", "What this head adds to the vector of the word."),
    "contributions": ("z_h W^O_h", "What every head adds."),
    "bias": ("b^O", "The same for every word."),
    "output": ("Σ z_h W^O_h + b^O", "The sum over all heads, with the bias."),
    "residual": ("x + output", "The residual connection: the output is added to the input vector."),
    "norm": ("norm(x + output)", "Normalisation after the residual connection."),
}


@dataclass(frozen=True, eq=False)
class Step:
    """One step: its formula, a sentence, its value, and whether it equals the model's.

    `deviation` is the largest difference from the model's value, relative to the largest magnitude in the
    model's tensor. It and `agrees` are None where the model has no such value.
    """

    name: str
    formula: str
    saying: str
    value: Array
    agrees: bool | None = None
    deviation: float | None = None

    def as_dict(self) -> dict[str, Any]:
        """The fields as values that JSON can hold; null stands for minus infinity."""
        text = {"name": self.name, "formula": self.formula, "saying": self.saying}
        return {**text, "value": _listed(self.value), "agrees": self.agrees, "deviation": self.deviation}


@dataclass(frozen=True, eq=False)
class Steps:
    """The steps of one query in one head, in order; `steps["weights"].value` are its weights."""

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
        """Whether every compared step equals the model's value."""
        return all(step.agrees is not False for step in self.steps)

    def as_dict(self) -> dict[str, Any]:
        """The fields as values that JSON can hold."""
        place = {"kind": self.kind, "layer": self.layer, "head": self.head, "query": self.query}
        words = {"word": self.word, "keys": list(self.keys), "divisor": self.divisor, "agree": self.agree}
        return {**place, **words, "steps": [step.as_dict() for step in self.steps]}


def work_out(record: Record, kind: str, layer: int, head: int, query: int | str) -> Steps:
    """The steps of one query: a position, or the first token of a word."""
    record.check(kind, layer, head)
    queries, keys = record.sides(kind)
    row = _Row(record, kind, layer, head, queries.find(query)[0])
    steps = [*row.vectors(), *row.scoring()]
    steps += [*row.weighing(steps[-1].value), *row.joining(), *row.around()]
    word, labels = queries.labels()[row.query], tuple(keys.labels())
    return Steps(kind, layer, head, row.query, word, labels, 1 / row.scale, tuple(steps))


class _Row:
    """The row of one query in one head, and the modules that it passes through."""

    def __init__(self, record: Record, kind: str, layer: int, head: int, query: int):
        self.record, self.kind, self.layer, self.head, self.query = record, kind, layer, head, query
        self.path = attention_path(kind, layer)
        block, _, name = self.path.rpartition(".")
        self.around_path = f"{block}.around_{name}"
        stack: Any = record.model.get_submodule(block.partition(".")[0])
        self.attention = getattr(stack.blocks[layer], name)
        self.residual: Any = getattr(stack.blocks[layer], f"around_{name}")
        if not isinstance(self.attention, MultiHeadAttention):
            kind_of_attention = type(self.attention).__name__
            raise UsageError(f"{kind_of_attention} has no steps; they are defined for multi-head attention")
        self.norm_comes_first = "normed" in self.residual.points
        with record.recording.parts_off():
            self.norm_off, self.residual_off = (
                watching(self.residual).is_ablated(x) for x in ("norm", "residual")
            )
            self.scale = (
                1.0 if watching(self.attention).is_ablated("scaling") else self.attention.similarity.scale
            )
            self.rotation = self._rotation()

    def own(self, point: str) -> Array:
        """The model's values at a point of this attention, or of the residual around it."""
        around = point in ("before", "normed", "sublayer", "after")
        return self.record[f"{self.around_path if around else self.path}.{point}"].astype(np.float64)

    def own_group(self, point: str) -> Array:
        """This head's keys or values, which a group of heads may share."""
        shared = self.own(point)
        return shared[self.head * len(shared) // self.attention.heads]

    def vectors(self) -> Iterator[Step]:
        """The input vector, its query, and all keys."""
        x = self.own("before")
        yield _step("input", x[self.query])
        if self.norm_comes_first and not self.norm_off:
            normed, x = normalise(self.residual.norm, x[self.query]), self.own("normed")
            yield _compared("normed", normed, x, self.query)
        query = self._projected("query", x)
        query = query if query is None else query[self.query]
        yield self._rotated(_compared("query", query, self.own("query"), self.head, self.query))
        keys = self._projected("key", self._attended())
        yield self._rotated(_compared("keys", keys, self.own_group("key")))

    def scoring(self) -> Iterator[Step]:
        """The products, raw scores, scaled scores and masked scores."""
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
        visible = self.record.visible(self.kind, self.layer, self.head)[self.query]
        yield _step("masked", np.where(visible, scaled[place], -np.inf))

    def weighing(self, masked: Array) -> Iterator[Step]:
        """The softmax, the values, the weighted values and their sum, the head's output."""
        exponentials, weights = softmax(masked)
        yield _step("exponentials", exponentials)
        yield _step("sum", exponentials.sum())
        yield _compared("weights", weights, self.own("weights"), self.head, self.query)
        own = self.own_group("value")
        yield _compared("values", self._projected("value", self._attended()), own)
        weighted = self.own("weights")[self.head, self.query, :, None] * own
        yield _step("weighted", weighted)
        is_off = (self.kind, self.layer, self.head) in self.record.recording.ablated
        total = _compared("head", weighted.sum(0) * (not is_off), self.own("heads"), self.head, self.query)
        yield replace(total, saying="This head is switched off, so its output is 0.") if is_off else total

    def joining(self) -> Iterator[Step]:
        """W^O: the contribution of this head, of every head, and their sum with the bias."""
        heads, output = self.own("heads")[:, self.query], self.attention.output  # H F
        weight = as_array(output.weight).reshape(output.out_features, len(heads), -1)  # D H F
        written = np.einsum("hf,dhf->hd", heads, weight)
        bias = np.zeros(output.out_features) if output.bias is None else as_array(output.bias)
        yield _step("contribution", written[self.head])
        yield _step("contributions", written)
        yield _step("bias", bias)
        yield _compared("output", written.sum(0) + bias, self.own("output"), self.query)

    def around(self) -> Iterator[Step]:
        """The residual connection and, with post-norm as in the paper, the norm after it."""
        x, output, after = self.own("before")[self.query], self.own("sublayer")[self.query], self.own("after")
        total = output if self.residual_off else x + output
        if self.norm_off or self.norm_comes_first:
            step = _compared("residual", total, after, self.query)
        else:
            step = _step("residual", total)
        yield (
            replace(step, formula="output", saying="The residual connection is switched off.")
            if self.residual_off
            else step
        )
        if not (self.norm_off or self.norm_comes_first):
            yield _compared("norm", normalise(self.residual.norm, total), after, self.query)

    def _attended(self) -> Array:
        """The vectors that keys and values are projected from."""
        if self.kind == "cross":
            return self.record["encoder.output"].astype(np.float64)
        return self.own("normed" if self.norm_comes_first and not self.norm_off else "before")

    def _projected(self, part: str, x: Array) -> Array | None:
        return project(self.attention, part, x, self.head, self.rotation)

    def _rotated(self, step: Step) -> Step:
        return (
            step
            if self.rotation is None
            else replace(step, formula=f"{step.formula}, rotated by its position")
        )

    def _rotation(self) -> Rotation | None:
        if self.kind == "cross":
            return None
        side = self.record.sides(self.kind)[0]
        embedding: Any = self.record.model.get_submodule(side.name)
        places = torch.arange(len(side), device=next(self.record.model.parameters()).device)
        return None if watching(embedding).is_ablated("positions") else embedding.positions.rotation(places)


def _step(name: str, value: Array) -> Step:
    formula, saying = STEPS[name]
    return Step(name, formula, saying, np.asarray(value))


def _compared(name: str, computed: Array | None, own: Array, *place: int) -> Step:
    """A step compared with the model's values; without a formula, the model's values themselves."""
    if computed is None:
        return _step(name, own[place])
    largest = float(np.abs(own).max(initial=0.0)) or 1.0
    deviation = float(np.abs(computed - own[place]).max(initial=0.0)) / largest
    return replace(_step(name, computed), agrees=deviation <= TOLERANCE, deviation=deviation)


def _listed(value: Array) -> Any:
    """Nested lists; None stands for values that JSON cannot hold."""
    if value.ndim:
        return [_listed(part) for part in value]
    return float(value) if np.isfinite(value) else None
