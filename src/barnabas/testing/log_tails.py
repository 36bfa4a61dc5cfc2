"""The last lines of the logs of a cluster, for the error of a test that waited in vain."""

from __future__ import annotations

from pathlib import Path

LINES = 25


def tail(file: Path) -> str:
    try:
        return "\n".join(file.read_text(errors="replace").splitlines()[-LINES:])
    except OSError as error:
        return str(error)


def tails_of(directory: Path) -> str:
    """The last lines of ``barnabas up`` and of every node below a cluster's directory."""
    files = [directory / "up.log", *sorted(directory.glob("cluster/node-*/node.log"))]
    return "\n".join(f"== {file.name} of {file.parent.name}\n{tail(file)}" for file in files)
