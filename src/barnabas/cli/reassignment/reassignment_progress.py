"""How far the reassignments under way are: which replicas are added, how many bytes they lack.

What an added replica lacks is the size of its leader's log less its own, as the brokers tell it
(DescribeLogDirs): an estimate, since segments of copies are cut elsewhere and compacted at other times.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    TextColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)

from barnabas.cli.plain_text import visible
from barnabas.cli.progress import has_onlooker
from barnabas.cli.reassignment.reassignment_plans import Assignment
from barnabas.client.network.connection import ChannelError
from barnabas.host.client import Connected
from barnabas.types import TopicPartition, by_topic
from barnabas.wire.errors import KafkaError, code_of
from barnabas.wire.messages.describe_log_dirs_request import (
    DescribableLogDirTopic,
    DescribeLogDirsRequest,
)
from barnabas.wire.messages.list_partition_reassignments_request import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)
from barnabas.wire.messages.list_partition_reassignments_response import (
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)

POLL_S = 0.5
SAMPLE_S = 1.0
"""Between two looks, where a rate is to be shown."""
SAMPLES_MAX = 5
"""Looks at copies that are throttled: a follower may fetch once in several seconds."""
REQUEST_TIMEOUT_MS = 2_000.0
"""A broker that says nothing for so long tells no sizes."""


class Placed(NamedTuple):
    """The brokers of a partition's replicas, and which of them come or go."""

    replicas: tuple[int, ...]
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()

    @property
    def target(self) -> tuple[int, ...]:
        """The brokers where they will be."""
        return tuple([broker for broker in self.replicas if broker not in self.removing])

    @property
    def origin(self) -> tuple[int, ...]:
        """The brokers where they were, from which the others copy."""
        return tuple([broker for broker in self.replicas if broker not in self.adding])

    @property
    def is_moving(self) -> bool:
        return bool(self.adding or self.removing)


@dataclass(slots=True)
class Ongoing:
    """One reassignment under way. `caught_up`: those of `adding` that are in the ISR."""

    partition: TopicPartition
    leader: int
    replicas: list[int]
    adding: list[int]
    removing: list[int]
    caught_up: list[int] = field(default_factory=list)
    fenced: list[int] = field(default_factory=list)
    """Those it waits for (`awaited`) that are not alive, and not caught up."""
    bytes_left: int = 0
    rate: float = 0.0
    """Bytes per second, where two looks were taken."""

    @property
    def waits_for(self) -> str | None:
        """The reason why it does not progress, or None."""
        if self.leader < 0:
            return "a leader"
        if self.fenced:
            return ", ".join(f"broker {broker}, which is fenced" for broker in self.fenced)
        return None

    def as_dict(self) -> dict[str, Any]:
        is_known = self.rate > 0 and self.waits_for is None
        return {
            "topic": self.partition.topic,
            "partition": str(self.partition),
            "replicas": self.replicas,
            "adding": self.adding,
            "removing": self.removing,
            "caught_up": self.caught_up,
            "waits_for": self.waits_for,
            "bytes_left": self.bytes_left,
            "rate": round(self.rate),
            "seconds_left": self.bytes_left / self.rate if is_known else None,
        }


def placed(connected: Connected, topics: list[str]) -> dict[TopicPartition, Placed]:
    """Every partition of `topics`, of all where none are named. What is under way is asked first: if
    it ends before the replicas are asked, where it goes is still where they are."""
    moving = under_way(connected)
    present = assignment_of(connected, topics)
    return {partition: moving.get(partition, Placed(present[partition])) for partition in present}


def under_way(connected: Connected) -> dict[TopicPartition, Placed]:
    """Every reassignment that has not ended."""
    return {
        TopicPartition(topic.name, one.partition_index): Placed(
            tuple(one.replicas), tuple(one.adding_replicas), tuple(one.removing_replicas)
        )
        for topic in _listed(connected, None)
        for one in topic.partitions
    }


