"""Faults of ZooKeeper mode alone: servers of the ensemble, sessions, links to both sides, empty disks.

As in KRaft mode a fault is a function of one `Strike`, and each of them is repaired in the end.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from barnabas.sim.cluster import SimNode
from barnabas.sim.faults import KINDS, Kind
from barnabas.sim.faults.injection import Strike
from barnabas.sim.faults.networks import both_ways
from barnabas.sim.faults.targeted_crashes import watch
from barnabas.sim.zookeeper.server import EnsembleServer
from barnabas.sim.zookeeper_mode.cluster import ZookeeperCluster, ZookeeperSimNode

SHARED = (
    "kill", "kill-leader", "power", "shutdown", "kill-all", "blackout", "restart-all", "roll",
    "ambush-joining", "ambush-isr", "ambush-moves", "ambush-transactions", "kill-within", "pause",
    "slow-node", "slow-disk", "clock-jump", "clock-drift", "netsplit", "halves", "bridge", "one-way",
    "deaf", "isolate-leader", "slow-network", "resets", "lost-connections", "double-connections",
    "disk-error", "disk-failure", "disk-full",
)  # fmt: skip
"""Kinds of KRaft mode that mean the same here. They hit the machines of brokers, not of the ensemble."""


def cluster_of(s: Strike) -> ZookeeperCluster:
    assert isinstance(s.cluster, ZookeeperCluster)
    return s.cluster


# -- the ensemble ----------------------------------------------------------------------------------


def kill_server(s: Strike) -> bool:
    """kill -9 of a server; without a majority the ensemble is away until it returns."""
    running = [server for server in cluster_of(s).ensemble.servers if server.process is not None]
    return bool(running) and _end(s, [s.rng.choice(running)], (200, 1500, 6000))


def kill_ensemble_leader(s: Strike) -> bool:
    """kill -9 of the ensemble's leader: sessions pause, and move to other servers."""
    leader = cluster_of(s).ensemble.leader
    return leader is not None and _end(s, [leader], (200, 1500, 6000))


def ensemble_away(s: Strike) -> bool:
    """kill -9 of all servers; they return before, or long after, the brokers' sessions expire."""
    running = [server for server in cluster_of(s).ensemble.servers if server.process is not None]
    return bool(running) and _end(s, running, (300, 3000, 12_000))


def _end(s: Strike, servers: Sequence[EnsembleServer], back_ms: Sequence[float]) -> bool:
    away_ms = s.wait_ms(*back_ms)
    s.note(f"kill -9 of {', '.join(server.host for server in servers)} for {away_ms:.0f} ms")
    s.count("ensemble servers killed")
    for server in servers:
        server.kill()
        s.repair_later(away_ms * s.rng.uniform(0.9, 1.1), _starter(server))
    return True


def _starter(server: EnsembleServer) -> Callable[[], None]:
    def start() -> None:
        if server.process is None:
            server.start()

    return start


def ensemble_sleeps(s: Strike) -> bool:
    """One server, or all of them, do nothing for a while: their clients receive nothing."""
    ensemble = cluster_of(s).ensemble
    chosen = ensemble.servers if s.rng.random() < 0.5 else [s.rng.choice(ensemble.servers)]
    asleep_ms = s.wait_ms(300, 1500, 6000)
    s.note(f"{', '.join(server.host for server in chosen)} sleep for {asleep_ms:.0f} ms")
    for server in chosen:
        if server.process is not None:
            server.process.pause(asleep_ms)
    return True


def split_ensemble(s: Strike) -> bool:
    """One server is cut off from the other servers; brokers still reach all servers."""
    hosts = [server.host for server in cluster_of(s).ensemble.servers]
    if len(hosts) < 2:
        return False
    alone = s.rng.choice(hosts)
    others = [host for host in hosts if host != alone]
    return cut_for_a_while(s, f"{alone} is cut off from other servers", both_ways([alone], others))


# -- sessions --------------------------------------------------------------------------------------


def expire(s: Strike) -> bool:
    """The session of a broker, mostly of the controller, expires. The broker learns that later; until then a
    controller believes that it still is one."""
    node = _mostly_the_controller(s)
    if node is None or node.zookeeper_node is None:
        return False
    session = node.zookeeper_node.sessions.id
    ensemble = cluster_of(s).ensemble
    if session not in ensemble.sessions:
        return False
    if s.rng.random() < 0.7:
        links = both_ways([node.machine.host], server_hosts(s))
        cut_for_a_while(s, f"{node.machine.host} is cut off from ZooKeeper", links)
    s.note(f"the session of node {node.id} is ended")
    s.count("sessions ended")
    ensemble.expire(session)
    return True


def move_session(s: Strike) -> bool:
    """A broker is cut off from the server that has its session; the session moves to another server."""
    node = _mostly_the_controller(s)
    if node is None or node.zookeeper_node is None:
        return False
    entry = cluster_of(s).ensemble.sessions.get(node.zookeeper_node.sessions.id)
    if entry is None:
        return False
    here, there = node.machine.host, entry.connection.server.host
    s.count("sessions moved")
    return cut_for_a_while(s, f"{here} loses {there}", both_ways([here], [there]))


def sleep_past_session(s: Strike) -> bool:
    """A broker, mostly the controller, does nothing for 0.6 to 1.6 times its session timeout, and wakes."""
    node = _mostly_the_controller(s)
    if node is None or node.process is None or node.zookeeper_node is None:
        return False
    asleep_ms = _session_ms(s, node) * s.rng.choice([0.6, 1.1, 1.6])
    s.note(f"node {node.id} sleeps for {asleep_ms:.0f} ms")
    s.count("brokers asleep past their sessions")
    node.process.pause(asleep_ms)
    return True


