"""A fetcher against a leader that the test plays."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from barnabas.broker.follower.fetcher import FetcherContext
from barnabas.broker.follower.fetcher_pool import FetcherPool
from barnabas.broker.partitions.partition import Partition
from barnabas.client.network.connection import ChannelError
from barnabas.config.node import NodeConfig
from barnabas.limits import FollowerBounds
from barnabas.log.config import LogConfig
from barnabas.log.errors import CorruptLogError
from barnabas.log.file_cache import FileCache
from barnabas.log.partition.log_loader import LogCheckpoints, open_log
from barnabas.log.partition.partition_log import PartitionLog
from barnabas.metadata.image.topic import PartitionState
from barnabas.record.builder import build_batch
from barnabas.sim.world.process import SimProcess
from barnabas.types import Endpoint, TopicPartition, Uuid
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.messages.fetch_request import FetchPartition
from barnabas.wire.messages.fetch_response import (
    EpochEndOffset,
    FetchableTopicResponse,
    FetchResponse,
    PartitionData,
)
from barnabas.wire.messages.list_offsets_response import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from tests.unit.broker.fakes import Hand, advance, process

NAMED_MAX = FollowerBounds().named_max
TAKEN_MAX = FollowerBounds().appended_max

TOPIC_ID = Uuid(b"t" * 16)
LEADER = Endpoint("leader", 9092)


class Host:
    """The broker around the replicas, as far as a follower needs one."""

    node_id = 1
    lag_ms_max = 30_000.0
    marks_moved = False
    propagates_high_watermarks = False

    def __init__(self, ports: SimProcess) -> None:
        self.now_ms = ports.clock.now_ms
        self.wall_ms = ports.clock.wall_ms
        self.appended: list[int] = []
        """Where appends began after which something has to be synced."""

    def is_eligible(self, partition: Partition, broker: int, broker_epoch: int) -> bool:
        return True

    def propose_isr(self, partition: Partition, proposal: object) -> None:
        raise AssertionError("a follower proposes nothing")

    def check_and_complete(self, session: object) -> None:
        raise AssertionError("no fetch is expected here")

    def on_fault(self, fault: Exception) -> None:
        raise fault

    def on_log_failed(self, name: TopicPartition, error: OSError) -> None:
        raise AssertionError(f"{name}: {error}")

    def on_log_corrupt(self, name: TopicPartition, fault: CorruptLogError) -> None:
        raise fault

    def after_append(self, log: PartitionLog, before: int) -> None:
        self.appended.append(before)


class World:
    """Two followed partitions and their leader's side."""

    def __init__(self) -> None:
        self.ports = process()
        self.hand = Hand()
        settings = NodeConfig.from_properties(
            {
                "process.roles": "broker,controller",
                "node.id": "1",
                "listeners": "PLAINTEXT://h:9092,CONTROLLER://h:9093",
                "controller.listener.names": "CONTROLLER",
                "controller.quorum.voters": "1@h:9093",
                "log.dirs": "/data",
            }
        ).replication
        self.host = Host(self.ports)
        self.pool = FetcherPool(
            FetcherContext(self.ports, self.hand, 1, settings, lambda: 77, lambda broker: LEADER)
        )
        self.partitions = [self.partition(index) for index in (0, 1)]

    def partition(self, index: int) -> Partition:
        name = TopicPartition("t", index)
        disk = self.ports.disk
        path = f"/data/{name}"
        disk.make_dirs(path)
        opened = open_log(FileCache(disk), path, name, LogConfig(), LogCheckpoints(clean=True))
        return Partition(self.host, "t", TOPIC_ID, index, opened.log)

    def follow(self, epoch: int = 0) -> None:
        for index, partition in enumerate(self.partitions):
            state = PartitionState(
                TOPIC_ID, "t", index, 2, epoch, epoch, (1, 2), (1, 2), (), (), (), (), (), 0
            )
            if partition.become_follower(state):
                self.pool.follow(partition)
        self.pool.maybe_fetch()

    def asked(self) -> dict[int, FetchPartition]:
        """What the request under way names."""
        request = self.hand.sent[0].request
        return {p.partition: p for topic in request.topics for p in topic.partitions}

    def answer(self, *partitions: PartitionData, session: int = 9) -> None:
        self.pool.validate()
        topics = [FetchableTopicResponse(topic_id=TOPIC_ID, partitions=partitions)]
        self.hand.take().answer(
            FetchResponse(session_id=session, responses=topics if partitions else [])
        )
        self.pool.validate()

    def log(self, index: int = 0) -> PartitionLog:
        log = self.partitions[index].log
        assert log is not None
        return log


