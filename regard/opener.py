"""Opening a file that anybody may have written: a regular file of bounded size, or an OSError at once.

A link, a pipe, a socket, a device or a folder is never followed, waited for or read. Loads nothing but the
standard library.
"""

from __future__ import annotations

import errno
import os
import stat
from io import BufferedReader
from pathlib import Path

# Where the system has them: no link is followed, no pipe is waited for, no terminal is taken over.
_NAMES = ("O_NOFOLLOW", "O_NONBLOCK", "O_NOCTTY", "O_CLOEXEC", "O_NOINHERIT", "O_BINARY")
_FLAGS = os.O_RDONLY | sum(getattr(os, name, 0) for name in _NAMES)
_KINDS = {
    stat.S_IFLNK: "a link; copy the file itself there",
    stat.S_IFIFO: "a pipe, not a regular file",
    stat.S_IFSOCK: "a socket, not a regular file",
    stat.S_IFDIR: "a folder, not a regular file",
}


def open_regular(path: Path, largest: int | None = None) -> BufferedReader:
    """Open a regular file for reading; one of more than `largest` bytes, or anything else, is an OSError."""
    _check(_described(path), largest)  # systems without O_NOFOLLOW, and devices that act when opened
    descriptor = os.open(path, _FLAGS)
    try:
        _check(os.fstat(descriptor), largest)  # another file may have taken its place
        return os.fdopen(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise


def read_regular(path: Path, largest: int) -> bytes:
    """All bytes of such a file."""
    with open_regular(path, largest) as file:
        content = file.read(largest + 1)  # it may have grown since
    if len(content) > largest:
        raise _too_large(len(content), largest)
    return content


def _described(path: Path) -> os.stat_result:
    try:
        return path.lstat()
    except ValueError:  # a NUL, or a lone surrogate
        raise OSError(errno.EINVAL, "no file can have such a name") from None


def _check(found: os.stat_result, largest: int | None) -> None:
    if not stat.S_ISREG(found.st_mode):
        kind = _KINDS.get(stat.S_IFMT(found.st_mode), "a device, not a regular file")
        raise OSError(errno.EINVAL, f"it is {kind}")
    if largest is not None and found.st_size > largest:
        raise _too_large(found.st_size, largest)


def _too_large(size: int, largest: int) -> OSError:
    return OSError(errno.EFBIG, f"it has {size:,} bytes, and such a file has at most {largest:,}")
