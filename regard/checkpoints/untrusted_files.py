"""Reading files that anybody may have written: checked before they are believed, mapped instead of copied.

Every file is opened by `regard.opener`. Loads no torch. Whatever is wrong is one CheckpointError that names
the file.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
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
LARGEST_OTHER = 1 << 26  # any file but weights
LARGEST_HEADER = 1 << 24  # a training state of a hundred thousand tensors has about so much
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
            f"{path} is damaged: it is no JSON, or holds text that is not Unicode"
        ) from None
    if not isinstance(values, dict):
        raise CheckpointError(f"{path} is damaged: it holds a {type(values).__name__}, not an object")
    return values


def parse_json(raw: bytes) -> Any:
    """The value of JSON; no name twice, and no half of a surrogate pair, which cannot be written again."""
    text = raw.decode("utf-8")
    values = json.loads(text, object_pairs_hook=_without_repeats)
    if _SURROGATE.search(text):
        json.dumps(values, ensure_ascii=False).encode()
    return values


def quoted(name: str) -> str:
    """A name out of a file as a line can hold it."""
    shown = repr(name)[1:-1]
    return shown if len(shown) <= 60 else f"{shown[:57]}..."


@dataclass(frozen=True)
class FolderFiles:
    """The files of one folder, by names that somebody wrote down; each of them is opened through this.

    `listed` is what the manifest says of each file. A folder of another project has no manifest: None.
    """

    folder: Path
    listed: Mapping[str, Mapping[str, Any]] | None = None

    @classmethod
    def sealed(cls, folder: Path) -> FolderFiles:
        """The files that a folder's manifest lists: all regular, inside, and of the size that it says."""
        if not _is_folder(folder):
            raise CheckpointError(f"{folder} is no folder; give the folder that a run or a save has made")
        files = cls(folder, _read_manifest(folder / MANIFEST))
        for name in files.listed or ():
            with files.open(name):
                pass
        return files

    def __contains__(self, name: str) -> bool:
        return os.path.lexists(self.folder / name) if self.listed is None else name in self.listed

    def path(self, name: str) -> Path:
        """Where a file is; a name that leads out of the folder, or that the manifest lacks, is refused."""
        plain = name not in ("", ".", "..") and not set(name) & set("/\\:\0")
        if not plain:
            raise CheckpointError(
                f"{self.folder} names a file '{quoted(name)}', which lies outside; it is refused"
            )
        if self.listed is not None and name not in self.listed:
            raise CheckpointError(f"{self.folder / name} is not in the folder's manifest; it is refused")
        return self.folder / name

    def open(self, name: str) -> BufferedReader:
        """A file, open for reading; of the size in the manifest, and bounded unless it holds weights."""
        path = self.path(name)
        try:
            file = open_regular(path, None if name.endswith(WEIGHT_FILE) else LARGEST_OTHER)
        except OSError as error:
            shown = self.folder / quoted(name)
            raise CheckpointError(
                f"{shown} is missing or cannot be read: {error.strerror or error}"
            ) from None
        size = os.fstat(file.fileno()).st_size
        if self.listed is not None and size != self.listed[name]["size"]:
            file.close()
            raise CheckpointError(f"{path} is damaged: it has {size} bytes, not {self.listed[name]['size']}")
        return file

    def json(self, name: str, largest: int = LARGEST_JSON) -> dict[str, Any]:
        """The object in a JSON file of the folder."""
        return read_json(self.path(name), largest)

    def weights(self, name: str, largest_header: int = LARGEST_HEADER) -> MappedWeights:
        """The arrays of a weight file of the folder."""
        return MappedWeights(self.path(name), largest_header)

    def verify(self, names: Iterable[str] | None = None) -> list[str]:
        """Compare these files, or all of them, with their sha256."""
        listed = self.listed or {}
        chosen = list(listed if names is None else names)
        for name in chosen:
            with self.open(name) as file:
                digest = hashlib.file_digest(file, "sha256").hexdigest()
            if digest != listed[name]["sha256"]:
                raise CheckpointError(f"{self.path(name)} is damaged: its sha256 is not that of the manifest")
        return chosen


