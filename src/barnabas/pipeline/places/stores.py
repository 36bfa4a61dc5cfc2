"""Stores of files that driver and executors share: staged rows, ledgers, files beside a checkpoint.

Two kinds of store under one protocol: a directory (``/path`` or ``file:``), written with fsync and
atomic rename, and any other file system that Arrow knows by its URI: ``s3:`` ..., where a file
appears whole when it is closed, or ``hdfs:``, where a kill may leave a part of one. Only a
directory on a file system with links can say atomically who came first (`write_new`); elsewhere that
is asked before writing, which two drivers at once could both pass.
"""

from __future__ import annotations

import errno
import os
import re
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Protocol
from urllib.parse import unquote, urlparse

import pyarrow.fs as pafs

from barnabas.pipeline.errors import StagingError
from barnabas.pipeline.places import s3_settings
from barnabas.types import Buffer

SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")
HALF_WRITTEN = ".tmp"
"""How the name of a file ends that is not what it is to be yet. A process that is killed leaves it."""
UNKNOWN_HERE = frozenset({errno.EPERM, errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP})
"""The errors of file systems that have no links, or cannot sync a directory."""

WITHOUT_FOLDERS = frozenset({"s3", "gcs"})
"""Types of Arrow's file systems whose files need no folder that exists."""
OTHER_NAMES = {"s3a": "s3:", "s3n": "s3:", "dbfs": "/dbfs"}
"""Hadoop's and Databricks' schemes, and by what pyarrow and this machine reach the same place."""
DBFS = OTHER_NAMES["dbfs"]
"""The folder where Databricks mounts its file system on each machine."""


class StagingStore(Protocol):
    """Files by name below one root. Missing files raise ``FileNotFoundError``."""

    def write(self, name: str, parts: Sequence[Buffer]) -> None:
        """Make or replace a file as a whole, durably."""

    def write_new(self, name: str, parts: Sequence[Buffer]) -> bool:
        """Write as `write` does, but False and no change where the file exists."""

    def read(self, name: str) -> bytes: ...

    def read_at(self, name: str, position: int, size: int) -> bytes: ...

    def names(self, directory: str) -> list[str]:
        """Names of the files in a directory below the root, or in the root itself where it has no name;
        sorted, none where it is missing."""

    def delete(self, name: str) -> None:
        """No error where it is gone."""


class DirectoryStore:
    """A directory on a file system of this machine, perhaps a mounted one."""

    def __init__(self, root: str) -> None:
        self.root = root

    def __repr__(self) -> str:
        return f"DirectoryStore({self.root})"

    def _path(self, name: str) -> str:
        return os.path.join(self.root, name)

    @contextmanager
    def _written_beside(self, path: str, parts: Sequence[Buffer]) -> Iterator[str]:
        """The parts in a file of their own, which is gone afterwards if it has no other name."""
        os.makedirs(os.path.dirname(path), exist_ok=True)
        beside = f"{path}.{uuid.uuid4().hex}{HALF_WRITTEN}"
        try:
            with open(beside, "wb") as file:
                for part in parts:
                    file.write(part)
                file.flush()
                os.fsync(file.fileno())
            yield beside
        finally:
            with suppress(FileNotFoundError):
                os.unlink(beside)

    def _sync_directory(self, path: str) -> None:
        descriptor = os.open(os.path.dirname(path), os.O_RDONLY)
        try:
            os.fsync(descriptor)
        except OSError as error:
            if error.errno not in UNKNOWN_HERE:
                raise
        finally:
            os.close(descriptor)

    def write(self, name: str, parts: Sequence[Buffer]) -> None:
        path = self._path(name)
        with self._written_beside(path, parts) as beside:
            os.replace(beside, path)
        self._sync_directory(path)

    def write_new(self, name: str, parts: Sequence[Buffer]) -> bool:
        path = self._path(name)
        with self._written_beside(path, parts) as beside:
            try:
                os.link(beside, path)
            except FileExistsError:
                return False
            except OSError as error:
                if error.errno not in UNKNOWN_HERE:
                    raise
                if os.path.exists(path):
                    return False
                os.replace(beside, path)
        self._sync_directory(path)
        return True

    def read(self, name: str) -> bytes:
        with open(self._path(name), "rb") as file:
            return file.read()

    def read_at(self, name: str, position: int, size: int) -> bytes:
        with open(self._path(name), "rb") as file:
            file.seek(position)
            return file.read(size)

    def names(self, directory: str) -> list[str]:
        try:
            return sorted(os.listdir(self._path(directory)))
        except FileNotFoundError:
            return []

    def delete(self, name: str) -> None:
        try:
            os.unlink(self._path(name))
        except FileNotFoundError:
            return


