"""Who may commit and read offsets of a consumer group.

A member commits at its epoch. It may commit at an older epoch for partitions that it has had since
that epoch: its request may have been under way when its epoch rose (KIP-1251).

Source: ``ConsumerGroup.validateOffsetCommit`` and ``validateOffsetFetch`` of Apache Kafka 4.3.
"""

from __future__ import annotations

from collections.abc import Iterable

from barnabas.group.consumer.consumer_group import ConsumerGroup
from barnabas.group.consumer.member import ConsumerMember
from barnabas.types import Uuid
from barnabas.wire.errors import ErrorCode, KafkaError

MEMBER_EPOCH_VERSION = 9


def check_commit(
    group: ConsumerGroup,
    member_id: str,
    epoch: int,
    api_version: int,
    places: Iterable[tuple[Uuid, int]],
    *,
    transactional: bool = False,
) -> None:
    """Raises UNKNOWN_MEMBER_ID, STALE_MEMBER_EPOCH (ILLEGAL_GENERATION for members of the classic
    protocol), UNSUPPORTED_VERSION. `places` are the partitions of the commit: topic id and
    index."""
    if epoch < 0 and group.is_empty:
        return
    if transactional and epoch == -1 and not member_id:
        return
    member = group.member(member_id)
    classic = member.uses_classic_protocol
    if not (transactional or classic) and api_version < MEMBER_EPOCH_VERSION:
        raise KafkaError(
            ErrorCode.UNSUPPORTED_VERSION,
            "OffsetCommit version 9 or above must be used by members using the consumer group"
            " protocol",
        )
    if epoch == member.epoch:
        return
    if epoch > member.epoch:
        raise _stale(member, f"epoch {epoch} is newer than the member's, {member.epoch}")
    for topic_id, partition in places:
        since = member.assignment_epoch(topic_id, partition)
        if since is None:
            raise _stale(member, f"partition {partition} of {topic_id.hex()} is not assigned to it")
        if epoch < since:
            raise _stale(
                member, f"epoch {epoch} is older than the assignment's, {since}, of {partition}"
            )


def check_fetch(group: ConsumerGroup, member_id: str | None, epoch: int, *, newest: bool) -> None:
    """Raises UNKNOWN_MEMBER_ID, STALE_MEMBER_EPOCH, ILLEGAL_GENERATION."""
    if member_id is None and epoch < 0:
        return
    find = group.members.get if newest else group.members.committed
    member = find(member_id or "")
    if member is None:
        raise KafkaError(
            ErrorCode.UNKNOWN_MEMBER_ID,
            f"Member {member_id} is not a member of group {group.group_id}.",
        )
    if epoch != member.epoch:
        raise _stale(member, f"epoch {epoch} is not the member's, {member.epoch}")


def _stale(member: ConsumerMember, why: str) -> KafkaError:
    classic = member.uses_classic_protocol
    code = ErrorCode.ILLEGAL_GENERATION if classic else ErrorCode.STALE_MEMBER_EPOCH
    return KafkaError(code, f"member {member.member_id}: {why}")
