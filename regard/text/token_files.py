"""Token files: a data set on disk, built once, verified by sha256 and memory-mapped.

A column is two flat files: the ids (uint16 or int32) and the int64 offset of each sequence. A folder has the
columns of a data set and a manifest with the sha256 of each file. Its name is a digest of the corpus, the
tokenizers and the settings, so that each combination has its own folder.
"""

from __future__ import annotations

import copy
import hashlib
import json
import logging
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from hashlib import sha256
from io import BytesIO
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from regard.errors import DataError
from regard.opener import open_regular, read_regular
from regard.text.corpus import Report


@dataclass(frozen=True, eq=False)
class Sequences:
    """Many sequences of ids in one flat array: sequence i is `ids[offsets[i] : offsets[i + 1]]`."""

    ids: np.ndarray
    offsets: np.ndarray

    @classmethod
    def of(cls, sequences: Iterable[Sequence[int]]) -> Sequences:
        """Sequences in memory, from lists of ids."""
        lists = list(sequences)
        offsets = np.concatenate([[0], np.cumsum([len(ids) for ids in lists], dtype=np.int64)])
        flat = [number for ids in lists for number in ids]
        return cls(np.array(flat, np.int32), offsets.astype(np.int64))

    @classmethod
    def cut(cls, ids: np.ndarray, length: int) -> Sequences:
        """Running text divided into sequences of equal length; the last may be shorter."""
        return cls(ids, np.append(np.arange(0, len(ids), length), len(ids)).astype(np.int64))

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, index: int) -> np.ndarray:
        return self.ids[self.offsets[index] : self.offsets[index + 1]]

    def __iter__(self) -> Iterator[np.ndarray]:
        return (self[index] for index in range(len(self)))

    @cached_property
    def lengths(self) -> np.ndarray:
        """The length of each sequence."""
        return np.diff(self.offsets)

    def lengths_in(self, epoch: int) -> np.ndarray:
        """The length of each sequence in an epoch; augmentations override it."""
        return self.lengths

    def take(self, examples: np.ndarray, epoch: int) -> list[np.ndarray]:
        """The ids of these examples in an epoch; augmentations override it."""
        return [self[index] for index in examples]


@dataclass(frozen=True, eq=False)
class Data:
    """A data set: named columns with one sequence per example, and the report of the corpus.

    Texts are without start and end tokens, which collating adds. `identity` is a digest of the data set.
    `weights` says how often an epoch has each example: a number for each entry of the list of files, or none.
    """

    columns: dict[str, Sequences]
    report: Report = field(default_factory=Report)
    identity: str = ""
    weights: tuple[float, ...] = ()

    def __post_init__(self):
        sizes = {name: len(column) for name, column in self.columns.items()}
        if len(set(sizes.values())) > 1:
            raise DataError(f"the columns of a data set must have equally many sequences, not {sizes}")
        if not self.identity:
            object.__setattr__(self, "identity", _digest_of_ids(self.columns))

    def __len__(self) -> int:
        return len(next(iter(self.columns.values())))

    def __getitem__(self, name: str) -> Sequences:
        return self.columns[name]

    def weighted(self, weights: Sequence[float] | None) -> Data:
        """The same data with these weights."""
        if weights is None:
            return self
        numbers = tuple(map(float, weights))
        return replace(self, weights=numbers, identity=f"{self.identity} weights {numbers}")

    def entries(self, starts: np.ndarray) -> np.ndarray:
        """The entry of the list of files at each of these positions in the ids of the first column."""
        return np.searchsorted(np.cumsum(self.report.tokens)[:-1], starts, side="right")

    @property
    def draws(self) -> np.ndarray:
        """How often an epoch has each example."""
        if not self.weights:
            return np.ones(len(self))
        return np.array(self.weights)[self.entries(next(iter(self.columns.values())).offsets[:-1])]


def _digest_of_ids(columns: dict[str, Sequences]) -> str:
    digest = sha256()
    for name, column in columns.items():
        digest.update(f"{name} {column.ids.dtype} {len(column)}".encode())
        digest.update(np.ascontiguousarray(column.ids).data)
        digest.update(np.ascontiguousarray(column.offsets).data)
    return digest.hexdigest()


FORMAT = 1
_BUFFERED_IDS = 1 << 20
_DAY = 86_400
_LARGEST_MANIFEST = 1 << 24  # bytes

log = logging.getLogger("regard.text")


class ColumnWriter:
    """Appends sequences to a column, with a buffer of about a million ids."""

    def __init__(self, vocabulary: int, ids: BinaryIO, offsets: BinaryIO):
        self.dtype = np.dtype(np.uint16 if vocabulary <= 1 << 16 else np.int32)
        self._ids_file = ids
        self._offsets_file = offsets
        self._ids: list[int] = []
        self._offsets: list[int] = [0]
        self._count = 0

    def add(self, ids: list[int]) -> None:
        """Append one sequence."""
        self._ids += ids
        self._count += len(ids)
        self._offsets.append(self._count)
        if len(self._ids) >= _BUFFERED_IDS:
            self.flush()

    def flush(self) -> None:
        """Write the buffer."""
        self._ids_file.write(np.array(self._ids, self.dtype).data)
        self._offsets_file.write(np.array(self._offsets, np.int64).data)
        self._ids, self._offsets = [], []


Columns = dict[str, ColumnWriter]
Fill = Callable[[Columns], Report]


