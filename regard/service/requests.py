"""What a page may ask, checked before anything is computed: types, sizes, no unknown keys, no NaN."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

LONGEST_TEXT = 20_000  # characters
MOST_INTERVENTIONS, MOST_OFF = 64, 512
MOST_IDS = 1 << 16
MOST_BEAMS = 16

Text = Annotated[str, Field(max_length=LONGEST_TEXT)]
Name = Annotated[str, Field(max_length=200)]
Number = Annotated[int, Field(ge=0, le=1 << 31)]
Ids = Annotated[list[Number], Field(max_length=MOST_IDS)]
Head = tuple[Name, Number, Number]
Ablate = Annotated[list[Name | Head], Field(max_length=MOST_OFF)]
Weight = Annotated[float, Field(ge=0.0, le=1.0)]


class Asked(BaseModel):
    """A request: unknown keys, other types and numbers that are none are refused."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", strict=True, allow_inf_nan=False, protected_namespaces=()
    )


class InterventionAsked(Asked):
    """One query's row in one head, set by a person."""

    kind: Name
    layer: Number
    head: Number
    query: Number
    row: Annotated[list[Weight], Field(max_length=MOST_IDS)]


Interventions = Annotated[list[InterventionAsked], Field(max_length=MOST_INTERVENTIONS)]


class OfModel(Asked):
    """What every request says: which model is meant, as it was at which step of its training."""

    model: Name
    snapshot: Number | None = None


class TraceAsked(OfModel):
    """Read a text, and see everything that is computed."""

    text: Text
    target: Text | None = None
    target_ids: Ids | None = None
    ablate: Ablate = Field(default_factory=list)
    interventions: Interventions = Field(default_factory=list)


class NextAsked(OfModel):
    """What may follow a text and some ids."""

    text: Text
    ids: Ids = Field(default_factory=list)
    ablate: Ablate = Field(default_factory=list)
    interventions: Interventions = Field(default_factory=list)


class TranslateAsked(OfModel):
    """A translation by beam search, with its tree."""

    text: Text
    beams: Annotated[int, Field(ge=1, le=MOST_BEAMS)] = 4
    length_penalty: Annotated[float, Field(ge=0.0, le=10.0)] = 0.6
    ablate: Ablate = Field(default_factory=list)


class CompareAsked(OfModel):
    """Two texts, and the number of a word in the first."""

    first: Text
    second: Text
    side: Name | None = None
    word: Number
    ablate: Ablate = Field(default_factory=list)


class AblationAsked(OfModel):
    """What changes with parts off."""

    text: Text
    ablate: Ablate = Field(default_factory=list)


class FillAsked(OfModel):
    """A text with masks."""

    text: Text
    top: Annotated[int, Field(ge=1, le=100)] = 10


class ClassifyAsked(OfModel):
    """A text to be labelled."""

    text: Text


def one_sentence(error: ValidationError) -> str:
    """The first thing that is wrong with a request."""
    first: dict[str, Any] = dict(error.errors(include_url=False, include_context=True)[0])
    place = ".".join(map(str, first["loc"]))
    if place.startswith("ablate."):
        return "ablate: each part is a name, such as scaling, or a head, such as [kind, layer, head]"
    match first["type"]:
        case "json_invalid":
            return "this is no JSON; send an object"
        case "extra_forbidden":
            return f"unknown key {place[:80]!r}; leave it out"
        case "missing":
            return f"{place} is missing; send it too"
        case "string_too_long":
            length, most = len(first["input"]), first["ctx"]["max_length"]
            return f"{place} has {length:,} characters and at most {most:,} are read; shorten it"
        case "too_long":
            return f"{place} has more than {first['ctx']['max_length']:,} entries; send fewer"
    said = str(first["msg"])
    return f"{place or 'the request'}: {said[:1].lower()}{said[1:]}"
