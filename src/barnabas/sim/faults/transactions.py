"""Ambushes of coordinators: of transactions, where the coordinator or a leader dies, or is cut off, between
two steps of an end; of share groups, where a leader or a coordinator dies while what was acknowledged is
being kept; and of streams groups, whose coordinator dies while tasks change hands."""

from __future__ import annotations

from barnabas.group.streams.streams_group import StreamsGroup
from barnabas.sim.cluster import SimNode
from barnabas.sim.faults.injection import Strike
from barnabas.sim.faults.networks import both_ways
from barnabas.sim.faults.targeted_crashes import WAIT_MS_MAX, watch
from barnabas.types import OFFSETS_TOPIC, SHARE_STATE_TOPIC


def ambush_transactions(s: Strike) -> bool:
    """One of the next ends of a transaction is hit: while the decision is written and not committed, or while
    its markers are on their way. Its coordinator dies, or loses the brokers that follow it, or a leader dies
    that has no marker yet."""
    if s.any_broker() is None:
        return False
    while_deciding = s.rng.random() < 0.4
    left = [s.rng.choice([1, 2, 5])]
    seen: set[str] = set()

    def look(node: SimNode) -> bool:
        found = _deciding(node) if while_deciding else _marking(node)
        fresh = [moment for moment in found if moment[0] not in seen]
        if fresh:
            seen.update(moment[0] for moment in fresh)
            left[0] -= 1
            if left[0] <= 0:
                _hit(s, node, fresh[0][1])
        return left[0] <= 0

    watch(s, look)
    return True


def _hit(s: Strike, coordinator: SimNode, leader: int | None) -> None:
    s.count("ambushes")
    victim = coordinator
    if leader is not None and leader in s.cluster.nodes and s.rng.random() < 0.6:
        victim = s.cluster.nodes[leader]
    if victim is coordinator and s.rng.random() < 0.4:
        s.note(f"node {victim.id} is cut off while it ends a transaction")
        others = [f"n{node.id}" for node in s.cluster.up() if node is not victim]
        heal = s.cut(both_ways([f"n{victim.id}"], others))
        s.repair_later(s.wait_ms(500, 3000, WAIT_MS_MAX), heal)
        return
    s.note(f"node {victim.id} is ambushed while node {coordinator.id} ends a transaction")
    s.kill_later(s.rng.choice([0.0, 0.0, s.rng.uniform(0, 3)]), victim)
    s.world.after(s.wait_ms(200, 1500, 6000), victim.start)


def _deciding(node: SimNode) -> list[tuple[str, int | None]]:
    """The decisions of a coordinator that are not committed yet."""
    broker = node.broker
    if broker is None:
        return []
    return [
        (f"{name} {known.producer_id}/{known.producer_epoch} {known.start_ms}", None)
        for shard in broker.transactions.coordinators.shards.values()
        if shard.active and shard.written > shard.committed
        for name, known in shard.machine.ids.items()
        if known.is_ending and shard.machine.ids.committed(name) is not known
    ]


def _marking(node: SimNode) -> list[tuple[str, int | None]]:
    """Whose markers are on their way, and a leader that has none yet."""
    broker = node.broker
    if broker is None:
        return []
    found: list[tuple[str, int | None]] = []
    for name, producer, places in broker.transactions.markers.pending():
        topic = broker.image.topics_by_name.get(places[-1].topic)
        leader = None
        if topic is not None and topic.has(places[-1].partition):
            leader = topic.leader[places[-1].partition]
        found.append((f"{name} {producer}", leader))
    return found


def ambush_shares(s: Strike) -> bool:
    """One of the next writes to a share coordinator is hit: the leader that writes dies, or a broker that
    coordinates share groups, or one that coordinates groups, while the write is under way or a little
    later."""
    if s.any_broker() is None:
        return False
    victims = s.rng.choice(["leader", SHARE_STATE_TOPIC, OFFSETS_TOPIC])
    left = [s.rng.choice([1, 2, 5, 20])]
    writes: dict[int, int] = {}

    def look(node: SimNode) -> bool:
        broker = node.broker
        shares = None if broker is None else broker.shares.opened
        if shares is None:
            return False
        before, writes[node.id] = writes.get(node.id, 0), shares.led.writes
        left[0] -= writes[node.id] > before
        if left[0] > 0:
            return False
        victim = node if victims == "leader" else _leader_of(s, node, victims)
        s.count("ambushes")
        s.note(f"node {victim.id} is ambushed while node {node.id} writes a share state")
        s.kill_later(s.rng.choice([0.0, 0.0, s.rng.uniform(0, 5)]), victim)
        s.world.after(s.wait_ms(200, 1500, 6000), victim.start)
        return True

    watch(s, look)
    return True


def _leader_of(s: Strike, node: SimNode, topic: str) -> SimNode:
    """A leader of the internal topic, as `node` knows it; else that one."""
    known = node.image.topics_by_name.get(topic)
    leaders = [] if known is None else [n for n in known.leader if n in s.cluster.nodes]
    return s.cluster.nodes[s.rng.choice(sorted(leaders))] if leaders else node


def ambush_streams(s: Strike) -> bool:
    """The coordinator of a streams group dies, or a broker that follows it, while one of the next records of
    its groups is written and not committed, or a little later."""
    if s.any_broker() is None:
        return False
    spares = s.rng.random() < 0.2
    left = [s.rng.choice([1, 2, 5, 20])]
    seen: dict[tuple[int, int], int] = {}

    def look(node: SimNode) -> bool:
        for partition, written in _writing_streams(node):
            if seen.get((node.id, partition), -1) < written:
                seen[node.id, partition] = written
                left[0] -= 1
        if left[0] > 0:
            return False
        others = [other for other in s.cluster.up() if other is not node]
        victim = s.rng.choice(others) if spares and others else node
        s.count("ambushes")
        s.note(f"node {victim.id} is ambushed while node {node.id} writes of a streams group")
        s.kill_later(s.rng.choice([0.0, 0.0, s.rng.uniform(0, 5)]), victim)
        s.world.after(s.wait_ms(200, 1500, 6000), victim.start)
        return True

    watch(s, look)
    return True


def _writing_streams(node: SimNode) -> list[tuple[int, int]]:
    """Partition and end of each coordinator of streams groups whose last records are not committed."""
    broker = node.broker
    if broker is None:
        return []
    return [
        (shard.partition, shard.written)
        for shard in broker.groups.shards.values()
        if shard.active
        and shard.written > shard.committed
        and any(isinstance(g, StreamsGroup) for _, g in shard.machine.table.groups.items())
    ]
