"""Reads the usual lines of ``barnabas up`` without loading what reads command lines, which takes longer than
all else that this command does before its nodes start.

What it is not sure of, it leaves to `barnabas.cli.commands.up`, whose parameters a test compares with these.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from barnabas.cli.up.up_run import UpOptions

FLAGS = {
    "--ephemeral": "ephemeral",
    "--secure": "secure",
    "--restart": "restart",
    "--console": "console",
    "--replace-lost": "replace_lost",
    "--end-with-input": "end_with_input",
    "--coordinators": "coordinators",
}
NUMBERS = {"--nodes": range(1, 101), "--port": range(1, 65_536), "--tell-ready": range(2**31)}
TEXTS: dict[str, Callable[[str], Any]] = {"--data": Path, "--racks": str, "--remove-at-end": Path}
SETTING = "--set"


def read_line(words: Sequence[str]) -> UpOptions | None:
    """The options of the line behind ``up``; None where it is not one of the usual ones."""
    found: dict[str, Any] = {}
    settings: list[str] = []
    left: Iterator[str] = iter(words)
    for word in left:
        if word in FLAGS:
            found[FLAGS[word]] = True
            continue
        value = next(left, "")
        if not value or value.startswith("-"):
            return None
        if word == SETTING:
            settings.append(value)
        elif word in TEXTS:
            found[_parameter(word)] = TEXTS[word](value)
        elif word in NUMBERS and value.isascii() and value.isdecimal():
            found[_parameter(word)] = int(value)
            if int(value) not in NUMBERS[word]:
                return None
        else:
            return None
    return UpOptions(setting=settings, **found)


def _parameter(option: str) -> str:
    return option.removeprefix("--").replace("-", "_")
