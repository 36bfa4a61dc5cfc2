"""OffsetFetch.

Behaviour: returns committed offsets of one or several groups, of the requested partitions or of all
(`topics` null). The offset is -1 if a partition has none, or only one of an earlier topic with its
name, or if the group is unknown. `require_stable` (KIP-447) waits for offsets that are being
written, and marks partitions of open transactions UNSTABLE_OFFSET_COMMIT. A new coordinator answers
when all records that it loaded are committed, or COORDINATOR_LOAD_IN_PROGRESS if that takes longer
than ``offsets.commit.timeout.ms``.

Version notes: before 8 one group is asked for, and the answer's error is at the top (at each
partition in version 1); from 2 on `topics` may be null; from 8 on groups are a list (KIP-709); 9
brings members and epochs (KIP-848); from 10 on topics go by id.
"""

from __future__ import annotations

from collections.abc import Callable

from barnabas.broker.coordinator.coordinators import Instant
from barnabas.broker.coordinator.group_coordinator import GroupRole
from barnabas.group.machine import GroupMachine
from barnabas.group.outcome import GroupOutcome
from barnabas.metadata.image.image import MetadataImage
from barnabas.types import ZERO_UUID
from barnabas.wire.api_table import ApiKey
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.messages import offset_fetch_response as out
from barnabas.wire.messages.offset_fetch_request import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from barnabas.wire.messages.offset_fetch_response import (
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)
from barnabas.wire.request import Api, Parked, RequestContext
from barnabas.wire.schema import Message

TOP_LEVEL_ERROR_VERSION = 2
GROUPS_VERSION = 8
TOPIC_ID_VERSION = 10


def error_response(request: OffsetFetchRequest, code: int, message: str) -> OffsetFetchResponse:
    """The error for every version: encoding leaves out fields that a version lacks."""
    groups = [
        OffsetFetchResponseGroup(group_id=group.group_id, error_code=code)
        for group in request.groups
    ]
    topics = [
        out.OffsetFetchResponseTopic(
            name=topic.name,
            partitions=[
                out.OffsetFetchResponsePartition(
                    partition_index=index, committed_offset=-1, error_code=code
                )
                for index in topic.partition_indexes
            ],
        )
        for topic in request.topics or ()
    ]
    if groups:
        return OffsetFetchResponse(groups=groups)
    return OffsetFetchResponse(error_code=code, topics=topics)


API = Api(ApiKey.OFFSET_FETCH, OffsetFetchRequest, error_response, "group", "describe")


def upgrade(request: OffsetFetchRequest, version: int) -> list[OffsetFetchRequestGroup]:
    """The form of version 8: a list of groups."""
    if version >= GROUPS_VERSION:
        return list(request.groups)
    topics = None
    if request.topics is not None:
        topics = [
            OffsetFetchRequestTopics(name=topic.name, partition_indexes=topic.partition_indexes)
            for topic in request.topics
        ]
    return [OffsetFetchRequestGroup(group_id=request.group_id, topics=topics)]


def downgrade(response: OffsetFetchResponse, version: int) -> OffsetFetchResponse:
    """Before version 8 the response has the one group's answer at the top."""
    if version >= GROUPS_VERSION:
        return response
    group = response.groups[0]
    topics = [
        out.OffsetFetchResponseTopic(
            name=topic.name,
            partitions=[
                out.OffsetFetchResponsePartition(
                    partition_index=part.partition_index,
                    committed_offset=part.committed_offset,
                    committed_leader_epoch=part.committed_leader_epoch,
                    metadata=part.metadata,
                    error_code=part.error_code,
                )
                for part in topic.partitions
            ],
        )
        for topic in group.topics
    ]
    return OffsetFetchResponse(error_code=group.error_code, topics=topics)


def handle(
    request: OffsetFetchRequest, ctx: RequestContext, role: GroupRole
) -> OffsetFetchResponse | Parked:
    version, groups = ctx.api_version, upgrade(request, ctx.api_version)
    gathering = _Gathering(len(groups), version)
    for index, group in enumerate(groups):
        _ask(role, group, version, request.require_stable, gathering.place(index))
    return gathering.answer()


