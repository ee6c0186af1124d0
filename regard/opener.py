"""Opening files of unknown origin: only regular files of bounded size, otherwise an OSError.

Links are not followed, and pipes, sockets, devices and folders are not opened. Only the standard library is
imported.
"""

from __future__ import annotations

import errno
import os
import stat
from io import BufferedReader
from pathlib import Path

# Flags that the system has: do not follow links, wait for pipes or acquire a controlling terminal.
_NAMES = ("O_NOFOLLOW", "O_NONBLOCK", "O_NOCTTY", "O_CLOEXEC", "O_NOINHERIT", "O_BINARY")
_FLAGS = os.O_RDONLY | sum(getattr(os, name, 0) for name in _NAMES)
_KINDS = {
    stat.S_IFLNK: "a link; copy the file itself there",
    stat.S_IFIFO: "a pipe, not a regular file",
    stat.S_IFSOCK: "a socket, not a regular file",
    stat.S_IFDIR: "a folder, not a regular file",
}


def open_regular(path: Path, largest: int | None = None) -> BufferedReader:
    """Open a regular file of at most `largest` bytes for reading; OSError for anything else."""
    _check(_lstat(path), largest)  # for systems without O_NOFOLLOW, and devices that act when opened
    descriptor = os.open(path, _FLAGS)
    try:
        _check(os.fstat(descriptor), largest)  # the file may have been replaced
        return os.fdopen(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise


def read_regular(path: Path, largest: int) -> bytes:
    """The content of a regular file of at most `largest` bytes."""
    with open_regular(path, largest) as file:
        content = file.read(largest + 1)  # the file may have grown
    if len(content) > largest:
        raise _too_large(len(content), largest)
    return content


def _lstat(path: Path) -> os.stat_result:
    try:
        return path.lstat()
    except ValueError:  # a NUL or a lone surrogate
        raise OSError(errno.EINVAL, "it is not a valid file name") from None


def _check(status: os.stat_result, largest: int | None) -> None:
    if not stat.S_ISREG(status.st_mode):
        kind = _KINDS.get(stat.S_IFMT(status.st_mode), "a device, not a regular file")
        raise OSError(errno.EINVAL, f"it is {kind}")
    if largest is not None and status.st_size > largest:
        raise _too_large(status.st_size, largest)


def _too_large(size: int, largest: int) -> OSError:
    return OSError(errno.EFBIG, f"it has {size:,} bytes, more than the limit of {largest:,}")
