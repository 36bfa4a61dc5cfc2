"""The majority of the voters is lost for good, and an operator makes one survivor the whole quorum
(``barnabas quorum recover``)."""

from __future__ import annotations

from barnabas.config.meta_properties import read_meta_properties
from barnabas.node.recovered_metadata import beyond_what_was_lost
from barnabas.raft.quorum_recovery import recover
from barnabas.raft.settings import settings_from_node
from barnabas.raft.storage.replica_log import DIRECTORY
from barnabas.sim.cluster import SimNode
from barnabas.sim.faults.injection import Strike
from barnabas.sim.faults.membership import voters
from barnabas.sim.faults.networks import both_ways
from barnabas.sim.world.world import START_WALL_MS


def lose_quorum(s: Strike) -> bool:
    """All voters but one lose their machines, disks included; they come back empty. The survivor is recovered
    offline: of all voters it has the longest log, which holds everything that was committed."""
    survivor = _survivor(s)
    if survivor is None:
        return False
    _lose(s, survivor)
    return True


def lose_history(s: Strike) -> bool:
    """Lose history: the survivor was cut off for a while, and what the others committed meanwhile is lost. A
    broker that has it ends itself when it hears of the new quorum. The supervisor restarts it, without its
    metadata log where the broker's message asks for that."""
    furthest, active = _survivor(s), s.cluster.active_controller()
    if furthest is None or active is None or active.node is None:
        return False
    members = [s.cluster.nodes[i] for i in active.node.quorum.machine.voters]
    behind = [node for node in members if node not in (furthest, active) and not node.moved]
    if not behind:
        return False
    survivor = s.rng.choice(behind)
    others = [f"n{i}" for i in s.cluster.nodes if i != survivor.id]
    s.note(f"node {survivor.id} is cut off, and will be what is left of the quorum")
    heal = s.cut(both_ways([f"n{survivor.id}"], others))

    def due() -> None:
        heal()
        if s.cluster.is_healed or not survivor.is_up or not _knows_topics(s, survivor):
            return
        s.budget.history_is_lost = True
        for follower in s.cluster.loss_followers:
            follower()
        s.count("histories lost")
        _start_without_metadata(s)
        _lose(s, survivor)

    s.repair_later(s.wait_ms(200, 1000, 3000), due)
    return True


def _knows_topics(s: Strike, survivor: SimNode) -> bool:
    """Whether it has all topics that clients need."""
    own, image = survivor.node, s.budget.image()
    if own is None or own.controller is None or image is None:
        return False
    wanted = {name for name in image.topics_by_name if not name.startswith("operator")}
    return wanted <= own.controller.image.topics_by_name.keys()


def _start_without_metadata(s: Strike) -> None:
    """From now on the supervisor of the nodes reads the message with which a node ends itself."""

    def on_halted(node: SimNode) -> None:
        if f"{DIRECTORY} is removed" in node.halted_by:
            s.note(f"node {node.id}: its {DIRECTORY} is removed")
            node.machine.disk.wipe(f"{node.directories[0]}/{DIRECTORY}")
            s.count("metadata logs removed")

    s.cluster.halt_followers.append(on_halted)


def _lose(s: Strike, survivor: SimNode) -> None:
    nodes, controllers = s.cluster.nodes, s.cluster.topology.controller_ids
    lost = [nodes[i] for i in controllers if i != survivor.id]
    s.note(
        f"nodes {[node.id for node in lost]} are lost for good; {survivor.id} becomes the quorum"
    )
    for node in (survivor, *lost):
        node.kill()
    _recover(s, survivor)
    for node in lost:
        disk = node.machine.disk
        disk.wipe(node.directories[0])
        disk.totals["metadata_logs_lost"] += 1
        disk.totals["metadata_bits_rotted"] += 1
        node.needs_format, node.moved = True, 0
        s.world.after(s.wait_ms(200, 2000, 6000), node.start)
    s.world.after(s.wait_ms(20, 500, 2000), survivor.start)
    s.count("quorums recovered")
    for _ in range(s.rng.choice([0, 1, 2])):
        s.world.after(s.wait_ms(3000, 6000), lambda: _add_voter(s))


def _add_voter(s: Strike) -> None:
    if not s.cluster.is_healed:
        voters(s)


def _survivor(s: Strike) -> SimNode | None:
    """The voter with the furthest log, where the voters may change and are all there to be compared; its
    machine has lost nothing and is where everybody looks."""
    active, topology = s.cluster.active_controller(), s.cluster.topology
    if not topology.dynamic or not topology.controllers or s.budget.voter_changes:
        return None
    if active is None or active.node is None or not s.budget.may_lose_quorum():
        return None
    members = [s.cluster.nodes[i] for i in active.node.quorum.machine.voters]
    if len(members) < 2:
        return None

    def reached(node: SimNode) -> tuple[int, int]:
        assert node.node is not None
        log = node.node.quorum.machine.log
        return log.last_epoch, log.synced_offset

    if any(node.node is None for node in members):
        return None
    furthest = max(members, key=reached)
    return None if furthest.moved else furthest


def _recover(s: Strike, node: SimNode) -> None:
    """Recover as the command does, on a sound disk."""
    machine = node.machine
    machine.disk.fail_call(0)
    machine.disk.capacity_bytes = 1 << 40
    config, disk = node.config(), machine.disk.open_for_process()
    meta = read_meta_properties(disk, config.metadata_log_dir)
    assert meta is not None
    listeners = config.reached_at(config.controller_listeners, lambda: f"n{node.id}")
    settings = settings_from_node(config, meta, listeners)
    wall_ms = START_WALL_MS + int(s.world.now_ms)
    found = recover(
        disk,
        settings,
        config.metadata_log_dir,
        wall_ms,
        "the simulator",
        beyond_what_was_lost,
        cut_damage=True,  # a crash may have torn the last write, which was not acknowledged
    )
    for sentence in found.sentences():
        s.note(sentence)
