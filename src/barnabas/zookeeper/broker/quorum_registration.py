"""A broker in ZooKeeper mode whose cluster migrates to KRaft: registered in ZooKeeper and with the quorum.

`MigratingLifecycle` is both registrations as one. The broker's epoch is that of ZooKeeper's registration
while a broker holds `/controller`, and that of the quorum's while a KRaft controller does. `QuorumObserver`
replays nothing of the quorum's log: it keeps the offset, which heartbeats report, and learns who the active
controller is.

Source: Kafka 3.9's ``KafkaServer`` (migrationEnabled), ``ZkBrokerEpochManager``, ``OffsetTrackingListener``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from barnabas.broker.controller_client.broker_lifecycle import BrokerLifecycle, LifecyclePhase
from barnabas.metadata.image.codec import decode_record
from barnabas.metadata.records.broker_registration_change_record import (
    BrokerRegistrationChangeRecord,
)
from barnabas.raft.state_machine import CommittedBatch, SnapshotReader
from barnabas.types import Buffer, Uuid, uuid_text
from barnabas.wire.codec import MalformedError
from barnabas.zookeeper.broker.registration import ZookeeperRegistration

LOOKED_AT_MAX = 16
"""A run of batches with more values is not searched for a controlled shutdown."""


class QuorumObserver:
    """The offset of this node's copy of the metadata log."""

    def __init__(self, on_moved: Callable[[bool], None], on_leader: Callable[[], None]) -> None:
        """`on_moved` is called when the log moved; with True where a broker begins its controlled shutdown,
        which ends when the others have reported that offset."""
        self.offset = -1
        """The offset of the last committed record."""
        self._on_moved = on_moved
        self._on_leader = on_leader

    def on_commit(self, batches: Sequence[CommittedBatch]) -> Iterator[None] | None:
        self.offset = batches[-1].last_offset
        values = [value for batch in batches for value in batch.values]
        self._on_moved(len(values) <= LOOKED_AT_MAX and any(map(_is_leaving, values)))
        return None

    def on_snapshot(self, snapshot: SnapshotReader) -> Iterator[None] | None:
        self.offset = snapshot.id.offset - 1
        self._on_moved(True)
        return None

    def on_leader_change(self, leader_id: int, epoch: int) -> None:
        self._on_leader()

    def snapshot(self) -> Iterator[Sequence[Buffer]] | None:
        """None: this broker keeps no image of the log, and writes no snapshot."""
        return None


def _is_leaving(value: Buffer) -> bool:
    try:
        record = decode_record(value)
    except MalformedError:
        return False
    return isinstance(record, BrokerRegistrationChangeRecord) and record.in_controlled_shutdown > 0


class MigratingLifecycle:
    """Both registrations of one incarnation."""

    def __init__(
        self,
        zookeeper: ZookeeperRegistration,
        quorum: BrokerLifecycle,
        quorum_rules: Callable[[], bool],
    ) -> None:
        self.zookeeper = zookeeper
        self.quorum = quorum
        self._quorum_rules = quorum_rules

    def validate(self) -> None:
        """The registration in ZooKeeper. Raises AssertionError."""
        self.zookeeper.validate()

    @property
    def broker_epoch(self) -> int:
        return self.quorum.broker_epoch if self._quorum_rules() else self.zookeeper.broker_epoch

    @property
    def phase(self) -> LifecyclePhase:
        return self.zookeeper.phase

    @property
    def cordoned(self) -> tuple[Uuid, ...]:
        return self.zookeeper.cordoned

    def start(self) -> None:
        self.zookeeper.start()
        self.quorum.start()

    def register_again(self) -> None:
        return

    def on_metadata(self, concerns_me: bool, /) -> None:
        self.zookeeper.on_metadata(concerns_me)

    def on_controller_change(self) -> None:
        return

    def on_directory_offline(self, directory: Uuid, /) -> None:
        """A KRaft controller reads no `/log_dir_event_notification`, and this registration names no
        directories: this broker ends, and replicas on other brokers take over, as in Kafka 3.9
        (``ReplicaManager.handleLogDirFailure``)."""
        self.zookeeper.ports.halt(
            f"log directory {uuid_text(directory)} has failed: while its cluster migrates, a broker in"
            " ZooKeeper mode ends with its first failed log directory"
        )

    def set_cordoned(self, directories: Sequence[Uuid], /) -> None:
        self.zookeeper.set_cordoned(directories)

    def begin_shutdown(self, on_left: Callable[[], None], *, controlled: bool) -> None:
        """A controlled shutdown goes through the present controller; the other registration ends with this
        process."""
        if not self._quorum_rules():
            self.quorum.begin_shutdown(lambda: None, controlled=False)
            self.zookeeper.begin_shutdown(on_left, controlled=controlled)
            return

        def left() -> None:
            self.zookeeper.begin_shutdown(on_left, controlled=False)

        self.quorum.begin_shutdown(left, controlled=controlled)

    def describe(self) -> dict[str, object]:
        return {**self.zookeeper.describe(), "quorum": self.quorum.describe()}

    def __repr__(self) -> str:
        return f"MigratingLifecycle({self.zookeeper!r}, {self.quorum!r})"
