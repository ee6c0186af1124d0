"""A GGUF file of unknown origin, read with bounds: its metadata, and its tensors memory-mapped.

Every count, length and offset is compared with the size of the file before it is used. The package `gguf`
dequantises; it never sees the header. Imports no torch.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from regard.checkpoints.untrusted_files import MappedFile, shorten_name
from regard.errors import CheckpointError, MissingPackage
from regard.opener import open_regular

MAGIC = b"GGUF"
VERSIONS = (2, 3)
LARGEST_COUNT = 1 << 13  # of tensors, and of metadata entries; the largest models have about 1,200 and 50
LARGEST_STRING = 1 << 20  # bytes
MOST_STRINGS = 1 << 20  # of all arrays; the largest vocabularies have 600,000 tokens and merges
MOST_TEXT = 1 << 26  # bytes of all strings
STRING, ARRAY = 8, 9
NUMBERS = {0: "u1", 1: "i1", 2: "<u2", 3: "<i2", 4: "<u4", 5: "<i4", 6: "<f4", 7: "u1", 10: "<u8", 11: "<i8",
           12: "<f8"}  # fmt: skip
BOOL = 7
_LENGTH = struct.Struct("<Q")


@dataclass(frozen=True)
class Encoding:
    """How a tensor is stored: blocks of so many numbers in so many bytes."""

    name: str
    block: int
    size: int


ENCODINGS = {
    0: Encoding("F32", 1, 4), 1: Encoding("F16", 1, 2), 2: Encoding("Q4_0", 32, 18),
    3: Encoding("Q4_1", 32, 20), 8: Encoding("Q8_0", 32, 34), 12: Encoding("Q4_K", 256, 144),
    14: Encoding("Q6_K", 256, 210), 30: Encoding("BF16", 1, 2),
}  # fmt: skip


@dataclass(frozen=True)
class StoredTensor:
    """The place of a tensor in the file."""

    shape: tuple[int, ...]
    encoding: Encoding
    begin: int
    end: int


class GGUFFile(Mapping[str, np.ndarray]):
    """Metadata by key and tensors by name, each tensor in float32, or F16 as it is."""

    def __init__(self, path: Path):
        self.path = path
        try:
            with open_regular(path) as file:
                self._file = MappedFile(path, file)
        except OSError as error:
            raise CheckpointError(f"cannot read {path}: {error.strerror or error}") from None
        self._map = self._file.map
        if not self._map.size:
            raise self.damaged("it is empty")
        self._bytes = self._map.data
        self._position, self._strings, self._text = 0, 0, 0
        tensors, entries = self._read_start()
        self.metadata = dict(self._read_entry() for _ in range(entries))
        self._tensors = self._read_tensors(tensors)

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The shape of each tensor."""
        return {name: tensor.shape for name, tensor in self._tensors.items()}

    @property
    def dtypes(self) -> dict[str, str]:
        """The type of each tensor, such as F16 or Q8_0."""
        return {name: tensor.encoding.name for name, tensor in self._tensors.items()}

    def __getitem__(self, name: str) -> np.ndarray:
        tensor = self._tensors[name]
        return _numbers(self._map[tensor.begin : tensor.end], tensor)

    def read(self, name: str) -> np.ndarray:
        """The same from a copy of the bytes, read without the memory map."""
        tensor = self._tensors[name]
        return _numbers(self._file.read(tensor.begin, tensor.end), tensor)

    def __contains__(self, name: object) -> bool:
        return name in self._tensors  # Mapping's own method would dequantise the tensor

    def __iter__(self) -> Iterator[str]:
        return iter(self._tensors)

    def __len__(self) -> int:
        return len(self._tensors)

    def damaged(self, defect: str) -> CheckpointError:
        """The error of a file that cannot be read."""
        return CheckpointError(f"{self.path} is damaged or no GGUF file: {defect}")

    def _read_start(self) -> tuple[int, int]:
        """The number of tensors and of metadata entries."""
        if self._take(4).tobytes() != MAGIC:
            raise self.damaged("it does not begin with GGUF")
        version = self._number("<I")
        if version not in VERSIONS:
            raise self.damaged(f"its version ({version}) is not 2 or 3")
        counts = self._number("<Q"), self._number("<Q")
        if max(counts) > LARGEST_COUNT:
            raise self.damaged(f"it announces {max(counts):,} entries, and {LARGEST_COUNT:,} are allowed")
        return counts

    def _read_entry(self) -> tuple[str, Any]:
        name, kind = self._string(), self._number("<I")
        return name, self._array(name) if kind == ARRAY else self._value(name, kind)

    def _value(self, name: str, kind: int) -> Any:
        if kind == STRING:
            return self._string()
        if kind not in NUMBERS:
            raise self.damaged(f"{shorten_name(name)} has the unknown type {kind}")
        value = self._take(np.dtype(NUMBERS[kind]).itemsize).view(NUMBERS[kind])[0].item()
        return bool(value) if kind == BOOL else value

    def _array(self, name: str) -> Any:
        """A list of strings, or an array of numbers."""
        kind, length = self._number("<I"), self._number("<Q")
        if kind == STRING:
            self._strings += length
            if self._strings > MOST_STRINGS:
                raise self.damaged(f"{shorten_name(name)} has {length:,} strings, more than are allowed")
            return [self._string() for _ in range(length)]
        if kind not in NUMBERS:
            raise self.damaged(f"{shorten_name(name)} is an array of the unknown type {kind}")
        return np.array(self._take(length * np.dtype(NUMBERS[kind]).itemsize).view(NUMBERS[kind]))

    def _string(self) -> str:
        length = _LENGTH.unpack_from(self._bytes, self._advance(8))[0]
        self._text += length
        if length > LARGEST_STRING or self._text > MOST_TEXT:
            raise self.damaged(
                f"a string has {length:,} bytes; {LARGEST_STRING:,} are allowed, and {MOST_TEXT:,} in all"
            )
        begin = self._advance(length)
        try:
            return str(self._bytes[begin : self._position], "utf-8")
        except UnicodeDecodeError:
            raise self.damaged("a string is not UTF-8") from None

    def _number(self, form: str) -> int:
        begin = self._advance(struct.calcsize(form))
        return struct.unpack_from(form, self._bytes, begin)[0]

    def _take(self, count: int) -> np.ndarray:
        """The next bytes."""
        begin = self._advance(count)
        return self._map[begin : self._position]

    def _advance(self, count: int) -> int:
        """Pass the next bytes; where they begin."""
        begin, end = self._position, self._position + count
        if end > len(self._bytes):
            raise self.damaged(f"it has {len(self._bytes):,} bytes, and its header needs more")
        self._position = end
        return begin

    def _read_tensors(self, count: int) -> dict[str, StoredTensor]:
        """The places of the tensors; they must not overlap, and must be inside of the file."""
        alignment = self.metadata.get("general.alignment", 32)
        if type(alignment) is not int or not 1 <= alignment <= 1 << 16 or alignment & (alignment - 1):
            raise self.damaged(f"general.alignment ({shorten_name(str(alignment)[:20])}) is not a power of 2")
        headers = [self._read_tensor_header() for _ in range(count)]
        data = -(-self._position // alignment) * alignment
        tensors, end = {}, data
        for name, shape, encoding, offset in sorted(headers, key=lambda header: header[3]):
            begin = data + offset
            size = math.prod(shape) // encoding.block * encoding.size
            if begin < end or offset % alignment or begin + size > len(self._map) or name in tensors:
                raise self.damaged(f"{shorten_name(name)} is outside of the file, or overlaps another tensor")
            end = begin + size
            tensors[name] = StoredTensor(shape, encoding, begin, end)
        return tensors

    def _read_tensor_header(self) -> tuple[str, tuple[int, ...], Encoding, int]:
        name, axes = self._string(), self._number("<I")
        if not 1 <= axes <= 4:
            raise self.damaged(f"{shorten_name(name)} has {axes} axes, and 1 to 4 are allowed")
        shape = tuple(self._number("<Q") for _ in range(axes))[::-1]
        kind, offset = self._number("<I"), self._number("<Q")
        if kind not in ENCODINGS:
            known = ", ".join(encoding.name for encoding in ENCODINGS.values())
            raise self.damaged(f"{shorten_name(name)} has type {kind}, which is not supported; {known} are")
        if not all(1 <= size < 1 << 40 for size in shape) or shape[-1] % ENCODINGS[kind].block:
            raise self.damaged(f"the shape of {shorten_name(name)} does not fit its type")
        return name, shape, ENCODINGS[kind], offset


def _numbers(raw: np.ndarray, tensor: StoredTensor) -> np.ndarray:
    """A tensor in float32; one of F16 stays as it is."""
    if tensor.encoding.name == "F32":
        return raw.view("<f4").reshape(tensor.shape)
    if tensor.encoding.name == "F16":
        return raw.view("<f2").reshape(tensor.shape)
    if tensor.encoding.name == "BF16":
        return (raw.view("<u2").astype("<u4") << 16).view("<f4").reshape(tensor.shape)
    return _dequantise(raw, tensor)


def _dequantise(raw: np.ndarray, tensor: StoredTensor) -> np.ndarray:
    try:
        from gguf import GGMLQuantizationType  # pyright: ignore[reportMissingImports]
        from gguf.quants import dequantize  # pyright: ignore[reportMissingImports]
    except ImportError:
        raise MissingPackage(
            f"a GGUF file of type {tensor.encoding.name} needs the package gguf: pip install gguf"
        ) from None
    kind = GGMLQuantizationType[tensor.encoding.name]
    rows = raw.reshape(*tensor.shape[:-1], tensor.shape[-1] // tensor.encoding.block * tensor.encoding.size)
    return np.ascontiguousarray(dequantize(rows, kind), np.float32).reshape(tensor.shape)