def _is_folder(folder: Path) -> bool:
    try:
        return folder.is_dir()
    except (OSError, ValueError):  # a name too long, a folder that nobody may enter
        return False


def _read_manifest(path: Path) -> dict[str, dict[str, Any]]:
    sealed = read_json(path, LARGEST_MANIFEST)
    manifest = sealed.get("manifest")
    if not isinstance(manifest, dict) or sealed.get("sha256") != digest_of(manifest):
        raise CheckpointError(f"{path} is damaged: it does not match its own sha256")
    if manifest.get("format") != MANIFEST_FORMAT:
        raise CheckpointError(f"{path} is of a newer format; update regard to read it")
    files = manifest.get("files")
    if not isinstance(files, dict) or not all(map(_is_entry, files.values())):
        raise CheckpointError(f"{path} is damaged: it lists no files")
    return files


def _is_entry(entry: Any) -> bool:
    return isinstance(entry, dict) and type(entry.get("size")) is int and isinstance(entry.get("sha256"), str)


def check_manifest(folder: Path) -> list[str]:
    """Compare every file with the manifest that was written beside it, and give their names."""
    return FolderFiles.sealed(folder).verify()


class MappedWeights(Mapping[str, np.ndarray]):
    """The arrays of a safetensors file by name; one is read from disk when its numbers are.

    The header is believed only where it fits the file exactly: every byte of it in one array. What is
    stored as bfloat16 comes as float32.
    """

    def __init__(self, path: Path, largest_header: int = LARGEST_HEADER):
        self.path, self._largest_header = path, largest_header
        try:
            with open_regular(path) as file:
                self._begin, entries = self._read_header(file)
                self._entries = {name: self._check(name, entry) for name, entry in entries.items()}
                self._check_layout()
                self._map = np.memmap(file, np.uint8, "r") if self._end else np.zeros(self._begin, np.uint8)
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

    @property
    def dtypes(self) -> dict[str, str]:
        """The type of each array as the format names it, such as F32."""
        return {name: entry[0] for name, entry in self._entries.items()}

    def read(self, name: str) -> np.ndarray:
        """A copy of an array, read past the map, whose pages would take the same memory once more."""
        dtype, shape, begin, end = self._entries[name]
        with open_regular(self.path) as file:
            file.seek(self._begin + begin)
            raw = np.fromfile(file, np.uint8, end - begin)
        return raw.view(DTYPES[dtype]).reshape(shape)

    def _damaged(self, what: str) -> CheckpointError:
        return CheckpointError(f"{self.path} is damaged or no weight file: {what}")

    def _read_header(self, file: BufferedReader) -> tuple[int, dict[str, Any]]:
        size = os.fstat(file.fileno()).st_size
        length = int.from_bytes(file.read(8), "little")
        if size < 8 or length > min(size - 8, self._largest_header):
            raise self._damaged(f"a header of {length:,} bytes in a file of {size:,}")
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
            raise self._damaged(f"{quoted(name)} holds {quoted(str(dtype)[:20])}, which is not supported")
        if not _are_sizes(shape) or not _are_sizes(offsets) or len(offsets) != 2 or len(shape) > 16:
            raise self._damaged(f"{quoted(name)} has no shape or place")
        itemsize = 2 if dtype == "BF16" else np.dtype(DTYPES[dtype]).itemsize
        if offsets[1] - offsets[0] != math.prod(shape) * itemsize:
            raise self._damaged(f"{quoted(name)} has another shape than it has bytes")
        return dtype, tuple(shape), offsets[0], offsets[1]

    def _check_layout(self) -> None:
        """No gap and no overlap from the first byte to the last."""
        end = 0
        for name, (_, _, begin, after) in sorted(self._entries.items(), key=lambda item: item[1][2:]):
            if begin != end:
                raise self._damaged(f"{quoted(name)} overlaps its neighbour or leaves a gap")
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
