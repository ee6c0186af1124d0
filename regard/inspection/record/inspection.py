"""Inspection: what a model did with a sentence, as data.

    seen = inspect(translator, "the animal did not cross the street because it was too tired")
    seen.attention("encoder", layer=2, head=1)      # numpy, rows are queries

H heads, Q queries, K keys, D width, V vocabulary. Layers, heads and positions count from 0.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from regard.errors import SettingError, UnknownName, UsageError, nearest
from regard.inspection.record.inputs import Subject, sides_read
from regard.inspection.record.recording import BUDGET, Recording, kinds_of
from regard.inspection.record.tokens import Side, Token, Word, merge_words, word_of
from regard.model.transformer import EncoderDecoder, EncoderOnly, Transformer
from regard.model.watch import Part, Replacement, attention_path

if TYPE_CHECKING:
    from regard.inspection.analysis.steps import Steps


@dataclass(frozen=True)
class Next:
    """A token that may follow, and its probability."""

    id: int
    text: str
    probability: float


class Inspection:
    """What a model did with a source, a target, or both: made by `inspect`, or from the parts themselves.

    The target is what the decoder reads, from its start token on: the row of a token shows what was
    looked at after reading it, which is when the next one is written.
    """

    def __init__(
        self,
        model: Transformer,
        source: Side | None = None,
        target: Side | None = None,
        off: Iterable[Part] = (),
        patch: Mapping[str, Replacement] | None = None,
        budget: int = BUDGET,
    ):
        self.model, self.source, self.target = model, source, target
        self._sides = {side.name: side for side in (source, target) if side is not None}
        self._kinds = kinds_of(model)
        for name in {side for sides in self._kinds.values() for side in sides}:
            if not len(self.side(name)):
                raise UsageError(f"the {name} holds no token; there is nothing to look at")
        self.recording = Recording(model, [side.ids for side in self._sides.values()], off, patch, budget)

    @property
    def kinds(self) -> list[str]:
        """The kinds of attention that this model has."""
        return list(self._kinds)

    @property
    def heads(self) -> int:
        """How many heads an attention has."""
        return self.model.config.heads

    def layers(self, kind: str) -> int:
        """How many layers have this kind of attention."""
        self.sides(kind)
        stack: Any = self.model.get_submodule("encoder" if kind == "encoder" else "decoder")
        return len(stack.blocks)

    def side(self, name: str | None = None) -> Side:
        """The source or the target; the only one where there is only one."""
        if name is None and len(self._sides) == 1:
            return next(iter(self._sides.values()))
        if name not in self._sides:
            raise UnknownName(f"unknown side {name!r}; {nearest(str(name), self._sides)}")
        return self._sides[name]

    def sides(self, kind: str) -> tuple[Side, Side]:
        """Whose queries and whose keys meet in this kind of attention."""
        if kind not in self._kinds:
            raise UnknownName(f"unknown kind of attention {kind!r}; {nearest(kind, self._kinds)}")
        queries, keys = self._kinds[kind]
        return self.side(queries), self.side(keys)

    def tokens(self, side: str | None = None) -> tuple[Token, ...]:
        """The tokens of a side."""
        return self.side(side).tokens

    def words(self, side: str | None = None) -> tuple[Word, ...]:
        """The words of a side, with the positions of their tokens."""
        return self.side(side).words

    def __getitem__(self, name: str) -> np.ndarray:
        """Anything watched, by the name that `watch` gives it: "encoder.2.attention.query" is H Q E."""
        value = self.recording[name]
        if value.is_floating_point():
            value = value.float()
        array = value.cpu().numpy()
        return array.reshape(-1, array.shape[-1]) if name.endswith(".positions") else array[0]

    def attention(self, kind: str, layer: int, head: int | None = None, words: bool = False) -> np.ndarray:
        """The weights of one head, Q K, or of all, H Q K: a row for each query, a column for each key.

        With `words`, pieces become words: keys are summed, queries averaged.
        """
        self.check(kind, layer, head)
        weights = self[f"{attention_path(kind, layer)}.weights"]
        weights = weights if head is None else weights[head]
        return merge_words(weights, *self.sides(kind)).astype(weights.dtype) if words else weights

    def visible(self, kind: str, layer: int, head: int = 0, words: bool = False) -> np.ndarray:
        """Which keys each query may look at, Q K; a word may look where any piece of it may."""
        self.check(kind, layer, head)
        queries, keys = self.sides(kind)
        mask = self.recording[f"{attention_path(kind, layer)}.mask"].cpu().numpy()
        dense = np.broadcast_to(mask, (1, self.heads, len(queries), len(keys)))[0, head]
        return merge_words(dense.astype(float), queries, keys) > 0 if words else dense

    def embeddings(self, side: str | None = None) -> np.ndarray:
        """The vector of each token before its position is added, Q D."""
        return self[f"{self.side(side).name}.tokens"]

    def positions(self, side: str | None = None) -> np.ndarray | None:
        """What was added to each token for its place, Q D; None where nothing is (rotary, none)."""
        name = f"{self.side(side).name}.positions"
        return self[name] if name in self.recording else None

    @property
    def logits(self) -> np.ndarray:
        """A number for every word at every position, Q V."""
        if self.recording.output.dim() != 2 or self.model.config.output not in ("words", "masked"):
            raise UsageError(f"this model gives {self.model.config.output}, not words; look at its attention")
        return self.recording.output.float().cpu().numpy()

    @property
    def probabilities(self) -> np.ndarray:
        """How likely every word is at every position, Q V: as what follows, or as what is hidden there."""
        return np.exp(log_softmax(self.logits))

    def next(self, position: int = -1, top: int = 10) -> list[Next]:
        """The likeliest tokens after a position (at it, for a model that fills gaps), best first."""
        return likeliest(self.written, self.probabilities[self.written.find(position)[0]], top)

    @property
    def written(self) -> Side:
        """The side whose tokens the model speaks about."""
        return self.target or self.side()

    @property
    def followed(self) -> np.ndarray:
        """The id that came after each position: the next token's, and of a translation the end at last."""
        ids = self.written.ids[1:]
        translates = isinstance(self.model, EncoderDecoder)
        return np.append(ids, self.written.tokenizer.end) if translates else ids

    @property
    def log_probability(self) -> float:
        """How likely the whole target is: the sum over its tokens, in nats."""
        if isinstance(self.model, EncoderOnly):
            raise UsageError("a model that reads gives a text no probability; ask `next` about one position")
        ids = self.followed
        return float(log_softmax(self.logits)[np.arange(len(ids)), ids].sum())

    def check(self, kind: str, layer: int, head: int | None = None) -> None:
        """Refuse a kind, layer or head that is not there."""
        layers = self.layers(kind)
        if not 0 <= layer < layers:
            raise SettingError(f"no layer {layer} of {kind} attention; there are {layers}, counted from 0")
        if head is not None and not 0 <= head < self.heads:
            raise SettingError(f"no head {head}; there are {self.heads}, counted from 0")

    def again(self, off: Iterable[Part] = (), patch: Mapping[str, Replacement] | None = None) -> Inspection:
        """The same tokens once more, with other parts off or values replaced."""
        return Inspection(self.model, self.source, self.target, off, patch, self.recording.budget)

    def steps(self, kind: str, layer: int, head: int, query: int | str) -> Steps:
        """Every intermediate of one query's row, from its vector to the norm behind the attention."""
        from regard.inspection.analysis.steps import work_out

        return work_out(self, kind, layer, head, query)

    def save(self, path: str | Path, **choice: Any) -> Path:
        """Write a page (.html), a picture (.svg, .png), a table (.csv) or all weights (.npz); see export."""
        from regard.inspection.render.export import save

        return save(self, path, **choice)

    def _repr_mimebundle_(self, **_: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        """What a notebook shows: the studio's view, or a picture; `widget.show` takes a choice."""
        from regard.inspection.render.widget import offer

        return offer(self)


def log_softmax(logits: np.ndarray) -> np.ndarray:
    """Logits .. V as log-probabilities, in float64."""
    shifted = logits.astype(np.float64) - logits.max(-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))


def likeliest(side: Side, chances: np.ndarray, top: int) -> list[Next]:
    """The tokens of the largest probabilities, best first."""
    best = np.argsort(-chances, kind="stable")[:top].tolist()
    return [Next(n, word_of(side.tokenizer, n), float(chances[n])) for n in best]


def inspect(
    model: Subject,
    text: str,
    target: str | None = None,
    off: Iterable[Part] = (),
    patch: Mapping[str, Replacement] | None = None,
) -> Inspection:
    """Let a Translator, Writer or Reader read a text, and see everything that it computed.

    A translation is written first, at full speed and with the same parts off, and then read once as a
    whole beside its source; `target` gives another one to read instead. For a Writer, `target` is what
    goes on after the text. `off` and `patch` are those of `watch`.
    """
    off = tuple([off] if isinstance(off, str) else off)
    source, written = sides_read(model, text, target, off)
    return Inspection(model.model, source, written, off, patch)