def data(index: int, *values: bytes, base: int = 0, epoch: int = 0, **more: Any) -> PartitionData:
    records = b""
    if values:
        records = build_batch(
            [(b"k", value) for value in values], timestamp_ms=1, base_offset=base,
            leader_epoch=epoch,
        )  # fmt: skip
    more.setdefault("log_start_offset", 0)
    return PartitionData(partition_index=index, records=records, **more)


@pytest.fixture
def world() -> World:
    world = World()
    world.follow()
    return world


def test_the_first_request_names_all_and_the_next_what_moved(world: World) -> None:
    request = world.hand.sent[0].request
    assert (request.session_id, request.session_epoch) == (0, 0)
    assert request.replica_state.replica_epoch == 77
    assert set(world.asked()) == {0, 1}
    world.answer(data(0, b"a", b"b", high_watermark=1), data(1))
    request = world.hand.sent[0].request
    assert (request.session_id, request.session_epoch) == (9, 1)
    assert {i: p.fetch_offset for i, p in world.asked().items()} == {0: 2}
    assert world.log().high_watermark == 1
    world.answer()
    assert world.asked() == {}
    assert world.hand.sent[0].request.session_epoch == 2


@pytest.mark.slow
def test_thousands_are_named_over_several_requests_and_taken_over_several_turns() -> None:
    world = World()
    count = NAMED_MAX + 7
    world.partitions = [world.partition(index) for index in range(count)]
    world.follow()
    assert list(world.asked()) == list(range(NAMED_MAX))
    assert world.hand.sent[0].request.max_wait_ms == 0, "others wait to be named"
    world.answer(*[data(index, b"a", high_watermark=1) for index in range(NAMED_MAX)])
    assert not world.hand.sent, "the next one leaves when everything is taken"
    assert sum(p.log.log_end_offset for p in world.partitions if p.log) == TAKEN_MAX
    while not world.hand.sent:
        world.ports.world.step()
    asked = world.asked()
    assert {p.fetch_offset for i, p in asked.items() if i < NAMED_MAX} == {1}
    assert len(asked) == count and world.hand.sent[0].request.session_epoch == 1
    assert world.hand.sent[0].request.max_wait_ms > 0


def test_a_lost_leader_is_asked_again_soon_then_more_and_more_rarely(world: World) -> None:
    delays = []
    for _ in range(7):
        world.hand.take().answer(ChannelError("closed", "reset"))
        began = world.ports.clock.now_ms()
        while not world.hand.sent:
            advance(world.ports, 5)
        delays.append(round(world.ports.clock.now_ms() - began, -1))
        assert set(world.asked()) == {0, 1}, "a new session names everything"
    assert delays[0] <= 60
    assert delays == sorted(delays)
    assert 950 <= delays[-1] <= 1010


def test_a_leader_that_is_back_is_asked_at_once(world: World) -> None:
    for _ in range(6):
        world.hand.take().answer(ChannelError("refused", "no listener"))
        while not world.hand.sent:
            advance(world.ports, 5)
    world.hand.take().answer(ChannelError("refused", "no listener"))
    assert not world.hand.sent
    world.pool.on_broker_changed(2)
    assert world.hand.sent


