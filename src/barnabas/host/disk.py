"""The real file system behind :class:`barnabas.ports.Disk`.

Plain system calls: one ``writev`` per append, ``preadv`` without waiting where the kernel can, one
``fdatasync`` per sync. A file that is being synced on another thread may be appended to; closing it waits
for nobody, since the sync holds a descriptor of its own.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
from collections.abc import Sequence

from barnabas.ports import Disk, File
from barnabas.types import Buffer

IOV_MAX = 1024
_NOWAIT = getattr(os, "RWF_NOWAIT", 0)


class HostFile(File):
    """One open file."""

    __slots__ = ("_descriptor", "_path", "_size")

    def __init__(self, path: str, descriptor: int) -> None:
        self._path = path
        self._descriptor = descriptor
        self._size = os.fstat(descriptor).st_size

    @property
    def path(self) -> str:
        return self._path

    def size(self) -> int:
        return self._size

    def append(self, parts: Sequence[Buffer]) -> int:
        position = self._size
        wanted = sum(map(len, parts))
        if len(parts) > IOV_MAX:
            parts = [b"".join(parts)]
        written = os.pwritev(self._descriptor, parts, position)
        if written != wanted:
            self._write_rest(b"".join(parts)[written:], position + written)
        self._size = position + wanted
        return position

    def _write_rest(self, data: bytes, position: int) -> None:
        """A short write: the device is full (then the next one says so), or a signal came."""
        view = memoryview(data)
        while view:
            written = os.pwrite(self._descriptor, view, position)
            view, position = view[written:], position + written

    def write_at(self, position: int, data: Buffer) -> None:
        self._write_rest(bytes(data), position)
        self._size = max(self._size, position + len(data))

    def read_at(self, position: int, size: int) -> bytes:
        data = os.pread(self._descriptor, size, position)
        if len(data) < size:
            while more := os.pread(self._descriptor, size - len(data), position + len(data)):
                data += more
        return data

    def try_read_at(self, position: int, size: int) -> bytes | None:
        size = max(0, min(size, self._size - position))
        if not _NOWAIT or not size:
            return self.read_at(position, size)
        buffer = bytearray(size)
        try:
            count = os.preadv(self._descriptor, [buffer], position, _NOWAIT)
        except BlockingIOError:
            return None
        except OSError as error:
            if error.errno != 95:  # EOPNOTSUPP: this file system always may wait
                raise
            return self.read_at(position, size)
        return bytes(buffer) if count == size else None

    def truncate(self, size: int) -> None:
        os.ftruncate(self._descriptor, size)
        self._size = size

    def sync(self) -> None:
        duplicate = os.dup(self._descriptor)
        try:
            os.fdatasync(duplicate)
        finally:
            os.close(duplicate)

    def close(self) -> None:
        if self._descriptor >= 0:
            descriptor, self._descriptor = self._descriptor, -1
            os.close(descriptor)


class HostDisk(Disk):
    """The machine's file system."""

    def __init__(self) -> None:
        self._locks: dict[str, int] = {}

    def open(self, path: str, *, create: bool = False) -> HostFile:
        flags = os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if create else 0)
        return HostFile(path, os.open(path, flags, 0o644))

    def read_file(self, path: str) -> bytes:
        with open(path, "rb") as file:
            return file.read()

    def write_atomic(self, path: str, data: bytes, *, durable: bool = True) -> None:
        temporary = path + ".tmp"
        with open(temporary, "wb") as file:
            file.write(data)
            if durable:
                file.flush()
                os.fdatasync(file.fileno())
        os.replace(temporary, path)
        if durable:
            self.sync_dir(os.path.dirname(path))

    def exists(self, path: str) -> bool:
        return os.path.exists(path)

    def is_dir(self, path: str) -> bool:
        return os.path.isdir(path)

    def list_dir(self, path: str) -> list[str]:
        return sorted(os.listdir(path))

    def make_dirs(self, path: str) -> None:
        os.makedirs(path, exist_ok=True)

    def rename(self, source: str, target: str) -> None:
        os.replace(source, target)

    def remove(self, path: str) -> None:
        os.unlink(path)

    def remove_tree(self, path: str) -> None:
        shutil.rmtree(path)

    def size(self, path: str) -> int:
        return os.stat(path).st_size

    def sync_dir(self, path: str) -> None:
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def try_lock(self, path: str) -> bool:
        if path in self._locks:
            return True
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            return False
        self._locks[path] = descriptor
        return True

    def unlock_all(self) -> None:
        while self._locks:
            with contextlib.suppress(OSError):
                os.close(self._locks.popitem()[1])

    def free_bytes(self, path: str) -> tuple[int, int]:
        found = os.statvfs(path)
        return found.f_blocks * found.f_frsize, found.f_bavail * found.f_frsize
