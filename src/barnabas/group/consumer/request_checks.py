"""Checks a ConsumerGroupHeartbeat for faults that do not depend on the group.

Source: ``GroupCoordinatorService.throwIfConsumerGroupHeartbeatRequestIsInvalid`` of Apache Kafka 4.3.
"""

from __future__ import annotations

from collections.abc import Sequence

from barnabas.group.consumer.member import JOIN_EPOCH, LEAVE_STATIC_EPOCH
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.messages.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest

MEMBER_ID_VERSION = 1
"""From this version on clients generate their member ids (KIP-1082)."""


def check_request(
    request: ConsumerGroupHeartbeatRequest, version: int, assignors: Sequence[str]
) -> None:
    """Raises INVALID_REQUEST, UNSUPPORTED_ASSIGNOR."""
    if version >= MEMBER_ID_VERSION or request.member_epoch != JOIN_EPOCH:
        _check_given(request.member_id, "MemberId")
    _check_given(request.group_id, "GroupId")
    for value, name in ((request.instance_id, "InstanceId"), (request.rack_id, "RackId")):
        if value is not None:
            _check_given(value, name)
    if request.member_epoch == JOIN_EPOCH:
        _check_first(request)
    elif request.member_epoch == LEAVE_STATIC_EPOCH and request.instance_id is None:
        raise _invalid("InstanceId can't be null.")
    elif request.member_epoch < LEAVE_STATIC_EPOCH:
        raise _invalid(f"MemberEpoch is {request.member_epoch}, but must be at least -2.")
    assignor = request.server_assignor
    if assignor is not None and assignor not in assignors:
        raise KafkaError(
            ErrorCode.UNSUPPORTED_ASSIGNOR,
            f"ServerAssignor {assignor} is not supported. Supported assignors:"
            f" {', '.join(assignors)}.",
        )


def _check_first(request: ConsumerGroupHeartbeatRequest) -> None:
    if request.rebalance_timeout_ms == -1:
        raise _invalid("RebalanceTimeoutMs must be provided in first request.")
    if request.topic_partitions is None or len(request.topic_partitions):
        raise _invalid("TopicPartitions must be empty when (re-)joining.")
    if request.subscribed_topic_names is None and not request.subscribed_topic_regex:
        raise _invalid(
            "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining."
        )


def _check_given(value: str, name: str) -> None:
    if not value.strip():
        raise _invalid(f"{name} can't be empty.")


def _invalid(why: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, why)
