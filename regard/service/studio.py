"""The studio's routes: the page, the view's modules, and what they ask for."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from fastapi import APIRouter, Depends, FastAPI, Query, Request, Response
from fastapi.responses import RedirectResponse
from pydantic import ValidationError

from regard.inspection.render.bundle import bundle, read_style
from regard.service.app import answer, make_app, read_body, sheet
from regard.service.http_errors import Busy, Malformed
from regard.service.models import Entry, Models
from regard.service.requests import (
    AblationAsked,
    Asked,
    ClassifyAsked,
    CompareAsked,
    FillAsked,
    NextAsked,
    TraceAsked,
    TranslateAsked,
    one_sentence,
)
from regard.service.traces import Traces

PAGE = Path(__file__).with_name("page.html")
START = 'view.startLive(document.getElementById("studio"));'
Body = TypeVar("Body", bound=Asked)


def make_studio(models: Models, traces: Traces | None = None) -> FastAPI:
    """The studio as an application."""
    traces = Traces() if traces is None else traces
    app = make_app(start=lambda: models.warm_up(_warm_up), stop=models.stop)
    app.include_router(_pages())
    app.include_router(_of_models(models), prefix="/studio/api")
    app.include_router(_of_traces(models, traces), prefix="/studio/api")
    app.include_router(_of_files(traces), prefix="/studio/api")
    app.include_router(_of_words(models, traces), prefix="/studio/api")
    app.include_router(_of_training(models), prefix="/studio/api")
    return app


def body_of(kind: type[Body]) -> Callable[[Request], Awaitable[Body]]:
    """What reads a request of this kind."""

    async def read(request: Request) -> Body:
        try:
            return kind.model_validate_json(await read_body(request))
        except ValidationError as error:
            raise Malformed(one_sentence(error)) from None

    return read


@cache
def view_script() -> str:
    """The script of the page: the view as one expression, and the call that starts it."""
    return f"const view = {bundle()};\n{START}\n"


def _handlers() -> Any:
    """What works answers out; with it comes torch, which the page itself does not wait for."""
    from regard.service import handlers

    return handlers


def _warm_up(entry: Entry) -> None:
    _handlers().warm_up(entry)


def _comparing() -> Any:
    """The same for what compares."""
    from regard.service import comparing

    return comparing


def _pages() -> APIRouter:
    routes = APIRouter()

    # Coroutines, because a page must not wait for the threads that compute.
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


def _of_models(models: Models) -> APIRouter:
    routes = APIRouter()

    @routes.get("/models")
    def cards() -> Response:
        told = answer({"models": models.cards()})
        models.want()
        return told

    @routes.get("/models/{name}/vocabulary")
    def vocabulary(name: str) -> Response:
        return answer({"tokens": models[name].vocabulary})

    return routes


def _of_traces(models: Models, traces: Traces) -> APIRouter:
    routes = APIRouter()

    @routes.post("/trace")
    def trace(asked: Annotated[TraceAsked, Depends(body_of(TraceAsked))]) -> Response:
        return answer(_handlers().trace(models, traces, asked).told)

    @routes.get("/trace/{name}/overview")
    def overview(name: str) -> Response:
        return sheet(traces[name].overview_sheet)

    @routes.get("/trace/{name}/attention/{kind}/{layer}")
    def attention(name: str, kind: str, layer: int, words: Annotated[int, Query(ge=0, le=1)] = 0) -> Response:
        return sheet(_handlers().attention(traces[name], kind, layer, bool(words)))

    @routes.get("/trace/{name}/vectors/{side}")
    def vectors(name: str, side: str) -> Response:
        return sheet(_handlers().vectors(traces[name], side))

    @routes.get("/trace/{name}/steps/{kind}/{layer}/{head}/{query}")
    def steps(name: str, kind: str, layer: int, head: int, query: int) -> Response:
        return sheet(_handlers().steps(traces[name], kind, layer, head, query))

    @routes.get("/trace/{name}/next/{position}")
    def next_logits(name: str, position: int) -> Response:
        return sheet(_handlers().next_logits(traces[name], position))

    return routes


def _of_files(traces: Traces) -> APIRouter:
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

        media, kept = saving.check_ending(ending), traces[name]
        choice = saving.Choice(kind, layer, head, query, bool(words), tab)
        data = saving.saved(kept, ending, choice)
        told = f'attachment; filename="{saving.file_name(kept, ending, choice)}"'
        return Response(data, media_type=media, headers={"Content-Disposition": told})

    return routes


def _of_words(models: Models, traces: Traces) -> APIRouter:
    routes = APIRouter()

    @routes.post("/next")
    def next_after(asked: Annotated[NextAsked, Depends(body_of(NextAsked))]) -> Response:
        return sheet(_handlers().next_after(models, asked))

    @routes.post("/translate")
    def translate(asked: Annotated[TranslateAsked, Depends(body_of(TranslateAsked))]) -> Response:
        return answer(_handlers().translate(models, asked))

    @routes.post("/compare")
    def compare(asked: Annotated[CompareAsked, Depends(body_of(CompareAsked))]) -> Response:
        return answer(_comparing().compare(models, traces, asked))

    @routes.post("/ablation")
    def ablation(asked: Annotated[AblationAsked, Depends(body_of(AblationAsked))]) -> Response:
        return answer(_comparing().ablation(models, traces, asked))

    @routes.post("/fill")
    def fill(asked: Annotated[FillAsked, Depends(body_of(FillAsked))]) -> Response:
        return answer(_handlers().fill(models, asked))

    @routes.post("/classify")
    def classify(asked: Annotated[ClassifyAsked, Depends(body_of(ClassifyAsked))]) -> Response:
        return answer(_handlers().classify(models, asked))

    return routes


def _of_training(models: Models) -> APIRouter:
    routes = APIRouter()

    @routes.get("/course/{name}")
    def course(name: str) -> Response:
        return answer(models[name].course())

    @routes.get("/demo")
    def progress(model: str | None = None) -> Response:
        entry, learning = models.of_demo(model)
        return answer(learning.progress(entry.home is not None))

    @routes.post("/demo")
    def begin(model: str | None = None) -> Response:
        entry, learning = models.of_demo(model)
        if entry.home is not None:
            raise Busy(f"{entry.name} is trained already; look at it")
        learning.begin()
        return answer(learning.progress(False))

    return routes
