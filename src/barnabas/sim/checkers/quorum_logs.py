"""The content of every replica of the metadata quorum, followed event by event, and the rules that look
at it.

As :mod:`~barnabas.sim.checkers.replica_logs` is for partitions: it finds what moved on the node of the last
event and tells each :class:`QuorumRule`.
"""

from __future__ import annotations

from barnabas.log.config import FOREVER_MS
from barnabas.log.partition.partition_log import PartitionLog
from barnabas.raft.core.states import Leader
from barnabas.raft.raft_node import RaftNode
from barnabas.raft.storage.replica_log import DIRECTORY, PartitionRaftLog
from barnabas.sim.checkers.chains import HeldLog, Link, LogVersions
from barnabas.sim.checkers.checker import Checker
from barnabas.sim.cluster import SimCluster, SimNode
from barnabas.sim.history import Violation

VERIFY_EVERY = 5_000
"""After so many checks one replica's log is read again from its first byte."""


def log_of(quorum: RaftNode) -> PartitionLog:
    log = quorum.log
    assert isinstance(log, PartitionRaftLog)
    return log.partition_log


class QuorumMember:
    """One replica of the quorum as it was when it was last looked at."""

    __slots__ = (
        "cut_at",
        "cuts",
        "durable",
        "end",
        "held",
        "high_watermark",
        "led_epoch",
        "log",
        "node",
        "quorum",
        "rots",
        "synced",
        "voters",
    )

    def __init__(self, node: SimNode, versions: LogVersions) -> None:
        self.node = node
        self.held = HeldLog(versions, node.id)
        self.quorum: RaftNode | None = None
        self.log: PartitionLog | None = None
        self.end = -1
        self.cuts = 0
        self.cut_at = FOREVER_MS
        """The offset at which the life before was about to cut its log when it ended."""
        self.synced = -1
        self.rots = 0
        """The rots of its disk, when this life was first looked at."""
        self.high_watermark = -1
        self.led_epoch = -1
        self.durable = 0
        """The end offset up to which it has said to be on its disk."""
        self.voters: list[int] = []
        """The voter set it used at the check before; empty where it was started since."""

    @property
    def where(self) -> str:
        return f"{DIRECTORY} on node {self.node.id}"


class QuorumRule:
    """Is called with what moved; raises :class:`Violation`."""

    def on_commit(self, logs: QuorumLogs, member: QuorumMember, link: Link) -> None:
        """The replica counts everything up to `link` as committed."""

    def on_committed(self, logs: QuorumLogs, cluster: SimCluster, link: Link) -> None:
        """A replica counts `link` as committed, and no replica did before. In order, without a gap."""

    def at_end(self, cluster: SimCluster) -> None:
        """Everything has healed."""

    def on_leading(self, logs: QuorumLogs, member: QuorumMember) -> None:
        """The replica leads an epoch in which it was not seen to lead before."""


class QuorumLogs(Checker):
    """Follows the quorum's logs for `rules`; raises where two of them do not match (invariant 2)."""

    LOOKS_AT_QUORUM = True

    def __init__(self, rules: list[QuorumRule]) -> None:
        self.rules = rules
        self.versions = LogVersions(DIRECTORY)
        self.members: dict[int, QuorumMember] = {}
        self._looks = 0

    def check(self, cluster: SimCluster, node: SimNode) -> None:
        assert node.node is not None
        quorum = node.node.quorum
        machine = quorum.machine
        state, leads = machine.state, type(machine.state) is Leader
        member = self.members.get(node.id)
        if member is None:
            member = self.members[node.id] = QuorumMember(node, self.versions)
        elif (
            quorum is member.quorum
            and member.log is not None
            and member.log.log_end_offset == member.end
            and machine.log.synced_offset == member.synced
            and machine.high_watermark == member.high_watermark
            and (not leads or state.epoch == member.led_epoch)
        ):
            return
        self._moved(member, quorum, leads)
        self._looks += 1
        if self._looks % VERIFY_EVERY == 0:
            self._verify(member)

    def _moved(self, member: QuorumMember, quorum: RaftNode, leads: bool) -> None:
        machine, log = quorum.machine, log_of(quorum)
        restarted = quorum is not member.quorum
        if (
            restarted
            and member.log is not None
            and member.log.generations.truncation_count != member.cuts
        ):
            # It died within a cut: files of what went may be gone, and the last look was before that.
            member.cut_at = member.log.generations.lowest_cut
        member.log = log
        if restarted:
            member.quorum, member.high_watermark, member.led_epoch = quorum, -1, -1
            member.voters = []
        before = self.versions.committed.get(log.log_start_offset)
        if before is None and log.log_start_offset > 0:
            raise Violation(
                f"{member.where}: begins at offset {log.log_start_offset}, which was never committed"
            )
        disk = member.node.machine.disk
        dropped, _, _ = member.held.follow(disk, log)
        rots = disk.totals["metadata_bits_rotted"]
        if rots == member.rots or not restarted:
            self._check_dropped(member, dropped, restarted)
        member.rots = rots
        member.cuts, member.cut_at = log.generations.truncation_count, FOREVER_MS
        member.end, member.synced = log.log_end_offset, machine.log.synced_offset
        member.durable = min(member.synced, member.held.end)
        if leads and machine.epoch != member.led_epoch:
            member.led_epoch = machine.epoch
            for rule in self.rules:
                rule.on_leading(self, member)
        if machine.high_watermark != member.high_watermark:
            member.high_watermark = machine.high_watermark
            link = member.held.at(machine.high_watermark)
            if link is not None and link.end == machine.high_watermark:
                known = self.versions.high_watermark
                for rule in self.rules:
                    rule.on_commit(self, member, link)
                self._tell_committed(member.node.cluster, link, known)
        member.voters = list(machine.voters)

    def _tell_committed(self, cluster: SimCluster, link: Link, before: int) -> None:
        fresh: list[Link] = []
        at: Link | None = link
        while at is not None and at.end > before:
            fresh.append(at)
            at = at.previous_link
        for found in reversed(fresh):
            for rule in self.rules:
                rule.on_committed(self, cluster, found)

    def _check_dropped(self, member: QuorumMember, dropped: list[Link], restarted: bool) -> None:
        """Check that what this replica itself called committed stays in its log, whatever happens to it."""
        for link in dropped:
            committed = self.versions.committed.get(link.end) is link
            durable = link.end <= member.durable and (committed or link.end <= member.cut_at)
            if durable and link.end > member.held.end and restarted:
                raise Violation(
                    f"{member.where}: comes back without {link!r}, though it had synced up to offset"
                    f" {member.durable}"
                )
            if committed and member.held.end < link.end <= member.high_watermark:
                raise Violation(f"{member.where}: loses {link!r}, which it knew to be committed")

    @staticmethod
    def _verify(member: QuorumMember) -> None:
        quorum = member.quorum
        if quorum is not None and member.held.end == log_of(quorum).log_end_offset:
            member.held.verify(member.node.machine.disk, log_of(quorum))

    def finish(self, cluster: SimCluster) -> None:
        for node in cluster.up():
            self.check(cluster, node)
            self._verify(self.members[node.id])
        for rule in self.rules:
            rule.at_end(cluster)
