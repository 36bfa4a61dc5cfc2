"""Chooses and reports the log directory of each replica of this broker.

The metadata name a directory per replica (KIP-858). If they name none, or another directory than the log is
in, or one that cannot be read, this module decides whether the replica opens, is created, or stays offline.

Invariant: if a log may be in an offline directory, no empty log replaces it, unless the cluster does not rely
on the replica.

Source: KIP-858; Kafka's ReplicaManager.maybeUpdateTopicAssignment and LogManager.getOrCreateLog.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from barnabas.broker.partitions.partition import Partition
from barnabas.broker.replicas.metadata_apply_queue import Key
from barnabas.log.directories.log_directories import LogDirectories, adopt_log, resolve_duplicate
from barnabas.log.partition.partition_log import PartitionLog
from barnabas.metadata.features import DIRECTORIES_SINCE
from barnabas.metadata.image.image import MetadataImage
from barnabas.metadata.image.topic import PartitionState
from barnabas.types import (
    DIRECTORIES_UNKNOWN,
    DIRECTORY_LOST,
    DIRECTORY_MIGRATING,
    DIRECTORY_UNASSIGNED,
    TopicPartition,
    Uuid,
)
from barnabas.wire.errors import ErrorCode, KafkaError

OnDirectoryChosen = Callable[[Partition, Uuid], None]
"""Called for a replica whose directory the metadata do not name; it reports the directory to the
controller."""


class ReplicaDirectories:
    """Opens and creates the logs of replicas where they belong."""

    def __init__(
        self,
        node_id: int,
        image: MetadataImage,
        logs: LogDirectories,
        on_chosen: OnDirectoryChosen,
        *,
        names_new_replicas: bool = False,
    ) -> None:
        """`names_new_replicas`: whether the controller says which replicas are new. The metadata of
        such a controller name no directories."""
        self.node_id = node_id
        self.image = image
        self.logs = logs
        self._on_chosen = on_chosen
        self.preferred: dict[TopicPartition, Uuid] = {}
        """Directories that AlterReplicaLogDirs named for replicas that are not here yet."""
        self.lost: dict[Partition, Uuid] = {}
        """The failed directory of each replica that went offline with it."""
        self._names_new_replicas = names_new_replicas
        self.first_assigned: dict[Key, None] = {}
        """New replicas of this broker that are not opened yet. Empty unless the controller names
        new replicas."""
        self.removed_offline: dict[TopicPartition, None] = {}
        """Replicas removed while their directory was offline: their files are still in it."""
        self._none_is_new = False
        """Whether every log directory had a log when this process started."""
        self._not_found: set[Key] | None = None
        """Replicas assigned before this process started whose logs it did not find; None until the first
        metadata image."""

    def on_first_image(self, mine: list[Key]) -> None:
        """The first metadata image is loaded; `mine` are this broker's replicas in it."""
        if self._not_found is None:
            self._none_is_new = all(d.logs for d in self.logs.directories)
            found = self.logs.logs
            topics = self.image.topics_by_id
            self._not_found = {
                key for key in mine if TopicPartition(topics[key[0]].name, key[1]) not in found
            }

    # -- opening ---------------------------------------------------------------------------------

    def open_log(self, name: TopicPartition, topic_id: Uuid, state: PartitionState) -> PartitionLog:
        """The log of a replica: one that was found, one that was moved here, or a new one. Raises
        KAFKA_STORAGE_ERROR if it may be in an offline directory."""
        key = (topic_id, state.partition)
        is_new = key in self.first_assigned
        self.first_assigned.pop(key, None)
        resolve_duplicate(self.logs, name, topic_id)
        known = self.logs.logs.get(name)
        if known is not None:
            if known.topic_id == topic_id:
                return known
            if not is_new and self._is_of_before_topic_ids(known, state):
                adopt_log(self.logs, known, topic_id)
                return known
            # Found at start-up: the log of an earlier topic of this name, or of an unknown topic id.
            self.logs.delete(name, is_stray=known.log_end_offset > 0)
        assigned = state.directory_of(self.node_id)
        if assigned == DIRECTORY_LOST:
            if not self.may_start_empty(state):
                raise KafkaError(
                    ErrorCode.KAFKA_STORAGE_ERROR,
                    f"{name} was in a log directory that could not be read, and is not here: start with"
                    " that directory, or reassign the replica",
                )
            assigned = DIRECTORY_UNASSIGNED
        self._check_new(name, is_new=is_new)
        copy = self.logs.futures.logs.get(name)
        if copy is not None and copy.topic_id != topic_id:
            self.logs.futures.drop(name)
            copy = None
        target = self.logs.futures.directory_of(name)
        if target is not None and target.directory_id == assigned:
            # The controller already assigned the future log's directory, and the current log is gone: the
            # future log was complete.
            return self.logs.futures.replace_missing(name)
        if self.logs.any_offline and self.logs.by_id(assigned) is None:
            # The log may be in an offline directory (one that was unreadable at the start has no known id):
            # an empty log elsewhere would hide that its records are missing.
            may_be = assigned not in DIRECTORIES_UNKNOWN or self.may_be_offline(topic_id, state)
            if may_be or copy is not None:
                raise KafkaError(
                    ErrorCode.KAFKA_STORAGE_ERROR, f"the log directory of {name} is offline"
                )
        return self._create(name, topic_id, assigned)

    def _is_of_before_topic_ids(self, log: PartitionLog, state: PartitionState) -> bool:
        """Whether `log` belongs to this topic although it has no topic id (ZooKeeper). As in Kafka,
        the controller's order decides. A log with later leader epochs than the topic's belongs to
        an earlier topic."""
        return (
            self._names_new_replicas
            and log.never_had_topic_id
            and log.last_epoch <= state.leader_epoch
        )

    def _check_new(self, name: TopicPartition, *, is_new: bool) -> None:
        """Raises KAFKA_STORAGE_ERROR for a replica that is not new while a directory is offline: its log may
        be in there (ZooKeeper)."""
        if self._names_new_replicas and not is_new and self.logs.any_offline:
            raise KafkaError(
                ErrorCode.KAFKA_STORAGE_ERROR,
                f"{name} is no new replica, and may be in a log directory that is offline",
            )
        self.removed_offline.pop(name, None)

    def on_removed(self, partition: Partition) -> None:
        """The replica was removed from this broker: forget its directory."""
        self.lost.pop(partition, None)
        if self._names_new_replicas and not partition.is_online:
            self.removed_offline[partition.name] = None

    def _create(self, name: TopicPartition, topic_id: Uuid, assigned: Uuid) -> PartitionLog:
        """Create a log. If the metadata name no directory and the chosen one fails now, try another one: the
        controller knows no directory of this replica, so it would not learn that the replica is offline."""
        while True:
            try:
                return self.logs.create(name, topic_id, self._choose(name, assigned))
            except KafkaError:
                named = assigned not in DIRECTORIES_UNKNOWN
                if named or not any(d.is_online for d in self.logs.directories):
                    raise

    def _choose(self, name: TopicPartition, assigned: Uuid) -> Uuid:
        """The directory of a new log: the one that AlterReplicaLogDirs named, else the assigned one, else the
        directory with the fewest logs among those that are not cordoned."""
        assigned = self.preferred.pop(name, assigned)
        if self.logs.by_id(assigned) is not None:
            return assigned
        me = self.image.brokers.get(self.node_id)
        cordoned = () if me is None else me.cordoned
        usable = [
            d for d in self.logs.directories if d.is_online and d.directory_id not in cordoned
        ]
        best = min(usable, key=lambda d: len(d.logs), default=None)
        return assigned if best is None else best.directory_id

    def may_be_offline(self, topic_id: Uuid, state: PartitionState) -> bool:
        """Whether a replica without a directory in the metadata may be in an unreadable one: this broker may
        have died before it reported where it had created the log. Such a replica is reported as
        DIRECTORY_LOST (KIP-858), or the controller would count on it. A replica that the cluster does not
        rely on is created again instead."""
        if not self.logs.any_offline or self.image.metadata_version < DIRECTORIES_SINCE:
            return False
        is_unknown = state.directory_of(self.node_id) in DIRECTORIES_UNKNOWN
        is_of_before = (topic_id, state.partition) in (self._not_found or ())
        return is_unknown and is_of_before and self._is_relied_on(state)

    def may_start_empty(self, state: PartitionState) -> bool:
        """Whether a lost replica may start empty: every directory is online and none has its log. That is
        safe if the cluster does not rely on the replica, or if no log directory is new: then it never had
        data."""
        if state.directory_of(self.node_id) != DIRECTORY_LOST or self.logs.any_offline:
            return False
        return self._none_is_new or not self._is_relied_on(state)

    def _is_relied_on(self, state: PartitionState) -> bool:
        """Whether this broker's replica leads, or could be elected for its records (ISR, ELR)."""
        return self.node_id in (state.leader, *state.isr, *state.elr, *state.last_known_elr)

    # -- reporting -------------------------------------------------------------------------------

    def report_offline(self, partition: Partition) -> None:
        """Report DIRECTORY_LOST: the replica may be in a directory that cannot be read."""
        self._on_chosen(partition, DIRECTORY_LOST)

    def report(self, partition: Partition, state: PartitionState) -> None:
        """Report the replica's directory to the controller, unless the metadata name it already."""
        directory = self.logs.directory_of(partition.name)
        if directory is not None and directory.directory_id != state.directory_of(self.node_id):
            self._on_chosen(partition, directory.directory_id)

    def report_all(self, partitions: Mapping[Key, Partition]) -> None:
        """Call `report` for each of this broker's replicas."""
        for (topic_id, index), partition in partitions.items():
            topic = self.image.topics_by_id.get(topic_id)
            if topic is not None and topic.has(index) and self.node_id in topic.replicas[index]:
                self.report(partition, topic.partition(index))

    def report_lost(self) -> None:
        """Report offline replicas' directories, which an older metadata version could not hold (KIP-858)."""
        for partition, directory in self.lost.items():
            topic = self.image.topics_by_id.get(partition.topic_id)
            if topic is not None and topic.has(partition.index):
                assigned = topic.partition(partition.index).directory_of(self.node_id)
                if assigned == DIRECTORY_MIGRATING:
                    self._on_chosen(partition, directory)
