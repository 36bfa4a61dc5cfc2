"""The doctor's checks: each finds what it is for, and nothing in a healthy cluster."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import typer

from barnabas.cli.application import build
from barnabas.cli.certificates.days_left import TimeLeft
from barnabas.cli.command_table import COMMANDS
from barnabas.cli.doctor.examination import examine
from barnabas.cli.doctor.facts import ClusterFacts
from barnabas.cli.doctor.findings import Severity, worst
from barnabas.cli.measures.group_lag import GroupProgress, PartitionProgress
from barnabas.cli.measures.log_directories import DirectoryUse
from barnabas.cli.measures.topic_settings import MIN_ISR, TopicSetting
from barnabas.cli.reassignment.reassignment_progress import Ongoing
from barnabas.cli.reports.quorum_view import QuorumView, ReplicaRow
from barnabas.client.admin import BrokerDescription
from barnabas.client.groups import DescribedMember, GroupDescription
from barnabas.client.network.cluster_metadata import PartitionMetadata, TopicMetadata
from barnabas.client.transaction_admin import HangingTransaction, ProducerView
from barnabas.types import TopicPartition

ROOT = Path(__file__).parents[3]
MEMBER = DescribedMember("m", None, "c", "/host", b"", b"")


def topic(name: str = "t", isr: tuple[int, ...] = (1, 2, 3), leader: int = 1) -> TopicMetadata:
    at = PartitionMetadata(leader=leader, replicas=(1, 2, 3), isr=isr)
    return TopicMetadata(name, partitions={0: at})


def voter(node_id: int, fetched_ms: int = 10_000) -> ReplicaRow:
    return ReplicaRow(node_id, None, 100, 0, fetched_ms, fetched_ms, "Follower")


def quorum(*voters: ReplicaRow) -> QuorumView:
    return QuorumView("c", 1, 1, 100, 0, 0, voters, ())


def group(name: str, state: str, lag: int, *, members: int = 1) -> GroupProgress:
    described = GroupDescription(name, state, "consumer", "range", [MEMBER] * members)
    return GroupProgress(described, [PartitionProgress("t", 0, 0, lag, lag, 1.0, None, None)])


def healthy() -> ClusterFacts:
    return ClusterFacts(
        "c",
        [BrokerDescription(node, "h", 9092, "r", False) for node in (1, 2, 3)],
        [topic()],
        settings={"t": {MIN_ISR: TopicSetting("2", 5)}},
        broker_settings={1: {"auto.create.topics.enable": "false"}},
        directories={1: [DirectoryUse("/d", "", 1, 10, 100, 90, False)]},
        levels={"metadata.version": 30},
        supported={1: {"metadata.version": 30}, 2: {"metadata.version": 30}},
        quorum=quorum(voter(1), voter(2), voter(3)),
        clock_ahead_ms=3.0,
        certificates=[TimeLeft(1, "L", 90 * 86_400)],
        groups_before=[group("g", "Stable", 5)],
        groups=[group("g", "Stable", 5)],
        sample_s=5.0,
    )


def fenced(facts: ClusterFacts) -> None:
    facts.brokers[2].fenced = True


def hanging() -> HangingTransaction:
    producer = ProducerView(7, 0, 0, 0, 0, 12)
    return HangingTransaction(TopicPartition("t", 0), producer, 10**7, "no transactional id", None)


def stuck() -> Ongoing:
    return Ongoing(TopicPartition("t", 0), 1, [1, 2, 3], [3], [], [], [3])


def change(**fields: object) -> Callable[[ClusterFacts], None]:
    def apply(facts: ClusterFacts) -> None:
        for name, value in fields.items():
            setattr(facts, name, value)

    return apply


def min_isr(value: str) -> Callable[[ClusterFacts], None]:
    return change(settings={"t": {MIN_ISR: TopicSetting(value, 1)}})


CASES: dict[str, tuple[Severity, Callable[[ClusterFacts], None]]] = {
    "fenced-broker": (Severity.CRITICAL, fenced),
    "silent-broker": (Severity.CRITICAL, change(silent={2: "timed out"})),
    "forgotten-broker": (
        Severity.NOTICE,
        lambda facts: facts.brokers.append(BrokerDescription(4, "h", 1, "r", True)),
    ),
    "missing-rack": (Severity.NOTICE, lambda facts: setattr(facts.brokers[0], "rack", None)),
    "failed-directory": (
        Severity.CRITICAL,
        change(directories={1: [DirectoryUse("/d", "EIO", 0, 0, -1, -1, False)]}),
    ),
    "full-disk": (
        Severity.WARNING,
        change(directories={1: [DirectoryUse("/d", "", 1, 10, 100, 10, False)]}),
    ),
    "no-quorum": (Severity.CRITICAL, change(quorum=None, quorum_silence="timed out")),
    "lagging-voter": (
        Severity.CRITICAL,
        change(quorum=quorum(voter(1), voter(2), voter(3, fetched_ms=1))),
    ),
    "slow-voter": (
        Severity.WARNING,
        change(quorum=replace(quorum(voter(1)), max_follower_lag_time_ms=9_000)),
    ),
    "lone-voter": (Severity.WARNING, change(quorum=quorum(voter(1)))),
    "even-quorum": (Severity.NOTICE, change(quorum=quorum(voter(1), voter(2)))),
    "several-releases": (
        Severity.WARNING,
        change(supported={1: {"metadata.version": 30}, 2: {"metadata.version": 29}}),
    ),
    "low-feature-level": (Severity.NOTICE, change(levels={"metadata.version": 25})),
    "certificate": (Severity.WARNING, change(certificates=[TimeLeft(1, "L", 86_400)])),
    "clock-skew": (Severity.WARNING, change(clock_ahead_ms=-2_500.0)),
    "offline-partition": (Severity.CRITICAL, change(topics=[topic(isr=(3,), leader=-1)])),
    "under-min-isr": (Severity.CRITICAL, change(topics=[topic(isr=(1,))])),
    "under-replicated": (Severity.WARNING, change(topics=[topic(isr=(1, 2))])),
    "stuck-reassignment": (Severity.WARNING, change(moves=[stuck()])),
    "left-throttle": (Severity.WARNING, change(is_throttled=True)),
    "hanging-transaction": (Severity.CRITICAL, change(hanging=[hanging()])),
    "stuck-rebalance": (
        Severity.WARNING,
        change(
            groups_before=[group("g", "PreparingRebalance", 0)],
            groups=[group("g", "CompletingRebalance", 0)],
        ),
    ),
    "unread-group": (Severity.NOTICE, change(groups=[group("g", "Empty", 5, members=0)])),
    "growing-lag": (Severity.WARNING, change(groups=[group("g", "Stable", 50)])),
    "skewed-sizes": (
        Severity.WARNING,
        change(sizes={(1, TopicPartition("t", 0)): 3 * 10**9}),
    ),
    "skewed-leaders": (
        Severity.WARNING,
        change(topics=[topic(f"t{number}") for number in range(30)]),
    ),
    "leaders-away": (Severity.NOTICE, change(topics=[topic(leader=2)])),
    "one-replica": (
        Severity.WARNING,
        change(topics=[TopicMetadata("t", partitions={0: PartitionMetadata(1, 0, (1,), (1,))})],
               settings={}),
    ),
    "weak-min-isr": (Severity.WARNING, min_isr("1")),
    "tight-min-isr": (Severity.WARNING, min_isr("3")),
    "impossible-min-isr": (Severity.CRITICAL, min_isr("4")),
    "unclean-election": (
        Severity.WARNING,
        change(settings={"t": {"unclean.leader.election.enable": TopicSetting("true", 1)}}),
    ),
    "auto-create": (
        Severity.NOTICE,
        change(broker_settings={1: {"auto.create.topics.enable": "true"}}),
    ),
    "not-looked-at": (Severity.NOTICE, change(unknown={"groups": "not authorized"})),
}  # fmt: skip


def test_a_healthy_cluster_has_no_findings() -> None:
    assert examine(healthy()) == []
    assert worst([]).exit_status == 0


@pytest.mark.parametrize("code", CASES)
def test_each_fault_is_found_with_its_severity(code: str) -> None:
    severity, spoil = CASES[code]
    facts = healthy()
    spoil(facts)
    found = {finding.code: finding for finding in examine(facts)}
    assert found[code].severity is severity
    assert all(found[code].as_dict().values())
    assert code not in {finding.code for finding in examine(facts, [code])}


def test_every_check_has_a_case() -> None:
    text = "".join(path.read_text() for path in (ROOT / "src/barnabas/cli/doctor").glob("*.py"))
    assert set(re.findall(r'Finding\(\s*"([a-z-]+)"', text)) == set(CASES)


def test_the_worst_finding_comes_first_and_decides_the_status() -> None:
    facts = healthy()
    facts.is_throttled = True
    fenced(facts)
    found = examine(facts)
    assert found[0].severity is Severity.CRITICAL and found[-1].severity is Severity.WARNING
    assert worst(found).exit_status == 20 and worst(found[1:]).exit_status == 10


def test_findings_link_to_sections_that_exist_and_name_commands_that_exist() -> None:
    page = (ROOT / "docs/troubleshooting.md").read_text()
    titles = re.findall(r"^## (.+)$", page, re.M)
    anchors = {re.sub(r"[^a-z -]", "", title.lower()).replace(" ", "-") for title in titles}
    root = typer.main.get_command(build(list(COMMANDS)))
    for spoil in (case[1] for case in CASES.values()):
        facts = healthy()
        spoil(facts)
        for finding in examine(facts):
            assert finding.see in anchors
            for words in re.findall(r"barnabas ([a-z -]+)", finding.command):
                at = root
                for word in words.split():
                    if not hasattr(at, "commands"):
                        break
                    at = at.commands[word]
