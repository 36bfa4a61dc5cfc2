"""The cluster at a glance: its nodes, its quorum, and its problems with their reasons."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from barnabas import __version__
from barnabas.cli.commands.cluster import states_of
from barnabas.cli.connection.many_brokers import gathered
from barnabas.cli.connection.quorum_client import QuorumClient
from barnabas.cli.measures.log_directories import DirectoryUse, directories_of
from barnabas.cli.plain_text import users_first
from barnabas.cli.reports.quorum_view import QuorumView, view_of
from barnabas.client.admin import BrokerDescription
from barnabas.client.network.cluster_metadata import PartitionMetadata, TopicMetadata
from barnabas.console.cluster_views.event_feed import EventFeed
from barnabas.console.cluster_views.parts import Part, part
from barnabas.host.client import Connected
from barnabas.metadata.features import METADATA_VERSION, metadata_version_name
from barnabas.types import Endpoint
from barnabas.wire.messages.api_versions_request import ApiVersionsRequest
from barnabas.wire.messages.describe_cluster_request import DescribeClusterRequest
from barnabas.wire.messages.describe_log_dirs_request import DescribeLogDirsRequest

NODE_MS = 3_000.0
"""The longest wait for a node's answer; after that the node has no figures."""
DISK_FULL = 0.85
NAMED_MAX = 4
"""The number of partitions that a problem names."""
LAG_MS_MAX = 5_000
"""The lag of a voter above which there is a problem."""


@dataclass(slots=True)
class NodeView:
    """One broker."""

    node_id: int
    address: str
    rack: str | None
    fenced: bool
    is_controller: bool = False
    leaders: int = 0
    replicas: int = 0
    lacking: int = 0
    """The number of its replicas that are not in the ISR."""
    release: str = ""
    software: str = ""
    directories: list[DirectoryUse] = field(default_factory=list)
    why: str = ""
    """The reason of its last change."""
    silent: str = ""
    """The reason why it did not answer."""

    @property
    def bytes_held(self) -> int:
        return sum(directory.bytes_held for directory in self.directories)

    @property
    def disk_share(self) -> float | None:
        return max((d.share for d in self.directories if d.share is not None), default=None)

    @property
    def state(self) -> str:
        if self.fenced:
            return "fenced"
        return "silent" if self.silent else "active"


class Problem(NamedTuple):
    """A problem of the cluster; `severity` is bad or warn."""

    severity: str
    what: str
    why: str
    link: str


@dataclass(slots=True)
class ClusterHealth:
    """The content of the cluster's page beside the time line."""

    cluster_id: str
    nodes: list[NodeView]
    quorum: Part[QuorumView | None]
    states: dict[str, int]
    topics: int
    features: dict[str, str]
    problems: list[Problem]


def cluster_view(connected: Connected, feed: EventFeed) -> ClusterHealth:
    """Ask the brokers. Raises ``KafkaError``, ``ChannelError`` where no broker answers."""
    described = connected.describe_cluster()
    topics = connected.topics()
    quorum = part(lambda: _quorum(connected), None)
    feed.refresh()
    nodes = [_node(broker) for broker in described.brokers]
    leader = quorum.value.leader_id if quorum.value is not None else described.controller_id
    _count(nodes, topics)
    features = _ask_nodes(connected, nodes)
    for node in nodes:
        node.is_controller = node.node_id == leader
        event = feed.why("broker", str(node.node_id))
        node.why = "" if event is None else event.reason or event.change
    problems = [
        *_problems_of_nodes(nodes),
        *_problems_of_quorum(quorum.value),
        *_problems_of_partitions(topics, feed),
    ]
    return ClusterHealth(
        described.cluster_id, nodes, quorum, states_of(topics), len(topics), features, problems
    )


def _quorum(connected: Connected) -> QuorumView | None:
    client = QuorumClient(connected, [])
    return view_of(client.describe(), client.cluster_id)


def _node(broker: BrokerDescription) -> NodeView:
    address = str(Endpoint(broker.host, broker.port))
    return NodeView(broker.node_id, address, broker.rack, broker.fenced)


def _count(nodes: Sequence[NodeView], topics: Iterable[TopicMetadata]) -> None:
    leaders: Counter[int] = Counter()
    replicas: Counter[int] = Counter()
    lacking: Counter[int] = Counter()
    for topic in topics:
        for partition in topic.partitions.values():
            leaders[partition.leader] += 1
            replicas.update(partition.replicas)
            if len(partition.isr) < len(partition.replicas):
                lacking.update(set(partition.replicas) - set(partition.isr))
    for node in nodes:
        node.leaders, node.replicas = leaders[node.node_id], replicas[node.node_id]
        node.lacking = lacking[node.node_id]


