"""Bounds of the program that a seed makes small, so that what only happens among thousands of partitions, or
in long logs, happens among a few: work in slices, requests that name a part of what there is, files that are
closed again, what is no longer in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module

from barnabas.ports import Rng

SMALL: Mapping[str, tuple[Sequence[int], Sequence[str]]] = {
    "answered partitions": (
        (1, 2),
        ("broker.fetch.fetch_service.ANSWERED_MAX", "broker.fetch.fetch_service.TIMED_FROM"),
    ),
    "assigned directories": ((1, 2), ("broker.replicas.directory_assignments.PARTITIONS_MAX",)),
    "cold reads": ((0, 1), ("broker.fetch.fetch_service.COLD_READS_MAX",)),
    "controller at once": (
        (0, 1, 3),
        tuple(
            f"controller.{module}.DECIDED_INLINE_MAX"
            for module in (
                "slicing",
                "active.broker_fencing",
                "partitions.elect_leaders",
                "brokers.controlled_shutdown",
                "atomic_batch",
            )
        ),
    ),
    "controller steps": (
        (1, 2),
        tuple(
            f"controller.{module}.DECIDED_PER_SLICE"
            for module in (
                "slicing",
                "partitions.leader_and_isr",
                "partitions.elect_leaders",
                "atomic_batch",
                "active.leader_balance",
                "partitions.failover_reconcile",
            )
        ),
    ),
    "controller turns": (
        (1, 2),
        (
            "controller.slicing.SLICES_PER_TURN_MAX",
            "controller.active.quorum_controller.SLICES_PER_TURN_MAX",
        ),
    ),
    "controller looks": (
        (1, 4),
        tuple(
            f"controller.{module}.SCANNED_PER_SLICE"
            for module in (
                "slicing",
                "partitions.leader_and_isr",
                "partitions.elect_leaders",
                "active.leader_balance",
            )
        ),
    ),
    "leaders looked at": ((1, 4), ("controller.partitions.failover_reconcile.LEADERS_SCANNED",)),
    "moves of a pass": ((1, 2), ("controller.active.leader_balance.MOVES_MAX",)),
    "fetched at once": (
        (1, 2),
        (
            "broker.fetch.fetch_service.FETCHED_INLINE_MAX",
            "broker.fetch.fetch_sessions.FETCHED_PER_SLICE",
        ),
    ),
    "taken partitions": (
        (1, 2),
        ("broker.follower.fetcher.TAKEN_MAX", "broker.follower.fetcher.TIMED_FROM"),
    ),
    "named partitions": ((1, 2), ("broker.follower.fetch_plan.NAMED_MAX",)),
    "new replicas": ((1, 2), ("broker.replicas.metadata_apply_queue.NEW_SLICE",)),
    "known replicas": ((2, 4), ("broker.replicas.metadata_apply_queue.KNOWN_SLICE",)),
    "changes of ISRs": ((1, 2), ("broker.partitions.alter_partition_sender.CHANGES_MAX",)),
    "copied bytes": ((200, 2000), ("broker.replicas.log_dir_moves.SLICE_BYTES",)),
    "loaded records": ((1, 3), ("broker.coordinator.coordinator_loader.RECORDS_PER_LOOK",)),
    "produced at once": (
        (0, 1),
        (
            "broker.handlers.produce.APPENDED_INLINE_MAX",
            "broker.handlers.produce.APPENDED_PER_SLICE",
        ),
    ),
    "described at once": (
        (0, 1),
        (
            "broker.handlers.metadata.DESCRIBED_INLINE_MAX",
            "broker.handlers.metadata.DESCRIBED_PER_SLICE",
        ),
    ),
    "applied bytes": ((1, 300), ("raft.runtime.applier.SLICE_BYTES",)),
    "scanned bytes": ((100, 1000), ("raft.storage.replica_log.SCAN_BYTES",)),
    "bytes of the tail": ((0, 200), ("raft.storage.replica_log.TAIL_BYTES_MAX",)),
    "appends of the tail": ((1, 2), ("raft.storage.replica_log.TAIL_APPENDS_MAX",)),
    "staged records": (
        (1, 3),
        tuple(
            f"node.metadata_loader.{name}"
            for name in ("STAGE_SLICE", "APPLIED_INLINE_MAX", "DROP_SLICE")
        ),
    ),
    "sessions that go": ((600, 2000), ("replication.sessions.EVICTION_MS_MIN",)),
    "snapshot values": ((1, 5), ("raft.storage.snapshot_files.VALUES_MAX",)),
    "snapshot bytes": ((100, 1000), ("raft.storage.snapshot_files.READ_BYTES",)),
    "rounds without helper": ((0, 500), ("log.directories.log_cleaner.HELPED_FROM_BYTES",)),
    "index tables": ((1, 3), ("log.file_cache.LOADED_TABLES_MAX",)),
}
"""What is bounded: the values to draw from, and the constants that they replace (below ``barnabas``)."""
STEPS = frozenset({
    "broker.fetch.fetch_sessions.FETCHED_PER_SLICE",
    "broker.handlers.produce.APPENDED_PER_SLICE",
    "broker.handlers.metadata.DESCRIBED_PER_SLICE",
})  # fmt: skip
"""At least 1: a job whose slice has no items never makes progress."""


def draw(rng_of: Callable[[str], Rng]) -> dict[str, int]:
    """By full name. In most seeds all bounds are as they are."""
    if rng_of("small bounds").random() < 0.7:
        return {}
    found = {}
    for what in sorted(SMALL):
        rng = rng_of(f"small {what}")
        if rng.random() < 0.4:
            value = rng.choice(SMALL[what][0])
            for name in SMALL[what][1]:
                found[name] = max(value, 1) if name in STEPS else value
    return found


@contextmanager
def bounded(bounds: Mapping[str, int]) -> Iterator[None]:
    """While this lasts they are so."""
    usual = []
    for name, value in bounds.items():
        path, _, attribute = name.rpartition(".")
        module = import_module(f"barnabas.{path}")
        usual.append((module, attribute, getattr(module, attribute)))
        setattr(module, attribute, value)
    try:
        yield
    finally:
        for module, attribute, value in usual:
            setattr(module, attribute, value)
