"""What `regard look` is asked and what it answers: on the screen, as data, or in a file."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from regard.errors import UsageError
from regard.inspection.analysis.ablation import Effect, parse_part, switch_off
from regard.inspection.analysis.compare import Comparison, compare
from regard.inspection.analysis.overview import Pinned, caption
from regard.inspection.analysis.ranking import Link, Ranked, rank_heads
from regard.inspection.by_hand.board import Board
from regard.inspection.record.inputs import Subject
from regard.inspection.record.inspection import inspect
from regard.inspection.record.tokens import Side
from regard.inspection.render.payload import NOTHING, Notes, look_over
from regard.inspection.render.terminal import (
    show_head,
    show_layer,
    show_texts,
    show_word,
    show_word_over_heads,
)
from regard.inspection.render.terminal_report import show_comparison, show_effect, show_first, show_ranking


@dataclass(frozen=True)
class Request:
    """A sentence and what to show of it; what is left open is chosen."""

    text: str
    target: str | None = None
    kind: str | None = None
    layer: int | None = None
    head: int | None = None
    query: str | None = None
    words: bool = False
    compare: str | None = None
    rank: tuple[str, str] | None = None
    off: tuple[str, ...] = ()

    @property
    def word(self) -> str | int | None:
        """The query, as a number where it is one."""
        return int(self.query) if self.query and self.query.lstrip("-").isdigit() else self.query


class Look:
    """One request to one model, answered as far as it is asked."""

    def __init__(self, model: Subject, request: Request, notes: Notes = NOTHING):
        if request.compare is not None and request.query is None:
            raise UsageError("comparing is done for one word; name it with --query")
        self.model, self.request, self.notes = model, request, notes
        self.off = tuple(map(parse_part, request.off))
        self.seen = inspect(model, request.text, request.target, self.off)
        self.kind = self._kind()
        self.layer = self.seen.layers(self.kind) - 1 if request.layer is None else request.layer
        self.seen.check(self.kind, self.layer, request.head)
        if request.word is not None:
            self.seen.sides(self.kind)[0].find(request.word, request.words)

    @cached_property
    def effect(self) -> Effect | None:
        """What is different with the parts off."""
        if not self.off or self.seen.target is None:
            return None
        return switch_off(inspect(self.model, self.request.text, self.request.target), self.off)

    @cached_property
    def ranking(self) -> list[Ranked]:
        """Every head by how it links the two words, where two are given."""
        if self.request.rank is None:
            return []
        kinds = None if self.request.kind is None else [self.kind]
        return rank_heads(Link(self.seen, *self.request.rank), kinds)

    @cached_property
    def comparison(self) -> Comparison:
        """The sentence beside the second one."""
        assert self.request.compare is not None
        return compare(self.seen, inspect(self.model, self.request.compare, self.request.target, self.off))

    @cached_property
    def first(self) -> Pinned | None:
        """What is worth a first look, where nothing is chosen."""
        request = self.request
        chosen = (request.kind, request.layer, request.head, request.query)
        return look_over(self.seen, self.notes).pinned if chosen == (None,) * 4 else None

    def show(self, board: Board) -> None:
        """The answer on the screen."""
        request = self.request
        if request.compare is not None and request.word is not None:
            show_comparison(board, self.comparison, request.word)
            return
        effect, ranking = self.effect, self.ranking  # a mistake shows before anything is written
        show_texts(board, self.seen)
        if effect is not None:
            show_effect(board, effect)
        if request.rank is not None:
            show_ranking(board, ranking, *request.rank)
        else:
            self._show_attention(board)

    def data(self) -> dict[str, Any]:
        """The same for JSON."""
        sides = [side for side in (self.seen.source, self.seen.target) if side is not None]
        told: dict[str, Any] = {side.name: _side(side) for side in sides}
        if self.effect is not None:
            told["effect"] = self.effect.as_dict()
        if self.request.compare is not None and self.request.word is not None:
            both, word = self.comparison, self.request.word
            pairs = {name: both.labels(name) for name in both.pairs}
            return told | {"pairs": pairs, "changes": [change.as_dict() for change in both.changes(word)]}
        if self.request.rank is not None:
            return told | {"ranking": [ranked.as_dict() for ranked in self.ranking]}
        return told | self._attention_data()

    def save(self, path: Path) -> Path:
        """The attention in a file; a table or an archive holds all that was not chosen, a page everything."""
        request = self.request
        chosen = {"kind": request.kind, "layer": request.layer, "head": request.head, "words": request.words}
        return self.seen.save(path, **chosen, query=request.word, notes=self.notes)

    def _kind(self) -> str:
        """The kind asked for, or the first in which that word looks, or the last: cross-attention."""
        seen, word = self.seen, self.request.word
        if self.request.kind is not None:
            seen.sides(self.request.kind)
            return self.request.kind
        able = [kind for kind in seen.kinds if isinstance(word, str) and seen.sides(kind)[0].has(word)]
        return able[0] if able else seen.kinds[0 if word is not None else -1]

    def _show_attention(self, board: Board) -> None:
        seen, head, word, words = self.seen, self.request.head, self.request.word, self.request.words
        if word is not None and head is not None:
            show_word(board, seen, self.kind, self.layer, head, word, words)
        elif word is not None:
            layers = range(seen.layers(self.kind)) if self.request.layer is None else [self.layer]
            show_word_over_heads(board, seen, self.kind, word, layers, words)
        elif head is not None:
            show_head(board, seen, self.kind, self.layer, head, words)
        else:
            if self.first is not None:
                show_first(board, seen, self.first)
            show_layer(board, seen, self.kind, self.layer, words)
            kinds = ", ".join(f"{kind} (layers 0 to {seen.layers(kind) - 1})" for kind in seen.kinds)
            board.say(f"[soft]Kinds here: {kinds}. One head large: --head N. One word: --query WORD.")

    def _attention_data(self) -> dict[str, Any]:
        request, (queries, keys) = self.request, self.seen.sides(self.kind)
        place = {"kind": self.kind, "layer": self.layer, "head": request.head, "words": request.words}
        labels = {"queries": queries.labels(request.words), "keys": keys.labels(request.words)}
        weights = self.seen.attention(self.kind, self.layer, request.head, request.words)
        told = {**place, **labels, "attention": weights.astype(float).tolist()}
        if self.first is None:
            return told
        return told | {"first": {**self.first.place, "caption": caption(self.seen, self.first)}}


def _side(side: Side) -> dict[str, Any]:
    return {"text": side.text, "tokens": [asdict(token) for token in side.tokens]}
