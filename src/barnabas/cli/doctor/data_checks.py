"""Findings about partitions, groups, transactions, the balance of brokers, and risky configurations. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator

from barnabas.cli.doctor.facts import ClusterFacts
from barnabas.cli.doctor.findings import ClusterFinding, Severity, count_of, some
from barnabas.cli.measures.topic_figures import problems_of
from barnabas.cli.measures.topic_settings import min_isr_of
from barnabas.cli.measures.units import bytes_text, seconds_text
from barnabas.cli.reassignment.load_balance import spread_of
from barnabas.client.network.cluster_metadata import PartitionMetadata, TopicMetadata

CRITICAL, WARNING, NOTICE = Severity.CRITICAL, Severity.WARNING, Severity.NOTICE
PARTITIONS, CLIENTS, SLOW = "partitions", "clients", "slow"
SKEW_MAX = 0.5
"""A broker with half as much again as the mean is overloaded."""
SKEWED_BYTES_MIN = 1_000_000_000
SKEWED_LEADERS_MIN = 10
"""Smaller means differ by chance."""
LEADERS_AWAY_MAX = 0.1
REBALANCING = ("PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling")
AUTO_CREATE = "auto.create.topics.enable"
UNCLEAN = "unclean.leader.election.enable"


def check_partitions(facts: ClusterFacts) -> Iterator[ClusterFinding]:
    found: dict[str, list[str]] = {}
    waits: set[int] = set()
    for topic in facts.topics:
        min_isr = min_isr_of(facts.settings, topic.name)
        for index, partition in sorted(topic.partitions.items()):
            for problem in problems_of(partition, min_isr):
                found.setdefault(problem, []).append(f"{topic.name}-{index}")
            if partition.leader < 0:
                waits.update(partition.isr or partition.replicas)
    if offline := found.get("offline"):
        brokers = ", ".join(map(str, sorted(waits)))
        yield ClusterFinding(
            "offline-partition", CRITICAL,
            f"{count_of(offline, 'partition')} without a leader: {some(offline)}",
            f"No replica that may lead is alive. The last in-sync replicas are on brokers {brokers}.",
            f"start brokers {brokers}; barnabas topics describe --unavailable", PARTITIONS,
        )  # fmt: skip
    led_under = [name for name in found.get("under_min_isr", ()) if name not in (offline or ())]
    if led_under:
        yield ClusterFinding(
            "under-min-isr", CRITICAL,
            f"{count_of(led_under, 'partition')} under min.insync.replicas: {some(led_under)}",
            "Producers with acks=all receive NOT_ENOUGH_REPLICAS.",
            "barnabas topics describe --under-min-isr", PARTITIONS,
        )  # fmt: skip
    lacking = [
        n for n in found.get("under_replicated", ()) if n not in {*led_under, *(offline or ())}
    ]
    if lacking:
        yield ClusterFinding(
            "under-replicated", WARNING,
            f"{count_of(lacking, 'partition')} with a replica out of sync: {some(lacking)}",
            "One loss less is survived: a broker is down, restarts, or its disk or network is slow.",
            "barnabas topics describe --under-replicated", PARTITIONS,
        )  # fmt: skip


def check_moves(facts: ClusterFacts) -> Iterator[ClusterFinding]:
    stuck = [move for move in facts.moves if move.waits_for is not None]
    if stuck:
        names = [str(move.partition) for move in stuck]
        yield ClusterFinding(
            "stuck-reassignment", WARNING,
            f"{count_of(names, 'reassignment')} cannot end: {some(names)}",
            f"{'; '.join(sorted({str(move.waits_for) for move in stuck}))} is waited for.",
            "barnabas reassign status; barnabas reassign cancel", PARTITIONS,
        )  # fmt: skip
    if facts.is_throttled and not facts.moves:
        yield ClusterFinding(
            "left-throttle", WARNING, "A replication throttle is left, and nothing is being moved",
            "Followers that come back catch up at the throttled rate.",
            "barnabas reassign throttle --remove", PARTITIONS,
        )  # fmt: skip


def check_transactions(facts: ClusterFacts) -> Iterator[ClusterFinding]:
    for hanging in facts.hanging:
        tp, start = hanging.partition, hanging.producer.transaction_start
        yield ClusterFinding(
            "hanging-transaction", CRITICAL,
            f"A transaction hangs in {tp} from offset {start} on",
            f"{hanging.reason}. Readers with read_committed get nothing behind it, and compaction stops"
            " there.",
            f"barnabas transactions abort --topic {tp.topic} --partition {tp.partition}"
            f" --start-offset {start}", CLIENTS,
        )  # fmt: skip


def check_groups(facts: ClusterFacts) -> Iterator[ClusterFinding]:
    before = {group.described.group_id: group for group in facts.groups_before}
    for group in facts.groups:
        name, state = group.described.group_id, group.described.state
        first = before.get(name)
        quoted = shlex.quote(
            name
        )  # any client may name a group `x; rm -r .`, and the line is pasted
        show = f"barnabas groups describe --members --state -- {quoted}"
        if state in REBALANCING and first is not None and first.described.state in REBALANCING:
            epochs = (first.described.epoch, group.described.epoch)
            if epochs[0] == epochs[1]:
                yield ClusterFinding(
                    "stuck-rebalance", WARNING,
                    f"Group {name} is {state} for {facts.sample_s:.0f} s or more",
                    "A member does not give up its partitions or does not join: it is blocked, or slower"
                    " than max.poll.interval.ms.", show, CLIENTS,
                )  # fmt: skip
        behind = "" if group.seconds is None else f", {seconds_text(group.seconds)}"
        if group.lag and not group.described.members:
            yield ClusterFinding(
                "unread-group", NOTICE,
                f"Group {name} has no members and is {group.lag} records behind{behind}",
                "Nothing reads in it; once retention deletes those records they are lost for it.",
                f"barnabas groups lag -- {quoted}; barnabas groups delete -- {quoted}", SLOW,
            )  # fmt: skip
        elif first is not None and group.lag > first.lag:
            speed = (group.lag - first.lag) / max(facts.sample_s, 0.001)
            yield ClusterFinding(
                "growing-lag", WARNING,
                f"Group {name} falls behind: {group.lag} records{behind}",
                f"It grew by {speed:.0f} records/s for {facts.sample_s:.0f} s: its members read more"
                " slowly than producers write.", f"barnabas groups lag --watch -- {quoted}", SLOW,
            )  # fmt: skip


def check_balance(facts: ClusterFacts) -> Iterator[ClusterFinding]:
    brokers = [broker.node_id for broker in facts.brokers if not broker.fenced]
    if len(brokers) < 2:
        return
    held = dict.fromkeys(brokers, 0)
    for (broker, _), size in facts.sizes.items():
        if broker in held:
            held[broker] += size
    led = dict.fromkeys(brokers, 0)
    away: list[str] = []
    for topic in facts.topics:
        for index, partition in topic.partitions.items():
            if partition.leader in led:
                led[partition.leader] += 1
                if partition.leader != partition.replicas[0] and partition.replicas[0] in led:
                    away.append(f"{topic.name}-{index}")
    see = "barnabas cluster balance --dry-run"
    if max(held.values()) >= SKEWED_BYTES_MIN and spread_of(held.values()) > SKEW_MAX:
        most = max(held, key=lambda broker: held[broker])
        yield ClusterFinding(
            "skewed-sizes", WARNING,
            f"Broker {most} holds {bytes_text(held[most])},"
            f" {spread_of(held.values()):.0%} more than the mean",
            "Its disk is full first.", see, SLOW,
        )  # fmt: skip
    mean = sum(led.values()) / len(led)
    if mean >= SKEWED_LEADERS_MIN and spread_of(led.values()) > SKEW_MAX:
        most = max(led, key=lambda broker: led[broker])
        yield ClusterFinding(
            "skewed-leaders", WARNING,
            f"Broker {most} leads {led[most]} partitions, {spread_of(led.values()):.0%} more than the mean",
            "Producers and consumers load it more than the others.", see, SLOW,
        )  # fmt: skip
    if mean and len(away) > LEADERS_AWAY_MAX * sum(led.values()):
        yield ClusterFinding(
            "leaders-away", NOTICE,
            f"{count_of(away, 'partition')} not led by the preferred replica: {some(away)}",
            "A broker came back, and its leaders have not been given back to it.",
            "barnabas leaders elect --type preferred --all", PARTITIONS,
        )  # fmt: skip


def check_risks(facts: ClusterFacts) -> Iterator[ClusterFinding]:
    many = len(facts.brokers) > 1
    topics = [topic for topic in facts.topics if topic.partitions]

    def named(judge: Callable[[TopicMetadata, int, int], bool]) -> list[str]:
        return [
            topic.name
            for topic in topics
            if (min_isr := min_isr_of(facts.settings, topic.name)) is not None
            and judge(topic, min_isr, _factor(topic))
        ]

    if many and (single := [topic.name for topic in topics if _factor(topic) == 1]):
        yield ClusterFinding(
            "one-replica", WARNING, f"{count_of(single, 'topic')} with one replica: {some(single)}",
            "The loss of one disk loses their records; a restart makes them unavailable.",
            "barnabas reassign plan --replication-factor 3 --topic NAME", PARTITIONS,
        )  # fmt: skip
    if weak := named(lambda topic, least, factor: least == 1 and factor > 1 and not topic.internal):
        yield ClusterFinding(
            "weak-min-isr", WARNING,
            f"{count_of(weak, 'topic')} with min.insync.replicas=1: {some(weak)}",
            "acks=all is then satisfied by the leader alone, and its loss loses acknowledged records.",
            "barnabas configs alter --topic NAME --set min.insync.replicas=2", PARTITIONS,
        )  # fmt: skip
    if impossible := named(lambda topic, least, factor: least > factor):
        yield ClusterFinding(
            "impossible-min-isr", CRITICAL,
            f"{count_of(impossible, 'topic')} with fewer replicas than min.insync.replicas:"
            f" {some(impossible)}",
            "acks=all never succeeds there.",
            "barnabas configs alter --topic NAME --set min.insync.replicas=N", PARTITIONS,
        )  # fmt: skip
    if tight := named(lambda topic, least, factor: least == factor and factor > 1):
        yield ClusterFinding(
            "tight-min-isr", WARNING,
            f"{count_of(tight, 'topic')} with as many min.insync.replicas as replicas: {some(tight)}",
            "Any broker's restart makes acks=all fail.",
            "barnabas configs alter --topic NAME --set min.insync.replicas=N", PARTITIONS,
        )  # fmt: skip
    yield from _switches(facts)


def _switches(facts: ClusterFacts) -> Iterator[ClusterFinding]:
    unclean = [
        name
        for name, settings in sorted(facts.settings.items())
        if UNCLEAN in settings and settings[UNCLEAN].value == "true"
    ]
    if unclean:
        yield ClusterFinding(
            "unclean-election", WARNING,
            f"{count_of(unclean, 'topic')} with {UNCLEAN}=true: {some(unclean)}",
            "A replica that lacks acknowledged records may become leader, and they are lost.",
            f"barnabas configs alter --topic NAME --set {UNCLEAN}=false", PARTITIONS,
        )  # fmt: skip
    creating = [
        str(b) for b, s in sorted(facts.broker_settings.items()) if s.get(AUTO_CREATE) == "true"
    ]
    if creating:
        yield ClusterFinding(
            "auto-create", NOTICE, f"Brokers create topics that clients name: {some(creating)}",
            "A misspelled name becomes a topic with default partitions and replicas.",
            f"{AUTO_CREATE}=false in the brokers' files", CLIENTS,
        )  # fmt: skip


def _factor(topic: TopicMetadata) -> int:
    partitions: list[PartitionMetadata] = list(topic.partitions.values())
    return min((len(partition.replicas) for partition in partitions), default=0)
