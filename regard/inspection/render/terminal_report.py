"""The report of `regard inspect`: attention, rankings, comparisons and ablations, as text, data or a file."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from rich.markup import escape
from rich.text import Text

from regard.errors import UsageError
from regard.inspection.analysis.ablation import Ablation, ablate, first_written, parse_part, spell_part
from regard.inspection.analysis.attribution import Attribution, attribute
from regard.inspection.analysis.compare import Comparison, compare
from regard.inspection.analysis.lens import Lens, logit_lens
from regard.inspection.analysis.overview import Pinned, caption
from regard.inspection.analysis.ranking import Link, Ranked, rank_heads
from regard.inspection.record.inputs import TextModel
from regard.inspection.record.record import Record
from regard.inspection.record.tokens import Side
from regard.inspection.render.board import Board
from regard.inspection.render.export import Choice, save
from regard.inspection.render.heat_map import Heat, draw
from regard.inspection.render.payload import NOTHING, Notes, annotated_overview
from regard.inspection.render.terminal import (
    show_head,
    show_layer,
    show_texts,
    show_word,
    show_word_over_heads,
)
from regard.model.transformer import EncoderOnly

MOST_ROWS = 8
LONGEST_BAR = 20
SMALLEST_CHANGE = 5e-4


@dataclass(frozen=True)
class Request:
    """A sentence and what to show of it; a field that is None is chosen."""

    text: str
    target: str | None = None
    kind: str | None = None
    layer: int | None = None
    head: int | None = None
    query: str | None = None
    words: bool = False
    compare: str | None = None
    rank: tuple[str, str] | None = None
    ablate: tuple[str, ...] = ()
    why: tuple[str, str] | None = None
    lens: bool = False

    @property
    def word(self) -> str | int | None:
        """The query, as a number if it is one."""
        return int(self.query) if self.query and self.query.lstrip("-").isdigit() else self.query


class Report:
    """The answer to one request to one model."""

    def __init__(self, model: TextModel, request: Request, notes: Notes = NOTHING):
        if request.compare is not None and request.query is None:
            raise UsageError("--compare needs one word; name it with --query")
        self.model, self.request, self.notes = model, request, notes
        self.ablated = tuple(map(parse_part, request.ablate))
        self.record = Record.of(model, request.text, request.target, self.ablated)
        self.kind = self._kind()
        self.layer = self.record.layers(self.kind) - 1 if request.layer is None else request.layer
        self.record.check(self.kind, self.layer, request.head)
        if request.word is not None:
            self.record.sides(self.kind)[0].find(request.word, request.words)

    @cached_property
    def ablation(self) -> Ablation | None:
        """What the parts that are off change."""
        if not self.ablated or self.record.target is None:
            return None
        return ablate(Record.of(self.model, self.request.text, self.request.target), self.ablated)

    @cached_property
    def ranking(self) -> list[Ranked]:
        """Every head by the weight between the two words of --rank."""
        if self.request.rank is None:
            return []
        kinds = None if self.request.kind is None else [self.kind]
        return rank_heads(Link(self.record, *self.request.rank), kinds)

    @cached_property
    def attribution(self) -> Attribution | None:
        """Why one word of --why is written and not the other."""
        if self.request.why is None:
            return None
        return attribute(self.record, *self.request.why, self._place_of_why(self.request.why))

    @cached_property
    def lens(self) -> Lens | None:
        """The logit lens, if it is asked for."""
        return logit_lens(self.record) if self.request.lens else None

    @cached_property
    def comparison(self) -> Comparison:
        """The sentence compared with the second one."""
        assert self.request.compare is not None
        return compare(
            self.record, Record.of(self.model, self.request.compare, self.request.target, self.ablated)
        )

    @cached_property
    def first(self) -> Pinned | None:
        """The row to show first, if nothing is chosen."""
        request = self.request
        chosen = (request.kind, request.layer, request.head, request.query)
        return annotated_overview(self.record, self.notes).pinned if chosen == (None,) * 4 else None

    def show(self, board: Board) -> None:
        """Print the report."""
        request = self.request
        if request.compare is not None and request.word is not None:
            show_comparison(board, self.comparison, request.word)
            return
        ablation, ranking = self.ablation, self.ranking  # an error comes before any output
        attribution, lens = self.attribution, self.lens
        show_texts(board, self.record)
        if ablation is not None:
            show_ablation(board, ablation)
        if request.rank is not None:
            show_ranking(board, ranking, *request.rank)
        elif attribution is not None:
            show_attribution(board, self.record, attribution)
        elif lens is not None:
            show_lens(board, lens)
        else:
            self._show_attention(board)

    def as_dict(self) -> dict[str, Any]:
        """The report as values that JSON can hold."""
        data: dict[str, Any] = {side.name: _side(side) for side in self.record.all_sides}
        if self.ablation is not None:
            data["ablation"] = self.ablation.as_dict()
        if self.request.compare is not None and self.request.word is not None:
            both, word = self.comparison, self.request.word
            pairs = {name: both.labels(name) for name in both.pairs}
            return data | {"pairs": pairs, "changes": [change.as_dict() for change in both.changes(word)]}
        if self.request.rank is not None:
            return data | {"ranking": [ranked.as_dict() for ranked in self.ranking]}
        if self.attribution is not None:
            return data | {"attribution": self.attribution.as_dict()}
        if self.lens is not None:
            return data | {"lens": self.lens.as_dict()}
        return data | self._attention()

    def save(self, path: Path) -> Path:
        """Write the attention to a file; see export."""
        request = self.request
        choice = Choice(request.kind, request.layer, request.head, request.word, request.words)
        return save(self.record, path, choice, self.notes)

    def _place_of_why(self, words: tuple[str, str]) -> int:
        """The first position after which one of the words was written; the first mask of a masked model."""
        if not isinstance(self.record.model, EncoderOnly):
            return first_written(self.record, words)
        masks = [n for n, token in enumerate(self.record.written.tokens) if token.special == "mask"]
        if not masks:
            raise UsageError(f"--why compares two words at a mask; write [MASK] into {self.request.text!r}")
        return masks[0]

    def _kind(self) -> str:
        """The kind asked for, or the one that has the query."""
        if self.request.kind is None:
            return self.record.kind_of_query(self.request.word)
        self.record.sides(self.request.kind)
        return self.request.kind

    def _show_attention(self, board: Board) -> None:
        record, request, word = self.record, self.request, self.request.word
        if word is not None and request.head is not None:
            show_word(board, record, self.kind, self.layer, request.head, word, request.words)
        elif word is not None:
            layers = range(record.layers(self.kind)) if request.layer is None else [self.layer]
            show_word_over_heads(board, record, self.kind, word, layers, request.words)
        elif request.head is not None:
            show_head(board, record, self.kind, self.layer, request.head, request.words)
        else:
            if self.first is not None:
                show_first(board, record, self.first)
            show_layer(board, record, self.kind, self.layer, request.words)
            kinds = ", ".join(f"{kind} (layers 0 to {record.layers(kind) - 1})" for kind in record.kinds)
            board.say(f"[soft]Kinds of attention: {kinds}. One head: --head N. One word: --query WORD.")

    def _attention(self) -> dict[str, Any]:
        request, (queries, keys) = self.request, self.record.sides(self.kind)
        weights = self.record.attention(self.kind, self.layer, request.head, request.words)
        data = {
            "kind": self.kind,
            "layer": self.layer,
            "head": request.head,
            "words": request.words,
            "queries": queries.labels(request.words),
            "keys": keys.labels(request.words),
            "attention": weights.astype(float).tolist(),
        }
        if self.first is None:
            return data
        return data | {"first": {**self.first.place, "caption": caption(self.record, self.first)}}


def _side(side: Side) -> dict[str, Any]:
    return {"text": side.text, "tokens": [asdict(token) for token in side.tokens]}


def show_first(board: Board, record: Record, first: Pinned) -> None:
    """The row to look at first, and the options that show its head."""
    place = f"--kind {first.kind} --layer {first.layer} --head {first.head}"
    board.say(f"{escape(caption(record, first))}.  [soft]{place}")


def show_ranking(board: Board, ranking: list[Ranked], query: str, key: str) -> None:
    """The heads with the most weight from one word to another."""
    query, key = escape(query), escape(key)
    board.title(f"Which heads let “{query}” look at “{key}”")
    rows = [
        (
            f"{head.kind} {head.layer}.{head.head}",
            f"{100 * head.weight:.1f} %",
            Text("█" * round(LONGEST_BAR * head.weight), "query"),
            Text(f"{head.lift:.1f} times the even share", "soft"),
        )
        for head in ranking[:MOST_ROWS]
    ]
    board.table(rows, right=(1,), gap=2)
    board.say(
        f"[soft]The best of {len(ranking)} heads, written kind layer.head, by the share of “{query}”'s "
        f"attention that goes to “{key}”."
    )


def show_attribution(board: Board, record: Record, found: Attribution) -> None:
    """The tokens that speak most for one word and against the other, the largest share first."""
    word, instead = escape(found.word.text), escape(found.instead.text)
    board.title(f"Why “{word}” and not “{instead}”")
    board.say(
        f"P({word}) = {found.word.probability:.2g}, P({instead}) = {found.instead.probability:.2g}; "
        f"log-odds {found.score:+.2f} nats."
    )
    shares = [
        (side.name, token.text, float(share))
        for side in record.all_sides
        for token, share in zip(side.tokens, found.tokens[side.name], strict=True)
    ]
    shares.sort(key=lambda share: -abs(share[2]))
    largest = abs(shares[0][2]) or 1.0
    rows = [
        (
            text,
            Text(side, "soft"),
            f"{share:+.2f}",
            Text("█" * round(LONGEST_BAR * abs(share) / largest), "query" if share > 0 else "key"),
        )
        for side, text, share in shares[:MOST_ROWS]
    ]
    board.table(rows, right=(2,), gap=2)
    board.say(
        f"[soft]Integrated gradients in nats: + speaks for “{word}”, - for “{instead}”. All tokens sum to "
        f"{found.total:+.2f}; the log-odds without words are {found.start:+.2f}."
    )


def show_lens(board: Board, lens: Lens) -> None:
    """The most probable token of every layer at every position."""
    record = lens.record
    layers = range(lens.layers)
    board.title(f"Logit lens: what each of {lens.layers} layers would write")
    best = [lens.best(layer) for layer in layers]
    rows = [
        (
            Text(token.text, "query"),
            *(
                Text.assemble(
                    (f"{best[n][position].text} ", "bold"), (_percent(best[n][position].probability), "soft")
                )
                for n in layers
            ),
        )
        for position, token in enumerate(record.written.tokens)
    ]
    board.table([("", *(Text(f"layer {n}", "soft") for n in layers)), *rows], gap=2)
    where = "at each token" if isinstance(record.model, EncoderOnly) else "after each token"
    board.say(f"[soft]The most probable token {where}; the last layer is the output of the model.")


def show_comparison(board: Board, both: Comparison, word: str | int) -> None:
    """The heads in which the attention of a word changes most, and the next token in both sentences."""
    changes = both.changes(word)
    kind = changes[0].kind
    shown = [change for change in changes if change.kind == kind][:MOST_ROWS]
    for record in (both.first, both.second):
        show_texts(board, record)
    board.title(f"{kind.capitalize()} attention: how the attention of “{escape(str(word))}” changes")
    differences = np.array([change.difference for change in shown])
    heads = [f"layer {change.layer} head {change.head}" for change in shown]
    columns = both.labels(both.first.sides(kind)[1].name)
    board.lines(draw(Heat(differences, heads, columns, signed=True), board.width))
    board.say(
        f"[soft]Percentage points from the first sentence to the second, in {len(shown)} of {len(changes)} "
        "heads, the largest change first."
    )
    if both.first.model.config.output in ("words", "masked"):
        _show_next(board, both)


def show_ablation(board: Board, ablation: Ablation) -> None:
    """What the parts that are off change."""
    board.title(f"Without {', '.join(map(spell_part, ablation.ablated))}")
    board.say(
        f"The same output is now e^{ablation.change:.2f} = {np.exp(ablation.change):.2g} times as likely "
        f"(log-probability {ablation.log_probability:.2f}, then {ablation.without:.2f})."
    )
    if ablation.text is not None and ablation.text_without is not None:
        start = "The model now writes" if ablation.flips else "The model still writes"
        board.say(f"{start}: {escape(ablation.text_without)}")


def _show_next(board: Board, both: Comparison) -> None:
    after = " ".join(token.text for token in both.first.written.tokens[: both.fork + 1][-4:])
    board.gap()
    board.say(f"After “{escape(after)}”, in the first sentence and in the second:")
    rows = [
        (Text(token.text.strip() or repr(token.text), "bold"), _percent(token.first), _percent(token.second))
        for token in both.next(top=4)
        if abs(token.change) >= SMALLEST_CHANGE
    ]
    if not rows:
        board.say("nothing changes.")
        return
    board.table(rows, right=(1, 2), gap=2)


def _percent(probability: float) -> str:
    return f"{100 * probability:.1f} %"
