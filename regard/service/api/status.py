"""/health, /ready, /metrics, /v1/models and the documentation of the API."""

from __future__ import annotations

from typing import Any

from fastapi import Request, Response

from regard.service.api.reference_page import STYLE, reference_page
from regard.service.api.routing import Service
from regard.service.app import json_response


async def health(service: Service, request: Request, body: None) -> Response:
    """The process answers."""
    return json_response({"status": "ok"})


async def ready(service: Service, request: Request, body: None) -> Response:
    """Whether the server can serve every model now."""
    status = _status(service)
    return json_response({"status": status}, 200 if status == "ready" else 503)


def _status(service: Service) -> str:
    if service.is_draining:
        return "draining"
    if service.models.has_failed:
        return "failed"
    return "ready" if service.models.is_ready else "loading"


async def metrics(service: Service, request: Request, body: None) -> Response:
    """The metrics for Prometheus."""
    page, media = service.metrics.page()
    return Response(page, headers={"Content-Type": media})


async def models(service: Service, request: Request, body: None) -> Response:
    """The models that are served."""
    cards = [model.card() for model in service.models.by_name.values()]
    return json_response({"object": "list", "data": cards})


async def model(service: Service, request: Request, body: None) -> Response:
    """One model."""
    return json_response(service.models[request.path_params["name"]].card())


async def docs(service: Service, request: Request, body: None) -> Response:
    """The documentation as a page."""
    page = reference_page(_schema(request), list(service.models.by_name), str(request.base_url).rstrip("/"))
    return Response(page, media_type="text/html; charset=utf-8")


async def style(service: Service, request: Request, body: None) -> Response:
    """The style of the documentation."""
    return Response(STYLE, media_type="text/css; charset=utf-8")


async def openapi(service: Service, request: Request, body: None) -> Response:
    """The OpenAPI schema."""
    return json_response(_schema(request))


def _schema(request: Request) -> dict[str, Any]:
    return request.app.state.schema
