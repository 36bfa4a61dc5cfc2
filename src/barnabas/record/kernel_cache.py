"""Where compiled loops are kept when numba finds no place: a folder below the machine's temporary one.

numba keeps machine code beside the source, else in the user's cache directory, and raises at import
where it can write to neither: containers without root, executors of YARN, read-only installations.
What it keeps is pickled, so the folder must belong to this user alone; one that another user could
have filled is not used.

Source: numba's ``core/caching.py``.
"""

from __future__ import annotations

import stat
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

NAME = "barnabas-numba"


def jitted(njit: Callable[..., Any], config: Any, function: Callable[..., Any]) -> Any:
    """`function` by numba's `njit`, kept on disk where there is a place for it: numba's own, else ours,
    else none, and each process compiles for itself."""
    options = {"nogil": True, "boundscheck": False}
    try:
        return njit(cache=True, **options)(function)
    except RuntimeError as error:
        if "no locator available" not in str(error):
            raise
    folder = own_folder()
    if folder is None:
        return njit(**options)(function)
    config.CACHE_DIR = str(folder)  # looked at when a function is decorated, and at no other time
    try:
        return njit(cache=True, **options)(function)
    except RuntimeError:
        return njit(**options)(function)


def own_folder() -> Path | None:
    """A folder for this user's machine code, or None where there cannot be one."""
    try:
        with tempfile.NamedTemporaryFile(prefix=NAME) as file:
            user = Path(file.name).stat().st_uid
        folder = Path(tempfile.gettempdir(), f"{NAME}-{user}")
        folder.mkdir(mode=0o700, exist_ok=True)
        found = folder.lstat()
    except OSError:
        return None
    is_own = stat.S_ISDIR(found.st_mode) and found.st_uid == user
    return folder if is_own and not found.st_mode & 0o022 else None
