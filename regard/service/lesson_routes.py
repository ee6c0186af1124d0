"""The routes of the tab Lessons."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Request, Response
from pydantic import Field

from regard.service.app import json_response
from regard.service.lesson_runs import LessonRuns
from regard.service.work_queue import WorkQueue

LessonName = Annotated[str, Field(max_length=80)]


def lesson_routes(queue: WorkQueue, lessons: LessonRuns) -> APIRouter:
    """The list, the pages, and the run that is under way."""
    routes = APIRouter()

    @routes.get("/lessons")
    async def overview(request: Request) -> Response:
        return await queue.run(request, queue.reading, lambda: json_response(lessons.overview()))

    @routes.get("/lessons/{name}")
    async def pages(request: Request, name: LessonName) -> Response:
        return await queue.run(request, queue.reading, lambda: json_response(lessons.pages(name)))

    @routes.get("/lessons/{name}/save.html")
    async def save(request: Request, name: LessonName) -> Response:
        def job() -> Response:
            page = lessons.html(name)
            headers = {"Content-Disposition": f'attachment; filename="{name}.html"'}
            return Response(page, media_type="text/html; charset=utf-8", headers=headers)

        return await queue.run(request, queue.reading, job)

    @routes.get("/lesson-run")
    async def progress(request: Request) -> Response:
        return await queue.run(request, queue.reading, lambda: json_response(lessons.progress()))

    @routes.post("/lesson-run")
    async def begin(request: Request, lesson: LessonName) -> Response:
        def job() -> Response:
            lessons.begin(lesson)
            return json_response(lessons.progress())

        return await queue.run(request, queue.training, job)

    @routes.post("/lesson-run/cancel")
    async def cancel(request: Request) -> Response:
        def job() -> Response:
            lessons.cancel()
            return json_response(lessons.progress())

        return await queue.run(request, queue.training, job)

    return routes
