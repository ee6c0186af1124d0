"""Report: what was read of a corpus, what was left out and why, with the first few places."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

SHOWN_PLACES = 5


class Place(NamedTuple):
    """A line of a file, counted from 1 as editors do."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


@dataclass
class Mentions:
    """How often something happened, and where first."""

    count: int = 0
    places: list[Place] = field(default_factory=list)

    def add(self, place: Place) -> None:
        """Count one more, remembering the place while there is room."""
        self.count += 1
        if len(self.places) < SHOWN_PLACES:
            self.places.append(place)

    def __str__(self) -> str:
        more = ", ..." if self.count > len(self.places) else ""
        return f"{self.count:,} ({', '.join(map(str, self.places))}{more})"


@dataclass
class Report:
    """Examples read, kept, skipped and shortened; `str(report)` is a short text for people.

    While a corpus is read, `place` is where its latest example stands.
    """

    read: int = 0
    kept: int = 0
    skipped: dict[str, Mentions] = field(default_factory=dict)
    shortened: Mentions = field(default_factory=Mentions)
    place: Place = field(default=Place("", 0), compare=False)

    def skip(self, reason: str, place: Place) -> None:
        """Count an example that was left out."""
        self.skipped.setdefault(reason, Mentions()).add(place)

    def drop(self, reason: str, place: Place) -> None:
        """Count an example as left out after all, though it was kept before."""
        self.kept -= 1
        self.skip(reason, place)

    def to_json(self) -> dict[str, Any]:
        """The report as plain values, for metrics and manifests."""
        return {
            "read": self.read,
            "kept": self.kept,
            "skipped": {reason: _plain(mentions) for reason, mentions in self.skipped.items()},
            "shortened": _plain(self.shortened),
        }

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> Report:
        """The report that `to_json` wrote."""
        skipped = {reason: _mentions(plain) for reason, plain in values["skipped"].items()}
        return cls(values["read"], values["kept"], skipped, _mentions(values["shortened"]))

    def __str__(self) -> str:
        left_out = sum(mentions.count for mentions in self.skipped.values())
        lines = [f"{self.read:,} read, {self.kept:,} kept, {left_out:,} skipped"]
        lines += [f"  {reason}: {mentions}" for reason, mentions in self.skipped.items()]
        if self.shortened.count:
            lines.append(f"  kept but shortened: {self.shortened}")
        return "\n".join(lines)


def _plain(mentions: Mentions) -> dict[str, Any]:
    return {"count": mentions.count, "places": [list(place) for place in mentions.places]}


def _mentions(values: dict[str, Any]) -> Mentions:
    return Mentions(values["count"], [Place(*place) for place in values["places"]])
