"""Offsets of partitions (earliest, latest, by time) and of groups (committed).

`list_offsets` asks each leader once for all its partitions and repeats what failed for a reason
that passes. A commit carries the member and generation that make it legitimate.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from barnabas.client.client import (
    API_TIMEOUT_MS,
    ATTEMPT_TIMEOUT_MS,
    GROUP,
    Client,
    may_pass,
    raise_for,
)
from barnabas.client.network import legacy_requests
from barnabas.client.network.backoff import BACKOFF_MS
from barnabas.client.network.channels import ChannelError
from barnabas.types import TopicPartition, by_topic
from barnabas.wire.errors import ErrorCode, KafkaError, code_of
from barnabas.wire.messages.list_offsets_request import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from barnabas.wire.messages.list_offsets_response import ListOffsetsResponse
from barnabas.wire.messages.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from barnabas.wire.messages.offset_fetch_request import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from barnabas.wire.messages.offset_fetch_response import OffsetFetchResponseTopics

LATEST, EARLIEST = -1, -2
"""Timestamps that mean an end of the log."""


class OffsetAndTimestamp(NamedTuple):
    """An answer of ListOffsets; both -1 where there is no record at or after the time asked."""

    offset: int
    timestamp_ms: int
    leader_epoch: int = -1


class CommittedOffset(NamedTuple):
    offset: int
    leader_epoch: int = -1
    metadata: str = ""


class GroupIdentity(NamedTuple):
    """Who commits: outside of a group's membership generation -1 and no member."""

    group_id: str
    generation: int = -1
    member_id: str = ""
    instance_id: str | None = None


async def list_offsets(
    client: Client,
    wanted: Mapping[TopicPartition, int],
    *,
    read_committed: bool = False,
    timeout_ms: float = API_TIMEOUT_MS,
) -> dict[TopicPartition, OffsetAndTimestamp]:
    """The offset for each partition's timestamp (`LATEST`, `EARLIEST` or a time in ms).
    Raises `KafkaError` or `ChannelError` where a partition cannot be asked in time."""
    found: dict[TopicPartition, OffsetAndTimestamp] = {}

    async def attempt() -> None:
        left = {tp: stamp for tp, stamp in wanted.items() if tp not in found}
        await client.cluster.ensure({tp.topic: None for tp in left})
        by_leader: dict[int, dict[TopicPartition, int]] = {}
        for tp, stamp in left.items():
            leader = client.cluster.leader(tp)
            if leader is None:
                await client.cluster.refresh([tp.topic])
                client.cluster.require(tp.topic)
                raise KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, f"{tp} has no leader")
            by_leader.setdefault(leader, {})[tp] = stamp
        for leader in sorted(by_leader):
            asked = by_leader[leader]
            try:
                refused = await _ask_leader(
                    client, leader, asked, read_committed, found, timeout_ms
                )
            except ChannelError:
                await client.cluster.refresh(topics_of(asked))
                raise
            for tp, code in reversed(refused.items()):
                await client.cluster.refresh(topics_of(asked))
                raise KafkaError(code, f"{tp} at broker {leader}")

    await client.retry(attempt, timeout_ms=timeout_ms)
    return {tp: found[tp] for tp in wanted}


async def existing_offsets(
    client: Client,
    wanted: Mapping[TopicPartition, int],
    *,
    read_committed: bool = False,
    timeout_ms: float = API_TIMEOUT_MS,
    attempt_timeout_ms: float = ATTEMPT_TIMEOUT_MS,
) -> dict[TopicPartition, OffsetAndTimestamp]:
    """The offsets of `list_offsets`, asked of all leaders at once, without the partitions that do not exist.
    Some brokers' metadata lags behind a creation or a deletion: only a second "unknown" is believed."""
    deadline_ms = client.now_ms() + timeout_ms
    found: dict[TopicPartition, OffsetAndTimestamp] = {}
    unknown: Counter[TopicPartition] = Counter()

    async def ask(leader: int, asked: Mapping[TopicPartition, int]) -> Exception | None:
        try:
            refused = await _ask_leader(
                client, leader, asked, read_committed, found, attempt_timeout_ms
            )
        except (ChannelError, KafkaError) as error:
            return error
        failure: Exception | None = None
        for tp, code in refused.items():
            if code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                unknown[tp] += 1
            else:
                failure = KafkaError(code, f"offsets of {tp}")
        return failure

    async def attempt() -> None:
        left = {tp: stamp for tp, stamp in wanted.items() if tp not in found and unknown[tp] < 2}
        left_ms = max(deadline_ms - client.now_ms(), BACKOFF_MS)
        await client.cluster.ensure(topics_of(left), timeout_ms=left_ms)
        by_leader, leaderless = _led(client, left, unknown)
        failures = await client.tasks.gather([ask(*one) for one in by_leader.items()])
        left = {tp: stamp for tp, stamp in left.items() if tp not in found and unknown[tp] < 2}
        for name in topics_of(left):
            client.cluster.forget(name)
        errors = [error for error in failures if error is not None]
        if errors:
            raise min(errors, key=may_pass)
        for tp in left:
            code = ErrorCode.LEADER_NOT_AVAILABLE
            if tp not in leaderless:
                code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            raise KafkaError(code, f"offsets of {tp}")

    await client.retry(attempt, timeout_ms=timeout_ms)
    return found


