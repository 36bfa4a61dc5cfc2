"""Members' fetches get what their partitions have, in the order in which they wait."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from barnabas.broker.deadlines import Deadlines
from barnabas.broker.share.led_partitions import LedPartitions
from barnabas.broker.share.share_fetches import FetchTerms, Results, ShareFetches
from barnabas.broker.share.share_partition import (
    ACCEPT,
    HELD_MAX,
    RECORD_LOCKS_MAX,
    RELEASE,
    Acknowledgement,
    SharePartition,
    Wanted,
)
from barnabas.broker.share.share_sessions import Member, Place
from barnabas.group.cluster_topics import ClusterTopics
from barnabas.log.errors import OffsetOutOfRange
from barnabas.record.batch import iterate
from barnabas.record.builder import END_TRANSACTION_VALUE, build_batch
from barnabas.share.delivery import StateBatch
from barnabas.share.key import SharePartitionKey
from barnabas.types import Uuid
from barnabas.wire.errors import ErrorCode, KafkaError
from tests.unit.broker.fakes import advance, process

TOPIC = Uuid(bytes(15) + b"\x01")
PLACE: Place = (TOPIC, 0)
OTHER: Place = (TOPIC, 1)


class Log:
    """The leader's log of one partition, as batches."""

    def __init__(self) -> None:
        self.batches: list[tuple[int, int, bytes]] = []
        self.log_start_offset = 0
        self.high_watermark = 0
        self.stable: int | None = None
        self.aborted: list[tuple[int, int]] = []
        self.watches: list[Callable[[int], None]] = []
        self.is_cold = False
        self.leader_epoch, self.leader, self.topic, self.name = 0, None, "t", "t-0"

    @property
    def last_stable_offset(self) -> int:
        return self.high_watermark if self.stable is None else self.stable

    def append(self, count: int = 1, **more: Any) -> None:
        base = self.high_watermark
        records = [(None, b"%d" % (base + at)) for at in range(count)]
        self.add(build_batch(records, timestamp_ms=0, base_offset=base, **more), count)

    def abort(self, producer_id: int, first: int) -> None:
        base = self.high_watermark
        marker = [(b"\0\0\0\0", END_TRANSACTION_VALUE.pack(0, 0))]
        self.aborted.append((producer_id, first))
        data = build_batch(
            marker, timestamp_ms=0, base_offset=base, control=True, transactional=True,
            producer_id=producer_id, producer_epoch=0,
        )  # fmt: skip
        self.add(data, 1)

    def add(self, data: bytes, count: int) -> None:
        self.batches.append((self.high_watermark, self.high_watermark + count - 1, data))
        self.high_watermark += count
        for watch in self.watches:
            watch(self.high_watermark)

    def on_high_watermark(self, watch: Callable[[int], None]) -> Callable[[], None]:
        self.watches.append(watch)
        return lambda: self.watches.remove(watch)

    def readable_log(self, epoch: int, *, leader_only: bool) -> Log:
        return self

    def read(self, offset: int, room: int, up_to: int, *, at_least_one: bool, block: bool) -> Any:
        if offset < self.log_start_offset:
            raise OffsetOutOfRange(offset, self.log_start_offset, self.high_watermark)
        if self.is_cold and not block:
            return None
        found = [data for first, last, data in self.batches if last >= offset and last < up_to]
        taken, size = b"", 0
        for data in found:
            if taken and size + len(data) > room:
                break
            taken, size = taken + data, size + len(data)
        return SimpleNamespace(records=taken)

    def read_job(self, offset: int, room: int, *, up_to: int) -> Callable[[], bytes]:
        def job() -> bytes:
            self.is_cold = False
            return b""

        return job

    def aborted_transactions(self, first: int, end: int) -> list[tuple[int, int]]:
        return [(producer, at) for producer, at in self.aborted if at < end]

    def not_leader(self) -> KafkaError:
        return KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "moved")


class Coordinator:
    """A share coordinator that keeps everything."""

    def __init__(self) -> None:
        self.starts: dict[SharePartitionKey, int] = {}

    def read(self, key: SharePartitionKey, leader_epoch: int, on_done: Any) -> None:
        start = self.starts.get(key, 0)
        on_done(SimpleNamespace(state_epoch=1, start_offset=start, state_batches=[]))

    def write(self, key: SharePartitionKey, write: Any, on_done: Any) -> None:
        self.starts[key] = write.start_offset
        on_done(SimpleNamespace())


