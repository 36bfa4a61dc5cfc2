"""All replicas on this broker, kept in the state that the committed metadata say.

The table creates replicas, moves them between roles and deletes them as metadata batches are
applied. It starts and ends their fetching, and takes those of a failed directory offline. A
partition knows the broker around it only as this table
(:class:`~barnabas.broker.partitions.partition.PartitionHost`).

Invariants: a replica leads or follows in exactly the leader epoch that the metadata had at the
replica's last turn in `apply_queue` (at once if few change); one partition has one replica here;
the log of a deleted topic is never used for a new topic with the same name.

Source: Kafka's ReplicaManager.applyDelta.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Protocol

from barnabas.broker.follower.fetcher_pool import FetcherPool
from barnabas.broker.partitions.partition import Partition
from barnabas.broker.partitions.watermark_waiters import call_each
from barnabas.broker.replicas.isr_rules import IsrRules
from barnabas.broker.replicas.metadata_apply_queue import Key, MetadataApplyQueue
from barnabas.broker.replicas.replica_directories import ReplicaDirectories
from barnabas.broker.replicas.replica_index import ReplicaIndex
from barnabas.broker.replicas.topic_configs import TopicConfigs
from barnabas.log.directories.log_directories import resolve_duplicate
from barnabas.log.directories.log_directory import LogDirectory
from barnabas.log.directories.log_listener import LogListener
from barnabas.log.errors import CorruptLogError
from barnabas.log.partition.partition_log import PartitionLog
from barnabas.metadata.features import DIRECTORIES_SINCE
from barnabas.metadata.image.image import BROKER, TOPIC
from barnabas.metadata.image.image_changes import ImageChanges
from barnabas.metadata.image.topic import PartitionState, Topic
from barnabas.ports import Ports, raise_soon
from barnabas.replication.sessions import FetchSession
from barnabas.types import TopicPartition
from barnabas.wire.errors import KafkaError

OnLeadership = Callable[[Partition, int | None], None]
"""Gets the partition and its leader epoch; None if this broker does not lead it any more."""


class DelayedFetches(Protocol):
    """The fetches that wait for records of partitions that this broker leads."""

    @property
    def reads_from_followers(self) -> bool:
        """Whether consumers read from followers. Then a follower has to learn a new high watermark
        at once."""

    def check_and_complete(self, session: FetchSession[Partition], /) -> None:
        """Check the session's delayed fetch: there may be something to read now."""


