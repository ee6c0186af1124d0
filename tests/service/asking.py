"""What the models of the studio are asked in tests, what Python sees in them, and the routes."""

from __future__ import annotations

import re
from typing import Any

from fastapi import FastAPI
from fastapi.routing import APIRoute
from starlette.routing import Route

from regard.inference.loading import load
from regard.inspection.inspection import inspect

TEXTS = {
    "small": "The animal was too tired.",
    "translate": "the red cat sees the dog.",
    "complete": "the red cat sees",
    "fill": "the [MASK] cat sees the dog.",
    "classify": "the red cat sees the dog.",
}


def seen_by_python(models, name, text=None, ablate=()):
    """The same sentence, inspected without the service."""
    return inspect(load(models[name].location.model), text or TEXTS[name], ablate=ablate)


def all_routes(app: FastAPI) -> list[tuple[str, str]]:
    """Every method and path of an application, with some value for each parameter."""
    found: list[tuple[str, str]] = []
    waiting: list[tuple[str, Any]] = [("", route) for route in app.routes]
    while waiting:
        prefix, route = waiting.pop()
        if isinstance(route, APIRoute | Route):
            path = re.sub(r"\{(\w+)[^}]*\}", "0", prefix + route.path)
            found += [(method, path) for method in route.methods or ()]
        else:
            inner = prefix + route.include_context.prefix
            waiting += [(inner, each) for each in route.original_router.routes]
    return found
