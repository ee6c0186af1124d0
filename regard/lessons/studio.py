"""The lessons as the studio's page shows them. Loads no torch.

`regard studio` passes StudioLessons to the service, which does not import this package.
"""

from __future__ import annotations

from typing import Any

from regard.background import module_command
from regard.lessons.lesson import Result, Table, Verdict
from regard.lessons.results import NAMES, stored_figure, stored_result
from regard.lessons.show import measured_on, page, write_cell

RUNNER = module_command("regard.lessons.runner")


class StudioLessons:
    """What the tab Lessons asks for. A run is {"result": Result.as_dict(), "figure": SVG}."""

    def summaries(self) -> list[dict[str, Any]]:
        """Every lesson with its claim and its stored verdict."""
        results = [result for name in NAMES if (result := stored_result(name)) is not None]
        return [{"name": one.name, "claim": one.claim, **_verdict(one.experiment.verdict)} for one in results]

    def stored(self, name: str) -> dict[str, Any] | None:
        """The stored run of a lesson; raises UsageError for an unknown name."""
        result = stored_result(name)
        return result and run_of(result, stored_figure(name))

    def page(self, run: dict[str, Any]) -> dict[str, Any]:
        """What the page shows of a run."""
        result = Result.from_dict(run["result"])
        return {
            "name": result.name,
            "claim": result.claim,
            "verdict": _verdict(result.experiment.verdict),
            "control": _verdict(result.control.verdict),
            "is_controlled": result.is_controlled,
            "text": result.text,
            "places": [{"text": one.text, "command": one.command, "view": one.view} for one in result.places],
            "tables": [_table(one) for one in result.tables],
            "figure": run["figure"],
            "seconds": result.seconds,
            "about": measured_on(result),
        }

    def html(self, run: dict[str, Any]) -> str:
        """A run as one self-contained page."""
        return page(Result.from_dict(run["result"]), run["figure"])

    def command(self, name: str) -> tuple[str, ...]:
        """The command that runs a lesson; its reports are those of regard.lessons.runner."""
        return (*RUNNER, name)


def run_of(result: Result, figure: str) -> dict[str, Any]:
    """A run as JSON values."""
    return {"result": result.as_dict(), "figure": figure}


def _verdict(verdict: Verdict) -> dict[str, Any]:
    return {"words": verdict.words, "holds": verdict.holds, "reason": verdict.reason}


def _table(table: Table) -> dict[str, Any]:
    """A table with its cells as values and as they are written."""
    written = [[write_cell(cell) for cell in row] for row in table.rows]
    return {"title": table.title, "columns": table.columns, "rows": table.rows, "written": written}
