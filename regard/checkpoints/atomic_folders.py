"""Writing so that nothing half-written is ever seen: a folder appears whole, or not at all.

A folder is filled under a hidden name, sealed with a manifest of every file's size and sha256, brought to
the disk, and only then renamed to the name it is known by.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from regard.errors import CheckpointError, RegardError

Value = TypeVar("Value")

MANIFEST = "manifest.json"
MANIFEST_FORMAT = 1
UNFINISHED = ".unfinished-"
REPLACED = ".replaced-"
# The names that safetensors has for what numpy can hold.
DTYPES = {
    "F64": "<f8", "F32": "<f4", "F16": "<f2", "I64": "<i8", "I32": "<i4", "I16": "<i2", "I8": "i1",
    "U64": "<u8", "U32": "<u4", "U16": "<u2", "U8": "u1", "BOOL": "?",
}  # fmt: skip
_DTYPE_NAMES = {np.dtype(code): name for name, code in DTYPES.items()}


@contextmanager
def new_folder(target: Path, replace: bool = False) -> Iterator[Path]:
    """A hidden folder to fill: it becomes `target` when the block ends well, and vanishes when not."""
    if target.exists() and not replace:
        raise CheckpointError(f"{target} exists already; choose another folder")
    making = target.parent / f"{UNFINISHED}{target.name}-{os.getpid()}-{secrets.token_hex(4)}"
    try:
        making.mkdir(parents=True)
        yield making
        seal(making)
        _put_in_place(making, target)
    except OSError as error:
        raise cannot_write(target, error) from None
    finally:
        shutil.rmtree(making, ignore_errors=True)


def cannot_write(target: Path, error: OSError) -> CheckpointError:
    """What stood in the way, and that nothing else was touched."""
    return CheckpointError(
        f"cannot write {target}: {error.strerror or error}; what was saved before is untouched, "
        "free the disk or choose another folder"
    )


def write_file(path: Path, pieces: Iterable[bytes | memoryview]) -> None:
    """A new file from pieces, on the disk when this returns."""
    with path.open("xb") as file:
        for piece in pieces:
            file.write(piece)
        file.flush()
        os.fsync(file.fileno())


def write_json(path: Path, values: Any) -> None:
    """Values as JSON that is the same for equal values; NaN has no place in it."""
    text = json.dumps(values, indent=1, sort_keys=True, ensure_ascii=False, allow_nan=False)
    write_file(path, [text.encode(), b"\n"])


def write_tensors(path: Path, arrays: Mapping[str, np.ndarray]) -> None:
    """Arrays as a safetensors file, the same bytes for equal arrays.

    A plain write, piece by piece: a full disk is then an error like any other, and nothing is copied.
    """
    order = sorted(arrays, key=lambda name: (-arrays[name].dtype.itemsize, name))  # keeps all aligned
    header: dict[str, Any] = {}
    end = 0
    for name in order:
        begin, end = end, end + arrays[name].nbytes
        dtype = _DTYPE_NAMES.get(arrays[name].dtype.newbyteorder("<"))
        if dtype is None:
            raise CheckpointError(f"{name} holds {arrays[name].dtype}, which a weight file cannot")
        header[name] = {"dtype": dtype, "shape": list(arrays[name].shape), "data_offsets": [begin, end]}
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)
    write_file(path, [len(text).to_bytes(8, "little"), text, *(_bytes(arrays[name]) for name in order)])


def _bytes(array: np.ndarray) -> memoryview:
    little = np.ascontiguousarray(array, array.dtype.newbyteorder("<"))
    return little.reshape(-1).view(np.uint8).data


def seal(folder: Path) -> None:
    """Bring every file of a folder to the disk and write the manifest that vouches for them."""
    files: dict[str, Any] = {}
    for path in sorted(folder.iterdir()):
        with path.open("rb+") as file:
            os.fsync(file.fileno())
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        files[path.name] = {"sha256": digest, "size": path.stat().st_size}
    manifest = {"format": MANIFEST_FORMAT, "files": files}
    write_json(folder / MANIFEST, {"manifest": manifest, "sha256": digest_of(manifest)})
    sync_folder(folder)


def digest_of(values: Any) -> str:
    """sha256 of values as JSON."""
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()


def _put_in_place(making: Path, target: Path) -> None:
    aside = target.parent / f"{REPLACED}{target.name}"
    if target.exists():  # a rename cannot replace a folder that holds files
        shutil.rmtree(aside, ignore_errors=True)
        target.rename(aside)
    try:
        making.rename(target)
    except OSError:
        if aside.exists():
            aside.rename(target)
        raise
    sync_folder(target.parent)
    shutil.rmtree(aside, ignore_errors=True)


def standing(target: Path) -> Path:
    """Where a folder is to be read: under its name, or set aside where its writer stopped between renames."""
    aside = target.parent / f"{REPLACED}{target.name}"
    try:
        return aside if not target.exists() and aside.is_dir() else target
    except OSError:  # a name that is too long, a folder that nobody may enter
        return target


def read_replaceable(folder: Path, read: Callable[[Path], Value]) -> Value:
    """Read a folder that its writer may replace at any moment; where it did meanwhile, read it again."""
    while True:
        before = _version(folder)
        try:
            return read(standing(folder))
        except (RegardError, OSError):
            if _version(folder) == before:
                raise


def _version(folder: Path) -> tuple[int, int] | None:
    """What tells a folder from the one that replaces it; None between the two."""
    try:
        status = folder.stat()
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns


def remove_folder(folder: Path) -> None:
    """Remove a folder that is known by its name; killed midway, it leaves no half of it under that name."""
    away = folder.parent / f"{UNFINISHED}{folder.name}-{secrets.token_hex(4)}"
    folder.rename(away)
    shutil.rmtree(away, ignore_errors=True)


def sweep(parent: Path, name: str = "*") -> None:
    """Clear away what killed writers of folders left behind; only for whoever writes folders of that name."""
    for left in parent.glob(f"{REPLACED}{name}"):
        target = parent / left.name.removeprefix(REPLACED)
        if not target.exists():  # killed between two renames: the old one is all there is
            left.rename(target)
    for left in [*parent.glob(f"{UNFINISHED}{name}-*"), *parent.glob(f"{REPLACED}{name}")]:
        if left.is_dir():
            shutil.rmtree(left, ignore_errors=True)
        else:
            left.unlink(missing_ok=True)


def sync_folder(folder: Path) -> None:
    """Bring a folder's list of names to the disk, where the system can."""
    if os.name == "nt":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