class _Gathering:
    """Gathers the answers of several groups, which may arrive at different times."""

    def __init__(self, count: int, version: int) -> None:
        self._answers: list[OffsetFetchResponseGroup | None] = [None] * count
        self._missing = count
        self._version = version
        self._parked: Parked | None = None

    def place(self, index: int) -> Callable[[OffsetFetchResponseGroup], None]:
        """A function that takes the answer of the group at `index`."""

        def put(answer: OffsetFetchResponseGroup) -> None:
            self._answers[index] = answer
            self._missing -= 1
            if not self._missing and self._parked is not None:
                self._parked.complete(self._response())

        return put

    def answer(self) -> OffsetFetchResponse | Parked:
        """The response, or the `Parked` that gets it later."""
        if not self._missing:
            return self._response()
        self._parked = Parked()
        return self._parked

    def _response(self) -> OffsetFetchResponse:
        groups = [answer for answer in self._answers if answer is not None]
        return downgrade(OffsetFetchResponse(groups=groups), self._version)


def _ask(
    role: GroupRole,
    group: OffsetFetchRequestGroup,
    version: int,
    stable: bool,
    put: Callable[[OffsetFetchResponseGroup], None],
) -> None:
    by_id = version >= TOPIC_ID_VERSION
    unknown = _resolve(role.image, group) if by_id else []
    if not by_id:
        _identify(role.image, group)

    def found(answer: OffsetFetchResponseGroup) -> None:
        if group.topics is None:
            _name_ids(role.image, answer, by_id)
        answer.topics = [*answer.topics, *unknown]
        put(answer)

    def failed(error: KafkaError) -> None:
        put(_group_error(group, error.code, version))

    def fetch(machine: GroupMachine, at: Instant) -> GroupOutcome:
        return machine.fetch_stable_offsets(group)

    def done(result: Message | KafkaError | None) -> None:
        if isinstance(result, KafkaError):
            failed(_while_writing(result))
        elif isinstance(result, OffsetFetchResponse):
            found(result.groups[0])

    def read() -> None:
        try:
            answer = role.groups.read(group.group_id, lambda machine: machine.fetch_offsets(group))
        except KafkaError as error:
            failed(error)
        else:
            found(answer)

    def ready(error: KafkaError | None) -> None:
        if error is not None:
            failed(error)
        elif stable:
            role.groups.write(group.group_id, fetch, done)
        else:
            read()

    role.groups.when_active(group.group_id, ready)


def _while_writing(error: KafkaError) -> KafkaError:
    """NOT_COORDINATOR in place of errors for which clients would not look up the coordinator
    again."""
    if error.code is ErrorCode.COORDINATOR_NOT_AVAILABLE:
        return KafkaError(ErrorCode.NOT_COORDINATOR, error.message)
    return error


def _group_error(
    group: OffsetFetchRequestGroup, code: ErrorCode, version: int
) -> OffsetFetchResponseGroup:
    answer = OffsetFetchResponseGroup(group_id=group.group_id, error_code=code)
    if version < TOP_LEVEL_ERROR_VERSION:
        answer.topics = [_topic_error(topic, code) for topic in group.topics or ()]
    return answer


def _topic_error(topic: OffsetFetchRequestTopics, code: ErrorCode) -> OffsetFetchResponseTopics:
    return OffsetFetchResponseTopics(
        name=topic.name,
        topic_id=topic.topic_id,
        partitions=[
            OffsetFetchResponsePartitions(
                partition_index=index, committed_offset=-1, error_code=code
            )
            for index in topic.partition_indexes
        ],
    )


def _resolve(
    image: MetadataImage, group: OffsetFetchRequestGroup
) -> list[OffsetFetchResponseTopics]:
    """Give topics that are requested by id their names, and return the answers for unknown ids."""
    unknown, known = [], []
    for topic in group.topics or ():
        found = image.topics_by_id.get(topic.topic_id)
        if found is None:
            unknown.append(_topic_error(topic, ErrorCode.UNKNOWN_TOPIC_ID))
        else:
            topic.name = found.name
            known.append(topic)
    if group.topics is not None:
        group.topics = known
    return unknown


def _identify(image: MetadataImage, group: OffsetFetchRequestGroup) -> None:
    """Give topics that are requested by name the ids that these names have now."""
    for topic in group.topics or ():
        known = image.topics_by_name.get(topic.name)
        topic.topic_id = ZERO_UUID if known is None else known.id


def _name_ids(image: MetadataImage, answer: OffsetFetchResponseGroup, by_id: bool) -> None:
    """Give all topics of a group their ids. Leave out earlier topics of a name, and by id also
    topics that no longer exist."""
    kept = []
    for topic in answer.topics:
        known = image.topics_by_name.get(topic.name)
        if known is not None and topic.topic_id in (ZERO_UUID, known.id):
            topic.topic_id = known.id
            kept.append(topic)
        elif known is None and not by_id:
            kept.append(topic)
    answer.topics = kept
