"""Snapshots and large batches reach a node in slices, and readers see all of them or nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from barnabas.controller.active.quorum_controller import QuorumController
from barnabas.host.disk import HostDisk
from barnabas.limits import LoaderBounds, NodeBounds
from barnabas.metadata.image.codec import encode_records
from barnabas.metadata.image.image import BROKER, MetadataImage
from barnabas.metadata.image.image_changes import ImageChanges
from barnabas.metadata.image.snapshot import snapshot_values
from barnabas.metadata.records.config_record import ConfigRecord
from barnabas.metadata.records.feature_level_record import FeatureLevelRecord
from barnabas.metadata.records.partition_change_record import PartitionChangeRecord
from barnabas.metadata.records.partition_record import PartitionRecord
from barnabas.metadata.records.topic_record import TopicRecord
from barnabas.node.metadata_loader import MetadataLoader
from barnabas.ports import Ports
from barnabas.raft.core.batches import data_batch
from barnabas.raft.core.log_metadata import LogMetadata
from barnabas.raft.runtime.applier import Applier
from barnabas.raft.state_machine import OffsetAndEpoch
from barnabas.raft.storage.replica_log import RaftLog
from barnabas.raft.storage.snapshot_files import (
    CorruptSnapshotError,
    SnapshotFile,
    SnapshotWriter,
    file_name,
)
from barnabas.types import Uuid
from barnabas.wire.schema import Message
from tests.unit.controller.harness import World
from tests.unit.metadata.strategies import holds

APPLIED_INLINE_MAX = LoaderBounds().applied_inline_max

END = OffsetAndEpoch(5000, 3)


def creation(name: str, partitions: int, first: int = 0) -> list[Message]:
    topic_id = Uuid(name.encode().rjust(16, b"\0"))
    head = [] if first else [TopicRecord(name=name, topic_id=topic_id)]
    return [
        *head,
        *[
            PartitionRecord(
                partition_id=index, topic_id=topic_id, replicas=(1, 2, 3), isr=(1, 2), leader=1,
                leader_epoch=0, partition_epoch=0, directories=[Uuid(bytes([i] * 16)) for i in (1, 2, 3)],
            )
            for index in range(first, first + partitions)
        ],
    ]  # fmt: skip


class Log:
    """A log in memory: one batch after the other."""

    def __init__(self) -> None:
        self.end = END.offset
        self.batches: list[tuple[int, bytes]] = []

    def append(self, records: Sequence[Message]) -> None:
        values = encode_records(records, 30)
        self.batches.append((self.end, data_batch(values, self.end, 3, 77)))
        self.end += len(values)

    def read(self, offset: int, size: int, up_to: int) -> bytes:
        return next(data for base, data in self.batches if base >= offset)

    def read_kept(self, *_: int) -> None:
        """Nothing is in memory."""


class Follower:
    """A reader of the committed image."""

    def __init__(self) -> None:
        self.changes: list[ImageChanges] = []

    def on_metadata(self, image: MetadataImage, changes: ImageChanges) -> None:
        self.changes.append(changes)

    def on_controller_change(self) -> None:
        """No test looks at it."""


class Node:
    """What follows the metadata log, turn by turn."""

    def __init__(
        self,
        directory: Path,
        *,
        controller: bool = True,
        on_configured: Callable[[MetadataImage], None] | None = None,
    ) -> None:
        """`on_configured`: of a node that is only a controller."""
        self.soon: list[Callable[[], None]] = []
        self.follower = Follower()
        self.told = self.follower.changes
        self.disk = HostDisk()
        self.directory = str(directory)
        self.log = Log()
        self.metadata = MetadataLoader(
            cast("Ports", SimpleNamespace(bounds=NodeBounds(), halt=pytest.fail))
        )
        if on_configured is None:
            self.metadata.add_follower(self.follower)
        self.controller: QuorumController | None = None
        if controller:
            self.controller = World().new_controller()
            self.metadata.add_controller(self.controller, on_configured)
        log = cast("RaftLog", self.log)
        self.applier = Applier(log, LogMetadata(), self.metadata, 9, self.soon.append)

    def images(self) -> list[MetadataImage]:
        own = [self.metadata.image]
        return own if self.controller is None else [*own, self.controller.image]

    def write_snapshot(self, image: MetadataImage, end: OffsetAndEpoch = END) -> SnapshotFile:
        writer = SnapshotWriter(self.disk, self.directory, end, 77, [], 0)
        chunks = snapshot_values(image)
        assert chunks is not None
        for chunk in chunks:
            writer.add(chunk, 0)
        writer.freeze_job(0)()
        return SnapshotFile(self.disk, f"{self.directory}/{file_name(end)}", end)

    def turns(self) -> int:
        """Until nothing is left to do; how many it took."""
        count = 0
        while self.soon:
            self.soon.pop(0)()
            count += 1
        return count


def filled(*topics: tuple[str, int]) -> MetadataImage:
    image = MetadataImage()
    records: list[Message] = [FeatureLevelRecord(name="metadata.version", feature_level=30)]
    for name, partitions in topics:
        records += creation(name, partitions)
    image.replay_batch(records, END.offset - 1, END.epoch, 77)
    return image


@pytest.mark.slow
def test_a_snapshot_is_loaded_over_many_turns_and_shown_when_it_is_whole(tmp_path: Path) -> None:
    node, image = Node(tmp_path), filled(("a", 2000), ("b", 1500))
    node.applier.load(node.write_snapshot(image))
    node.applier.run()
    assert node.soon
    assert [mine.topics_by_name for mine in node.images()] == [{}, {}]
    assert node.applier.applied_offset == 0
    assert node.turns() >= 3500 // 600
    assert [holds(mine) for mine in node.images()] == [holds(image)] * 2
    assert node.applier.applied_offset == END.offset
    assert node.applier.is_settled
    assert [changes.everything for changes in node.told] == [True]


@pytest.mark.slow
def test_the_former_image_stays_until_a_fetched_snapshot_is_whole(tmp_path: Path) -> None:
    node = Node(tmp_path)
    node.applier.load(node.write_snapshot(filled(("a", 2000))))
    node.applier.run()
    node.turns()
    later = OffsetAndEpoch(9000, 4)
    image = filled(("b", 1000), ("c", 1000))
    image.moved_to(later.offset - 1, later.epoch, 77)
    before = [mine.config_version for mine in node.images()]
    node.applier.load(node.write_snapshot(image, later))
    node.applier.run()
    assert [set(mine.topics_by_name) for mine in node.images()] == [{"a"}, {"a"}]
    node.turns()
    assert [holds(mine) for mine in node.images()] == [holds(image)] * 2
    assert all(
        mine.config_version > version for mine, version in zip(node.images(), before, strict=True)
    )


@pytest.mark.slow
def test_a_newer_snapshot_takes_the_place_of_one_that_is_being_loaded(tmp_path: Path) -> None:
    node = Node(tmp_path)
    node.applier.load(node.write_snapshot(filled(("a", 2000))))
    node.applier.run()
    later = OffsetAndEpoch(9000, 4)
    image = filled(("b", 1000))
    image.moved_to(later.offset - 1, later.epoch, 77)
    node.applier.load(node.write_snapshot(image, later))
    node.turns()
    assert [holds(mine) for mine in node.images()] == [holds(image)] * 2
    assert node.applier.applied_offset == later.offset


@pytest.mark.slow
@pytest.mark.parametrize("controller", [True, False])
def test_a_large_batch_is_read_in_slices_and_seen_as_a_whole(
    tmp_path: Path, controller: bool
) -> None:
    node, image = Node(tmp_path, controller=controller), filled(("a", 10))
    node.applier.load(node.write_snapshot(image))
    node.applier.run()
    node.turns()
    node.log.append(creation("b", 5 * APPLIED_INLINE_MAX))
    node.log.append(creation("a", 2 * APPLIED_INLINE_MAX, first=10))
    node.applier.on_commit(node.log.end)
    node.applier.run()
    first, second = ("b", 5 * APPLIED_INLINE_MAX), ("a", 10 + 2 * APPLIED_INLINE_MAX)
    wholly = {(("a", 10),), (("a", 10), first), (second, first)}
    while node.soon:
        for mine in node.images():
            sizes = {name: len(topic) for name, topic in mine.topics_by_name.items()}
            assert tuple(sorted(sizes.items())) in wholly
        node.soon.pop(0)()
    for mine in node.images():
        sizes = {name: len(topic) for name, topic in mine.topics_by_name.items()}
        assert sizes == {"a": 10 + 2 * APPLIED_INLINE_MAX, "b": 5 * APPLIED_INLINE_MAX}
        assert len(mine.partition_keys_of(2)) == 10 + 7 * APPLIED_INLINE_MAX
    assert node.applier.applied_offset == node.log.end == node.metadata.image.offset + 1
    assert len(node.told[-1].partitions) == 2 * APPLIED_INLINE_MAX


@pytest.mark.slow
def test_a_damaged_snapshot_is_found_before_anything_is_loaded(tmp_path: Path) -> None:
    node = Node(tmp_path)
    snapshot = node.write_snapshot(filled(("a", 3000)))
    path = f"{node.directory}/{file_name(END)}"
    data = bytearray(node.disk.read_file(path))
    data[len(data) // 2] ^= 1
    node.disk.write_atomic(path, bytes(data))
    node.applier.load(snapshot)
    with pytest.raises(CorruptSnapshotError):
        node.applier.run()
    assert node.told == []


@pytest.mark.parametrize("size", [1, 2 * APPLIED_INLINE_MAX])
@pytest.mark.parametrize("faulty", ["broker", "controller"])
def test_each_record_is_applied_once_after_a_listeners_fault(
    tmp_path: Path, size: int, faulty: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = Node(tmp_path)
    node.applier.load(node.write_snapshot(filled(("a", size))))
    node.applier.run()
    node.turns()

    def fail(*told: object) -> None:
        monkeypatch.undo()
        raise MemoryError("for a moment")

    if faulty == "broker":
        monkeypatch.setattr(node.follower, "on_metadata", fail)
    else:
        monkeypatch.setattr(node.controller, "_answer_committed", fail)
    topic_id = Uuid(b"a".rjust(16, b"\0"))
    node.log.append(
        [PartitionChangeRecord(partition_id=i, topic_id=topic_id, leader=2) for i in range(size)]
    )
    node.applier.on_commit(node.log.end)
    with pytest.raises(MemoryError):
        node.applier.run()
        node.turns()
    node.applier.run()
    node.turns()
    assert node.applier.applied_offset == node.log.end
    assert [set(mine.topics_by_name["a"].leader_epoch) for mine in node.images()] == [{1}, {1}]


@pytest.mark.parametrize("size", [1, 2 * APPLIED_INLINE_MAX])
def test_a_controller_alone_hears_of_each_changed_configuration(tmp_path: Path, size: int) -> None:
    heard = []

    def on_configured(image: MetadataImage) -> None:
        heard.append(image.config(BROKER, "3").get("ssl.keystore.location"))

    node = Node(tmp_path, on_configured=on_configured)
    node.applier.load(node.write_snapshot(filled(("a", size))))
    node.applier.run()
    node.turns()
    heard.clear()
    topic_id = Uuid(b"a".rjust(16, b"\0"))
    change = ConfigRecord(
        resource_type=BROKER, resource_name="3", name="ssl.keystore.location", value="/new.pem"
    )
    moves = [
        PartitionChangeRecord(partition_id=i, topic_id=topic_id, leader=2) for i in range(size)
    ]
    for records in (moves, [*moves, change], moves):
        node.log.append(records)
        node.applier.on_commit(node.log.end)
        node.applier.run()
        node.turns()
    assert heard == ["/new.pem"]
