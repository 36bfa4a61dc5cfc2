"""Follows the logs of all replicas of all partitions event by event, and calls the rules that judge them.

After each event `ReplicaLogs` looks at one node's replicas. It finds those whose log, high watermark, leader
epoch or ISR changed, and calls each :class:`Rule`. The rules are in files of their own, one per invariant.

Of compacted topics it follows only roles and high watermarks, because each replica rewrites its batches at
its own time. :class:`~barnabas.sim.checkers.committed_records.CommittedRecordsStay` compares their records at
the end of a run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from barnabas.broker.partitions.partition import Partition
from barnabas.replication.isr import IsrState
from barnabas.replication.leader import LeaderState
from barnabas.sim.checkers.chains import HeldLog, Link, LogVersions
from barnabas.sim.checkers.checker import Checker
from barnabas.sim.cluster import SimCluster, SimNode
from barnabas.types import Uuid

Key = tuple[Uuid, int]
LookedAt = tuple[list[Partition], list[tuple[Partition, "Watched"]]]
"""A node's replicas, and each with its state at the last check."""
VERIFY_EVERY = 4_000
"""Checks after which one replica's log is read again from its first byte."""


class Watched:
    """One replica as it was when it was last looked at."""

    __slots__ = (
        "compacted",
        "cuts",
        "end",
        "epoch",
        "held",
        "high_watermark",
        "isr",
        "isr_state",
        "leader",
        "leads",
        "log",
        "name",
        "node",
        "partition",
        "power_losses",
        "versions",
    )

    def __init__(self, node: SimNode, partition: Partition, versions: LogVersions) -> None:
        self.node = node
        self.partition = partition
        self.versions = versions
        self.held = HeldLog(versions, node.id)
        self.name = str(partition.name)
        self.log = partition.log
        self.compacted = partition.log is not None and partition.log.config.compact
        self.end = -1
        """The end offset of `held` at the last check; -1 where the log's bytes are not followed."""
        self.cuts = 0
        self.high_watermark = -1
        self.epoch = -1
        self.leads = False
        self.leader: LeaderState | None = None
        self.isr_state: IsrState | None = None
        self.power_losses = node.machine.disk.totals["power_losses"]
        self.isr: tuple[int, ...] = ()

    @property
    def where(self) -> str:
        return f"{self.name} on node {self.node.id}"


class Rule:
    """Receives what changed, and raises :class:`~barnabas.sim.history.Violation` where that is wrong.

    A rule overrides the methods that it needs.
    """

    def on_life(self, node: SimNode, replicas: Mapping[Key, Watched]) -> None:
        """The node has a new process. `replicas` are those of the former process; a replica that was removed
        while the former process ran has no log."""

    def on_appended(self, replica: Watched, link: Link, *, new: bool) -> None:
        """The replica's log has one more batch; `new` where no other replica had it before."""

    def on_dropped(self, replica: Watched, dropped: list[Link], *, restarted: bool) -> None:
        """The log has lost batches: it was truncated, or (`restarted`) the node has a new process."""

    def on_high_watermark(self, replica: Watched, before: int) -> None:
        """The replica's high watermark moved from `before`, on a leader or a follower."""

    def on_leading(self, replica: Watched) -> None:
        """The replica leads: in a new leader epoch, or again after a restart."""

    def on_isr(self, replica: Watched, joined: tuple[int, ...]) -> None:
        """The leader uses another committed ISR than before; `joined` are the brokers that are new in it."""

    def at_end(self, logs: ReplicaLogs, cluster: SimCluster) -> None:
        """The run ends, and all faults are healed: check everything."""


def _overrides(rule: Rule, method: Callable[..., None]) -> bool:
    """Whether `rule` has its own version of a method of :class:`Rule`."""
    return getattr(type(rule), method.__name__) is not method


