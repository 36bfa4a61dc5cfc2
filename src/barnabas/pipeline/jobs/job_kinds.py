"""The kinds of jobs beside a pipeline: mirror, replay, audit; and the keys of their tables in its file.

Owns `Mirror`, `Replay` and the errors of all three, and times in a file.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from barnabas.pipeline.audit.subject import Audit
from barnabas.pipeline.options import absolute

if TYPE_CHECKING:
    from barnabas.pipeline.jobs.job_file import FileReading

MIRROR = ("alias", "groups", "target")
REPLAY = ("begin", "end", "timestamps")
AUDIT = ("folders", "replicas", "report")
NAME = re.compile(r"[A-Za-z0-9._-]+")


@dataclass(frozen=True, slots=True)
class Mirror:
    """Topics of the source go to `target` as ``<alias>.<topic>``, and with them the offsets of `groups`, a
    pattern."""

    alias: str
    groups: str
    target: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Replay:
    """Records from `begin_ms` on and before `end_ms`; with their own timestamps or new ones."""

    begin_ms: int
    end_ms: int | None
    keeps_timestamps: bool = True


class KindsReading:
    """The reading of one file's kinds."""

    def __init__(self, reading: FileReading) -> None:
        self._reading = reading

    def mirror(self, raw: dict[str, Any], name: str, checkpoint: str) -> Mirror:
        path = ("mirror",)
        table = self._reading.table(raw, (), "mirror")
        self._reading.check_keys(table, path, MIRROR)
        alias = self._reading.text(table, path, "alias")
        groups = self._reading.text(table, path, "groups") or ".*"
        for key, value, wanted in (("alias", alias, NAME), ("groups", groups, None)):
            try:
                if wanted is None:
                    re.compile(value)
                elif value and not wanted.fullmatch(value):
                    self._reading.wrong((*path, key), "letters, digits, '.', '_' and '-' only")
            except re.error as error:
                self._reading.wrong((*path, key), f"{value!r} is no pattern: {error}")
        target = self._reading.options(table.get("target", {}), (*path, "target"))
        self._reading.check_writer({**target, "topic": "t"}, (*path, "target"), name, checkpoint)
        return Mirror(alias, groups, target)

    def replay(self, raw: dict[str, Any]) -> Replay:
        path = ("replay",)
        table = self._reading.table(raw, (), "replay")
        self._reading.check_keys(table, path, REPLAY)
        times: dict[str, int | None] = {}
        for key in ("begin", "end"):
            try:
                times[key] = time_ms(table.get(key))
            except ValueError:
                times[key] = None
                self._reading.wrong(
                    (*path, key), f"a time as 2024-02-29T12:00:00Z, not {table[key]!r}"
                )
        if times["begin"] is None:
            self._reading.wrong(
                path, "begin is needed: the time of the first record, 2024-02-29T12:00:00Z"
            )
        keeps = self._reading.one_of(table, path, "timestamps", ("keep", "now"), "keep")
        return Replay(times["begin"] or 0, times["end"], keeps == "keep")

    def audit(self, raw: dict[str, Any]) -> Audit:
        path = ("audit",)
        table = self._reading.table(raw, (), "audit")
        self._reading.check_keys(table, path, AUDIT)
        folders = self._reading.names(table, path, "folders") if "folders" in table else ()
        if folders and "source" in raw:
            self._reading.wrong((*path, "folders"), "folders or a source, not both")
        replicas = table.get("replicas", True)
        if not isinstance(replicas, bool):
            self._reading.wrong((*path, "replicas"), f"true or false, not {replicas!r}")
        report = self._reading.text(table, path, "report")
        return Audit(tuple(absolute(folder) or "" for folder in folders), bool(replicas), report)


def time_ms(value: Any) -> int | None:
    """A TOML time, ISO 8601 text or number of ms as ms since 1970. A time without zone is UTC. Raises
    `ValueError`."""
    if value is None:
        return None
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    found = value if isinstance(value, datetime) else datetime.fromisoformat(str(value))
    if found.tzinfo is None:
        found = found.replace(tzinfo=UTC)
    return int(found.timestamp() * 1000)
