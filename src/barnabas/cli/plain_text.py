"""The output of commands: sentences, lines and cells without control characters.

Names and values come from other clients, and a terminal obeys escape sequences in them. Every command
prints through `say` or a table of `table_of`; a tidy test holds that. Line feeds and tabs stay in sentences;
in a cell of a table and in an event a line feed becomes ``\\n``. Other control characters become escapes as
in Python's strings (``\\x1b``), also where the output is no terminal: programs read ``--json``, which has
escapes of its own.
"""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Iterable

INTERNAL_PREFIX = "__"
"""Names of internal topics begin with it."""
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")
"""C0 without tab and line feed, DEL, C1, and halves of surrogate pairs, which no stream can encode."""


def visible(text: str) -> str:
    """`text` with an escape for each control character."""
    return _CONTROL.sub(lambda found: ascii(found[0])[1:-1], text)


def on_one_line(text: str) -> str:
    """`visible`, and with an escape for each line feed: a name must not look like the next row of a list."""
    return visible(text).replace("\n", "\\n")


def visible_bytes(data: bytes) -> bytes:
    """UTF-8 `data` as `visible` shows it; bytes that are no UTF-8 are escaped, for a terminal may take them
    as C1 characters."""
    return visible(data.decode("utf-8", "backslashreplace")).encode()


def json_line(text: str) -> str:
    """JSON `text`, which may have characters that are not ASCII, with escapes of JSON for the rest of the
    control characters."""
    return _CONTROL.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def counted(count: int, noun: str, plural: str = "") -> str:
    """``1 node``, ``2 nodes``; `plural` where it has no s behind it."""
    return f"{count:,} {noun if count == 1 else plural or noun + 's'}"


def say(text: object, *, err: bool = False) -> None:
    """Print a line on standard output, or on standard error."""
    print(visible(str(text)), file=sys.stderr if err else sys.stdout, flush=True)


def replace_screen(shown: str, problem: str = "") -> None:
    """Write `shown`, which came from `say` and tables, over what a terminal has; below it `problem`.
    Lines that the terminal has no room for are left out."""
    lines = shown.rstrip("\n").split("\n") + ([visible(problem)] if problem else [])
    lines = lines[: max(shutil.get_terminal_size().lines - 1, 1)]
    rest = "\x1b[K\n".join(lines)
    print(f"\x1b[H{rest}\x1b[K\n\x1b[J", end="", flush=True)


def users_first(names: Iterable[str]) -> list[str]:
    """The names in their order, but those of internal topics and their partitions last."""
    return sorted(names, key=lambda name: name.startswith(INTERNAL_PREFIX))
