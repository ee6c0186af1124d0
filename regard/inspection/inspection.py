"""Inspection: the record of a model on a sentence, with its analyses and files.

    seen = inspect(translator, "the animal did not cross the street because it was too tired")
    seen.attention("encoder", layer=2, head=1)                  # numpy, a row for each query
    seen.steps("encoder", layer=2, head=1, query="it")          # every intermediate of one row
    seen.save("it.html")

Layers, heads and positions count from 0.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from regard.inspection.analysis.steps import Steps, work_out
from regard.inspection.record.inputs import TextModel
from regard.inspection.record.record import Record
from regard.model.parts import Part
from regard.model.watch import Replacement


class Inspection(Record):
    """A Record with the analyses and renderings that a person asks of it."""

    def steps(self, kind: str, layer: int, head: int, query: int | str) -> Steps:
        """Every intermediate of one query's row, from its vector to the norm after the attention."""
        return work_out(self, kind, layer, head, query)

    def save(self, path: str | Path, **choice: Any) -> Path:
        """Write a page (.html), a picture (.svg, .png), a table (.csv) or all weights (.npz).

        The keywords are the fields of `Choice`: kind, layer, head, query, words and tab.
        """
        from regard.inspection.render.export import Choice, save

        return save(self, path, Choice(**choice))

    def _repr_mimebundle_(self, **_: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        """What a notebook shows: the studio's view, or a picture. `widget.show` takes a choice."""
        from regard.inspection.render.widget import mime_bundle

        return mime_bundle(self)


def inspect(
    model: TextModel,
    text: str,
    target: str | Sequence[int] | None = None,
    ablate: Iterable[Part] = (),
    patch: Mapping[str, Replacement] | None = None,
) -> Inspection:
    """Run a Translator, Writer or Reader on a text and record everything that it computes.

    A Translator first translates the text, with the default settings of `translate` and the same `off` and
    `patch`; then one pass reads the source and the translation. `target` gives another output to read, as
    text or ids. For a Writer, `target` continues the text. `off` and `patch` are those of `watch`.
    """
    return Inspection.of(model, text, target, ablate, patch)
