"""Authorization of the APIs for the offsets of share groups: the group, and the topics that are named.

The classes of the answers are loaded with the first one that is refused. Source: ``KafkaApis`` of Apache
Kafka 4.3, KIP-932.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from barnabas.security.authorization.access_rules import (
    DENIED_CODE,
    DENIED_MESSAGE,
    Answer,
    Question,
    adding,
    amended,
    split,
)
from barnabas.security.authorization.acls import AclResourceType, Operation
from barnabas.wire.schema import Message

TOPIC, GROUP = AclResourceType.TOPIC, AclResourceType.GROUP
CODE, WHY = DENIED_CODE[TOPIC], DENIED_MESSAGE[TOPIC]


def check_describe_offsets(question: Question) -> Answer:
    """Describe on each group; topics that may not be described are refused where they are named, and else
    left out."""
    answer = split(
        question, Operation.DESCRIBE, GROUP, "groups", lambda group: group.group_id, "groups"
    )
    if isinstance(answer, Message):
        return answer
    amends: list[Callable[[Message], Message]] = []
    for group in question.request.groups:
        if group.topics is None:
            amends.append(_described_only(question, group.group_id))
            continue
        allowed, hidden = _split_topics(question, Operation.DESCRIBE, group.topics)
        if hidden:
            group.topics = allowed
            amends.append(_refused_offsets(group.group_id, hidden))
    if answer is not None:
        amends.append(answer)
    return (lambda response: amended(response, amends)) if amends else None


def check_alter_offsets(question: Question) -> Answer:
    """Read on the group; topics that may not be read are refused by partition."""
    request = question.request
    question.require(Operation.READ, GROUP, request.group_id)
    allowed, hidden = _split_topics(question, Operation.READ, request.topics)
    if not hidden:
        return None
    from barnabas.wire.messages import alter_share_group_offsets_response as answers

    request.topics = allowed
    return adding(
        "responses",
        [
            answers.AlterShareGroupOffsetsResponseTopic(
                topic_name=topic.topic_name,
                partitions=[
                    answers.AlterShareGroupOffsetsResponsePartition(
                        partition_index=asked.partition_index, error_code=CODE, error_message=WHY
                    )
                    for asked in topic.partitions
                ],
            )
            for topic in hidden
        ],
    )


def check_delete_offsets(question: Question) -> Answer:
    """Delete on the group; topics that may not be read are refused one by one."""
    request = question.request
    question.require(Operation.DELETE, GROUP, request.group_id)
    allowed, hidden = _split_topics(question, Operation.READ, request.topics)
    if not hidden:
        return None
    from barnabas.wire.messages import delete_share_group_offsets_response as answers

    request.topics = allowed
    return adding(
        "responses",
        [
            answers.DeleteShareGroupOffsetsResponseTopic(
                topic_name=topic.topic_name, error_code=CODE, error_message=WHY
            )
            for topic in hidden
        ],
    )


def _split_topics(
    question: Question, operation: Operation, topics: Any
) -> tuple[list[Any], list[Any]]:
    allowed: list[Any] = []
    hidden: list[Any] = []
    for topic in topics:
        may = question.may(operation, TOPIC, topic.topic_name)
        (allowed if may else hidden).append(topic)
    return allowed, hidden


def _described_only(question: Question, group_id: str) -> Callable[[Message], Message]:
    def amend(response: Any) -> Message:
        for group in response.groups:
            if group.group_id == group_id:
                group.topics = [
                    topic
                    for topic in group.topics
                    if question.may(Operation.DESCRIBE, TOPIC, topic.topic_name, audited=False)
                ]
        assert isinstance(response, Message)
        return response

    return amend


def _refused_offsets(group_id: str, topics: list[Any]) -> Callable[[Message], Message]:
    from barnabas.wire.messages import describe_share_group_offsets_response as answers

    more = [
        answers.DescribeShareGroupOffsetsResponseTopic(
            topic_name=topic.topic_name,
            partitions=[
                answers.DescribeShareGroupOffsetsResponsePartition(
                    partition_index=index, start_offset=-1, error_code=CODE, error_message=WHY
                )
                for index in topic.partitions
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
