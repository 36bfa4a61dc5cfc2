"""A broker's transaction coordinators on a log in memory, with a clock that a test moves.

The handlers, the coordinators, the machine and what sends the markers are the real ones; the log commits at
once, or when the test says so, and refuses appends when told to. Leaders answer markers at once, or when the
test says so.
"""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from barnabas.broker.coordinator.coordinators import partition_of
from barnabas.broker.coordinator.transaction_coordinator import TransactionCoordinators
from barnabas.broker.handlers import (
    add_offsets_to_txn,
    add_partitions_to_txn,
    describe_transactions,
    end_txn,
    init_producer_id,
    list_transactions,
)
from barnabas.broker.transaction.markers import Markers
from barnabas.client.network.connection import ChannelError
from barnabas.config.node import NodeConfig
from barnabas.metadata.image.image import MetadataImage
from barnabas.metadata.records.partition_change_record import PartitionChangeRecord
from barnabas.metadata.records.partition_record import PartitionRecord
from barnabas.metadata.records.remove_topic_record import RemoveTopicRecord
from barnabas.metadata.records.topic_record import TopicRecord
from barnabas.types import Endpoint, Uuid
from barnabas.wire.codec import decode, encode_bytes
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.messages.write_txn_markers_request import WriteTxnMarkersRequest
from barnabas.wire.messages.write_txn_markers_response import (
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersResponse,
)
from barnabas.wire.request import Parked, RequestContext
from barnabas.wire.schema import Message
from tests.unit.group.world import FakePorts, MemoryLog, Pending

HANDLERS: dict[int, Any] = {
    int(module.API.key): module
    for module in (
        add_offsets_to_txn,
        add_partitions_to_txn,
        describe_transactions,
        end_txn,
        init_producer_id,
        list_transactions,
    )
}


class FakeLeaders:
    """The leaders of all partitions, as :class:`~barnabas.broker.transaction.peers.Peers` reaches them."""

    def __init__(self, ports: FakePorts) -> None:
        self._ports = ports
        self.held = False
        self.silent: dict[int, None] = {}
        """Brokers whose connection ends."""
        self.refusals: dict[tuple[str, int], ErrorCode] = {}
        self.waiting: list[tuple[int, WriteTxnMarkersRequest, Callable[[Any], None]]] = []
        self.written: list[tuple[int, Any, str, int]] = []
        """(broker, marker, topic, index) of every marker that a leader took."""
        self.seen: list[tuple[int, Any]] = []
        """(broker, marker) of every marker that was sent."""
        self.takers: dict[str, Callable[[Any, int], ErrorCode]] = {}
        """By topic: who takes its markers."""

    def send(
        self,
        broker: int,
        request: WriteTxnMarkersRequest,
        on_done: Callable[[Any], None],
        *,
        purpose: str,
    ) -> None:
        self.seen += [(broker, marker) for marker in request.markers]
        self.waiting.append((broker, request, on_done))
        if not self.held:
            self._ports.call_soon(self.answer)

    def answer(self, only: int | None = None) -> None:
        """Answer all that waits, or what waits for one broker."""
        waiting = [each for each in self.waiting if only in (None, each[0])]
        self.waiting = [each for each in self.waiting if each not in waiting]
        for broker, request, on_done in waiting:
            on_done(self._response(broker, request))

    def _response(self, broker: int, request: WriteTxnMarkersRequest) -> Any:
        if broker in self.silent:
            return ChannelError("closed", "told to")
        return WriteTxnMarkersResponse(
            markers=[
                WritableTxnMarkerResult(
                    producer_id=marker.producer_id,
                    topics=[
                        WritableTxnMarkerTopicResult(
                            name=topic.name,
                            partitions=[
                                WritableTxnMarkerPartitionResult(
                                    partition_index=index,
                                    error_code=self._take(broker, marker, topic.name, index),
                                )
                                for index in topic.partition_indexes
                            ],
                        )
                        for topic in marker.topics
                    ],
                )
                for marker in request.markers
            ]
        )

    def _take(self, broker: int, marker: Any, topic: str, index: int) -> ErrorCode:
        code = self.refusals.get((topic, index), ErrorCode.NONE)
        if not code and topic in self.takers:
            code = self.takers[topic](marker, index)
        if not code:
            self.written.append((broker, marker, topic, index))
        return code


