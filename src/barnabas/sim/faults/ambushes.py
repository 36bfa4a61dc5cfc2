"""Kills at the worst moment: not at any time, but right after something was decided.

What is promised across a crash is put to the test between the promise and what follows from it, a
window that a kill at any time hardly ever hits. An ambush waits for its moment for a while, kills, and has
the victim back soon.
"""

from __future__ import annotations

from collections.abc import Callable

from barnabas.raft.states import Candidate, Leader
from barnabas.sim.cluster import SimNode
from barnabas.sim.faults.strike import Strike

WAITS_MS = 6_000.0
"""For its moment, at most."""


def ambush_voters(s: Strike) -> bool:
    """The active controller or every node is killed, and each voter once more right after it has given
    its vote. It is there again while the election still goes on, which a slow network draws out: several
    stand in the same epoch, and ask by connections that are new."""
    leader = s.cluster.active_controller()
    if leader is None:
        return False
    victims = s.cluster.up() if s.rng.random() < 0.7 else [leader]
    before = {node.id: _vote(node) for node in s.cluster.up()}

    def has_voted(node: SimNode) -> bool:
        vote = _vote(node)
        return vote is not None and vote != before.get(node.id)

    _lie_in_wait(s, has_voted, len(before), (1, 5, 20))
    _slow_down(s)
    for node in victims:
        node.kill()
        s.world.after(s.wait_ms(1, 20), node.start)
    return True


def _slow_down(s: Strike) -> None:
    conditions = s.cluster.network.conditions
    conditions.slow_chance, conditions.slow_ms_max = 0.6, s.rng.choice([30.0, 100.0, 300.0])

    def heal() -> None:
        conditions.slow_chance = 0.0

    s.repair_later(s.rng.uniform(300, 1500), heal)


def ambush_leaders(s: Strike) -> bool:
    """The next one or two that are elected by the quorum are killed as soon as they lead."""
    leader = s.cluster.active_controller()
    if leader is None:
        return False

    def leads(node: SimNode) -> bool:
        return node.node is not None and isinstance(node.node.quorum.machine.state, Leader)

    leader.kill()
    _lie_in_wait(s, leads, s.rng.choice([1, 2]), (20, 200, 1500))
    s.restart_later(leader)
    return True


def ambush_controller(s: Strike) -> bool:
    """The active controller is killed when it has decided something that is not committed yet: one of
    the next decisions, as soon as it stands in the log."""
    left = [s.rng.choice([1, 2, 5, 15])]
    ends: dict[int, int] = {}

    def has_decided(node: SimNode) -> bool:
        machine = node.node.quorum.machine if node.node is not None else None
        if machine is None or not isinstance(machine.state, Leader):
            return False
        end = machine.log.end_offset
        if end > machine.high_watermark >= 0 and end > ends.get(node.id, -1):
            ends[node.id] = end
            left[0] -= 1
        return left[0] <= 0

    _lie_in_wait(s, has_decided, 1, (20, 200, 1500))
    return True


def _vote(node: SimNode) -> tuple[int, int] | None:
    """(epoch, candidate) of a vote that was given to another and is on its way."""
    if node.node is None:
        return None
    quorum = node.node.quorum
    saved = quorum.machine.saved
    if quorum.is_saving or saved.voted is None or isinstance(quorum.machine.state, Candidate):
        return None
    return saved.epoch, saved.voted.id


def _lie_in_wait(
    s: Strike, moment: Callable[[SimNode], bool], hits: int, back_ms: tuple[float, ...]
) -> None:
    """Kill up to `hits` nodes, each once, when its `moment` has come."""
    world = s.world
    until = world.now_ms + WAITS_MS
    left = [hits]
    struck: set[int] = set()

    def look() -> None:
        if world.now_ms > until or not left[0]:
            return
        node = world.touched
        if not isinstance(node, SimNode) or not node.is_up or node.id in struck:
            return
        if moment(node):
            struck.add(node.id)
            left[0] -= 1
            s.count("ambushes")
            s.note(f"node {node.id} is ambushed")
            # In an event of its own: whoever runs now is not pulled from under its own feet.
            world.after(0.0, node.kill)
            world.after(s.wait_ms(*back_ms), node.start)

    def stop() -> None:
        if look in world.after_event:
            world.after_event.remove(look)

    # Before the checkers, which take `touched` away.
    world.after_event.insert(0, look)
    s.repair_later(WAITS_MS + 1.0, stop)
