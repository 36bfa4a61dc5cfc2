"""Structured log lines: instant, level, event, then ``key=value`` pairs, one line each.

    2026-11-21T10:20:15.123Z info  raft.leader epoch=4 voters=1,2,3 took_ms=212

A value with spaces, quotes or line ends is written as a JSON string. Users and passwords in addresses are
left out of every value.
"""

from __future__ import annotations

import json
import os
import time
from collections import Counter
from collections.abc import Mapping

from barnabas import limits
from barnabas.config.definition import without_user
from barnabas.config.loggers import Loggers

LEVELS = ("debug", "info", "warning", "error")
_PLAIN = frozenset(
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.:,/@+*()[]#%<>~|;!?&$^{}"
)


class StructuredLog:
    """Writes lines of at least `level`, until `loggers` change it, to a file descriptor; `counts` has
    every line by level."""

    def __init__(self, descriptor: int = 2, level: str = "info") -> None:
        if level not in LEVELS:
            raise ValueError(f"a log level is {', '.join(LEVELS)}, not {level!r}")
        self._descriptor = descriptor
        self.loggers = Loggers(level)
        """Says which lines are written; its holder may change it."""
        self.counts: Counter[str] = Counter()

    def write(self, level: str, event: str, fields: Mapping[str, object]) -> None:
        """Write one line. A full disk or a closed pipe loses the line and does not stop the
        node."""
        self.counts[level] += 1
        if not self.loggers.allows(level, event):
            return
        line = format_line(time.time(), level, event, fields)
        try:
            os.write(self._descriptor, line.encode("utf-8", "backslashreplace"))
        except OSError:
            self.counts["lost"] += 1


def format_line(wall_s: float, level: str, event: str, fields: Mapping[str, object]) -> str:
    """The line with its line end."""
    instant = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(wall_s))
    parts = [f"{instant}.{int(wall_s * 1000) % 1000:03d}Z {level:<7} {event}"]
    parts += [f"{name}={_value(value)}" for name, value in fields.items()]
    line = " ".join(parts)
    if len(line) > limits.LOG_LINE_CHARS_MAX:
        line = line[: limits.LOG_LINE_CHARS_MAX] + "..."
    return line + "\n"


def _value(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.3f}".rstrip("0").rstrip(".")
    text = without_user(str(value))
    return text if text and _PLAIN.issuperset(text) else json.dumps(text)
