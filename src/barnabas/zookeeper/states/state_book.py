"""The state of each partition and replica under this controller, since when, and why.

The book follows what the controller commits, orders and learns from brokers, and decides nothing. A replica
that the controller of this epoch has not moved has the state that it found: Online if the broker was
registered, else Offline. A replica is New from its assignment until its broker has answered LeaderAndIsr,
then Online.

A move that is not in the tables of :mod:`barnabas.zookeeper.states.moves` is logged as an error, and is noted
all the same, because it has happened.

Source: Kafka 3.9's ``PartitionStateMachine`` and ``ReplicaStateMachine``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from barnabas.metadata.image.image import MetadataImage
from barnabas.metadata.image.partition_states import NEW, NON_EXISTENT, OFFLINE, ONLINE, state_of
from barnabas.ports import Ports
from barnabas.zookeeper.states.moves import (
    DELETION_INELIGIBLE,
    DELETION_STARTED,
    DELETION_SUCCESSFUL,
    PARTITION_MOVES,
    REPLICA_MOVES,
    Moves,
    may_move,
)
from barnabas.zookeeper.states.step_log import StepLog

GROUPS_MAX = 20
"""Moves of one cause that are events of their own; more are one event with their number."""
STATE, STEP_EVENT = "state", "step"
"""Kinds of events: a move of a state, and a step of a creation or a deletion."""
Partition = tuple[str, int]
Replica = tuple[str, int, int]
"""Topic, index and broker."""
Replicas = Mapping[int, Sequence[int]]
"""The brokers of each partition of one topic."""


class StateEntry(NamedTuple):
    """A state, why, and since when: the date, milliseconds since 1970 (-1: not known)."""

    state: str
    reason: str
    at_ms: int


class SubjectEntry(NamedTuple):
    """`replica` is a broker; -1 for the partition's own state."""

    topic: str
    partition: int
    replica: int
    entry: StateEntry


