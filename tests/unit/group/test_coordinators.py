"""The coordinators of a topic: one batch per turn, loading in slices, limits of a batch."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from random import Random
from typing import Any

import pytest

from barnabas.broker.coordinator.coordinator_loader import LOAD_RETRY_MS, LOAD_RETRY_MS_MAX
from barnabas.group.machine import GroupMachine
from barnabas.group.offsets import expire_offsets
from barnabas.group.outcome import Caller, GroupOutcome
from barnabas.group.rebalance import FIRST_JOIN_MS_MIN
from barnabas.limits import SLICE_MS, ReplicaBounds
from barnabas.operation import Instant
from barnabas.record.batch import iterate
from barnabas.record.builder import build_batch
from barnabas.types import Buffer
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.messages.heartbeat_request import HeartbeatRequest
from barnabas.wire.messages.join_group_request import JoinGroupRequest, JoinGroupRequestProtocol
from barnabas.wire.messages.list_groups_request import ListGroupsRequest
from barnabas.wire.messages.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from barnabas.wire.messages.offset_fetch_request import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from barnabas.wire.request import Parked
from barnabas.wire.schema import Message
from tests.unit.group.world import FakePorts, Pending, World

RECORDS_PER_LOOK = ReplicaBounds().records_per_look


def commit(group: str, offsets: dict[int, int], note: str = "") -> OffsetCommitRequest:
    partitions = [
        OffsetCommitRequestPartition(
            partition_index=index, committed_offset=offset, committed_metadata=note
        )
        for index, offset in offsets.items()
    ]
    topic = OffsetCommitRequestTopic(name="t", partitions=partitions)
    return OffsetCommitRequest(group_id=group, topics=[topic])


def unsettled(world: World, request: OffsetCommitRequest) -> Pending:
    """Sent in the same turn of the loop as what follows."""
    settle, world.settle = world.settle, lambda: None  # type: ignore[method-assign]
    try:
        return world.send(request, 9)
    finally:
        world.settle = settle  # type: ignore[method-assign]


def code(pending: Pending) -> ErrorCode:
    return ErrorCode(pending.answer.topics[0].partitions[0].error_code)


def fetched(world: World, group: str) -> dict[int, int]:
    request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=group, topics=None)])
    answer = world.ask(request, 9)
    [only] = answer.groups
    assert only.error_code == 0
    return {
        part.partition_index: part.committed_offset
        for topic in only.topics
        for part in topic.partitions
    }


@pytest.mark.parametrize("codec", ["1", "2", "3", "4"])
def test_records_are_packed_with_the_codec_that_is_configured(codec: str) -> None:
    """offsets.topic.compression.codec; who coordinates next reads them."""
    world = World(offsets_topic_compression_codec=codec)
    world.topic("t", 100)
    assert code(world.send(commit("g", dict.fromkeys(range(100), 5)), 9)) is ErrorCode.NONE
    [batch] = world.logs[0].batches
    assert [view.header.codec for view in iterate(batch)] == [int(codec)]
    world.elect()
    world.settle()
    assert fetched(world, "g") == dict.fromkeys(range(100), 5)


def test_records_that_do_not_shrink_stay_as_they_are() -> None:
    world = World(offsets_topic_compression_codec="1")
    record = (b"key", Random(2).randbytes(500))
    world.logs[0].batch_bytes_max = len(build_batch([record], timestamp_ms=0))
    [view] = iterate(world.groups.shards[0]._built([record], 0))
    assert view.header.codec == 0


def test_commits_of_one_turn_are_one_batch() -> None:
    world = World()
    world.topic("t", 100)
    pending = [unsettled(world, commit(f"g{n}", {n: n})) for n in range(50)]
    assert not world.logs[0].batches
    world.settle()
    assert len(world.logs[0].batches) == 1
    assert [code(each) for each in pending] == [ErrorCode.NONE] * 50


def test_one_refused_append_undoes_the_whole_turn_and_nothing_before() -> None:
    world = World()
    world.topic("t", 10)
    world.ask(commit("g", {0: 1}), 9)
    world.logs[0].refusal = ErrorCode.NOT_ENOUGH_REPLICAS
    pending = [unsettled(world, commit("g", {n: 5})) for n in range(3)]
    world.settle()
    assert [code(each) for each in pending] == [ErrorCode.COORDINATOR_NOT_AVAILABLE] * 3
    assert fetched(world, "g") == {0: 1}


@pytest.mark.parametrize(
    ("fault", "answer"),
    [
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.UNKNOWN_SERVER_ERROR),
    ],
)
def test_faults_of_the_log_become_coordinator_errors(fault: ErrorCode, answer: ErrorCode) -> None:
    world = World()
    world.topic("t")
    world.logs[0].refusal = fault
    assert code(world.send(commit("g", {0: 1}), 9)) is answer


def test_a_turn_with_a_foreign_append_is_undone() -> None:
    world = World()
    world.topic("t")
    world.ask(commit("g", {0: 1}), 9)
    pending = unsettled(world, commit("g", {0: 2}))
    log = world.logs[0]
    log.append(log.batches[-1])
    world.settle()
    assert code(pending) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert fetched(world, "g") == {0: 1}
    assert code(world.send(commit("g", {0: 3}), 9)) is ErrorCode.NONE
    assert fetched(world, "g") == {0: 3}


def test_a_turn_larger_than_a_batch_is_several_batches() -> None:
    world = World()
    world.topic("t", 200)
    world.logs[0].batch_bytes_max = 2000
    pending = [unsettled(world, commit("g", {n: n}, "x" * 300)) for n in range(20)]
    world.settle()
    assert len(world.logs[0].batches) > 3
    assert [code(each) for each in pending] == [ErrorCode.NONE] * 20
    assert len(fetched(world, "g")) == 20


def test_one_decision_larger_than_a_batch_is_refused_and_leaves_nothing() -> None:
    world = World()
    world.topic("t", 200)
    world.logs[0].batch_bytes_max = 200  # too little even where it is packed
    pending = world.send(commit("g", dict.fromkeys(range(100), 1)), 9)
    assert code(pending) is ErrorCode.UNKNOWN_SERVER_ERROR
    assert fetched(world, "g") == {}
    assert code(world.send(commit("g", {0: 1}), 9)) is ErrorCode.NONE


def test_a_decision_that_is_a_batch_only_when_it_is_packed_is_one_by_itself() -> None:
    """A commit of more partitions than a batch holds was refused though it packs well."""
    world = World(offsets_topic_compression_codec="1")
    world.topic("t", 200)
    log = world.logs[0]
    log.batch_bytes_max = 2000
    before = unsettled(world, commit("small", {0: 7}))
    large = unsettled(world, commit("g", dict.fromkeys(range(100), 1)))
    after = unsettled(world, commit("small", {1: 8}))
    world.settle()
    assert [code(each) for each in (before, large, after)] == [ErrorCode.NONE] * 3
    views = [view.header for batch in log.batches for view in iterate(batch)]
    assert [view.last_offset_delta + 1 for view in views] == [1, 100, 1]
    world.elect()
    assert fetched(world, "g") == dict.fromkeys(range(100), 1)
    assert fetched(world, "small") == {0: 7, 1: 8}


def test_a_decision_that_is_too_large_refuses_no_other_of_its_turn() -> None:
    world = World()
    world.topic("t", 200)
    world.logs[0].batch_bytes_max = 200  # too little even where it is packed
    before = unsettled(world, commit("g", {0: 7}))
    large = unsettled(world, commit("g", dict.fromkeys(range(100), 1)))
    after = unsettled(world, commit("g", {1: 8}))
    world.settle()
    told = [code(each) for each in (before, large, after)]
    assert told == [ErrorCode.NONE, ErrorCode.UNKNOWN_SERVER_ERROR, ErrorCode.NONE]
    assert fetched(world, "g") == {0: 7, 1: 8}


def test_a_group_that_no_record_can_name_leaves_nothing() -> None:
    """It could not be deleted either, and no offset beside it expired any more."""
    world = World(offsets_retention_minutes="30")
    world.topic("t")
    world.ask(commit("g", {0: 1}), 9)
    joined = JoinGroupRequest(
        group_id="x" * 40_000,
        session_timeout_ms=10_000,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=b"")],
    )
    world.ask(joined, 9)
    assert code(world.send(commit("y" * 40_000, {0: 1}), 9)) is ErrorCode.UNKNOWN_SERVER_ERROR
    machine = world.groups.shards[0].machine
    assert [group_id for group_id, _ in machine.table.groups.items()] == ["g"]
    world.advance(3_000_000)
    assert fetched(world, "g") == {} and not machine.table.groups.items()


def test_a_client_that_is_answered_within_an_append_may_ask_at_once() -> None:
    """A leader alone for whom a follower held up what is committed: once that is gone the next append commits
    what waited, and a connection that is answered then is served on."""
    world, answers = World(), list[Any]()
    log, append = world.logs[0], world.logs[0].append

    def write(done: Callable[[Any], None]) -> None:
        request = commit("g", {0: 1})
        world.groups.write(
            "g", lambda machine, at: machine.commit_offsets(request, Caller(), at), done
        )

    def answered(answer: Any) -> None:
        answers.append(answer)
        write(answers.append)

    def append_and_commit(
        batch: bytes, verification: object = None, transaction_version: int = 0
    ) -> int:
        log.high_watermark = append(batch)
        world.groups.on_high_watermark(0, log.log_end_offset)
        return log.log_end_offset

    world.held = True
    write(answered)
    world.settle()
    log.append = append_and_commit  # type: ignore[method-assign]
    write(answers.append)
    world.settle()
    assert [answer.topics[0].partitions[0].error_code for answer in answers] == [0, 0, 0]
    assert log.log_end_offset == 3


def joining(group: str) -> JoinGroupRequest:
    return JoinGroupRequest(
        group_id=group,
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=b"")],
    )


def test_a_fault_in_one_coordinator_leaves_the_others_their_deadlines(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World(partitions=2)
    for group in ("g", "h"):
        world.send(joining(group), 2)
    machines = [world.groups.shards[index].machine for index in range(2)]
    take_due = GroupMachine.take_due

    def fail(machine: GroupMachine, at: Instant) -> GroupOutcome | None:
        outcome = take_due(machine, at)
        if machine is machines[0] and outcome is not None:
            raise RuntimeError("a fault of the program")
        return outcome

    monkeypatch.setattr(GroupMachine, "take_due", fail)
    for _ in range(8):
        with suppress(RuntimeError):
            world.advance(5_000)
    assert not machines[1].table.group("g").members


def test_a_coordinator_that_always_fails_is_asked_rarely_and_stops_no_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World(partitions=2)
    of = {world.groups.partition_for(group): group for group in ("g", "h")}
    for group in of.values():
        world.send(joining(group), 2)
    machines = [world.groups.shards[index].machine for index in range(2)]
    take_due, asked = GroupMachine.take_due, list[float]()

    def fail(machine: GroupMachine, at: Instant) -> GroupOutcome | None:
        if machine is machines[0] and machine.deadline_ms() <= at.now_ms:
            asked.append(at.now_ms)
            raise RuntimeError("a fault of the program")
        return take_due(machine, at)

    monkeypatch.setattr(GroupMachine, "take_due", fail)
    end = world.ports.now + 20_000
    while world.ports.now < end and len(asked) < 100:
        with suppress(RuntimeError):
            world.advance(end - world.ports.now)
    assert not machines[1].table.group(of[1]).members
    assert 1 < len(asked) < 30


def test_expiry_larger_than_a_batch_is_written_in_parts() -> None:
    world = World(offsets_retention_minutes="30")
    world.topic("t", 200)
    world.logs[0].batch_bytes_max = 2000
    for start in range(0, 100, 10):
        world.ask(commit("g", dict.fromkeys(range(start, start + 10), 1)), 9)
    world.advance(3_000_000)
    assert fetched(world, "g") == {}


class SlowPorts(FakePorts):
    """Every look at the clock takes time."""

    per_look_ms = 0.0

    def now_ms(self) -> float:
        self.now += self.per_look_ms
        return self.now


@pytest.mark.slow
def test_loading_gives_way_after_a_slice_and_refuses_requests_meanwhile() -> None:
    world = World()
    world.topic("t", 10)
    for n in range(40 * RECORDS_PER_LOOK):
        unsettled(world, commit("g", {n % 10: n}))
    world.settle()
    world.resign()
    slow = SlowPorts()
    slow.now, slow.per_look_ms = world.ports.now, SLICE_MS / 4
    world.ports = slow
    world.groups._ports = world.groups.loader._ports = slow  # type: ignore[assignment]
    world.groups.on_elected(0, world.logs[0], 2)
    turns = 0
    while slow.soon:
        assert code(unsettled(world, commit("g", {0: 1}))) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        soon, slow.soon = slow.soon, []
        for callback in soon:
            callback()
        turns += 1
    assert turns > 5
    assert fetched(world, "g") == {n % 10: n for n in range(40 * RECORDS_PER_LOOK)}


def test_a_heartbeat_while_loading_asks_nothing_of_the_member() -> None:
    world = World()
    world.resign()
    world.groups.on_elected(0, world.logs[0], 2)
    world.settle, settle = lambda: None, world.settle  # type: ignore[method-assign]
    answer = world.ask(HeartbeatRequest(group_id="g", member_id="m", generation_id=1))
    assert answer.error_code == ErrorCode.NONE
    answer = world.ask(ListGroupsRequest())
    assert answer.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    world.settle = settle  # type: ignore[method-assign]
    world.settle()
    assert world.ask(ListGroupsRequest()).error_code == ErrorCode.NONE


def test_bytes_that_are_not_in_memory_are_read_in_the_background() -> None:
    world = World()
    world.topic("t")
    world.ask(commit("g", {0: 7}), 9)
    world.resign()
    world.logs[0].cold = True
    world.elect()
    assert fetched(world, "g") == {0: 7}


def test_a_log_that_cannot_be_read_has_no_coordinator() -> None:
    world = World()
    world.topic("t")
    world.ask(commit("g", {0: 7}), 9)
    world.resign()
    whole = world.logs[0].batches[0]
    world.logs[0].batches[0] = whole[:-4] + b"\xff" * 4
    world.elect()
    assert code(world.send(commit("g", {0: 1}), 9)) is ErrorCode.NOT_COORDINATOR
    assert world.ask(ListGroupsRequest()).error_code == ErrorCode.NONE
    assert any(level == "error" for level, _, _ in world.ports.lines)
    # it is tried again and again, each time from the beginning, without another leadership
    world.advance(LOAD_RETRY_MS_MAX)
    assert code(world.send(commit("g", {0: 1}), 9)) is ErrorCode.NOT_COORDINATOR
    world.logs[0].batches[0] = whole
    world.advance(LOAD_RETRY_MS_MAX)
    assert fetched(world, "g") == {0: 7}


def test_a_log_that_is_being_mended_is_read_on_where_it_was() -> None:
    world = World()
    world.topic("t")
    for offset in (5, 6, 7):
        world.ask(commit("g", {offset - 5: offset}), 9)
    world.resign()
    log, asked = world.logs[0], list[int]()
    read, is_mended = log.read, False

    def damaged(offset: int, max_bytes: int, *, block: bool = False) -> Buffer | None:
        asked.append(offset)
        if offset == 2 and not is_mended:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "a batch rotted")
        return read(offset, max_bytes, block=block)

    log.read = damaged  # type: ignore[method-assign]
    world.elect()
    assert code(world.send(commit("g", {0: 1}), 9)) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    is_mended = True
    world.advance(LOAD_RETRY_MS)
    assert fetched(world, "g") == {0: 5, 1: 6, 2: 7}
    assert asked == [0, 1, 2, 2]


def test_a_log_of_which_compaction_left_nothing_at_the_end_is_loaded() -> None:
    world = World()
    world.topic("t")
    world.ask(commit("g", {0: 7}), 9)
    world.resign()
    log = world.logs[0]
    log.log_end_offset = log.high_watermark = log.log_end_offset + 3
    world.elect()
    assert fetched(world, "g") == {0: 7}


def test_resigning_while_loading_begins_nothing() -> None:
    world = World()
    world.resign()
    world.groups.on_elected(0, world.logs[0], 2)
    world.groups.on_resigned(0)
    world.settle()
    assert world.groups.describe()["shards"] == []


def test_the_same_epoch_does_not_load_twice() -> None:
    world = World()
    ended: list[int] = []
    world.groups.on_elected(0, world.logs[0], world.epoch, lambda: ended.append(1))
    assert ended == [1]


def test_a_group_without_a_name_is_refused() -> None:
    world = World()
    request = JoinGroupRequest(session_timeout_ms=10000, protocol_type="consumer")
    assert world.ask(request).error_code == ErrorCode.INVALID_GROUP_ID


def test_a_member_of_many_protocols_gets_an_answer_in_every_version() -> None:
    for version in range(10):
        world = World(group_initial_rebalance_delay_ms="0")
        request = JoinGroupRequest(
            group_id="g",
            session_timeout_ms=10000,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name="range", metadata=b"")],
        )
        pending = world.send(request, version)
        world.advance(FIRST_JOIN_MS_MIN)
        if version >= 4:
            assert pending.answer.error_code == ErrorCode.MEMBER_ID_REQUIRED
            request.member_id = pending.answer.member_id
            pending = world.send(request, version)
            world.advance(FIRST_JOIN_MS_MIN)
        assert pending.answer.error_code == 0
        assert pending.answer.leader == pending.answer.member_id


@pytest.mark.parametrize("version", range(1, 11))
def test_offsets_are_fetched_in_every_version(version: int) -> None:
    world = World()
    topic_id = world.topic("t")
    world.ask(commit("g", {1: 17}, "note"), 9)
    if version < 8:
        request = OffsetFetchRequest(
            group_id="g", topics=[OffsetFetchRequestTopic(name="t", partition_indexes=[0, 1])]
        )
        topics = world.ask(request, version).topics
    else:
        topic = OffsetFetchRequestTopics(name="t", topic_id=topic_id, partition_indexes=[0, 1])
        group = OffsetFetchRequestGroup(group_id="g", topics=[topic])
        topics = world.ask(OffsetFetchRequest(groups=[group]), version).groups[0].topics
    found = {
        p.partition_index: (p.committed_offset, p.metadata) for t in topics for p in t.partitions
    }
    assert found == {0: (-1, ""), 1: (17, "note")}
    assert all(topic.topic_id == topic_id for topic in topics if version >= 10)


@pytest.mark.parametrize("version", range(1, 11))
def test_a_broker_that_is_not_the_coordinator_says_so_in_every_version(version: int) -> None:
    world = World()
    topic_id = world.topic("t")
    world.resign()
    if version < 8:
        request = OffsetFetchRequest(
            group_id="g", topics=[OffsetFetchRequestTopic(name="t", partition_indexes=[0])]
        )
        answer = world.ask(request, version)
        told = answer.error_code if version >= 2 else answer.topics[0].partitions[0].error_code
    else:
        topic = OffsetFetchRequestTopics(name="t", topic_id=topic_id, partition_indexes=[0])
        group = OffsetFetchRequestGroup(group_id="g", topics=[topic])
        told = world.ask(OffsetFetchRequest(groups=[group]), version).groups[0].error_code
    assert told == ErrorCode.NOT_COORDINATOR


def test_offsets_of_a_recreated_topic_are_not_returned_by_id() -> None:
    world = World()
    old_id = world.topic("t")
    world.ask(commit("g", {0: 5}), 9)
    world.image.topics_by_name.pop("t")
    world.image.topics_by_id.pop(old_id)
    request = OffsetFetchRequest(
        groups=[
            OffsetFetchRequestGroup(
                group_id="g",
                topics=[OffsetFetchRequestTopics(topic_id=old_id, partition_indexes=[0])],
            )
        ]
    )
    [topic] = world.ask(request, 10).groups[0].topics
    assert topic.partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID


def test_a_commit_between_two_batches_of_one_decision_is_not_undone() -> None:
    """Offsets expire in two batches; who is answered with the first commits one of them again."""
    world, answers = World(offsets_retention_minutes="30"), list[Any]()
    world.topic("t", 200)
    log, append = world.logs[0], world.logs[0].append
    for start in range(0, 60, 10):
        world.ask(commit("g", dict.fromkeys(range(start, start + 10), 1)), 9)
    log.batch_bytes_max = 2000

    def write(offsets: dict[int, int], done: Callable[[Any], None]) -> None:
        request = commit("g", offsets)
        world.groups.write(
            "g", lambda machine, at: machine.commit_offsets(request, Caller(), at), done
        )

    def append_and_commit(
        batch: bytes, verification: object = None, transaction_version: int = 0
    ) -> int:
        log.high_watermark = append(batch)
        return log.log_end_offset

    def answered(answer: Any) -> None:
        answers.append(answer)
        write({55: 2}, answers.append)

    log.append = append_and_commit  # type: ignore[method-assign]
    world.ports.now += 3_000_000
    write({100: 1}, answered)
    world.groups.write_all(_expire)
    world.settle()
    assert [answer.topics[0].partitions[0].error_code for answer in answers] == [0, 0]
    assert fetched(world, "g") == {55: 2, 100: 1}


def _expire(machine: GroupMachine, at: Instant) -> GroupOutcome:
    return expire_offsets(machine.table, machine.offsets, at)


@pytest.mark.parametrize("resigns", [False, True])
def test_a_callback_that_raises_at_a_refusal_leaves_no_request_waiting(resigns: bool) -> None:
    world, answers = World(), list[Any]()
    request = commit("g", {0: 1})

    def write(done: Callable[[Any], None]) -> None:
        world.groups.write(
            "g", lambda machine, at: machine.commit_offsets(request, Caller(), at), done
        )

    def fail(answer: Any) -> None:
        raise RuntimeError("a fault of the program")

    world.logs[0].refusal = ErrorCode.NOT_ENOUGH_REPLICAS
    write(fail)
    write(answers.append)
    with pytest.raises(RuntimeError):
        if resigns:
            world.resign()
        else:
            world.settle()
    assert len(answers) == 1


def committing(world: World, group: str, done: Callable[[Any], None]) -> None:
    request = commit(group, {0: 1})
    world.groups.write(
        group, lambda machine, at: machine.commit_offsets(request, Caller(), at), done
    )


def fail(*arguments: Any) -> Any:
    raise RuntimeError("a fault of the program")


def test_a_callback_that_raises_at_an_answer_leaves_no_request_waiting() -> None:
    world, answers = World(), list[Any]()
    world.held = True
    for done in (fail, answers.append):
        committing(world, "g", done)
    world.settle()
    with pytest.raises(RuntimeError):
        world.commit()
    assert len(answers) == 1
    assert world.groups.shards[0].describe()["waiting"] == 0


def test_a_callback_that_raises_in_an_immediate_answer_loses_no_decision() -> None:
    """The next turn of the loop writes it, whatever else comes."""
    world = World()
    parked = Parked()
    parked.attach(fail)

    def decide(machine: GroupMachine, at: Instant) -> GroupOutcome:
        outcome = machine.commit_offsets(commit("g", {0: 1}), Caller(), at)
        assert isinstance(outcome.reply, Message)
        outcome.replies.append((parked, outcome.reply))
        return outcome

    with pytest.raises(RuntimeError):
        world.groups.write("g", decide)
    world.settle()
    assert fetched(world, "g") == {0: 1}


def test_an_append_that_fails_by_a_fault_of_the_program_is_undone_and_answered() -> None:
    world, answers = World(), list[Any]()
    append = world.logs[0].append
    world.logs[0].append = fail  # type: ignore[assignment,method-assign]
    committing(world, "g", answers.append)
    with pytest.raises(RuntimeError):
        world.settle()
    assert [answer.code for answer in answers] == [ErrorCode.UNKNOWN_SERVER_ERROR]
    world.logs[0].append = append  # type: ignore[method-assign]
    assert fetched(world, "g") == {}
    committing(world, "g", answers.append)
    world.settle()
    assert fetched(world, "g") == {0: 1}


def test_a_fault_as_it_begins_takes_nothing_from_a_coordinator_that_has_loaded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It counted as one that could not be read, and was filled again while it answered: what had been
    committed was not there for a moment."""
    world = World()
    world.topic("t")
    assert code(world.send(commit("g", {0: 1}), 9)) == ErrorCode.NONE
    world.resign()
    with monkeypatch.context() as patch:
        patch.setattr(GroupMachine, "on_loaded", fail)
        with pytest.raises(RuntimeError):
            world.elect()
    for _ in range(100):
        assert fetched(world, "g") == {0: 1}
        world.advance(LOAD_RETRY_MS / 20)
