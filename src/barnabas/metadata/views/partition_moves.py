"""The last change of each partition with its reason, and its last move, read off the metadata log.

A move is a change of state (`partition_states`), or from one leader to another (Online to Online). One
that a snapshot has swallowed is not known any more: reasons do not outlive snapshots.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from barnabas.metadata.image.partition_states import NON_EXISTENT, state_of
from barnabas.metadata.image.topic import NO_LEADER, PartitionState
from barnabas.metadata.records.broker_registration_change_record import (
    BrokerRegistrationChangeRecord,
)
from barnabas.metadata.records.register_broker_record import RegisterBrokerRecord
from barnabas.metadata.records.unregister_broker_record import UnregisterBrokerRecord
from barnabas.metadata.views.cluster_events import ClusterEvent, EventReader
from barnabas.metadata.views.partition_history import words_of
from barnabas.types import Buffer, Uuid

REGISTRATION_KEYS = frozenset(
    record.API_KEY
    for record in (RegisterBrokerRecord, UnregisterBrokerRecord, BrokerRegistrationChangeRecord)
)


class PartitionMove(NamedTuple):
    """`at_ms`: the controller's date, milliseconds since 1970; `offset` of the record."""

    before: str
    after: str
    leader: int
    reason: str
    at_ms: int
    offset: int

    def __str__(self) -> str:
        return f"{self.before} → {self.after}: {self.reason or 'no reason given'}"


class PartitionStateChange(NamedTuple):
    """The last thing that happened to a partition, in words; dates and offsets as in `PartitionMove`."""

    what: str
    reason: str
    at_ms: int
    offset: int

    def __str__(self) -> str:
        return f"{self.what}: {self.reason}" if self.reason else self.what


class StateReader(EventReader):
    """Reads the log for some topics only (None: for all), and keeps each partition's last change and move."""

    def __init__(self, topics: Mapping[Uuid, str] | None) -> None:
        super().__init__()
        self._topics = None if topics is None else [bytes(topic_id) for topic_id in topics]
        self.moves: dict[tuple[str, int], PartitionMove] = {}
        self.changes: dict[tuple[str, int], PartitionStateChange] = {}
        self.brokers: dict[int, PartitionStateChange] = {}
        """The last thing that happened to each broker."""
        self._seen: dict[tuple[str, int], PartitionState] = {}

    def load(self, values: Iterable[Buffer], last_offset: int, epoch: int) -> None:
        """Load a batch as `EventReader.load` does; the state before is how the next change begins."""
        chosen = [value for value in values if self._concerns(value)]
        super().load(chosen, last_offset, epoch)
        self._seen = {
            (topic.name, state.partition): state
            for topic in self.image.topics_by_id.values()
            for state in topic.partitions()
        }

    def feed(
        self, values: Sequence[Buffer], base_offset: int, at_ms: int
    ) -> Iterator[ClusterEvent]:
        for at, value in enumerate(values, base_offset):
            if self._concerns(value):
                for event in super().feed([value], at, at_ms):
                    self._note(event)
                    yield event

    def _concerns(self, value: Buffer) -> bool:
        """Whether a record is of a broker, or names one of the topics, by the bytes of its id."""
        if self._topics is None:
            return True
        raw = bytes(value)
        if len(raw) > 1 and raw[1] in REGISTRATION_KEYS:  # behind the frame's version
            return True
        return any(topic_id in raw for topic_id in self._topics)

    def _note(self, event: ClusterEvent) -> None:
        """Called once the image has replayed the event's record."""
        if event.kind == "broker":
            self.brokers[int(event.subject)] = PartitionStateChange(
                event.change, event.reason, event.at_ms, event.offset
            )
            return
        if event.kind == "topic" and event.subject not in self.image.topics_by_name:
            self._forget(event.subject)
            return
        name, dash, index = event.subject.rpartition("-")
        topic = self.image.topics_by_name.get(name)
        if not dash or topic is None or not index.isdigit() or not topic.has(int(index)):
            return
        now: PartitionState = topic.partition(int(index))
        key = name, now.partition
        before = self._seen.get(key)
        self._seen[key] = now
        what = words_of(before, now) or event.change
        self.changes[key] = PartitionStateChange(what, event.reason, event.at_ms, event.offset)
        state, was = state_of(now.leader, now.leader_epoch), (NON_EXISTENT, NO_LEADER)
        if before is not None:
            was = state_of(before.leader, before.leader_epoch), before.leader
        if (state, now.leader) != was:
            reason = event.reason or event.change
            self.moves[key] = PartitionMove(
                was[0], state, now.leader, reason, event.at_ms, event.offset
            )

    def _forget(self, topic: str) -> None:
        """It was deleted; another one may come by its name."""
        for kept in (self.moves, self.changes, self._seen):
            for key in [key for key in kept if key[0] == topic]:
                del kept[key]