def _session_ms(s: Strike, node: SimNode) -> float:
    return float(s.cluster.properties(node.id).get("zookeeper.session.timeout.ms", "18000"))


def _mostly_the_controller(s: Strike) -> ZookeeperSimNode | None:
    active = s.cluster.active_controller()
    node = active if active is not None and s.rng.random() < 0.7 else s.any_node()
    return node if isinstance(node, ZookeeperSimNode) else None


# -- links -----------------------------------------------------------------------------------------


def lose_ensemble(s: Strike) -> bool:
    """A broker, mostly the controller, is cut off from ZooKeeper, not from the other brokers."""
    node = _mostly_the_controller(s)
    if node is None:
        return False
    links = both_ways([node.machine.host], server_hosts(s))
    if s.rng.random() < 0.3:
        # Drawn for each direction of each link: of a server both directions may be lost, or one, or none.
        links = [link for link in links if link[0 if s.rng.random() < 0.5 else 1].startswith("n")]
    return cut_for_a_while(s, f"{node.machine.host} is cut off from ZooKeeper", links)


def lose_half(s: Strike) -> bool:
    """The controller is cut off from half of the brokers, or from all of them, but not from ZooKeeper."""
    active = s.cluster.active_controller()
    if active is None:
        return False
    others = [n.machine.host for n in s.cluster.nodes.values() if n is not active]
    s.rng.shuffle(others)
    lost = sorted(others[: s.rng.choice([max(1, len(others) // 2), len(others)])])
    if not lost:
        return False
    here = active.machine.host
    return cut_for_a_while(
        s, f"the controller, {here}, is cut off from {lost}", both_ways([here], lost)
    )


def server_hosts(s: Strike) -> list[str]:
    """The machines of the ensemble."""
    return [server.host for server in cluster_of(s).ensemble.servers]


def cut_for_a_while(s: Strike, what: str, links: list[tuple[str, str]]) -> bool:
    """Nothing passes `links` until it heals; True."""
    s.note(f"netsplit: {what}")
    s.count("netsplits")
    join = s.cut(links)

    def heal() -> None:
        s.note("netsplit heals")
        join()

    s.repair_later(s.wait_ms(300, 3000, 9000), heal)
    return True


# -- brokers ---------------------------------------------------------------------------------------


def kill_both(s: Strike) -> bool:
    """kill -9 of the controller and of another broker at once."""
    active = s.cluster.active_controller()
    others = [node for node in s.cluster.up() if node is not active]
    if active is None or not others:
        return False
    for node in (active, s.rng.choice(others)):
        node.kill()
        s.restart_later(node)
    return True


def ambush_writes(s: Strike) -> bool:
    """The controller is killed, or loses ZooKeeper, while one of its next writes is on its way. The next
    controller may find that write or not."""
    left = [s.rng.choice([1, 2, 5])]
    seen: dict[int, int] = {}
    loses_link = s.rng.random() < 0.4

    def look(node: SimNode) -> bool:
        inside = node.zookeeper_node if isinstance(node, ZookeeperSimNode) else None
        if inside is None or not inside.is_controller or inside.journal.is_idle:
            return False
        if inside.journal.log_end_offset > seen.get(node.id, -1):
            seen[node.id] = inside.journal.log_end_offset
            left[0] -= 1
        if left[0] > 0:
            return False
        s.count("ambushes")
        s.note(f"the controller, node {node.id}, is ambushed while it writes")
        if loses_link:
            cut_for_a_while(
                s, "it loses ZooKeeper", both_ways([node.machine.host], server_hosts(s))
            )
        else:
            s.kill_later(s.rng.uniform(0.0, 2.0), node)
            s.world.after(s.wait_ms(200, 1500, 6000), node.start)
        return True

    watch(s, look)
    return True


def empty_disk(s: Strike) -> bool:
    """A broker is killed, and returns with an empty disk once no ISR holds it. Where that takes too long, it
    returns with its disk as it was."""
    node = s.any_node()
    if node is None:
        return False
    node.kill()
    written = cluster_of(s).written

    def look(left: int) -> None:
        if node.is_up:
            return
        image = written.image
        in_isr = any(node.id in isr for topic in image.topics_by_id.values() for isr in topic.isr)
        if not in_isr:
            s.note(f"node {node.id} comes back with an empty disk")
            s.count("disks emptied")
            for directory in node.directories:
                node.machine.disk.wipe(directory)
        if not in_isr or not left or s.cluster.is_healed:
            node.start()
            return
        s.world.after(100.0, lambda: look(left - 1))

    s.world.after(s.wait_ms(200, 1500), lambda: look(60))
    return True


OF_ZOOKEEPER: Mapping[str, Kind] = {
    "kill-server": kill_server,
    "kill-ensemble-leader": kill_ensemble_leader,
    "ensemble-away": ensemble_away,
    "ensemble-sleeps": ensemble_sleeps,
    "split-ensemble": split_ensemble,
    "expire": expire,
    "move-session": move_session,
    "sleep-past-session": sleep_past_session,
    "lose-ensemble": lose_ensemble,
    "lose-half": lose_half,
    "kill-both": kill_both,
    "ambush-writes": ambush_writes,
    "empty-disk": empty_disk,
}
ZOOKEEPER_KINDS: Mapping[str, Kind] = {
    **{kind: KINDS[kind] for kind in SHARED},
    **OF_ZOOKEEPER,
}
"""The kinds by the name that ``--faults`` takes where ``--zookeeper`` is given."""
