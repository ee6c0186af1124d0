"""Run lessons and write their stored results and docs/lessons.md.

python docs/lessons.py            refresh texts, tables and figures of the stored results, and docs/lessons.md
python docs/lessons.py all        run every lesson first, on all cores
python docs/lessons.py order ...  run these first
"""

from __future__ import annotations

import sys
from pathlib import Path

from regard.lessons.document import markdown
from regard.lessons.lesson import Result
from regard.lessons.results import NAMES, check_name, stored_result, write_result

DOCS = Path(__file__).parent
FIGURES = "../regard/lessons/results/"
STORED = DOCS / FIGURES


def main(names: list[str]) -> None:
    """Run the lessons, refresh the others, and write the page."""
    chosen = NAMES if names == ["all"] else names
    for name in chosen:
        check_name(name)
    if chosen:
        from regard.lessons.registry import LESSONS
        from regard.lessons.side_by_side import run_lessons

        lessons = [LESSONS.find(name)() for name in chosen]
        for result in run_lessons(lessons, lambda line: print(line, file=sys.stderr)):
            store(result)
    for name in NAMES:
        refresh(name)
    (DOCS / "lessons.md").write_text(write_page(), encoding="utf-8")


def store(result: Result) -> None:
    """Write a result and its figure, if its control has the opposite verdict."""
    from regard.lessons.figures import draw_svg
    from regard.lessons.registry import LESSONS

    if not result.is_controlled:
        raise SystemExit(f"{result.name}: the control has the same verdict; nothing is stored")
    charts = LESSONS.find(result.name)().charts(result.experiment.measured)
    write_result(result, draw_svg(charts), STORED)


def refresh(name: str) -> None:
    """Derive everything but the numbers of a stored result from its code again."""
    from regard.lessons.registry import LESSONS
    from regard.lessons.results import refreshed

    stored = stored_result(name)
    assert stored is not None, f"no stored result of {name}"
    store(refreshed(stored, LESSONS.find(name)()))


def write_page() -> str:
    """The page, from the stored results."""
    return markdown([result for name in NAMES if (result := stored_result(name)) is not None], FIGURES)


if __name__ == "__main__":
    main(sys.argv[1:])
