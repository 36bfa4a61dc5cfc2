"""ShareAcknowledge.

Behaviour: a member of a share group accepts, releases or rejects records that it holds, or renews
its locks (KIP-932, KIP-1222). Each partition has its own error; the answer follows when all
acknowledgements are written. Epoch -1 ends the share session and releases what the member still
holds. UNSUPPORTED_VERSION if ``share.version`` is 0.

Version notes: 1 is the first that Kafka 4.1 and later serve; 2 can renew locks.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from barnabas.broker.leader_hints import LEADERSHIP, add_share_leaders
from barnabas.broker.roles import ShareRole
from barnabas.broker.share.share_groups import ShareGroups
from barnabas.broker.share.share_sessions import Member, Place
from barnabas.broker.share.told import RENEWS_SINCE, Outcome, check_member, told_of
from barnabas.replication.sessions import FINAL_EPOCH, INITIAL_EPOCH
from barnabas.security.authorization.topic_reader import TopicReader
from barnabas.types import Uuid
from barnabas.wire.api_table import ApiKey
from barnabas.wire.error_responses import top_level_error
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.messages.share_acknowledge_request import ShareAcknowledgeRequest
from barnabas.wire.messages.share_acknowledge_response import (
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
    ShareAcknowledgeResponse,
    ShareAcknowledgeTopicResponse,
)
from barnabas.wire.request import Api, Parked, RequestContext

error_response = top_level_error(ShareAcknowledgeResponse)

API = Api(ApiKey.SHARE_ACKNOWLEDGE, ShareAcknowledgeRequest, error_response, "group", "read")


def handle(request: ShareAcknowledgeRequest, ctx: RequestContext, broker: ShareRole) -> Parked:
    shares = broker.shares.open()
    if not shares.is_enabled:
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, "")
    check_member(request.group_id, request.member_id)
    member = Member(request.group_id or "", request.member_id or "")
    epoch = request.share_session_epoch
    if epoch == INITIAL_EPOCH:
        raise KafkaError(
            ErrorCode.INVALID_SHARE_SESSION_EPOCH, "The share session epoch is invalid."
        )
    session = shares.fetches.sessions.continue_from(member, epoch)
    renews = ctx.api_version >= RENEWS_SINCE and request.is_renew_ack
    most = partial(shares.fetches.told_most, member)
    told, outcome = told_of(request.topics, ctx.api_version, most, renews=renews)
    for topic in request.topics:
        for partition in topic.partitions:
            place = (topic.topic_id, partition.partition_index)
            error = _refusal(broker, ctx, place)
            if error is not None:
                told.pop(place, None)
                outcome[place] = error
            elif place not in told:
                outcome.setdefault(place, None)
    parked = Parked()

    def done(acknowledged: Outcome) -> None:
        if epoch == FINAL_EPOCH and shares.fetches.sessions.end(session):
            shares.fetches.release(session)
        parked.complete(_response(broker, shares, ctx, member, {**outcome, **acknowledged}))

    shares.fetches.acknowledge(member, told, done)
    return parked


def _refusal(broker: ShareRole, ctx: RequestContext, place: Place) -> KafkaError | None:
    topic = broker.image.topics_by_id.get(place[0])
    if topic is None:
        return KafkaError(ErrorCode.UNKNOWN_TOPIC_ID, "The topic id is not known.")
    if not topic.has(place[1]):
        return KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "No such partition.")
    try:
        if broker.authorizer is not None:
            TopicReader(broker.authorizer, ctx).check(place[0])
    except KafkaError as error:
        return error
    return None


def _response(
    broker: ShareRole, shares: ShareGroups, ctx: RequestContext, member: Member, outcome: Outcome
) -> ShareAcknowledgeResponse:
    topics: dict[Uuid, list[Any]] = {}
    for (topic_id, index), error in outcome.items():
        part = PartitionData(partition_index=index)
        if error is not None:
            part.error_code, part.error_message = error.code, error.message or None
        topics.setdefault(topic_id, []).append(part)
    response = ShareAcknowledgeResponse(
        acquisition_lock_timeout_ms=shares.led.limits(member.group_id).lock_ms,
        responses=[
            ShareAcknowledgeTopicResponse(topic_id=topic_id, partitions=partitions)
            for topic_id, partitions in topics.items()
        ],
    )
    if any(error is not None and error.code in LEADERSHIP for error in outcome.values()):
        add_share_leaders(broker, response, ctx.listener, LeaderIdAndEpoch, NodeEndpoint)
    return response
