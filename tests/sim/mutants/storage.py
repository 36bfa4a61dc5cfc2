"""Bugs of logs: producer state, epochs, recovery."""

from __future__ import annotations

from typing import Any

from barnabas.log.compaction.compaction_rules import OffsetMap, Retained, retained_of
from barnabas.log.partition import crash_recovery, log_loader, truncation
from barnabas.log.partition.partition_log import PartitionLog
from barnabas.log.state.leader_epoch_cache import LeaderEpochCache
from barnabas.log.state.producer_state import ProducerStates
from barnabas.record.spans import spans_of
from tests.sim.mutants.planting import Mutant, Patch


def producer_state_not_rebuilt() -> list[Patch]:
    def forgets(log: PartitionLog, *_: Any) -> None:
        log.producers.clear(log.log_end_offset)

    return [(truncation, "rebuild_producers", forgets)]


def duplicate_sequence_accepted() -> list[Patch]:
    return [(ProducerStates, "check", lambda self, header, verification=None: None)]


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
    return [(LeaderEpochCache, "truncate_from_end", lambda self, offset: None)]


def log_not_recovered() -> list[Patch]:
    """After a crash a log is taken as it is found: nothing is checked, nothing is read for what it says."""
    return [(log_loader, "recover", lambda log, seen, before_cut: crash_recovery.Cut())]


def compaction_keeps_the_oldest() -> list[Patch]:
    def puts_the_first(self: OffsetMap, section: memoryview, header: Any, from_offset: int) -> None:
        for span in spans_of(section, header):
            if span[4] is not None and header.base_offset + span[2] >= from_offset:
                self.offsets.setdefault(span[4], header.base_offset + span[2])

    def stays(self: OffsetMap, section: memoryview, header: Any, keep_deletes: bool) -> Retained:
        kept = [
            span
            for span in spans_of(section, header)
            if header.base_offset + span[2] >= self.end
            or header.base_offset + span[2] <= self.offsets.get(span[4] or b"", -1)
        ]
        return retained_of(section, kept)

    return [(OffsetMap, "put_keys", puts_the_first), (OffsetMap, "staying", stays)]


MUTANTS = (
    Mutant("producers-not-rebuilt", "producer state is not rebuilt after a restart or a cut",
           producer_state_not_rebuilt),
    Mutant("duplicate-sequence", "a duplicate sequence number is appended again",
           duplicate_sequence_accepted),
    Mutant("follower-without-producers", "followers do not note producers' sequences",
           followers_keep_no_producer_state),
    Mutant("epochs-not-cut", "leader epochs survive the cutting of their records", epochs_not_cut),
    Mutant("compaction-keeps-oldest", "compaction keeps the first record of a key instead of the last",
           compaction_keeps_the_oldest),
    Mutant("log-not-recovered", "a log is opened after a crash as if it had been closed", log_not_recovered),
)  # fmt: skip
