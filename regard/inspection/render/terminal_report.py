"""Rankings, comparisons and effects in the terminal."""

from __future__ import annotations

import numpy as np
from rich.markup import escape
from rich.text import Text

from regard.inspection.analysis.ablation import Effect, spell_part
from regard.inspection.analysis.compare import Comparison
from regard.inspection.analysis.overview import Pinned, caption
from regard.inspection.analysis.ranking import Ranked
from regard.inspection.by_hand.board import Board
from regard.inspection.record.inspection import Inspection
from regard.inspection.render.heat_map import Heat, draw
from regard.inspection.render.terminal import show_texts

MOST_ROWS = 8
LONGEST_BAR = 20
SMALLEST_CHANGE = 5e-4


def show_first(board: Board, seen: Inspection, first: Pinned) -> None:
    """What is worth a first look, and how to see it large."""
    place = f"--kind {first.kind} --layer {first.layer} --head {first.head}"
    board.say(f"{escape(caption(seen, first))}.  [soft]{place}")


def show_ranking(board: Board, ranked: list[Ranked], query: str, key: str) -> None:
    """The heads that link two words most."""
    query, key = escape(query), escape(key)
    board.title(f"Which heads let “{query}” look at “{key}”")
    rows = [
        (
            f"{each.kind} {each.layer}.{each.head}",
            f"{100 * each.weight:.1f} %",
            Text("█" * round(LONGEST_BAR * each.weight), "query"),
            Text(f"{each.lift:.1f} times an even share", "soft"),
        )
        for each in ranked[:MOST_ROWS]
    ]
    board.table(rows, right=(1,), gap=2)
    board.say(
        f"[soft]The best of {len(ranked)} heads, named kind layer.head, by how much of “{query}”'s attention "
        f"goes to “{key}”."
    )


def show_comparison(board: Board, both: Comparison, word: str | int) -> None:
    """The heads in which a word looks most differently, where its attention went, and what comes next."""
    changes = both.changes(word)
    kind = changes[0].kind
    shown = [change for change in changes if change.kind == kind][:MOST_ROWS]
    for seen in (both.first, both.second):
        show_texts(board, seen)
    board.title(f"{kind.capitalize()} attention: where the attention of “{escape(str(word))}” went")
    differences = np.array([each.difference for each in shown])
    heads = [f"layer {each.layer} head {each.head}" for each in shown]
    columns = both.labels(both.first.sides(kind)[1].name)
    board.lines(draw(Heat(differences, heads, columns, signed=True), board.width))
    board.say(
        f"[soft]Percents that each word won or lost from the first sentence to the second, in {len(shown)} "
        f"heads of {len(changes)}, the largest change first."
    )
    if both.first.model.config.output in ("words", "masked"):
        _show_next(board, both)


def show_effect(board: Board, effect: Effect) -> None:
    """What switching something off changed."""
    board.title(f"Without {', '.join(map(spell_part, effect.off))}")
    board.say(
        f"The same output is now e^{effect.change:.2f} = {np.exp(effect.change):.2g} times as likely "
        f"(log-probability {effect.log_probability:.2f}, then {effect.without:.2f})."
    )
    if effect.text is not None and effect.text_without is not None:
        said = "The model now writes" if effect.flips else "The model still writes"
        board.say(f"{said}: {escape(effect.text_without)}")


def _show_next(board: Board, both: Comparison) -> None:
    after = " ".join(token.text for token in both.first.written.tokens[: both.fork + 1][-4:])
    board.gap()
    board.say(f"After “{escape(after)}”, in the first sentence and in the second:")
    rows = [
        (Text(each.text.strip() or repr(each.text), "bold"), _share(each.first), _share(each.second))
        for each in both.next(top=4)
        if abs(each.change) >= SMALLEST_CHANGE
    ]
    if not rows:
        board.say("nothing changes.")
        return
    board.table(rows, right=(1, 2), gap=2)


def _share(probability: float) -> str:
    return f"{100 * probability:.1f} %"
