"""The number of partitions of an internal topic by which the keys of its coordinator are hashed.

The partition of a group or a transactional id is the hash of its name modulo a number. Were that the present
number of partitions, a topic that grows would separate groups from their offsets, and transactional ids
from their producers. So a broker keeps the number that a topic had when it learned of it, by the topic's id,
also across restarts: in the file `coordinator-partitions` of each log directory. A controller of ours
refuses to add partitions to these topics (`controller/topics/create_partitions.py`); under one of Apache
Kafka they may be added all the same. Brokers of Apache Kafka keep the number, too, but only until their
process ends.

Invariant: the number of a topic id never changes. The exception is ZooKeeper mode: a topic may be seen while
it is half created, so there it may grow to the configured number.

Source: ``GroupCoordinatorService.startup`` and ``TransactionStateManager.startup`` of Apache Kafka 4.3.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from barnabas.broker.coordinator.coordinators import partition_of
from barnabas.log.checkpoints import (
    COORDINATOR_PARTITIONS,
    MalformedCheckpoint,
    read_counts,
    write_counts,
)
from barnabas.log.directories.log_directories import LogDirectories
from barnabas.log.directories.log_directory import LogDirectory
from barnabas.metadata.image.image import MetadataImage
from barnabas.metadata.image.topic import Topic
from barnabas.ports import Ports
from barnabas.types import Uuid

REMEDY = (
    "groups and transactional ids stay where they are, and the partitions that were added hold none; see 'The"
    " partitions of internal topics' in docs/operations.md"
)


class HashedPartitions:
    """The numbers of this broker, by topic."""

    def __init__(
        self,
        ports: Ports,
        image: MetadataImage,
        logs: LogDirectories,
        configured: Mapping[str, int],
        *,
        may_be_half_created: bool,
    ) -> None:
        """`configured`: how many partitions each topic has before it exists."""
        self._ports = ports
        self._image = image
        self._logs = logs
        self._configured = configured
        self._may_be_half_created = may_be_half_created
        self._kept: dict[Uuid, int] = {}
        self._said: dict[Uuid, int] = {}
        """The number of partitions of a topic when its growth was last logged."""

    def __repr__(self) -> str:
        return f"HashedPartitions({', '.join(f'{n}: {self.of(n)}' for n in self._configured)})"

    def of(self, name: str) -> int:
        """The number by which keys of topic `name` are hashed."""
        topic = self._image.topics_by_name.get(name)
        if topic is None:
            return self._configured[name]
        return self._kept.get(topic.id, len(topic))

    def partition_for(self, name: str, key: str) -> int:
        """The partition of topic `name` whose leader coordinates `key`."""
        return partition_of(key, self.of(name))

    def load(self) -> None:
        """Read what an earlier process wrote. Blocks."""
        for directory in self._logs.directories:
            path = f"{directory.path}/{COORDINATOR_PARTITIONS}"
            if not directory.is_online:
                continue
            try:
                counts = read_counts(directory.disk, path)
            except (MalformedCheckpoint, OSError) as error:
                self._ports.log("warning", "coordinator.partitions_unreadable", why=str(error))
                continue
            for topic_id, count in counts.items():
                self._kept[topic_id] = max(count, self._kept.get(topic_id, 0))

    def on_metadata(self) -> None:
        """The image moved. It is not of before this broker's registration: a number of then may be wrong."""
        is_new = False
        for name in self._configured:
            topic = self._image.topics_by_name.get(name)
            if topic is not None and len(topic):
                is_new = self._keep(topic) or is_new
        if is_new:
            self._write()

    def _keep(self, topic: Topic) -> bool:
        kept, present = self._kept.get(topic.id), len(topic)
        if kept is None or (kept < present and self._is_completed(topic)):
            self._kept[topic.id] = present
            self._ports.log(
                "info", "coordinator.partitions_kept", topic=topic.name, partitions=present
            )
            return True
        if kept < present and self._said.get(topic.id) != present:
            self._said[topic.id] = present
            self._ports.log(
                "warning",
                "coordinator.topic_grew",
                topic=topic.name,
                partitions=present,
                hashed_by=kept,
                what_now=REMEDY,
            )
        return False

    def _is_completed(self, topic: Topic) -> bool:
        return self._may_be_half_created and len(topic) == self._configured[topic.name]

    def _write(self) -> None:
        """Write the numbers of the present topics in every log directory, outside of this thread."""
        known = self._image.topics_by_name
        present = [topic for name in self._configured if (topic := known.get(name)) is not None]
        rows = {
            topic.id: (topic.name, self._kept[topic.id])
            for topic in present
            if topic.id in self._kept
        }
        for directory in self._logs.directories:
            if directory.is_online:
                path = f"{directory.path}/{COORDINATOR_PARTITIONS}"
                job: Callable[[], None] = partial(write_counts, directory.disk, path, rows)
                done = partial(self._on_written, directory)
                self._ports.background.run(f"counts {directory.path}", job, done)

    def _on_written(self, directory: LogDirectory, result: object) -> None:
        if isinstance(result, OSError):
            self._logs.fail(directory, f"writing {COORDINATOR_PARTITIONS} failed: {result}")
        elif isinstance(result, BaseException):
            raise result
