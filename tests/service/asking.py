"""What the models of the studio are asked in tests, and what Python sees in them."""

from __future__ import annotations

from regard.inference.loading import load
from regard.inspection.record.inspection import Inspection, inspect
from regard.inspection.record.tokens import Side

TEXTS = {
    "small": "The animal was too tired.",
    "translate": "the red cat sees the dog.",
    "complete": "the red cat sees",
    "fill": "the [MASK] cat sees the dog.",
    "classify": "the red cat sees the dog.",
}


def seen_by_python(models, name, text=None, off=()):
    """The same sentence, inspected without any service; a translation is the greedy one."""
    subject, text = load(models[name].home.model), text or TEXTS[name]
    if name not in ("small", "translate"):
        return inspect(subject, text, off=off)
    tokenizer = subject.tokenizers.source
    ids = subject.translate(text, beams=1, off=off).tokens.ids.tolist()
    source = Side.of_text("source", tokenizer, text, last=[tokenizer.end])
    said = [number for number in ids if number != tokenizer.end]
    return Inspection(subject.model, source, Side.of_ids("target", tokenizer, said, [tokenizer.start]), off)
