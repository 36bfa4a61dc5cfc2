"""Who may commit and read offsets of a streams group.

A member commits at its epoch, or at an older one for tasks that it has had since: its request may have been
on its way while it moved on (KIP-1251).

Source: ``StreamsGroup.validateOffsetCommit`` and ``validateOffsetFetch`` of Apache Kafka 4.4.
"""

from __future__ import annotations

from collections.abc import Iterable

from barnabas.group.streams.member import TaskId
from barnabas.group.streams.streams_group import StreamsGroup
from barnabas.wire.errors import ErrorCode, KafkaError

MEMBER_EPOCH_VERSION = 9


def check_streams_commit(
    group: StreamsGroup,
    member_id: str,
    epoch: int,
    api_version: int,
    places: Iterable[tuple[str, int]],
    *,
    transactional: bool = False,
) -> None:
    """Raises UNKNOWN_MEMBER_ID, STALE_MEMBER_EPOCH, UNSUPPORTED_VERSION. `places` are what is committed:
    topic name and partition."""
    if epoch < 0 and group.is_empty:
        return
    if transactional and epoch == -1 and not member_id:
        return
    member = group.member(member_id)
    if not transactional and api_version < MEMBER_EPOCH_VERSION:
        raise KafkaError(
            ErrorCode.UNSUPPORTED_VERSION,
            "OffsetCommit version 9 or above must be used by members using the streams group protocol",
        )
    if epoch == member.epoch:
        return
    if epoch > member.epoch:
        raise _stale(
            f"Received member epoch {epoch} is newer than current member epoch {member.epoch}."
        )
    topology = group.topology
    for topic, partition in places:
        part = None if topology is None else topology.by_source.get(topic)
        if part is None:
            raise _stale(f"Topic {topic} is not in the topology.")
        since = member.assignment_epoch(TaskId(part.subtopology_id, partition))
        name = f"{part.subtopology_id}-{partition}"
        if since is None:
            raise _stale(f"Task {name} is not assigned or pending revocation for member.")
        if epoch < since:
            raise _stale(
                f"Received member epoch {epoch} is older than assignment epoch {since} for task {name}."
            )


def check_streams_fetch(
    group: StreamsGroup, member_id: str | None, epoch: int, *, newest: bool
) -> None:
    """Raises UNKNOWN_MEMBER_ID, STALE_MEMBER_EPOCH."""
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
        raise _stale(
            f"The received member epoch {epoch} does not match the expected member epoch"
            f" {member.epoch}."
        )


def _stale(why: str) -> KafkaError:
    return KafkaError(ErrorCode.STALE_MEMBER_EPOCH, why)