def _listed(
    connected: Connected, asked: list[ListPartitionReassignmentsTopics] | None
) -> list[OngoingTopicReassignment]:
    def request() -> ListPartitionReassignmentsRequest:
        return ListPartitionReassignmentsRequest(topics=asked)

    return list(connected.call(connected.client.ask_any(request, check)).topics)


def assignment_of(connected: Connected, topics: list[str]) -> Assignment:
    """The replicas of every partition of `topics`; of all where none are named."""
    views = (
        connected.call(connected.admin.describe_topics(topics)) if topics else connected.topics()
    )
    return {
        TopicPartition(view.name, index): tuple(view.partitions[index].replicas)
        for view in views
        for index in sorted(view.partitions)
    }


def check(response: Any) -> None:
    """Raises the response's `KafkaError`."""
    if response.error_code:
        raise KafkaError(code_of(response.error_code), response.error_message or "")


def ongoing(connected: Connected, topics: list[str], *, sizes: bool = True) -> list[Ongoing]:
    """Each reassignment under way, by partition; with what its added replicas lack where `sizes`."""
    asked = None
    if topics:
        present = assignment_of(connected, topics)
        asked = [
            ListPartitionReassignmentsTopics(
                name=name, partition_indexes=[p.partition for p in present if p.topic == name]
            )
            for name in topics
        ]
    listed = sorted(_listed(connected, asked), key=lambda topic: topic.name)
    names = [topic.name for topic in listed]
    views = connected.call(connected.admin.describe_topics(names)) if names else []
    states = {
        TopicPartition(view.name, index): state
        for view in views
        for index, state in view.partitions.items()
    }
    living = _living(connected) if listed else set()
    found = []
    for topic in listed:
        for one in sorted(topic.partitions, key=lambda one: one.partition_index):
            at = TopicPartition(topic.name, one.partition_index)
            state = states.get(at)
            isr = () if state is None else state.isr
            adding = list(one.adding_replicas)
            found.append(
                Ongoing(
                    at,
                    -1 if state is None else state.leader,
                    list(one.replicas),
                    adding,
                    list(one.removing_replicas),
                    [broker for broker in adding if broker in isr],
                    [b for b in awaited(one) if b not in living and b not in isr],
                )
            )
    if sizes:
        _add_sizes(connected, found)
    return found


def awaited(one: OngoingPartitionReassignment) -> list[int]:
    """Who has to be in the ISR at the end: who is added; where there are to be fewer replicas, all."""
    if len(one.adding_replicas) >= len(one.removing_replicas):
        return list(one.adding_replicas)
    return [broker for broker in one.replicas if broker not in one.removing_replicas]


def _living(connected: Connected) -> set[int]:
    return {broker.node_id for broker in connected.describe_cluster().brokers if not broker.fenced}


def _add_sizes(connected: Connected, found: list[Ongoing]) -> None:
    asked: dict[int, list[TopicPartition]] = {}
    for one in found:
        for broker in {one.leader, *one.adding} - {-1}:
            asked.setdefault(broker, []).append(one.partition)
    sizes = {broker: _sizes(connected, broker, asked[broker]) for broker in sorted(asked)}
    for one in found:
        whole = sizes.get(one.leader, {}).get(one.partition, 0)
        for broker in one.adding:
            if broker not in one.caught_up:
                there = sizes.get(broker, {}).get(one.partition, 0)
                one.bytes_left += max(whole - there, 0)


def _sizes(
    connected: Connected, broker: int, partitions: list[TopicPartition]
) -> dict[TopicPartition, int]:
    """Bytes of each replica on one broker; nothing where it does not answer."""
    topics = sorted(by_topic(partitions).items())
    request = DescribeLogDirsRequest(
        topics=[DescribableLogDirTopic(topic=name, partitions=p) for name, p in topics]
    )
    try:
        answer = connected.call(
            connected.client.ask_node(broker, request, timeout_ms=REQUEST_TIMEOUT_MS)
        )
    except (ChannelError, KafkaError):
        return {}
    return {
        TopicPartition(topic.name, one.partition_index): one.partition_size
        for directory in answer.results
        for topic in directory.topics
        for one in topic.partitions
    }


