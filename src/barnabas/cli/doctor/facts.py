"""The facts that the doctor judges, asked of brokers by Kafka's protocol.

What cannot be asked, since a broker is silent or the user may not see it, is in `unknown` with the reason:
a check that misses its facts finds nothing. Groups are looked at twice, so that one sees which lag grows.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from barnabas import __version__
from barnabas.cli.certificates.days_left import TimeLeft, certificates_of
from barnabas.cli.connection.many_brokers import EXPECTED, ask_brokers, gathered
from barnabas.cli.connection.quorum_client import QuorumClient
from barnabas.cli.measures.group_lag import GroupProgress, described_groups, progress_of
from barnabas.cli.measures.log_directories import DirectoryUse, directories_of
from barnabas.cli.measures.partition_figures import Sizes, sizes_in
from barnabas.cli.measures.topic_settings import TopicSetting, settings_of_topics
from barnabas.cli.reassignment.reassignment_progress import Ongoing, ongoing
from barnabas.cli.reassignment.reassignment_throttle import is_throttled
from barnabas.cli.reports.quorum_view import QuorumView, view_of
from barnabas.client.admin import BROKER, BrokerDescription
from barnabas.client.groups import GroupDescription
from barnabas.client.network.cluster_metadata import TopicMetadata
from barnabas.client.network.connection import ChannelError
from barnabas.client.transaction_admin import HangingTransaction, find_hanging
from barnabas.host.client import Connected
from barnabas.types import TopicPartition
from barnabas.wire.messages.api_versions_request import ApiVersionsRequest
from barnabas.wire.messages.describe_log_dirs_request import DescribeLogDirsRequest

T = TypeVar("T")
TOPIC_KEYS = ("min.insync.replicas", "unclean.leader.election.enable")
TRANSACTION_MS_MAX = 900_000
"""The default of transaction.max.timeout.ms."""


@dataclass(slots=True)
class ClusterFacts:
    """Everything that was asked."""

    cluster_id: str = ""
    brokers: list[BrokerDescription] = field(default_factory=list)
    topics: list[TopicMetadata] = field(default_factory=list)
    settings: dict[str, dict[str, TopicSetting]] = field(default_factory=dict)
    broker_settings: dict[int, dict[str, str]] = field(default_factory=dict)
    silent: dict[int, str] = field(default_factory=dict)
    """Brokers that do not answer, and why."""
    directories: dict[int, list[DirectoryUse]] = field(default_factory=dict)
    sizes: Sizes = field(default_factory=dict)
    levels: dict[str, int] = field(default_factory=dict)
    """The level of each feature that is in force."""
    supported: dict[int, dict[str, int]] = field(default_factory=dict)
    """The highest level of each feature, by broker."""
    quorum: QuorumView | None = None
    """None in ZooKeeper mode, and where the quorum does not answer."""
    quorum_silence: str = ""
    clock_ahead_ms: float | None = None
    """How far the active controller's clock is ahead of the one here."""
    certificates: list[TimeLeft] = field(default_factory=list)
    hanging: list[HangingTransaction] = field(default_factory=list)
    moves: list[Ongoing] = field(default_factory=list)
    is_throttled: bool = False
    groups_before: list[GroupProgress] = field(default_factory=list)
    groups: list[GroupProgress] = field(default_factory=list)
    sample_s: float = 0.0
    """The time between the two looks at groups."""
    unknown: dict[str, str] = field(default_factory=dict)
    """The things that could not be asked, and why."""


