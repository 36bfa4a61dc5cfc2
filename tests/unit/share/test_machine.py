"""The share coordinator keeps what leaders acknowledge, and fences those that lead no longer."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas.operation import Instant
from barnabas.share.delivery import StateBatch
from barnabas.share.key import SharePartitionKey, key_from_text
from barnabas.share.outcome import Prune
from barnabas.types import Uuid, uuid_text
from barnabas.wire.errors import ErrorCode, KafkaError
from tests.unit.share.world import BEGIN, KEY, TOPIC, ShareWorld


def code_of(reply: object) -> ErrorCode:
    assert isinstance(reply, KafkaError), reply
    return ErrorCode(reply.code)


def state_of(world: ShareWorld) -> Any:
    state = world.machine.states.get(KEY)
    assert state is not None
    return state


def test_a_state_begins_where_it_is_initialized() -> None:
    world = ShareWorld()
    world.initialize(epoch=3, start=17)
    answer: Any = world.run(world.machine.read(KEY, 5, BEGIN)).reply
    assert (answer.start_offset, answer.state_epoch, list(answer.state_batches)) == (17, 3, [])


def test_nothing_is_written_or_read_before_that() -> None:
    world = ShareWorld()
    assert code_of(world.write((0, 1, 2, 1)).reply) is ErrorCode.INVALID_REQUEST
    assert code_of(world.machine.read(KEY, 0, BEGIN).reply) is ErrorCode.INVALID_REQUEST
    summary: Any = world.machine.summarize(KEY).reply
    assert (summary.start_offset, summary.error_code) == (-1, 0)


def test_updates_add_to_the_state() -> None:
    world = ShareWorld()
    world.initialize()
    world.write((0, 9, 0, 1))
    world.write((2, 3, 2, 1))
    world.write(start=2)
    assert state_of(world).batches == (StateBatch(2, 3, 2, 1), StateBatch(4, 9, 0, 1))
    assert state_of(world).start_offset == 2


def test_an_older_leader_is_fenced_once_a_new_one_has_read() -> None:
    world = ShareWorld()
    world.initialize()
    world.run(world.machine.read(KEY, 4, BEGIN))
    assert code_of(world.write((0, 0, 2, 1), leader=3).reply) is ErrorCode.FENCED_LEADER_EPOCH
    assert code_of(world.machine.read(KEY, 3, BEGIN).reply) is ErrorCode.FENCED_LEADER_EPOCH
    assert not isinstance(world.write((0, 0, 2, 1), leader=4).reply, KafkaError)


def test_a_write_of_an_older_state_is_fenced() -> None:
    world = ShareWorld()
    world.initialize(epoch=2)
    world.initialize(epoch=5, start=40)
    assert code_of(world.write((0, 0, 2, 1), epoch=2).reply) is ErrorCode.FENCED_STATE_EPOCH
    assert code_of(world.initialize(epoch=4).reply) is ErrorCode.FENCED_STATE_EPOCH
    assert state_of(world).start_offset == 40


def test_a_write_of_another_state_is_fenced_though_its_epoch_is_larger() -> None:
    world = ShareWorld()
    world.initialize(epoch=7)
    world.run(world.machine.delete(KEY))
    world.initialize(epoch=1, start=40)
    assert code_of(world.write((50, 50, 2, 1), epoch=7).reply) is ErrorCode.FENCED_STATE_EPOCH
    assert not isinstance(world.write((50, 50, 2, 1), epoch=1).reply, KafkaError)


@pytest.mark.parametrize("updates_per_snapshot", [0, 500])
def test_a_late_write_moves_no_start_back(updates_per_snapshot: int) -> None:
    world = ShareWorld(updates_per_snapshot=updates_per_snapshot)
    world.initialize()
    world.write((10, 12, 2, 1), start=10)
    world.write((3, 4, 0, 1), start=2)
    state = state_of(world)
    assert (state.start_offset, state.batches) == (10, (StateBatch(10, 12, 2, 1),))
    assert world.reload().states.get(KEY) == state


def test_a_state_with_a_start_is_not_begun_again_without_one() -> None:
    world = ShareWorld()
    world.initialize(epoch=2, start=40)
    world.write((41, 41, 2, 1), epoch=2)
    world.initialize(epoch=3, start=-1)
    state = state_of(world)
    assert (state.state_epoch, state.start_offset) == (3, 40)
    assert state.batches == (StateBatch(41, 41, 2, 1),)
    world.initialize(epoch=3, start=0)
    assert (state_of(world).start_offset, state_of(world).batches) == (0, ())


def test_a_partition_that_does_not_exist_is_refused() -> None:
    world = ShareWorld()
    for key in (KEY._replace(partition=3), KEY._replace(topic_id=Uuid(bytes(16)))):
        reply = world.machine.initialize(key, 1, 0, BEGIN).reply
        assert code_of(reply) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    reply = world.machine.delete(KEY._replace(partition=-1)).reply
    assert code_of(reply) is ErrorCode.INVALID_REQUEST


def test_a_negative_number_in_a_request_is_refused() -> None:
    world = ShareWorld()
    world.initialize()
    refusals = {
        "leader epoch": world.machine.read(KEY, -1, BEGIN),
        "leader  epoch": world.write((0, 0, 2, 1), leader=-1),
        "state epoch": world.write((0, 0, 2, 1), epoch=-1),
        "state  epoch": world.initialize(epoch=-1),
    }
    for name, refused in refusals.items():
        assert code_of(refused.reply) is ErrorCode.INVALID_REQUEST
        assert f"The {name.replace('  ', ' ')} cannot be a negative number." in str(refused.reply)
        assert not refused.records
    assert state_of(world).batches == ()


def test_a_snapshot_follows_its_number_of_updates() -> None:
    world = ShareWorld(updates_per_snapshot=2)
    world.initialize()
    for offset in range(3):
        world.write((offset, offset, 2, 1))
    assert state_of(world).updates == 0
    assert state_of(world).snapshot_epoch == 1
    assert state_of(world).snapshot_offset == 3
    assert state_of(world).batches == (StateBatch(0, 2, 2, 1),)


@pytest.mark.parametrize("updates_per_snapshot", [0, 1, 500])
def test_another_coordinator_finds_the_same_state(updates_per_snapshot: int) -> None:
    world = ShareWorld(updates_per_snapshot=updates_per_snapshot)
    world.initialize()
    world.run(world.machine.read(KEY, 2, BEGIN))
    world.write((0, 4, 2, 1), (5, 9, 0, 2), leader=2, start=5)
    before = state_of(world)
    redundant = world.machine.redundant_before()
    assert world.reload().states.get(KEY) == before
    assert world.reload(redundant).states.get(KEY) == before
    assert code_of(world.write((5, 5, 2, 3), leader=1).reply) is ErrorCode.FENCED_LEADER_EPOCH


def test_a_deleted_state_is_gone_and_may_be_deleted_again() -> None:
    world = ShareWorld()
    world.initialize()
    assert world.run(world.machine.delete(KEY)).records
    assert not world.machine.delete(KEY).records
    assert world.machine.redundant_before() == len(world.log)


def test_the_states_of_a_deleted_topic_go() -> None:
    world = ShareWorld()
    world.initialize()
    world.run(world.machine.delete_topics({Uuid(bytes(16))}))
    assert KEY in world.machine.states
    world.run(world.machine.delete_topics({TOPIC}))
    assert KEY not in world.machine.states


def test_records_that_no_state_needs_are_pruned() -> None:
    world = ShareWorld(updates_per_snapshot=1, prune_interval_ms=10, cold_interval_ms=1_000_000)
    world.initialize()
    world.reload()
    for offset in range(4):
        world.write((offset, offset, 2, 1))
    assert world.machine.take_due(BEGIN) is None
    due = world.machine.take_due(Instant(10.0, 1_010))
    assert due is not None and due.effects == [Prune(4)]
    assert world.machine.take_due(Instant(10.0, 1_010)) is None


def test_an_idle_share_partition_holds_up_no_pruning() -> None:
    world = ShareWorld(cold_interval_ms=100, prune_interval_ms=1_000_000, updates_per_snapshot=1)
    idle = KEY._replace(partition=1)
    world.run(world.machine.initialize(idle, 1, 0, BEGIN))
    world.initialize()
    world.reload()
    for offset in range(4):
        world.write((offset, offset, 2, 1))
    assert world.machine.redundant_before() == 0
    due = world.machine.take_due(Instant(100.0, 1_100))
    assert due is not None
    world.run(due)
    assert world.machine.redundant_before() > 1
    again = world.machine.take_due(Instant(200.0, 1_200))
    assert again is not None and not again.records, "all were repeated already"


def test_uncommitted_state_can_be_undone() -> None:
    world = ShareWorld()
    world.initialize()
    end = len(world.log)
    before = state_of(world)
    world.run(world.machine.delete(KEY), commit=False)
    world.machine.revert_to(end)
    assert state_of(world) == before


def test_a_key_is_read_from_its_text() -> None:
    key = SharePartitionKey("a:b", TOPIC, 7)
    assert key_from_text(key.text) == key
    for text in ("", "g", f"g:{uuid_text(TOPIC)}", f":{uuid_text(TOPIC)}:1", "g:x:1", "g:a:b"):
        with pytest.raises(ValueError):
            key_from_text(text)
