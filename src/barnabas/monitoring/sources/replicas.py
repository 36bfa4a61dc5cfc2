"""Sources of a broker's replicas, by partition and in sum, and of its log directories.

A partition has some sixteen values, and few of ten thousand partitions change between two scrapes.
So the lines of some hundred partitions are kept together, and written again if one of their values
has changed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from barnabas.broker.broker import Broker
from barnabas.broker.controller_client.broker_lifecycle import LifecyclePhase
from barnabas.broker.partitions.partition import Partition
from barnabas.monitoring.exposition import Exposition, labels_text
from barnabas.types import Uuid

PARTITIONS_PER_SLICE = 250
"""The partitions of one slice, which takes two steps of one or two milliseconds."""
TOPICS_PER_STEP = 250
MANAGER = "kafka.server:type=ReplicaManager,name="
FETCHED = "kafka.server:type=BrokerTopicMetrics,name=ReplicationBytesInPerSec"
LOG = "kafka.log:type=Log,name={},topic=*,partition=*"
PARTITION = "kafka.cluster:type=Partition,name={},topic=*,partition=*"
EXPORTER = "kafka_topic_partition_{}{{topic,partition}}"
DIRECTORY = "barnabas.log:type=LogDirectory,name={},logDirectory=*"
SUMS = (
    "LeaderCount",
    "OfflineReplicaCount",
    "UnderReplicatedPartitions",
    "UnderMinIsrPartitionCount",
    "AtMinIsrPartitionCount",
)
BROKER_STATES = {
    LifecyclePhase.STARTING: 1,
    LifecyclePhase.FENCED: 2,
    LifecyclePhase.RUNNING: 3,
    LifecyclePhase.LEAVING: 6,
    LifecyclePhase.STOPPED: 0,
}
"""Kafka's numbers (``BrokerState``)."""


class PartitionRow(NamedTuple):
    """The values of one replica. Those from `replicas` on are the leader's, and None elsewhere."""

    labels: str
    size: int
    start: int
    end: int
    segments: int
    replicas: int | None = None
    isr: int = 0
    is_small: int = 0
    is_below: int = 0
    is_at: int = 0
    unstable: int = 0
    mark: int = 0
    leader: int = 0
    is_preferred: int = 0


FAMILIES = {
    LOG.format("Size"): "size",
    LOG.format("LogStartOffset"): "start",
    LOG.format("LogEndOffset"): "end",
    LOG.format("NumLogSegments"): "segments",
}
"""A replica's metrics, and the fields of a row that they show."""
LEADERS_FAMILIES = {
    PARTITION.format("InSyncReplicasCount"): "isr",
    PARTITION.format("ReplicasCount"): "replicas",
    PARTITION.format("UnderReplicated"): "is_small",
    PARTITION.format("UnderMinIsr"): "is_below",
    PARTITION.format("AtMinIsr"): "is_at",
    PARTITION.format("LastStableOffsetLag"): "unstable",
    EXPORTER.format("current_offset"): "mark",
    EXPORTER.format("oldest_offset"): "start",
    EXPORTER.format("leader"): "leader",
    EXPORTER.format("leader_is_preferred"): "is_preferred",
    EXPORTER.format("replicas"): "replicas",
    EXPORTER.format("in_sync_replica"): "isr",
    EXPORTER.format("under_replicated_partition"): "is_small",
}


Stamp = tuple[object, ...]
"""Offsets, epochs, segments: a stamp changes whenever a row does, in a third of the row's time."""


class Slice:
    """Some partitions: their stamps, the lines of their rows, and their counts."""

    __slots__ = ("lines", "stamps", "sums")

    def __init__(
        self, stamps: list[Stamp], rows: list[PartitionRow | None], exposition: Exposition
    ) -> None:
        """`rows` has None for a replica whose log directory failed."""
        self.stamps = stamps
        here = [row for row in rows if row is not None]
        led = [row for row in here if row.replicas is not None]
        self.lines = {
            mbean: _lines(exposition.series(mbean), field, chosen)
            for families, chosen in ((FAMILIES, here), (LEADERS_FAMILIES, led))
            for mbean, field in families.items()
            if chosen
        }
        self.sums = Counter(
            LeaderCount=len(led),
            OfflineReplicaCount=len(rows) - len(here),
            UnderReplicatedPartitions=sum(row.is_small for row in led),
            UnderMinIsrPartitionCount=sum(row.is_below for row in led),
            AtMinIsrPartitionCount=sum(row.is_at for row in led),
        )


def _lines(name: str, field: str, rows: list[PartitionRow]) -> str:
    at = PartitionRow._fields.index(field)
    return "\n".join([f"{name}{{{row[0]}}} {row[at]}" for row in rows])


