"""Named variants: a public table a room keeps and anyone may add to."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import Any, TypeVar

from regard.errors import UnknownName, nearest

Entry = TypeVar("Entry")


class Registry(dict[str, Entry]):
    """Variants by name; a name that is not there is answered with the nearest one that is.

    `SIMILARITIES["mine"] = Mine` adds a variant for everybody who builds from now on.
    """

    def __init__(self, idea: str, entries: dict[str, Entry]):
        super().__init__(entries)
        self.idea = idea

    def find(self, name: str) -> Entry:
        """The entry of that name, or an UnknownName that shows what there is."""
        if name in self:
            return self[name]
        raise UnknownName(f"unknown {self.idea} {name!r}; {nearest(name, self)}")


@dataclass(frozen=True)
class NamedIn:
    """Marks a setting as a name in the table `table` of `module`, which is imported only when it is asked.

    `optimizer: Annotated[str, NamedIn("regard.training.optimizers", "OPTIMIZERS")]`
    """

    module: str
    table: str

    def find(self) -> Registry[Any]:
        """The live table."""
        return getattr(import_module(self.module), self.table)
