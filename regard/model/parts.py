"""The parts of a model that can be ablated, as callers name them. Loads no torch."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from regard.errors import SettingError

Part = str | tuple[str, int, int]

_FORM = 'a part is a name such as "scaling", or a head such as ("encoder", layer, head)'


def parts_of(ablate: Part | Iterable[Part]) -> tuple[Part, ...]:
    """Normalize one part or several to a tuple, and check the form of each."""
    if isinstance(ablate, str) or _is_head(ablate):
        return (ablate,)  # type: ignore[return-value]
    if not isinstance(ablate, Iterable):
        raise SettingError(f"ablate ({ablate!r}) must be a list of parts; {_FORM}")
    parts = tuple(ablate)
    for part in parts:
        if not isinstance(part, str) and not _is_head(part):
            raise SettingError(f"ablate contains {part!r}; {_FORM}")
    return parts  # type: ignore[return-value]


def _is_head(part: Any) -> bool:
    if not isinstance(part, tuple | list) or len(part) != 3:
        return False
    kind, *numbers = part
    return isinstance(kind, str) and all(isinstance(number, int | np.integer) for number in numbers)
