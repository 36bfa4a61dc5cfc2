"""Gives the files of a package the modes that users need, whatever the umask of the one who builds it.

Folders and programs can be read and run by all, other files can be read by all; only the owner writes.
"""

from __future__ import annotations

import stat
from collections.abc import Mapping
from pathlib import Path

PROGRAM = 0o755
FILE = 0o644


def fix(folder: Path, others: Mapping[str, int] | None = None) -> None:
    """Set the mode of `folder` and of all below it. `others`: path below `folder` → its own mode."""
    own = others or {}
    for path in (folder, *folder.rglob("*")):
        if not path.is_symlink():
            path.chmod(own.get(path.relative_to(folder).as_posix(), usual(path)))


def usual(path: Path) -> int:
    """The mode of a folder, or of a file whose owner may run it, is `PROGRAM`; that of others is `FILE`."""
    is_program = path.is_dir() or path.stat().st_mode & stat.S_IXUSR
    return PROGRAM if is_program else FILE
