"""Text as it is said: whole characters only, and nothing of a stop string, not even its beginning."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from regard.errors import SettingError
from regard.text.tokenizer import TextStream


class Spoken:
    """The text of ids as they are said, up to the first stop string.

    Where several could end it, the one that is complete first does, as if characters came one by one; so
    the outcome does not depend on where tokens end.
    """

    def __init__(self, stream: TextStream, stops: Sequence[str] = ()):
        self.stopped = False
        self.pieces: list[str] = []  # what may be shown so far
        self._stream, self._stops = stream, stops
        self._heard, self._held = 0, ""

    def hear(self, ids: Sequence[int] | np.ndarray) -> bool:
        """Take in all ids that were said so far, and tell whether a stop string is among their text."""
        for number in ids[self._heard :]:
            self.pieces.append(self._let_out(self._stream.add(int(number))))
        self._heard = len(ids)
        return self.stopped

    def finish(self, ids: Sequence[int] | np.ndarray) -> str:
        """The whole text, now that these ids are all there will be."""
        if not self.hear(ids):
            self.pieces.append(self._let_out(self._stream.finish()) + self._held)
        return "".join(self.pieces)

    def _let_out(self, piece: str) -> str:
        if self.stopped:
            return ""
        self._held += piece
        begin = _first_stop(self._held, self._stops)
        self.stopped = begin is not None
        if begin is None:
            begin = len(self._held) - _begun(self._held, self._stops)
        shown, self._held = self._held[:begin], "" if self.stopped else self._held[begin:]
        return shown


def check_stops(stop: str | Sequence[str]) -> tuple[str, ...]:
    """Stop strings as a tuple; one may be given alone."""
    stops = (stop,) if isinstance(stop, str) else tuple(stop)
    for each in stops:
        if not isinstance(each, str) or not each:
            raise SettingError(f"stop ({each!r}) must be a string of one character or more; leave it out")
    return stops


def _first_stop(text: str, stops: Sequence[str]) -> int | None:
    """Where the stop string begins that is complete first; of two, the longer."""
    ends = [(text.find(stop) + len(stop), -len(stop)) for stop in stops if stop in text]
    return sum(min(ends)) if ends else None


def _begun(text: str, stops: Sequence[str]) -> int:
    """How many characters at the end may be the beginning of a stop string."""
    longest = max(map(len, stops), default=1) - 1
    lengths = range(min(longest, len(text)), 0, -1)
    return next((n for n in lengths if any(stop.startswith(text[-n:]) for stop in stops)), 0)
