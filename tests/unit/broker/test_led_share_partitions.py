"""The leader of a share partition keeps what it chose, and ends where its state is another's."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from barnabas.broker.deadlines import Deadlines
from barnabas.broker.share.led_partitions import LedPartitions, LedSharePartition
from barnabas.broker.share.open_letters import DeadLetter
from barnabas.broker.share.share_partition import (
    ACCEPT,
    Acknowledgement,
    ShareLimits,
    SharePartition,
    Wanted,
)
from barnabas.broker.share.state_client import StateClient
from barnabas.broker.share.state_writes import StateWrite
from barnabas.group.cluster_topics import ClusterTopics
from barnabas.share.delivery import NO_OFFSET, DeliveryState, StateBatch
from barnabas.share.key import SharePartitionKey
from barnabas.sim.world.process import SimProcess
from barnabas.types import Uuid
from barnabas.wire.errors import ErrorCode, KafkaError
from tests.unit.broker.fakes import advance, process

KEY = SharePartitionKey("g", Uuid(bytes(15) + b"\x01"), 0)
LIMITS = ShareLimits(deliveries_max=2, in_flight_max=100, lock_ms=50, renews=True)
END = 17
LOST = KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "lost")


class Coordinator:
    """A share coordinator whose answers are the test's."""

    def __init__(self) -> None:
        self.reads: list[Any] = []
        self.writes: list[tuple[StateWrite, Any]] = []

    def read(self, key: SharePartitionKey, leader_epoch: int, on_done: Any) -> None:
        self.reads.append(on_done)

    def write(self, key: SharePartitionKey, write: StateWrite, on_done: Any) -> None:
        self.writes.append((write, on_done))


class Letters:
    """Dead letters whose fate is the test's."""

    def __init__(self) -> None:
        self.sent: list[tuple[DeadLetter, Callable[[], None]]] = []

    def send(self, led: LedSharePartition, letter: DeadLetter, on_done: Callable[[], None]) -> None:
        self.sent.append((letter, on_done))


def led_by(
    coordinator: Any,
    start: int,
    kept: Sequence[Any] = (),
    letters: Letters | None = None,
    ports: SimProcess | None = None,
) -> tuple[LedPartitions, LedSharePartition]:
    """A share partition whose kept start is `start`, of a log that ends at `END`."""
    log = SimpleNamespace(log_start_offset=0, high_watermark=END)
    partition = SimpleNamespace(
        leader_epoch=0,
        leader=None,
        is_leader=True,
        not_leader=lambda: KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "moved"),
        on_high_watermark=lambda watch: lambda: None,
        readable_log=lambda epoch, leader_only: log,
    )
    replicas: Any = SimpleNamespace(
        find=lambda place: (partition, ErrorCode.NONE),
        by_id={(KEY.topic_id, KEY.partition): partition},
    )
    ports = ports or process()
    led = LedPartitions(
        ports, Deadlines(ports), replicas, coordinator, ClusterTopics(), letters or Letters()
    )
    opened = led.open(KEY)
    coordinator.reads.pop()(SimpleNamespace(state_epoch=1, start_offset=start, state_batches=kept))
    return led, opened


def accepted(
    led: LedPartitions, opened: LedSharePartition, offset: int = 0
) -> list[KafkaError | None]:
    """A member accepts the record at `offset`; its answers."""
    machine, answers = opened.share_partition, list[KafkaError | None]()
    assert machine is not None
    machine.acquire("m", Wanted(1), offset, [(offset, offset)], LIMITS, 0.0)
    change = machine.acknowledge("m", [Acknowledgement(offset, offset, ACCEPT)], LIMITS, 0.0)
    led.changed(opened, change, answers.append)
    return answers


def test_a_chosen_start_is_kept_at_once() -> None:
    coordinator = Coordinator()
    _, opened = led_by(coordinator, NO_OFFSET)
    [(write, on_written)] = coordinator.writes
    assert (write.start_offset, write.batches) == (END, ())
    on_written(SimpleNamespace())
    assert opened.share_partition is not None and not opened.share_partition.is_writing
    led_by(coordinator, 3)
    assert len(coordinator.writes) == 1, "a start that was read is kept already"


@pytest.mark.parametrize("code", [ErrorCode.INVALID_REQUEST, ErrorCode.FENCED_STATE_EPOCH])
def test_a_leader_whose_state_was_deleted_or_begun_again_ends(code: ErrorCode) -> None:
    coordinator = Coordinator()
    led, opened = led_by(coordinator, 0)
    answers = accepted(led, opened)
    coordinator.writes.pop()[1](KafkaError(code, "no such state"))
    [error] = answers
    assert error is not None and opened.error is error
    assert led.find(KEY) is None


def test_a_leader_outlasts_a_share_coordinator_that_is_away() -> None:
    coordinator = Coordinator()
    led, opened = led_by(coordinator, 0)
    accepted(led, opened)
    coordinator.writes.pop()[1](LOST)
    assert opened.error is None and led.find(KEY) is opened


