"""The report of a run: report.html and its curves as pictures."""

from __future__ import annotations

from pathlib import Path

from regard.errors import UsageError
from regard.runs.course import course_of
from regard.runs.metrics import read_metrics
from regard.runs.page import page
from regard.runs.pictures import write_pictures
from regard.runs.place import RunFolder


def write_report(folder: RunFolder) -> bool:
    """Write report.html and curves/ about what has happened so far, and tell whether anything has."""
    course = course_of(read_metrics(folder.metrics))
    if not course.charts:
        return False
    write_pictures(course.charts, folder.path / "curves")
    folder.report.write_text(page(folder, course), encoding="utf-8")
    return True


def write_report_of(folder: Path) -> Path:
    """Write a run's report anew and say where it is."""
    place = RunFolder(folder)
    place.recipe()
    if not write_report(place):
        raise UsageError(f"{folder} has not taken a step yet; regard train --resume {folder} goes on with it")
    return place.report
