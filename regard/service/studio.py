"""The routes of the studio: the page, its script and style, and its requests."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal

from fastapi import APIRouter, FastAPI, Query, Request, Response
from fastapi.responses import RedirectResponse
from pydantic import BaseModel, Field

from regard.inspection.render.bundle import bundle, read_style
from regard.service.access import LocalAccess, Token
from regard.service.app import binary_response, body_of, json_response, make_app
from regard.service.http_errors import Busy
from regard.service.lesson_routes import lesson_routes
from regard.service.lesson_runs import LessonRuns, Lessons
from regard.service.models import Entry, Models
from regard.service.requests import (
    AblationRequest,
    ClassifyRequest,
    CompareRequest,
    FillRequest,
    NextRequest,
    TraceRequest,
    TranslateRequest,
)
from regard.service.traces import Trace, Traces, stored_trace
from regard.service.work_queue import WorkQueue

PAGE = Path(__file__).with_name("page.html")
START = 'view.startLive(document.getElementById("studio"));'
Index = Annotated[int, Field(ge=0)]


@dataclass(frozen=True, eq=False)
class Studio:
    """The models, the stored traces and the queue that the routes share."""

    models: Models
    traces: Traces
    queue: WorkQueue = field(default_factory=WorkQueue)

    async def compute(self, request: Request, model: str, job: Callable[[], Response]) -> Response:
        """Run a job with a model when its turn has come; it replaces a waiting one of the same panel."""
        lane = self.queue.of_model(self.models[model].name)
        self.queue.replace_waiting(request)
        return await self.queue.run(request, lane, job)

    async def read(self, request: Request, job: Callable[[], Response]) -> Response:
        """Run a job that needs no model."""
        return await self.queue.run(request, self.queue.reading, job)

    async def read_trace(
        self, request: Request, trace: Trace, read: Callable[[Trace], bytes], weights_only: bool = False
    ) -> Response:
        """Read values of a stored trace, in the lane of its model if they may need another forward pass."""
        needs_pass = trace.needs_pass(weights_only)
        lane = self.queue.of_model(trace.entry.name) if needs_pass else self.queue.reading

        def job() -> Response:
            response = binary_response(read(trace))
            if needs_pass:
                self.traces.limit()
            return response

        return await self.queue.run(request, lane, job)


def make_studio(
    models: Models,
    traces: Traces | None = None,
    token: Token | None = None,
    lessons: Lessons | None = None,
) -> FastAPI:
    """The studio as an application; with a token, it answers only requests that have it.

    Without lessons the tab Lessons has nothing to show.
    """
    parts = StudioParts(models, traces, lessons)
    app = make_app(start=parts.start, stop=parts.stop, access=LocalAccess(token))
    parts.add_to(app)
    return app


class StudioParts:
    """The studio as a part of an application: its routes, and what starts and stops with it."""

    def __init__(self, models: Models, traces: Traces | None = None, lessons: Lessons | None = None):
        self._studio = Studio(models, Traces() if traces is None else traces)
        self._lesson_runs = LessonRuns(lessons) if lessons is not None else None

    def start(self) -> None:
        """Load the models in the background."""
        self._studio.models.warm_up(_warm_up)

    def stop(self) -> None:
        """Stop training and lessons."""
        self._studio.models.stop()
        if self._lesson_runs is not None:
            self._lesson_runs.stop()

    def add_to(self, app: FastAPI) -> None:
        """Add the routes to an application."""
        app.state.studio, app.state.lesson_runs = self._studio, self._lesson_runs
        app.include_router(_page_routes())
        if self._lesson_runs is not None:
            app.include_router(lesson_routes(self._studio.queue, self._lesson_runs), prefix="/studio/api")
        for routes in (
            _model_routes,
            _trace_routes,
            _layers_routes,
            _file_routes,
            _text_routes,
            _training_routes,
        ):
            app.include_router(routes(self._studio), prefix="/studio/api")


@cache
def view_script() -> str:
    """The script of the page: the view as one expression, and the call that starts it."""
    return f"const view = {bundle()};\n{START}\n"


def _handlers() -> Any:
    """The handlers, imported late because they import torch."""
    from regard.service import handlers

    return handlers


def _warm_up(entry: Entry) -> None:
    _handlers().warm_up(entry)


def _comparing() -> Any:
    """The comparisons, imported late because they import torch."""
    from regard.service import comparing

    return comparing


def _page_routes() -> APIRouter:
    routes = APIRouter()

    # Coroutines, because the page must not wait for the worker threads.
    @routes.get("/")
    async def begin() -> Response:
        return RedirectResponse("/studio")

    @routes.get("/studio")
    async def page() -> Response:
        return Response(PAGE.read_bytes(), media_type="text/html; charset=utf-8")

    @routes.get("/studio/view.js")
    async def script() -> Response:
        return Response(view_script(), media_type="text/javascript; charset=utf-8")

    @routes.get("/studio/view.css")
    async def style() -> Response:
        return Response(read_style(), media_type="text/css; charset=utf-8")

    @routes.get("/favicon.ico")
    async def icon() -> Response:
        return Response(status_code=204)

    return routes


def _model_routes(studio: Studio) -> APIRouter:
    routes, models = APIRouter(), studio.models

    @routes.get("/models")
    async def cards(request: Request) -> Response:
        response = await studio.read(request, lambda: json_response({"models": models.cards()}))
        models.request_loading()
        return response

    @routes.get("/models/{name}/vocabulary")
    async def vocabulary(request: Request, name: str) -> Response:
        return await studio.read(request, lambda: json_response({"tokens": models[name].vocabulary}))

    return routes


def _trace_routes(studio: Studio) -> APIRouter:
    routes, models, traces = APIRouter(), studio.models, studio.traces

    @routes.post("/trace")
    async def trace(request: Request) -> Response:
        body = await body_of(TraceRequest, request)
        models[body.model].check_ids(body.target_ids)
        stored = stored_trace(models, traces, body)
        if stored is None:
            return await studio.compute(request, body.model, lambda: _described(models, traces, body))
        studio.queue.replace_waiting(request)
        return Response(stored.description, media_type="application/json")

    @routes.get("/trace/{name}/overview")
    async def overview(name: str) -> Response:
        return binary_response(traces[name].overview)

    @routes.get("/trace/{name}/attention/{kind}/{layer}")
    async def attention(
        request: Request, name: str, kind: str, layer: Index, words: Annotated[int, Query(ge=0, le=1)] = 0
    ) -> Response:
        def read(stored: Trace) -> bytes:
            return _handlers().attention(stored, kind, layer, bool(words))

        return await studio.read_trace(request, traces[name], read, weights_only=True)

    @routes.get("/trace/{name}/vectors/{side}")
    async def vectors(request: Request, name: str, side: str) -> Response:
        return await studio.read_trace(
            request, traces[name], lambda stored: _handlers().vectors(stored, side)
        )

    @routes.get("/trace/{name}/steps/{kind}/{layer}/{head}/{query}")
    async def steps(
        request: Request, name: str, kind: str, layer: Index, head: Index, query: Index
    ) -> Response:
        def read(stored: Trace) -> bytes:
            return _handlers().steps(stored, kind, layer, head, query)

        return await studio.read_trace(request, traces[name], read)

    @routes.get("/trace/{name}/next/{position}")
    async def next_logits(request: Request, name: str, position: Index) -> Response:
        stored = traces[name]
        return await studio.read(request, lambda: binary_response(_handlers().next_logits(stored, position)))

    return routes


def _described(models: Models, traces: Traces, body: TraceRequest) -> Response:
    return Response(_handlers().trace(models, traces, body).description, media_type="application/json")


def _layers_routes(studio: Studio) -> APIRouter:
    routes, traces = APIRouter(), studio.traces

    def layers() -> Any:
        from regard.service import layers  # imports torch

        return layers

    @routes.get("/trace/{name}/lens")
    async def lens(request: Request, name: str) -> Response:
        return await studio.read_trace(request, traces[name], lambda stored: layers().lens(stored))

    @routes.get("/trace/{name}/flow/{measure}/{kind}")
    async def flow(
        request: Request,
        name: str,
        measure: str,
        kind: str,
        words: Annotated[int, Query(ge=0, le=1)] = 0,
    ) -> Response:
        def read(stored: Trace) -> bytes:
            return layers().flow(stored, measure, kind, bool(words))

        return await studio.read_trace(request, traces[name], read)

    @routes.get("/trace/{name}/attribution/{position}")
    async def attribution(
        request: Request,
        name: str,
        position: Index,
        word: Index | None = None,
        instead: Index | None = None,
        method: Literal["gradient", "integrated"] = "integrated",
    ) -> Response:
        stored = traces[name]
        lane = studio.queue.of_model(stored.entry.name)  # it runs forward and backward passes
        return await studio.queue.run(
            request,
            lane,
            lambda: binary_response(layers().attribution(stored, position, word, instead, method)),
        )

    return routes


def _file_routes(studio: Studio) -> APIRouter:
    routes = APIRouter()

    @routes.get("/trace/{name}/save.{ending}")
    async def save(
        request: Request,
        name: str,
        ending: str,
        kind: str | None = None,
        layer: Index | None = None,
        head: Index | None = None,
        words: Annotated[int, Query(ge=0, le=1)] = 0,
        query: Index | None = None,
        tab: Literal["inspect", "translate", "write"] | None = None,
    ) -> Response:
        from regard.service import saving

        media, stored = saving.check_ending(ending), studio.traces[name]
        choice = saving.Choice(kind, layer, head, query, bool(words), tab)
        headers = {
            "Content-Disposition": f'attachment; filename="{saving.file_name(stored, ending, choice)}"'
        }
        return await studio.queue.run(
            request,
            studio.queue.saving,
            lambda: Response(saving.saved(stored, ending, choice), media_type=media, headers=headers),
        )

    return routes


def _text_routes(studio: Studio) -> APIRouter:
    routes, models = APIRouter(), studio.models

    @routes.post("/next")
    async def next_after(request: Request) -> Response:
        body = await body_of(NextRequest, request)
        models[body.model].check_ids(body.ids)
        return await studio.compute(
            request, body.model, lambda: binary_response(_handlers().next_after(models, body))
        )

    for path, (schema, answer) in TEXT_REQUESTS.items():
        routes.add_api_route(path, _text_route(studio, schema, answer), methods=["POST"])
    return routes


# The body of each request about a text, and what answers it.
TEXT_REQUESTS: dict[str, tuple[type[BaseModel], Callable[[Studio, Any], Any]]] = {
    "/translate": (TranslateRequest, lambda studio, body: _handlers().translate(studio.models, body)),
    "/fill": (FillRequest, lambda studio, body: _handlers().fill(studio.models, body)),
    "/classify": (ClassifyRequest, lambda studio, body: _handlers().classify(studio.models, body)),
    "/compare": (
        CompareRequest,
        lambda studio, body: _comparing().compare(studio.models, studio.traces, body),
    ),
    "/ablation": (
        AblationRequest,
        lambda studio, body: _comparing().ablation(studio.models, studio.traces, body),
    ),
}


def _text_route(studio: Studio, schema: type[BaseModel], answer: Callable[[Studio, Any], Any]) -> Any:
    async def route(request: Request) -> Response:
        body: Any = await body_of(schema, request)
        return await studio.compute(request, body.model, lambda: json_response(answer(studio, body)))

    return route


def _training_routes(studio: Studio) -> APIRouter:
    routes, models = APIRouter(), studio.models

    @routes.get("/progress/{name}")
    async def training_curves(request: Request, name: str) -> Response:
        return await studio.read(request, lambda: json_response(models[name].training_curves()))

    @routes.get("/demo")
    async def progress(request: Request, model: str) -> Response:
        entry, training = models.find_demo(model)
        return await studio.read(
            request, lambda: json_response(training.progress(entry.location is not None))
        )

    @routes.post("/demo")
    async def begin(request: Request, model: str) -> Response:
        entry, training = models.find_demo(model)

        def job() -> Response:
            if entry.location is not None:
                raise Busy(f"{entry.name} is already trained; use it")
            training.begin()
            return json_response(training.progress(False))

        return await studio.queue.run(request, studio.queue.training, job)

    @routes.post("/demo/cancel")
    async def cancel(request: Request, model: str) -> Response:
        entry, training = models.find_demo(model)

        def job() -> Response:
            training.cancel()
            return json_response(training.progress(entry.location is not None))

        return await studio.queue.run(request, studio.queue.training, job)

    return routes