class Estimate(NamedTuple):
    """Bytes that are still to be copied, how fast they go (bytes per second), and when that ends
    (seconds; None while nothing moves)."""

    bytes_left: int
    rate: float
    seconds_left: float | None


def estimate(
    connected: Connected, topics: list[str], before: list[Ongoing], throttles: Mapping[int, int]
) -> Estimate:
    """The estimate from the bytes missing now and a moment later; also updates each row's own.
    `throttles`: the brokers' limits in bytes per second. If no bytes arrived in several looks although
    no broker is offline, the estimate follows from the throttle."""
    if not any(row.bytes_left for row in before):
        return Estimate(0, 0.0, None if any(row.waits_for for row in before) else 0.0)
    first = {row.partition: row.bytes_left for row in before}
    began = time.monotonic()
    for _ in range(SAMPLES_MAX if throttles else 1):
        time.sleep(SAMPLE_S)
        later = {row.partition: row for row in ongoing(connected, topics)}
        passed_s = time.monotonic() - began
        for row in before:
            now = later.get(row.partition)
            row.bytes_left = 0 if now is None else now.bytes_left
            row.rate = max(first[row.partition] - row.bytes_left, 0) / passed_s
        if any(row.rate for row in before):
            break
    return _summed(before, throttles)


def _summed(rows: list[Ongoing], throttles: Mapping[int, int]) -> Estimate:
    left, rate = sum(row.bytes_left for row in rows), sum(row.rate for row in rows)
    going = [row for row in rows if row.waits_for is None]
    times = _throttled_s(going, throttles)
    if rate > 0:
        times.append(sum(row.bytes_left for row in going) / rate)
    return Estimate(left, rate, max(times, default=None))


def _throttled_s(rows: list[Ongoing], throttles: Mapping[int, int]) -> list[float]:
    """How long each broker that is throttled takes at the least: either rate is for all that it reads or
    all that it writes."""
    reads: dict[int, float] = {}
    writes: dict[int, float] = {}
    for row in rows:
        lacking = [broker for broker in row.adding if broker not in row.caught_up]
        reads[row.leader] = reads.get(row.leader, 0) + row.bytes_left
        for broker in lacking:
            writes[broker] = writes.get(broker, 0) + row.bytes_left / len(lacking)
    sums = [*reads.items(), *writes.items()]
    return [count / throttles[broker] for broker, count in sums if count and broker in throttles]


def waiting_for(rows: list[Ongoing]) -> list[str]:
    """How many wait for whom."""
    stuck = Counter([row.waits_for for row in rows if row.waits_for is not None])
    return [f"{count} of {len(rows)} wait for {what}" for what, count in sorted(stuck.items())]


def watch(connected: Connected, partitions: Iterable[TopicPartition], *, as_json: bool) -> None:
    """Stay until none of the partitions is under way; with a bar in bytes, the rate and the time
    that is left, on a terminal. What they wait for is said when it changes. Silent where the output is for
    a program."""
    chosen = set(partitions)
    topics = sorted({partition.topic for partition in chosen})
    columns = (
        TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn(),
        TimeRemainingColumn(),
    )  # fmt: skip
    with Progress(*columns, console=Console(stderr=True), disable=not has_onlooker(as_json)) as bar:
        task = bar.add_task("", total=None)
        most, said = 0, ""
        while topics:
            rows = [row for row in ongoing(connected, topics) if row.partition in chosen]
            waiting = "; ".join(waiting_for(rows))
            if waiting != said:
                said = waiting
                if not as_json:
                    sentence = visible(waiting or "no replica is missing any more")
                    bar.console.print(sentence, highlight=False)
            left = sum(row.bytes_left for row in rows)
            most = max(most, left)
            done = len(chosen) - len(rows)
            bar.update(
                task, total=most, completed=most - left,
                description=f"{done} of {len(chosen)} partitions moved",
            )  # fmt: skip
            if not rows:
                return
            time.sleep(POLL_S)
