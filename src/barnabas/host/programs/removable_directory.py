"""Marks directories that a program made to be removed, and removes only those.

A command with an order to remove a directory must not remove one that holds a user's data.
"""

from __future__ import annotations

import shutil
from contextlib import suppress
from pathlib import Path

_MARK = ".ephemeral"


def mark_removable(directory: Path) -> None:
    """Say that `directory` was made to be removed."""
    (directory / _MARK).touch()


def remove_if_marked(directory: Path) -> None:
    """Remove `directory` with its content, unless it lacks the mark. It has another name first, so that a
    program that still starts finds nothing in it and adds nothing to it."""
    if not (directory / _MARK).exists():
        return
    aside = directory.with_name(f"{directory.name}.removed")
    with suppress(OSError):  # what cannot be renamed may have files that can be removed
        directory = directory.rename(aside)
    shutil.rmtree(directory, ignore_errors=True)
