"""Faults of log directories: replicas that move to another one, and a directory that is away for long."""

from __future__ import annotations

from barnabas.client.network.channels import ChannelError
from barnabas.sim.cluster import SimNode
from barnabas.sim.faults.disks import repair
from barnabas.sim.faults.injection import Strike
from barnabas.types import TopicPartition, by_topic
from barnabas.wire.errors import KafkaError
from barnabas.wire.messages.alter_replica_log_dirs_request import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)

CHECK_INTERVAL_MS, CHECKS_MAX = 1.0, 2_000
"""How often the fault checks whether a copy exists, and how many checks it makes at most."""
DELAYS_MS = (0.0, 0.0, 2.0, 20.0, 200.0, 600.0)
"""Times between the check that finds a copy and the fault that hits it."""


def moves(s: Strike) -> bool:
    """One replica of a broker, or all of them, move to another log directory, and a fault hits the copies.

    The broker is killed or shut down, a directory fails for one call or for good, or the copies are sent to
    another directory.
    """
    node = s.any_broker()
    if node is None or len(node.directories) < 2 or node.broker is None:
        return False
    names = sorted(node.broker.logs.logs)
    if not names:
        return False
    chosen = names if s.rng.random() < 0.3 else [s.rng.choice(names)]
    target = s.rng.choice(node.directories)
    s.note(f"node {node.id}: {', '.join(map(str, chosen))} to be in {target}")
    _ask(s, node, chosen, target)
    strike = s.rng.choice([_kill, _kill, _shut_down, _fail, _fail, _fail_for_good, _elsewhere])
    wait_ms = s.rng.choice(DELAYS_MS) * s.rng.uniform(0.2, 1.0)

    def on_copies() -> None:
        s.count("moves between directories met")
        s.world.after(wait_ms, hit)

    def hit() -> None:
        if not s.cluster.is_healed and node.is_up:
            strike(s, node, chosen)

    s.when(lambda: _has_copies(node), on_copies, CHECK_INTERVAL_MS, CHECKS_MAX)
    return True


def _has_copies(node: SimNode) -> bool:
    broker = node.broker if node.is_up else None
    return broker is not None and bool(broker.logs.futures.logs)


def _ask(s: Strike, node: SimNode, names: list[TopicPartition], target: str) -> None:
    client = s.cluster.client(f"moves{s.number}")
    topics = [AlterReplicaLogDirTopic(name=t, partitions=p) for t, p in by_topic(names).items()]
    request = AlterReplicaLogDirsRequest(dirs=[AlterReplicaLogDir(path=target, topics=topics)])

    async def ask() -> None:
        try:
            await client.cluster.refresh([], timeout_ms=5_000)
            answer = await client.ask_node(node.id, request)
        except (ChannelError, KafkaError) as error:
            s.note(f"moves: not asked: {error}")
            return
        codes = [p.error_code for t in answer.results for p in t.partitions]
        s.note(f"moves of node {node.id} to {target}: {codes}")

    client.tasks.start(ask())


def _kill(s: Strike, node: SimNode, names: list[TopicPartition]) -> None:
    node.kill()
    s.restart_later(node)


def _shut_down(s: Strike, node: SimNode, names: list[TopicPartition]) -> None:
    node.shut_down(lambda: s.restart_later(node))


def _fail(s: Strike, node: SimNode, names: list[TopicPartition]) -> None:
    _break(s, node, for_good=False)


def _fail_for_good(s: Strike, node: SimNode, names: list[TopicPartition]) -> None:
    _break(s, node, for_good=True)


def _break(s: Strike, node: SimNode, *, for_good: bool) -> None:
    """Fail a call in a directory that does not hold the metadata log: most copies go to such a directory."""
    prefix = s.rng.choice(node.directories[1:])
    nth = s.rng.choice([1, 2, 3, 5, 10, 30])
    s.note(f"node {node.id}: the {nth}. call below {prefix} fails, {for_good=}")
    node.machine.disk.fail_call(nth, prefix=prefix, for_good=for_good)
    s.repair_later(s.wait_ms(500, 3000), lambda: repair(s, node))


def _elsewhere(s: Strike, node: SimNode, names: list[TopicPartition]) -> None:
    _ask(s, node, names, s.rng.choice(node.directories))
    if s.rng.random() < 0.3:
        s.kill_later(s.wait_ms(1, 10, 100), node)
        s.world.after(200.0, node.start)


def away_for_long(s: Strike) -> bool:
    """A broker restarts while one of its log directories cannot be read.

    The directory returns, with nothing lost, after other brokers that lead partitions of this broker have
    been killed a few times.
    """
    node = s.any_broker()
    if node is None or len(node.directories) < 2 or len(s.cluster.topology.broker_ids) < 2:
        return False
    prefix, left = s.rng.choice(node.directories[1:]), [s.rng.choice([2, 4, 7])]

    def away() -> None:
        s.note(f"node {node.id}: {prefix} is away for long")
        node.machine.disk.fail_call(1, prefix=prefix, for_good=True)
        s.restart_later(node)
        s.repair_later(15_000.0, lambda: repair(s, node))
        s.world.after(s.wait_ms(300, 1500), change_leader)

    def change_leader() -> None:
        if s.cluster.is_healed:
            return
        led = _leaders_of_others(s, node)
        left[0] -= 1
        if left[0] <= 0:
            s.count("directories away for long")
            repair(s, node)
            return
        if led:
            victim = s.cluster.nodes[s.rng.choice(led)]
            s.note(f"node {victim.id} leads while {prefix} of node {node.id} is away")
            victim.kill()
            s.restart_later(victim)
        s.world.after(s.wait_ms(300, 1000), change_leader)

    s.end(node, away)
    return True


def _leaders_of_others(s: Strike, node: SimNode) -> list[int]:
    """The other brokers that lead a partition of which `node` has a replica, by id."""
    image = s.budget.image()
    if image is None:
        return []
    states = [state for topic in image.topics_by_id.values() for state in topic.partitions()]
    leaders = {state.leader for state in states if node.id in state.replicas}
    return sorted(leaders - {-1, node.id})
