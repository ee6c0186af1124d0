"""The exceptions of Regard, with their exit codes.

    RegardError              any error that Regard raises on purpose         exit 1
    ├── UsageError           a wrong call                                    exit 2
    │   ├── SettingError     an invalid value or an unknown name of a setting
    │   │   └── UnknownName  a name that is in no registry or record
    │   ├── ShapeError       tensors or matrices whose shapes do not match, or that are too long
    │   └── MissingPackage   an optional package is not installed
    ├── DataError            unusable text or labels
    ├── CheckpointError      a damaged or incompatible model folder or training state
    └── TrainingError        a run that cannot start or continue
        ├── Interrupted      a run that was saved and ended by a signal      exit 129, 130 or 143
        └── FailedElsewhere  another process of the same job failed and reports it

A message is one line: the value, the rule, the next action.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class RegardError(Exception):
    """Any error that Regard raises on purpose; its message is one line."""

    exit_code = 1


class UsageError(RegardError):
    """A wrong call."""

    exit_code = 2


class SettingError(UsageError, ValueError):
    """An invalid value or an unknown name of a setting."""


class UnknownName(SettingError, KeyError):
    """A name that is in no registry or record; the message has the nearest known name."""

    def __str__(self) -> str:
        return Exception.__str__(self)  # KeyError would quote the message


class ShapeError(UsageError, ValueError):
    """Tensors or matrices whose shapes do not match, or that are too long."""


class MissingPackage(UsageError, ImportError):
    """An optional package is not installed; the message has the command that installs it."""


class DataError(RegardError):
    """Unusable text or labels."""


class CheckpointError(RegardError):
    """A damaged or incompatible model folder or training state."""


class TrainingError(RegardError):
    """A run that cannot start or continue."""


class Interrupted(TrainingError):
    """A run that a signal ended between two steps; the exit code is 128 + signal."""

    def __init__(self, message: str, signal: int):
        super().__init__(message)
        self.exit_code = 128 + signal


class FailedElsewhere(TrainingError):
    """Another process of the same job failed; that process reports the reason."""


def nearest(name: str, known: Iterable[str]) -> str:
    """The end of an error message about an unknown name: the nearest and all known names."""
    names = sorted(map(str, known))
    close = difflib.get_close_matches(str(name), names, n=1, cutoff=0.5)
    hint = f"did you mean {close[0]}? " if close else ""
    return f"{hint}known: {', '.join(names) or 'none'}"