def _stamp(partition: Partition) -> Stamp:
    log = partition.log
    if log is None:
        return (partition.topic_id, partition.index)
    return (
        log,
        log.log_end_offset,
        log.log_start_offset,
        log.high_watermark,
        len(log.segments),
        log.generations.replacement_count,
        partition.partition_epoch,
        partition.leader_epoch,
        partition.leader is None,
        partition.min_isr,
    )


class ReplicaSource:
    """The source of one broker. A slice keeps its lines while its stamps do not change."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._labels: dict[tuple[Uuid, int], str] = {}
        self._slices: dict[int, Slice] = {}

    def steps(self, page: Exposition) -> Iterator[None]:
        sums: Counter[str] = Counter()
        partitions = list(self._broker.replicas.by_id.items())
        if len(self._labels) > 2 * len(partitions):
            self._labels.clear()
            self._slices.clear()
        for start in range(0, len(partitions), PARTITIONS_PER_SLICE):
            part = partitions[start : start + PARTITIONS_PER_SLICE]
            stamps = [_stamp(partition) for _, partition in part]
            known = self._slices.get(start)
            if known is None or known.stamps != stamps:
                yield
                known = Slice(stamps, [self._row(*item) for item in part], page)
                self._slices[start] = known
            for mbean, lines in known.lines.items():
                page.lines(mbean).append(lines)
            sums.update(known.sums)
            yield
        self._add_sums(page, sums, len(partitions))
        yield
        yield from self._topics(page)
        self._add_directories(page)
        yield

    def _row(self, key: tuple[Uuid, int], partition: Partition) -> PartitionRow | None:
        log, leader = partition.log, partition.leader
        if log is None:
            return None
        labels = self._labels.get(key)
        if labels is None:
            labels = labels_text({"topic": partition.topic, "partition": str(partition.index)})
            self._labels[key] = labels
        start, end = log.log_start_offset, log.log_end_offset
        if leader is None:
            return PartitionRow(labels, log.size, start, end, len(log.segments))
        replicas, isr = len(partition.replicas), len(leader.isr)
        return PartitionRow(
            labels,
            log.size,
            start,
            end,
            len(log.segments),
            replicas,
            isr,
            int(isr < replicas),
            int(leader.is_under_min_isr(partition.min_isr)),
            int(isr == min(partition.min_isr, replicas)),
            end - log.last_stable_offset,
            log.high_watermark,
            partition.leader_id,
            int(partition.replicas[:1] == (partition.leader_id,)),
        )

    def _add_sums(self, page: Exposition, sums: Counter[str], count: int) -> None:
        broker = self._broker
        phase = broker.lifecycle.phase if broker.is_started else LifecyclePhase.STARTING
        page.add("kafka.server:type=KafkaServer,name=BrokerState", BROKER_STATES[phase])
        page.add(f"{MANAGER}PartitionCount", count)
        for name in SUMS:
            page.add(f"{MANAGER}{name}", sums[name])
        page.add(
            "kafka.server:type=FetchSessionCache,name=NumIncrementalFetchSessions",
            len(broker.fetches.sessions),
        )
        page.add(FETCHED, broker.throttle.fetched_bytes)
        self._add_brokers(page)

    def _topics(self, page: Exposition) -> Iterator[None]:
        broker, moving = self._broker, 0
        for at, topic in enumerate(list(broker.image.topics_by_id.values())):
            moving += sum(
                1
                for index, rare in topic.rare.items()
                if (rare.adding or rare.removing) and topic.leader[index] == broker.node_id
            )
            if topic.leader and topic.leader[0] == broker.node_id:
                labels = labels_text({"topic": topic.name})
                page.add("kafka_topic_partitions{topic}", len(topic), labels)
            if at % TOPICS_PER_STEP == 0:
                yield
        page.add(f"{MANAGER}ReassigningPartitions", moving)

    def _add_brokers(self, page: Exposition) -> None:
        broker = self._broker
        page.add("kafka_brokers", len(broker.image.brokers))
        for node_id in sorted(broker.image.brokers):
            labels = labels_text(
                {"id": str(node_id), "address": str(broker.inter_broker_endpoint(node_id) or "")}
            )
            page.add("kafka_broker_info{id,address}", 1, labels)

    def _add_directories(self, page: Exposition) -> None:
        directories = self._broker.logs.directories
        offline = [directory for directory in directories if not directory.is_online]
        page.add("kafka.log:type=LogManager,name=OfflineLogDirectoryCount", len(offline))
        for directory in directories:
            labels = labels_text({"logDirectory": directory.path})
            mbean = "kafka.log:type=LogManager,name=LogDirectoryOffline,logDirectory=*"
            page.add(mbean, int(not directory.is_online), labels)
            if directory.is_online and not directory.watchdog.ticks:
                try:
                    total, usable = directory.disk.free_bytes(directory.path)
                except OSError:
                    continue  # the directory's own jobs find the error
                page.add(DIRECTORY.format("TotalBytes"), total, labels)
                page.add(DIRECTORY.format("UsableBytes"), usable, labels)
