"""Atomic writing of folders: a folder appears complete or not at all.

Files are written to a folder with a temporary name. It is sealed with a manifest of sizes and sha256, synced
to the disk, and then renamed.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from regard.errors import CheckpointError, RegardError

Value = TypeVar("Value")

MANIFEST = "manifest.json"
MANIFEST_FORMAT = 1
UNFINISHED = ".unfinished-"
REPLACED = ".replaced-"
# safetensors' names of numpy's types.
DTYPES = {
    "F64": "<f8", "F32": "<f4", "F16": "<f2", "I64": "<i8", "I32": "<i4", "I16": "<i2", "I8": "i1",
    "U64": "<u8", "U32": "<u4", "U16": "<u2", "U8": "u1", "BOOL": "?",
}  # fmt: skip
_DTYPE_NAMES = {np.dtype(code): name for name, code in DTYPES.items()}


@contextmanager
def new_folder(target: Path, replace: bool = False, manifest: bool = True) -> Iterator[Path]:
    """A temporary folder that becomes `target` when the block ends; if it raises, no new folder is left.

    A folder for another project has no `manifest`.
    """
    if target.exists() and not replace:
        raise CheckpointError(f"{target} already exists; choose another folder")
    temporary = target.parent / f"{UNFINISHED}{target.name}-{os.getpid()}-{secrets.token_hex(4)}"
    made = [parent for parent in target.parents if not parent.exists()]
    try:
        temporary.mkdir(parents=True)
        yield temporary
        if manifest:
            seal(temporary)
        else:
            sync_files(temporary)
        _replace_target(temporary, target)
    except OSError as error:
        raise cannot_write(target, error) from None
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
        for parent in () if target.exists() else made:
            with suppress(OSError):  # there is none, or another process has written into it
                parent.rmdir()


def cannot_write(target: Path, error: OSError) -> CheckpointError:
    """The error of a failed write."""
    return CheckpointError(
        f"cannot write {target}: {error.strerror or error}; earlier files are unchanged; "
        "free disk space or choose another folder"
    )


def write_file(path: Path, pieces: Iterable[bytes | memoryview]) -> None:
    """Write a new file and sync it to the disk."""
    with path.open("xb") as file:
        for piece in pieces:
            file.write(piece)
        file.flush()
        os.fsync(file.fileno())


def write_json(path: Path, values: Any) -> None:
    """Write values as deterministic JSON, without NaN."""
    text = json.dumps(values, indent=1, sort_keys=True, ensure_ascii=False, allow_nan=False)
    write_file(path, [text.encode(), b"\n"])


def write_tensors(
    path: Path, arrays: Mapping[str, np.ndarray], metadata: Mapping[str, str] | None = None
) -> None:
    """Write arrays as a deterministic safetensors file.

    The file is written array by array without a copy; a full disk raises OSError.
    """
    order = sorted(arrays, key=lambda name: (-arrays[name].dtype.itemsize, name))  # keeps arrays aligned
    header: dict[str, Any] = {"__metadata__": dict(metadata)} if metadata else {}
    end = 0
    for name in order:
        begin, end = end, end + arrays[name].nbytes
        dtype = _DTYPE_NAMES.get(arrays[name].dtype.newbyteorder("<"))
        if dtype is None:
            raise CheckpointError(f"{name} has type {arrays[name].dtype}, which safetensors cannot store")
        header[name] = {"dtype": dtype, "shape": list(arrays[name].shape), "data_offsets": [begin, end]}
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)
    write_file(path, [len(text).to_bytes(8, "little"), text, *(_bytes(arrays[name]) for name in order)])


def _bytes(array: np.ndarray) -> memoryview:
    little = np.ascontiguousarray(array, array.dtype.newbyteorder("<"))
    return little.reshape(-1).view(np.uint8).data


def seal(folder: Path) -> None:
    """Sync every file of a folder to the disk and write its manifest."""
    files: dict[str, Any] = {}
    for path in sorted(folder.iterdir()):
        with path.open("rb+") as file:
            os.fsync(file.fileno())
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        files[path.name] = {"sha256": digest, "size": path.stat().st_size}
    manifest = {"format": MANIFEST_FORMAT, "files": files}
    write_json(folder / MANIFEST, {"manifest": manifest, "sha256": digest_of(manifest)})
    sync_folder(folder)


def sync_files(folder: Path) -> None:
    """Sync every file of a folder and of its subfolders, and the folders, to the disk."""
    for path in sorted(folder.rglob("*")):
        if path.is_dir():
            sync_folder(path)
            continue
        with path.open("rb+") as file:
            os.fsync(file.fileno())
    sync_folder(folder)


def digest_of(values: Any) -> str:
    """sha256 of values as JSON."""
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()


def _replace_target(temporary: Path, target: Path) -> None:
    replaced = target.parent / f"{REPLACED}{target.name}"
    if target.exists():  # rename cannot replace a folder that is not empty
        shutil.rmtree(replaced, ignore_errors=True)
        target.rename(replaced)
    try:
        temporary.rename(target)
    except OSError:
        if replaced.exists():
            replaced.rename(target)
        raise
    sync_folder(target.parent)
    shutil.rmtree(replaced, ignore_errors=True)


def readable_folder(target: Path) -> Path:
    """The path to read a folder from; it differs if its writer stopped between two renames."""
    replaced = target.parent / f"{REPLACED}{target.name}"
    try:
        return replaced if not target.exists() and replaced.is_dir() else target
    except (OSError, ValueError):  # no folder can have this name, or access is denied
        return target


def read_replaceable(folder: Path, read: Callable[[Path], Value]) -> Value:
    """Read a folder that its writer may replace; repeat the read if it was replaced meanwhile."""
    while True:
        before = _version(folder)
        try:
            return read(readable_folder(folder))
        except (RegardError, OSError):
            if _version(folder) == before:
                raise


def _version(folder: Path) -> tuple[int, int] | None:
    """The inode and time of a folder, which change when it is replaced; None between two renames."""
    try:
        status = folder.stat()
    except (OSError, ValueError):
        return None
    return status.st_ino, status.st_mtime_ns


def remove_folder(folder: Path) -> None:
    """Remove a folder atomically: it is renamed first, so no partial folder keeps the name."""
    hidden = folder.parent / f"{UNFINISHED}{folder.name}-{secrets.token_hex(4)}"
    folder.rename(hidden)
    shutil.rmtree(hidden, ignore_errors=True)


def remove_leftovers(parent: Path, name: str = "*") -> None:
    """Remove or restore the folders of killed writers; only the writer of these folders may call this."""
    for leftover in parent.glob(f"{REPLACED}{name}"):
        target = parent / leftover.name.removeprefix(REPLACED)
        if not target.exists():  # the writer was killed between two renames: restore the old folder
            leftover.rename(target)
    for leftover in [*parent.glob(f"{UNFINISHED}{name}-*"), *parent.glob(f"{REPLACED}{name}")]:
        if leftover.is_dir():
            shutil.rmtree(leftover, ignore_errors=True)
        else:
            leftover.unlink(missing_ok=True)


def sync_folder(folder: Path) -> None:
    """Sync a folder's entries to the disk, if the system supports it."""
    if os.name == "nt":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
