"""The real file system behind ``ports.Disk``.

One thread owns a file. :meth:`HostFile.sync` and :meth:`HostFile.read_at` may also run on another
one: closing waits until they have finished, so that their descriptor is never another file's.
Writes are gathered (``pwritev``) and complete or raise; sizes are kept in memory, so asking for one
costs no system call.

`try_read_at` asks the kernel for bytes that are in memory (``RWF_NOWAIT``). If a file system does
not know that flag, reads block.
"""

from __future__ import annotations

import ctypes
import errno
import os
import shutil
import stat
import threading
from collections.abc import Sequence
from contextlib import suppress

from barnabas.host.system.files import READ_NOWAIT, lock_file, sync_content, unlock_file
from barnabas.ports import Disk, File
from barnabas.types import Buffer

PARTS_MAX = 1024
"""Buffers that one gathered write may have (``IOV_MAX``)."""
TEMPORARY = ".tmp"
_NOT_SUPPORTED = frozenset({errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL})
_uninitialized = ctypes.pythonapi.PyByteArray_FromStringAndSize
_uninitialized.restype = ctypes.py_object
_uninitialized.argtypes = (ctypes.c_void_p, ctypes.c_ssize_t)
LARGE_READ = 32 * 1024
"""The size of a read from which on zeroing its buffer costs more than the extra call that avoids
it."""
_refuses_nowait = not READ_NOWAIT
"""Whether a file system has shown that it cannot tell what is in memory."""


def sentence_of(error: OSError) -> str:
    """An error of the file system as a sentence."""
    if error.filename:
        return f"{error.filename}: {error.strerror}"
    return error.strerror or str(error)


class HostFile(File):
    """``ports.File`` over one descriptor, which it owns."""

    __slots__ = ("_closing", "_fd", "_lock", "_path", "_pins", "_size")

    def __init__(self, fd: int, path: str) -> None:
        self._fd = fd
        self._path = path
        self._size = os.fstat(fd).st_size
        self._lock = threading.Lock()
        self._pins = 0
        self._closing = False

    def __repr__(self) -> str:
        return f"HostFile({self._path}, {self._size} bytes{', closed' if self._closing else ''})"

    @property
    def path(self) -> str:
        return self._path

    def size(self) -> int:
        return self._size

    def append(self, parts: Sequence[Buffer]) -> int:
        if self._closing:
            raise ValueError(f"{self._path} is closed")
        position, total = self._size, sum(map(len, parts))
        done = os.pwritev(self._fd, parts[:PARTS_MAX], position)
        if done != total:
            self._write_rest(parts, position, done, total)
        self._size = position + total
        return position

    def write_at(self, position: int, data: Buffer) -> None:
        if self._closing:
            raise ValueError(f"{self._path} is closed")
        self._write_rest([data], position, 0, len(data))
        self._size = max(self._size, position + len(data))

    def _write_rest(self, parts: Sequence[Buffer], start: int, done: int, total: int) -> None:
        """Write the rest after the first `done` bytes. A write is short if a signal arrives, the
        disk is full (the next write raises that), or there are more than `PARTS_MAX` parts."""
        skip, left = done, list[memoryview]()
        for part in parts:
            view = memoryview(part)
            if skip < len(view):
                left.append(view[skip:])
            skip = max(skip - len(view), 0)
        while done < total:
            wrote = os.pwritev(self._fd, left[:PARTS_MAX], start + done)
            if not wrote:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), self._path)
            done += wrote
            while left and wrote >= len(left[0]):
                wrote -= len(left.pop(0))
            if wrote:
                left[0] = left[0][wrote:]

    def read_at(self, position: int, size: int) -> bytes:
        fd = self._pin()
        try:
            data = os.pread(fd, size, position)
            while len(data) < size and position + len(data) < self._size:
                more = os.pread(fd, size - len(data), position + len(data))
                if not more:
                    break
                data += more
            return data
        finally:
            self._unpin()

    def try_read_at(self, position: int, size: int) -> Buffer | None:
        global _refuses_nowait
        size = max(min(size, self._size - position), 0)
        if _refuses_nowait or self._closing:
            return self.read_at(position, size)
        target: bytearray = bytearray(size) if size < LARGE_READ else _uninitialized(None, size)
        try:
            # A short read: the rest is not in memory. Drop the buffer, which is filled only in
            # part.
            return target if os.preadv(self._fd, (target,), position, READ_NOWAIT) == size else None
        except BlockingIOError:
            return None
        except OSError as error:
            if error.errno not in _NOT_SUPPORTED:
                raise
            _refuses_nowait = True
            return self.read_at(position, size)

    def truncate(self, size: int) -> None:
        if self._closing:
            raise ValueError(f"{self._path} is closed")
        os.ftruncate(self._fd, size)
        self._size = size

    def sync(self) -> None:
        fd = self._pin()
        try:
            sync_content(fd)
        finally:
            self._unpin()

    def close(self) -> None:
        with self._lock:
            if self._closing:
                return
            self._closing = True
            idle = not self._pins
        if idle:
            os.close(self._fd)

    def _pin(self) -> int:
        """Return the descriptor and keep it open until `_unpin`."""
        with self._lock:
            if self._closing:
                raise ValueError(f"{self._path} is closed")
            self._pins += 1
        return self._fd

    def _unpin(self) -> None:
        with self._lock:
            self._pins -= 1
            last = self._closing and not self._pins
        if last:
            os.close(self._fd)