class World:
    """Two partitions of one topic, and members who fetch them."""

    def __init__(self) -> None:
        self.ports = process()
        self.logs = {PLACE: Log(), OTHER: Log()}
        replicas: Any = SimpleNamespace(
            find=lambda place: (self.logs.get(place), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
            by_id=self.logs,
        )
        coordinator: Any = Coordinator()
        letters: Any = None
        deadlines = Deadlines(self.ports)
        self.led = LedPartitions(
            self.ports, deadlines, replicas, coordinator, ClusterTopics(), letters
        )
        self.fetches = ShareFetches(self.ports, deadlines, self.led, 10)

    def begin(self, member: str, connection_id: int) -> None:
        session = self.fetches.sessions.begin(Member("g", member), connection_id)
        session.update([PLACE, OTHER], ())

    def fetch(
        self,
        member: str,
        *places: Place,
        most: int = 500,
        wait_ms: float = 100.0,
        strict: bool = False,
        committed: bool = False,
        bytes_max: int = 1 << 20,
    ) -> list[Results]:
        """What the fetch is answered with, once it is."""
        answers: list[Results] = []
        wanted = Wanted(most, 0, strict)
        terms = FetchTerms(Member("g", member), wanted, bytes_max, 1, committed)
        self.fetches.fetch(terms, places or (PLACE,), wait_ms, answers.append, lambda: False)
        return answers

    def acknowledge(self, member: str, first: int, last: int, kind: int = ACCEPT) -> Any:
        outcome: list[Any] = []
        told = {PLACE: [Acknowledgement(first, last, kind)]}
        self.fetches.acknowledge(Member("g", member), told, outcome.append)
        return outcome[0][PLACE]


def offsets(answers: list[Results], place: Place = PLACE) -> list[int]:
    [results] = answers
    if place not in results:
        return []
    parts = results[place].acquired
    return [at for part in parts for at in range(part.first, part.last + 1)]


def test_a_fetch_waits_for_an_append_and_ends_without_one() -> None:
    world = World()
    early, late = world.fetch("m", wait_ms=50), world.fetch("n", wait_ms=500)
    advance(world.ports, 60)
    assert early == [{}] and late == []
    world.logs[PLACE].append(3)
    advance(world.ports, 1)
    assert offsets(late) == [0, 1, 2]


def test_fetches_are_served_in_the_order_in_which_they_wait() -> None:
    world = World()
    first, second = world.fetch("m", most=1), world.fetch("n", most=1)
    world.logs[PLACE].append(1)
    advance(world.ports, 1)
    assert offsets(first) == [0] and second == []
    world.logs[PLACE].append(1)
    advance(world.ports, 1)
    assert offsets(second) == [1]


def test_records_come_whole_batches_at_a_time_unless_the_limit_is_strict() -> None:
    world = World()
    world.logs[PLACE].append(4)
    world.logs[PLACE].append(4)
    assert offsets(world.fetch("m", most=2, strict=True)) == [0, 1]
    assert offsets(world.fetch("n", most=1)) == [2, 3]
    assert offsets(world.fetch("n", most=5)) == [4, 5, 6, 7]


def test_the_bytes_of_an_answer_have_the_batches_of_its_records() -> None:
    world = World()
    for _ in range(3):
        world.logs[PLACE].append(2)
    assert offsets(world.fetch("m", most=2)) == [0, 1]
    [results] = world.fetch("m", most=1)
    [view] = iterate(results[PLACE].records)
    assert (view.header.base_offset, view.header.last_offset) == (2, 3)


def test_a_record_that_is_larger_than_the_answer_is_delivered() -> None:
    world = World()
    world.logs[PLACE].append(1)
    assert offsets(world.fetch("m", bytes_max=1)) == [0]


def test_aborted_transactions_are_not_delivered_to_a_group_that_reads_committed() -> None:
    world = World()
    log = world.logs[PLACE]
    log.append(2, producer_id=5, producer_epoch=0, transactional=True)
    log.stable = 0
    waiting = world.fetch("m", committed=True)
    assert waiting == [], "the transaction is open"
    log.stable = None
    log.abort(5, 0)
    log.append(1)
    advance(world.ports, 1)
    assert offsets(waiting)[-1] == 3 and not {0, 1} & set(offsets(waiting))
    assert world.acknowledge("m", offsets(waiting)[0], 3) is None
    machine = world.led.find(SharePartitionKey("g", *PLACE))
    assert machine is not None and machine.share_partition is not None
    assert machine.share_partition.in_flight.start == 4


def test_a_log_of_aborted_transactions_alone_is_passed() -> None:
    world = World()
    log = world.logs[PLACE]
    for _ in range(20):
        first = log.high_watermark
        log.append(1, producer_id=5, producer_epoch=0, transactional=True)
        log.abort(5, first)
    log.append(1)
    seen: set[int] = set()
    while log.high_watermark - 1 not in seen:
        found = offsets(world.fetch("m", committed=True, bytes_max=200))
        assert found
        assert world.acknowledge("m", found[0], found[-1]) is None or len(found) > 1
        seen.update(found)
    assert not {at for at in seen if at % 2 == 0} - {40}


def test_retention_that_passes_the_start_moves_it() -> None:
    world = World()
    log = world.logs[PLACE]
    log.append(2)
    log.append(2)
    assert offsets(world.fetch("m", most=1)) == [0, 1]
    log.log_start_offset = 3
    found = offsets(world.fetch("n"))
    assert found == [3]
    assert world.acknowledge("n", 3, 3) is None
    assert world.acknowledge("m", 0, 1) is None, "it is gone, which is no error"


def test_bytes_on_disk_are_read_in_the_background() -> None:
    world = World()
    world.logs[PLACE].append(2)
    world.logs[PLACE].is_cold = True
    answers = world.fetch("m")
    assert answers == []
    advance(world.ports, 20)
    assert offsets(answers) == [0, 1]


def test_a_partition_that_is_not_here_is_answered_with_what_others_have() -> None:
    world = World()
    world.logs[PLACE].append(1)
    gone = (TOPIC, 9)
    answers = world.fetch("m", gone, PLACE)
    [results] = answers
    error = results[gone].error
    assert error is not None and error.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert offsets(answers) == [0]


def test_a_moved_leader_ends_waiting_fetches() -> None:
    world = World()
    answers = world.fetch("m")
    advance(world.ports, 1)
    del world.logs[PLACE]
    world.led.on_metadata()
    advance(world.ports, 1)
    [results] = answers
    error = results[PLACE].error
    assert error is not None and error.code == ErrorCode.NOT_LEADER_OR_FOLLOWER


@pytest.mark.parametrize("kind", [ACCEPT, RELEASE])
def test_a_member_whose_session_has_ended_holds_nothing(kind: int) -> None:
    world = World()
    world.logs[PLACE].append(2)
    world.begin("m", 1)
    world.begin("n", 2)
    assert offsets(world.fetch("m")) == [0, 1]
    waiting = world.fetch("n")
    world.fetches.on_connection_closed(1)
    error = world.acknowledge("m", 0, 1, kind)
    assert error is not None and error.code == ErrorCode.INVALID_RECORD_STATE
    advance(world.ports, 1)
    assert offsets(waiting) == [0, 1]


def test_the_last_member_s_end_lets_the_share_partition_go() -> None:
    world = World()
    world.begin("m", 1)
    waiting = world.fetch("m")
    world.fetches.on_connection_closed(1)
    advance(world.ports, 1)
    assert waiting and not len(world.led)


def test_one_partition_does_not_hold_back_another() -> None:
    world = World()
    world.logs[PLACE].append(3)
    world.logs[OTHER].append(3)
    answers = world.fetch("m", PLACE, OTHER, most=4)
    assert offsets(answers) == [0, 1, 2]
    assert offsets(answers, OTHER) == [0, 1, 2], "the last batch comes whole"


def test_a_member_names_no_more_records_than_it_can_hold_whatever_is_in_flight() -> None:
    machine = SharePartition(0, 1, 0, [StateBatch(0, 150_000_000, 0, 1)])
    led: Any = SimpleNamespace(find=lambda key: SimpleNamespace(share_partition=machine))
    ports = process()
    fetches = ShareFetches(ports, Deadlines(ports), led, 1)
    assert fetches.told_most(Member("g", "m"), PLACE) == RECORD_LOCKS_MAX + HELD_MAX
