"""A record that is not delivered again is archived after its dead letter is written, and not before."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest

from barnabas.broker.metrics import SHARE_GROUPS, of_dead_letters
from barnabas.broker.share.dead_letter_topics import CREATES, DeadLetterTopics
from barnabas.broker.share.dead_letters import READS_MAX, DeadLetters, LetterCounts
from barnabas.broker.share.letters.letter_records import (
    LetterOrigin,
    keys_and_values,
    letter_records,
)
from barnabas.broker.share.open_letters import DELIVERED_TOO_OFTEN, REJECTED, DeadLetter
from barnabas.broker.share.share_partition import (
    GAP,
    REJECT,
    RELEASE,
    Acknowledgement,
    ShareLimits,
    SharePartition,
    Wanted,
)
from barnabas.broker.share.state_writes import StateWrite
from barnabas.client.network.connection import ChannelError
from barnabas.group.cluster_topics import ClusterTopics
from barnabas.log.config import LogConfig
from barnabas.log.errors import CorruptLogError
from barnabas.metadata.image.image import GROUP, TOPIC, MetadataImage
from barnabas.metadata.records.config_record import ConfigRecord
from barnabas.metadata.records.partition_record import PartitionRecord
from barnabas.metadata.records.topic_record import TopicRecord
from barnabas.monitoring.exposition import Exposition
from barnabas.monitoring.table import metrics
from barnabas.record.batch import HEADER_SIZE, iterate
from barnabas.record.builder import build_batch
from barnabas.record.decode import Record, records_of
from barnabas.share.delivery import DeliveryState, StateBatch
from barnabas.share.key import SharePartitionKey
from barnabas.types import Uuid
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.messages.create_topics_request import CreatableTopic
from barnabas.wire.messages.produce_request import ProduceRequest
from barnabas.wire.messages.produce_response import (
    BatchIndexAndErrorMessage,
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceResponse,
)
from tests.unit.broker.fakes import advance, process

LIMITS = ShareLimits(2, 100, lock_ms=50, renews=True, dead_letters=True)
LOST = KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "lost")
ARCHIVING, ARCHIVED = DeliveryState.ARCHIVING, DeliveryState.ARCHIVED
LETTERS = Uuid(bytes(15) + b"\x09")
END = 6
KEY = SharePartitionKey("g", Uuid(bytes(15) + b"\x01"), 3)


def write(machine: SharePartition, error: KafkaError | None = None) -> StateWrite:
    found = machine.take_write()
    assert found is not None
    machine.on_written(found, error, LIMITS, 0.0)
    machine.validate()
    return found


def acknowledged(kind: int, deliveries: int = 1) -> SharePartition:
    """A member has said `kind` of records 0 to 3, which were delivered `deliveries` times."""
    machine = SharePartition(0, 1, 0, [StateBatch(0, 3, 0, deliveries - 1)])
    machine.acquire("m", Wanted(4), 0, [(0, 3)], LIMITS, 0.0)
    machine.acknowledge("m", [Acknowledgement(0, 3, kind)], LIMITS, 0.0)
    return machine


@pytest.mark.parametrize(
    ("kind", "deliveries", "why"), [(REJECT, 1, REJECTED), (RELEASE, 2, DELIVERED_TOO_OFTEN)]
)
def test_a_record_is_archived_when_its_dead_letter_is_written(
    kind: int, deliveries: int, why: str
) -> None:
    machine = acknowledged(kind, deliveries)
    assert machine.letters.take() == [], "nothing is kept yet"
    kept = write(machine)
    assert kept.batches == (StateBatch(0, 3, ARCHIVING, deliveries),)
    assert (kept.start_offset, kept.delivery_complete_count) == (0, 0)
    [letter] = machine.letters.take()
    assert (letter.first, letter.last, letter.deliveries, letter.why) == (0, 3, deliveries, why)
    assert (bool(machine.letters), machine.in_flight.start) == (True, 0)
    machine.on_dead_letters([letter])
    assert (bool(machine.letters), machine.in_flight.start) == (False, 4)
    assert write(machine).start_offset == 4


def test_a_gap_is_no_dead_letter() -> None:
    machine = acknowledged(GAP)
    assert write(machine).start_offset == 0
    assert machine.letters.take() == [] and machine.in_flight.start == 4


def test_a_group_without_a_dead_letter_topic_archives_at_once() -> None:
    machine = SharePartition(0, 1, 0)
    plain = LIMITS._replace(dead_letters=False)
    machine.acquire("m", Wanted(4), 0, [(0, 3)], plain, 0.0)
    machine.acknowledge("m", [Acknowledgement(0, 3, REJECT)], plain, 0.0)
    assert write(machine).batches == (StateBatch(0, 3, ARCHIVED, 1),)
    assert machine.letters.take() == []


def test_a_rejection_that_is_not_kept_makes_no_dead_letter() -> None:
    machine = acknowledged(REJECT)
    write(machine, LOST)
    assert machine.letters.take() == [] and machine.holds("m") == 4


def test_a_dead_letter_follows_the_end_of_the_last_lock_once_that_is_kept() -> None:
    machine = SharePartition(0, 1, 0, [StateBatch(0, 3, 0, 1)])
    machine.acquire("m", Wanted(4), 0, [(0, 3)], LIMITS, 0.0)
    assert machine.on_deadline(LIMITS, 50.0)
    for _ in range(2):
        assert write(machine, LOST).batches == (StateBatch(0, 3, ARCHIVING, 2),)
        assert machine.letters.take() == []
    write(machine)
    [letter] = machine.letters.take()
    assert letter.why == DELIVERED_TOO_OFTEN


@pytest.mark.parametrize(("deliveries", "why"), [(1, REJECTED), (2, DELIVERED_TOO_OFTEN)])
def test_the_next_leader_begins_with_the_dead_letters_again(deliveries: int, why: str) -> None:
    kept = [StateBatch(0, 3, ARCHIVING, deliveries), StateBatch(4, 4, ARCHIVED, 1)]
    machine = SharePartition(0, 1, 0, kept)
    machine.letters.resume(LIMITS.deliveries_max)
    [letter] = machine.letters.take()
    assert (letter.first, letter.last, letter.deliveries, letter.why) == (0, 3, deliveries, why)
    machine.on_dead_letters([letter])
    assert machine.in_flight.start == 5


def test_a_dead_letter_outlasts_the_record_in_the_log() -> None:
    machine = acknowledged(REJECT)
    machine.advance_log_start(2)
    write(machine)
    [letter] = machine.letters.take()
    machine.advance_log_start(10)
    machine.on_dead_letters([letter])
    assert not bool(machine.letters) and machine.in_flight.start == 10


# Records


def decoded(batch: bytes) -> list[Record]:
    return [record for view in iterate(batch) for record in records_of(view)]


def test_a_record_that_does_not_fit_goes_without_its_key_and_value() -> None:
    letter = DeadLetter(0, 2, 1, REJECTED)
    copied = {0: (b"k", b"v"), 1: (b"k", bytes(5_000)), 2: (None, b"w")}
    content = letter_records(LetterOrigin("g", "t", 3), letter, 0, 2, copied, 1_000, 7)
    found = decoded(build_batch(content.records, timestamp_ms=7))
    assert [(r.key, r.value) for r in found] == [(b"k", b"v"), (None, None), (None, b"w")]
    assert dict(found[2].headers)["__dlq.errors.offset"] == b"2"


def test_records_that_do_not_fit_together_go_one_after_the_other() -> None:
    letter = DeadLetter(0, 9, 1, REJECTED)
    copied = {offset: (None, bytes(400)) for offset in range(10)}
    content = letter_records(LetterOrigin("g", "t", 3), letter, 0, 9, copied, 1_500, 7)
    assert len(content.records) == 2
    assert len(build_batch(content.records, timestamp_ms=7)) <= content.size <= 1_500


def test_markers_and_missing_records_have_no_key_and_value() -> None:
    data = build_batch([(b"a", b"b")], timestamp_ms=0) + build_batch(
        [(b"\0\0\0\1", b"x")], timestamp_ms=0, base_offset=1, control=True
    )
    found, end = keys_and_values(data, [(0, 5)])
    assert found == {0: (b"a", b"b")} and end == 2


# Topics


class World:
    """A cluster whose group `g` has the topic ``dlq.g`` for dead letters."""

    def __init__(self, *, copies: bool = False, exists: bool = True, creates: bool = True) -> None:
        self.ports = process()
        self.image = MetadataImage()
        self.set(GROUP, "g", "errors.deadletterqueue.topic.name", "dlq.g")
        if copies:
            self.set(GROUP, "g", "errors.deadletterqueue.copy.record.enable", "true")
        if exists:
            self.create()
        self.texts = {CREATES: str(creates).lower()}
        cluster = ClusterTopics(self.image, lambda: self.texts)
        self.topics = DeadLetterTopics(cluster, lambda: self.texts, lambda name: LogConfig())
        self.sent: list[tuple[int, ProduceRequest, Callable[[Any], None]]] = []
        self.created: list[Callable[[KafkaError | None], None]] = []
        peers: Any = SimpleNamespace(send=self._send)
        self.letters = DeadLetters(self.ports, peers, self.topics, self._create, 1_000)
        self.log = SimpleNamespace(
            log_start_offset=0, high_watermark=END, log_end_offset=END, read_job=self._read_job
        )
        self.read_faults: list[Exception] = []
        self.reads: list[int] = []
        """The offsets at which the log was read."""
        partition = SimpleNamespace(topic="t", readable_log=lambda epoch, leader_only: self.log)
        self.led: Any = SimpleNamespace(key=KEY, has_ended=False, partition=partition)
        self.done: list[DeadLetter] = []

    def set(self, kind: int, name: str, key: str, value: str) -> None:
        record = ConfigRecord(resource_type=kind, resource_name=name, name=key, value=value)
        self.image.replay(record)

    def create(self) -> None:
        self.image.replay(TopicRecord(name="dlq.g", topic_id=LETTERS))
        for index in range(2):
            self.image.replay(
                PartitionRecord(
                    partition_id=index, topic_id=LETTERS, replicas=[1], isr=[1], leader=1,
                    leader_epoch=0, partition_epoch=0,
                )
            )  # fmt: skip
        self.set(TOPIC, "dlq.g", "errors.deadletterqueue.group.enable", "true")

    def _send(self, broker: int, request: Any, on_done: Any, *, purpose: str) -> None:
        self.sent.append((broker, request, on_done))

    def _create(self, topic: CreatableTopic, on_done: Callable[[KafkaError | None], None]) -> None:
        assert topic.name == "dlq.g"
        self.created.append(on_done)

    def _read_job(self, offset: int, bytes_max: int, *, up_to: int) -> Callable[[], bytes]:
        """The whole batch of two records that has `offset`."""
        assert up_to == self.log.high_watermark
        base = offset // 2 * 2
        records = [(b"k%d" % at, b"v%d" % at) for at in (base, base + 1)]
        data = build_batch(records, timestamp_ms=0, base_offset=base)

        def job() -> bytes:
            self.reads.append(offset)
            if self.read_faults:
                raise self.read_faults.pop()
            return data if base + 2 <= up_to else b""

        return job

    def begin(self, first: int = 0, last: int = 0) -> DeadLetter:
        letter = DeadLetter(first, last, 2, REJECTED)
        self.letters.send(self.led, letter, lambda: self.done.append(letter))
        advance(self.ports, 50)
        return letter

    def asked(self) -> list[int]:
        """Whose dead letters the oldest write has."""
        data: Any = self.sent[0][1].topic_data[0].partition_data[0].records
        return offsets(decoded(data))

    def answer(self, code: int = 0, bad: Sequence[int] = ()) -> list[Record]:
        """The records of the oldest write, which is answered with `code`, and which of them are `bad`."""
        _, request, on_done = self.sent.pop(0)
        [topic] = request.topic_data
        [part] = topic.partition_data
        assert (topic.topic_id, part.index, request.acks) == (LETTERS, KEY.partition % 2, -1)
        errors = [BatchIndexAndErrorMessage(batch_index=at) for at in bad]
        answer = PartitionProduceResponse(index=part.index, error_code=code, record_errors=errors)
        on_done(
            ProduceResponse(
                responses=[TopicProduceResponse(topic_id=LETTERS, partition_responses=[answer])]
            )
        )
        advance(self.ports, 50)
        data: Any = part.records
        return decoded(data)


def test_letters_wait_for_the_write_before_and_go_together() -> None:
    world = World()
    first, second, third = world.begin(0, 1), world.begin(5, 5), world.begin(7, 7)
    assert len(world.sent) == 1
    assert [dict(r.headers)["__dlq.errors.offset"] for r in world.answer()] == [b"0", b"1"]
    assert world.done == [first]
    found = world.answer()
    assert [dict(r.headers)["__dlq.errors.offset"] for r in found] == [b"5", b"7"]
    assert world.done == [first, second, third] and not world.sent


def test_copies_are_read_as_far_as_one_read_reaches_and_then_further() -> None:
    world = World(copies=True)
    letter = world.begin(0, 2)
    assert [(r.key, r.value) for r in world.answer()] == [(b"k0", b"v0"), (b"k1", b"v1")]
    assert world.done == []
    assert [(r.key, r.value) for r in world.answer()] == [(b"k2", b"v2")]
    assert world.done == [letter]


def test_letters_of_one_batch_read_it_once() -> None:
    world = World(copies=True)
    letters = [DeadLetter(at, at, 2, REJECTED) for at in (0, 1, 3)]
    for letter in letters:
        world.letters.send(world.led, letter, partial(world.done.append, letter))
    advance(world.ports, 50)
    found = [record for _ in range(2) for record in world.answer()]
    assert keys(found) == [b"k0", b"k1", b"k3"] and world.done == letters
    assert world.reads == [0, 3], "the records 0 and 1 are one batch"


def test_dead_letters_are_counted_by_group() -> None:
    world = World()
    world.begin(0, 2)
    world.answer(ErrorCode.NOT_ENOUGH_REPLICAS)
    advance(world.ports, 200)
    world.answer()
    shares: Any = SimpleNamespace(dead_letters=world.letters)
    world.letters.counts["a,b=c"] = LetterCounts(1, 1, 0)
    found = of_dead_letters(shares)
    assert [found[f"{SHARE_GROUPS}{name},group=g"] for name in NAMES] == [3, 2, 1]
    page = Exposition(metrics())
    for mbean, value in found.items():
        page.add_named(mbean, value)
    name = b"kafka_server_sharegroupmetrics_deadletterqueuerecordcount_total"
    assert name + b'{group="g"} 3' in page.text()
    assert name + b'{group="a%2Cb%3Dc"} 1' in page.text()
    assert of_dead_letters(None) == {}


def test_a_letter_waits_for_no_other_that_cannot_be_read_yet() -> None:
    world = World(copies=True)
    world.log.high_watermark = 2
    early, late = DeadLetter(1, 1, 2, REJECTED), DeadLetter(2, 3, 2, REJECTED)
    for letter in (late, early):
        world.letters.send(world.led, letter, partial(world.done.append, letter))
    advance(world.ports, 50)
    assert keys(world.answer()) == [b"k1"] and world.done == [early]
    world.log.high_watermark = END
    advance(world.ports, 5_001)
    assert keys(world.answer()) == [b"k2", b"k3"] and world.done == [early, late]


NAMES = (
    "DeadLetterQueueRecordCount",
    "DeadLetterQueueTotalProduceRequestsPerSec",
    "DeadLetterQueueFailedProduceRequestsPerSec",
)


def keys(records: list[Record]) -> list[bytes | None]:
    return [record.key for record in records]


def offsets(records: list[Record]) -> list[int]:
    """Whose dead letters they are."""
    return [int(dict(record.headers)["__dlq.errors.offset"] or b"") for record in records]


def test_a_new_leader_copies_records_once_its_high_watermark_is_past_them() -> None:
    world = World(copies=True)
    world.log.high_watermark = 2
    letter = world.begin(1, 3)
    assert not world.sent and world.done == []
    world.log.high_watermark = END
    advance(world.ports, 5_001)
    assert keys(world.answer()) == [b"k1"] and keys(world.answer()) == [b"k2", b"k3"]
    assert world.done == [letter]


def test_records_that_the_log_lost_are_not_waited_for() -> None:
    world = World(copies=True)
    letter = world.begin(END + 1, END + 1)
    assert keys(world.answer()) == [None] and world.done == [letter]


@pytest.mark.parametrize("fault", [OSError("away"), CorruptLogError("a.log", 0, "no batch")])
def test_a_copy_is_read_again_where_reading_fails(fault: Exception) -> None:
    world = World(copies=True)
    world.read_faults = [fault] * 3
    world.begin(0, 1)
    advance(world.ports, 20_000)
    assert keys(world.answer()) == [b"k0", b"k1"]


def test_a_letter_of_a_damaged_log_goes_without_keys_and_values_in_the_end() -> None:
    world = World(copies=True)
    world.read_faults = [CorruptLogError("a.log", 0, "no batch")] * READS_MAX
    letter = world.begin(0, 1)
    advance(world.ports, 60_000)
    assert keys(world.answer()) == [None, None] and world.done == [letter]


def test_a_batch_that_cannot_be_decoded_takes_no_other_keys_and_values_along() -> None:
    damaged = bytearray(build_batch([(b"a", b"b"), (b"c", b"d")], timestamp_ms=0))
    damaged[HEADER_SIZE:] = bytes(len(damaged) - HEADER_SIZE)
    data = bytes(damaged) + build_batch([(b"e", b"f")], timestamp_ms=0, base_offset=2)
    found, end = keys_and_values(data, [(0, 5)])
    assert found[2] == (b"e", b"f") and end == 3


def test_a_refused_letter_takes_no_other_letter_along() -> None:
    world = World()
    world.begin(0, 0)
    poison, good = world.begin(5, 5), world.begin(7, 7)
    world.answer()
    world.done.clear()
    assert offsets(world.answer(ErrorCode.INVALID_RECORD)) == [5, 7]
    assert world.done == []
    assert offsets(world.answer(ErrorCode.INVALID_RECORD)) == [5] and world.done == [poison]
    assert offsets(world.answer()) == [7] and world.done == [poison, good]


def test_records_that_a_topic_names_as_invalid_are_given_up_alone() -> None:
    world = World()
    letter = world.begin(0, 3)
    assert offsets(world.answer(ErrorCode.INVALID_RECORD, bad=[1, 2])) == [0, 1, 2, 3]
    assert world.done == []
    assert offsets(world.answer()) == [0, 3] and world.done == [letter]


def test_a_refused_record_that_no_answer_names_is_found_by_halves() -> None:
    world = World()
    letter, written = world.begin(0, 9), list[int]()
    while world.sent:
        if 6 in world.asked():
            world.answer(ErrorCode.MESSAGE_TOO_LARGE)
        else:
            written += offsets(world.answer())
    assert written == [0, 1, 2, 3, 4, 5, 7, 8, 9] and world.done == [letter]


def test_a_topic_that_refuses_every_letter_is_not_asked_for_each_record() -> None:
    world = World()
    letter = world.begin(0, 9)
    world.answer(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    assert world.done == [letter] and not world.sent


@pytest.mark.parametrize(
    "code", [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_ENOUGH_REPLICAS, None]
)
def test_a_letter_is_tried_until_it_is_written(code: ErrorCode | None) -> None:
    world = World()
    letter = world.begin()
    for _ in range(12):
        if code is None:
            world.sent.pop(0)[2](ChannelError("closed", "gone"))
        else:
            world.answer(code)
        advance(world.ports, 5_001)
        assert world.done == []
    assert world.answer() and world.done == [letter]


def test_a_letter_that_its_topic_refuses_is_given_up() -> None:
    world = World()
    letter = world.begin()
    world.answer(ErrorCode.INVALID_RECORD)
    assert world.done == [letter]


def test_a_topic_that_does_not_exist_is_created_once() -> None:
    world = World(exists=False)
    world.begin(0, 0), world.begin(1, 1)
    [on_created] = world.created
    on_created(KafkaError(ErrorCode.INVALID_REPLICATION_FACTOR, "too few brokers"))
    advance(world.ports, 200)
    assert len(world.created) == 2 and world.done == []
    world.create()
    world.created[1](None)
    advance(world.ports, 500)
    assert [len(world.answer()) for _ in range(len(world.sent))] in ([1, 1], [2], [1])


def test_letters_are_given_up_where_the_topic_cannot_be_created() -> None:
    world = World(exists=False)
    letter = world.begin()
    world.created.pop()(KafkaError(ErrorCode.POLICY_VIOLATION, "no"))
    assert world.done == [letter]


@pytest.mark.parametrize("what", ["missing", "closed", "prefix", "unnamed"])
def test_letters_of_a_group_without_a_usable_topic_are_given_up(what: str) -> None:
    world = World(exists=what != "missing", creates=False)
    if what == "closed":
        world.set(TOPIC, "dlq.g", "errors.deadletterqueue.group.enable", "false")
    if what == "prefix":
        world.texts["errors.deadletterqueue.topic.name.prefix"] = "letters-"
    if what == "unnamed":
        world.set(GROUP, "g", "errors.deadletterqueue.topic.name", "")
    letter = world.begin()
    assert world.done == [letter] and not world.sent


def test_a_letter_of_an_ended_share_partition_is_left_to_the_next_leader() -> None:
    world = World()
    world.begin()
    world.begin(1, 1)
    world.led.has_ended = True
    world.answer()
    assert world.done == [] and not world.sent