class ReplicaTable:
    """The replicas, by topic id and by name."""

    def __init__(
        self,
        ports: Ports,
        index: ReplicaIndex,
        configs: TopicConfigs,
        directories: ReplicaDirectories,
        isr: IsrRules,
        fetchers: FetcherPool,
        delayed_fetches: DelayedFetches,
    ) -> None:
        """`fetchers` fetch partitions that this broker follows; `delayed_fetches` wait for
        partitions that it leads."""
        self.ports = ports
        self.node_id = node_id = directories.node_id
        self.image = index.image
        self.index = index
        self.by_id, self.by_name, self.find = index.by_id, index.by_name, index.find
        self.configs = configs
        self.directories, self.logs = directories, directories.logs
        self.fetchers = fetchers
        self.lag_ms_max, self.is_eligible, self.propose_isr = (
            isr.lag_ms_max, isr.is_eligible, isr.propose,
        )  # fmt: skip
        self.check_and_complete = delayed_fetches.check_and_complete
        self.propagates_high_watermarks = delayed_fetches.reads_from_followers
        self.marks_moved = False
        """Whether a high watermark may have moved since the last checkpoint."""
        self.now_ms = ports.clock.now_ms
        self.wall_ms = ports.clock.wall_ms
        self.on_fault = partial(raise_soon, ports.wakeups)
        self.keeps_unnamed_logs = False
        """Whether logs stay that the first image does not name: a controller that cannot read a
        topic's znodes leaves the topic out of it."""
        self._listeners: dict[str, list[OnLeadership]] = {}
        self.apply_queue = MetadataApplyQueue(
            ports,
            self.image,
            node_id,
            self.by_id.__contains__,
            self._follow_image,
            fetchers.maybe_fetch,
        )
        self.on_log_corrupt = self.logs.events.corrupt
        self.logs.events.listen(
            LogListener(
                on_flushed=partial(_on_flushed, self),
                on_start_moved=partial(_on_start_moved, self),
            )
        )

    def validate(self) -> None:
        """Raises AssertionError unless the index is consistent and each replica has the log of its
        name."""
        self.index.validate()
        for partition in self.by_id.values():
            log = partition.log
            if log is not None:
                assert self.logs.logs.get(partition.name) is log, f"{partition!r} has another log"

    # -- looking up ------------------------------------------------------------------------------

    def leaders(self) -> Iterable[Partition]:
        return [partition for partition in self.by_id.values() if partition.leader is not None]

    def waits_to_lead(self, topic_name: str, index: int) -> bool:
        """Whether this broker leads a partition by the metadata, and its replica waits for its turn."""
        topic = self.image.topics_by_name.get(topic_name)
        if topic is None or (topic.id, index) not in self.apply_queue:
            return False
        return topic.has(index) and topic.leader[index] == self.node_id

    # -- what a partition needs ------------------------------------------------------------------

    def on_log_failed(self, name: TopicPartition, error: OSError) -> None:
        self.logs.fail_log(name, error)

    def after_append(self, log: PartitionLog, before: int) -> None:
        self.logs.after_append(log, before)

    # -- configuration ---------------------------------------------------------------------------

    def _reconfigure(self, partitions: Iterable[Partition]) -> None:
        for partition in partitions:
            config, min_isr = self.configs.of(partition.topic)
            if partition.log is not None and partition.log.config is not config:
                partition.log.reconfigure(config)
            if (partition.topic_id, partition.index) not in self.apply_queue:
                # A replica that waits gets it with its turn: its minimum ISR must be no newer than
                # its ISR.
                _set_min_isr(partition, min_isr)

    # -- metadata --------------------------------------------------------------------------------

    def apply(self, changes: ImageChanges) -> None:
        """Apply `changes` of the image to this broker's replicas."""
        if changes.everything:
            self._apply_everything()
        else:
            self._apply_changes(changes)
        for broker in changes.brokers:
            if broker != self.node_id:
                self.fetchers.on_broker_changed(broker)
        if changes.brokers:
            self.expand_isrs()
        self._apply_configs(changes)
        self.fetchers.maybe_fetch()

    def _apply_everything(self) -> None:
        mine = [(topic.id, index) for topic, index in self.image.partitions_of(self.node_id)]
        self.directories.on_first_image(mine)
        for (topic_id, _), partition in self.by_id.items():
            if topic_id not in self.image.topics_by_id:
                partition.leave_readers_by_name()
        self.apply_queue.add(dict.fromkeys([*self.by_id, *mine]))
        if self.keeps_unnamed_logs:
            return
        # The logs that are left belong to partitions of which this broker has no replica any more.
        known = {*self.logs.logs, *self.logs.duplicates, *self.logs.futures.logs}
        for name in sorted(name for name in known if not _is_mine(self, name)):
            if (name.topic, name.partition) not in self.by_name:
                resolve_duplicate(self.logs, name, None)
                self.logs.delete(name, is_stray=True)

    def _apply_changes(self, changes: ImageChanges) -> None:
        deleted = changes.topics_deleted
        reported: dict[Key, None] = {}
        if deleted:
            reported.update({key: None for key in self.by_id if key[0] in deleted})
        for topic_id in changes.topics_created:
            topic = self.image.topics_by_id.get(topic_id)
            if topic is not None:
                for index, replicas in enumerate(topic.replicas):
                    if self.node_id in replicas:
                        reported[topic_id, index] = None
                    former = self.by_name.get((topic.name, index))
                    if former is not None and former.topic_id != topic_id:
                        former.leave_readers_by_name()
        for key in changes.partitions:
            topic = self.image.topics_by_id.get(key[0])
            mine = (
                topic is not None and topic.has(key[1]) and self.node_id in topic.replicas[key[1]]
            )
            if mine or key in self.by_id:
                reported[key] = None
        if reported:
            self.apply_queue.add(reported)

    def _follow_image(self, key: Key) -> None:
        """Apply the metadata's present state of one replica."""
        topic, index = self.image.topics_by_id.get(key[0]), key[1]
        if topic is not None and topic.has(index) and self.node_id in topic.replicas[index]:
            self._apply_partition(topic, index)
            return
        gone = self.by_id.get(key)
        if gone is not None:
            self._remove(gone)

    def _apply_configs(self, changes: ImageChanges) -> None:
        if changes.everything or any(kind == BROKER for kind, _ in changes.configs):
            self._reconfigure(self.by_id.values())
            return
        for kind, name in changes.configs:
            topic = self.image.topics_by_name.get(name) if kind == TOPIC else None
            if topic is not None:
                found = (self.by_id.get((topic.id, i)) for i in range(len(topic)))
                self._reconfigure([partition for partition in found if partition is not None])

    def _apply_partition(self, topic: Topic, index: int) -> None:
        """Apply the metadata's present state of this broker's replica of an existing partition."""
        state = topic.partition(index)
        partition = self.by_id.get((topic.id, index))
        if (
            partition is not None
            and partition.log is None
            and self.directories.may_start_empty(state)
        ):
            self._remove(partition)
            partition = None
        if partition is None:
            partition = self._create(topic, state)
        elif self.image.metadata_version >= DIRECTORIES_SINCE and partition.log is not None:
            # The replica was removed and added again before its turn, or a recovered quorum lost
            # its directory: the metadata no longer say where its log is. If the replica moves, the
            # move reports it.
            if partition.name not in self.logs.futures.logs:
                self.directories.report(partition, state)
        if state.leader == self.node_id:
            # Before the ISR, and from the same image: the minimum ISR must be no older than the
            # ISR.
            _set_min_isr(partition, self.configs.of(topic.name).min_isr)
            self.fetchers.stop(partition)
            if partition.become_leader(state):
                self.ports.log(
                    "info",
                    "replica.leads",
                    partition=str(partition.name),
                    leader_epoch=state.leader_epoch,
                    end=partition.log.log_end_offset if partition.log else -1,
                    high_watermark=partition.high_watermark,
                )
                self._notify_listeners(partition, state.leader_epoch)
            return
        led = partition.is_leader
        if partition.become_follower(state):
            if led:
                self._notify_listeners(partition, None)
            if state.leader >= 0 and partition.is_online:
                self.fetchers.follow(partition)
            else:
                self.fetchers.stop(partition)

    def _create(self, topic: Topic, state: PartitionState) -> Partition:
        name = TopicPartition(topic.name, state.partition)
        former = self.by_name.get((name.topic, name.partition))
        if former is not None:  # a topic of this name was deleted in the same batch
            self._remove(former)
        log: PartitionLog | None = None
        try:
            log = self.directories.open_log(name, topic.id, state)
        except KafkaError as error:
            self.ports.log("error", "replica.offline", partition=str(name), reason=error.message)
        partition = Partition(self, topic.name, topic.id, state.partition, log)
        self.index.add(partition)
        config, partition.min_isr = self.configs.of(topic.name)
        if log is not None and log.config is not config:
            # A move that began before the metadata were known, or with another topic's copy.
            log.reconfigure(config)
        if log is not None and log.flush_is_due:
            # After a crash the log may hold records that the former process had not synced.
            self.logs.after_append(log, log.recovery_point)
        if log is None and self.directories.may_be_offline(topic.id, state):
            self.directories.report_offline(partition)
        if (
            log is not None and partition.log is log
        ):  # the sync may have taken its directory offline
            self.directories.report(partition, state)
            for path in log.fragments():  # other replicas may still have these records
                self.on_log_corrupt(name, CorruptLogError(path, 0, "its batches are gone"))
        return partition

    def _remove(self, partition: Partition) -> None:
        """This broker has no such replica any more: remove it and delete its log."""
        self.fetchers.stop(partition)
        led = partition.is_leader
        self.directories.on_removed(partition)
        partition.delete()
        self.index.remove(partition)
        if led:
            self._notify_listeners(partition, None)
        self.logs.delete(partition.name)

    # -- directories -----------------------------------------------------------------------------

    def on_directory_offline(
        self, directory: LogDirectory, partitions: Iterable[TopicPartition]
    ) -> None:
        """`directory` failed, and the logs of `partitions` with it."""
        for topic, index in partitions:
            partition = self.by_name.get((topic, index))
            if partition is None:
                continue
            self.directories.lost[partition] = directory.directory_id
            self.fetchers.stop(partition)
            led = partition.is_leader
            partition.go_offline()
            if led:
                self._notify_listeners(partition, None)
        self.fetchers.maybe_fetch()

    # -- leadership ------------------------------------------------------------------------------

    def on_leadership(self, topic: str, callback: OnLeadership) -> None:
        """Call `callback` when this broker begins to lead a partition of `topic`, leads it in a new
        epoch, or ceases to lead it. It is called at once for each partition that this broker leads
        now."""
        self._listeners.setdefault(topic, []).append(callback)
        for (name, _), partition in sorted(self.by_name.items()):
            if name == topic and partition.leader is not None:
                callback(partition, partition.leader.epoch)

    def _notify_listeners(self, partition: Partition, epoch: int | None) -> None:
        listeners = self._listeners.get(partition.topic, ())
        call_each((partial(callback, partition, epoch) for callback in listeners), self.on_fault)

    # -- upkeep ----------------------------------------------------------------------------------

    def check_isrs(self) -> int:
        """Ask the controller to remove lagging members from every ISR, and return how many
        partitions asked. A replica that was about to join and has fallen behind no longer holds up
        the high watermark."""
        asked: list[Partition] = []

        def check(partition: Partition) -> None:
            try:
                if partition.maybe_shrink_isr():
                    asked.append(partition)
            finally:
                partition.on_isr_changed()

        call_each([partial(check, partition) for partition in self.leaders()], self.on_fault)
        return len(asked)

    def expand_isrs(self) -> None:
        """A broker's state changed: ask to add replicas that may join an ISR now, and stop waiting
        for those that may not."""
        leaders = [(partition, partition.leader) for partition in self.by_id.values()]
        small = [p for p, leader in leaders if leader and len(leader.isr) < len(leader.replicas)]
        call_each([partition.on_isr_changed for partition in small], self.on_fault)

    def describe(self) -> dict[str, object]:
        leading = sum(partition.is_leader for partition in self.by_id.values())
        return {
            "replicas": len(self.by_id),
            "leading": leading,
            "offline": sum(not partition.is_online for partition in self.by_id.values()),
            "fetchers": len(self.fetchers),
        }

    def __repr__(self) -> str:
        return f"ReplicaTable({len(self.by_id)} replicas on {self.node_id})"


def _is_mine(table: ReplicaTable, name: TopicPartition) -> bool:
    topic = table.image.topics_by_name.get(name.topic)
    index = name.partition
    return topic is not None and topic.has(index) and table.node_id in topic.replicas[index]


def _on_flushed(table: ReplicaTable, name: TopicPartition) -> None:
    """A sync that ``flush.messages`` required is over: the requests that waited for it continue."""
    partition = table.by_name.get(name)
    if partition is not None:
        partition.on_flushed()
        table.fetchers.on_flushed(partition)


def _on_start_moved(table: ReplicaTable, name: TopicPartition) -> None:
    """Tell the other replicas that retention moved a log's start: the leader answers its followers,
    and a follower fetches from its leader."""
    partition = table.by_name.get(name)
    if partition is not None:
        partition.on_start_moved()
        table.fetchers.on_start_moved(partition)


def _set_min_isr(partition: Partition, least: int) -> None:
    """A lower minimum ISR may be enough for requests that wait."""
    if least != partition.min_isr:
        partition.min_isr = least
        partition.advance_high_watermark()