def lead_again(led: LedPartitions, opened: LedSharePartition) -> None:
    """The broker leads the partition in a new epoch."""
    partition: Any = opened.partition
    partition.leader_epoch += 1
    led.on_metadata()


@pytest.mark.parametrize("failure", [None, LOST])
def test_acknowledgements_behind_a_write_are_answered_where_leadership_ends(
    failure: KafkaError | None,
) -> None:
    coordinator = Coordinator()
    led, opened = led_by(coordinator, 0)
    written, queued = accepted(led, opened, 0), accepted(led, opened, 1)
    lead_again(led, opened)
    assert [error and error.code for error in queued] == [ErrorCode.NOT_LEADER_OR_FOLLOWER]
    assert written == [], "its write is under way"
    [(_, on_written)] = coordinator.writes
    on_written(failure or SimpleNamespace())
    assert len(written) == len(queued) == 1 and not opened.answering


def test_acknowledgements_behind_a_fenced_write_are_answered() -> None:
    coordinator = Coordinator()
    led, opened = led_by(coordinator, 0)
    written, queued = accepted(led, opened, 0), accepted(led, opened, 1)
    coordinator.writes.pop()[1](KafkaError(ErrorCode.FENCED_STATE_EPOCH, "another leads"))
    for [error] in (written, queued):
        assert error is not None and error.code is ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_acknowledgements_in_the_pause_after_a_failed_write_are_answered() -> None:
    coordinator = Coordinator()
    led, opened = led_by(coordinator, 0)
    accepted(led, opened, 0)
    coordinator.writes.pop()[1](LOST)
    queued = accepted(led, opened, 1)
    assert queued == [] and not coordinator.writes
    lead_again(led, opened)
    assert [error and error.code for error in queued] == [ErrorCode.NOT_LEADER_OR_FOLLOWER]


@pytest.mark.parametrize(
    ("deliveries", "state"), [(1, DeliveryState.AVAILABLE), (2, DeliveryState.ARCHIVED)]
)
def test_a_failed_write_past_the_lock_is_written_again_as_the_end_of_the_lock(
    deliveries: int, state: DeliveryState
) -> None:
    machine = SharePartition(0, 1, 0, [StateBatch(0, 0, 0, deliveries - 1)])
    machine.acquire("m", Wanted(1), 0, [(0, 0)], LIMITS, 0.0)
    machine.acknowledge("m", [Acknowledgement(0, 0, ACCEPT)], LIMITS, 0.0)
    write = machine.take_write()
    assert write is not None
    machine.on_written(write, LOST, LIMITS, 51.0)
    again = machine.take_write()
    assert again is not None
    archived = state is DeliveryState.ARCHIVED
    assert again.start_offset == (1 if archived else 0)
    assert again.batches == (() if archived else (StateBatch(0, 0, state, deliveries),))


def test_a_closed_client_answers() -> None:
    peers: Any = None
    client = StateClient(process(), peers, lambda key: 1, lambda: None, 1_000)
    client.close()
    results: list[Any] = []
    client.delete(KEY, results.append)
    assert [result.code for result in results] == [ErrorCode.COORDINATOR_NOT_AVAILABLE]


def test_dead_letters_that_are_done_together_are_closed_together() -> None:
    coordinator, letters, ports = Coordinator(), Letters(), process()
    archiving = [
        SimpleNamespace(
            first_offset=at,
            last_offset=at,
            delivery_state=DeliveryState.ARCHIVING,
            delivery_count=at,
        )
        for at in range(3)
    ]
    _, opened = led_by(coordinator, 0, archiving, letters, ports)
    assert len(letters.sent) == 3
    for _, on_done in letters.sent:
        on_done()
    advance(ports, 1)
    [(write, _)] = coordinator.writes
    assert write.start_offset == 3
    assert opened.share_partition is not None and not opened.share_partition.letters


@pytest.mark.parametrize("how", ["moved", "stopped"])
def test_an_answer_may_end_the_next_share_partition(how: str) -> None:
    """A member's last request waits behind a write of one share partition; its answer ends them all."""
    led, first = led_by(Coordinator(), 0)
    second = led.open(SharePartitionKey("g", KEY.topic_id, 1))
    led._client.reads.pop()(SimpleNamespace(state_epoch=1, start_offset=0, state_batches=[]))  # type: ignore[attr-defined]
    accepted(led, first)
    machine = first.share_partition
    assert machine is not None
    machine.acquire("m", Wanted(1), 1, [(1, 1)], LIMITS, 0.0)
    change = machine.acknowledge("m", [Acknowledgement(1, 1, ACCEPT)], LIMITS, 0.0)
    led.changed(first, change, lambda error: led.leave("g"))
    first.partition.is_leader = False  # type: ignore[misc]
    (led.on_metadata if how == "moved" else led.close)()
    assert len(led) == 0 and first.has_ended and second.has_ended