def _led(
    client: Client, wanted: Mapping[TopicPartition, int], unknown: Counter[TopicPartition]
) -> tuple[dict[int, dict[TopicPartition, int]], set[TopicPartition]]:
    """`wanted` by leader, and the partitions without one. Counts those that do not exist. Raises the
    `KafkaError` of a topic that may not be asked for."""
    by_leader: dict[int, dict[TopicPartition, int]] = {}
    leaderless: set[TopicPartition] = set()
    for tp, stamp in wanted.items():
        topic = client.cluster.topics.get(tp.topic)
        if topic is not None and topic.error and not KafkaError(topic.error).retriable:
            raise KafkaError(topic.error, f"topic {tp.topic!r}")
        leader = client.cluster.leader(tp)
        if leader is not None:
            by_leader.setdefault(leader, {})[tp] = stamp
        elif topic is None or tp.partition not in topic.partitions:
            unknown[tp] += 1
        else:
            leaderless.add(tp)
    return by_leader, leaderless


async def _ask_leader(
    client: Client,
    leader: int,
    wanted: Mapping[TopicPartition, int],
    read_committed: bool,
    found: dict[TopicPartition, OffsetAndTimestamp],
    timeout_ms: float,
) -> dict[TopicPartition, ErrorCode]:
    """Fill in `found`; what the leader refuses, or leaves out, is returned. Raises `ChannelError`."""

    def named(tp: TopicPartition, stamp: int) -> ListOffsetsPartition:
        view = client.cluster.partition(tp)
        return ListOffsetsPartition(
            partition_index=tp.partition,
            current_leader_epoch=-1 if view is None else view.leader_epoch,
            timestamp=stamp,
        )

    topics = by_topic((tp.topic, named(tp, stamp)) for tp, stamp in wanted.items())
    request = ListOffsetsRequest(
        replica_id=-1,
        isolation_level=int(read_committed),
        topics=[ListOffsetsTopic(name=name, partitions=parts) for name, parts in topics.items()],
        timeout_ms=30_000,
    )
    response: ListOffsetsResponse = await client.ask_node(
        leader, request, timeout_ms=min(timeout_ms, ATTEMPT_TIMEOUT_MS), purpose="offsets"
    )
    refused = dict.fromkeys(wanted, ErrorCode.UNKNOWN_TOPIC_ID)
    for topic in response.topics:
        for partition in topic.partitions:
            tp = TopicPartition(topic.name, partition.partition_index)
            refused.pop(tp, None)
            if partition.error_code:
                refused[tp] = code_of(partition.error_code)
                if partition.error_code == ErrorCode.UNKNOWN_LEADER_EPOCH:
                    client.cluster.doubt_epoch(tp)
            else:
                found[tp] = OffsetAndTimestamp(
                    partition.offset, partition.timestamp, partition.leader_epoch
                )
    return refused


async def commit(
    client: Client,
    who: GroupIdentity,
    offsets: Mapping[TopicPartition, CommittedOffset],
    *,
    timeout_ms: float = API_TIMEOUT_MS,
) -> None:
    """Commit for a group, each partition once: retries for other partitions must not undo a later commit by
    another client. Raises the `KafkaError` of a partition that was refused."""
    left = dict(offsets)
    await client.cluster.ensure({tp.topic: None for tp in left})

    def request() -> OffsetCommitRequest:
        topics = by_topic(
            (
                tp.topic,
                OffsetCommitRequestPartition(
                    partition_index=tp.partition,
                    committed_offset=committed.offset,
                    committed_leader_epoch=committed.leader_epoch,
                    committed_metadata=committed.metadata,
                ),
            )
            for tp, committed in left.items()
        )
        return OffsetCommitRequest(
            group_id=who.group_id,
            generation_id_or_member_epoch=who.generation,
            member_id=who.member_id,
            group_instance_id=who.instance_id,
            topics=[
                OffsetCommitRequestTopic(
                    name=name, topic_id=client.cluster.topic_id(name), partitions=parts
                )
                for name, parts in topics.items()
            ],
        )

    def check(response: Any) -> None:
        refused: KafkaError | None = None
        for topic in response.topics:
            name = topic.name or client.cluster.name_of(topic.topic_id)
            for partition in topic.partitions:
                if not partition.error_code:
                    left.pop(TopicPartition(name or "", partition.partition_index), None)
                elif refused is None or refused.retriable:
                    learn_id(client, partition.error_code, topics_of(left))
                    text = f"commit of group {who.group_id}"
                    refused = KafkaError(code_of(partition.error_code), text)
        if refused is None and left:
            refused = not_answered_for(left, f"commit of group {who.group_id}")
        if refused is not None:
            raise refused

    await client.ask_coordinator(GROUP, who.group_id, request, check, timeout_ms=timeout_ms)


