"""Tells the controller which log directory holds a replica, if it does not know (KIP-858).

Assignments are batched. One request is under way at a time and is retried until it is answered. An
error for a partition means that newer metadata assign the replica elsewhere; no retry follows.

Source: Kafka's ``AssignmentsManager``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from barnabas.broker.controller_client.controller_channel import ControllerChannel
from barnabas.broker.partitions.partition import Partition
from barnabas.ports import Ports, call_all
from barnabas.types import Uuid, by_topic
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.messages.assign_replicas_to_dirs_request import (
    AssignReplicasToDirsRequest,
    DirectoryData,
    PartitionData,
    TopicData,
)
from barnabas.wire.messages.assign_replicas_to_dirs_response import AssignReplicasToDirsResponse

ASSIGNMENT_RETRY_MS = 500.0
Key = tuple[Uuid, int]
OnAnswer = Callable[[int], None]
"""Gets the error code for the one replica."""


class DirectoryAssignments:
    """The assignments that the controller does not know yet."""

    def __init__(
        self,
        ports: Ports,
        controller: ControllerChannel,
        node_id: int,
        broker_epoch: Callable[[], int],
    ) -> None:
        self._ports = ports
        self._controller = controller
        self._node_id = node_id
        self._broker_epoch = broker_epoch
        self._pending: dict[Key, Uuid] = {}
        self._in_flight: dict[Key, Uuid] = {}
        self._waiting: dict[Key, OnAnswer] = {}
        self._scheduled = False

    def submit(
        self, partition: Partition, directory: Uuid, on_answer: OnAnswer | None = None
    ) -> None:
        """The log of `partition` is in `directory`, or moves there once the controller has agreed.
        `on_answer` gets the controller's answer, unless a newer assignment of the replica replaces
        this one. A controller that keeps no directories agrees with every assignment."""
        key = (partition.topic_id, partition.index)
        if on_answer is None and self._pending.get(key, self._in_flight.get(key)) == directory:
            return
        self._pending[key] = directory
        self._waiting.pop(key, None)
        if on_answer is not None:
            self._waiting[key] = on_answer
        self._schedule(0.0)

    def _schedule(self, delay_ms: float) -> None:
        if self._scheduled or self._in_flight or not self._pending:
            return
        self._scheduled = True
        self._ports.wakeups.call_at(self._ports.clock.now_ms() + delay_ms, self._send)

    def _send(self) -> None:
        self._scheduled = False
        if self._broker_epoch() < 0:
            self._schedule(ASSIGNMENT_RETRY_MS)
            return
        for key in list(self._pending)[: self._ports.bounds.replicas.assignments_max]:
            self._in_flight[key] = self._pending.pop(key)
        self._controller.send(self._request(), self._on_answer)

    def _request(self) -> AssignReplicasToDirsRequest:
        directories: dict[Uuid, list[tuple[Uuid, PartitionData]]] = {}
        for (topic_id, index), directory in self._in_flight.items():
            part = topic_id, PartitionData(partition_index=index)
            directories.setdefault(directory, []).append(part)
        return AssignReplicasToDirsRequest(
            broker_id=self._node_id,
            broker_epoch=self._broker_epoch(),
            directories=[
                DirectoryData(
                    id=directory,
                    topics=[
                        TopicData(topic_id=topic_id, partitions=partitions)
                        for topic_id, partitions in by_topic(parts).items()
                    ],
                )
                for directory, parts in directories.items()
            ],
        )

    def _on_answer(self, response: AssignReplicasToDirsResponse | KafkaError) -> None:
        reported, self._in_flight = self._in_flight, {}
        if isinstance(response, KafkaError) or response.error_code:
            code = response.code if isinstance(response, KafkaError) else response.error_code
            if code == ErrorCode.UNSUPPORTED_VERSION:
                self._answer_all(dict.fromkeys(reported, ErrorCode.NONE), ASSIGNMENT_RETRY_MS)
                return
            for key, directory in reported.items():
                self._pending.setdefault(key, directory)
            self._schedule(ASSIGNMENT_RETRY_MS)
            return
        codes = {
            (Uuid(topic.topic_id), partition.partition_index): partition.error_code
            for directory_data in response.directories
            for topic in directory_data.topics
            for partition in topic.partitions
        }
        self._answer_all(codes, 0.0)

    def _answer_all(self, codes: Mapping[Key, int], delay_ms: float) -> None:
        """Answer all assignments of the last request, and send the next request `delay_ms`
        later."""
        try:
            call_all(partial(self._answer, key, code) for key, code in codes.items())
        finally:
            self._schedule(delay_ms)

    def _answer(self, key: Key, code: int) -> None:
        """Give the controller's answer to who assigned `key`, unless a newer assignment waits to be
        sent."""
        if key not in self._pending and (on_answer := self._waiting.pop(key, None)) is not None:
            on_answer(code)
