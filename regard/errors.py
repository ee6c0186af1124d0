"""What Regard raises when something is wrong, and what it exits with.

    RegardError              anything Regard refuses or cannot do            exit 1
    ├── UsageError           a call that cannot work as written              exit 2
    │   ├── SettingError     a setting with an impossible value or an unknown name
    │   │   └── UnknownName  a name that no table or record holds
    │   ├── ShapeError       tensors or matrices that do not fit together, or are too long
    │   └── MissingPackage   an optional package is not installed
    ├── DataError            text or labels that cannot be read as they are
    ├── CheckpointError      a model folder or training state that cannot be trusted
    └── TrainingError        a run that cannot start or go on
        └── Interrupted      a run that a signal has ended, saved            exit 129, 130 or 143

A message is one line: the value, the rule, the next action.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class RegardError(Exception):
    """Anything Regard refuses or cannot do, in one line a person can act on."""

    exit_code = 1


class UsageError(RegardError):
    """A call that cannot work as written."""

    exit_code = 2


class SettingError(UsageError, ValueError):
    """A setting with an impossible value or an unknown name."""


class UnknownName(SettingError, KeyError):
    """A name that no table or record holds; the message shows the nearest that is there."""

    def __str__(self) -> str:
        return Exception.__str__(self)  # a KeyError would put the sentence in quotes


class ShapeError(UsageError, ValueError):
    """Tensors or matrices that do not fit together, or are too long."""


class MissingPackage(UsageError, ImportError):
    """An optional package is not installed; the message names the command that installs it."""


class DataError(RegardError):
    """Text or labels that cannot be read as they are."""


class CheckpointError(RegardError):
    """A model folder or training state that cannot be trusted."""


class TrainingError(RegardError):
    """A run that cannot start or go on."""


class Interrupted(TrainingError):
    """A run that a signal has ended at a step's boundary; the exit code says which signal."""

    def __init__(self, message: str, signal: int):
        super().__init__(message)
        self.exit_code = 128 + signal


def nearest(name: str, known: Iterable[str]) -> str:
    """A half-sentence that points from an unknown name to the known ones."""
    names = sorted(map(str, known))
    close = difflib.get_close_matches(str(name), names, n=1, cutoff=0.5)
    hint = f"did you mean {close[0]}? " if close else ""
    return f"{hint}known: {', '.join(names) or 'none'}"