def gather_facts(connected: Connected, sample_s: float) -> ClusterFacts:
    """Ask. Raises ``KafkaError``, ``ChannelError`` where no broker says what the cluster is."""
    facts = ClusterFacts()
    described = connected.describe_cluster()
    facts.cluster_id, facts.brokers = described.cluster_id, described.brokers
    facts.topics = connected.topics()
    facts.groups_before = _try(facts, "groups", lambda: _groups(connected, ages=False), [])
    began = time.monotonic()
    _ask_nodes(connected, facts)
    _ask_quorum(connected, facts)
    names = [topic.name for topic in facts.topics]
    facts.settings = _try(
        facts,
        "configurations of topics",
        lambda: settings_of_topics(connected, names, TOPIC_KEYS),
        {},
    )
    facts.moves = _try(facts, "reassignments", lambda: ongoing(connected, [], sizes=False), [])
    facts.is_throttled = _try(facts, "throttles", lambda: is_throttled(connected), False)
    facts.certificates = _try(
        facts, "certificates", lambda: certificates_of(connected, facts.brokers), []
    )
    facts.hanging = _try(facts, "transactions", lambda: _hanging(connected, facts), [])
    connected.run_for(max(sample_s - (time.monotonic() - began), 0.0) * 1000)
    facts.groups = _try(facts, "groups", lambda: _groups(connected, ages=True), [])
    facts.sample_s = time.monotonic() - began
    return facts


def _try(facts: ClusterFacts, what: str, ask: Callable[[], T], otherwise: T) -> T:
    try:
        return ask()
    except EXPECTED as error:
        facts.unknown[what] = str(error)
        return otherwise


def _ask_nodes(connected: Connected, facts: ClusterFacts) -> None:
    """Directories, features and settings of each broker that is not fenced."""
    living = [broker.node_id for broker in facts.brokers if not broker.fenced]
    answers = ask_brokers(
        connected,
        lambda: ApiVersionsRequest(
            client_software_name="barnabas", client_software_version=__version__
        ),
        living,
    )
    for node, answer in answers.items():
        if isinstance(answer, Exception):
            facts.silent[node] = str(answer)
            continue
        facts.supported[node] = {f.name: f.max_version for f in answer.supported_features}
        facts.levels |= {f.name: f.max_version_level for f in answer.finalized_features}
    speaking = [node for node in living if node not in facts.silent]
    logs = ask_brokers(connected, lambda: DescribeLogDirsRequest(topics=None), speaking)
    facts.sizes = sizes_in(logs)
    admin = connected.admin
    asked = {node: admin.describe_configs(BROKER, str(node)) for node in speaking}
    configs = gathered(connected, asked)
    for node in speaking:
        if isinstance(logs[node], Exception):
            facts.unknown[f"log directories of broker {node}"] = str(logs[node])
        else:
            facts.directories[node] = directories_of(logs[node])
        if isinstance(configs[node], Exception):
            facts.unknown[f"configuration of broker {node}"] = str(configs[node])
        else:
            facts.broker_settings[node] = {e.name: e.value or "" for e in configs[node]}


def _ask_quorum(connected: Connected, facts: ClusterFacts) -> None:
    asked_ms = time.time() * 1000
    try:
        response: Any = QuorumClient(connected, []).describe()
    except EXPECTED as error:
        if not (isinstance(error, ChannelError) and error.kind == "unsupported"):
            facts.quorum_silence = str(error)
        return
    answered_ms = time.time() * 1000
    facts.quorum = view_of(response, facts.cluster_id)
    for voter in facts.quorum.voters:
        if voter.node_id == facts.quorum.leader_id and voter.last_fetch_timestamp > 0:
            ahead = voter.last_fetch_timestamp - answered_ms
            behind = voter.last_fetch_timestamp - asked_ms
            facts.clock_ahead_ms = ahead if ahead > 0 else min(behind, 0.0)


def _hanging(connected: Connected, facts: ClusterFacts) -> list[HangingTransaction]:
    longest = [
        int(settings.get("transaction.max.timeout.ms", TRANSACTION_MS_MAX))
        for settings in facts.broker_settings.values()
    ]
    led = [
        TopicPartition(topic.name, index)
        for topic in facts.topics
        for index, partition in sorted(topic.partitions.items())
        if partition.leader >= 0 and partition.leader not in facts.silent
    ]
    asked = find_hanging(
        connected.client,
        led,
        silent_ms_min=max(longest, default=TRANSACTION_MS_MAX),
        wall_ms=time.time_ns() // 1_000_000,
    )
    return connected.call(asked)


def _groups(connected: Connected, *, ages: bool) -> list[GroupProgress]:
    listed = connected.call(connected.admin.list_groups())
    described = described_groups(connected, [group.group_id for group in listed])
    known = [found for found in described.values() if isinstance(found, GroupDescription)]
    return progress_of(connected, known, ages=ages)