def test_an_error_delays_one_partition_while_the_other_continues(world: World) -> None:
    world.answer(
        data(0, error_code=ErrorCode.UNKNOWN_SERVER_ERROR), data(1, b"a", high_watermark=0)
    )
    request = world.hand.sent[0].request
    assert {i: p.fetch_offset for i, p in world.asked().items()} == {1: 1}
    assert [list(t.partitions) for t in request.forgotten_topics_data] == [[0]]
    world.answer()
    advance(world.ports, 1100)
    world.answer()
    assert {i: p.fetch_offset for i, p in world.asked().items()} == {0: 0}


@pytest.mark.parametrize("code", [ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.NOT_LEADER_OR_FOLLOWER])
def test_a_leader_that_lags_behind_the_metadata_is_asked_again_soon(
    world: World, code: ErrorCode
) -> None:
    world.answer(data(0, error_code=code), data(1, error_code=code))
    advance(world.ports, 60)
    assert world.hand.sent, "its session still knows what is wanted"


def test_a_fenced_partition_waits_for_metadata(world: World) -> None:
    world.answer(data(0, error_code=ErrorCode.FENCED_LEADER_EPOCH), data(1))
    advance(world.ports, 5000)
    assert world.asked() == {}
    world.follow(epoch=1)
    world.answer()
    assert {i: p.current_leader_epoch for i, p in world.asked().items()} == {0: 1, 1: 1}


def test_a_diverging_epoch_truncates_and_continues(world: World) -> None:
    world.follow(epoch=3)
    world.answer()
    world.answer(data(0, b"a", b"b", epoch=0), data(1))
    world.answer(data(0, b"c", base=2, epoch=3), data(1))
    assert world.log().log_end_offset == 3
    world.answer(data(0, diverging_epoch=EpochEndOffset(epoch=0, end_offset=2)))
    assert world.log().log_end_offset == 2
    asked = world.asked()[0]
    assert (asked.fetch_offset, asked.last_fetched_epoch) == (2, 0)


@pytest.mark.parametrize("ends_there", [False, True])
def test_records_that_the_leader_has_deleted_and_cannot_compare_go(
    world: World, ends_there: bool
) -> None:
    """It may be of a leader that lost, and a crash would bring it back (seeds 633761, 634424)."""
    world.answer(data(0, b"a", b"b", epoch=0), data(1))
    if not ends_there:
        world.answer(data(0, b"c", base=2, epoch=0), data(1))
    world.follow(epoch=3)
    world.answer()
    if ends_there:
        world.answer(data(0, b"d", b"e", base=2, epoch=3, log_start_offset=2))
    else:
        diverging = EpochEndOffset(epoch=0, end_offset=2)
        world.answer(data(0, diverging_epoch=diverging, log_start_offset=2))
        world.answer(data(0, b"d", b"e", base=2, epoch=3, log_start_offset=2))
    log = world.log()
    assert (log.log_start_offset, log.log_end_offset) == (2, 4)
    assert [segment.base_offset for segment in log.segments] == [2]
    world.answer(data(0, log_start_offset=4, high_watermark=4))
    assert [segment.base_offset for segment in log.segments] == [2], "deleted in their turn"


