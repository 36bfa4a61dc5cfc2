"""Caches compiled loops on disk where a directory can be written, and compiles in memory where none can.

numba caches machine code beside the source, else in the user's cache directory, and raises at import
where it can write to neither: containers without root, executors of YARN, read-only installations.
Then the folder that a process has named by `fall_back_to` is used; it does so before it imports the loops.
Where there is none or it cannot be written, each process compiles the loops again.

Source: numba's ``core/caching.py``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def no_folder() -> str | None:
    return None


_fallback_folder: Callable[[], str | None] = no_folder

is_kept = True
"""False once a loop could not be cached on disk, so that this process compiled it in memory."""


def fall_back_to(folder: Callable[[], str | None]) -> None:
    """`folder` returns the folder for machine code where numba finds none, or None. Called at the start of a
    process (:mod:`barnabas.pipeline`, :mod:`barnabas.host.helper`)."""
    global _fallback_folder
    _fallback_folder = folder


def jitted(njit: Callable[..., Any], config: Any, function: Callable[..., Any]) -> Any:
    """`function`, compiled by numba's `njit` and cached on disk where possible; `config` is numba's."""
    global is_kept
    options = {"nogil": True, "boundscheck": False}
    try:
        return njit(cache=True, **options)(function)
    except RuntimeError as error:
        if "no locator available" not in str(error):
            raise
    folder = _fallback_folder()
    if folder is not None:
        config.CACHE_DIR = folder  # numba reads it only when a function is decorated
        try:
            return njit(cache=True, **options)(function)
        except RuntimeError:
            pass
    is_kept = False
    return njit(**options)(function)
