"""Compiled loops are kept on disk where there is a place for them, and work where there is none.

numba keeps machine code beside the source, else in the user's cache directory, and raises at import
where it can write to neither: containers without root, executors of YARN, read-only installations.
Then a folder that a process has named in `fallback_folder` is used, before the loops are imported. Where
none is named or it cannot be written either, each process compiles for itself.

Source: numba's ``core/caching.py``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def no_folder() -> str | None:
    return None


fallback_folder: Callable[[], str | None] = no_folder
"""Where to keep machine code if numba finds no place; None where there is none. Set by who starts a
process (:mod:`barnabas.pipeline`, :mod:`barnabas.host.helper`)."""

is_kept = True
"""False once a loop found no place: this process compiles it for itself."""


def jitted(njit: Callable[..., Any], config: Any, function: Callable[..., Any]) -> Any:
    """`function` by numba's `njit` with its `config`, kept on disk where that is possible."""
    global is_kept
    options = {"nogil": True, "boundscheck": False}
    try:
        return njit(cache=True, **options)(function)
    except RuntimeError as error:
        if "no locator available" not in str(error):
            raise
    folder = fallback_folder()
    if folder is not None:
        config.CACHE_DIR = folder  # looked at when a function is decorated, and at no other time
        try:
            return njit(cache=True, **options)(function)
        except RuntimeError:
            pass
    is_kept = False
    return njit(**options)(function)
