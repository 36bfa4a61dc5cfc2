"""Adds sizes, records and rates to the rows of ``topics list`` and ``topics describe``."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from barnabas.cli.measures.partition_figures import PartitionFigures
from barnabas.cli.measures.units import bytes_text, rate_text
from barnabas.client.network.cluster_metadata import PartitionMetadata, TopicMetadata
from barnabas.types import TopicPartition


def _count_text(count: float | None) -> str:
    return "-" if count is None else str(count)


COLUMNS: dict[str, tuple[str, Callable[[float | None], str]]] = {
    "records": ("records", _count_text),
    "leader_bytes": ("size", bytes_text),
    "replica_bytes": ("all replicas", bytes_text),
    "records_per_s": ("records/s", rate_text),
    "bytes_per_s": ("bytes/s", bytes_text),
}
"""Field of a row → its heading, and how a person reads it."""
SIZES = ("records", "leader_bytes", "replica_bytes")
RATES = ("records_per_s", "bytes_per_s")
PROBLEMS = {
    "under_replicated": "--under-replicated",
    "offline": "--unavailable",
    "under_min_isr": "--under-min-isr",
    "at_min_isr": "--at-min-isr",
}
"""Problem of a partition → the option that chooses partitions with it."""


def problems_of(partition: PartitionMetadata, min_isr: int | None) -> list[str]:
    """The problems by the names of `PROBLEMS`; those with the ISR need min.insync.replicas."""
    found = []
    if len(partition.isr) < len(partition.replicas):
        found.append("under_replicated")
    if partition.leader < 0:
        found.append("offline")
    if min_isr is not None and len(partition.isr) < min_isr:
        found.append("under_min_isr")
    if min_isr is not None and len(partition.isr) == min_isr:
        found.append("at_min_isr")
    return found


def figures_of_partition(
    view: TopicMetadata, index: int, figures: PartitionFigures | None
) -> dict[str, Any]:
    """The fields of `COLUMNS`; None where a figure is not known."""
    if figures is None:
        return dict.fromkeys(COLUMNS)
    tp = TopicPartition(view.name, index)
    partition, look = view.partitions[index], figures.look
    held = [look.sizes.get((broker, tp)) for broker in partition.replicas]
    known = [size for size in held if size is not None]
    rate = None if figures.rates is None else figures.rates.get(tp)
    start, end = look.starts.get(tp), look.ends.get(tp)
    return {
        "records": None if start is None or end is None else end - start,
        "leader_bytes": look.sizes.get((partition.leader, tp)),
        "replica_bytes": sum(known) if known else None,
        "records_per_s": None if rate is None else round(rate.records, 3),
        "bytes_per_s": None if rate is None else round(rate.bytes),
    }


def figures_of_topic(view: TopicMetadata, figures: PartitionFigures | None) -> dict[str, Any]:
    """The sums over its partitions."""
    rows = [figures_of_partition(view, index, figures) for index in view.partitions]
    return {name: _sum([row[name] for row in rows]) for name in COLUMNS}


def headings(sizes: bool, rates: bool) -> list[str]:
    """The fields that are shown."""
    return [*(SIZES if sizes else ()), *(RATES if rates else ())]


def cells(row: Mapping[str, Any], shown: Sequence[str]) -> list[str]:
    return [COLUMNS[name][1](row[name]) for name in shown]


def _sum(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None
