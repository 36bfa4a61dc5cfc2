"""A bounded cache of open files. Logs keep no file open; they ask :class:`FileCache`, which closes the least
recently used ones.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from errno import EMFILE, ENFILE
from typing import Protocol

from barnabas.limits import LogBounds
from barnabas.log.file_names import LOG
from barnabas.ports import Disk, File

OPEN_FILES_MAX = LogBounds().open_files_max
LOADED_TABLES_MAX = LogBounds().loaded_tables_max


class Releasable(Protocol):
    @property
    def path(self) -> str: ...
    def release(self) -> None: ...
    def size(self) -> int: ...


class FileCache:
    """Opens files on demand, at most `limit` at a time, and bounds the number of index tables in memory."""

    def __init__(
        self,
        disk: Disk,
        limit: int = OPEN_FILES_MAX,
        *,
        create: bool = True,
        loaded_tables_max: int = LOADED_TABLES_MAX,
        on_rebuilt: Callable[[str, str], None] = lambda path, reason: None,
    ) -> None:
        """`create`: missing files are created; readers pass False and get ``FileNotFoundError``. `on_rebuilt`
        receives each file that was damaged, that follows from batches and was made again from them."""
        self.disk = disk
        self._create = create
        self.on_rebuilt = on_rebuilt
        self.limit = limit
        self._loaded_tables_max = loaded_tables_max
        self._files: OrderedDict[str, File] = OrderedDict()
        self._loaded: OrderedDict[str, Releasable] = OrderedDict()

    def keep_loaded(self, table: Releasable) -> None:
        """Count `table` as loaded; release the one that was loaded first if there are too many."""
        self._loaded[table.path] = table
        while len(self._loaded) > self._loaded_tables_max:
            self._loaded.popitem(last=False)[1].release()

    @property
    def loaded_bytes(self) -> int:
        """The index tables in memory."""
        return sum(table.size() for table in self._loaded.values())

    def get(self, path: str, *, make: bool = False) -> File:
        """The open file at `path`. A ``.log`` file is created only with `make`: a deleted segment must not
        look like an empty one. Raises ``OSError``."""
        file = self._files.get(path)
        if file is not None:
            self._files.move_to_end(path)
            return file
        create = make or (self._create and not path.endswith(LOG))
        try:
            file = self.disk.open(path, create=create)
        except OSError as error:
            if error.errno not in (EMFILE, ENFILE) or not self._files:
                raise
            self._close_oldest(len(self._files) // 2 + 1)  # the process has no descriptor left
            file = self.disk.open(path, create=create)
        self._files[path] = file
        if len(self._files) > self.limit:
            self._close_oldest(len(self._files) - self.limit)
        return file

    def _close_oldest(self, count: int) -> None:
        for _ in range(count):
            self._files.popitem(last=False)[1].close()

    def close(self, path: str) -> None:
        self._loaded.pop(path, None)
        file = self._files.pop(path, None)
        if file is not None:
            file.close()

    def close_below(self, directory: str) -> None:
        for path in [path for path in self._files if path.startswith(f"{directory}/")]:
            self.close(path)

    def close_all(self) -> None:
        while self._files:
            self._files.popitem()[1].close()

    def __len__(self) -> int:
        return len(self._files)
