"""Authorization of the transaction APIs.

Source: Kafka's KafkaApis and AuthHelper.
"""

from __future__ import annotations

from typing import Any

from barnabas.security.authorization.access_rules import (
    Answer,
    Question,
    amended,
    split,
)
from barnabas.security.authorization.acls import CLUSTER_NAME, AclResourceType, Operation
from barnabas.wire.errors import ErrorCode
from barnabas.wire.schema import Message

TOPIC, GROUP, CLUSTER = AclResourceType.TOPIC, AclResourceType.GROUP, AclResourceType.CLUSTER
TRANSACTIONAL_ID = AclResourceType.TRANSACTIONAL_ID
NOT_ASKED = -2147483648
"""The value of authorized operations that no request asks for."""


def check_add_partitions(question: Question) -> Answer:
    """From version 4 on brokers send it for many transactions; before, a client sends it for one."""
    request = question.request
    if question.ctx.api_version >= 4:
        question.require(Operation.CLUSTER_ACTION, CLUSTER, CLUSTER_NAME)
        return None
    name = request.v3_and_below_transactional_id
    question.require(Operation.WRITE, TRANSACTIONAL_ID, name)
    topics = list(request.v3_and_below_topics)
    left = {t.name for t in topics if not question.may(Operation.WRITE, TOPIC, t.name)}
    if not left:
        return None
    # All or nothing: what is allowed is not attempted.
    response: Any = question.refused(ErrorCode.OPERATION_NOT_ATTEMPTED)
    for topic in response.results_by_topic_v3_and_below:
        if topic.name in left:
            for part in topic.results_by_partition:
                part.partition_error_code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert isinstance(response, Message)
    return response


def check_write_markers(question: Question) -> None:
    if not question.may_cluster(Operation.ALTER, audited=False):
        question.require(Operation.CLUSTER_ACTION, CLUSTER, CLUSTER_NAME)


def check_list_transactions(question: Question) -> Answer:
    def amend(response: Any) -> Message:
        response.transaction_states = [
            state
            for state in response.transaction_states
            if question.may(
                Operation.DESCRIBE, TRANSACTIONAL_ID, state.transactional_id, audited=False
            )
        ]
        assert isinstance(response, Message)
        return response

    return amend


def check_describe_transactions(question: Question) -> Answer:
    answer = split(
        question,
        Operation.DESCRIBE,
        TRANSACTIONAL_ID,
        "transactional_ids",
        str,
        "transaction_states",
    )
    if isinstance(answer, Message):
        return answer

    def hide(response: Any) -> Message:
        for state in response.transaction_states:
            state.topics = [
                topic
                for topic in state.topics
                if question.may(Operation.DESCRIBE, TOPIC, topic.topic, audited=False)
            ]
        assert isinstance(response, Message)
        return response

    amends = [hide] if answer is None else [hide, answer]
    return lambda response: amended(response, amends)