class HostDisk(Disk):
    """``ports.Disk``. It keeps only the descriptors of its locks."""

    def __init__(self) -> None:
        self._locks: dict[str, int] = {}

    def open(self, path: str, *, create: bool = False) -> HostFile:
        flags = os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if create else 0)
        fd = os.open(path, flags, 0o644)
        try:
            return HostFile(fd, path)
        except OSError:  # a stale handle of a network volume
            os.close(fd)
            raise

    def read_file(self, path: str) -> bytes:
        with open(path, "rb", buffering=0) as file:
            return file.readall()

    def write_atomic(self, path: str, data: bytes, *, durable: bool = True) -> None:
        temporary = path + TEMPORARY
        try:
            with open(temporary, "wb", buffering=0) as file:
                view = memoryview(data)
                while view:
                    view = view[file.write(view) :]
                if durable:
                    os.fsync(file.fileno())
            os.replace(temporary, path)
        except OSError as error:
            with suppress(OSError):  # the first error is raised
                os.unlink(temporary)
            if error.filename is None:  # the write's own
                error.filename = path
            raise
        if durable:
            self.sync_dir(os.path.dirname(path))

    def exists(self, path: str) -> bool:
        try:
            os.lstat(path)
        except (FileNotFoundError, NotADirectoryError):
            return False  # whether the file exists is unknown
        return True

    def is_dir(self, path: str) -> bool:
        try:
            return stat.S_ISDIR(os.stat(path).st_mode)
        except (FileNotFoundError, NotADirectoryError):
            return False  # as with `exists`

    def list_dir(self, path: str) -> list[str]:
        return sorted(os.listdir(path))

    def make_dirs(self, path: str) -> None:
        os.makedirs(path, exist_ok=True)

    def rename(self, source: str, target: str) -> None:
        os.replace(source, target)

    def remove(self, path: str) -> None:
        os.unlink(path)

    def remove_tree(self, path: str) -> None:
        if os.path.islink(path):
            os.unlink(path)
        else:
            shutil.rmtree(path)

    def size(self, path: str) -> int:
        return os.stat(path).st_size

    def sync_dir(self, path: str) -> None:
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

    def try_lock(self, path: str) -> bool:
        if path in self._locks:
            return True
        fd = lock_file(path)
        if fd is None:
            return False
        self._locks[path] = fd
        return True

    def unlock_all(self) -> None:
        """Release all locks, as the end of the process would."""
        while self._locks:
            unlock_file(self._locks.popitem()[1])

    def free_bytes(self, path: str) -> tuple[int, int]:
        found = os.statvfs(path)
        return found.f_blocks * found.f_frsize, found.f_bavail * found.f_frsize
