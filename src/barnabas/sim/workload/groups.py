"""Groups without members, whose offsets an operator keeps by hand: commits them, deletes some, deletes the
group. What was acknowledged holds, whichever broker coordinates next and however its log was compacted."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any

from barnabas.client import offsets
from barnabas.client.client import GROUP, raise_for
from barnabas.client.consumers.consumer import Consumer, ConsumerSettings
from barnabas.client.consumers.group_member import GroupMemberSettings
from barnabas.client.network.channels import ChannelError
from barnabas.client.network.legacy_requests import Newest
from barnabas.client.offsets import CommittedOffset, GroupIdentity
from barnabas.sim.offset_commits import GONE
from barnabas.types import OFFSETS_TOPIC, TopicPartition
from barnabas.wire.api_table import ApiKey
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.messages.delete_groups_request import DeleteGroupsRequest
from barnabas.wire.messages.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from barnabas.wire.messages.offset_delete_request import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)

if TYPE_CHECKING:
    from barnabas.sim.workload.operator import Operator

REQUEST_TIMEOUT_MS = 5_000.0
OF_OLD: Newest = {ApiKey.OFFSET_COMMIT: 4}
"""The last version by which clients say how long an offset is kept."""


def _group(o: Operator) -> str:
    name = f"{o.name}-group{o.rng.randrange(2)}"
    o.workload.history.commits.by_hand.add(name)
    return name


async def keep_offsets(o: Operator) -> None:
    group, commits = _group(o), o.workload.history.commits
    for _ in range(o.rng.randrange(1, 4)):
        topic, partition = o.any_partition()
        offset = o.rng.randrange(1_000)
        attempts = commits.begin(group, {(topic, partition): offset})
        await offsets.commit(
            o.client,
            GroupIdentity(group),
            {TopicPartition(topic, partition): CommittedOffset(offset)},
            timeout_ms=REQUEST_TIMEOUT_MS,
        )
        commits.acknowledge(attempts)


async def keep_briefly(o: Operator) -> None:
    """A client of old says how long its offsets are to be kept: not long."""
    group, commits = _group(o), o.workload.history.commits
    topic, partition = o.any_partition()
    offset = o.rng.randrange(1_000)
    if o.old_client is None:
        o.old_client = o.workload.cluster.client(f"{o.name} of old", OF_OLD)
    one = OffsetCommitRequestPartition(partition_index=partition, committed_offset=offset)
    request = OffsetCommitRequest(
        group_id=group,
        retention_time_ms=o.rng.choice([1, 300, 3_000]),
        topics=[OffsetCommitRequestTopic(name=topic, partitions=[one])],
    )
    attempts = commits.begin(group, {(topic, partition): offset})

    def check(response: Any) -> None:
        raise_for(response.topics[0].partitions[0].error_code)

    await o.old_client.ask_coordinator(
        GROUP, group, lambda: request, check, timeout_ms=REQUEST_TIMEOUT_MS
    )
    commits.acknowledge(attempts)


async def read_briefly(o: Operator) -> None:
    """A member takes a little and leaves its group, which then has no members."""
    group, commits = f"{o.name}-passing", o.workload.history.commits
    commits.by_hand.add(group)
    settings = ConsumerSettings(auto_offset_reset="earliest", group=GroupMemberSettings())
    consumer = Consumer(o.client, group, settings)
    consumer.subscribe([o.any_partition()[0]])
    await o.client.tasks.sleep(o.rng.uniform(300, 1500))
    positions = {
        tp: offset for tp in consumer.assignment if (offset := consumer.position(tp)) is not None
    }
    places = {(tp.topic, tp.partition): offset for tp, offset in positions.items()}
    attempts = commits.begin(group, places)
    try:
        await consumer.commit(positions)
        commits.acknowledge(attempts)
    except (ChannelError, KafkaError):
        pass  # who else passes by owns it now: it leaves as well
    await consumer.close()


async def delete_offset(o: Operator) -> None:
    group, commits = _group(o), o.workload.history.commits
    places = commits.places(group)
    if not places:
        return
    topic, partition = o.rng.choice(places)
    attempts = commits.begin(group, {(topic, partition): GONE})
    one = OffsetDeleteRequestPartition(partition_index=partition)
    topics = [OffsetDeleteRequestTopic(name=topic, partitions=[one])]

    def check(response: Any) -> None:
        raise_for(response.error_code)
        raise_for(response.topics[0].partitions[0].error_code)

    await o.client.ask_coordinator(
        GROUP,
        group,
        lambda: OffsetDeleteRequest(group_id=group, topics=topics),
        check,
        timeout_ms=REQUEST_TIMEOUT_MS,
    )
    commits.acknowledge(attempts)


async def delete_group(o: Operator) -> None:
    group, commits = _group(o), o.workload.history.commits
    attempts = commits.begin(group, dict.fromkeys(commits.places(group), GONE))

    def check(response: Any) -> None:
        raise_for(response.results[0].error_code)

    await o.client.ask_coordinator(
        GROUP,
        group,
        lambda: DeleteGroupsRequest(groups_names=[group]),
        check,
        timeout_ms=REQUEST_TIMEOUT_MS,
    )
    commits.acknowledge(attempts)


async def remake_offsets_topic(o: Operator) -> None:
    """All groups lose their committed offsets and their members; the next client that looks for a coordinator
    has the topic recreated."""
    cluster, history = o.workload.cluster, o.workload.history
    history.on_groups_gone()
    history.commits.may_go += 1
    groups = history.commits.groups()
    attempts = [
        attempt
        for group in groups
        for attempt in history.commits.begin(
            group, dict.fromkeys(history.commits.places(group), GONE)
        )
    ]
    (outcome,) = await o.admin.delete_topics([OFFSETS_TOPIC], timeout_ms=REQUEST_TIMEOUT_MS)
    if outcome.error is not None and outcome.error.code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        raise outcome.error  # it may still be deleted, some day
    # Who has not heard of it may take commits yet that go with the former topic; if it was asked twice, also
    # with one that was made meanwhile.
    committed = max(node.node.quorum.high_watermark for node in cluster.up() if node.node)
    while len(cluster.up()) < len(cluster.nodes) or any(
        node.node is None or node.node.metadata.image.offset < committed - 1
        for node in cluster.up()
    ):
        if o.workload.stopped:
            return
        await o.client.tasks.sleep(50)
    history.commits.acknowledge(attempts)
    history.commits.may_be_gone()
    history.commits.may_go -= 1


GROUPS: Mapping[str, Callable[[Operator], Awaitable[None]]] = {
    "keeps offsets": keep_offsets,
    "keeps offsets briefly": keep_briefly,
    "reads briefly": read_briefly,
    "deletes offsets": delete_offset,
    "deletes groups": delete_group,
    "remakes the groups' topic": remake_offsets_topic,
}
