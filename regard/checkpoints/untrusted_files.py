"""Reading files of unknown origin: bounded, verified and memory-mapped.

`regard.opener` opens every file. Imports no torch. Any defect raises a CheckpointError that names the file.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
import threading
import weakref
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path
from typing import Any, TypeGuard

import numpy as np

from regard.checkpoints.atomic_folders import DTYPES, MANIFEST, MANIFEST_FORMAT, digest_of
from regard.errors import CheckpointError
from regard.opener import open_regular, read_regular

LARGEST_MANIFEST = 1 << 20
LARGEST_JSON = 1 << 24
LARGEST_OTHER = 1 << 26  # bytes of any file except weights
LARGEST_HEADER = 1 << 24  # bytes; about the header of a training state with a hundred thousand tensors
LONGEST_NAME = 255  # characters of the name of a file
WEIGHT_FILE = ".safetensors"

_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")


def read_json(path: Path, largest: int = LARGEST_JSON) -> dict[str, Any]:
    """The object in a JSON file."""
    try:
        values = parse_json(read_regular(path, largest))
    except OSError as error:
        raise CheckpointError(f"cannot read {path}: {error.strerror or error}") from None
    except (ValueError, RecursionError):
        raise CheckpointError(
            f"{path} is damaged: it is not JSON, or contains text that is not Unicode"
        ) from None
    if not isinstance(values, dict):
        raise CheckpointError(f"{path} is damaged: it contains a {type(values).__name__}, not an object")
    return values


def parse_json(raw: bytes) -> Any:
    """Parse JSON; raise on a repeated name and on a lone surrogate, which UTF-8 cannot encode."""
    text = raw.decode("utf-8")
    values = json.loads(text, object_pairs_hook=_without_repeats)
    if _SURROGATE.search(text):
        json.dumps(values, ensure_ascii=False).encode()
    return values


def shorten_name(name: str) -> str:
    """An escaped name from a file, at most 60 characters long."""
    escaped = repr(name)[1:-1]
    return escaped if len(escaped) <= 60 else f"{escaped[:57]}..."


@dataclass(frozen=True)
class FolderFiles:
    """Access to the files of one folder by untrusted names.

    `listed` is the manifest's entry of each file; None for a folder of another project, without a manifest.
    """

    folder: Path
    listed: Mapping[str, Mapping[str, Any]] | None = None

    @classmethod
    def sealed(cls, folder: Path) -> FolderFiles:
        """The files in a folder's manifest; raise unless all are regular files of the listed size."""
        if not _is_folder(folder):
            raise CheckpointError(f"{folder} is not a folder; pass the folder of a run or of a saved model")
        files = cls(folder, _read_manifest(folder / MANIFEST))
        for name in files.listed or ():
            with files.open(name):
                pass
        return files

    def __contains__(self, name: str) -> bool:
        return os.path.lexists(self.folder / name) if self.listed is None else name in self.listed

    def path(self, name: str) -> Path:
        """The path of a file; raise if the name leads out of the folder or is not in the manifest."""
        if name in ("", ".", "..") or set(name) & set("/\\:\0"):
            raise CheckpointError(f"{self.folder} names '{shorten_name(name)}', which is outside of it")
        if len(name) > LONGEST_NAME or not name.isprintable():
            raise CheckpointError(
                f"{self.folder} names '{shorten_name(name)}', which no file has; correct it"
            )
        if self.listed is not None and name not in self.listed:
            raise CheckpointError(f"{self.folder / name} is not in the folder's manifest; remove the file")
        return self.folder / name

    def open(self, name: str) -> BufferedReader:
        """Open a file; raise if its size differs from the manifest or, except for weights, is too large."""
        path = self.path(name)
        try:
            file = open_regular(path, None if name.endswith(WEIGHT_FILE) else LARGEST_OTHER)
        except OSError as error:
            raise CheckpointError(
                f"{self.folder / shorten_name(name)} is missing or cannot be read: {error.strerror or error}"
            ) from None
        size = os.fstat(file.fileno()).st_size
        if self.listed is not None and size != self.listed[name]["size"]:
            file.close()
            raise CheckpointError(f"{path} is damaged: it has {size} bytes, not {self.listed[name]['size']}")
        return file

    def json(self, name: str, largest: int = LARGEST_JSON) -> dict[str, Any]:
        """The object in a JSON file of the folder."""
        return read_json(self.path(name), largest)

    def weights(
        self, name: str, largest_header: int = LARGEST_HEADER, writable: bool = False
    ) -> MappedWeights:
        """The arrays of a weight file of the folder."""
        return MappedWeights(self.path(name), largest_header, writable)

    def verify(self, names: Iterable[str] | None = None) -> list[str]:
        """Compare these files, or all, with their sha256 and return their names."""
        listed = self.listed or {}
        verified = list(listed if names is None else names)
        for name in verified:
            with self.open(name) as file:
                digest = hashlib.file_digest(file, "sha256").hexdigest()
            if digest != listed[name]["sha256"]:
                raise CheckpointError(f"{self.path(name)} is damaged: its sha256 differs from the manifest")
        return verified


def _is_folder(folder: Path) -> bool:
    try:
        return folder.is_dir()
    except (OSError, ValueError):  # the name is too long, or access is denied
        return False


