"""A disk on which everything may be tried, and nothing is done: what is written is kept in memory, in front
of what the real one has.

So a directory can be opened as a node would open it (which cuts what is damaged, and rebuilds indexes) to
report what that would do. The rest is read from the real disk, which must not change meanwhile.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator, Sequence

from barnabas.ports import Disk, File
from barnabas.types import Buffer


class _Content:
    """The content of one file: the first `kept` bytes of a real one, and what was written behind them."""

    __slots__ = ("kept", "source", "tail")

    def __init__(self, source: str = "", kept: int = 0) -> None:
        self.source = source
        self.kept = kept
        self.tail = bytearray()

    @property
    def size(self) -> int:
        return self.kept + len(self.tail)


class OverlayFile(File):
    """An open file of a `OverlayDisk`."""

    def __init__(self, path: str, content: _Content, real: File | None) -> None:
        self._path = path
        self._content = content
        self._real = real
        """Closed with it; None where nothing of a real file is left."""
        self._is_closed = False

    @property
    def path(self) -> str:
        return self._path

    def size(self) -> int:
        return self._content.size

    def append(self, parts: Sequence[Buffer]) -> int:
        content = self._open()
        position = content.size
        for part in parts:
            content.tail += part
        return position

    def write_at(self, position: int, data: Buffer) -> None:
        content = self._open()
        if position > content.size:
            self.truncate(position)
        elif position < content.kept:
            content.tail[:0] = self._real_bytes(position, content.kept)
            content.kept = position
        at = position - content.kept
        content.tail[at : at + len(data)] = data

    def read_at(self, position: int, size: int) -> bytes:
        content = self._open()
        if position < 0:
            raise OSError(errno.EINVAL, "Invalid argument", self._path)
        end = min(position + size, content.size)
        data = self._real_bytes(position, min(end, content.kept))
        return data + content.tail[max(position - content.kept, 0) : max(end - content.kept, 0)]

    def try_read_at(self, position: int, size: int) -> Buffer | None:
        return self.read_at(position, size)

    def truncate(self, size: int) -> None:
        content = self._open()
        content.kept = min(content.kept, size)
        del content.tail[size - content.kept :]
        content.tail += bytes(size - content.size)

    def sync(self) -> None:
        self._open()

    def close(self) -> None:
        self._is_closed = True
        if self._real is not None:
            self._real.close()

    def _open(self) -> _Content:
        if self._is_closed:
            raise ValueError(f"{self._path} is closed")
        return self._content

    def _real_bytes(self, start: int, end: int) -> bytes:
        if end <= start:
            return b""
        assert self._real is not None
        return self._real.read_at(start, end - start)


class OverlayDisk(Disk):
    """`disk` as it would be. Locks are the real one's."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self._files: dict[str, _Content | None] = {}
        """The files that differ, by path; None: it was removed."""
        self._dirs: dict[str, bool] = {}
        """Directories that were made; False: removed."""

    # -- files -----------------------------------------------------------------------------------

    def open(self, path: str, *, create: bool = False) -> File:
        content = self._find(path)
        if content is None:
            if not create or not self.is_dir(_parent(path)):
                raise _missing(path)
            content = _Content()
        self._files[path] = content
        real = self._disk.open(content.source) if content.kept else None
        return OverlayFile(path, content, real)

    def read_file(self, path: str) -> bytes:
        file = self.open(path)
        try:
            return file.read_at(0, file.size())
        finally:
            file.close()

    def write_atomic(self, path: str, data: bytes, *, durable: bool = True) -> None:
        if not self.is_dir(_parent(path)):
            raise _missing(path)
        content = self._files[path] = _Content()
        content.tail += data

    def remove(self, path: str) -> None:
        self._found(path)
        self._files[path] = None

    def size(self, path: str) -> int:
        return self._found(path).size

    def _find(self, path: str) -> _Content | None:
        if path in self._files:
            return self._files[path]
        if self._disk.exists(path) and not self._disk.is_dir(path):
            return _Content(path, self._disk.size(path))
        return None

    def _found(self, path: str) -> _Content:
        content = self._find(path)
        if content is None:
            raise _missing(path)
        return content

    # -- names -----------------------------------------------------------------------------------

    def exists(self, path: str) -> bool:
        return self._find(path) is not None or self.is_dir(path)

    def is_dir(self, path: str) -> bool:
        known = self._dirs.get(path)
        return self._disk.is_dir(path) if known is None else known

    def list_dir(self, path: str) -> list[str]:
        if not self.is_dir(path):
            raise _missing(path)
        names = set(self._disk.list_dir(path)) if self._disk.is_dir(path) else set()
        names.update(
            other.rpartition("/")[2]
            for other in (*self._files, *self._dirs)
            if _parent(other) == path
        )
        return sorted(name for name in names if self.exists(f"{path}/{name}"))

    def make_dirs(self, path: str) -> None:
        while not self.is_dir(path):
            self._dirs[path] = True
            path = _parent(path)

    def rename(self, source: str, target: str) -> None:
        if not self.is_dir(source):
            self._files[target], self._files[source] = self._found(source), None
            return
        for path in [*self._below(source)]:
            moved = target + path[len(source) :]
            if self.is_dir(path):
                self._dirs[moved], self._dirs[path] = True, False
            else:
                self._files[moved], self._files[path] = self._found(path), None

    def remove_tree(self, path: str) -> None:
        for found in [*self._below(path)]:
            if self.is_dir(found):
                self._dirs[found] = False
            else:
                self._files[found] = None

    def _below(self, directory: str) -> Iterator[str]:
        """Everything in it, and it itself last."""
        for name in self.list_dir(directory):
            path = f"{directory}/{name}"
            if self.is_dir(path):
                yield from self._below(path)
            else:
                yield path
        yield directory

    # -- the rest --------------------------------------------------------------------------------

    def sync_dir(self, path: str) -> None:
        if not self.is_dir(path):
            raise _missing(path)

    def try_lock(self, path: str) -> bool:
        return self._disk.try_lock(path)

    def free_bytes(self, path: str) -> tuple[int, int]:
        return self._disk.free_bytes(path)


def _parent(path: str) -> str:
    return path.rpartition("/")[0] or "/"


def _missing(path: str) -> OSError:
    return FileNotFoundError(errno.ENOENT, "No such file or directory", path)
