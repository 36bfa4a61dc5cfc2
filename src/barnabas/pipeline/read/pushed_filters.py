"""Filters of a batch query that spare it reading: by topic, partition, offset and timestamp.

Owns what a query's filters say about which ranges to read. Spark evaluates every filter once more, so a
range may be too wide and must never be too narrow. A timestamp bounds a range from below only: the leader's
first offset at or after it has none of that age before it, but later records may be older.

Spark asks only where ``spark.sql.python.filterPushdown.enabled`` is set, and refuses a reader class with
`pushFilters` where it is not: `is_asked` says which of the two plans the query. pyspark 4.3 keeps what was
pushed with the DataFrame and reads that again for its other queries (``PythonDataSourceV2.readInfo``), so
filters are taken only where option ``pushFilters`` says that there is one query.

Source: pyspark's ``DataSourceReader.pushFilters``.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    LessThan,
    LessThanOrEqual,
)

from barnabas.types import TopicPartition

PLANNER = "data_source_pushdown_filters.py"
"""The file of pyspark's planner that pushes filters."""
FRAMES_MAX = 8
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
UNBOUNDED = 1 << 63


def is_asked() -> bool:
    """Whether the planner that pushes filters is among the callers."""
    return is_called_by(PLANNER)


def is_called_by(planner: str) -> bool:
    """Whether this file of pyspark is among the callers."""
    frame = sys._getframe(1)
    for _ in range(FRAMES_MAX):
        if frame.f_code.co_filename.endswith(planner):
            return True
        if frame.f_back is None:
            return False
        frame = frame.f_back
    return False


@dataclass(frozen=True, slots=True)
class Bounds:
    """Whole numbers ``least <= n < end``, of `values` only where there are any."""

    least: int = -UNBOUNDED
    end: int = UNBOUNDED
    values: frozenset[int] | None = None

    def __contains__(self, number: int) -> bool:
        return self.least <= number < self.end and (self.values is None or number in self.values)

    def within(self, other: Bounds) -> Bounds:
        values = self.values if other.values is None else other.values
        if self.values is not None and other.values is not None:
            values = self.values & other.values
        return Bounds(max(self.least, other.least), min(self.end, other.end), values)


@dataclass(frozen=True, slots=True)
class PushedFilters:
    """The meaning of all filters of a query together."""

    topics: frozenset[str] | None = None
    partitions: Bounds = Bounds()
    offsets: Bounds = Bounds()
    timestamp_ms: int | None = None
    """No older record is asked for."""

    def takes(self, partition: TopicPartition) -> bool:
        return partition.partition in self.partitions and (
            self.topics is None or partition.topic in self.topics
        )


def pushed(filters: Iterable[Filter]) -> PushedFilters:
    """The meaning of filters that hold all at once; those that say nothing here are passed over."""
    topics: frozenset[str] | None = None
    partitions, offsets = Bounds(), Bounds()
    timestamp_ms: int | None = None
    for filter_ in filters:
        match getattr(filter_, "attribute", None):
            case ("topic",):
                names = _names(filter_)
                if names is not None:
                    topics = names if topics is None else topics & names
            case ("partition",):
                partitions = partitions.within(_bounds(filter_))
            case ("offset",):
                offsets = offsets.within(_bounds(filter_))
            case ("timestamp",):
                since = _since_ms(filter_)
                if since is not None:
                    timestamp_ms = max(since, timestamp_ms or 0)
    return PushedFilters(topics, partitions, offsets, timestamp_ms)


def _names(filter_: Filter) -> frozenset[str] | None:
    match filter_:
        case EqualTo(value=str(name)) | EqualNullSafe(value=str(name)):
            return frozenset({name})
        case In(value=names) if all(isinstance(name, str) for name in names):
            return frozenset(names)
    return None


def _bounds(filter_: Filter) -> Bounds:
    match filter_:
        case EqualTo(value=int(n)) | EqualNullSafe(value=int(n)):
            return Bounds(n, n + 1)
        case GreaterThan(value=int(n)):
            return Bounds(least=n + 1)
        case GreaterThanOrEqual(value=int(n)):
            return Bounds(least=n)
        case LessThan(value=int(n)):
            return Bounds(end=n)
        case LessThanOrEqual(value=int(n)):
            return Bounds(end=n + 1)
        case In(value=numbers) if numbers and all(isinstance(n, int) for n in numbers):
            return Bounds(min(numbers), max(numbers) + 1, frozenset(numbers))
    return Bounds()


def _since_ms(filter_: Filter) -> int | None:
    match filter_:
        case (
            EqualTo(value=when)
            | EqualNullSafe(value=when)
            | GreaterThan(value=when)
            | GreaterThanOrEqual(value=when)
        ):
            return _ms(when)
        case In(value=times) if times:
            all_ms = [_ms(when) for when in times]
            known = [stamp for stamp in all_ms if stamp is not None]
            return min(known) if len(known) == len(all_ms) else None
    return None


def _ms(when: Any) -> int | None:
    """Whole milliseconds, rounded down as records have them; None where the time zone is not known."""
    if not isinstance(when, datetime) or when.tzinfo is None:
        return None
    return max((when - EPOCH) // timedelta(milliseconds=1), 0)
