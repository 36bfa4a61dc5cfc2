"""Findings about brokers, disks, the quorum, feature levels, certificates and clocks. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from barnabas.cli.doctor.facts import ClusterFacts
from barnabas.cli.doctor.findings import ClusterFinding, Severity, count_of, some
from barnabas.metadata.features import METADATA_VERSION, metadata_version_name
from barnabas.security.certificate_watch import WARNING_DAYS

DISK_WARNING, DISK_CRITICAL = 0.85, 0.95
LAG_MS_MAX = 5_000
"""A voter that lacks records for longer is behind."""
CLOCK_MS_MAX = 1_000.0
DISKS, NODES, QUORUM, CERTIFICATES = (
    "partitions", "a-node-does-not-start-or-ends", "commands", "certificates-and-clocks",
)  # fmt: skip
CRITICAL, WARNING, NOTICE = Severity.CRITICAL, Severity.WARNING, Severity.NOTICE


def check_brokers(facts: ClusterFacts) -> Iterator[ClusterFinding]:
    held = {
        broker
        for topic in facts.topics
        for partition in topic.partitions.values()
        for broker in partition.replicas
    }
    for broker in facts.brokers:
        name = broker.node_id
        if broker.fenced and name in held:
            yield ClusterFinding(
                "fenced-broker", CRITICAL, f"Broker {name} is fenced",
                "It serves no client, and its replicas are out of sync: it is down, or cannot reach the"
                " active controller.", f"barnabas cluster events --kind broker --about {name}", NODES,
            )  # fmt: skip
        elif broker.fenced:
            yield ClusterFinding(
                "forgotten-broker", NOTICE, f"Broker {name} is fenced and holds no replica",
                "A broker that will not return still binds feature levels.",
                f"barnabas cluster unregister --id {name}", NODES,
            )  # fmt: skip
    for name, why in sorted(facts.silent.items()):
        yield ClusterFinding(
            "silent-broker", CRITICAL, f"Broker {name} does not answer", f"It is registered, but: {why}.",
            "barnabas cluster describe", NODES,
        )  # fmt: skip
    racks = {broker.rack for broker in facts.brokers}
    without = [str(broker.node_id) for broker in facts.brokers if broker.rack is None]
    if len(racks) > 1 and without:
        yield ClusterFinding(
            "missing-rack", NOTICE, f"{count_of(without, 'broker')} without a rack: {some(without)}",
            "Others have one; a broker without counts as a rack of its own in placements.",
            "set broker.rack in its file and restart it", NODES,
        )  # fmt: skip


def check_disks(facts: ClusterFacts) -> Iterator[ClusterFinding]:
    for broker, directories in sorted(facts.directories.items()):
        show = f"barnabas log dirs describe --broker {broker}"
        for directory in directories:
            where = f"{directory.path} of broker {broker}"
            if directory.problem:
                yield ClusterFinding(
                    "failed-directory", CRITICAL, f"The log directory {where} has failed",
                    f"{directory.problem}. Its replicas are offline.", show, DISKS,
                )  # fmt: skip
            elif directory.share is not None and directory.share >= DISK_WARNING:
                severity = CRITICAL if directory.share >= DISK_CRITICAL else WARNING
                yield ClusterFinding(
                    "full-disk", severity, f"The disk of {where} is {directory.share:.0%} full",
                    "A log directory that takes no writes goes offline with all its replicas.",
                    f"barnabas cluster balance --dry-run, or shorter retention; {show}", DISKS,
                )  # fmt: skip


def check_quorum(facts: ClusterFacts) -> Iterator[ClusterFinding]:
    show = "barnabas quorum describe --replication"
    if facts.quorum_silence:
        yield ClusterFinding(
            "no-quorum", CRITICAL, "The quorum does not answer",
            f"{facts.quorum_silence}. Without a leader no topic, ISR or leader can change.",
            "barnabas quorum describe --status --bootstrap-controller HOST:PORT", QUORUM,
        )  # fmt: skip
    quorum = facts.quorum
    if quorum is None:
        return
    following = quorum.following()
    for voter in quorum.voters:
        if voter.node_id not in following:
            yield ClusterFinding(
                "lagging-voter", CRITICAL if len(following) * 2 <= len(quorum.voters) + 1 else WARNING,
                f"Controller {voter.node_id} does not follow the quorum's leader",
                f"It lacks {voter.lag} records; {len(following)} of {len(quorum.voters)} voters follow, and"
                " a majority must.", show, QUORUM,
            )  # fmt: skip
    behind_ms = quorum.max_follower_lag_time_ms
    if behind_ms > LAG_MS_MAX and len(following) == len(quorum.voters):
        yield ClusterFinding(
            "slow-voter", WARNING, "A controller is behind in the metadata log",
            f"It lacks {quorum.max_follower_lag} records for {behind_ms} ms: its disk or the network is"
            " slow.", show, QUORUM,
        )  # fmt: skip
    voters = len(quorum.voters)
    if voters == 1 and len(facts.brokers) > 1:
        yield ClusterFinding(
            "lone-voter", WARNING, "The quorum has one voter",
            "Its loss takes the metadata of the whole cluster with it.",
            "barnabas quorum add-controller", QUORUM,
        )  # fmt: skip
    elif voters > 1 and voters % 2 == 0:
        yield ClusterFinding(
            "even-quorum", NOTICE, f"The quorum has {voters} voters",
            f"It survives no more losses than one of {voters - 1}.", "barnabas quorum describe", QUORUM,
        )  # fmt: skip


def check_features(facts: ClusterFacts) -> Iterator[ClusterFinding]:
    if not facts.supported:
        return
    names = sorted({name for levels in facts.supported.values() for name in levels})
    for name in names:
        highest = {levels.get(name, 0) for levels in facts.supported.values()}
        if name == METADATA_VERSION and len(highest) > 1:
            yield ClusterFinding(
                "several-releases", WARNING, "Brokers run several releases",
                f"They support {METADATA_VERSION} up to"
                f" {', '.join(metadata_version_name(level) for level in sorted(highest))}: finish the"
                " rolling upgrade before raising a level.", "barnabas features describe", NODES,
            )  # fmt: skip
        level, possible = facts.levels.get(name, 0), min(highest)
        if 0 < level < possible and name == METADATA_VERSION:
            now, then = metadata_version_name(level), metadata_version_name(possible)
            yield ClusterFinding(
                "low-feature-level", NOTICE, f"{name} is {now}; every broker supports {then}",
                "What came with later levels is not in use.",
                f"barnabas features upgrade --feature {name}={possible} --dry-run", NODES,
            )  # fmt: skip


def check_certificates(facts: ClusterFacts) -> Iterator[ClusterFinding]:
    for left in facts.certificates:
        if left.days >= WARNING_DAYS:
            continue
        ended = left.seconds < 0
        yield ClusterFinding(
            "certificate", CRITICAL if ended else WARNING,
            f"The certificate of {left.listener} of node {left.node_id}"
            f" {'has ended' if ended else f'ends in {left.days} days'}",
            "Clients and other nodes that check it do not connect any more once it has ended.",
            "barnabas certificates renew, or replace the files: nodes read them again", CERTIFICATES,
        )  # fmt: skip


def check_clocks(facts: ClusterFacts) -> Iterator[ClusterFinding]:
    ahead_ms = facts.clock_ahead_ms
    if ahead_ms is None or abs(ahead_ms) < CLOCK_MS_MAX:
        return
    way = "ahead of" if ahead_ms > 0 else "behind"
    yield ClusterFinding(
        "clock-skew", WARNING,
        f"The active controller's clock is {abs(ahead_ms) / 1000:.1f} s {way} the clock here",
        "Retention, timestamps, delegation tokens and certificates follow clocks.",
        "compare `date` on this machine and on the node; run NTP on both", CERTIFICATES,
    )  # fmt: skip
