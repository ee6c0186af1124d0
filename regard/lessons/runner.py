"""Processes that run lessons for the process that started them.

    python -m regard.lessons.runner NAME            a lesson and its control, for the studio
    python -m regard.lessons.runner NAME SETTINGS   one experiment, with settings as JSON, for side_by_side

It prints a JSON object on a line for each report: {"progress": sentence}, and last {"error": sentence} or the
result: {"run": ...} of a lesson, {"experiment": ..., "seconds": ...} of an experiment. It ends when its stdin
is closed, that is, with the process that started it.
"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from typing import Any

from regard.background import follow_parent
from regard.errors import RegardError


def main(name: str, settings: str = "") -> int:
    """Run the lesson or the experiment, and return the exit code."""
    follow_parent()
    try:
        found = _run_experiment(name, settings) if settings else _run_lesson(name)
    except RegardError as error:
        _report(error=str(error))
        return error.exit_code
    _report(**found)
    return 0


def _run_lesson(name: str) -> dict[str, Any]:
    from regard.lessons.figures import draw_svg
    from regard.lessons.registry import LESSONS
    from regard.lessons.side_by_side import run_lessons
    from regard.lessons.studio import run_of

    lesson = LESSONS.find(name)()
    (result,) = run_lessons([lesson], lambda line: _report(progress=line))
    return {"run": run_of(result, draw_svg(lesson.charts(result.experiment.measured)))}


def _run_experiment(name: str, settings: str) -> dict[str, Any]:
    from regard.lessons.registry import LESSONS
    from regard.lessons.results import run_experiment

    lesson = LESSONS.find(name)(**json.loads(settings))
    experiment, seconds = run_experiment(lesson, lambda line: _report(progress=line))
    return {"experiment": asdict(experiment), "seconds": seconds}


def _report(**values: Any) -> None:
    print(json.dumps(values), flush=True)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
