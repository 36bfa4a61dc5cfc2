"""Groups without members, whose offsets an operator keeps by hand: commits them, deletes some, deletes the
group. What was acknowledged is so, whoever coordinates next and however its log was compacted."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any

from barnabas.client import offsets
from barnabas.client.client import GROUP, raise_for
from barnabas.client.offsets import CommittedOffset, GroupIdentity
from barnabas.sim.commits import GONE
from barnabas.types import TopicPartition
from barnabas.wire.messages.delete_groups_request import DeleteGroupsRequest
from barnabas.wire.messages.offset_delete_request import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)

if TYPE_CHECKING:
    from barnabas.sim.workload.operator import Operator

ASK_MS = 5_000.0


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
            timeout_ms=ASK_MS,
        )
        commits.acknowledge(attempts)


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
        timeout_ms=ASK_MS,
    )
    commits.acknowledge(attempts)


async def delete_group(o: Operator) -> None:
    group, commits = _group(o), o.workload.history.commits
    attempts = commits.begin(group, dict.fromkeys(commits.places(group), GONE))

    def check(response: Any) -> None:
        raise_for(response.results[0].error_code)

    await o.client.ask_coordinator(
        GROUP, group, lambda: DeleteGroupsRequest(groups_names=[group]), check, timeout_ms=ASK_MS
    )
    commits.acknowledge(attempts)


GROUPS: Mapping[str, Callable[[Operator], Awaitable[None]]] = {
    "keeps offsets": keep_offsets,
    "deletes offsets": delete_offset,
    "deletes groups": delete_group,
}