def _read_manifest(path: Path) -> dict[str, dict[str, Any]]:
    sealed = read_json(path, LARGEST_MANIFEST)
    manifest = sealed.get("manifest")
    if not isinstance(manifest, dict) or sealed.get("sha256") != digest_of(manifest):
        raise CheckpointError(f"{path} is damaged: it does not match its own sha256")
    if manifest.get("format") != MANIFEST_FORMAT:
        raise CheckpointError(f"{path} has a newer format; update regard")
    files = manifest.get("files")
    if not isinstance(files, dict) or not all(map(_is_entry, files.values())):
        raise CheckpointError(f"{path} is damaged: it lists no files")
    return files


def _is_entry(entry: Any) -> bool:
    return isinstance(entry, dict) and type(entry.get("size")) is int and isinstance(entry.get("sha256"), str)


def check_manifest(folder: Path) -> list[str]:
    """Compare every file of a folder with its manifest and return their names."""
    return FolderFiles.sealed(folder).verify()


class MappedFile:
    """An open file of which parts are mapped or read; both see the same contents after it was replaced.

    Pages that were read through the map count as memory of the process; copies do not need them.
    """

    def __init__(self, path: Path, file: BufferedReader, writable: bool = False):
        self._path, self._lock = path, threading.Lock()
        self._file = os.fdopen(os.dup(file.fileno()), "rb")
        weakref.finalize(self, self._file.close)
        size = os.fstat(file.fileno()).st_size
        self.map = np.memmap(file, np.uint8, "c" if writable else "r") if size else np.zeros(0, np.uint8)

    def read(self, begin: int, end: int) -> np.ndarray:
        """A copy of these bytes."""
        with self._lock:
            self._file.seek(begin)
            raw = np.fromfile(self._file, np.uint8, end - begin)
        if len(raw) < end - begin:
            raise CheckpointError(f"{self._path} became shorter while it was read")
        return raw


class MappedWeights(Mapping[str, np.ndarray]):
    """The memory-mapped arrays of a safetensors file by name.

    The header must cover the file exactly: each byte belongs to one array. bfloat16 is converted to float32.
    Arrays that are `writable` can be changed in memory; the file never changes.
    """

    def __init__(self, path: Path, largest_header: int = LARGEST_HEADER, writable: bool = False):
        self.path, self._largest_header = path, largest_header
        try:
            with open_regular(path) as file:
                self._begin, entries = self._read_header(file)
                self._entries = {name: self._check(name, entry) for name, entry in entries.items()}
                self._check_layout()
                self._file = MappedFile(path, file, writable)
        except OSError as error:
            raise CheckpointError(f"cannot read {path}: {error.strerror or error}") from None

    def __getitem__(self, name: str) -> np.ndarray:
        _, _, begin, end = self._entries[name]
        return self._array(name, self._file.map[self._begin + begin : self._begin + end])

    def __contains__(self, name: object) -> bool:
        return name in self._entries  # Mapping's own method would convert the array

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The shape of each array, from the header."""
        return {name: entry[1] for name, entry in self._entries.items()}

    @property
    def dtypes(self) -> dict[str, str]:
        """The type of each array in the format's terms, such as F32."""
        return {name: entry[0] for name, entry in self._entries.items()}

    def read(self, name: str) -> np.ndarray:
        """A copy of an array, read without the memory map, whose pages would double the memory."""
        _, _, begin, end = self._entries[name]
        return self._array(name, self._file.read(self._begin + begin, self._begin + end))

    def _array(self, name: str, raw: np.ndarray) -> np.ndarray:
        dtype, shape, _, _ = self._entries[name]
        if dtype == "BF16":
            return (raw.view("<u2").astype("<u4") << 16).view("<f4").reshape(shape)
        return raw.view(DTYPES[dtype]).reshape(shape)

    def _damaged(self, defect: str) -> CheckpointError:
        return CheckpointError(f"{self.path} is damaged or not a weight file: {defect}")

    def _read_header(self, file: BufferedReader) -> tuple[int, dict[str, Any]]:
        size = os.fstat(file.fileno()).st_size
        length = int.from_bytes(file.read(8), "little")
        if size < 8 or length > min(size - 8, self._largest_header):
            raise self._damaged(f"its header has {length:,} bytes and the file {size:,}")
        try:
            header = parse_json(file.read(length))
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
            raise self._damaged(f"{shorten_name(name)} has the unknown type {shorten_name(str(dtype)[:20])}")
        if not _are_sizes(shape) or not _are_sizes(offsets) or len(offsets) != 2 or len(shape) > 16:
            raise self._damaged(f"{shorten_name(name)} has no valid shape or offset")
        itemsize = 2 if dtype == "BF16" else np.dtype(DTYPES[dtype]).itemsize
        if offsets[1] - offsets[0] != math.prod(shape) * itemsize:
            raise self._damaged(f"the shape of {shorten_name(name)} does not match its bytes")
        return dtype, tuple(shape), offsets[0], offsets[1]

    def _check_layout(self) -> None:
        """Raise if the arrays overlap or leave a gap."""
        end = 0
        for name, (_, _, begin, after) in sorted(self._entries.items(), key=lambda item: item[1][2:]):
            if begin != end:
                raise self._damaged(f"{shorten_name(name)} overlaps another array or leaves a gap")
            end = after
        if end != self._end:
            raise self._damaged(f"its arrays have {end:,} bytes and its data {self._end:,}")


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) < len(pairs):
        raise ValueError("repeated name")
    return values


def _are_sizes(values: Any) -> TypeGuard[list[int]]:
    return isinstance(values, list) and all(type(size) is int and 0 <= size < 1 << 62 for size in values)
