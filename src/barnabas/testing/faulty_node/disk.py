"""The real file system, parts of which refuse what they are asked.

A directory that is `FULL` refuses whatever needs room, with ENOSPC; one that is `FAILING` refuses everything
but closing, with EIO. Faults hold for everything below the directory, also for files that are open already.
Files that a helper process of the node opens are not covered.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence

from barnabas.host.disk import HostDisk
from barnabas.ports import File
from barnabas.types import Buffer

FULL, FAILING = "full", "failing"
NUMBERS = {FULL: errno.ENOSPC, FAILING: errno.EIO}


class DiskFaults:
    """The faults of a node's directories, by path."""

    def __init__(self) -> None:
        self._by_directory: dict[str, str] = {}

    def set(self, directory: str, fault: str | None) -> None:
        """`fault` is `FULL`, `FAILING` or None: the directory works again."""
        self._by_directory.pop(directory, None)
        if fault is not None:
            self._by_directory[directory] = fault

    def clear(self) -> None:
        self._by_directory.clear()

    def of(self, path: str) -> str | None:
        """The fault of the directory that `path` is in, or is."""
        for directory, fault in self._by_directory.items():
            if path == directory or path.startswith(f"{directory}/"):
                return fault
        return None

    def check_room(self, path: str) -> None:
        """Raises ``OSError`` where something is to be written at `path`."""
        if self._by_directory and (fault := self.of(path)) is not None:
            raise OSError(NUMBERS[fault], os.strerror(NUMBERS[fault]), path)

    def check(self, path: str) -> None:
        """Raises ``OSError`` where something else is to be done at `path`."""
        if self._by_directory and self.of(path) == FAILING:
            raise OSError(errno.EIO, os.strerror(errno.EIO), path)


class FaultyFile(File):
    """``ports.File`` over a file of the real disk."""

    def __init__(self, file: File, faults: DiskFaults) -> None:
        self._file = file
        self._faults = faults

    def __repr__(self) -> str:
        return f"FaultyFile({self._file!r})"

    @property
    def path(self) -> str:
        return self._file.path

    def size(self) -> int:
        return self._file.size()

    def close(self) -> None:
        self._file.close()

    def append(self, parts: Sequence[Buffer]) -> int:
        self._faults.check_room(self._file.path)
        return self._file.append(parts)

    def write_at(self, position: int, data: Buffer) -> None:
        self._faults.check_room(self._file.path)
        self._file.write_at(position, data)

    def read_at(self, position: int, size: int) -> bytes:
        self._faults.check(self._file.path)
        return self._file.read_at(position, size)

    def try_read_at(self, position: int, size: int) -> Buffer | None:
        self._faults.check(self._file.path)
        return self._file.try_read_at(position, size)

    def truncate(self, size: int) -> None:
        self._faults.check(self._file.path)
        self._file.truncate(size)

    def sync(self) -> None:
        self._faults.check(self._file.path)
        self._file.sync()


class FaultyDisk(HostDisk):
    """``ports.Disk`` with `faults`."""

    def __init__(self, faults: DiskFaults) -> None:
        super().__init__()
        self.faults = faults

    def open(self, path: str, *, create: bool = False) -> FaultyFile:  # type: ignore[override]
        if create and not self.exists(path):
            self.faults.check_room(path)
        self.faults.check(path)
        return FaultyFile(super().open(path, create=create), self.faults)

    def read_file(self, path: str) -> bytes:
        self.faults.check(path)
        return super().read_file(path)

    def write_atomic(self, path: str, data: bytes, *, durable: bool = True) -> None:
        self.faults.check_room(path)
        super().write_atomic(path, data, durable=durable)

    def list_dir(self, path: str) -> list[str]:
        self.faults.check(path)
        return super().list_dir(path)

    def make_dirs(self, path: str) -> None:
        if not self.exists(path):
            self.faults.check_room(path)
        super().make_dirs(path)

    def rename(self, source: str, target: str) -> None:
        self.faults.check(source)
        super().rename(source, target)

    def remove(self, path: str) -> None:
        self.faults.check(path)
        super().remove(path)

    def remove_tree(self, path: str) -> None:
        self.faults.check(path)
        super().remove_tree(path)

    def size(self, path: str) -> int:
        self.faults.check(path)
        return super().size(path)

    def sync_dir(self, path: str) -> None:
        self.faults.check(path)
        super().sync_dir(path)

    def free_bytes(self, path: str) -> tuple[int, int]:
        self.faults.check(path)
        total, usable = super().free_bytes(path)
        return total, 0 if self.faults.of(path) == FULL else usable
