"""Experiments and controls, each in a process of its own; those that measure time run alone at the end."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from subprocess import PIPE, Popen
from typing import Any

from regard.engine.choice import cores
from regard.errors import RegardError
from regard.lessons.lesson import Experiment, Lesson, Result, Say
from regard.lessons.results import result_of, stored_result
from regard.lessons.studio import RUNNER


def run_lessons(lessons: Sequence[Lesson], say: Say) -> Iterator[Result]:
    """Run lessons, as many experiments at a time as there are cores; each result when it is there.

    The longest begin first, so that all cores are busy to the end. An experiment computes with one thread, so
    that its numbers are those of a run alone.
    """
    timed = [lesson for lesson in lessons if lesson.is_timed]
    others = [lesson for lesson in lessons if not lesson.is_timed]
    yield from _run(sorted(others, key=_stored_seconds, reverse=True), cores(), say)
    yield from _run(timed, 1, say)


def _run(lessons: Sequence[Lesson], at_a_time: int, say: Say) -> Iterator[Result]:
    """Each result when it is there; if one fails or the caller stops, the others are ended."""
    processes: list[Popen[str]] = []
    pool = ThreadPoolExecutor(at_a_time)
    try:
        jobs = {
            pool.submit(_run_apart, one, f"{lesson.name}:{label}", say, processes): (lesson, place)
            for lesson in lessons
            for place, (label, one) in enumerate((("", lesson), (" control:", lesson.control())))
        }
        finished: dict[str, dict[int, tuple[Experiment, float]]] = {lesson.name: {} for lesson in lessons}
        for job in as_completed(jobs):
            lesson, place = jobs[job]
            parts = finished[lesson.name]
            parts[place] = job.result()
            if len(parts) == 2:
                yield result_of(lesson, parts[0][0], parts[1][0], parts[0][1] + parts[1][1])
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
        for process in processes:
            process.terminate()


def _run_apart(lesson: Lesson, label: str, say: Say, processes: list[Popen[str]]) -> tuple[Experiment, float]:
    """Run one experiment in a new process, which ends with this one; its seconds of a core too."""
    command = [*RUNNER, lesson.name, lesson.model_dump_json()]
    with Popen(
        command, stdin=PIPE, stdout=PIPE, text=True, encoding="utf-8", start_new_session=True
    ) as process:
        processes.append(process)
        last: dict[str, Any] = {}
        for line in process.stdout or ():
            last = json.loads(line)
            if "progress" in last:
                say(f"{label} {last['progress']}")
    if "experiment" not in last:
        raise RegardError(f"{label} {last.get('error', f'its process ended with {process.returncode}')}")
    return Experiment.from_dict(last["experiment"]), last["seconds"]


def _stored_seconds(lesson: Lesson) -> float:
    result = stored_result(lesson.name)
    return result.seconds if result is not None else 0.0
