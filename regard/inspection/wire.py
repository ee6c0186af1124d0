"""The sheet: a table of facts and some arrays in one binary message, as the view reads it.

    uint32, little-endian    the length of the header
    header                   JSON, padded with spaces so that what follows starts at a multiple of 8
    arrays                   each at a multiple of 8 from the end of the header

The header is {"meta": ..., "arrays": [{"name", "dtype", "shape", "offset", "scale"}]}; a value is what is
stored times its array's scale.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from regard.errors import DataError

DTYPES = ("float32", "float16", "uint8")
ALIGNED = 8
LARGEST_HALF = float(np.finfo(np.float16).max)


@dataclass(frozen=True, eq=False)
class Coarse:
    """An array in 255 steps from 0 to its largest value."""

    stored: np.ndarray  # uint8
    scale: float


@dataclass(frozen=True, eq=False)
class Sheet:
    """What a message holds."""

    meta: dict[str, Any]
    arrays: dict[str, np.ndarray]  # float32


def coarse(values: np.ndarray) -> Coarse:
    """Values of 0 or more in a byte each; what is no number counts as 0."""
    if not math.isfinite(values.sum()):
        values = np.nan_to_num(values, nan=0.0, posinf=0.0, neginf=0.0)
    largest = float(values.max(initial=0.0))
    scale = largest / 255 if largest > 0 else 1.0
    steps = values / values.dtype.type(scale)
    return Coarse(np.rint(steps, out=steps).astype(np.uint8), scale)


def half(values: np.ndarray) -> np.ndarray:
    """Values as float16, or as float32 where one is too large for that."""
    largest = float(np.abs(values).max(initial=0.0))
    return values.astype(np.float16 if largest <= LARGEST_HALF else np.float32)


def pack(meta: Mapping[str, Any], arrays: Mapping[str, np.ndarray | Coarse]) -> bytes:
    """A message of facts and arrays; what is neither float16 nor a byte becomes float32."""
    entries, parts, offset = [], [], 0
    for name, given in arrays.items():
        stored, scale = (given.stored, given.scale) if isinstance(given, Coarse) else (_plain(given), 1.0)
        place = {"name": name, "dtype": stored.dtype.name, "shape": list(stored.shape)}
        entries.append({**place, "offset": offset, "scale": scale})
        parts.append(_padded(stored.astype(stored.dtype.newbyteorder("<"), order="C").tobytes(), b"\0"))
        offset += len(parts[-1])
    told = json.dumps({"meta": dict(meta), "arrays": entries}, ensure_ascii=False, allow_nan=False)
    header = _padded(told.encode(), b" ", before=4)
    return b"".join([len(header).to_bytes(4, "little"), header, *parts])


def unpack(message: bytes) -> Sheet:
    """The facts and arrays of a message."""
    length = int.from_bytes(message[:4], "little")
    try:
        header = json.loads(message[4 : 4 + length])
        arrays = {each["name"]: _read(message, 4 + length, each) for each in header["arrays"]}
        return Sheet(header["meta"], arrays)
    except (ValueError, LookupError, TypeError):
        raise DataError("this is no sheet, or a damaged one; ask for it again") from None


def _plain(values: np.ndarray) -> np.ndarray:
    """Truth as bytes, other numbers as one of the kinds that the view knows."""
    if values.dtype == np.bool_:
        return values.astype(np.uint8)
    return values if values.dtype.name in DTYPES else values.astype(np.float32)


def _padded(data: bytes, filler: bytes, before: int = 0) -> bytes:
    return data + filler * (-(before + len(data)) % ALIGNED)


def _read(message: bytes, start: int, entry: Mapping[str, Any]) -> np.ndarray:
    if entry["dtype"] not in DTYPES:
        raise ValueError(entry["dtype"])
    dtype = np.dtype(entry["dtype"]).newbyteorder("<")
    count = int(np.prod(entry["shape"], dtype=np.int64))
    stored = np.frombuffer(message, dtype, count, start + entry["offset"])
    return stored.reshape(entry["shape"]).astype(np.float32) * np.float32(entry["scale"])
