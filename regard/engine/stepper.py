"""Stepper: the interface between search and a model, in numpy only.

R rows, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np


@dataclass(frozen=True)
class Choices:
    """Candidates for the next token of each row: ids and log-probabilities, R x k, in descending order.

    Ties at rank k are broken in favour of lower ids. If all ids are requested, k is V and ids is None:
    column i is id i. `logits` are then those before the softmax, without bans. A stepper whose
    distribution is not a softmax has none.
    """

    ids: np.ndarray | None
    log_probabilities: np.ndarray
    logits: np.ndarray | None = None  # R V


@dataclass(frozen=True)
class Banned:
    """Banned ids: row rows[i] must not continue with ids[i]. Probabilities are not renormalised."""

    rows: np.ndarray
    ids: np.ndarray


class Stepper(Protocol):
    """A batch of running sequences. Rows are numbered 0..R-1; reorder and drop renumber them."""

    @property
    def rows(self) -> int:
        """Number of running rows."""
        ...

    @property
    def vocabulary(self) -> int:
        """Number of ids."""
        ...

    @property
    def limit(self) -> int | None:
        """The maximum length of a sequence, or None if it is unlimited."""
        ...

    def admit(self, prefixes: Sequence[np.ndarray], sources: Sequence[np.ndarray] | None = None) -> None:
        """Append one row per prefix; prefixes may differ in length.

        All tokens of a prefix except the last are processed now. The caller passes the last one to `step`.
        An encoder-decoder model needs one source per row.
        """
        ...

    def step(self, ids: np.ndarray, best: int | None = None, banned: Banned | None = None) -> Choices:
        """Append one id per row and return all candidates for the next token, or the `best` most likely.

        Log-probabilities are those of the unrestricted distribution; a banned id has minus infinity.
        """
        ...

    def reorder(self, rows: np.ndarray) -> None:
        """Replace row i by the previous row rows[i]; rows may repeat (beams) or be absent (dropped)."""
        ...

    def drop(self, rows: np.ndarray) -> None:
        """Remove these rows; the others keep their order."""
        ...
