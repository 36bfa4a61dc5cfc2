"""What a controller orders its brokers, as a sender gets it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import pytest

from barnabas.metadata.image.image import MetadataImage
from barnabas.metadata.records.broker_registration_change_record import (
    BrokerRegistrationChangeRecord,
)
from barnabas.metadata.records.partition_change_record import PartitionChangeRecord
from barnabas.metadata.records.partition_record import PartitionRecord
from barnabas.metadata.records.register_broker_record import BrokerEndpoint, RegisterBrokerRecord
from barnabas.metadata.records.topic_record import TopicRecord
from barnabas.sim.world.disk import SimDisk
from barnabas.sim.world.network import SimNetwork
from barnabas.sim.world.process import SimMachine
from barnabas.sim.world.world import World
from barnabas.types import Endpoint, Uuid
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.kafka39.leader_and_isr_request import LeaderAndIsrRequest
from barnabas.wire.messages.kafka39.leader_and_isr_response import LeaderAndIsrResponse
from barnabas.wire.messages.kafka39.stop_replica_request import StopReplicaRequest
from barnabas.wire.messages.kafka39.stop_replica_response import StopReplicaResponse
from barnabas.wire.messages.kafka39.update_metadata_response import UpdateMetadataResponse
from barnabas.wire.schema import Message
from barnabas.zookeeper.controller.broker_orders import BrokerOrders, OrdersListener

TOPIC_ID = Uuid(bytes(15) + b"\x2a")
KEY = (TOPIC_ID, 0)


class Brokers:
    """Answers every request at once; `code` is that of LeaderAndIsr."""

    def __init__(self) -> None:
        self.got: list[tuple[int, Message]] = []
        self.code = ErrorCode.NONE

    def send(
        self,
        target: Endpoint,
        request: Message,
        on_done: Callable[[Any], None],
        *,
        version: int | None = None,
        timeout_ms: float | None = None,
        purpose: str = "",
    ) -> None:
        self.got.append((target.port, request))
        if isinstance(request, LeaderAndIsrRequest):
            on_done(LeaderAndIsrResponse(error_code=self.code))
        elif isinstance(request, StopReplicaRequest):
            on_done(StopReplicaResponse())
        else:
            on_done(UpdateMetadataResponse())

    def disconnect(self, target: Endpoint, purpose: str | None = None) -> None:
        return

    def watch(
        self,
        target: Endpoint,
        *,
        on_closed: Callable[[], None] | None = None,
        on_refused: Callable[[], None] | None = None,
    ) -> Callable[[], None]:
        return lambda: None

    def take_new(self) -> dict[int, list[bool]]:
        """By broker, what `is_new` was in the orders since the last call."""
        found: dict[int, list[bool]] = {}
        for broker, request in self.got:
            if isinstance(request, LeaderAndIsrRequest):
                for topic in request.topic_states:
                    states = topic.partition_states
                    found.setdefault(broker, []).extend(bool(state.is_new) for state in states)
        self.got.clear()
        return found


class NothingWritten(OrdersListener):
    """The znodes of no topic are written."""

    def is_written(self, topic_id: Uuid) -> bool:
        return False


class ControllersOrders:
    """Orders to brokers 2 and 3 of controller 1, about one partition."""

    def __init__(self) -> None:
        self.world = World(1)
        network = SimNetwork(self.world)
        machine = SimMachine(self.world, network, "n1", SimDisk(self.world.rng("disk")))
        self.image = MetadataImage()
        self.brokers = Brokers()
        self.orders = BrokerOrders(machine.start_process(), self.brokers, self.image, 1, "L")
        self.orders.controller_epoch = 1
        for broker in (2, 3):
            self.replay([self.registration(broker, 10)])

    def registration(self, broker: int, epoch: int) -> RegisterBrokerRecord:
        at = BrokerEndpoint(name="L", host="b", port=broker, security_protocol=0)
        return RegisterBrokerRecord(
            broker_id=broker, broker_epoch=epoch, end_points=[at], fenced=False
        )

    def replay(
        self,
        records: Sequence[Message],
        assigned: Mapping[tuple[Uuid, int], Sequence[int]] | None = None,
    ) -> None:
        self.image.replay_batch(records, self.image.offset + 1, 1)
        self.orders.on_written(self.image.take_changes(), [], assigned or {})

    def create(self, replicas: list[int]) -> None:
        partition = PartitionRecord(
            partition_id=0,
            topic_id=TOPIC_ID,
            replicas=replicas,
            isr=replicas,
            leader=replicas[0],
            leader_epoch=0,
            partition_epoch=0,
        )
        self.replay([TopicRecord(name="t", topic_id=TOPIC_ID), partition], {KEY: replicas})


@pytest.fixture
def controller() -> Iterator[ControllersOrders]:
    made = ControllersOrders()
    yield made
    made.world.let_go()


def test_a_replica_is_new_where_it_is_first_assigned_alone(controller: ControllersOrders) -> None:
    controller.create([2, 3])
    assert controller.brokers.take_new() == {2: [True], 3: [True]}
    # The same state, epoch 0, to a broker that was started again: its log may be in a failed directory.
    controller.replay([controller.registration(3, 11)])
    assert controller.brokers.take_new() == {3: [False]}
    controller.orders.begin(2)  # and from the next controller
    assert controller.brokers.take_new() == {2: [False], 3: [False]}


def test_a_replica_that_a_reassignment_adds_is_new(controller: ControllersOrders) -> None:
    controller.create([2])
    controller.brokers.take_new()
    adds = PartitionChangeRecord(
        partition_id=0, topic_id=TOPIC_ID, replicas=[2, 3], adding_replicas=[3]
    )
    controller.replay([adds], {KEY: [3]})
    assert controller.brokers.take_new() == {2: [False], 3: [True]}


def test_a_new_replica_is_new_until_its_order_is_answered(controller: ControllersOrders) -> None:
    controller.brokers.code = ErrorCode.REQUEST_TIMED_OUT
    controller.create([2])
    joins = PartitionChangeRecord(partition_id=0, topic_id=TOPIC_ID, leader=2)
    controller.replay([joins])
    controller.brokers.code = ErrorCode.NONE
    controller.world.run(controller.world.now_ms + 1_000)
    assert controller.brokers.take_new() == {2: [True, True]}
    fence = BrokerRegistrationChangeRecord(broker_id=3, broker_epoch=10, fenced=1)
    controller.replay([fence, joins])
    assert controller.brokers.take_new() == {2: [False]}


def test_a_topic_without_znodes_is_not_ordered_before_it_is_written(
    controller: ControllersOrders,
) -> None:
    controller.create([2])
    controller.brokers.got.clear()
    controller.orders.listen(NothingWritten())
    controller.replay([controller.registration(3, 11)])
    controller.orders.begin(2)
    assert not any(getattr(request, "topic_states", ()) for _, request in controller.brokers.got)