async def committed_offsets(
    client: Client,
    group_id: str,
    partitions: Iterable[TopicPartition] | None = None,
    *,
    who: GroupIdentity | None = None,
    timeout_ms: float = API_TIMEOUT_MS,
) -> dict[TopicPartition, CommittedOffset]:
    """The offsets that a group has committed for `partitions` (None: for all); those without are left out."""
    wanted = None if partitions is None else list(partitions)
    if wanted is not None:
        await client.cluster.ensure({tp.topic: None for tp in wanted})

    def request() -> OffsetFetchRequest:
        group = OffsetFetchRequestGroup(group_id=group_id, topics=_topics(client, wanted))
        if who is not None:
            group.member_id, group.member_epoch = who.member_id, who.generation
        return legacy_requests.fetch_offsets(client.newest, group)

    def check(response: Any) -> None:
        group = legacy_requests.offsets_of(response, group_id)
        raise_for(group.error_code, f"offsets of group {group_id}")
        for topic in group.topics:
            for partition in topic.partitions:
                learn_id(client, partition.error_code, topics_of(wanted or ()))
                raise_for(partition.error_code, f"offsets of group {group_id}")
        if (count := sum(len(topic.partitions) for topic in group.topics)) < len(wanted or ()):
            raise KafkaError(
                ErrorCode.UNKNOWN_TOPIC_ID, f"{count} of {len(wanted or ())} offsets of {group_id}"
            )

    response = await client.ask_coordinator(GROUP, group_id, request, check, timeout_ms=timeout_ms)
    topics = legacy_requests.offsets_of(response, group_id).topics
    await _learn_names(client, topics)
    found: dict[TopicPartition, CommittedOffset] = {}
    for topic in topics:
        name = topic.name or client.cluster.name_of(topic.topic_id)
        for partition in topic.partitions:
            if name is not None and partition.committed_offset >= 0:
                found[TopicPartition(name, partition.partition_index)] = CommittedOffset(
                    partition.committed_offset,
                    partition.committed_leader_epoch,
                    partition.metadata or "",
                )
    return found


def not_answered_for(left: Iterable[TopicPartition], what: str) -> KafkaError:
    """The failure of partitions that an answer leaves out: it may pass, as the broker did not refuse them."""
    return KafkaError(ErrorCode.UNKNOWN_TOPIC_ID, f"{what}: no answer for {min(left)}")


def topics_of(partitions: Iterable[TopicPartition]) -> list[str]:
    return list(dict.fromkeys(tp.topic for tp in partitions))


def learn_id(client: Client, code: int, names: list[str]) -> None:
    """A recreated topic has another id, which the next attempt must send."""
    if code == ErrorCode.UNKNOWN_TOPIC_ID:
        client.tasks.start(_refresh(client, names))


async def _refresh(client: Client, names: list[str]) -> None:
    try:
        await client.cluster.refresh(names)
    except ChannelError as error:
        client.ports.log("debug", "consumer.no_metadata", error=str(error))


async def _learn_names(client: Client, topics: Iterable[OffsetFetchResponseTopics]) -> None:
    """Version 10 names topics by id only."""
    if any(not t.name and client.cluster.name_of(t.topic_id) is None for t in topics):
        await client.cluster.refresh(every=True)


def _topics(
    client: Client, partitions: list[TopicPartition] | None
) -> list[OffsetFetchRequestTopics] | None:
    if partitions is None:
        return None
    return [
        OffsetFetchRequestTopics(
            name=name, topic_id=client.cluster.topic_id(name), partition_indexes=indexes
        )
        for name, indexes in by_topic(partitions).items()
    ]
