"""The image: replay, undo, snapshots, transactions, changes."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas.metadata.image.bulk_isr_shrinks import Shrink, Shrinks
from barnabas.metadata.image.bulk_partition_records import Replayable, RowReader, Rows
from barnabas.metadata.image.codec import (
    decode_record,
    encode_record,
    encode_records,
    record_version,
)
from barnabas.metadata.image.fast_encode import reason_tag
from barnabas.metadata.image.image import MetadataImage
from barnabas.metadata.image.snapshot import image_records, load_records, snapshot_values
from barnabas.metadata.records.abort_transaction_record import AbortTransactionRecord
from barnabas.metadata.records.begin_transaction_record import BeginTransactionRecord
from barnabas.metadata.records.config_record import ConfigRecord
from barnabas.metadata.records.end_transaction_record import EndTransactionRecord
from barnabas.metadata.records.feature_level_record import FeatureLevelRecord
from barnabas.metadata.records.partition_change_record import PartitionChangeRecord
from barnabas.metadata.records.partition_record import PartitionRecord
from barnabas.metadata.records.remove_topic_record import RemoveTopicRecord
from barnabas.metadata.records.topic_record import TopicRecord
from barnabas.types import DIRECTORY_MIGRATING, Uuid
from barnabas.wire.codec import MalformedError
from barnabas.wire.schema import Message
from tests.effort import examples
from tests.unit.metadata.strategies import (
    holds,
    partition_changes,
    partition_records,
    records,
    truly_members,
)

TOPIC = Uuid(bytes(15) + b"\x07")
LATEST = FeatureLevelRecord(name="metadata.version", feature_level=30)


def make(*more: Message) -> MetadataImage:
    image = MetadataImage()
    image.replay_batch(
        [
            LATEST,
            TopicRecord(name="flights", topic_id=TOPIC),
            PartitionRecord(
                partition_id=0, topic_id=TOPIC, replicas=[1, 2, 3], isr=[1, 2, 3], leader=1,
                leader_epoch=0, partition_epoch=0, directories=[Uuid(bytes([i] * 16)) for i in (1, 2, 3)],
            ),
            *more,
        ],
        2,
        1,
    )  # fmt: skip
    return image


@pytest.mark.slow
@settings(max_examples=examples(300))
@given(st.one_of(partition_records(), partition_changes()))
def test_hot_writers_write_what_the_compiled_codec_writes(record: Message) -> None:
    [value] = encode_records([record], 30)
    assert value == encode_record(record, record_version(record, 30))
    assert decode_record(value) == record


@pytest.mark.slow
@settings(max_examples=examples(400))
@given(partition_records(), st.integers(-3, 3), st.integers(0, 255), st.booleans())
def test_the_hot_reader_reads_what_the_compiled_codec_reads(
    record: PartitionRecord, cut: int, noise: int, plain: bool
) -> None:
    if plain:
        record.adding_replicas = record.removing_replicas = ()
        record.eligible_leader_replicas = record.last_known_elr = record.reason = None
        record.leader_recovery_state = 0
    value = bytearray(encode_record(record, 2))
    if cut > 0:
        value[(noise * 7) % len(value)] = noise
    elif cut < 0:
        del value[cut:]
    staged: list[Replayable] = []
    try:
        read = decode_record(bytes(value))
    except MalformedError:
        with pytest.raises(MalformedError):
            RowReader().stage([bytes(value)], staged)
        return
    RowReader().stage([memoryview(value)], staged)
    if plain and cut == 0:
        assert isinstance(staged[0], Rows)
    by_rows, by_record = MetadataImage(), MetadataImage()
    for image, said in ((by_rows, staged[0]), (by_record, read)):
        image.replay(TopicRecord(name="it", topic_id=TOPIC))
        image.replay(said)
    assert holds(by_rows) == holds(by_record)


@pytest.mark.slow
@settings(max_examples=examples(150))
@given(st.lists(records, max_size=25), st.lists(st.lists(records, max_size=8), max_size=4))
def test_undoing_uncommitted_records_restores_the_image_exactly(
    committed: list[Message], appends: list[list[Message]]
) -> None:
    image = MetadataImage()
    image.replay_batch(committed, len(committed), 1)
    before = holds(image)
    offset = len(committed)
    for append in appends:
        offset += len(append)
        image.apply_uncommitted(append, offset, 2)
    after = holds(image)
    undone = image.undo_uncommitted()
    assert holds(image) == before
    assert before["members"] == truly_members(image)
    for again in undone:
        image.apply_uncommitted(*again)
    assert holds(image) == after


@st.composite
def shrinks(draw: st.DrawFn) -> Shrink:
    some = st.lists(st.integers(1, 4), max_size=3, unique=True).map(tuple)
    return Shrink(
        draw(st.sampled_from([TOPIC, TOPIC, TOPIC, Uuid(bytes(15) + b"\x63")])),
        draw(st.integers(-1, 5)),
        draw(st.sampled_from([-2, -2, -1, 1, 2])),
        draw(some),
        draw(st.none() | some),
        draw(st.none() | some),
    )


@pytest.mark.slow
@settings(max_examples=examples(150))
@given(st.lists(st.one_of(records, partition_records()), max_size=20), st.lists(shrinks()))
def test_shrinks_are_replayed_as_the_records_they_stand_for(
    log: list[Message], rows: list[Shrink]
) -> None:
    both = make(*log), make(*log)
    views = []
    changes = []
    many = Shrinks()
    for row in rows:
        many.add(*row, reason_tag(b"gone"))
    ways: list[list[Replayable]] = [[many], [row.record() for row in rows]]
    for image, new in zip(both, ways, strict=True):
        image.take_changes()
        before = holds(image)
        image.apply_uncommitted(new, image.offset + max(len(rows), 1), 1)
        views.append(holds(image) | {"ignored": image.ignored})
        changes.append(image.take_changes())
        image.undo_uncommitted()
        assert holds(image) == before
        assert set(image.take_changes().partitions) == set(changes[-1].partitions)
    assert views[0] == views[1]
    assert set(changes[0].partitions) == set(changes[1].partitions)
    for value, row in zip(many.values, rows, strict=True):
        record = row.record()
        record.reason = "gone"
        assert value == encode_record(record, 2)


def everything_but_names(image: MetadataImage) -> dict[str, object]:
    """Two topics of one name cannot be in a real log; the snapshot keeps both and the last wins."""
    view = holds(image)
    del view["names"], view["collisions"]
    return view


@pytest.mark.slow
@settings(max_examples=examples(150))
@given(st.lists(records, max_size=40))
def test_a_snapshot_gives_an_equal_image(log: list[Message]) -> None:
    image = MetadataImage()
    image.replay_batch([LATEST, *log], len(log), 3)
    other = MetadataImage()
    other.replay(TopicRecord(name="stale", topic_id=TOPIC))
    load_records(other, list(image_records(image)), len(log), 3)
    assert everything_but_names(other) == everything_but_names(image)
    assert other.take_changes().everything


@pytest.mark.slow
@settings(max_examples=examples(80))
@given(
    st.lists(records, max_size=20),
    st.lists(records, max_size=10),
    st.lists(records, max_size=20),
    st.integers(1, 5),
)
def test_a_snapshot_shows_the_committed_moment_while_the_image_moves_on(
    committed: list[Message], uncommitted: list[Message], later: list[Message], chunk: int
) -> None:
    image = MetadataImage(track_changes=False)
    image.replay_batch([LATEST, *committed], len(committed), 1)
    expected = encode_records(image_records(image), 30)
    image.apply_uncommitted(uncommitted, len(committed) + len(uncommitted), 1)
    after = holds(image)
    chunks = snapshot_values(image, chunk)
    assert chunks is not None
    assert holds(image) == after
    got = list(next(chunks, []))
    for record in later:
        image.apply_uncommitted([record], image.offset + 1, 1)
        got += next(chunks, [])
    image.undo_uncommitted()
    for values in chunks:
        got += values
    assert sorted(got) == sorted(expected)  # what was removed and taken back is at the end
    shown, meant = MetadataImage(), MetadataImage()
    for other, values in ((shown, got), (meant, expected)):
        load_records(other, [decode_record(value) for value in values], len(committed), 1)
    assert everything_but_names(shown) == everything_but_names(meant)
    assert not image.captures


def test_a_snapshot_in_the_midst_of_a_topic_does_not_see_later_changes() -> None:
    image = make()
    expected = list(image_records(image))
    chunks = snapshot_values(image, 1)
    assert chunks is not None
    got = [value for _ in range(2) for value in next(chunks)]  # the level, and the topic's name
    image.replay(PartitionChangeRecord(partition_id=0, topic_id=TOPIC, leader=2, isr=[2]))
    image.replay(
        PartitionRecord(
            partition_id=1, topic_id=TOPIC, replicas=[1], isr=[1], leader=1,
            leader_epoch=0, partition_epoch=0, directories=[Uuid(bytes(16))],
        )
    )  # fmt: skip
    for values in chunks:
        got += values
    assert [decode_record(value) for value in got] == expected


def test_a_partition_change_bumps_the_epochs_as_kafka_does() -> None:
    image = make(PartitionChangeRecord(partition_id=0, topic_id=TOPIC, isr=[2, 3], leader=2))
    state = image.topics_by_name["flights"].partition(0)
    assert (state.leader, state.leader_epoch, state.partition_epoch) == (2, 1, 1)
    assert state.isr == (2, 3)
    image.replay(PartitionChangeRecord(partition_id=0, topic_id=TOPIC, isr=[2]))
    state = image.topics_by_name["flights"].partition(0)
    assert (state.leader, state.leader_epoch, state.partition_epoch) == (2, 1, 2)


def test_a_partition_without_directories_is_migrating() -> None:
    image = make(PartitionRecord(partition_id=1, topic_id=TOPIC, replicas=[4], isr=[4], leader=4))
    state = image.topics_by_name["flights"].partition(1)
    assert state.directories == (DIRECTORY_MIGRATING,)


def test_partitions_may_come_in_any_order() -> None:
    image = make(PartitionRecord(partition_id=2, topic_id=TOPIC, replicas=[4], isr=[4], leader=4))
    topic = image.topics_by_name["flights"]
    assert not topic.has(1) and topic.has(2)
    with pytest.raises(IndexError):
        topic.partition(1)
    image.replay(PartitionRecord(partition_id=1, topic_id=TOPIC, replicas=[5], isr=[5], leader=5))
    assert [state.partition for state in topic.partitions()] == [0, 1, 2]


def test_a_transaction_shows_nothing_until_it_ends() -> None:
    image = make(BeginTransactionRecord(name="t"), RemoveTopicRecord(topic_id=TOPIC))
    assert "flights" in image.topics_by_name
    assert image.consistent_offset < image.offset
    assert snapshot_values(image) is None
    image.replay(EndTransactionRecord())
    assert "flights" not in image.topics_by_name


def test_an_aborted_transaction_leaves_nothing() -> None:
    image = make(BeginTransactionRecord(name="t"), RemoveTopicRecord(topic_id=TOPIC))
    image.replay(AbortTransactionRecord(reason="no"))
    assert "flights" in image.topics_by_name
    assert image.transaction is None


def test_unknown_partitions_are_counted_and_change_nothing() -> None:
    image = make()
    image.replay(PartitionChangeRecord(partition_id=9, topic_id=TOPIC, leader=2))
    image.replay(PartitionChangeRecord(partition_id=0, topic_id=Uuid(bytes(16)), leader=2))
    assert image.ignored == 2


def test_nothing_is_kept_of_what_this_software_does_not_know() -> None:
    def told(kind: int, name: str) -> ConfigRecord:
        return ConfigRecord(resource_type=kind, resource_name="1", name=name, value="3.0")

    kraft = FeatureLevelRecord(name="kraft.version", feature_level=1)
    gone = [told(2, "message.format.version"), told(16, "x"), told(32, "x"), told(8, "root"), kraft]
    image = make(*gone, told(2, "retention.ms"), told(4, "listener.name.a.b"))
    assert image.ignored == len(gone)
    assert image.features == {"metadata.version": 30}
    assert image.configs == {
        (2, "1"): {"retention.ms": "3.0"},
        (4, "1"): {"listener.name.a.b": "3.0"},
    }


def test_changes_name_what_moved_since_they_were_taken() -> None:
    image = make()
    first = image.take_changes()
    assert list(first.topics_created) == [TOPIC] and not first.partitions
    image.replay(PartitionChangeRecord(partition_id=0, topic_id=TOPIC, leader=2))
    assert list(image.take_changes().partitions) == [(TOPIC, 0)]
    image.replay(RemoveTopicRecord(topic_id=TOPIC))
    assert image.take_changes().topics_deleted == {TOPIC: "flights"}
    assert not image.take_changes()


@pytest.mark.parametrize(
    "value",
    [b"", b"\x01", b"\x02\x03\x00", b"\x01\x63\x00", b"\x01\x03\x09", b"\x01\x02\x00\x00"],
)
def test_bytes_that_are_no_record_are_refused(value: bytes) -> None:
    with pytest.raises(MalformedError):
        decode_record(value)


@pytest.mark.parametrize("replicas", [[1, 2, 3, 4], [3, 1]])
def test_an_assignment_without_directories_has_one_unknown_for_each_replica(
    replicas: list[int],
) -> None:
    """Below metadata.version 17 no record says anything of them."""
    image = make(
        PartitionRecord(partition_id=1, topic_id=TOPIC, replicas=[1, 2, 3], isr=[1], leader=1)
    )
    before = holds(image)
    change = PartitionChangeRecord(partition_id=1, topic_id=TOPIC, replicas=replicas)
    image.apply_uncommitted([change], 9, 1)
    state = image.partition(TOPIC, 1)
    assert state is not None and state.directories == (DIRECTORY_MIGRATING,) * len(replicas)
    image.undo_uncommitted()
    assert holds(image) == before


def test_a_snapshot_that_is_never_read_releases_its_moment() -> None:
    """The disk was full when its file was to be made: the image must not keep that moment for ever."""
    image = make()
    chunks = snapshot_values(image)
    assert len(image.captures) == 1
    del chunks
    assert not image.captures
