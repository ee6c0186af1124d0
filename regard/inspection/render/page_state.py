"""A state of the studio's page: which tab, which sentence, which head. Loads no torch.

The page keeps its state in its address. A link to a finding is such an address; PageState checks it.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal
from urllib.parse import parse_qsl, urlencode

from pydantic import Field

from regard.errors import SettingError
from regard.settings import Settings

Tab = Literal[
    "inspect", "layers", "compare", "translate", "write", "read", "training", "byhand", "lessons"
]  # fmt: skip
Part = Literal["scaling", "positions", "residual", "norm"]
Index = Annotated[int, Field(ge=0)]
RULE = r"(scale|causal|turned|T[\d.]+|round\d|dk\d+|row\d+)"
Rules = Annotated[str, Field(pattern=f"^{RULE}( {RULE})*$")]


class PageState(Settings):
    """What a link to the page fixes; the page chooses the rest."""

    tab: Tab
    """The tab that is open."""
    text: str | None = None
    """The sentence."""
    second: str | None = None
    """The second sentence of the tab Compare."""
    kind: Literal["encoder", "decoder", "cross"] | None = None
    """The kind of attention."""
    layer: Index | None = None
    """The layer, from 0."""
    head: Index | None = None
    """The head, from 0."""
    query: Index | None = None
    """The token that attends, from 0."""
    picture: Literal["matrix", "lines", "heads"] | None = None
    """How the tab Inspect draws a head."""
    ablate: Part | None = None
    """A part of the model that is ablated."""
    temperature: Annotated[float, Field(gt=0, le=10)] | None = None
    """The temperature of the tab Write."""
    measure: Literal["attention", "values", "rollout"] | None = None
    """The measure of the tab Layers."""
    example: Literal["A", "B", "C", "D"] | None = None
    """The lectures' example in the tab By hand."""
    rules: Rules | None = None
    """The rules of the tab By hand, such as scale, causal or T0.5."""
    lesson: str | None = None
    """The lesson of the tab Lessons."""

    @property
    def address(self) -> str:
        """The state as the page writes it after the # of its address."""
        return urlencode(self.model_dump(exclude_none=True))

    @classmethod
    def of(cls, address: str) -> PageState:
        """The state that an address means; raises SettingError for one that the page does not have."""
        values: dict[str, Any] = dict(parse_qsl(address, keep_blank_values=True))
        for name, number in (("layer", int), ("head", int), ("query", int), ("temperature", float)):
            if name in values:
                try:
                    values[name] = number(values[name])
                except ValueError:
                    raise SettingError(f"{name} ({values[name]}) must be a number; write one") from None
        return cls(**values)
