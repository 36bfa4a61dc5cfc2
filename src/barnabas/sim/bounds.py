"""Draws small bounds for the nodes of a run. The nodes receive them with their ports.

With small bounds a few partitions and short logs show what otherwise needs thousands of partitions or long
logs: work in several slices, requests that name a part of the partitions, files that are closed and opened
again, data that is no longer in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from barnabas.limits import NodeBounds
from barnabas.ports import Rng

SMALL: Mapping[str, tuple[Sequence[int], Sequence[str]]] = {
    "answered partitions": ((1, 2), ("fetch.answered_max", "fetch.timed_from")),
    "assigned directories": ((1, 2), ("replicas.assignments_max",)),
    "cold reads": ((0, 1), ("fetch.cold_reads_max",)),
    "controller at once": ((0, 1, 3), ("decisions.inline_max",)),
    "controller steps": ((1, 2), ("decisions.slice_max",)),
    "controller turns": ((1, 2), ("decisions.slices_per_turn",)),
    "controller looks": ((1, 4), ("decisions.scanned_per_slice",)),
    "leaders looked at": ((1, 4), ("decisions.leaders_scanned",)),
    "moves of a pass": ((1, 2), ("decisions.moves_max",)),
    "fetched at once": ((1, 2), ("fetch.inline_max", "fetch.followed_per_slice")),
    "taken partitions": ((1, 2), ("follower.appended_max", "follower.timed_from")),
    "named partitions": ((1, 2), ("follower.named_max",)),
    "new replicas": ((1, 2), ("replicas.created_per_turn",)),
    "known replicas": ((2, 4), ("replicas.changed_per_turn",)),
    "changes of ISRs": ((1, 2), ("replicas.isr_changes_max",)),
    "copied bytes": ((200, 2000), ("replicas.copied_bytes",)),
    "loaded records": ((1, 3), ("replicas.records_per_look",)),
    "produced at once": ((0, 1), ("handlers.appended_inline_max", "handlers.appended_per_slice")),
    "described at once": (
        (0, 1),
        ("handlers.described_inline_max", "handlers.described_per_slice"),
    ),
    "applied bytes": ((1, 300), ("raft.applied_bytes",)),
    "scanned bytes": ((100, 1000), ("raft.scan_bytes",)),
    "bytes of the tail": ((0, 200), ("raft.tail_bytes_max",)),
    "appends of the tail": ((1, 2), ("raft.tail_appends_max",)),
    "staged records": (
        (1, 3),
        ("loader.slice_max", "loader.applied_inline_max", "loader.dropped_per_turn"),
    ),
    "sessions that go": ((600, 2000), ("fetch.session_eviction_ms_min",)),
    "snapshot values": ((1, 5), ("raft.snapshot_values_max",)),
    "snapshot bytes": ((100, 1000), ("raft.snapshot_read_bytes",)),
    "rounds without helper": ((0, 500), ("logs.helped_from_bytes",)),
    "index tables": ((1, 3), ("logs.loaded_tables_max",)),
}
"""Random stream → (values to draw from, fields of `NodeBounds` that receive the value). A name here is part
of the stream's seed: another name changes the traces of all seeds."""
SLICES = frozenset({"appended_per_slice", "described_per_slice"})
"""At least 1: a job whose slice has no items never makes progress."""


def draw(rng_of: Callable[[str], Rng]) -> NodeBounds:
    """The bounds of one run: in 70 % of the seeds the usual ones."""
    bounds = NodeBounds()
    if rng_of("small bounds").random() < 0.7:
        return bounds
    for what in sorted(SMALL):
        rng = rng_of(f"small {what}")
        if rng.random() < 0.4:
            value = rng.choice(SMALL[what][0])
            for name in SMALL[what][1]:
                bounds = with_bound(bounds, name, value)
    return bounds


def with_bound(bounds: NodeBounds, name: str, value: int) -> NodeBounds:
    """`bounds` with the field `name`, such as ``fetch.inline_max``, set to `value`."""
    group, _, field = name.partition(".")
    value = max(value, 1) if field in SLICES else value
    changed: dict[str, Any] = {group: replace(getattr(bounds, group), **{field: value})}
    return replace(bounds, **changed)
