"""What the models of the studio are asked in tests, and what Python sees in them."""

from __future__ import annotations

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
