"""Pairs learned both ways: in the first epochs, or in all, each is also there from target to source.

A model that has to say either language from the other one learns what words mean sooner than it learns them
by heart, which is worth most where pairs are few (Ding et al. 2021). Both sides need one vocabulary; no
token says which way is asked for, since the source's language does.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from regard.errors import SettingError
from regard.text.token_files import Data, Sequences
from regard.text.tokenizer import Tokenizers


def both_ways(data: Data, epochs: int | Literal["always"], tokenizers: Tokenizers) -> Data:
    """The same pairs, in the first epochs twice: as they are, and with source and target exchanged."""
    if not epochs:
        return data
    if not tokenizers.are_joint:
        raise SettingError(
            f"both_ways ({epochs}) needs one vocabulary, and source and target have one each; "
            "set tokenizer.joint to true, or leave both_ways at 0"
        )
    source, target = data["source"], data["target"]
    until = math.inf if epochs == "always" else epochs
    columns = {
        "source": Turned(source.ids, source.offsets, source, target, until),
        "target": Turned(target.ids, target.offsets, target, source, until),
    }
    return Data({**data.columns, **columns}, data.report, f"{data.identity} both ways {epochs}")


@dataclass(frozen=True, eq=False)
class Turned(Sequences):
    """A side of pairs, which in the first epochs has the other side's texts behind its own."""

    own: Sequences
    other: Sequences
    epochs: float

    def lengths_in(self, epoch: int) -> np.ndarray:
        """How many ids each text of that epoch has."""
        own = self.own.lengths_in(epoch)
        return own if epoch >= self.epochs else np.concatenate([own, self.other.lengths_in(epoch)])

    def texts(self, examples: np.ndarray, epoch: int) -> list[np.ndarray]:
        """The ids of these examples; those behind the last pair are the first of the other side."""
        behind = examples >= len(self)
        own = iter(self.own.texts(examples[~behind], epoch))
        other = iter(self.other.texts(examples[behind] - len(self), epoch))
        return [next(other if is_behind else own) for is_behind in behind]
