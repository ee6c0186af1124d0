"""The routes of the studio: the page, its script and style, and its requests."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from fastapi import APIRouter, Depends, FastAPI, Query, Request, Response
from fastapi.responses import RedirectResponse
from pydantic import ValidationError

from regard.inspection.render.bundle import bundle, read_style
from regard.service.app import binary_response, json_response, make_app, read_body
from regard.service.http_errors import Busy, Malformed
from regard.service.models import Entry, Models
from regard.service.requests import (
    AblationRequest,
    ClassifyRequest,
    CompareRequest,
    FillRequest,
    NextRequest,
    StudioRequest,
    TraceRequest,
    TranslateRequest,
    first_error,
)
from regard.service.traces import Traces

PAGE = Path(__file__).with_name("page.html")
START = 'view.startLive(document.getElementById("studio"));'
Body = TypeVar("Body", bound=StudioRequest)


def make_studio(models: Models, traces: Traces | None = None) -> FastAPI:
    """The studio as an application."""
    traces = Traces() if traces is None else traces
    app = make_app(start=lambda: models.warm_up(_warm_up), stop=models.stop)
    app.include_router(_page_routes())
    app.include_router(_model_routes(models), prefix="/studio/api")
    app.include_router(_trace_routes(models, traces), prefix="/studio/api")
    app.include_router(_layers_routes(traces), prefix="/studio/api")
    app.include_router(_file_routes(traces), prefix="/studio/api")
    app.include_router(_text_routes(models, traces), prefix="/studio/api")
    app.include_router(_training_routes(models), prefix="/studio/api")
    return app


def body_of(kind: type[Body]) -> Callable[[Request], Awaitable[Body]]:
    """A dependency that reads and checks a request of this kind."""

    async def read(request: Request) -> Body:
        try:
            return kind.model_validate_json(await read_body(request))
        except ValidationError as error:
            raise Malformed(first_error(error)) from None

    return read


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


def _model_routes(models: Models) -> APIRouter:
    routes = APIRouter()

    @routes.get("/models")
    def cards() -> Response:
        response = json_response({"models": models.cards()})
        models.request_loading()
        return response

    @routes.get("/models/{name}/vocabulary")
    def vocabulary(name: str) -> Response:
        return json_response({"tokens": models[name].vocabulary})

    return routes


def _trace_routes(models: Models, traces: Traces) -> APIRouter:
    routes = APIRouter()

    @routes.post("/trace")
    def trace(request: Annotated[TraceRequest, Depends(body_of(TraceRequest))]) -> Response:
        return json_response(_handlers().trace(models, traces, request).description)

    @routes.get("/trace/{name}/overview")
    def overview(name: str) -> Response:
        return binary_response(traces[name].overview_sheet)

    @routes.get("/trace/{name}/attention/{kind}/{layer}")
    def attention(name: str, kind: str, layer: int, words: Annotated[int, Query(ge=0, le=1)] = 0) -> Response:
        return binary_response(_handlers().attention(traces[name], kind, layer, bool(words)))

    @routes.get("/trace/{name}/vectors/{side}")
    def vectors(name: str, side: str) -> Response:
        return binary_response(_handlers().vectors(traces[name], side))

    @routes.get("/trace/{name}/steps/{kind}/{layer}/{head}/{query}")
    def steps(name: str, kind: str, layer: int, head: int, query: int) -> Response:
        return binary_response(_handlers().steps(traces[name], kind, layer, head, query))

    @routes.get("/trace/{name}/next/{position}")
    def next_logits(name: str, position: int) -> Response:
        return binary_response(_handlers().next_logits(traces[name], position))

    return routes


def _layers_routes(traces: Traces) -> APIRouter:
    routes = APIRouter()

    def layers() -> Any:
        from regard.service import layers  # imports torch

        return layers

    @routes.get("/trace/{name}/lens")
    def lens(name: str) -> Response:
        return binary_response(layers().lens(traces[name]))

    @routes.get("/trace/{name}/flow/{measure}/{kind}")
    def flow(name: str, measure: str, kind: str, words: Annotated[int, Query(ge=0, le=1)] = 0) -> Response:
        return binary_response(layers().flow(traces[name], measure, kind, bool(words)))

    @routes.get("/trace/{name}/attribution/{position}")
    def attribution(
        name: str,
        position: int,
        word: Annotated[int | None, Query(ge=0)] = None,
        instead: Annotated[int | None, Query(ge=0)] = None,
        method: Literal["gradient", "integrated"] = "integrated",
    ) -> Response:
        return binary_response(layers().attribution(traces[name], position, word, instead, method))

    return routes


def _file_routes(traces: Traces) -> APIRouter:
    routes = APIRouter()

    @routes.get("/trace/{name}/save.{ending}")
    def save(
        name: str,
        ending: str,
        kind: str | None = None,
        layer: int | None = None,
        head: int | None = None,
        words: Annotated[int, Query(ge=0, le=1)] = 0,
        query: Annotated[int | None, Query(ge=0)] = None,
        tab: Literal["inspect", "translate", "write"] | None = None,
    ) -> Response:
        from regard.service import saving

        media, stored = saving.check_ending(ending), traces[name]
        choice = saving.Choice(kind, layer, head, query, bool(words), tab)
        data = saving.saved(stored, ending, choice)
        disposition = f'attachment; filename="{saving.file_name(stored, ending, choice)}"'
        return Response(data, media_type=media, headers={"Content-Disposition": disposition})

    return routes


def _text_routes(models: Models, traces: Traces) -> APIRouter:
    routes = APIRouter()

    @routes.post("/next")
    def next_after(request: Annotated[NextRequest, Depends(body_of(NextRequest))]) -> Response:
        return binary_response(_handlers().next_after(models, request))

    @routes.post("/translate")
    def translate(request: Annotated[TranslateRequest, Depends(body_of(TranslateRequest))]) -> Response:
        return json_response(_handlers().translate(models, request))

    @routes.post("/compare")
    def compare(request: Annotated[CompareRequest, Depends(body_of(CompareRequest))]) -> Response:
        return json_response(_comparing().compare(models, traces, request))

    @routes.post("/ablation")
    def ablation(request: Annotated[AblationRequest, Depends(body_of(AblationRequest))]) -> Response:
        return json_response(_comparing().ablation(models, traces, request))

    @routes.post("/fill")
    def fill(request: Annotated[FillRequest, Depends(body_of(FillRequest))]) -> Response:
        return json_response(_handlers().fill(models, request))

    @routes.post("/classify")
    def classify(request: Annotated[ClassifyRequest, Depends(body_of(ClassifyRequest))]) -> Response:
        return json_response(_handlers().classify(models, request))

    return routes


def _training_routes(models: Models) -> APIRouter:
    routes = APIRouter()

    @routes.get("/progress/{name}")
    def training_curves(name: str) -> Response:
        return json_response(models[name].training_curves())

    @routes.get("/demo")
    def progress(model: str | None = None) -> Response:
        entry, training = models.find_demo(model)
        return json_response(training.progress(entry.location is not None))

    @routes.post("/demo")
    def begin(model: str | None = None) -> Response:
        entry, training = models.find_demo(model)
        if entry.location is not None:
            raise Busy(f"{entry.name} is already trained; use it")
        training.begin()
        return json_response(training.progress(False))

    return routes
