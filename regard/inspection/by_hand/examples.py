"""The worked examples and their list; loads no torch, so that it prints at once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from rich.text import Text

from regard.errors import SettingError, nearest
from regard.inspection.render.board import Board


@dataclass(frozen=True)
class Example:
    """One worked example: its inputs, its rules, and the source of its digits.

    rules          keywords of Rules
    rounded_by     the source that prints the digits of early rounding
    also_divided   also show what the division by sqrt(d_k) changes
    """

    letter: str
    name: str
    title: str
    summary: str
    story: str
    given: Mapping[str, Any]
    words: tuple[str, ...]
    query_words: tuple[str, ...] = ()
    key_width: int | None = None
    rules: Mapping[str, Any] = field(default_factory=dict)
    rounded_by: str = ""
    also_divided: bool = False

    def as_dict(self) -> dict[str, Any]:
        """The inputs as values that JSON can hold."""
        plain = ("letter", "name", "title", "summary", "story", "key_width", "rounded_by", "also_divided")
        return {
            **{name: getattr(self, name) for name in plain},
            **{name: dict(getattr(self, name)) for name in ("given", "rules")},
            **{name: list(getattr(self, name)) for name in ("words", "query_words")},
        }


EXAMPLES = (
    Example(
        letter="A",
        name="two-words",
        title="Two words",
        summary="scores 112 and 96, divided by √64, become weights",
        story="“Thinking Machines”, seen from the first word. The dot products of its query with both "
        "keys, which have 64 numbers, are these two scores.",
        given={"scores": [[112, 96]]},
        words=("Thinking", "Machines"),
        query_words=("Thinking",),
        key_width=64,
    ),
    Example(
        letter="B",
        name="three-inputs",
        title="Three inputs",
        summary="X, W^Q, W^K and W^V to the outputs, exact and rounded early",
        story="Three inputs of width 4, and three weight matrices that make them 3 wide: self-attention from "
        "the first multiplication to the last sum.",
        given={
            "x": [[1, 0, 1, 0], [0, 2, 0, 2], [1, 1, 1, 1]],
            "wq": [[1, 0, 1], [1, 0, 0], [0, 0, 1], [0, 1, 1]],
            "wk": [[0, 0, 1], [1, 1, 0], [0, 1, 0], [1, 1, 0]],
            "wv": [[0, 2, 0], [0, 3, 0], [1, 0, 3], [1, 1, 0]],
        },
        words=("input 1", "input 2", "input 3"),
        rules={"similarity": "dot", "decimals": 1},
        rounded_by="The well-known worked example that these inputs come from prints the rounded digits.",
        also_divided=True,
    ),
    Example(
        letter="C",
        name="masked",
        title="A masked pattern",
        summary="six words; none may look at later words",
        story="The scores of six words, each of which may look at itself and at earlier words only.",
        given={
            "scores": [
                [3.53, 0, 0, 0, 0, 0],
                [0.80, -0.30, 0, 0, 0, 0],
                [1.96, -0.21, 0.89, 0, 0, 0],
                [4.48, 0.82, 0.67, 1.31, 0, 0],
                [3.74, 0.29, 2.99, 1.73, 3.07, 0],
                [-1.95, 2.91, -0.41, -1.48, 2.94, 0.31],
            ]
        },
        words=("word 1", "word 2", "word 3", "word 4", "word 5", "word 6"),
        rules={"similarity": "dot", "causal": True},
    ),
    Example(
        letter="D",
        name="context",
        title="Words in context",
        summary="“Python crawls quickly” as weighted sums of its words",
        story="“Python crawls quickly”: with these weights, each word becomes a mixture of all three. Here a "
        "word's value is a direction of its own, so that the mixture can be read off.",
        given={
            "weights": [[0.4, 0.4, 0.2], [0.3, 0.6, 0.1], [0.1, 0.1, 0.8]],
            "v": [[1, 0, 0], [0, 1, 0], [0, 0, 1]],
        },
        words=("Python", "crawls", "quickly"),
        rules={"similarity": "dot"},
    ),
)


def find_example(name: str) -> Example:
    """The example of that letter or name."""
    for example in EXAMPLES:
        if name.lower() in (example.letter.lower(), example.name):
            return example
    known = [known for example in EXAMPLES for known in (example.letter, example.name)]
    raise SettingError(f"unknown example {name!r}; {nearest(name, known)}")


def list_examples(board: Board) -> None:
    """Print the list of examples and how to give your own matrices."""
    board.title("Attention by hand")
    rows = [(Text(e.letter, "bold"), Text(e.name, "output"), e.summary) for e in EXAMPLES]
    board.table(rows, gap=2)
    board.say("[bold]regard by-hand B[/] shows one of them; add [bold]--row 0[/] for one word alone.")
    board.say("Your own matrices, inline or from .csv, .tsv, .txt, .json and .npy files:")
    board.table(
        [
            ('regard by-hand --x "1 0; 0 1" --wq wq.csv --wk wk.csv --wv wv.csv',),
            ('regard by-hand --q "1 0; 0 1" --k "1 1; 0 1" --v "2 0; 0 2" --causal',),
        ]
    )
    board.say("All options: [bold]regard by-hand --help")
