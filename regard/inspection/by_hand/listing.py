"""The examples in a list; loads no torch, so that it appears at once."""

from __future__ import annotations

from rich.text import Text

from regard.inspection.by_hand.board import Board
from regard.inspection.by_hand.examples import EXAMPLES


def list_examples(board: Board) -> None:
    """What there is to see, and how to bring one's own."""
    board.title("Attention by hand")
    rows = [(Text(e.letter, "bold"), Text(e.name, "output"), e.summary) for e in EXAMPLES]
    board.table(rows, gap=2)
    board.say("[bold]regard attend B[/] shows one of them; add [bold]--row 0[/] for one word alone.")
    board.say("Your own matrices, inline or from .csv, .tsv, .txt, .json and .npy files:")
    board.table(
        [
            ('regard attend --x "1 0; 0 1" --wq wq.csv --wk wk.csv --wv wv.csv',),
            ('regard attend --q "1 0; 0 1" --k "1 1; 0 1" --v "2 0; 0 2" --causal',),
        ]
    )
    board.say("All options: [bold]regard attend --help")
