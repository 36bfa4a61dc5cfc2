"""The command of ``barnabas`` that shows or does the same as a page."""

from __future__ import annotations

import shlex
from collections.abc import Iterable


def command_line(words: Iterable[object]) -> str:
    """The line for a shell: words with anything but letters and digits are quoted."""
    return shlex.join(["barnabas", *map(str, words)])
