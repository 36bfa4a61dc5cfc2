"""The figures of a query's last micro-batch, as one value: for the line of a run, for programs, for metrics.

Owns the figures of a query by source (rows, rows per second, lag in offsets and seconds), by phase (time),
and its last commit. The group that has the query's offsets in the cluster is named, so that a reader of
metrics of groups finds the same query. Numbers are those of Spark's progress; the lag is what the source
reports there (:mod:`barnabas.pipeline.read.lag`).

Source: Spark's ``StreamingQueryProgress`` and ``MicroBatchExecution``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import Any

from barnabas.pipeline.jobs.job_file import Job, Source
from barnabas.pipeline.read.lag import BEHIND, PREFIX, SECONDS

PHASES = {
    "offsets": ("latestOffset", "getOffset"),
    "plan": ("getBatch", "queryPlanning"),
    "sinks": ("addBatch",),
    "commit": ("walCommit", "commitOffsets", "commitBatch"),
}
"""Spark's names of what makes up a phase."""


@dataclass(frozen=True, slots=True)
class SourceFigures:
    """The figures of one source in one batch. Lag is None where the source does not tell it, as files do
    not."""

    name: str
    rows: int
    rows_per_s: float
    offsets_behind: int | None = None
    seconds_behind: int | None = None


@dataclass(frozen=True, slots=True)
class QueryFigures:
    """The figures of one query's last batch. `query` is empty where the job has one query; `group` has
    its offsets."""

    job: str
    query: str
    query_id: str
    group: str | None
    batch: int
    rows: int
    batch_ms: int
    committed_ms: int
    """When the batch was committed, in ms since 1970 UTC."""
    phases_ms: Mapping[str, int] = field(default_factory=dict)
    sources: tuple[SourceFigures, ...] = ()

    @property
    def rows_per_s(self) -> float:
        return self.rows * 1000 / max(self.batch_ms, 1)

    def describe(self) -> dict[str, Any]:
        """The figures for JSON and for metrics."""
        return asdict(self)

    def __str__(self) -> str:
        """The figures for people."""
        line = f"{self.query}: " if self.query else ""
        line += f"batch {self.batch}: {self.rows:,} rows in {self.batch_ms / 1000:.1f} s"
        line += f" ({self.rows_per_s:,.0f} rows/s)"
        for source in self.sources:
            if len(self.sources) > 1:
                line += f", {source.name} {source.rows_per_s:,.0f} rows/s"
            if source.offsets_behind == 0:
                line += ", 0 behind"
            elif source.offsets_behind is not None:
                line += f", {source.offsets_behind:,} offsets"
                if source.seconds_behind is not None:
                    line += f" and {source.seconds_behind:,} s"
                line += " behind"
        parts = [f"{name} {took_ms / 1000:.2f}" for name, took_ms in self.phases_ms.items()]
        at = datetime.fromtimestamp(self.committed_ms / 1000, UTC)
        return f"{line}; {', '.join(parts)} s; committed {at:%H:%M:%S} UTC"


def figures_of(
    job: Job, query: str, sources: tuple[Source, ...], progress: Any, rows: int
) -> QueryFigures:
    """The figures in a progress of the query that reads `sources`; `rows` were written."""
    batch_ms = int(progress.batchDuration)
    took: Mapping[str, int] = progress.durationMs
    began = datetime.fromisoformat(str(progress.timestamp).replace("Z", "+00:00"))
    return QueryFigures(
        job.name,
        query,
        str(progress.id),
        f"{PREFIX}{progress.id}" if any(source.is_topics for source in sources) else None,
        int(progress.batchId),
        rows,
        batch_ms,
        int(began.timestamp() * 1000) + int(took.get("triggerExecution", batch_ms)),
        {
            phase: sum(took.get(name, 0) for name in names)
            for phase, names in PHASES.items()
            if any(name in took for name in names)
        },
        tuple(
            _source_figures(source, sources, len(progress.sources), rows, batch_ms)
            for source in progress.sources
        ),
    )


def _source_figures(
    found: Any, sources: tuple[Source, ...], count: int, rows: int, batch_ms: int
) -> SourceFigures:
    read = int(found.numInputRows) if count > 1 else rows
    end, reported = _document(found.endOffset), _document(found.latestOffset)
    behind = reported.get(BEHIND, {})
    return SourceFigures(
        name_of(end, sources),
        read,
        read * 1000 / max(batch_ms, 1),
        behind.get("offsets"),
        behind.get(SECONDS),
    )


def name_of(offsets: Mapping[str, Any], sources: tuple[Source, ...]) -> str:
    """The source that has the topics of the offsets. Empty where it does not say."""
    if len(sources) == 1:
        return sources[0].name
    topics = {topic for topic in offsets if not topic.startswith("(")}
    for source in sources:
        named = {name.strip() for name in source.options.get("subscribe", "").split(",")}
        if topics and topics <= named:
            return source.name
    return ", ".join(sorted(topics))


def _document(text: str | None) -> dict[str, Any]:
    try:
        found = json.loads(text or "{}")
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
