"""Checks of the APIs that are about data, topics and the cluster.

Source: Kafka's KafkaApis and AuthHelper.
"""

from __future__ import annotations

from typing import Any

from barnabas.security.authorization.access_rules import (
    Amend,
    Answer,
    Question,
    adding,
    amended,
    copy_with,
    denied,
    split,
)
from barnabas.security.authorization.acls import CLUSTER_NAME, AclResourceType, Operation
from barnabas.types import ZERO_UUID
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.describe_cluster_request import DescribeClusterRequest
from barnabas.wire.messages.fetch_response import FetchResponse
from barnabas.wire.messages.metadata_response import MetadataResponseTopic
from barnabas.wire.schema import Message

TOPIC, GROUP, CLUSTER = AclResourceType.TOPIC, AclResourceType.GROUP, AclResourceType.CLUSTER
TRANSACTIONAL_ID = AclResourceType.TRANSACTIONAL_ID
NOT_ASKED = -2147483648
"""The value of authorized operations that no request asks for."""
_ATTRIBUTES_AT = 22
"""The byte of a batch that says whether it belongs to a transaction."""
_TRANSACTIONAL = 0x10


def check_produce(question: Question) -> Answer:
    request = question.request
    for topic in request.topic_data:
        for part in topic.partition_data:
            records = part.records
            if (
                records
                and len(records) > _ATTRIBUTES_AT
                and records[_ATTRIBUTES_AT] & _TRANSACTIONAL
            ):
                name = request.transactional_id
                if name is None:
                    raise denied(TRANSACTIONAL_ID)
                question.require(Operation.WRITE, TRANSACTIONAL_ID, name)
                break

    def name_of(topic: Any) -> str | None:
        return question.topic_name(topic, topic.name)

    if request.acks:
        return split(question, Operation.WRITE, TOPIC, "topic_data", name_of, "responses")
    for topic in request.topic_data:
        name = name_of(topic)
        if name is not None:  # there is no answer: the connection ends
            question.require(Operation.WRITE, TOPIC, name)
    return None


def check_fetch(question: Question) -> Answer:
    """Consumers are judged partition by partition, where the session is looked at (`FetchService`)."""
    request = question.request
    if max(request.replica_id, request.replica_state.replica_id) < 0:
        return None
    if question.may_cluster(Operation.CLUSTER_ACTION):
        return None
    refused = question.refused(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    assert isinstance(refused, FetchResponse)
    refused.error_code = ErrorCode.NONE
    return refused


def check_init_producer_id(question: Question) -> None:
    request = question.request
    if request.transactional_id is not None:
        question.require(Operation.WRITE, TRANSACTIONAL_ID, request.transactional_id)
        if getattr(request, "enable2_pc", False):
            question.require(Operation.TWO_PHASE_COMMIT, TRANSACTIONAL_ID, request.transactional_id)
        return
    if question.may_cluster(Operation.IDEMPOTENT_WRITE, audited=False):
        return
    if not question.authorizer.may_on_any(question.ctx, Operation.WRITE, TOPIC):
        question.require(Operation.IDEMPOTENT_WRITE, CLUSTER, CLUSTER_NAME)


def check_metadata(question: Question) -> Answer:
    """Topics that may not be described are named in no answer but to who named them; that a topic does not
    exist only those learn who may describe it."""
    request, version = question.request, question.ctx.api_version
    if request.topics is None or (version == 0 and not request.topics):
        return lambda response: _visible(question, response)
    allowed: list[Any] = []
    refused: list[Any] = []
    for asked in request.topics:
        name = question.topic_name(asked, asked.name)
        if name is not None and not question.may(Operation.DESCRIBE, TOPIC, name):
            # Ids are no secret, names are.
            by_id = not asked.name
            refused.append(_hidden(None if by_id else name, asked.topic_id if by_id else ZERO_UUID))
        elif name is not None and not _may_exist(question, name):
            refused.append(_hidden(name, ZERO_UUID))
        else:
            allowed.append(asked)
    if not refused:
        return lambda response: _visible(question, response)
    # No topics at all: null would mean all of them, as an empty list does in version 0.
    if not allowed and version == 0:
        asked = copy_with(request.topics[0], name="")
        request.topics = [asked]
        return lambda response: _only(response, refused)
    request.topics = allowed
    add = adding("topics", refused)
    return lambda response: add(_visible(question, response))


def _may_exist(question: Question, name: str) -> bool:
    """Whether a topic exists, or need not be created, or may be."""
    if not question.request.allow_auto_topic_creation or name in question.image.topics_by_name:
        return True
    return question.may_cluster(Operation.CREATE, audited=False) or question.may(
        Operation.CREATE, TOPIC, name
    )


def _hidden(name: str | None, topic_id: Any) -> MetadataResponseTopic:
    return MetadataResponseTopic(
        error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED, name=name, topic_id=topic_id
    )


def _only(response: Any, topics: list[MetadataResponseTopic]) -> Message:
    response.topics = topics
    assert isinstance(response, Message)
    return response


def _visible(question: Question, response: Any) -> Message:
    """All topics that may be described, and what may be done with them and the cluster."""
    topics = []
    for topic in response.topics:
        if topic.name is not None and not topic.error_code:
            if not question.may(Operation.DESCRIBE, TOPIC, topic.name, audited=False):
                continue
            if getattr(topic, "topic_authorized_operations", NOT_ASKED) != NOT_ASKED:
                topic.topic_authorized_operations = question.authorizer.operations(
                    question.ctx, TOPIC, topic.name
                )
        topics.append(topic)
    response.topics = topics
    return _cluster_operations(question, response)


def _cluster_operations(question: Question, response: Any) -> Message:
    if getattr(response, "cluster_authorized_operations", NOT_ASKED) != NOT_ASKED:
        response.cluster_authorized_operations = (
            question.authorizer.operations(question.ctx, CLUSTER, CLUSTER_NAME)
            if question.may_cluster(Operation.DESCRIBE, audited=False)
            else 0
        )
    assert isinstance(response, Message)
    return response


def check_describe_cluster(question: Question) -> Answer:
    """Check DescribeCluster. What controllers did and refused names topics: it is for those who may describe
    the cluster."""
    request, default = question.request, DescribeClusterRequest()
    asked = (
        request.events_after != default.events_after
        or request.refusals_after != default.refusals_after
        or request.states_of
    )
    if asked and not question.may_cluster(Operation.DESCRIBE):
        request.events_after = default.events_after
        request.refusals_after = default.refusals_after
        request.states_of = default.states_of
    return lambda response: _cluster_operations(question, response)


def check_describe_topic_partitions(question: Question) -> Answer:
    request = question.request
    first: list[Amend] = []
    if request.topics:
        answer = split(
            question, Operation.DESCRIBE, TOPIC, "topics", lambda topic: topic.name, "topics"
        )
        if isinstance(answer, Message):
            return answer
        if answer is not None:
            first.append(answer)
    return lambda response: amended(response, [lambda r: _visible(question, r), *first])
