"""The streams groups of a seed: their topologies, the topics that those make, and how members work."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from barnabas.client import offsets
from barnabas.client.client import Client
from barnabas.client.network.channels import ChannelError
from barnabas.client.offsets import CommittedOffset, GroupIdentity
from barnabas.types import TopicPartition
from barnabas.wire.errors import KafkaError
from barnabas.wire.messages import streams_group_heartbeat_request as asked


@dataclass(frozen=True)
class StreamsMemberPlan:
    """How one member of a streams group works."""

    name: str
    group: str
    process: str
    """The instance of the application; members with one process share its state."""
    instance: str | None = None
    """The instance id of a static member."""
    reconciles_ms: float = 20.0
    """How long it takes to give up tasks, at most."""
    reports: float = 0.0
    """How often it reports how far its tasks are."""
    has_endpoint: bool = False
    """Whether others may ask it for the state of its tasks."""
    repeats: float = 0.0
    """How often it says its tasks though they are the same."""
    leaves: float = 0.0
    """How often it leaves, and another member takes its place."""
    vanishes: float = 0.0
    """How often it is replaced without a word."""


@dataclass(frozen=True)
class StreamsPlan:
    """The streams groups of a seed. Each has internal topics of its own."""

    sources: Mapping[str, int]
    """Source topic → partitions."""
    members: tuple[StreamsMemberPlan, ...]
    topologies: Mapping[str, asked.Topology]
    """Group → its topology."""
    internal: Mapping[str, int]
    """Internal topic → the partitions that it shall have."""
    tasks: Mapping[str, Mapping[str, int]]
    """Group → subtopology → the number of its tasks."""
    session_ms: int

    @property
    def groups(self) -> list[str]:
        return sorted(self.topologies)


async def keep_groups(client: Client, plan: StreamsPlan) -> None:
    """Commit an offset for each group: it is not forgotten while it is empty."""
    first = TopicPartition(sorted(plan.sources)[0], 0)
    for group in plan.groups:
        while True:
            try:
                at = {first: CommittedOffset(0)}
                await offsets.commit(client, GroupIdentity(group), at, timeout_ms=5_000)
                break
            except (ChannelError, KafkaError):
                await client.tasks.sleep(200)
