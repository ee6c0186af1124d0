"""Stepper: all that decoding asks of a model, in numpy alone.

R rows, V vocabulary. Search drives a Stepper and never sees what computes behind it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np


@dataclass(frozen=True)
class Choices:
    """What each row may say next: ids and their log-probabilities, R x k, likeliest first.

    Of ids as likely as the last of them the lower ones are there. With every id wanted, k is V and ids is
    None: column i is id i. Then `logits` are the model's own, before the softmax and with nothing banned; a
    stepper whose distribution does not come from a softmax has none.
    """

    ids: np.ndarray | None
    log_probabilities: np.ndarray
    logits: np.ndarray | None = None  # R V


@dataclass(frozen=True)
class Banned:
    """Ids that must not be chosen: row rows[i] may not say ids[i]. No probability is renormalised."""

    rows: np.ndarray
    ids: np.ndarray


class Stepper(Protocol):
    """A running batch of sequences. Rows are numbered 0..R-1; reorder and drop number them anew."""

    @property
    def rows(self) -> int:
        """How many rows run now."""
        ...

    @property
    def vocabulary(self) -> int:
        """How many ids there are to choose from."""
        ...

    @property
    def limit(self) -> int | None:
        """The longest sequence a row can reach, or None where there is no end."""
        ...

    def admit(self, prefixes: Sequence[np.ndarray], sources: Sequence[np.ndarray] | None = None) -> None:
        """Add a row per prefix, after those already running, each with its own length and position.

        Every token of a prefix but the last is read now; the last one is the first that the caller
        gives to `step`. A model that translates takes a source for each row.
        """
        ...

    def step(self, ids: np.ndarray, best: int | None = None, banned: Banned | None = None) -> Choices:
        """Append ids (one a row) and say what may follow: everything, or the best few.

        A log-probability is that of the unrestricted distribution; a banned id has minus infinity.
        """
        ...

    def reorder(self, rows: np.ndarray) -> None:
        """Row i becomes what row rows[i] was; rows may repeat (beams) or be absent (dropped)."""
        ...

    def drop(self, rows: np.ndarray) -> None:
        """Let these rows leave; the others keep their order."""
        ...
