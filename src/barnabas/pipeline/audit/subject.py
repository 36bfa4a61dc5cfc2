"""The subject of an audit, as a job file's ``[audit]`` names it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Audit:
    """The subject of a comparison: `folders` of stopped nodes, or the replicas of the source's topics."""

    folders: tuple[str, ...] = ()
    replicas: bool = True
    report: str = ""
