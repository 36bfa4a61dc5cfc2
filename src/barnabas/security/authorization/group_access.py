"""Authorization of the group APIs: groups, and the topics in their answers.

Source: Kafka's KafkaApis and AuthHelper.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from barnabas.security.authorization.access_rules import (
    Answer,
    Question,
    adding,
    amended,
    split,
)
from barnabas.security.authorization.acls import CLUSTER_NAME, AclResourceType, Operation
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages import offset_delete_response as deleted
from barnabas.wire.messages import offset_fetch_response as fetched
from barnabas.wire.schema import Message

TOPIC, GROUP, CLUSTER = AclResourceType.TOPIC, AclResourceType.GROUP, AclResourceType.CLUSTER
TRANSACTIONAL_ID = AclResourceType.TRANSACTIONAL_ID
NOT_ASKED = -2147483648
"""The value of authorized operations that no request asks for."""
HIDDEN_TOPICS = "The group has described topic(s) that the client is not authorized to describe."


def check_find_coordinator(question: Question) -> Answer:
    request = question.request
    kinds = {0: GROUP, 1: TRANSACTIONAL_ID}
    kind = kinds.get(request.key_type)
    if kind is None:
        if request.key_type == 2:
            question.require(Operation.CLUSTER_ACTION, CLUSTER, CLUSTER_NAME)
        return None
    if not request.coordinator_keys:
        if question.ctx.api_version < 4:
            question.require(Operation.DESCRIBE, kind, request.key)
        return None
    return split(question, Operation.DESCRIBE, kind, "coordinator_keys", str, "coordinators")


def check_offset_fetch(question: Question) -> Answer:
    request = question.request
    if question.ctx.api_version < 8:
        question.require(Operation.DESCRIBE, GROUP, request.group_id)
        if request.topics is None:
            return lambda response: _describable_offsets(question, response)
        return split(
            question, Operation.DESCRIBE, TOPIC, "topics", lambda topic: topic.name, "topics"
        )
    amends: list[Callable[[Message], Message]] = []
    allowed: list[Any] = []
    refused: list[Any] = []
    for group in request.groups:
        if not question.may(Operation.DESCRIBE, GROUP, group.group_id):
            refused.append(
                fetched.OffsetFetchResponseGroup(
                    group_id=group.group_id, error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED
                )
            )
            continue
        allowed.append(group)
        if group.topics is None:
            amends.append(_describable_group(question, group.group_id))
            continue
        topics: list[Any] = []
        hidden: list[Any] = []
        for topic in group.topics:
            name = question.topic_name(topic, topic.name)
            may = name is None or question.may(Operation.DESCRIBE, TOPIC, name)
            (topics if may else hidden).append(topic)
        if hidden:
            group.topics = topics
            amends.append(_hidden_offsets(group.group_id, hidden))
    if refused:
        request.groups = allowed
        if not allowed:
            return fetched.OffsetFetchResponse(groups=refused)
        amends.append(adding("groups", refused))
    return (lambda response: amended(response, amends)) if amends else None


def _describable_offsets(question: Question, container: Any) -> Any:
    container.topics = [
        topic
        for topic in container.topics
        if (name := question.topic_name(topic, topic.name)) is not None
        and question.may(Operation.DESCRIBE, TOPIC, name, audited=False)
    ]
    return container


def _describable_group(question: Question, group_id: str) -> Callable[[Message], Message]:
    def amend(response: Any) -> Message:
        for group in response.groups:
            if group.group_id == group_id:
                _describable_offsets(question, group)
        assert isinstance(response, Message)
        return response

    return amend


def _hidden_offsets(group_id: str, topics: list[Any]) -> Callable[[Message], Message]:
    more = [
        fetched.OffsetFetchResponseTopics(
            name=topic.name,
            topic_id=topic.topic_id,
            partitions=[
                fetched.OffsetFetchResponsePartitions(
                    partition_index=index,
                    committed_offset=-1,
                    error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED,
                )
                for index in topic.partition_indexes
            ],
        )
        for topic in topics
    ]

    def amend(response: Any) -> Message:
        for group in response.groups:
            if group.group_id == group_id and not group.error_code:
                group.topics = [*group.topics, *more]
        assert isinstance(response, Message)
        return response

    return amend


def check_offset_delete(question: Question) -> Answer:
    """Delete on the group is needed. Topics that may not be read are refused by partition."""
    request = question.request
    question.require(Operation.DELETE, GROUP, request.group_id)
    allowed: list[Any] = []
    refused: list[Any] = []
    for topic in request.topics:
        if question.may(Operation.READ, TOPIC, topic.name):
            allowed.append(topic)
        else:
            code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            refused.append(
                deleted.OffsetDeleteResponseTopic(
                    name=topic.name,
                    partitions=[
                        deleted.OffsetDeleteResponsePartition(
                            partition_index=part.partition_index, error_code=code
                        )
                        for part in topic.partitions
                    ],
                )
            )
    if not refused:
        return None
    if not allowed:
        return deleted.OffsetDeleteResponse(topics=refused)
    request.topics = allowed
    return adding("topics", refused)


def check_list_groups(question: Question) -> Answer:
    if question.may_cluster(Operation.DESCRIBE, audited=False):
        return None

    def amend(response: Any) -> Message:
        response.groups = [
            group
            for group in response.groups
            if question.may(Operation.DESCRIBE, GROUP, group.group_id, audited=False)
        ]
        assert isinstance(response, Message)
        return response

    return amend


def check_group_operations(question: Question) -> Answer:
    def amend(response: Any) -> Message:
        for group in response.groups:
            if group.authorized_operations != NOT_ASKED:
                group.authorized_operations = question.authorizer.operations(
                    question.ctx, GROUP, group.group_id
                )
        assert isinstance(response, Message)
        return response

    return amend


def check_group_heartbeat(question: Question) -> None:
    """Read on the group, and Describe on every topic that the subscription names, are needed."""
    request = question.request
    question.require(Operation.READ, GROUP, request.group_id)
    for name in request.subscribed_topic_names or ():
        question.require(Operation.DESCRIBE, TOPIC, name)


def check_group_describe(question: Question) -> Answer:
    """A group with an assigned topic that the principal may not describe is answered with an error."""
    return check_groups_described(question, _assigned_topics, HIDDEN_TOPICS)


def _assigned_topics(group: Any) -> set[str]:
    return {
        topic.topic_name
        for member in group.members
        for assigned in (member.assignment, getattr(member, "target_assignment", None))
        if assigned is not None
        for topic in assigned.topic_partitions
    }


def check_groups_described(
    question: Question, topics_of: Callable[[Any], set[str]], why: str
) -> Answer:
    """Describe on each group. One with a topic that the principal may not describe is answered with the error
    `why`."""
    answer = split(question, Operation.DESCRIBE, GROUP, "group_ids", str, "groups")
    if isinstance(answer, Message):
        return answer
    operations = check_group_operations(question)
    assert operations is not None and not isinstance(operations, Message)

    def hide(response: Any) -> Message:
        for at, group in enumerate(response.groups):
            named = sorted(topics_of(group))
            if not all(question.may(Operation.DESCRIBE, TOPIC, name) for name in named):
                response.groups[at] = type(group)(  # its state is left out too
                    group_id=group.group_id,
                    error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED,
                    error_message=why,
                )
        assert isinstance(response, Message)
        return response

    amends = [operations, hide] if answer is None else [operations, hide, answer]
    return lambda response: amended(response, amends)
