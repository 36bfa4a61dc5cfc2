"""Replicas that are asked how far they are (unclean recovery), and what becomes meanwhile of them and of who
asks."""

from __future__ import annotations

from barnabas.sim.cluster import SimNode
from barnabas.sim.faults.injection import Strike
from barnabas.sim.faults.networks import both_ways
from barnabas.sim.faults.targeted_crashes import watch

APART_MS = 5.0
"""Between two strikes at one time of asking."""


def ambush_surveys(s: Strike) -> bool:
    """Every broker is killed and comes back in its own time, so that no replica is in sync and the controller
    has to ask all of them. A few times during that survey one of those asked is paused, cannot be heard, or
    dies and comes back, or the controller dies."""
    image, brokers = s.budget.image(), s.cluster.topology.broker_ids
    if image is None or not image.elr_enabled or len(brokers) < 2:
        return False
    left, next_ms = [s.rng.choice([1, 2, 4, 8])], [0.0]

    def look(node: SimNode) -> bool:
        runtime = node.node.metadata.controller if node.node is not None else None
        if runtime is None or not runtime.recovery.under_way or s.world.now_ms < next_ms[0]:
            return False
        inquiry = s.rng.choice(list(runtime.recovery.under_way.values()))
        asked = s.cluster.nodes[s.rng.choice(list(inquiry.waiting or inquiry.asked))]
        s.count("surveys ambushed")
        s.rng.choice([_late, _unheard, _die, _die, _fail_over])(s, node, asked)
        left[0] -= 1
        next_ms[0] = s.world.now_ms + APART_MS
        return left[0] <= 0

    watch(s, look)
    for broker in brokers:
        victim = s.cluster.nodes[broker]
        if victim.is_up:
            s.kill_later(s.wait_ms(0.0, 5, 50), victim)
        s.world.after(100.0 + s.wait_ms(20, 200, 1500), victim.start)
    return True


def _late(s: Strike, active: SimNode, asked: SimNode) -> None:
    """One answers late, or not in time."""
    process, duration = asked.process, s.wait_ms(100, 1000, 3000)
    if process is not None:
        s.note(f"node {asked.id} is asked how far it is, and pauses for {duration:.0f} ms")
        s.world.after(0.0, lambda: process.pause(duration))


def _unheard(s: Strike, active: SimNode, asked: SimNode) -> None:
    links = both_ways([f"n{asked.id}"], [f"n{active.id}"])
    chosen = s.rng.choice([links, links[:1], links[1:]])
    if active is asked:
        return
    s.note(f"node {asked.id} is asked how far it is: {chosen} is cut")
    heal = s.cut(chosen)
    s.repair_later(s.wait_ms(100, 2000), heal)


def _die(s: Strike, active: SimNode, asked: SimNode) -> None:
    s.note(f"node {asked.id} is asked how far it is, and dies")
    dies_ms = s.wait_ms(0.0, 2, 20)
    s.kill_later(dies_ms, asked)
    s.world.after(dies_ms + s.wait_ms(5, 100, 1500, 5000), asked.start)


def _fail_over(s: Strike, active: SimNode, asked: SimNode) -> None:
    s.note(f"node {active.id} asks how far replicas are, and dies")
    dies_ms = s.wait_ms(0.0, 1, 5)
    s.kill_later(dies_ms, active)
    s.world.after(dies_ms + s.wait_ms(20, 200, 1500), active.start)
