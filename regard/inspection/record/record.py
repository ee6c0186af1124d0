"""Record: the tokens of a pass and everything that the model computed for them, as numpy arrays.

H heads, Q queries, K keys, D width, V vocabulary. Layers, heads and positions count from 0.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from regard.errors import SettingError, UnknownName, UsageError, nearest
from regard.inspection.record.inputs import TextModel, read_sides
from regard.inspection.record.recording import BUDGET, Recording, kinds_of
from regard.inspection.record.tokens import Side, Token, Word, merge_words, word_of
from regard.model.parts import Part, parts_of
from regard.model.transformer import EncoderDecoder, EncoderOnly, Transformer
from regard.model.watch import Replacement, attention_path


@dataclass(frozen=True)
class Next:
    """A possible next token and its probability."""

    id: int
    text: str
    probability: float


class Record:
    """What a model computed for a source, a target, or both.

    The target is what the decoder reads, beginning with its start token. The attention row of a target token
    belongs to the step that writes the next token.
    """

    def __init__(
        self,
        model: Transformer,
        source: Side | None = None,
        target: Side | None = None,
        ablate: Iterable[Part] = (),
        patch: Mapping[str, Replacement] | None = None,
        budget: int = BUDGET,
    ):
        self.model, self.source, self.target = model, source, target
        self.all_sides = [side for side in (source, target) if side is not None]
        self._sides = {side.name: side for side in self.all_sides}
        self._kinds = kinds_of(model)
        for name in {side for sides in self._kinds.values() for side in sides}:
            if not len(self.side(name)):
                raise UsageError(f"the {name} has no tokens; give a text that is not empty")
        self.recording = Recording(model, [side.ids for side in self.all_sides], ablate, patch, budget)

    @classmethod
    def of(
        cls,
        model: TextModel,
        text: str,
        target: str | Sequence[int] | None = None,
        ablate: Iterable[Part] = (),
        patch: Mapping[str, Replacement] | None = None,
    ) -> Self:
        """The record of a Translator, Writer or Reader on a text; see `read_sides`."""
        parts = parts_of(ablate)
        source, written = read_sides(model, text, target, parts, patch)
        return cls(model.model, source, written, parts, patch)

    @property
    def kinds(self) -> list[str]:
        """The kinds of attention that this model has."""
        return list(self._kinds)

    @property
    def heads(self) -> int:
        """The number of heads in every attention."""
        return self.model.config.heads

    def layers(self, kind: str) -> int:
        """The number of layers with this kind of attention."""
        self.sides(kind)
        stack: Any = self.model.get_submodule("encoder" if kind == "encoder" else "decoder")
        return len(stack.blocks)

    def side(self, name: str | None = None) -> Side:
        """The source or the target by name; without a name, the only side."""
        if name is None and len(self._sides) == 1:
            return next(iter(self._sides.values()))
        if name not in self._sides:
            raise UnknownName(f"unknown side {name!r}; {nearest(str(name), self._sides)}")
        return self._sides[name]

    def sides(self, kind: str) -> tuple[Side, Side]:
        """The side of the queries and the side of the keys in this kind of attention."""
        if kind not in self._kinds:
            raise UnknownName(f"unknown kind of attention {kind!r}; {nearest(kind, self._kinds)}")
        queries, keys = self._kinds[kind]
        return self.side(queries), self.side(keys)

    def kind_of_query(self, query: int | str | None) -> str:
        """The first kind of attention whose queries include this word; without one, the last kind."""
        able = [kind for kind in self.kinds if isinstance(query, str) and self.sides(kind)[0].has(query)]
        return able[0] if able else self.kinds[-1 if query is None else 0]

    def tokens(self, side: str | None = None) -> tuple[Token, ...]:
        """The tokens of a side."""
        return self.side(side).tokens

    def words(self, side: str | None = None) -> tuple[Word, ...]:
        """The words of a side, with the positions of their tokens."""
        return self.side(side).words

    def __getitem__(self, name: str) -> np.ndarray:
        """Any recorded value by its name in `watch`: "encoder.2.attention.query" is H Q E."""
        value = self.recording[name]
        if value.is_floating_point():
            value = value.float()
        array = value.cpu().numpy()
        return array.reshape(-1, array.shape[-1]) if name.endswith(".positions") else array[0]

    def attention(self, kind: str, layer: int, head: int | None = None, words: bool = False) -> np.ndarray:
        """The attention weights of one head, Q K, or of all heads, H Q K.

        With `words`, the tokens of a word are merged: keys are summed and queries averaged.
        """
        self.check(kind, layer, head)
        weights = self[f"{attention_path(kind, layer)}.weights"]
        weights = weights if head is None else weights[head]
        return merge_words(weights, *self.sides(kind)).astype(weights.dtype) if words else weights

    def visible(self, kind: str, layer: int, head: int = 0, words: bool = False) -> np.ndarray:
        """Which keys each query may attend to, Q K; a word may where any of its tokens may."""
        self.check(kind, layer, head)
        queries, keys = self.sides(kind)
        mask = self.recording[f"{attention_path(kind, layer)}.mask"].cpu().numpy()
        dense = np.broadcast_to(mask, (1, self.heads, len(queries), len(keys)))[0, head]
        return merge_words(dense.astype(float), queries, keys) > 0 if words else dense

    def embeddings(self, side: str | None = None) -> np.ndarray:
        """The vector of each token before its position is added, Q D."""
        return self[f"{self.side(side).name}.tokens"]

    def positions(self, side: str | None = None) -> np.ndarray | None:
        """The position vector added to each token, Q D; None where none is added (rotary, none)."""
        name = f"{self.side(side).name}.positions"
        return self[name] if name in self.recording else None

    @property
    def logits(self) -> np.ndarray:
        """The logits of every token of the vocabulary at every position, Q V."""
        if self.recording.output.dim() != 2 or self.model.config.output not in ("words", "masked"):
            raise UsageError(f"this model gives {self.model.config.output}, not words; use its attention")
        return self.recording.output.float().cpu().numpy()

    @property
    def probabilities(self) -> np.ndarray:
        """The softmax of the logits, Q V: of the next token, or of a masked model's token at the position."""
        return np.exp(log_softmax(self.logits))

    def next(self, position: int = -1, top: int = 10) -> list[Next]:
        """The most probable tokens after a position (at it, for a masked model), best first."""
        return most_probable(self.written, self.probabilities[self.written.find(position)[0]], top)

    @property
    def written(self) -> Side:
        """The side whose tokens the model predicts."""
        return self.target or self.side()

    @property
    def followed(self) -> np.ndarray:
        """The id after each position: that of the next token, and the end after a whole translation."""
        ids = self.written.ids[1:]
        translates = isinstance(self.model, EncoderDecoder)
        return np.append(ids, self.written.tokenizer.end) if translates else ids

    @property
    def log_probability(self) -> float:
        """The log-probability of the whole target, in nats: the sum over its tokens."""
        if isinstance(self.model, EncoderOnly):
            raise UsageError("an encoder-only model gives a text no probability; ask `next` about a position")
        ids = self.followed
        return float(log_softmax(self.logits)[np.arange(len(ids)), ids].sum())

    def check(self, kind: str, layer: int, head: int | None = None) -> None:
        """Raise if the model has no such kind, layer or head."""
        layers = self.layers(kind)
        if not 0 <= layer < layers:
            raise SettingError(f"no layer {layer} of {kind} attention; there are {layers}, counted from 0")
        if head is not None and not 0 <= head < self.heads:
            raise SettingError(f"no head {head}; there are {self.heads}, counted from 0")

    def again(self, ablate: Iterable[Part] = (), patch: Mapping[str, Replacement] | None = None) -> Self:
        """Another pass over the same tokens, with other parts off or values replaced."""
        return type(self)(self.model, self.source, self.target, ablate, patch, self.recording.budget)


def log_softmax(logits: np.ndarray) -> np.ndarray:
    """Logits .. V as log-probabilities, in float64."""
    shifted = logits.astype(np.float64) - logits.max(-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))


def most_probable(side: Side, probabilities: np.ndarray, top: int) -> list[Next]:
    """The tokens with the largest probabilities, best first."""
    best = np.argsort(-probabilities, kind="stable")[:top].tolist()
    return [Next(n, word_of(side.tokenizer, n), float(probabilities[n])) for n in best]
