"""The routes of the API as an OpenAPI schema."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

from fastapi import Request, Response
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from regard.service.api.schemas import ErrorResponse

REFERENCE = "#/components/schemas/{model}"
ERRORS = {
    400: "The request cannot be served.",
    401: "The API key is missing or wrong.",
    403: "The Host or the Origin is not allowed.",
    404: "The model is not served.",
    405: "The route has another method; Allow names it.",
    408: "The body took too long.",
    413: "The body is too large.",
    422: "The body does not follow the schema.",
    429: "Too many requests are waiting; Retry-After says when to try again.",
    431: "The headers are too large.",
    500: "An internal error.",
    503: "The model is not loaded, or the server is shutting down.",
    504: "The request took too long.",
}

Answer = Callable[[Any, Request, Any], Awaitable[Response]]


@dataclass(frozen=True)
class ApiRoute:
    """One route: its path, what it reads and gives, and the function that answers."""

    method: str
    path: str
    summary: str
    answer: Answer
    body: type[BaseModel] | None = None
    response: type[BaseModel] | None = None
    media: str = "application/json"
    can_stream: bool = False
    path_parameter: str | None = None


def openapi_schema(routes: Sequence[ApiRoute], version: str, has_key: bool) -> dict[str, Any]:
    """The schema of all routes."""
    models = {model for route in routes for model in (route.body, route.response) if model is not None}
    inputs = [(model, "validation") for model in sorted({*models, ErrorResponse}, key=lambda m: m.__name__)]
    _, definitions = models_json_schema(inputs, ref_template=REFERENCE)  # pyright: ignore[reportArgumentType]
    paths: dict[str, Any] = {}
    for route in routes:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route)
    components: dict[str, Any] = {"schemas": definitions.get("$defs", {})}
    schema = {
        "openapi": "3.1.0",
        "info": {"title": "Regard", "version": version, "description": "Transformer models over HTTP."},
        "paths": paths,
        "components": components,
    }
    if has_key:
        components["securitySchemes"] = {"key": {"type": "http", "scheme": "bearer"}}
        schema["security"] = [{"key": []}]
    return schema


def _operation(route: ApiRoute) -> dict[str, Any]:
    content: dict[str, Any] = {route.media: {"schema": _reference(route.response)}}
    if route.can_stream:
        content["text/event-stream"] = {"schema": {"type": "string"}}
    responses = {"200": {"description": "The answer.", "content": content}}
    for status, meaning in ERRORS.items():
        error = {"application/json": {"schema": _reference(ErrorResponse)}}
        responses[str(status)] = {"description": meaning, "content": error}
    operation: dict[str, Any] = {"summary": route.summary, "responses": responses}
    if route.body is not None:
        body = {"application/json": {"schema": _reference(route.body)}}
        operation["requestBody"] = {"required": True, "content": body}
    if route.path_parameter is not None:
        parameter = {
            "name": route.path_parameter,
            "in": "path",
            "required": True,
            "schema": {"type": "string"},
        }
        operation["parameters"] = [parameter]
    return operation


def _reference(model: type[BaseModel] | None) -> dict[str, Any]:
    return {} if model is None else {"$ref": REFERENCE.format(model=model.__name__)}