class ArrowStore:
    """Any file system that Arrow opens by URI."""

    def __init__(self, files: pafs.FileSystem, root: str) -> None:
        self._files = files
        self.root = root

    def __repr__(self) -> str:
        return f"ArrowStore({self._files.type_name}:{self.root})"

    def _path(self, name: str) -> str:
        return f"{self.root}/{name}" if name else self.root

    def write(self, name: str, parts: Sequence[Buffer]) -> None:
        with self.open_output(name) as stream:
            for part in parts:
                stream.write(part)

    def open_output(self, name: str) -> Any:
        """A file to be written and closed, a context manager. An object store shows it when it is closed."""
        path = self._path(name)
        if self._files.type_name not in WITHOUT_FOLDERS:
            self._files.create_dir(path.rpartition("/")[0], recursive=True)
        return self._files.open_output_stream(path)

    def write_new(self, name: str, parts: Sequence[Buffer]) -> bool:
        if self._files.get_file_info(self._path(name)).type != pafs.FileType.NotFound:
            return False
        self.write(name, parts)
        return True

    def read(self, name: str) -> bytes:
        with self._files.open_input_stream(self._path(name)) as stream:
            return bytes(stream.read())

    def read_at(self, name: str, position: int, size: int) -> bytes:
        with self._files.open_input_file(self._path(name)) as file:
            return bytes(file.read_at(size, position))

    def names(self, directory: str) -> list[str]:
        selector = pafs.FileSelector(self._path(directory), allow_not_found=True)
        return sorted(file.base_name for file in self._files.get_file_info(selector))

    def open_input(self, name: str) -> Any:
        """A file to be read at any position, a context manager."""
        return self._files.open_input_file(self._path(name))

    def size(self, name: str) -> int | None:
        """Bytes of a file, None where it is missing."""
        found = self._files.get_file_info(self._path(name))
        return found.size if found.type == pafs.FileType.File else None

    def files(self, directory: str) -> list[tuple[str, int]]:
        """Names below the root and sizes of all files below a directory, sorted."""
        selector = pafs.FileSelector(self._path(directory), allow_not_found=True, recursive=True)
        return sorted(
            (file.path.removeprefix(f"{self.root}/"), file.size)
            for file in self._files.get_file_info(selector)
            if file.type == pafs.FileType.File
        )

    def delete(self, name: str) -> None:
        try:
            self._files.delete_file(self._path(name))
        except FileNotFoundError:
            return


def open_store(location: str) -> StagingStore:
    """The store at a path or URI. Raises `StagingError` if no store has the scheme."""
    named = location
    scheme = SCHEME.match(named)
    instead = OTHER_NAMES.get(scheme[1].lower()) if scheme is not None else None
    if scheme is not None and instead is not None:
        named = instead + named[scheme.end() :]
        scheme = SCHEME.match(named)
    if instead == DBFS and not os.path.ismount(DBFS):
        raise StagingError(f"{location!r} cannot be opened: {DBFS} is no mounted file system here")
    if scheme is None:
        return DirectoryStore(os.path.abspath(named))
    if scheme[1].lower() == "file":
        return DirectoryStore(unquote(urlparse(named).path))
    try:
        is_s3 = scheme[1].lower() in s3_settings.SCHEMES
        found = s3_settings.open_s3(named) if is_s3 else None
        files, root = found or pafs.FileSystem.from_uri(named)
    except (ValueError, OSError) as error:
        raise StagingError(f"stagingLocation {location!r} cannot be opened: {error}") from error
    return ArrowStore(files, root)
