"""The states of partitions, and their last moves as the log tells them."""

from __future__ import annotations

from typing import Any

from barnabas.metadata.image.codec import encode_records
from barnabas.metadata.image.image import MetadataImage
from barnabas.metadata.image.partition_states import NEW, OFFLINE, ONLINE, count_states, state_of
from barnabas.metadata.image.snapshot import image_records
from barnabas.metadata.records.partition_change_record import PartitionChangeRecord
from barnabas.metadata.records.partition_record import PartitionRecord
from barnabas.metadata.records.remove_topic_record import RemoveTopicRecord
from barnabas.metadata.records.topic_record import TopicRecord
from barnabas.metadata.views.partition_moves import StateReader
from barnabas.types import Uuid
from barnabas.wire.schema import Message

MINE, OTHER = Uuid(b"m" * 16), Uuid(b"o" * 16)
LATEST = 30


def values(*records: Message) -> list[bytes]:
    return encode_records(records, LATEST)


def partition(topic: Uuid, leader: int) -> PartitionRecord:
    return PartitionRecord(
        partition_id=0, topic_id=topic, replicas=[1, 2], isr=[1, 2], leader=leader,
        directories=[Uuid(bytes(16))] * 2,
    )  # fmt: skip


def led_by(leader: int, reason: str) -> PartitionChangeRecord:
    return PartitionChangeRecord(partition_id=0, topic_id=MINE, leader=leader, reason=reason)


def test_a_partition_never_led_is_new_and_one_that_lost_its_leader_offline() -> None:
    assert state_of(-1, 0) == NEW
    assert state_of(3, 0) == ONLINE
    assert state_of(-1, 1) == OFFLINE


def test_the_last_move_has_its_reason_and_other_topics_are_left_out() -> None:
    reader = StateReader({MINE: "mine"})
    log = values(
        TopicRecord(name="other", topic_id=OTHER),
        TopicRecord(name="mine", topic_id=MINE),
        partition(OTHER, 1),
        partition(MINE, 1),
        led_by(2, "broker 1 is gone"),
        led_by(-1, "broker 2 is gone"),
        PartitionChangeRecord(partition_id=0, topic_id=MINE, isr=[2], reason="none moved"),
    )
    events = list(reader.feed(log, 10, 99))
    assert {event.subject for event in events} == {"mine", "mine-0"}
    move = reader.moves["mine", 0]
    assert str(move) == "Online → Offline: broker 2 is gone"
    assert (move.offset, move.at_ms, move.leader) == (15, 99, -1)
    change = reader.changes["mine", 0]
    assert str(change) == "1 left the ISR: none moved" and change.offset == 16
    assert count_states(reader.image.topics_by_id.values()) == {NEW: 0, ONLINE: 0, OFFLINE: 1}


def test_a_snapshot_swallows_reasons_and_keeps_states() -> None:
    image = MetadataImage(track_changes=False)
    for record in (TopicRecord(name="mine", topic_id=MINE), partition(MINE, 1)):
        image.replay(record)
    reader = StateReader({MINE: "mine"})
    reader.load(values(*image_records(image)), 7, 1)
    assert not reader.moves
    list(reader.feed(values(led_by(2, "preferred")), 8, 5))
    assert str(reader.moves["mine", 0]) == "Online → Online: preferred"


def test_changes_are_described_in_words() -> None:
    reader = StateReader({MINE: "mine"})

    def after(record: Message) -> str:
        list(reader.feed(values(record), 5, 9))
        return reader.changes["mine", 0].what

    def changed(**fields: Any) -> str:
        return after(PartitionChangeRecord(partition_id=0, topic_id=MINE, **fields))

    list(reader.feed(values(TopicRecord(name="mine", topic_id=MINE)), 1, 1))
    assert after(partition(MINE, 1)) == "created, led by 1"
    assert changed(leader=2, isr=[2]) == "leader moved from 1 to 2, 1 left the ISR"
    assert changed(leader=-1) == "went offline"
    assert changed(leader=2) == "back online, led by 2"
    assert changed(isr=[2, 1]) == "1 joined the ISR"
    began = changed(replicas=[3, 2, 1], adding_replicas=[3], removing_replicas=[1])
    assert began == "reassignment to 3,2 began"
    ended = changed(replicas=[3, 2], adding_replicas=[], removing_replicas=[], isr=[2, 3])
    assert ended == "1 left the ISR, 3 joined the ISR, reassignment ended with replicas 3,2"
    assert changed(eligible_leader_replicas=[3]) == "eligible to lead are 3"


def test_a_topic_made_again_by_the_name_of_another_begins_with_its_creation() -> None:
    reader = StateReader(None)
    again = Uuid(b"a" * 16)
    first = (TopicRecord(name="mine", topic_id=MINE), partition(MINE, 1), led_by(-1, "gone"))
    list(reader.feed(values(*first, RemoveTopicRecord(topic_id=MINE)), 1, 1))
    assert not reader.changes and not reader.moves
    list(reader.feed(values(TopicRecord(name="mine", topic_id=again), partition(again, 2)), 6, 1))
    assert str(reader.changes["mine", 0]) == "created, led by 2"
    assert reader.moves["mine", 0].before == "NonExistent"
