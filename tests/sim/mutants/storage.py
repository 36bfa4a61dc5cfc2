"""Bugs of logs: producer state, epochs, recovery."""

from __future__ import annotations

from typing import Any

from barnabas.log import cutting, recovery
from barnabas.log.epoch_cache import EpochCache
from barnabas.log.partition_log import PartitionLog
from barnabas.log.producer_state import ProducerStates
from tests.sim.mutants.planting import Mutant, Patch


def producer_state_not_rebuilt() -> list[Patch]:
    def forgets(log: PartitionLog, *_: Any) -> None:
        log.producers.clear(log.log_end_offset)

    return [(cutting, "rebuild_producers", forgets)]


def duplicate_sequence_accepted() -> list[Patch]:
    return [(ProducerStates, "check", lambda self, header: None)]


def followers_keep_no_producer_state() -> list[Patch]:
    honest = PartitionLog._append_run

    def without_producers(self: PartitionLog, data: memoryview, headers: list[Any]) -> None:
        note, self._note_producer = self._note_producer, lambda header, marker: None  # type: ignore[method-assign]
        try:
            honest(self, data, headers)
        finally:
            self._note_producer = note  # type: ignore[method-assign]

    return [(PartitionLog, "_append_run", without_producers)]


def epochs_not_cut() -> list[Patch]:
    return [(EpochCache, "truncate_from_end", lambda self, offset: None)]


def log_not_recovered() -> list[Patch]:
    """After a crash a log is taken as it is found: nothing is checked, nothing is read for what it says."""
    return [(recovery, "_recover", lambda log, seen: recovery.Cut())]


MUTANTS = (
    Mutant("producers-not-rebuilt", "producer state is not rebuilt after a restart or a cut",
           producer_state_not_rebuilt),
    Mutant("duplicate-sequence", "a duplicate sequence number is appended again",
           duplicate_sequence_accepted),
    Mutant("follower-without-producers", "followers do not note producers' sequences",
           followers_keep_no_producer_state),
    Mutant("epochs-not-cut", "leader epochs survive the cutting of their records", epochs_not_cut),
    Mutant("log-not-recovered", "a log is opened after a crash as if it had been closed", log_not_recovered),
)  # fmt: skip
