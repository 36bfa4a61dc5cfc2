"""A finding of the doctor: what is wrong, why that matters, and the command that mends or shows it."""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import Any, NamedTuple

from barnabas.cli.plain_text import counted, users_first

NAMED_MAX = 5
"""Names that a finding lists; it counts the others."""
PAGE = "docs/troubleshooting.md"


class Severity(IntEnum):
    """How bad it is; the larger, the worse."""

    NOTICE = 0
    WARNING = 1
    CRITICAL = 2

    @property
    def exit_status(self) -> int:
        """The status with which `barnabas doctor` ends where nothing is worse."""
        return {self.NOTICE: 0, self.WARNING: 10, self.CRITICAL: 20}[self]


class ClusterFinding(NamedTuple):
    """One thing that is wrong. `code` names the check, for --ignore; `see` is a section of `PAGE`."""

    code: str
    severity: Severity
    what: str
    why: str
    command: str
    see: str

    @property
    def link(self) -> str:
        return f"{PAGE}#{self.see}"

    def as_dict(self) -> dict[str, Any]:
        return {
            "code": self.code,
            "severity": self.severity.name.lower(),
            "what": self.what,
            "why": self.why,
            "command": self.command,
            "link": self.link,
        }


def some(names: Sequence[str]) -> str:
    """The first names, internal topics last, and how many there are more."""
    more = len(names) - NAMED_MAX
    return ", ".join(users_first(names)[:NAMED_MAX]) + (f" and {more} more" if more > 0 else "")


def count_of(names: Sequence[str], noun: str) -> str:
    """``1 partition``, ``3 partitions``."""
    return counted(len(names), noun)


def worst(findings: Sequence[ClusterFinding]) -> Severity:
    return max((finding.severity for finding in findings), default=Severity.NOTICE)
