"""Processes and machines that end: one at a time, many at once, with and without warning."""

from __future__ import annotations

from barnabas.sim.cluster import SimNode
from barnabas.sim.faults.injection import Strike


def kill(s: Strike) -> bool:
    """kill -9 of one process."""
    node = s.any_node()
    if node is None:
        return False
    node.kill()
    s.restart_later(node)
    return True


def kill_leader(s: Strike) -> bool:
    """kill -9 of the active controller."""
    node = s.cluster.active_controller()
    if node is None:
        return False
    node.kill()
    s.restart_later(node)
    return True


def power(s: Strike) -> bool:
    """One machine loses power; what it had not synced is lost, torn or misdirected."""
    node = s.any_node()
    if node is None or not (s.budget.all_synced or s.budget.may_lose_data(node)):
        return False
    if not s.budget.all_synced:
        s.budget.on_lost(node)
    node.kill(power_loss=True)
    s.restart_later(node)
    return True


def shutdown(s: Strike) -> bool:
    """A controlled shutdown, and a start some time later."""
    node = s.any_node()
    if node is None:
        return False
    node.shut_down(lambda: s.restart_later(node))
    return True


def kill_all(s: Strike) -> bool:
    """kill -9 of everything; the machines come back in any order."""
    up = s.cluster.up()
    s.note("every process is killed")
    s.count("whole-cluster kills")
    for node in up:
        node.kill()
        s.restart_later(node)
    return bool(up)


def blackout(s: Strike) -> bool:
    """Everything loses power at once: only where everything is synced before it is acknowledged."""
    up = s.cluster.up()
    if not s.budget.all_synced or not up:
        return False
    s.note("everything loses power")
    s.count("whole-cluster power losses")
    for node in up:
        node.kill(power_loss=True)
        s.restart_later(node)
    return True


def restart_all(s: Strike) -> bool:
    """Everything is shut down at once and started again."""
    up = s.cluster.up()
    s.note("the whole cluster is shut down")
    s.count("whole-cluster restarts")
    for node in up:
        _shut_down_and_start(s, node)
    return bool(up)


def roll(s: Strike) -> bool:
    """One node after the other is shut down and started, as an upgrade does it."""
    nodes = list(s.cluster.nodes.values())
    s.rng.shuffle(nodes)
    s.note("rolling restart")
    s.count("rolling restarts")

    def next_one() -> None:
        up = [node for node in nodes if node.is_up]
        if up and not s.cluster.is_healed:
            node = up[0]
            nodes.remove(node)
            node.shut_down(lambda: back(node))

    def back(node: SimNode) -> None:
        node.start()
        s.world.after(s.wait_ms(100, 1000), next_one)

    next_one()
    return True


def _shut_down_and_start(s: Strike, node: SimNode) -> None:
    node.shut_down(lambda: s.restart_later(node))
