"""The report of a run."""

from __future__ import annotations

from pathlib import Path

from regard.runs.place import RunFolder


def write_report(folder: RunFolder) -> None:
    """Draw the course of a run."""


def write_report_of(folder: Path) -> Path:
    """Write a run's report anew and say where it is."""
    place = RunFolder(folder)
    place.recipe()
    write_report(place)
    return place.report
