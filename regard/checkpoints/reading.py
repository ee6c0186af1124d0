"""Reading files that anybody may have written: checked before they are believed, mapped instead of copied.

Loads no torch. Whatever is wrong is one CheckpointError that names the file.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TypeGuard

import numpy as np

from regard.checkpoints.writing import DTYPES, MANIFEST, MANIFEST_FORMAT, digest_of
from regard.errors import CheckpointError

LARGEST_JSON = 1 << 24
LARGEST_HEADER = 1 << 24  # a model of ten thousand weights needs about a million bytes


def read_json(path: Path, largest: int = LARGEST_JSON) -> dict[str, Any]:
    """The object in a JSON file."""
    try:
        size = path.stat().st_size
        if size > largest:
            raise CheckpointError(f"{path} has {size:,} bytes; such a file has at most {largest:,}")
        values = json.loads(path.read_bytes())
    except OSError as error:
        raise CheckpointError(f"cannot read {path}: {error.strerror or error}") from None
    except (ValueError, RecursionError):
        raise CheckpointError(f"{path} is damaged: it is no JSON") from None
    if not isinstance(values, dict):
        raise CheckpointError(f"{path} is damaged: it holds a {type(values).__name__}, not an object")
    return values


def check_manifest(folder: Path) -> list[str]:
    """Compare every file with the manifest that was written beside it, and give their names."""
    if not folder.is_dir():
        raise CheckpointError(f"{folder} is no folder; give the folder that a run or a save has made")
    sealed = read_json(folder / MANIFEST)
    manifest = sealed.get("manifest")
    if not isinstance(manifest, dict) or sealed.get("sha256") != digest_of(manifest):
        raise CheckpointError(f"{folder / MANIFEST} is damaged: it does not match its own sha256")
    if manifest.get("format") != MANIFEST_FORMAT:
        raise CheckpointError(f"{folder / MANIFEST} is of a newer format; update regard to read it")
    files = manifest.get("files")
    if not isinstance(files, dict) or not all(isinstance(entry, dict) for entry in files.values()):
        raise CheckpointError(f"{folder / MANIFEST} is damaged: it lists no files")
    for name, entry in files.items():
        _check_file(inside(folder, name), entry)
    return list(files)


def inside(folder: Path, name: str) -> Path:
    """A file of a folder by a name that somebody wrote down; one that leads out of the folder is refused."""
    plain = name not in ("", ".", "..") and not set(name) & set("/\\:\0")
    if not plain or (folder / name).resolve().parent != folder.resolve():
        raise CheckpointError(f"{folder} names a file {name!r}, which lies outside; it is refused")
    return folder / name


def _check_file(path: Path, expected: dict[str, Any]) -> None:
    try:
        size = path.stat().st_size
        if size != expected.get("size"):
            raise CheckpointError(f"{path} is damaged: it has {size} bytes, not {expected.get('size')}")
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise CheckpointError(f"{path} is missing or cannot be read: {error.strerror or error}") from None
    if digest != expected.get("sha256"):
        raise CheckpointError(f"{path} is damaged: its sha256 is not that of the manifest")


class MappedWeights(Mapping[str, np.ndarray]):
    """The arrays of a safetensors file by name; one is read from disk when its numbers are.

    The header is believed only where it fits the file exactly: every byte of it in one array. What is
    stored as bfloat16 comes as float32.
    """

    def __init__(self, path: Path):
        self.path = path
        try:
            self._begin, entries = self._read_header()
            self._entries = {name: self._check(name, entry) for name, entry in entries.items()}
            self._check_layout()
            self._map = np.memmap(path, np.uint8, "r") if self._end else np.zeros(self._begin, np.uint8)
        except OSError as error:
            raise CheckpointError(f"cannot read {path}: {error.strerror or error}") from None

    def __getitem__(self, name: str) -> np.ndarray:
        dtype, shape, begin, end = self._entries[name]
        raw = self._map[self._begin + begin : self._begin + end]
        if dtype == "BF16":
            wide = raw.view("<u2").astype("<u4") << 16
            return wide.view("<f4").reshape(shape)
        return raw.view(DTYPES[dtype]).reshape(shape)

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The shape of each array, without reading any."""
        return {name: entry[1] for name, entry in self._entries.items()}

    def _damaged(self, what: str) -> CheckpointError:
        return CheckpointError(f"{self.path} is damaged or no weight file: {what}")

    def _read_header(self) -> tuple[int, dict[str, Any]]:
        size = self.path.stat().st_size
        with self.path.open("rb") as file:
            length = int.from_bytes(file.read(8), "little")
            if size < 8 or length > min(size - 8, LARGEST_HEADER):
                raise self._damaged(f"a header of {length:,} bytes in a file of {size:,}")
            try:
                header = json.loads(file.read(length), object_pairs_hook=_without_repeats)
            except (ValueError, RecursionError):
                raise self._damaged("its header cannot be read") from None
        if not isinstance(header, dict):
            raise self._damaged("its header lists no weights")
        header.pop("__metadata__", None)
        self._end = size - 8 - length
        return 8 + length, header

    def _check(self, name: str, entry: Any) -> tuple[str, tuple[int, ...], int, int]:
        values: dict[str, Any] = entry if isinstance(entry, dict) else {}
        dtype, shape, offsets = (values.get(key) for key in ("dtype", "shape", "data_offsets"))
        if not isinstance(dtype, str) or (dtype not in DTYPES and dtype != "BF16"):
            raise self._damaged(f"{name[:60]} holds {str(dtype)[:20]}, which is not supported")
        if not _are_sizes(shape) or not _are_sizes(offsets) or len(offsets) != 2 or len(shape) > 16:
            raise self._damaged(f"{name[:60]} has no shape or place")
        itemsize = 2 if dtype == "BF16" else np.dtype(DTYPES[dtype]).itemsize
        if offsets[1] - offsets[0] != math.prod(shape) * itemsize:
            raise self._damaged(f"{name[:60]} has another shape than it has bytes")
        return dtype, tuple(shape), offsets[0], offsets[1]

    def _check_layout(self) -> None:
        """No gap and no overlap from the first byte to the last."""
        end = 0
        for name, (_, _, begin, after) in sorted(self._entries.items(), key=lambda item: item[1][2:]):
            if begin != end:
                raise self._damaged(f"{name[:60]} overlaps its neighbour or leaves a gap")
            end = after
        if end != self._end:
            raise self._damaged(f"its weights take {end:,} bytes, and it has {self._end:,}")


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) < len(pairs):
        raise ValueError("a name twice")
    return values


def _are_sizes(values: Any) -> TypeGuard[list[int]]:
    return isinstance(values, list) and all(type(one) is int and 0 <= one < 1 << 62 for one in values)
