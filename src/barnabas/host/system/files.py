"""Files: durable content, reads that do not wait, locks, and contents that need a path but no name."""

from __future__ import annotations

import fcntl
import os
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from barnabas.host.system import IS_LINUX

READ_NOWAIT = getattr(os, "RWF_NOWAIT", 0) if IS_LINUX else 0
"""The flag of `os.preadv` that asks for bytes in memory only; 0 where reads may block."""
_FULL_SYNC = getattr(fcntl, "F_FULLFSYNC", None)
_held: set[tuple[int, int]] = set()
"""Device and inode of each file that this process has locked: fcntl's locks are by process."""
_holding = threading.Lock()


def sync_content(fd: int) -> None:
    """Make content and length durable, past the drive's own cache where the system can. Blocks."""
    if sys.platform == "linux" and IS_LINUX:
        os.fdatasync(fd)
    elif _FULL_SYNC is not None:
        try:
            fcntl.fcntl(fd, _FULL_SYNC)
        except OSError:  # a file system that does not have it
            os.fsync(fd)
    else:
        os.fsync(fd)


def lock_file(path: str) -> int | None:
    """Make and lock a file against other processes, a Java program's ``FileLock`` included, and against this
    one. Returns its descriptor for `unlock_file`, or None where it is locked."""
    with _holding:
        # The system releases a process' lock when it closes any descriptor of the file.
        if _identity(path) in _held:
            return None
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if IS_LINUX:  # elsewhere the two kinds may be one, and the second would be refused
                fcntl.flock(
                    fd, fcntl.LOCK_EX | fcntl.LOCK_NB
                )  # by open file, so within a process too
        except OSError as error:
            os.close(fd)
            if isinstance(error, (BlockingIOError, PermissionError)):
                return None
            raise
        _held.add(_identity(fd))
        return fd


def unlock_file(fd: int) -> None:
    """Close the descriptor, which releases its lock."""
    with _holding:
        _held.discard(_identity(fd))
        os.close(fd)


def _identity(file: int | str) -> tuple[int, int]:
    """Device and inode. A file that does not exist gets a pair that no file has."""
    try:
        found = os.stat(file)
    except FileNotFoundError:
        return -1, -1
    return found.st_dev, found.st_ino


@contextmanager
def unnamed_file(content: bytes) -> Iterator[str]:
    """A path at which this process reads `content` within the block. Another user cannot read it, and no
    disk gets it where the system has files in memory."""
    if sys.platform == "linux" and IS_LINUX:
        descriptor = os.memfd_create("barnabas", os.MFD_CLOEXEC)
        try:
            os.write(descriptor, content)
            yield f"/proc/self/fd/{descriptor}"
        finally:
            os.close(descriptor)
        return
    descriptor, path = tempfile.mkstemp(prefix="barnabas-")
    try:
        os.write(descriptor, content)
        yield path
    finally:
        os.close(descriptor)
        with suppress(OSError):
            os.unlink(path)
