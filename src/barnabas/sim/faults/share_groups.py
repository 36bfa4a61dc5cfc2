"""Ambushes of share groups: a leader or a coordinator dies while what was acknowledged is being kept."""

from __future__ import annotations

from barnabas.sim.cluster import SimNode
from barnabas.sim.faults.injection import Strike
from barnabas.sim.faults.targeted_crashes import watch
from barnabas.types import OFFSETS_TOPIC, SHARE_STATE_TOPIC


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
