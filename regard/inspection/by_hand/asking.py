"""From what a person typed to a problem worked out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from regard.inspection.by_hand.arithmetic import Rules, Worked, work_out
from regard.inspection.by_hand.examples import Example, find_example
from regard.inspection.by_hand.problem import NAMES, pose
from regard.inspection.by_hand.reading import read_mask, read_matrix


@dataclass(frozen=True, eq=False)
class Answer:
    """A problem worked out, and the example that it is, where its matrices are untouched."""

    worked: Worked
    example: Example | None


def ask(
    example: str | None,
    matrices: Mapping[str, str | None],
    rules: Mapping[str, Any],
    words: str | None = None,
    key_width: int | None = None,
) -> Answer:
    """Work out an example, or a person's own matrices, or an example with some of them replaced.

    Whatever is None was not asked for, and stays as the example has it.
    """
    known = find_example(example) if example else None
    own = {name: read_matrix(NAMES[name], text) for name, text in _given(matrices).items()}
    problem = pose(
        {**(known.given if known else {}), **own},
        words.split() if words else known.words if known else (),
        known.query_words if known and not words else (),
        key_width or (known.key_width if known else None),
    )
    asked = {**(known.rules if known else {}), **_given(rules)}
    if "mask" in asked:
        asked["mask"] = read_mask(asked["mask"])
    if known and asked != known.rules:
        known = replace(known, rounded_by="")  # no source prints the digits that other rules give
    return Answer(work_out(problem, Rules(**asked)), None if own else known)


def _given(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}
