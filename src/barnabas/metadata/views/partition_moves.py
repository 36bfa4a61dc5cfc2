"""The last move of each partition with its reason, read off the metadata log.

A move is a change of state (`partition_states`), or from one leader to another (Online to Online). One
that a snapshot has swallowed is not known any more: reasons do not outlive snapshots.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from barnabas.metadata.image.partition_states import NON_EXISTENT, state_of
from barnabas.metadata.image.topic import NO_LEADER, PartitionState
from barnabas.metadata.views.cluster_events import ClusterEvent, EventReader
from barnabas.types import Buffer, Uuid


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


class StateReader(EventReader):
    """Reads the log for some topics only, and keeps each partition's last move."""

    def __init__(self, topics: Mapping[Uuid, str]) -> None:
        super().__init__()
        self._topics = {bytes(topic_id): name for topic_id, name in topics.items()}
        self.moves: dict[tuple[str, int], PartitionMove] = {}
        self._seen: dict[tuple[str, int], tuple[str, int]] = {}

    def load(self, values: Iterable[Buffer], last_offset: int, epoch: int) -> None:
        """As `EventReader.load`; what was before is how the next move begins."""
        chosen = [value for value in values if self._concerns(value)]
        super().load(chosen, last_offset, epoch)
        self._seen = {
            (topic.name, state.partition): (
                state_of(state.leader, state.leader_epoch),
                state.leader,
            )
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
        """Whether a record names one of the topics, by the bytes of its id."""
        raw = bytes(value)
        return any(topic_id in raw for topic_id in self._topics)

    def _note(self, event: ClusterEvent) -> None:
        """The image stands behind the event's record."""
        name, dash, index = event.subject.rpartition("-")
        topic = self.image.topics_by_name.get(name)
        if not dash or topic is None or not index.isdigit() or not topic.has(int(index)):
            return
        state: PartitionState = topic.partition(int(index))
        key = name, state.partition
        now = state_of(state.leader, state.leader_epoch), state.leader
        before = self._seen.get(key, (NON_EXISTENT, NO_LEADER))
        if now != before:
            reason = event.reason or event.change
            self.moves[key] = PartitionMove(before[0], *now, reason, event.at_ms, event.offset)
            self._seen[key] = now
