"""Callers that watch a watermark or a leader get each change, whatever other callers do with theirs."""

from __future__ import annotations

import pytest

from barnabas.broker.partitions.partition import Partition
from barnabas.log.partition.partition_log import PartitionLog
from barnabas.record.builder import build_batch
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.alter_partition_reassignments_request import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from barnabas.wire.messages.elect_leaders_request import ElectLeadersRequest, TopicPartitions
from tests.unit.broker.world import Cluster, values_of


def fail(*what: object) -> bool:
    raise ZeroDivisionError


class Waiter:
    def __init__(self, *, fails: bool = False) -> None:
        self.codes: list[ErrorCode] = []
        self._fails = fails

    def complete_partition(self, slot: int, code: ErrorCode) -> None:
        self.codes.append(code)
        if self._fails:
            fail()


class Check:
    def __init__(self, result: bool) -> None:
        self.asked = 0
        self._result = result

    def __call__(self) -> bool:
        self.asked += 1
        return self._result


def append(partition: Partition) -> int:
    return partition.append_coordinator_records(build_batch([(b"k", b"v")], timestamp_ms=0))


@pytest.fixture
def one() -> Cluster:
    cluster = Cluster(1)
    cluster.create_topic("t")
    return cluster


def told_once(cluster: Cluster) -> None:
    """One fault is reported, and no other."""
    with pytest.raises(ZeroDivisionError):
        cluster.run(10)
    cluster.run(100)


def test_a_watcher_that_fails_leaves_the_other_watchers_and_the_append_alone(
    one: Cluster,
) -> None:
    partition = one.partition(1)
    faulty, other, marks = Waiter(fails=True), Waiter(), list[int]()
    partition.wait_for(1, faulty, 0)
    partition.wait_for(1, other, 0)
    partition.on_high_watermark(marks.append)
    parked = one.ask_later(one.fetch_request(0, max_wait_ms=20_000))
    one.until(lambda: partition.high_watermark_watchers)
    assert append(partition) == 1
    assert (other.codes, marks) == ([ErrorCode.NONE], [1])
    told_once(one)
    one.until(lambda: parked.is_there, 1000)
    assert faulty.codes == [ErrorCode.NONE]


def test_a_listener_that_fails_leaves_the_others_and_is_called_each_time(one: Cluster) -> None:
    partition = one.partition(1)
    told, marks = list[int](), list[int]()

    def listen(mark: int) -> None:
        told.append(mark)
        fail()

    partition.on_high_watermark(listen)
    partition.on_high_watermark(marks.append)
    for end in (1, 2):
        assert append(partition) == end
        told_once(one)
    assert told == marks == [1, 2]


def test_one_that_fails_when_a_leadership_ends_leaves_the_others(one: Cluster) -> None:
    partition = one.partition(1)
    other, check = Waiter(), Check(True)
    partition.wait_for(9, Waiter(fails=True), 0)
    partition.wait_for(9, other, 0)
    partition.low_watermark_waiters.add(check)
    partition.go_offline()
    assert (other.codes, check.asked) == ([ErrorCode.KAFKA_STORAGE_ERROR], 1)
    told_once(one)


def test_one_that_fails_when_the_low_watermark_moves_leaves_the_others(one: Cluster) -> None:
    partition = one.partition(1)
    append(partition)
    check = Check(False)
    partition.low_watermark_waiters.add(fail)
    partition.low_watermark_waiters.add(check)
    for start in (0, 1):
        assert partition.delete_records(start) == start
    assert check.asked == 2
    told_once(one)


def test_a_fetch_that_fails_is_answered_and_leaves_the_others(
    one: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    one.create_topic("u")
    fetches = [
        one.ask_later(one.fetch_request(0, topic=topic, max_wait_ms=20_000), purpose=topic)
        for topic in ("t", "u")
    ]
    partitions = [one.partition(1, topic) for topic in ("t", "u")]
    one.until(lambda: all(partition.high_watermark_watchers for partition in partitions))
    readable_log = Partition.readable_log

    def of_another(self: Partition, epoch: int, *, leader_only: bool) -> PartitionLog:
        if self is partitions[0]:
            fail()
        return readable_log(self, epoch, leader_only=leader_only)

    monkeypatch.setattr(Partition, "readable_log", of_another)
    for partition in partitions:
        append(partition)
    with pytest.raises(ZeroDivisionError):
        one.run(100)
    one.until(lambda: all(fetch.is_there for fetch in fetches), 1000)
    answers = [fetch.value for fetch in fetches]
    assert [answer.error_code for answer in answers] == [ErrorCode.UNKNOWN_SERVER_ERROR, 0]
    assert values_of(answers[1].responses[0].partitions[0]) == [b"v"]


def test_a_listener_that_fails_when_a_leadership_ends_stops_no_follower() -> None:
    """The partition had no fetcher, and stayed out of the ISR until its leader changed again."""
    cluster = Cluster(2)
    cluster.create_topic("t", 4, 2)
    leader = cluster.leader("t")
    other = next(node for node in cluster.ids if node != leader)
    epochs: list[int | None] = []
    table = cluster.broker(leader).replicas

    def listen(partition: Partition, epoch: int | None) -> None:
        epochs.append(epoch)
        if epoch is None:
            fail()

    table.on_leadership("t", listen)
    led = [index for index in range(4) if cluster.leader("t", index) == leader]
    asked = [
        ReassignablePartition(partition_index=index, replicas=[other, leader]) for index in led
    ]
    topic = ReassignableTopic(name="t", partitions=asked)
    cluster.ask(AlterPartitionReassignmentsRequest(topics=[topic], timeout_ms=5_000), other)
    preferred = ElectLeadersRequest(
        election_type=0, topic_partitions=[TopicPartitions(topic="t", partitions=led)]
    )
    cluster.ask_later(preferred, other)
    with pytest.raises(ZeroDivisionError):
        cluster.run(3000)
    for _ in led[1:]:
        told_once(cluster)
    assert epochs.count(None) == len(led)
    for index in led:
        assert cluster.produce([b"x"], index=index).error_code == 0
        log = cluster.partition(leader, index=index).log
        assert log is not None and log.log_end_offset == 1


@pytest.mark.parametrize("what", ["maybe_shrink_isr", "on_isr_changed"])
def test_a_partition_that_fails_when_isrs_are_checked_keeps_no_other_from_it(
    one: Cluster, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    one.create_topic("u", 3)
    table, checked = one.broker().replicas, list[Partition]()

    def check(partition: Partition) -> bool:
        checked.append(partition)
        return fail() if partition is checked[0] else False

    with monkeypatch.context() as patch:
        patch.setattr(Partition, what, check)
        table.check_isrs()
        assert checked == table.leaders()
        told_once(one)
        if what == "on_isr_changed":
            checked.clear()
            small = list(table.leaders())[:2]
            for partition in small:
                assert partition.leader is not None
                partition.leader.replicas = (1, 2)
            table.expand_isrs()
            assert checked == small
            told_once(one)
