"""Faults of a migration alone: they hit the quorum's controllers at the ensemble, and whichever side has just
taken a step. The other kinds are those of ZooKeeper mode.
"""

from __future__ import annotations

from collections.abc import Mapping

from barnabas.sim.cluster import SimNode
from barnabas.sim.faults import Kind
from barnabas.sim.faults.injection import Strike
from barnabas.sim.faults.networks import both_ways
from barnabas.sim.faults.targeted_crashes import watch
from barnabas.sim.migration.cluster import MigratingSimNode, MigrationCluster
from barnabas.sim.zookeeper_mode.faults import ZOOKEEPER_KINDS, cut_for_a_while, server_hosts
from barnabas.zookeeper.migration.driver import MigrationPhase

PHASES = (
    MigrationPhase.WAIT_FOR_BROKERS,
    MigrationPhase.BECOME_CONTROLLER,
    MigrationPhase.ZK_MIGRATION,
    MigrationPhase.SYNC_KRAFT_TO_ZK,
    MigrationPhase.DUAL_WRITE,
)


def cluster_of(s: Strike) -> MigrationCluster:
    assert isinstance(s.cluster, MigrationCluster)
    return s.cluster


def kill_quorum_leader(s: Strike) -> bool:
    """kill -9 of the controller that leads the quorum, whether it rules the cluster or not."""
    leader = cluster_of(s).quorum_leader()
    return leader is not None and _kill(s, leader)


def kill_quorum(s: Strike) -> bool:
    """kill -9 of all controllers of the quorum."""
    up = [node for node in cluster_of(s).controllers if node.is_up]
    for node in up:
        _kill(s, node)
    return bool(up)


def kill_former(s: Strike) -> bool:
    """kill -9 of the broker that is controller, and of the quorum's leader."""
    cluster = cluster_of(s)
    former, leader = _broker_in_charge(cluster), cluster.quorum_leader()
    if former is None or leader is None:
        return False
    return _kill(s, former) and _kill(s, leader)


def lose_quorum_leader(s: Strike) -> bool:
    """The quorum's leader is cut off: from ZooKeeper, from the other controllers, or from the brokers."""
    leader = cluster_of(s).quorum_leader()
    return leader is not None and _cut(s, leader)


def expire_quorum_leader(s: Strike) -> bool:
    """The ZooKeeper session of the quorum's leader ends; mostly it cannot learn that for a while."""
    leader = cluster_of(s).quorum_leader()
    sessions = None if leader is None else leader.sessions
    ensemble = cluster_of(s).ensemble
    if leader is None or sessions is None or sessions.id not in ensemble.sessions:
        return False
    if s.rng.random() < 0.6:
        links = both_ways([leader.machine.host], server_hosts(s))
        cut_for_a_while(s, f"{leader.machine.host} is cut off from ZooKeeper", links)
    s.note(f"the session of node {leader.id} is ended")
    s.count("sessions ended")
    ensemble.expire(sessions.id)
    return True


def quorum_leader_sleeps(s: Strike) -> bool:
    """The quorum's leader does nothing for a while; when it wakes it believes that it leads."""
    leader = cluster_of(s).quorum_leader()
    if leader is None or leader.process is None:
        return False
    asleep_ms = s.wait_ms(500, 3000, 8000)
    s.note(f"node {leader.id} sleeps for {asleep_ms:.0f} ms")
    leader.process.pause(asleep_ms)
    return True


def ambush_migration(s: Strike) -> bool:
    """Ambush a controller: as soon as it comes to a phase of the takeover it dies, is cut off or sleeps;
    or the broker that was controller dies."""
    cluster, phase = cluster_of(s), s.rng.choice(PHASES)
    later_ms = s.rng.choice([0.0, 0.0, 2.0, 20.0])
    happens = s.rng.choice([_kill, _kill, _cut, _sleep, _kill_former])

    def look(node: SimNode) -> bool:
        migration = node.migration if isinstance(node, MigratingSimNode) else None
        if migration is None or migration.migration.phase is not phase:
            return False
        s.count("ambushes")
        s.note(f"node {node.id} is ambushed in {phase.value}")
        assert isinstance(node, MigratingSimNode)

        def strike() -> None:
            if not cluster.is_healed:
                happens(s, node)

        s.world.after(later_ms, strike)
        return True

    watch(s, look)
    return True


def _kill(s: Strike, node: MigratingSimNode) -> bool:
    node.kill()
    s.restart_later(node)
    return True


def _kill_former(s: Strike, node: MigratingSimNode) -> bool:
    former = _broker_in_charge(cluster_of(s))
    return _kill(s, former or node)


def _sleep(s: Strike, node: MigratingSimNode) -> bool:
    if node.process is not None:
        node.process.pause(s.wait_ms(500, 3000, 8000))
    return True


def _cut(s: Strike, node: MigratingSimNode) -> bool:
    cluster, here = cluster_of(s), node.machine.host
    others = [other.machine.host for other in cluster.controllers if other is not node]
    brokers = [other.machine.host for other in cluster.migrating_brokers]
    s.rng.shuffle(brokers)
    what, hosts = s.rng.choice(
        [
            ("ZooKeeper", server_hosts(s)),
            ("the other controllers", others),
            ("brokers", brokers[: (len(brokers) + 1) // 2]),
        ]
    )
    if not hosts:
        return False
    return cut_for_a_while(s, f"{here} is cut off from {what}", both_ways([here], hosts))


def _broker_in_charge(cluster: MigrationCluster) -> MigratingSimNode | None:
    """The broker that is controller, or believes that it is."""
    for node in cluster.migrating_brokers:
        inside = node.zookeeper_node
        if node.is_up and inside is not None and inside.is_controller:
            return node
    return None


OF_MIGRATIONS: Mapping[str, Kind] = {
    "kill-quorum-leader": kill_quorum_leader,
    "kill-quorum": kill_quorum,
    "kill-former": kill_former,
    "lose-quorum-leader": lose_quorum_leader,
    "expire-quorum-leader": expire_quorum_leader,
    "quorum-leader-sleeps": quorum_leader_sleeps,
    "ambush-migration": ambush_migration,
}
MIGRATION_KINDS: Mapping[str, Kind] = {
    **{kind: function for kind, function in ZOOKEEPER_KINDS.items() if kind != "empty-disk"},
    **OF_MIGRATIONS,
}
"""The kinds by the name that ``--faults`` takes where ``--migration`` is given."""