def _ask_nodes(connected: Connected, nodes: Sequence[NodeView]) -> dict[str, str]:
    """Ask each living node for its directories and its version; returns the levels of features."""
    living = {node.node_id: node for node in nodes if not node.fenced}
    client = connected.client

    def ask(request: Any) -> dict[int, Any]:
        asked = {node: client.ask_node(node, request(), timeout_ms=NODE_MS) for node in living}
        return gathered(connected, asked)

    directories = ask(lambda: DescribeLogDirsRequest(topics=None))
    metrics = ask(lambda: DescribeClusterRequest(include_metrics=True))
    versions = ask(
        lambda: ApiVersionsRequest(
            client_software_name="barnabas", client_software_version=__version__
        )
    )
    levels: dict[str, str] = {}
    for node_id, node in living.items():
        answer = versions[node_id]
        if isinstance(answer, Exception):
            node.silent = str(answer)
            continue
        supported = {feature.name: feature.max_version for feature in answer.supported_features}
        highest = supported.get(METADATA_VERSION, 0)
        node.release = metadata_version_name(highest).partition("-")[0] if highest else ""
        levels = {f.name: _level(f.name, f.max_version_level) for f in answer.finalized_features}
        counts = metrics[node_id]
        is_ours = not isinstance(counts, Exception) and bool(counts.metrics)
        node.software = "Barnabas" if is_ours else ""
        if not isinstance(directories[node_id], Exception):
            node.directories = directories_of(directories[node_id])
    return levels


def _level(name: str, level: int) -> str:
    return metadata_version_name(level) if name == METADATA_VERSION else str(level)


# -- what is wrong --------------------------------------------------------------------------------


def _problems_of_nodes(nodes: Sequence[NodeView]) -> Iterable[Problem]:
    for node in nodes:
        if node.fenced:
            yield Problem(
                "bad", f"Broker {node.node_id} is fenced: it serves no client", node.why,
                f"/events?about={node.node_id}&kind=broker",
            )  # fmt: skip
        elif node.silent:
            yield Problem("bad", f"Broker {node.node_id} does not answer", node.silent, "")
        for directory in node.directories:
            where = f"{directory.path} of broker {node.node_id}"
            if directory.problem:
                yield Problem("bad", f"The log directory {where} has failed", directory.problem, "")
            elif directory.share is not None and directory.share >= DISK_FULL:
                full = f"The disk of {where} is {directory.share:.0%} full"
                yield Problem("warn", full, "", "")
    releases = {node.release for node in nodes if node.release}
    if len(releases) > 1:
        yield Problem("warn", f"Nodes run several releases: {', '.join(sorted(releases))}", "", "")


def _problems_of_quorum(quorum: QuorumView | None) -> Iterable[Problem]:
    if quorum is None:
        return
    if quorum.leader_id < 0:
        yield Problem("bad", "The quorum has no leader: nothing can be changed", "", "")
    following = quorum.following()
    for voter in quorum.voters:
        if voter.node_id not in following:
            behind = f"it lacks {voter.lag} records of the metadata log"
            yield Problem(
                "bad", f"Controller {voter.node_id} does not follow the quorum's leader", behind,
                f"/events?kind=quorum&about={voter.node_id}",
            )  # fmt: skip
    if quorum.max_follower_lag_time_ms > LAG_MS_MAX and len(following) >= len(quorum.voters):
        behind = f"{quorum.max_follower_lag} records, {quorum.max_follower_lag_time_ms} ms"
        yield Problem("warn", "A controller is behind in the metadata log", behind, "")


def _problems_of_partitions(topics: Iterable[TopicMetadata], feed: EventFeed) -> Iterable[Problem]:
    offline: list[str] = []
    lacking: dict[tuple[int, ...], list[str]] = {}
    for topic in topics:
        for index, partition in sorted(topic.partitions.items()):
            name = f"{topic.name}-{index}"
            if partition.leader < 0:
                offline.append(name)
            elif missing := missing_of(partition):
                lacking.setdefault(missing, []).append(name)
    if offline:
        why = why_of(feed, offline[0])
        yield Problem("bad", f"{_some(offline)} without a leader", why, "/topics?state=offline")
    for missing, names in sorted(lacking.items(), key=lambda item: -len(item[1])):
        brokers = " and ".join(map(str, missing))
        what = f"{_some(names)} not in sync on broker {brokers}"
        yield Problem("warn", what, why_of(feed, names[0]), "/topics?state=under-replicated")


def missing_of(partition: PartitionMetadata) -> tuple[int, ...]:
    """The brokers of its replicas that are not in the ISR."""
    if len(partition.isr) >= len(partition.replicas):
        return ()
    return tuple(sorted(set(partition.replicas) - set(partition.isr)))


def why_of(feed: EventFeed, partition: str) -> str:
    """The reason of a partition's last election or change of its ISR."""
    found = [feed.why(kind, partition) for kind in ("election", "isr", "state")]
    events = [event for event in found if event is not None]
    if not events:
        return ""
    last = max(events, key=lambda event: event.at_ms)
    return last.reason or last.change


def _some(names: Sequence[str]) -> str:
    named = ", ".join(users_first(names)[:NAMED_MAX])
    rest = len(names) - NAMED_MAX
    return f"{named}{f' and {rest} more partitions' if rest > 0 else ''} {'are' if len(names) > 1 else 'is'}"


def as_dict(view: ClusterHealth) -> dict[str, Any]:
    """The view's fields by name, for a template."""
    return {f.name: getattr(view, f.name) for f in dataclasses.fields(view)}
