"""Settings: values validated on construction, with one-line errors."""

from __future__ import annotations

import json
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from regard.errors import SettingError, nearest
from regard.registry import NamedIn


class Settings(BaseModel):
    """A frozen group of settings; unknown keys, wrong types and NaN raise a SettingError."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", strict=True, allow_inf_nan=False, protected_namespaces=()
    )

    def __init__(self, **values: Any):
        try:
            super().__init__(**values)
        except ValidationError as error:
            raise SettingError(_one_line(type(self), error)) from None

    @classmethod
    def read(cls, values: Any) -> Any:
        """Settings from a parsed file, which may contain any value."""
        if not isinstance(values, dict):
            raise SettingError(f"{cls.__name__} must be a table of settings, not {type(values).__name__}")
        return cls(**{str(key): value for key, value in values.items()})

    def changed(self, **values: Any) -> Any:
        """A validated copy with these settings replaced."""
        return type(self)(**{**self.model_dump(exclude_unset=True), **values})

    def canonical(self) -> str:
        """The settings that differ from their defaults, as JSON; adding a setting does not change it."""
        return json.dumps(self.model_dump(mode="json", exclude_defaults=True), sort_keys=True)

    def check_names(self) -> None:
        """Raise UnknownName for a name that its registry lacks; imports the modules of the registries."""
        for name, field in type(self).model_fields.items():
            for annotation in field.metadata:
                value = getattr(self, name)
                if isinstance(annotation, NamedIn) and value is not None:
                    annotation.load().find(value)


def _one_line(owner: type[BaseModel], error: ValidationError) -> str:
    first = error.errors()[0]
    name = ".".join(map(str, first["loc"]))
    if first["type"] == "extra_forbidden":
        return f"unknown setting {name!r}; {nearest(name, owner.model_fields)}"
    if first["type"] == "value_error":
        return str(first.get("ctx", {}).get("error"))
    if first["type"] == "missing":
        return f"{name} is missing; {owner.__name__} needs it"
    return f"{name} ({_shorten(first['input'])}): {first['msg'][0].lower()}{first['msg'][1:]}"


def _shorten(value: Any) -> str:
    try:
        text = repr(value)
    except (ValueError, RecursionError):  # thousands of digits or brackets
        return f"a huge {type(value).__name__}"
    return text if len(text) <= 60 else text[:57] + "..."
