"""The tab Lessons: stored results, and one run at a time as a background job."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from regard.errors import UsageError
from regard.service.background_job import BackgroundJob
from regard.service.http_errors import NotFound

Run = dict[str, Any]  # JSON values that only the provider reads


class Lessons(Protocol):
    """The lessons of a page. The command line passes them; this package does not import regard.lessons."""

    def summaries(self) -> list[dict[str, Any]]:
        """Every lesson: name, claim, the words of its stored verdict."""
        ...

    def stored(self, name: str) -> Run | None:
        """The stored run of a lesson, if there is one; raises UsageError for an unknown name."""
        ...

    def page(self, run: Run) -> dict[str, Any]:
        """What the page shows of a run."""
        ...

    def html(self, run: Run) -> str:
        """A run as one self-contained page."""
        ...

    def command(self, name: str) -> Sequence[str]:
        """The command of a BackgroundJob that runs a lesson.

        Its reports are {"progress": sentence}, and last {"run": Run} or {"error": sentence}.
        """
        ...


class LessonRuns:
    """The lessons, and what was run since the server started."""

    def __init__(self, lessons: Lessons):
        self._lessons = lessons
        self._job = BackgroundJob()
        self._runs: dict[str, Run] = {}
        self._name: str | None = None
        self._line: str | None = None
        self._error: str | None = None
        self._is_finished = False

    def overview(self) -> dict[str, Any]:
        """The list of the lessons."""
        return {"lessons": self._lessons.summaries()}

    def pages(self, name: str) -> dict[str, Any]:
        """What the page shows of a lesson: its stored run, and the latest run on this page."""
        runs = {"stored": self._stored(name), "latest": self._runs.get(name)}
        return {kind: run and self._lessons.page(run) for kind, run in runs.items()}

    def html(self, name: str) -> str:
        """The latest run of a lesson, or the stored one, as a self-contained page."""
        run = self._runs.get(name) or self._stored(name)
        if run is None:
            raise NotFound(f"{name} has no stored result; run it first")
        return self._lessons.html(run)

    def begin(self, name: str) -> None:
        """Run a lesson; raise Busy if one is running."""
        self._stored(name)
        if not self._job.is_running:
            self._name, self._line, self._error, self._is_finished = name, None, None, False
        busy = f"{self._name} is running, and lessons run one at a time; wait for it or cancel it"
        self._job.begin(self._lessons.command(name), self._hear, busy)

    def cancel(self) -> None:
        """End the run."""
        self._job.cancel()

    def stop(self) -> None:
        """End the run, because the server ends."""
        self._job.stop()

    def progress(self) -> dict[str, Any]:
        """The run that is under way, or the latest one: idle, running, finished, cancelled or failed."""
        state, error = self._state(), self._error
        if state == "failed" and error is None:
            error = f"{self._name} could not be run; see the terminal"
        return {
            "state": state,
            "lesson": self._name,
            "line": self._line,
            "seconds": self._job.seconds,
            "error": error if state == "failed" else None,
        }

    def _state(self) -> str:
        if self._job.is_running:
            return "running"
        if not self._job.has_ended:
            return "idle"
        if self._job.is_cancelled:
            return "cancelled"
        return "finished" if self._is_finished else "failed"

    def _stored(self, name: str) -> Run | None:
        try:
            return self._lessons.stored(name)
        except UsageError as error:
            raise NotFound(str(error)) from None

    def _hear(self, report: Any) -> None:
        """One report of the process that runs the lesson."""
        match report:
            case {"progress": str(line)}:
                self._line = line
            case {"error": str(error)}:
                self._error = error
            case {"run": dict(run)} if self._name is not None:
                self._runs[self._name] = run
                self._is_finished = True