class StateBook:
    """The states of one controller epoch after the other, and the steps that led there."""

    def __init__(self, ports: Ports, image: MetadataImage) -> None:
        """`image` is what is written to the znodes."""
        self._ports = ports
        self._image = image
        self.steps = StepLog(ports.clock.wall_ms)
        self._partitions: dict[Partition, StateEntry] = {}
        self._replicas: dict[Replica, StateEntry] = {}
        self._new: dict[str, int] = {}
        """How many replicas of a topic are New."""
        self._going: dict[str, Replicas] = {}
        """Topics that are being deleted."""
        self._alive: dict[int, None] = {}
        self._found = ""
        self._unknown: dict[str, None] = {}
        """Moves that no table has."""

    # -- begin and end of a controller epoch -------------------------------------------------------

    def begin(self, epoch: int, alive: Iterable[int]) -> None:
        """A controller has read the znodes; `alive` are the brokers that are registered."""
        self.end()
        self._alive = dict.fromkeys(alive)
        self._found = f"found by the controller of epoch {epoch}"

    def end(self) -> None:
        """This broker is no longer the controller: forget the states, and keep the steps."""
        self._partitions.clear()
        self._replicas.clear()
        self._new.clear()
        self._going.clear()
        self._alive.clear()

    # -- what is asked -----------------------------------------------------------------------------

    def partition(self, topic: str, index: int) -> StateEntry:
        known = self._partitions.get((topic, index))
        if known is not None:
            return known
        found = self._image.topics_by_name.get(topic)
        if found is None or not found.has(index):
            going = index in self._going.get(topic, ())
            return StateEntry(OFFLINE if going else NON_EXISTENT, self._found if going else "", -1)
        state = state_of(found.leader[index], found.leader_epoch[index])
        return StateEntry(state, self._found, -1)

    def replica(self, topic: str, index: int, broker: int) -> StateEntry:
        known = self._replicas.get((topic, index, broker))
        if known is not None:
            return known
        found = self._image.topics_by_name.get(topic)
        is_there = found is not None and found.has(index) and broker in found.replicas[index]
        if not is_there and broker not in self._going.get(topic, {}).get(index, ()):
            return StateEntry(NON_EXISTENT, "", -1)
        if broker in self._alive:
            return StateEntry(ONLINE, self._found, -1)
        return StateEntry(OFFLINE, f"{self._found}: broker {broker} was not registered", -1)

    def is_being_created(self, topic: str) -> bool:
        return topic in self._new

    def is_being_deleted(self, topic: str) -> bool:
        return topic in self._going

    def states_of(self, topic: str) -> Iterable[SubjectEntry]:
        """The states of each partition and of its replicas; none where there is no such topic."""
        found = self._image.topics_by_name.get(topic)
        replicas = self._going.get(topic)
        if replicas is None and found is not None:
            replicas = {index: ids for index, ids in enumerate(found.replicas) if ids}
        for index, brokers in sorted((replicas or {}).items()):
            yield SubjectEntry(topic, index, -1, self.partition(topic, index))
            for broker in brokers:
                yield SubjectEntry(topic, index, broker, self.replica(topic, index, broker))

    def deletions(self) -> tuple[dict[str, int], dict[str, int]]:
        """The deletions by topic: how many replicas it had, and how many cannot be deleted at
        present."""
        to_delete, ineligible = {}, {}
        for topic, partitions in self._going.items():
            replicas = [(index, broker) for index, ids in partitions.items() for broker in ids]
            to_delete[topic] = len(replicas)
            states = [self.replica(topic, *one).state for one in replicas]
            waiting = states.count(DELETION_INELIGIBLE)
            if waiting:
                ineligible[topic] = waiting
        return to_delete, ineligible

    # -- moves -------------------------------------------------------------------------------------

    def move_partition(self, topic: str, index: int, after: str, reason: str) -> None:
        before = self.partition(topic, index).state
        if before == after:
            return
        self._check(PARTITION_MOVES, f"{topic}-{index}", before, after)
        self._partitions[topic, index] = StateEntry(after, reason, self._ports.clock.wall_ms())
        self.steps.note(STATE, f"{topic}-{index}", f"{before} → {after}", reason)

    def move_replicas(
        self, replicas: Iterable[Replica], after: str, reason: str, *, are_leaving: bool = False
    ) -> None:
        """Those that are in that state stay as they are. `are_leaving`: the image forgets them next, so that
        their state follows from it no more."""
        entry = StateEntry(after, reason, self._ports.clock.wall_ms())
        groups: dict[tuple[str, int, str], list[int]] = {}
        for replica in replicas:
            before = self.replica(*replica).state
            if before == after:
                if are_leaving:
                    self._replicas.setdefault(replica, entry)
                continue
            topic, index, broker = replica
            self._check(REPLICA_MOVES, f"{topic}-{index} on broker {broker}", before, after)
            self._count_new(topic, before, after)
            self._replicas[replica] = entry
            groups.setdefault((topic, broker, before), []).append(index)
        self._note_moves(groups, after, reason)

    def delete_replicas(self, replicas: Iterable[Replica], reason: str) -> None:
        """StopReplica was given to their broker, which lives. One that could not be deleted before is
        Offline first."""
        left = [one for one in replicas if self.replica(*one).state != DELETION_STARTED]
        self.move_replicas(left, OFFLINE, reason)
        self.move_replicas(left, DELETION_STARTED, reason)

    def add_replicas(self, replicas: Iterable[Replica], reason: str) -> None:
        """Their brokers get them for the first time, or again before they have deleted the former ones."""
        replicas = list(replicas)
        for replica in replicas:
            self._replicas.pop(replica, None)
        self.move_replicas(replicas, NEW, reason)

    def on_deleted(self, broker: int, partitions: Iterable[Partition]) -> None:
        """The broker has answered StopReplica. A replica of a topic that stays exists no more."""
        asked = [(name, index, broker) for name, index in partitions]
        started = [one for one in asked if self.replica(*one).state == DELETION_STARTED]
        self.move_replicas(
            started, DELETION_SUCCESSFUL, f"broker {broker} has answered StopReplica"
        )
        left = [one for one in started if one[0] not in self._going]
        self.move_replicas(left, NON_EXISTENT, "the partition is assigned to others")
        for one in left:
            del self._replicas[one]

    def on_broker_gone(self, broker: int, reason: str) -> None:
        """Its replicas go offline; of a topic that is being deleted they cannot be deleted now."""
        here = [(topic.name, index, broker) for topic, index in self._image.partitions_of(broker)]
        self.move_replicas(here, OFFLINE, reason)
        going = [
            (name, index, broker)
            for name, partitions in self._going.items()
            for index, replicas in partitions.items()
            if broker in replicas
        ]
        started = (DELETION_STARTED, OFFLINE)
        left = [one for one in going if self.replica(*one).state in started]
        self.move_replicas(left, DELETION_INELIGIBLE, reason)

    def begin_deletion(self, topic: str, replicas: Replicas, reason: str) -> None:
        """Partitions have no leader from now on."""
        if topic in self._going:
            return
        self._going[topic] = replicas
        for index in sorted(replicas):
            self.move_partition(topic, index, OFFLINE, reason)
        here = [(topic, index, broker) for index in sorted(replicas) for broker in replicas[index]]
        self.move_replicas(here, OFFLINE, reason)

    def end_deletion(self, topic: str, reason: str) -> None:
        """Its znodes are gone."""
        replicas = self._going.get(topic, {})
        here = [(topic, index, broker) for index in sorted(replicas) for broker in replicas[index]]
        self.move_replicas(here, NON_EXISTENT, reason)
        for index in sorted(replicas):
            self.move_partition(topic, index, NON_EXISTENT, reason)
            self._partitions.pop((topic, index), None)
        for replica in here:
            self._replicas.pop(replica, None)
        self._going.pop(topic, None)

    def _count_new(self, topic: str, before: str, after: str) -> None:
        left = self._new.get(topic, 0) + (after == NEW) - (before == NEW)
        if left:
            self._new[topic] = left
        else:
            self._new.pop(topic, None)

    def _check(self, table: Moves, subject: str, before: str, after: str) -> None:
        if not may_move(table, before, after):
            self._unknown[f"{subject}: {before} → {after}"] = None
            self._ports.log(
                "error",
                "controller.state_move_unknown",
                subject=subject,
                before=before,
                after=after,
            )

    def _note_moves(
        self, groups: Mapping[tuple[str, int, str], Sequence[int]], after: str, reason: str
    ) -> None:
        if len(groups) > GROUPS_MAX:
            brokers = sorted({broker for _, broker, _ in groups})
            count = sum(map(len, groups.values()))
            subject = f"broker {', '.join(map(str, brokers))}"
            self.steps.note(STATE, subject, f"{count} replicas → {after}", reason)
            return
        for (topic, broker, before), indexes in groups.items():
            subject = f"{topic}-{indexes[0]}" if len(indexes) == 1 else topic
            what = "replica" if len(indexes) == 1 else f"{len(indexes)} replicas"
            self.steps.note(
                STATE, subject, f"{what} on broker {broker}: {before} → {after}", reason
            )

    def validate(self) -> None:
        """Every move is in its table; states of partitions and of replicas are those of the image."""
        assert not self._unknown, f"moves that no table has: {list(self._unknown)[:5]}"
        topics = self._image.topics_by_name
        for (name, index), entry in self._partitions.items():
            if name in self._going:
                assert entry.state == OFFLINE, (name, index, entry)
                continue
            assert name in topics and topics[name].has(index), (name, index, entry)
            led = topics[name].leader[index] >= 0
            assert (entry.state == ONLINE) == led, (name, index, entry)
        for (name, index, broker), entry in self._replicas.items():
            known = self._image.brokers.get(broker)
            if entry.state == ONLINE:
                assert name not in self._going, (name, index, broker, entry)
                assert known is not None and not known.fenced, (name, index, broker, entry)

    def __repr__(self) -> str:
        return f"StateBook({len(self._replicas)} replicas moved, {len(self._going)} topics deleted)"
