"""Kills at the worst moment: not at any time, but right after something was decided.

What is promised across a crash is put to the test between the promise and what follows from it, a
window that a kill at any time hardly ever hits. An ambush waits for its moment for a while, kills, and has
the victim back soon.
"""

from __future__ import annotations

from collections.abc import Callable

from barnabas.metadata.image.image import MetadataImage
from barnabas.raft.core.states import Candidate, Leader
from barnabas.replication.isr import PendingExpand
from barnabas.sim.cluster import SimNode
from barnabas.sim.faults.injection import Strike
from barnabas.sim.faults.networks import both_ways
from barnabas.types import Uuid

WAIT_MS_MAX = 6_000.0
"""The longest wait for its moment."""


def ambush_voters(s: Strike) -> bool:
    """The active controller or every node is killed, and each voter once more right after it has given
    its vote. The voter restarts during the same election, which a slow network prolongs: several candidates
    compete in one epoch, and ask over new connections."""
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
    the next decisions, as soon as it is in the log."""
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


def ambush_joining(s: Strike) -> bool:
    """A broker is killed and comes back. As soon as a leader has asked to add it, or any other, to an ISR,
    the joining broker is paused, and the quorum answers late: the joining broker lacks what is committed
    meanwhile. In half of the cases the leader is killed when it knows the answer, or a little before, and
    the broker that has just joined may lead next."""
    node = s.any_broker()
    if node is None or s.cluster.topology.nodes < 2:
        return False
    asked: set[tuple[Uuid, int, int]] = set()
    left = [s.rng.choice([1, 2, 4])]

    def look(leader: SimNode) -> bool:
        broker = leader.broker
        for partition in broker.replicas.leaders() if broker is not None else ():
            state = partition.leader.isr_state if partition.leader is not None else None
            if partition.leader is None or not isinstance(state, PendingExpand):
                continue
            key = (partition.topic_id, partition.index, partition.leader.partition_epoch)
            if key not in asked:
                asked.add(key)
                left[0] -= 1
                _hold_up(s, leader, s.cluster.nodes[state.joining])
                break
        return left[0] <= 0

    watch(s, look)
    node.kill()
    s.world.after(s.wait_ms(20, 200, 1000), node.start)
    return True


def _hold_up(s: Strike, leader: SimNode, joining: SimNode) -> None:
    """Between the wish for a larger ISR and the answer."""
    s.count("ambushes")
    s.note(f"node {joining.id} is about to join an ISR of node {leader.id}: it is ambushed")
    duration = s.wait_ms(10, 100, 500)
    process = joining.process
    if process is not None:
        # In an event of its own, as below.
        s.world.after(0.0, lambda: process.pause(duration))
    active = s.cluster.active_controller()
    if active is not None:
        machine = active.machine
        machine.sync_ms_max = max(machine.sync_ms_max, duration)

        def heal() -> None:
            machine.sync_ms_max = 1.5

        s.repair_later(duration, heal)
    if s.rng.random() < 0.5:
        s.kill_later(duration * s.rng.uniform(0.2, 1.2), leader)
        s.world.after(duration * 1.2 + s.wait_ms(20, 200, 1500), leader.start)


def ambush_isr(s: Strike) -> bool:
    """A follower loses its leader, and with it its place in the ISR, while the controller hears of it as
    before. Then all who could lead are killed at once: it alone is there, and may not."""
    image, active = s.budget.image(), s.cluster.active_controller()
    if image is None or active is None:
        return False
    chosen = _a_follower(s, image, active.id)
    if chosen is None:
        return False
    topic_id, index, leader, follower = chosen
    one, other = f"n{leader}", f"n{follower}"
    s.note(f"{other} loses its leader {one}")
    heal = s.cut(both_ways([one], [other]))

    def look(node: SimNode) -> bool:
        known = node.image if node.running is not None else image
        state, broker = known.partition(topic_id, index), known.brokers.get(follower)
        if state is None or state.leader < 0 or state.leader == follower or broker is None:
            return False
        members = {*state.isr, *state.elr}
        if follower in members or follower not in state.replicas or broker.fenced:
            return False
        s.count("ambushes")
        s.note(f"the ISR {sorted(members)} of {state} is ambushed: node {follower} is left")
        for member in sorted(members):
            victim = s.cluster.nodes[member]
            s.kill_later(0.0, victim)
            s.world.after(s.wait_ms(200, 1500, 6000), victim.start)
        return True

    watch(s, look)
    s.repair_later(WAIT_MS_MAX + s.wait_ms(500, 3000), heal)
    return True


def ambush_power(s: Strike) -> bool:
    """A machine loses its power, and before the cluster notices, all other members of some ISR are killed.
    The machine is the first to be back, a member by all metadata, and has lost what the others have."""
    image, node = s.budget.image(), s.any_broker()
    if image is None or node is None or not s.budget.may_lose_data(node):
        return False
    found = [
        sorted({*state.isr, *state.elr} - {node.id})
        for topic in image.topics_by_id.values()
        for state in topic.partitions()
        if node.id in state.isr and len(state.isr) > 1
    ]
    if not found:
        return False
    others = s.rng.choice(found)
    s.budget.on_lost(node)
    s.count("ambushes")
    s.note(f"node {node.id} loses its power, and {others} are ambushed")
    node.kill(power_loss=True)
    s.world.after(s.wait_ms(50, 200), node.start)
    for other in others:
        victim = s.cluster.nodes[other]
        s.kill_later(s.wait_ms(1, 20), victim)
        s.world.after(s.wait_ms(500, 1500, 6000), victim.start)
    return True


def _a_follower(s: Strike, image: MetadataImage, active: int) -> tuple[Uuid, int, int, int] | None:
    """(topic, partition, leader, follower) of some partition in whose ISR both are; the follower keeps
    its line to the active controller when it loses the one to its leader."""
    found = [
        (topic.id, state.partition, state.leader, member)
        for topic in image.topics_by_id.values()
        for state in topic.partitions()
        if state.leader not in (-1, active)
        for member in state.isr
        if member not in (state.leader, active)
    ]
    return s.rng.choice(found) if found else None


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
    left = [hits]
    struck: set[int] = set()

    def look(node: SimNode) -> bool:
        if node.id not in struck and moment(node):
            struck.add(node.id)
            left[0] -= 1
            s.count("ambushes")
            s.note(f"node {node.id} is ambushed")
            # In an event of its own: the process that runs now must not die within its turn.
            s.kill_later(0.0, node)
            world.after(s.wait_ms(*back_ms), node.start)
        return not left[0]

    watch(s, look)


def watch(s: Strike, is_over: Callable[[SimNode], bool]) -> None:
    """Show `is_over` the node of each event, until it says so or has waited for too long."""
    world = s.world
    over = False

    def look(node: object) -> None:
        nonlocal over
        if not over and isinstance(node, SimNode) and node.is_up and is_over(node):
            over = True
            world.after(0.0, stop)  # not now, when the world goes through who looks

    def stop() -> None:
        if look in world.after_touch:
            world.after_touch.remove(look)

    # Before the checkers: they may stop the run.
    world.after_touch.insert(0, look)
    s.repair_later(WAIT_MS_MAX + 1.0, stop)
