"""Registries of named variants, to which users can add their own."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import Any, TypeVar

from regard.errors import UnknownName, nearest

Entry = TypeVar("Entry")


class Registry(dict[str, Entry]):
    """Variants by name; `SIMILARITIES["mine"] = Mine` adds one.

    `kind` is what error messages call an entry.
    """

    def __init__(self, kind: str, entries: dict[str, Entry]):
        super().__init__(entries)
        self.kind = kind

    def find(self, name: str) -> Entry:
        """The entry of that name; UnknownName if there is none."""
        if name in self:
            return self[name]
        raise UnknownName(f"unknown {self.kind} {name!r}; {nearest(name, self)}")


@dataclass(frozen=True)
class NamedIn:
    """Annotates a setting as a name in a registry; `load` imports the module of the registry.

    `optimizer: Annotated[str, NamedIn("regard.training.optimizers", "OPTIMIZERS")]`
    """

    module: str
    registry: str

    def load(self) -> Registry[Any]:
        """The registry itself, including entries that users added."""
        return getattr(import_module(self.module), self.registry)
