"""WriteTxnMarkers.

Behaviour: writes a transaction's marker in each partition, for the transaction's coordinator or for
an administrator who ends a hanging transaction. The answer follows when every member of each ISR
has the markers. In ``__consumer_offsets`` the group's coordinator writes the marker, which makes
the transaction's offsets valid or drops them. An error affects only its partition.
INVALID_PRODUCER_EPOCH means that the marker belongs to an earlier transaction,
TRANSACTION_COORDINATOR_FENCED that it comes from an earlier coordinator; both end the coordinator's
attempts.

Version notes: from 2 on a marker tells the level of transaction.version at which its transaction was made:
at 2 the marker's epoch is above that of the transaction (KIP-890).
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from barnabas.broker.coordinator.coordinators import Marker
from barnabas.broker.deadlines import Deadlines
from barnabas.types import OFFSETS_TOPIC
from barnabas.wire.api_table import ApiKey
from barnabas.wire.error_responses import mirrored_error
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.messages.write_txn_markers_request import (
    WritableTxnMarker,
    WriteTxnMarkersRequest,
)
from barnabas.wire.messages.write_txn_markers_response import (
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersResponse,
)
from barnabas.wire.request import Api, Parked, RequestContext
from barnabas.wire.schema import Message

if TYPE_CHECKING:
    from barnabas.broker.roles import MarkersRole

_OF_THE_LEADER = (
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.NOT_COORDINATOR,
)
"""A group coordinator's errors after which the sender tries another broker, or tries later."""


API = Api(
    ApiKey.WRITE_TXN_MARKERS,
    WriteTxnMarkersRequest,
    mirrored_error(WriteTxnMarkersRequest, WriteTxnMarkersResponse),
    "cluster",
    "cluster-action",
)


class _Wait:
    """One request. `slots` are the answers for partitions whose markers are appended."""

    def __init__(self, response: WriteTxnMarkersResponse, deadlines: Deadlines) -> None:
        self.parked = Parked()
        self.bucket = -1
        self.remaining = 0
        self.slots: list[WritableTxnMarkerPartitionResult] = []
        self._response = response
        self._deadlines = deadlines

    def add(self, answer: WritableTxnMarkerPartitionResult) -> int:
        """Add an answer to wait for, and return its slot."""
        answer.error_code = ErrorCode.REQUEST_TIMED_OUT
        self.slots.append(answer)
        self.remaining += 1
        return len(self.slots) - 1

    def complete_partition(self, slot: int, code: ErrorCode) -> None:
        self.slots[slot].error_code = code
        self.remaining -= 1
        if self.remaining == 0 and self.bucket != -1:
            self._deadlines.remove(self)
            self.parked.complete(self._response)

    def on_group_answer(self, slot: int, result: Message | KafkaError | None) -> None:
        """The group coordinator answered for the partition of `slot`."""
        code = ErrorCode(result.code) if isinstance(result, KafkaError) else ErrorCode.NONE
        self.complete_partition(
            slot, ErrorCode.NOT_LEADER_OR_FOLLOWER if code in _OF_THE_LEADER else code
        )

    def on_deadline(self) -> None:
        self.parked.complete(self._response)


def handle(
    request: WriteTxnMarkersRequest, ctx: RequestContext, broker: MarkersRole
) -> WriteTxnMarkersResponse | Parked:
    response = WriteTxnMarkersResponse()
    wait = _Wait(response, broker.deadlines)
    results = []
    for marker in request.markers:
        wanted = Marker(
            marker.producer_id,
            marker.producer_epoch,
            marker.coordinator_epoch,
            marker.transaction_result,
            marker.transaction_version,
        )
        answers = [
            [_write(broker, wait, wanted, topic.name, index) for index in topic.partition_indexes]
            for topic in marker.topics
        ]
        results.append(_result_of(marker, answers))
    response.markers = results
    if wait.remaining == 0:
        return response
    timeout_ms = broker.config.broker.request_timeout_ms
    broker.deadlines.add(wait, broker.ports.clock.now_ms() + timeout_ms)
    return wait.parked


def _write(
    broker: MarkersRole, wait: _Wait, marker: Marker, topic: str, index: int
) -> WritableTxnMarkerPartitionResult:
    """Write the marker in one partition, or note the error."""
    answer = WritableTxnMarkerPartitionResult(partition_index=index)
    if topic == OFFSETS_TOPIC:
        slot = wait.add(answer)
        broker.groups.end_transaction(index, marker, partial(wait.on_group_answer, slot))
        return answer
    try:
        partition, code = broker.replicas.find((topic, index))
        if partition is None:
            raise KafkaError(code, f"no replica of {topic}-{index} here")
        end = partition.append_coordinator_records(
            marker.to_bytes(broker.ports.clock.wall_ms()),
            transaction_version=marker.transaction_version,
        )
        if partition.high_watermark < end:
            partition.wait_for(end, wait, wait.add(answer))
    except KafkaError as error:
        answer.error_code = error.code
    return answer


def _result_of(
    marker: WritableTxnMarker, answers: list[list[WritableTxnMarkerPartitionResult]]
) -> WritableTxnMarkerResult:
    """`answers` by topic, in the order of the request."""
    return WritableTxnMarkerResult(
        producer_id=marker.producer_id,
        topics=[
            WritableTxnMarkerTopicResult(name=topic.name, partitions=partitions)
            for topic, partitions in zip(marker.topics, answers)
        ],
    )