class World:
    """One broker that leads every partition of ``__transaction_state``."""

    def __init__(self, partitions: int = 1, level: int = 2, **properties: str) -> None:
        given = {
            "node.id": "1",
            "process.roles": "broker,controller",
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.voters": "1@h:9093",
            "listeners": "PLAINTEXT://:9092,CONTROLLER://:9093",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "log.dirs": "/d",
        } | {key.replace("_", "."): value for key, value in properties.items()}
        self.ports = FakePorts()
        self.partitions = partitions
        self.level = level
        self.config = NodeConfig.from_properties(given)
        self.image = MetadataImage()
        self.leaders = FakeLeaders(self.ports)
        self.next_id = 1000
        self.no_ids = False
        self.producer_ids = SimpleNamespace(allocate=self._allocate)
        coordinators = TransactionCoordinators(
            self.config,
            self.ports,  # type: ignore[arg-type]
            lambda: partitions,
            lambda: self.level,
            self._allocate,
        )
        self.markers = Markers(self.ports, self.leaders, self.image, coordinators)  # type: ignore[arg-type]
        coordinators.markers = self.markers
        self.transactions = SimpleNamespace(coordinators=coordinators)
        self.hashed = SimpleNamespace(partition_for=self._partition_for)
        self.coordinators = coordinators
        self.logs = [MemoryLog() for _ in range(partitions)]
        self.held = False
        self.epoch = 0
        self.elect()

    def _partition_for(self, name: str, key: str) -> int:
        """The number of partitions is the topic's, or Kafka's default where the topic is not there yet."""
        topic = self.image.topics_by_name.get(name)
        return partition_of(key, len(topic) if topic is not None else 50)

    def _allocate(self, on_id: Callable[[int | KafkaError], None]) -> None:
        if self.no_ids:
            on_id(KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "told to"))
            return
        self.next_id += 1
        given = self.next_id - 1
        self.ports.call_soon(lambda: on_id(given))

    def elect(self) -> None:
        """This broker becomes leader of all partitions, and loads them."""
        self.epoch += 1
        for index, log in enumerate(self.logs):
            self.coordinators.on_elected(index, log, self.epoch)
        self.settle()

    def resign(self) -> None:
        for index in range(self.partitions):
            self.coordinators.on_resigned(index)
        self.settle()

    def topic(self, name: str, partitions: int = 4, leaders: int = 2) -> None:
        """Partition n is led by broker n % `leaders`."""
        topic_id = Uuid(name.encode().rjust(16, b"\1"))
        self.image.replay(TopicRecord(name=name, topic_id=topic_id))
        for index in range(partitions):
            self.image.replay(
                PartitionRecord(
                    partition_id=index, topic_id=topic_id, replicas=[0, 1], isr=[0, 1],
                    leader=index % leaders,
                )
            )  # fmt: skip

    def lead(self, name: str, index: int, leader: int) -> None:
        """The controller elects another leader, or none (-1)."""
        topic_id = self.image.topics_by_name[name].id
        self.image.replay(
            PartitionChangeRecord(topic_id=topic_id, partition_id=index, leader=leader)
        )
        self.markers.on_metadata_change()
        self.settle()

    def delete(self, name: str) -> None:
        self.image.replay(RemoveTopicRecord(topic_id=self.image.topics_by_name[name].id))
        self.markers.on_metadata_change()
        self.settle()

    def settle(self) -> None:
        """Let everything happen that happens now."""
        self.ports.settle()
        while not self.held and any(log.high_watermark < log.log_end_offset for log in self.logs):
            self.commit()
        self.markers.validate()

    def commit(self) -> None:
        """Followers have everything."""
        for index, log in enumerate(self.logs):
            log.high_watermark = log.log_end_offset
            self.coordinators.on_high_watermark(index, log.high_watermark)
        self.ports.settle()

    def advance(self, ms: float) -> None:
        """Time passes; what is written is committed at once unless held."""
        end = self.ports.now + ms
        while True:
            due = [w.when_ms for w in self.ports.later if w.callback is not None]
            step = min([end, *(when for when in due if when > self.ports.now)])
            self.ports.advance(step - self.ports.now)
            self.settle()
            if step >= end:
                return

    def send(self, request: Message, version: int | None = None) -> Pending:
        """One request through its handler, both ways through the wire's form of `version`."""
        version = type(request).VALID[1] if version is None else version
        asked = decode(type(request), version, encode_bytes(request, version))
        ctx = RequestContext(
            api_key=request.API_KEY, api_version=version, client_id="c", peer=Endpoint("h", 1)
        )
        pending = Pending(version)
        module = HANDLERS[request.API_KEY]
        try:
            answer = module.handle(asked, ctx, self)
        except KafkaError as error:
            answer = module.API.error_response(asked, error.code, error.message)
        if isinstance(answer, Parked):
            answer.attach(pending.take)
        else:
            pending.take(answer)
        self.settle()
        return pending
