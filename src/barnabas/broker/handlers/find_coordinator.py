"""FindCoordinator.

Behaviour: a group's coordinator leads the partition of ``__consumer_offsets`` that the group's name
hashes to. That also holds for the empty name, under which old consumers without a group commit. The
coordinator of a transactional id leads a partition of ``__transaction_state`` in the same way, and
that of a share partition (group, topic id, partition) one of ``__share_group_state``. If the topic
does not exist yet, it is created, and the client gets COORDINATOR_NOT_AVAILABLE and asks again. If
the coordinator was lost a moment ago, the answer waits for its successor (`metadata_hold`).

Version notes: before 4 one key and one answer at the top, whose message is ``NONE`` on success; from 4 on
many keys; from 6 on share partitions.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from barnabas.broker.cluster_view import ClusterView
from barnabas.broker.controller_client.metadata_hold import ASKS_AGAIN_MS, Led
from barnabas.types import OFFSETS_TOPIC, SHARE_STATE_TOPIC, TRANSACTIONS_TOPIC
from barnabas.wire.api_table import ApiKey
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.find_coordinator_request import FindCoordinatorRequest
from barnabas.wire.messages.find_coordinator_response import Coordinator, FindCoordinatorResponse
from barnabas.wire.request import Api, Parked, RequestContext, Working

if TYPE_CHECKING:
    from barnabas.broker.roles import FindCoordinatorRole

GROUP = 0
TRANSACTION = 1
SHARE = 2
SHARE_SINCE = 6
MANY_KEYS_SINCE = 4
SUCCESS = "NONE"
"""The message of a single coordinator that was found. Kafka sends the name of the error code."""
TOPICS = {GROUP: OFFSETS_TOPIC, TRANSACTION: TRANSACTIONS_TOPIC, SHARE: SHARE_STATE_TOPIC}


def error_response(
    request: FindCoordinatorRequest, code: int, message: str
) -> FindCoordinatorResponse:
    if request.coordinator_keys:
        return FindCoordinatorResponse(
            coordinators=[_refused(key, code, message) for key in request.coordinator_keys]
        )
    return FindCoordinatorResponse(error_code=code, error_message=message, node_id=-1, port=-1)


API = Api(
    ApiKey.FIND_COORDINATOR,
    FindCoordinatorRequest,
    error_response,
    "group",
    "describe",
)


def handle(
    request: FindCoordinatorRequest, ctx: RequestContext, broker: FindCoordinatorRole
) -> FindCoordinatorResponse | Parked:
    def answer(parked: Working) -> None:
        parked.complete(respond(request, ctx, broker))

    asked = _asked(request, ctx, broker)
    waiting = broker.metadata_hold.park(asked, ctx.connected_at_ms, answer, ASKS_AGAIN_MS)
    return respond(request, ctx, broker) if waiting is None else waiting


def _asked(
    request: FindCoordinatorRequest, ctx: RequestContext, broker: FindCoordinatorRole
) -> Iterator[Led]:
    """The partitions whose leaders the request asks for."""
    name = TOPICS.get(request.key_type, "")
    topic = broker.image.topics_by_name.get(name)
    if topic is not None:
        keys = request.coordinator_keys if ctx.api_version >= MANY_KEYS_SINCE else [request.key]
        for key in keys:
            index = broker.hashed.partition_for(name, key)
            if topic.has(index):
                yield Led(topic, index)


def respond(
    request: FindCoordinatorRequest, ctx: RequestContext, broker: FindCoordinatorRole
) -> FindCoordinatorResponse:
    """The answer by the present image."""
    if ctx.api_version >= MANY_KEYS_SINCE:
        return FindCoordinatorResponse(
            coordinators=[
                _find(broker, ctx, request.key_type, key) for key in request.coordinator_keys
            ]
        )
    found = _find(broker, ctx, request.key_type, request.key)
    return FindCoordinatorResponse(
        error_code=found.error_code,
        error_message=found.error_message if found.error_code else SUCCESS,
        node_id=found.node_id,
        host=found.host,
        port=found.port,
    )


def _find(broker: FindCoordinatorRole, ctx: RequestContext, key_type: int, key: str) -> Coordinator:
    name = TOPICS.get(key_type)
    if name is None:
        return _refused(key, ErrorCode.INVALID_REQUEST, f"{key_type} is no type of coordinator")
    if key_type == SHARE:
        why = _share_key_fault(key, ctx.api_version)
        if why:
            return _refused(key, ErrorCode.INVALID_REQUEST, why)
    topic = broker.image.topics_by_name.get(name)
    if topic is not None and name in broker.image.incomplete_topics:
        return _not_available(key)  # a key's partition depends on the number of partitions
    if topic is None:
        broker.auto_topics.create_own([name])
        return _not_available(key)
    index = broker.hashed.partition_for(name, key)
    if not topic.has(index):
        return _not_available(key)
    leader = topic.leader[index]
    at = ClusterView(broker.image, ctx.listener).endpoint(leader)
    if at is None:
        return _not_available(key)
    return Coordinator(key=key, node_id=leader, host=at.host, port=at.port, error_message="")


def _share_key_fault(key: str, version: int) -> str:
    """The error message for a share partition's key; empty if the key is valid."""
    from barnabas.share.key import key_from_text

    if version < SHARE_SINCE:
        return f"{SHARE} is no type of coordinator in version {version}"
    try:
        key_from_text(key)
    except ValueError as error:
        return str(error)
    return ""


def _not_available(key: str) -> Coordinator:
    return _refused(key, ErrorCode.COORDINATOR_NOT_AVAILABLE, "The coordinator is not available.")


def _refused(key: str, code: int, message: str) -> Coordinator:
    return Coordinator(
        key=key, node_id=-1, host="", port=-1, error_code=code, error_message=message or None
    )