def build_in_memory(fill: Fill, vocabularies: dict[str, int], key: str) -> Data:
    """A data set in memory."""
    buffers = {name: (BytesIO(), BytesIO()) for name in vocabularies}
    columns = {name: ColumnWriter(vocabularies[name], *buffers[name]) for name in vocabularies}
    report = copy.deepcopy(fill(columns))
    sequences: dict[str, Sequences] = {}
    for name, writer in columns.items():
        writer.flush()
        ids, offsets = (buffer.getbuffer() for buffer in buffers[name])
        sequences[name] = Sequences(np.frombuffer(ids, writer.dtype), np.frombuffer(offsets, np.int64))
    return Data(sequences, report, key)


def open_or_build(cache: Path, fill: Fill, vocabularies: dict[str, int], key: str) -> Data:
    """The data set of that key in the cache folder; it is built if it is missing or damaged."""
    stored = open_stored(cache, key)
    if stored is not None:
        return stored
    folder = cache / key[:32]
    try:
        _build(folder, fill, vocabularies, key)
        return _open(folder, key)
    except OSError as error:
        raise DataError(f"cannot write token files to {cache}: {error.strerror or error}") from None


def open_stored(cache: Path, key: str) -> Data | None:
    """The data set of that key in the cache folder; None if it is missing or damaged."""
    folder = cache / key[:32]
    if not folder.exists():
        return None
    try:
        return _open(folder, key)
    except (OSError, ValueError, LookupError, TypeError) as error:
        log.warning("token files in %s are damaged (%s)", folder, error)
        return None


def stored_keys(cache: Path) -> list[str]:
    """The keys of the data sets in a cache folder whose manifests can be read."""
    keys: list[str] = []
    for manifest in sorted(cache.glob("*/manifest.json")):
        try:
            keys.append(str(_sealed(manifest.parent)["manifest"]["key"]))
        except (OSError, ValueError, LookupError, TypeError):
            continue
    return keys


def _open(folder: Path, key: str) -> Data:
    sealed = _sealed(folder)
    manifest = sealed["manifest"]
    if sealed["sha256"] != _manifest_digest(manifest):
        raise ValueError("manifest.json has changed")
    if manifest["format"] != FORMAT or manifest["key"] != key:
        raise ValueError("another format or key")
    for name, expected in manifest["files"].items():
        if _digest(folder / name) != expected:
            raise ValueError(f"{name} has changed")
    columns = {name: _mapped(folder, name, dtype) for name, dtype in manifest["columns"].items()}
    return Data(columns, Report.from_dict(manifest["report"]), key)


def _sealed(folder: Path) -> dict[str, Any]:
    return json.loads(read_regular(folder / "manifest.json", _LARGEST_MANIFEST))


def _mapped(folder: Path, name: str, dtype: str) -> Sequences:
    offsets = np.memmap(folder / f"{name}.offsets", np.int64, "r")
    is_empty = not (folder / f"{name}.ids").stat().st_size  # an empty file cannot be mapped
    ids = np.zeros(0, dtype) if is_empty else np.memmap(folder / f"{name}.ids", dtype, "r")
    return Sequences(ids, offsets)


def _build(folder: Path, fill: Fill, vocabularies: dict[str, int], key: str) -> None:
    folder.parent.mkdir(parents=True, exist_ok=True)
    _remove_abandoned(folder.parent)
    building = Path(tempfile.mkdtemp(prefix=".building-", dir=folder.parent))
    try:
        manifest = _write(building, fill, vocabularies)
        manifest |= {"format": FORMAT, "key": key}
        sealed = {"sha256": _manifest_digest(manifest), "manifest": manifest}
        (building / "manifest.json").write_text(json.dumps(sealed, indent=1), encoding="utf-8")
        for path in [*building.iterdir(), building]:
            _sync(path)
        _move_into_place(building, folder)
    finally:
        shutil.rmtree(building, ignore_errors=True)


def _write(building: Path, fill: Fill, vocabularies: dict[str, int]) -> dict[str, Any]:
    names = [f"{name}.{part}" for name in vocabularies for part in ("ids", "offsets")]
    files = {name: (building / name).open("wb") for name in names}
    try:
        columns = {
            name: ColumnWriter(size, files[f"{name}.ids"], files[f"{name}.offsets"])
            for name, size in vocabularies.items()
        }
        report = fill(columns)
        for writer in columns.values():
            writer.flush()
    finally:
        for file in files.values():
            file.close()
    return {
        "report": report.as_dict(),
        "columns": {name: writer.dtype.name for name, writer in columns.items()},
        "files": {name: _digest(building / name) for name in names},
    }


def _move_into_place(building: Path, folder: Path) -> None:
    if folder.exists():
        # The existing folder is damaged, and a rename cannot replace a folder with files.
        aside = Path(tempfile.mkdtemp(prefix=".building-", dir=folder.parent))
        folder.rename(aside / "damaged")
        shutil.rmtree(aside, ignore_errors=True)
    try:
        building.rename(folder)
    except OSError:
        # Another process built it meanwhile; it is verified when it is opened.
        if not folder.exists():
            raise
    _sync(folder.parent)


def _remove_abandoned(cache: Path) -> None:
    """Remove unfinished folders that are older than a day."""
    for folder in cache.glob(".building-*"):
        if time.time() - folder.stat().st_mtime > _DAY:
            shutil.rmtree(folder, ignore_errors=True)


def _sync(path: Path) -> None:
    if os.name == "nt":  # Windows opens no folders and syncs no file that is open for reading
        return
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _manifest_digest(manifest: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(manifest, sort_keys=True).encode()).hexdigest()


def _digest(path: Path) -> str:
    with open_regular(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
