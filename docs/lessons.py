"""Run lessons and write their stored results and docs/lessons.md.

python docs/lessons.py            write docs/lessons.md from the stored results
python docs/lessons.py all        run every lesson first; takes up to an hour on two cores
python docs/lessons.py order ...  run these first
"""

from __future__ import annotations

import sys
from pathlib import Path

from regard.lessons.results import NAMES, check_name, stored_figure, stored_result, write_result
from regard.lessons.show import measured_on, write_cell

DOCS = Path(__file__).parent
STORED = DOCS.parent / "regard" / "lessons" / "results"
HEAD = """# Lessons

Each lesson turns a claim of the lectures into an experiment. Its threshold is fixed in the code before the run, and a control must have the opposite verdict. This page is written by `python docs/lessons.py` from the results that the package stores.

```sh
regard lesson                    # list the claims and their verdicts
regard lesson order              # show a stored result
regard lesson six-steps --run    # repeat the experiment
```
"""  # noqa: E501


def main(names: list[str]) -> None:
    """Run the lessons and write the page."""
    for name in NAMES if names == ["all"] else names:
        check_name(name)
        run_and_store(name)
    (DOCS / "lessons.md").write_text(write_page(), encoding="utf-8")


def run_and_store(name: str) -> None:
    """Run a lesson with its default settings and store the result."""
    from regard.lessons.figures import draw_svg
    from regard.lessons.registry import LESSONS
    from regard.lessons.results import run

    lesson = LESSONS.find(name)()
    result = run(lesson, lambda line: print(f"{name}: {line}", file=sys.stderr))
    if not result.is_controlled:
        raise SystemExit(f"{name}: the control has the same verdict; nothing is stored")
    write_result(result, draw_svg(lesson.charts(result.experiment.measured)), STORED)


def write_page() -> str:
    """The page, from the stored results."""
    return "\n".join([HEAD, _overview(), *map(_section, NAMES)])


def _overview() -> str:
    rows = []
    for name in NAMES:
        result = stored_result(name)
        assert result is not None, f"{name} has no stored result"
        rows.append(f"| [{name}](#{name}) | {result.claim} | {result.experiment.verdict.words} |")
    return "\n".join(["| lesson | claim | verdict |", "|---|---|---|", *rows, ""])


def _section(name: str) -> str:
    result = stored_result(name)
    assert result is not None
    assert stored_figure(name)
    verdict, control = result.experiment.verdict, result.control.verdict
    parts = [
        f"## {name}\n",
        f"**{result.claim}**\n",
        f"The claim **{verdict.words}**. {verdict.reason}\n",
        f"![{result.claim}](../regard/lessons/results/{name}.svg)\n",
        f"*Question.* {result.text['question']} *What changes.* {result.text['variable']} "
        f"*Measured.* {result.text['measurement']} *Rule.* {result.text['rule']}\n",
        f"*Control.* {result.text['control_words']} The verdict is then: {control.words}. {control.reason}\n",
    ]
    for table in result.tables:
        head = [f"{table.title}:\n", f"| {' | '.join(table.columns)} |", "|---" * len(table.columns) + "|"]
        rows = [f"| {' | '.join(write_cell(cell) for cell in row)} |" for row in table.rows]
        parts.append("\n".join([*head, *rows, ""]))
    return "\n".join([*parts, f"{measured_on(result)}\n"])


if __name__ == "__main__":
    main(sys.argv[1:])
