"""The report of names and shapes of weights that do not match."""

from __future__ import annotations

from collections.abc import Iterable

from regard.checkpoints.untrusted_files import shorten_name
from regard.errors import CheckpointError


def wrong_shape(name: str, shape: Iterable[int], expected: Iterable[int]) -> str:
    """Describe a weight whose shape is not the expected one."""
    sizes = [" x ".join(map(str, axes)) or "one number" for axes in (shape, expected)]
    return f"{name} is {sizes[0]}, not {sizes[1]}"


def report_names(headline: str, missing: list[str], wrong: list[str], extra: list[str]) -> None:
    """Raise a CheckpointError that lists the first five names of each kind, if there are any."""
    kinds = (("missing", missing), ("wrong", wrong), ("extra", extra))
    parts = [f"{kind}: {_first_five(names)}" for kind, names in kinds if names]
    if parts:
        raise CheckpointError(f"{headline}; {'; '.join(parts)}")


def _first_five(names: list[str]) -> str:
    listed = ", ".join(map(shorten_name, names[:5]))
    return listed if len(names) <= 5 else f"{listed} and {len(names) - 5} more"
