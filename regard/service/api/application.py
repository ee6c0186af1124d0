"""The application of `regard serve`: the routes of the API, and the studio's if it is on."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib.metadata import version
from typing import Any

from fastapi import FastAPI, Request, Response
from starlette.middleware.cors import CORSMiddleware
from starlette.routing import Route

from regard.service.api import chat, completions, readings, status, translations
from regard.service.api.access import ServiceAccess, is_studio
from regard.service.api.errors import Draining, body_of_error
from regard.service.api.limits import Limits
from regard.service.api.metrics import Metrics
from regard.service.api.openapi import ApiRoute, openapi_schema
from regard.service.api.request_log import LOGGED, RequestLog
from regard.service.api.routing import Service
from regard.service.api.schemas import (
    ChatRequest,
    ChatResponse,
    ClassifyRequest,
    CompletionRequest,
    CompletionResponse,
    DataResponse,
    EmbeddingRequest,
    FillRequest,
    InspectRequest,
    InspectResponse,
    ModelCard,
    ModelList,
    StatusResponse,
    TranslateRequest,
)
from regard.service.api.served_models import ServedModels
from regard.service.app import body_of, make_app, plain_form
from regard.service.http_errors import RequestError
from regard.service.lesson_runs import Lessons
from regard.service.models import Models
from regard.service.studio import StudioParts

ROUTES = (
    ApiRoute("GET", "/health", "The process answers; needs no key.", status.health, None, StatusResponse),
    ApiRoute("GET", "/ready", "Whether every model is loaded.", status.ready, None, StatusResponse),
    ApiRoute("GET", "/metrics", "Metrics for Prometheus.", status.metrics, media="text/plain"),
    ApiRoute("GET", "/v1/models", "The models that are served.", status.models, None, ModelList),
    ApiRoute("GET", "/v1/models/{name}", "One model.", status.model, None, ModelCard, path_parameter="name"),
    ApiRoute(
        "POST", "/v1/completions", "Continue prompts.", completions.complete, CompletionRequest,
        CompletionResponse, can_stream=True,
    ),
    ApiRoute(
        "POST", "/v1/chat/completions", "The next message of a conversation.", chat.chat, ChatRequest,
        ChatResponse, can_stream=True,
    ),
    ApiRoute(
        "POST", "/v1/translate", "Translate texts.", translations.translate, TranslateRequest, DataResponse
    ),
    ApiRoute(
        "POST", "/v1/embeddings", "A vector for each text.", readings.embed, EmbeddingRequest, DataResponse
    ),
    ApiRoute("POST", "/v1/fill", "Predict masked words.", readings.fill, FillRequest, DataResponse),
    ApiRoute(
        "POST", "/v1/classify", "A label for each text.", readings.classify, ClassifyRequest, DataResponse
    ),
    ApiRoute(
        "POST", "/v1/inspect", "The attention of a text.", readings.inspect, InspectRequest, InspectResponse
    ),
)  # fmt: skip
PAGES = (
    ApiRoute("GET", "/openapi.json", "", status.openapi),
    ApiRoute("GET", "/docs", "", status.docs),
    ApiRoute("GET", "/docs/style.css", "", status.style),
)


@dataclass(frozen=True)
class ServiceSettings:
    """How the models are served."""

    limits: Limits = field(default_factory=Limits)
    access: ServiceAccess = field(default_factory=ServiceAccess)
    log_text: bool = False
    has_studio: bool = True


def make_service(models: Models, settings: ServiceSettings, lessons: Lessons | None = None) -> FastAPI:
    """The service as an application."""
    metrics = Metrics()
    served = ServedModels(models, settings.limits, metrics)
    service = Service(served, metrics, settings.limits)
    studio = StudioParts(models, lessons=lessons) if settings.has_studio else None

    def start() -> None:
        service.models.start(studio.start if studio is not None else lambda: None)

    def stop() -> None:
        service.models.stop()
        if studio is not None:
            studio.stop()

    access = settings.access
    app = make_app(start, stop, access, error_form, "not found; /docs lists the routes")
    app.state.service = service
    app.state.schema = openapi_schema(ROUTES, version("regard"), bool(access.keys))
    for route in (*ROUTES, *PAGES):
        app.router.routes.append(Route(route.path, _endpoint(service, route), methods=[route.method]))
    if studio is not None:
        studio.add_to(app)
    if access.origins:
        app.add_middleware(
            CORSMiddleware, allow_origins=access.origins, allow_methods=["GET", "POST"], allow_headers=["*"]
        )
    app.add_middleware(RequestLog, metrics=metrics, with_text=settings.log_text)
    return app


def error_form(path: str, error: RequestError) -> dict[str, Any]:
    """OpenAI's form for the API, and the studio's own for its page."""
    return plain_form(path, error) if is_studio(path) else body_of_error(error)


def _endpoint(service: Service, route: ApiRoute) -> Callable[[Request], Any]:
    async def answer(request: Request) -> Response:
        request.state.arrived = time.monotonic()
        if route.body is None:
            return await route.answer(service, request, None)
        if service.is_draining:
            raise Draining("the server is shutting down; send the request to another one")
        body = await body_of(route.body, request)
        request.scope[LOGGED] |= _logged(service, body)
        return await route.answer(service, request, body)

    answer.path = route.path  # type: ignore[attr-defined]
    return answer


def _logged(service: Service, body: Any) -> dict[str, Any]:
    """What the log says of a request: its model, if there is one, and the user's id."""
    fields = {"model": body.model} if body.model in service.models.by_name else {}
    user = getattr(body, "user", None)
    return fields if user is None else {**fields, "user": user}