class ReplicaLogs(Checker):
    """Follows all replicas of one cluster for `rules`."""

    def __init__(self, rules: list[Rule]) -> None:
        self.rules = rules
        self._on_appended = [r.on_appended for r in rules if _overrides(r, Rule.on_appended)]
        self._on_dropped = [r.on_dropped for r in rules if _overrides(r, Rule.on_dropped)]
        self._on_leading = [r.on_leading for r in rules if _overrides(r, Rule.on_leading)]
        self._on_isr = [r.on_isr for r in rules if _overrides(r, Rule.on_isr)]
        self._on_high_watermark = [
            r.on_high_watermark for r in rules if _overrides(r, Rule.on_high_watermark)
        ]
        self.versions: dict[Key, LogVersions] = {}
        self.replicas: dict[int, dict[Key, Watched]] = {}
        """The replicas by node."""
        self._looked_at: dict[int, LookedAt] = {}
        """The last look at each node."""
        self._lives: dict[int, int] = {}
        """Node → how many processes it had started at the last check."""
        self._looks = 0
        self._turn = 0

    def check(self, cluster: SimCluster, node: SimNode) -> None:
        broker = node.broker
        if broker is None:
            return
        table = broker.replicas.by_id
        looked_at = self._looked_at.get(node.id)
        if looked_at is None or looked_at[0] != list(table.values()):
            looked_at = self._list(node, table)
        for partition, watched in looked_at[1]:
            log, leader = partition.log, partition.leader
            if log is None or (
                log is watched.log
                and (log.log_end_offset == watched.end or watched.compacted)
                and log.high_watermark == watched.high_watermark
                and leader is watched.leader
                and (leader is None or leader.isr_state is watched.isr_state)
                and watched.partition is partition
            ):
                continue
            self._moved(watched, partition)
        self._looks += 1
        if self._looks % VERIFY_EVERY == 0:
            self._verify_one(node)

    def _list(self, node: SimNode, table: dict[Key, Partition]) -> LookedAt:
        """Note the replicas that the node has now: they are others than at the last check."""
        known = self.replicas.setdefault(node.id, {})
        if self._lives.get(node.id) != node.machine.starts:
            self._lives[node.id] = node.machine.starts
            for rule in self.rules:
                rule.on_life(node, known)
            gone = list(known)  # the new process has not shown yet which of them it still has
        else:
            gone = [key for key in known if key not in table]
        for key in gone:
            known[key].log = None
        for key, partition in table.items():
            if key not in known:
                known[key] = self._watch(node, key, partition)
        made = (list(table.values()), [(p, known[key]) for key, p in table.items()])
        self._looked_at[node.id] = made
        return made

    def _watch(self, node: SimNode, key: Key, partition: Partition) -> Watched:
        versions = self.versions.get(key)
        if versions is None:
            versions = self.versions[key] = LogVersions(str(partition.name))
        return Watched(node, partition, versions)

    def _moved(self, watched: Watched, partition: Partition) -> None:
        log = partition.log
        assert log is not None
        restarted = log is not watched.log
        watched.log, watched.partition = log, partition
        if watched.end < 0 and log.config.compact:
            watched.compacted = True  # the log was offline when the replica was first seen
        if not watched.compacted:
            disk = watched.node.machine.disk
            dropped, added, new = watched.held.follow(disk, log)
            losses = disk.totals["power_losses"]
            if restarted and losses != watched.power_losses:
                # After a power loss the whole log is compared byte by byte.
                watched.power_losses = losses
                if watched.held.end == log.log_end_offset:
                    gone, back = watched.held.verify(disk, log, lost_power=True)
                    dropped, added = dropped + gone, added + back
            if dropped:
                for on_dropped in self._on_dropped:
                    on_dropped(watched, dropped, restarted=restarted)
            for link in added:
                for on_appended in self._on_appended:
                    on_appended(watched, link, new=link in new)
            watched.end, watched.cuts = watched.held.end, log.generations.truncation_count
        self._report_role(watched, partition, restarted)

    def _report_role(self, watched: Watched, partition: Partition, restarted: bool) -> None:
        leader, log = partition.leader, partition.log
        assert log is not None
        began = leader is not None and (
            restarted or not watched.leads or leader.epoch != watched.epoch
        )
        watched.leader, watched.leads = leader, leader is not None
        watched.isr_state = leader.isr_state if leader is not None else None
        watched.epoch = partition.leader_epoch if leader is None else leader.epoch
        if began:
            assert leader is not None
            watched.isr = leader.isr
            for on_leading in self._on_leading:
                on_leading(watched)
        elif leader is not None and leader.isr != watched.isr:
            joined = tuple(broker for broker in leader.isr if broker not in watched.isr)
            watched.isr = leader.isr
            for on_isr in self._on_isr:
                on_isr(watched, joined)
        elif leader is not None:
            watched.isr = leader.isr
        before, watched.high_watermark = watched.high_watermark, log.high_watermark
        if before != watched.high_watermark:
            for on_high_watermark in self._on_high_watermark:
                on_high_watermark(watched, before)

    def _verify_one(self, node: SimNode) -> None:
        """Check one replica's whole log. Successive calls take successive replicas."""
        mine = self._present(node)
        if mine:
            self._turn += 1
            self._verify(mine[self._turn % len(mine)])

    def _present(self, node: SimNode) -> list[Watched]:
        """The replicas of the node's present process whose bytes are followed."""
        broker = node.broker
        if broker is None:
            return []
        table = broker.replicas.by_id
        known = self.replicas.get(node.id, {}).items()
        return [w for key, w in known if not w.compacted and table.get(key) is w.partition]

    @staticmethod
    def _verify(watched: Watched) -> None:
        log = watched.partition.log
        if log is not None and log is watched.log and watched.held.end == log.log_end_offset:
            watched.held.verify(watched.node.machine.disk, log)

    def finish(self, cluster: SimCluster) -> None:
        """At the end of a run: read every log once more, and call `at_end` of each rule."""
        for node in cluster.up():
            self.check(cluster, node)
            for watched in self._present(node):
                self._verify(watched)
        for rule in self.rules:
            rule.at_end(self, cluster)

    def live(self, cluster: SimCluster, key: Key) -> list[Watched]:
        """The replicas of `key` on nodes that are up, whose log is online."""
        found = []
        for node in cluster.up():
            watched = self.replicas.get(node.id, {}).get(key)
            broker = node.broker
            if watched is None or broker is None:
                continue
            if broker.replicas.by_id.get(key) is watched.partition and watched.partition.log:
                found.append(watched)
        return found
