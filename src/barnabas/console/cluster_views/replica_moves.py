"""Replicas that move between brokers, with the bytes that each still lacks, and the log
directories."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any

from barnabas.cli.commands.leaders import KINDS, why_no_election
from barnabas.cli.commands.reassign import ask_for
from barnabas.cli.connection.many_brokers import gathered
from barnabas.cli.measures.log_directories import DirectoryUse, directories_of
from barnabas.cli.measures.partition_figures import Sizes, sizes_in
from barnabas.cli.reassignment import reassignment_throttle as throttling
from barnabas.cli.reassignment.reassignment_progress import Ongoing, ongoing, under_way
from barnabas.client.operations import elect
from barnabas.console.cluster_views.cluster_health import NODE_MS
from barnabas.console.cluster_views.histories import Histories
from barnabas.host.client import Connected
from barnabas.types import TopicPartition
from barnabas.wire.messages.describe_log_dirs_request import DescribeLogDirsRequest

RATES_MEANT = 5
"""The number of samples in the mean of a rate."""


@dataclass(slots=True)
class ReplicaCopy:
    """A replica that moves to a log directory from another directory of its broker."""

    partition: TopicPartition
    bytes_held: int
    lag: int


@dataclass(slots=True)
class BrokerDirectories:
    """The log directories of one broker; `silent` says why it did not answer."""

    broker: int
    directories: list[DirectoryUse] = field(default_factory=list)
    coming: dict[str, list[ReplicaCopy]] = field(default_factory=dict)
    silent: str = ""
    bytes_left: int = 0
    """The bytes that replicas which move to this broker still lack."""


@dataclass(slots=True)
class MoveRow:
    """One reassignment, with the bytes that each added replica lacks, and its rate."""

    move: Ongoing
    lacking: dict[int, int]
    share: float | None
    """The part of the bytes missing at first that has arrived."""
    rate: float
    seconds_left: float | None


def moves_and_directories(
    connected: Connected, histories: Histories
) -> tuple[list[MoveRow], list[BrokerDirectories]]:
    """All reassignments under way, and the log directories of all brokers that answer."""
    moves = ongoing(connected, [], sizes=False)
    client = connected.client
    brokers = [
        broker.node_id for broker in connected.describe_cluster().brokers if not broker.fenced
    ]
    asked = {
        broker: client.ask_node(broker, DescribeLogDirsRequest(topics=None), timeout_ms=NODE_MS)
        for broker in brokers
    }
    answers = gathered(connected, asked)
    sizes = sizes_in(answers)
    lacking = {move.partition: lacking_of(move, sizes) for move in moves}
    histories.gauge({f"move {tp}": sum(missing.values()) for tp, missing in lacking.items()})
    rows = [_row(move, lacking[move.partition], histories) for move in moves]
    nodes = [_directories(broker, answers[broker]) for broker in brokers]
    for node in nodes:
        node.bytes_left = sum(missing.get(node.broker, 0) for missing in lacking.values())
    return rows, nodes


def lacking_of(move: Ongoing, sizes: Sizes) -> dict[int, int]:
    """The bytes that each added replica lacks of the leader's log, by broker; 0 for one that has
    caught up."""
    whole = sizes.get((move.leader, move.partition), 0)
    return {
        broker: 0
        if broker in move.caught_up
        else max(whole - sizes.get((broker, move.partition), 0), 0)
        for broker in move.adding
    }


def _row(move: Ongoing, lacking: dict[int, int], histories: Histories) -> MoveRow:
    left = sum(lacking.values())
    seen = histories.values(f"move {move.partition}")
    most = max(seen, default=0)
    rates = histories.rates(f"move {move.partition}")[-RATES_MEANT:]
    rate = max(-fmean(rates), 0.0) if rates else 0.0
    return MoveRow(
        move, lacking, 1 - left / most if most else None, rate, left / rate if rate > 0 else None
    )


def _directories(broker: int, answer: Any) -> BrokerDirectories:
    if isinstance(answer, Exception):
        return BrokerDirectories(broker, silent=str(answer))
    coming = {
        directory.log_dir: [
            ReplicaCopy(
                TopicPartition(topic.name, one.partition_index), one.partition_size, one.offset_lag
            )
            for topic in directory.topics
            for one in topic.partitions
            if one.is_future_key
        ]
        for directory in answer.results
    }
    return BrokerDirectories(broker, directories_of(answer), coming)


# -- changes --------------------------------------------------------------------------------------


def cancel_moves(connected: Connected, partitions: Sequence[TopicPartition]) -> None:
    """Cancel these reassignments, and lift a throttle that no other one needs. Raises the first
    ``KafkaError``."""
    for refusal in ask_for(connected, dict.fromkeys(partitions)).values():
        raise refusal
    if not under_way(connected) and throttling.is_throttled(connected):
        throttling.lift(connected)


@dataclass(frozen=True)
class ElectionPlan:
    """An election that a user asks for; `refusal` says why none is due."""

    partition: TopicPartition
    kind: str
    leader: int
    replicas: list[int]
    isr: list[int]
    refusal: str
    command: list[str]


def plan_election(connected: Connected, partition: TopicPartition, kind: str) -> ElectionPlan:
    """Nothing changes. Raises ``ValueError``, ``KafkaError``."""
    if kind not in KINDS:
        raise ValueError(f"an election is {' or '.join(KINDS)}, not {kind!r}")
    view = connected.topic(partition.topic)
    placed = view.partitions.get(partition.partition)
    if placed is None:
        raise ValueError(f"topic {view.name} has no partition {partition.partition}")
    refusal = why_no_election({view.name: view}, partition, KINDS[kind]) or ""
    if not refusal and kind == "preferred" and placed.replicas[0] not in placed.isr:
        refusal = f"the preferred replica {placed.replicas[0]} is not in sync"
    command = ["leaders", "elect", "--type", kind, "--topic", partition.topic]
    command += ["--partition", str(partition.partition)]
    return ElectionPlan(
        partition, kind, placed.leader, list(placed.replicas), list(placed.isr), refusal, command
    )


def execute_election(connected: Connected, plan: ElectionPlan) -> None:
    """Raises ``ValueError`` where the plan is refused, ``KafkaError``."""
    if plan.refusal:
        raise ValueError(plan.refusal)
    outcome = connected.call(elect(connected.client, KINDS[plan.kind], [plan.partition]))
    for error in outcome.values():
        if error is not None:
            raise error
