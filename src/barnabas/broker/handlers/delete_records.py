"""DeleteRecords.

Behaviour: the leader advances its log start offset at once. The answer waits until every live replica has
advanced its own, and carries the partition's low watermark (KIP-107). Offset -1 means the high watermark. If
a partition is named twice, the last offset counts. Records of internal topics cannot be deleted, whatever
their cleanup policy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.broker.controller_client.auto_topic_creation import INTERNAL_TOPICS
from barnabas.broker.deadlines import Deadlines
from barnabas.broker.partitions.partition import Partition
from barnabas.wire.api_table import ApiKey
from barnabas.wire.error_responses import mirrored_error
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.messages.delete_records_request import DeleteRecordsRequest
from barnabas.wire.messages.delete_records_response import (
    DeleteRecordsPartitionResult,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)
from barnabas.wire.request import Api, Parked, RequestContext

if TYPE_CHECKING:
    from barnabas.broker.roles import DeleteRecordsRole


API = Api(
    ApiKey.DELETE_RECORDS,
    DeleteRecordsRequest,
    mirrored_error(DeleteRecordsRequest, DeleteRecordsResponse, low_watermark=-1),
    "topic",
    "delete",
)


class _Wait:
    """One request that waits until the low watermarks of its partitions reach the requested offsets."""

    def __init__(self, response: DeleteRecordsResponse, deadlines: Deadlines) -> None:
        self.parked = Parked()
        self.bucket = -1
        self.remaining = 0
        self._response = response
        self._deadlines = deadlines

    def add(self, partition: Partition, target: int, answer: DeleteRecordsPartitionResult) -> None:
        def check() -> bool:
            if self.parked.done:
                return True
            if not partition.is_leader:
                answer.error_code = partition.not_leader().code
                answer.low_watermark = -1
            elif partition.low_watermark >= target:
                answer.error_code = ErrorCode.NONE
                answer.low_watermark = partition.low_watermark
            else:
                return False
            self.remaining -= 1
            if self.remaining == 0 and self.bucket != -1:
                self._deadlines.remove(self)
                self.parked.complete(self._response)
            return True

        self.remaining += 1
        if not check():
            answer.error_code = ErrorCode.REQUEST_TIMED_OUT
            partition.low_watermark_waiters.add(check)

    def on_deadline(self) -> None:
        self.parked.complete(self._response)


def _asked(request: DeleteRecordsRequest) -> dict[str, dict[int, int]]:
    """The offset before which records are deleted, by topic name and partition index."""
    asked: dict[str, dict[int, int]] = {}
    for topic in request.topics:
        offsets = asked.setdefault(topic.name, {})
        offsets.update({p.partition_index: p.offset for p in topic.partitions})
    return asked


def handle(
    request: DeleteRecordsRequest, ctx: RequestContext, broker: DeleteRecordsRole
) -> DeleteRecordsResponse | Parked:
    response = DeleteRecordsResponse()
    wait = _Wait(response, broker.deadlines)
    topics = []
    for name, offsets in _asked(request).items():
        answers = []
        for index, offset in offsets.items():
            answer = DeleteRecordsPartitionResult(partition_index=index, low_watermark=-1)
            answers.append(answer)
            try:
                if name in INTERNAL_TOPICS:
                    raise KafkaError(
                        ErrorCode.INVALID_TOPIC_EXCEPTION,
                        f"Cannot delete records of internal topic {name}",
                    )
                partition, code = broker.replicas.find((name, index))
                if partition is None:
                    raise KafkaError(code, "no replica here")
                wait.add(partition, partition.delete_records(offset), answer)
            except KafkaError as error:
                answer.error_code = error.code
        topics.append(DeleteRecordsTopicResult(name=name, partitions=answers))
    response.topics = topics
    if wait.remaining == 0:
        return response
    broker.deadlines.add(wait, broker.ports.clock.now_ms() + max(request.timeout_ms, 0))
    return wait.parked
