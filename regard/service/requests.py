"""The schemas of requests: types, sizes, no unknown keys, no NaN."""

from __future__ import annotations

import re
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

LONGEST_TEXT = 20_000  # characters
MOST_INTERVENTIONS, MOST_ABLATED = 64, 512
MOST_IDS = 1 << 16
MOST_BEAMS = 16

KIND = re.compile(r"str|constrained-\w+|list\[.*\]")  # in the place of an error: one of several types

Text = Annotated[str, Field(max_length=LONGEST_TEXT)]
Name = Annotated[str, Field(max_length=200)]
Number = Annotated[int, Field(ge=0, le=1 << 31)]
Ids = Annotated[list[Number], Field(max_length=MOST_IDS)]
Head = tuple[Name, Number, Number]
Ablate = Annotated[list[Name | Head], Field(max_length=MOST_ABLATED)]
Weight = Annotated[float, Field(ge=0.0, le=1.0)]


class StudioRequest(BaseModel):
    """A request; unknown keys, other types, NaN and infinity are rejected."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", strict=True, allow_inf_nan=False, protected_namespaces=()
    )


class InterventionRequest(StudioRequest):
    """The attention row of one query in one head, set by the user."""

    kind: Name
    layer: Number
    head: Number
    query: Number
    row: Annotated[list[Weight], Field(max_length=MOST_IDS)]


Interventions = Annotated[list[InterventionRequest], Field(max_length=MOST_INTERVENTIONS)]


class ModelRequest(StudioRequest):
    """The model of a request, and optionally the training step of its snapshot."""

    model: Name
    snapshot: Number | None = None


class TraceRequest(ModelRequest):
    """Inspect a text."""

    text: Text
    target: Text | None = None
    target_ids: Ids | None = None
    ablate: Ablate = Field(default_factory=list)
    interventions: Interventions = Field(default_factory=list)


class NextRequest(ModelRequest):
    """The next token after a text and output ids."""

    text: Text
    ids: Ids = Field(default_factory=list)
    ablate: Ablate = Field(default_factory=list)
    interventions: Interventions = Field(default_factory=list)


class TranslateRequest(ModelRequest):
    """A translation by beam search with its tree."""

    text: Text
    beams: Annotated[int, Field(ge=1, le=MOST_BEAMS)] = 4
    length_penalty: Annotated[float, Field(ge=0.0, le=10.0)] = 0.6
    ablate: Ablate = Field(default_factory=list)


class CompareRequest(ModelRequest):
    """Two texts, and the number of a word in the first.

    With `nearest`, a word without a partner in the second text gives way to the nearest that has one.
    """

    first: Text
    second: Text
    side: Name | None = None
    word: Number
    nearest: bool = False
    ablate: Ablate = Field(default_factory=list)


class AblationRequest(ModelRequest):
    """The effect of ablating parts."""

    text: Text
    ablate: Ablate = Field(default_factory=list)


class FillRequest(ModelRequest):
    """A text with masks."""

    text: Text
    top: Annotated[int, Field(ge=1, le=100)] = 10
    ablate: Ablate = Field(default_factory=list)
    interventions: Interventions = Field(default_factory=list)


class ClassifyRequest(ModelRequest):
    """A text to classify."""

    text: Text
    ablate: Ablate = Field(default_factory=list)
    interventions: Interventions = Field(default_factory=list)


def first_error(error: ValidationError) -> str:
    """The first error of a request as a sentence."""
    first = _best_fitting(error)
    place = ".".join(str(part) for part in first["loc"] if not KIND.fullmatch(str(part)))[:80]
    if place.startswith("ablate."):
        return "ablate: each part is a name, such as scaling, or a head, such as [kind, layer, head]"
    match first["type"]:
        case "json_invalid":
            return "the body is not JSON; send an object"
        case "extra_forbidden":
            return f"unknown key {place!r}; remove it"
        case "missing":
            return f"{place} is missing; add it"
        case "string_too_long":
            length, most = len(first["input"]), first["ctx"]["max_length"]
            return f"{place} has {length:,} characters, and at most {most:,} are allowed; shorten it"
        case "too_long":
            return f"{place} has more than {first['ctx']['max_length']:,} entries; send fewer"
        case "wrong_kinds":
            return f"{place} or an entry of it has a type that is not allowed; send one that is"
    message = str(first["msg"])
    return f"{place or 'the request'}: {message[:1].lower()}{message[1:]}"


def _best_fitting(error: ValidationError) -> dict[str, Any]:
    """The first error. Of a value that may have several types, it is that of a type which the value has."""
    errors: list[Any] = error.errors(include_url=False, include_context=True)
    first = dict(errors[0])
    kind = next((index for index, part in enumerate(first["loc"]) if KIND.fullmatch(str(part))), None)
    if kind is None:
        return first
    place = first["loc"][:kind]
    own = [each for each in errors if each["loc"][:kind] == place]
    return next((each for each in own if not each["type"].endswith("_type")), first | {"type": "wrong_kinds"})
