"""A disk on which some entries cannot be removed."""

from __future__ import annotations

import errno
from typing import Any


class RefusingDisk:
    """Refuses to remove paths that end with one of `refused`."""

    def __init__(self, disk: Any) -> None:
        self._disk = disk
        self.refused = set[str]()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._disk, name)

    def remove(self, path: str) -> None:
        self._check(path)
        self._disk.remove(path)

    def remove_tree(self, path: str) -> None:
        self._check(path)
        self._disk.remove_tree(path)

    def _check(self, path: str) -> None:
        if any(path.endswith(name) for name in self.refused):
            raise PermissionError(errno.EPERM, "Operation not permitted", path)
