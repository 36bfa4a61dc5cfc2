"""What every replica of every partition holds, followed event by event, and the rules that look at it.

Not a checker by itself: it looks at a node's replicas after each event, finds those whose log, high
watermark, leader epoch or ISR moved, and tells each :class:`Rule`. Rules are one file per invariant.

Of compacted topics only roles and marks are followed; their records are compared at the end by
:class:`~barnabas.sim.checkers.committed_records.CommittedRecordsStay`, for each replica rewrites its batches
at its own time.
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
"""After so many checks one replica's log is read again from its first byte."""


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
        """Of what is held, when it was last looked at; -1 where bytes are not followed."""
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
    """Told what moved; raises :class:`~barnabas.sim.history.Violation`. Methods not needed do nothing."""

    def on_life(self, node: SimNode, replicas: Mapping[Key, Watched]) -> None:
        """Another life of its process has begun; `replicas` are as in the life before. Without a log are
        those that went while it lasted."""

    def on_appended(self, replica: Watched, link: Link, *, new: bool) -> None:
        """The replica's log has one more batch; `new` where no other replica had it before."""

    def on_dropped(self, replica: Watched, dropped: list[Link], *, restarted: bool) -> None:
        """Batches are gone, by cutting or (`restarted`) with a life of the process."""

    def on_high_watermark(self, replica: Watched, before: int) -> None:
        """It moved, on a leader or a follower."""

    def on_leading(self, replica: Watched) -> None:
        """It leads, in an epoch in which it was not seen to lead before."""

    def on_isr(self, replica: Watched, joined: tuple[int, ...]) -> None:
        """The committed ISR that this leader goes by is another."""

    def at_end(self, logs: ReplicaLogs, cluster: SimCluster) -> None:
        """Everything has healed; look at it all."""


def _tells(rule: Rule, method: Callable[..., None]) -> bool:
    """Whether `rule` has a method of its own in the place of the base's."""
    return getattr(type(rule), method.__name__) is not method


class ReplicaLogs(Checker):
    """Follows all replicas of one cluster for `rules`."""

    def __init__(self, rules: list[Rule]) -> None:
        self.rules = rules
        self._on_appended = [r.on_appended for r in rules if _tells(r, Rule.on_appended)]
        self._on_dropped = [r.on_dropped for r in rules if _tells(r, Rule.on_dropped)]
        self._on_leading = [r.on_leading for r in rules if _tells(r, Rule.on_leading)]
        self._on_isr = [r.on_isr for r in rules if _tells(r, Rule.on_isr)]
        self._on_high_watermark = [
            r.on_high_watermark for r in rules if _tells(r, Rule.on_high_watermark)
        ]
        self.versions: dict[Key, LogVersions] = {}
        self.replicas: dict[int, dict[Key, Watched]] = {}
        """By node."""
        self._looked_at: dict[int, LookedAt] = {}
        """By node."""
        self._lives: dict[int, int] = {}
        """Node → its life when it was looked at last."""
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
        """The node's replicas are others than before."""
        known = self.replicas.setdefault(node.id, {})
        if self._lives.get(node.id) != node.machine.starts:
            self._lives[node.id] = node.machine.starts
            for rule in self.rules:
                rule.on_life(node, known)
            gone = list(known)  # a life that ends before it knows what it has says nothing of it
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
            watched.compacted = True  # it was offline when it was first seen
        if not watched.compacted:
            disk = watched.node.machine.disk
            dropped, added, new = watched.held.follow(disk, log)
            losses = disk.totals["power_losses"]
            if restarted and losses != watched.power_losses:
                # What a power loss left is looked at byte by byte.
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
            watched.end, watched.cuts = watched.held.end, log.truncation_count
        self._tell_roles(watched, partition, restarted)

    def _tell_roles(self, watched: Watched, partition: Partition, restarted: bool) -> None:
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
        """The full check of one replica's log, each in its turn."""
        mine = self._present(node)
        if mine:
            self._turn += 1
            self._verify(mine[self._turn % len(mine)])

    def _present(self, node: SimNode) -> list[Watched]:
        """Replicas that the node's present life has, and whose bytes are followed."""
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
        """The end of a run: everything is read once more, and each rule looks at it all."""
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
