"""DescribeShareGroupOffsets.

Behaviour: returns the start offsets of share groups from their share coordinators, for the named
partitions or for all that have a state. Each group and each partition has its own error.
UNSUPPORTED_VERSION if ``share.version`` is 0.

Version notes: 1 has the lag, the number of records behind the start whose delivery is not complete
(KIP-1226); it is -1 where it is not known.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from barnabas.broker.roles import ShareGroupRole
from barnabas.broker.share.end_offsets import ask_end_offsets
from barnabas.broker.share.share_groups import ShareGroups
from barnabas.group.share.offsets import initialized_partitions
from barnabas.share.key import SharePartitionKey
from barnabas.types import ZERO_UUID, Uuid
from barnabas.wire.api_table import ApiKey
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.messages.describe_share_group_offsets_request import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
)
from barnabas.wire.messages.describe_share_group_offsets_response import (
    DescribeShareGroupOffsetsResponse,
    DescribeShareGroupOffsetsResponseGroup,
    DescribeShareGroupOffsetsResponsePartition,
    DescribeShareGroupOffsetsResponseTopic,
)
from barnabas.wire.request import Api, Parked, RequestContext

LAG_SINCE = 1


def error_response(
    request: DescribeShareGroupOffsetsRequest, code: int, message: str
) -> DescribeShareGroupOffsetsResponse:
    return DescribeShareGroupOffsetsResponse(
        groups=[_refused(group.group_id, code, message) for group in request.groups]
    )


API = Api(
    ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS,
    DescribeShareGroupOffsetsRequest,
    error_response,
    "group",
    "describe",
)


def handle(
    request: DescribeShareGroupOffsetsRequest, ctx: RequestContext, role: ShareGroupRole
) -> DescribeShareGroupOffsetsResponse | Parked:
    shares = role.shares.open()
    if not shares.is_enabled:
        return error_response(request, ErrorCode.UNSUPPORTED_VERSION, "")
    if not request.groups:
        return DescribeShareGroupOffsetsResponse()
    parked = Parked()
    answers: list[Any] = [None] * len(request.groups)
    left = len(answers)

    def done(row: int, answer: DescribeShareGroupOffsetsResponseGroup) -> None:
        nonlocal left
        answers[row] = answer
        left -= 1
        if not left:
            parked.complete(DescribeShareGroupOffsetsResponse(groups=answers))

    for row, asked in enumerate(request.groups):
        description = _Description(role, shares, asked.group_id, partial(done, row))
        description.with_lag = ctx.api_version >= LAG_SINCE
        description.begin(asked)
    return parked


def _refused(group_id: str, code: int, message: str) -> DescribeShareGroupOffsetsResponseGroup:
    return DescribeShareGroupOffsetsResponseGroup(
        group_id=group_id, error_code=code, error_message=message or None
    )


class _Description:
    """The description of one group, until all its parts have arrived."""

    def __init__(
        self,
        role: ShareGroupRole,
        shares: ShareGroups,
        group_id: str,
        on_done: Callable[[DescribeShareGroupOffsetsResponseGroup], None],
    ) -> None:
        self.role = role
        self.shares = shares
        self.group_id = group_id
        self.on_done = on_done
        self.with_lag = False
        self._topics: dict[tuple[str, Uuid], list[Any]] = {}
        self._left = 0

    def begin(self, asked: DescribeShareGroupOffsetsRequestGroup) -> None:
        try:
            wanted = self._wanted(asked)
        except KafkaError as error:
            self.on_done(_refused(self.group_id, error.code, error.message))
            return
        parts = [(place, index) for place, indexes in wanted.items() for index in indexes]
        self._left = len(parts)
        for place in wanted:
            self._topics[place] = []
        for place, index in parts:
            if place[1] == ZERO_UUID:
                why = "This server does not host this topic-partition."
                unknown = KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, why)
                self._settle(place, index, unknown)
                continue
            key = SharePartitionKey(self.group_id, place[1], index)
            self.shares.client.summarize(key, partial(self._settle, place, index))
        if not parts:
            self._complete()

    def _wanted(
        self, asked: DescribeShareGroupOffsetsRequestGroup
    ) -> dict[tuple[str, Uuid], list[int]]:
        """Partitions by topic name and id. Raises ``KafkaError``."""
        if asked.topics is None:
            known = self.role.groups.read(
                self.group_id,
                lambda machine: initialized_partitions(machine.table, self.group_id),
            )
            return {(name, topic_id): indexes for topic_id, (name, indexes) in known.items()}
        cluster = self.role.groups.cluster
        return {
            (topic.topic_name, cluster.id_of(topic.topic_name) or ZERO_UUID): list(topic.partitions)
            for topic in asked.topics
        }

    def _settle(self, place: tuple[str, Uuid], index: int, result: Any) -> None:
        part = DescribeShareGroupOffsetsResponsePartition(partition_index=index, start_offset=-1)
        if isinstance(result, KafkaError):
            part.error_code, part.error_message = result.code, result.message or None
        else:
            part.start_offset, part.leader_epoch = result.start_offset, result.leader_epoch
        self._topics[place].append((part, result))
        self._left -= 1
        if not self._left:
            self._complete()

    def _complete(self) -> None:
        lagging = {
            (name, part.partition_index): (part, result)
            for (name, _), parts in self._topics.items()
            for part, result in parts
            if self.with_lag
            and not isinstance(result, KafkaError)
            and result.start_offset >= 0
            and result.delivery_complete_count >= 0
        }

        def answered(ends: dict[tuple[str, int], int | KafkaError]) -> None:
            for place, (part, result) in lagging.items():
                end = ends.get(place, -1)
                if isinstance(end, KafkaError):
                    part.error_code, part.error_message = end.code, end.message or None
                elif end >= 0:
                    part.lag = max(end - result.start_offset - result.delivery_complete_count, 0)
            self.on_done(
                DescribeShareGroupOffsetsResponseGroup(
                    group_id=self.group_id,
                    topics=[
                        DescribeShareGroupOffsetsResponseTopic(
                            topic_name=name,
                            topic_id=topic_id,
                            partitions=[part for part, _ in parts],
                        )
                        for (name, topic_id), parts in self._topics.items()
                    ],
                )
            )

        if lagging:
            ask_end_offsets(self.role, lagging, answered)
        else:
            answered({})