def test_a_cut_that_a_rotten_batch_refuses_is_tried_again(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is being mended; nothing is wrong with the directory."""
    world.follow(epoch=3)
    world.answer()
    world.answer(data(0, b"a", b"b", epoch=0), data(1))
    world.answer(data(0, b"c", base=2, epoch=3), data(1))
    refuse(monkeypatch)
    diverging = EpochEndOffset(epoch=0, end_offset=2)
    world.answer(data(0, diverging_epoch=diverging))
    assert world.log().log_end_offset == 3 and 0 not in world.asked()
    monkeypatch.undo()
    world.answer()
    advance(world.ports, 1100)
    world.answer()
    assert world.asked()[0].fetch_offset == 3
    world.answer(data(0, diverging_epoch=diverging))
    assert world.log().log_end_offset == 2


def test_a_log_without_epochs_is_not_followed_before_it_could_be_cut(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.answer(data(0, b"a", high_watermark=1), data(1))
    world.answer(data(0, b"b", base=1, high_watermark=1), data(1))
    world.log().epochs.clear()
    refuse(monkeypatch)
    world.follow(epoch=1)
    world.answer()
    assert set(world.asked()) == {1}
    monkeypatch.undo()
    assert world.log().log_end_offset == 2
    world.answer()
    advance(world.ports, 1100)
    world.answer()
    assert world.asked()[0].fetch_offset == world.log().log_end_offset == 1


def test_a_log_without_epochs_is_fetched_again_until_it_can_be_truncated(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second try was the last one: nothing woke the fetcher for a third."""
    world.answer(data(0, b"a", b"b", high_watermark=1), data(1))
    world.log().epochs.clear()
    refuse(monkeypatch)
    other = world.partitions[1]
    world.partitions[1:] = []
    world.follow(epoch=1)
    world.pool.stop(other)
    while world.hand.sent:
        world.answer()
    advance(world.ports, 3500)
    assert not world.hand.sent
    monkeypatch.undo()
    advance(world.ports, 1100)
    assert set(world.asked()) == {0}


def test_a_partition_whose_directory_fails_before_its_cut_is_said_to_fail(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.answer(data(0, b"a", b"b", high_watermark=1), data(1))
    world.log().epochs.clear()
    refuse(monkeypatch)
    world.follow(epoch=1)
    world.answer()
    world.partitions[0].log = None
    advance(world.ports, 1100)
    world.answer()
    said = [line for line in world.ports.log_lines if "fetcher.partition_failed" in line]
    assert len(said) == 1 and "t-0" in said[0] and "its log directory failed" in said[0]


def refuse(monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch that rotted hides where to cut."""

    def truncate(partition: Partition, offset: int) -> None:
        raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "a batch rotted")

    monkeypatch.setattr(Partition, "truncate", truncate)


def test_out_of_range_asks_the_leader_and_starts_from_its_log_start(world: World) -> None:
    world.answer(data(0, error_code=ErrorCode.OFFSET_OUT_OF_RANGE), data(1))
    for offset in (20, 10):  # its end, then its start
        question = next(s for s in world.hand.sent if s.purpose == "replica-offsets")
        world.hand.sent.remove(question)
        question.answer(
            ListOffsetsResponse(
                topics=[
                    ListOffsetsTopicResponse(
                        name="t", partitions=[ListOffsetsPartitionResponse(offset=offset)]
                    )
                ]
            )
        )
    assert (world.log().log_start_offset, world.log().log_end_offset) == (10, 10)
    world.answer()
    assert world.asked()[0].fetch_offset == 10


def test_session_errors_begin_a_new_session(world: World) -> None:
    world.answer(data(0), data(1))
    world.hand.take().answer(FetchResponse(error_code=ErrorCode.FETCH_SESSION_ID_NOT_FOUND))
    request = world.hand.sent[0].request
    assert (request.session_id, request.session_epoch) == (0, 0)
    assert set(world.asked()) == {0, 1}
    world.answer(data(0), data(1))
    world.hand.take().answer(FetchResponse(error_code=ErrorCode.INVALID_FETCH_SESSION_EPOCH))
    request = world.hand.sent[0].request
    assert (request.session_id, request.session_epoch) == (9, 0)


def test_bytes_that_do_not_fit_are_asked_for_again(world: World) -> None:
    bad = bytearray(build_batch([(b"k", b"v")], timestamp_ms=1, base_offset=0, leader_epoch=0))
    bad[-1] ^= 1
    world.answer(PartitionData(partition_index=0, records=bytes(bad)), data(1))
    assert world.log().log_end_offset == 0
    world.answer()
    advance(world.ports, 1100)
    world.answer()
    assert world.asked()[0].fetch_offset == 0


def test_valid_batches_before_bytes_that_do_not_fit_are_synced_as_if_alone(
    world: World,
) -> None:
    """The next request says that it is here: with ``flush.messages`` not before it is on the device."""
    log = world.log()
    log.reconfigure(replace(log.config, flush_messages=1))
    sound = build_batch([(b"k", b"v")], timestamp_ms=1, base_offset=0, leader_epoch=0)
    bad = bytearray(build_batch([(b"k", b"v")], timestamp_ms=1, base_offset=1, leader_epoch=0))
    bad[-1] ^= 1
    world.answer(PartitionData(partition_index=0, records=sound + bytes(bad)), data(1))
    assert log.log_end_offset == 1 and world.host.appended == [0]


def test_nothing_of_a_later_leader_epoch_is_taken_from_a_leader(world: World) -> None:
    """Kafka's leader may read what it wrote as a follower of its successor (KAFKA-18723)."""
    own, later = (data(0, b"a").records, data(0, b"b", base=1, epoch=1).records)
    assert isinstance(own, bytes) and isinstance(later, bytes)
    world.answer(PartitionData(partition_index=0, records=own + later, log_start_offset=0), data(1))
    assert world.log().log_end_offset == 1 and world.log().last_epoch == 0
    world.answer()
    advance(world.ports, 1100)
    world.answer()
    assert world.asked()[0].fetch_offset == 1
    world.answer(data(0, b"a", base=1), data(1))
    assert world.log().log_end_offset == 2


def test_a_gap_in_a_log_that_does_not_compact_is_believed_when_it_comes_again(world: World) -> None:
    """No CRC covers offsets, and a leader may misread one: the follower went on behind the gap."""
    world.answer(data(0, b"a", base=4), data(1))
    assert world.log().log_end_offset == 0
    again(world)
    world.answer(data(0, b"a", base=0), data(1))
    assert world.log().log_end_offset == 1
    for _ in range(2):  # the topic was compacted once
        world.answer(data(0, b"b", base=3), data(1))
        assert world.log().log_end_offset == 1
        again(world)
    world.answer(data(0, b"b", base=3), data(1))
    world.answer(data(0, b"c", base=7), data(1))
    assert world.log().log_end_offset == 8


def again(world: World) -> None:
    """The fetcher has waited, and asks once more."""
    world.answer()
    advance(world.ports, 1100)
    world.answer()


def test_an_answer_to_a_former_question_is_ignored(world: World) -> None:
    world.follow(epoch=1)
    world.answer(data(0, b"a"), data(1))
    assert world.log().log_end_offset == 0


def test_a_fetcher_that_loses_its_last_partition_in_a_response_is_closed(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its directory failed, say."""

    def append(partition: Partition, records: bytes) -> None:
        for each in world.partitions:
            world.pool.stop(each)
        world.pool.maybe_fetch()

    monkeypatch.setattr(Partition, "append_as_follower", append)
    world.pool.resize(3)
    world.answer(data(0, b"a"), data(1, b"b"))
    assert len(world.pool) == 0 and not world.hand.sent


def test_a_fault_at_one_partition_does_not_keep_the_others_from_being_fetched(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    follow = Partition.append_as_follower

    def append(partition: Partition, records: bytes) -> None:
        if partition.index == 0:
            raise MemoryError("for a batch of this size")
        follow(partition, records)

    monkeypatch.setattr(Partition, "append_as_follower", append)
    with pytest.raises(MemoryError):  # the loop tells of it, and continues
        world.answer(data(0, b"a"), data(1, b"b"))
    while not world.hand.sent:
        assert world.ports.world.step(), "nothing is fetched any more"
    assert {i: p.fetch_offset for i, p in world.asked().items()} == {1: 1}
    monkeypatch.undo()
    world.follow(epoch=1)
    world.answer()
    assert world.asked()[0].fetch_offset == 0


def test_a_code_of_a_later_version_is_not_the_end_of_fetching(world: World) -> None:
    world.follow()
    world.hand.take().answer(FetchResponse(error_code=9_999))
    advance(world.ports, 2_000)
    world.answer(data(0, b"x", high_watermark=0))
    assert world.log(0).log_end_offset == 1
