"""Reassignments that are disturbed under way: the old replicas die while new ones arrive, and the
reassignment is cancelled, or replaced by another."""

from __future__ import annotations

from collections.abc import Iterable

from barnabas.client.network.channels import ChannelError
from barnabas.metadata.image.image import MetadataImage
from barnabas.metadata.image.topic import PartitionState
from barnabas.sim.cluster import SimNode
from barnabas.sim.faults.injection import Strike
from barnabas.sim.faults.targeted_crashes import watch
from barnabas.wire.errors import KafkaError
from barnabas.wire.messages.alter_partition_reassignments_request import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)

TOPIC = "unclean"
"""The topic in which any replica may lead."""
REQUEST_TIMEOUT_MS = 4_000.0


def ambush_moves(s: Strike) -> bool:
    """A partition, mostly one of which nothing is promised, moves to other brokers, of which one is down. As
    soon as one new replica is in sync, all old ones are killed. When the first of them is back, and not in
    sync, the move is cancelled, or replaced by another one that shares replicas with it, and one more
    dies."""
    image, brokers = s.budget.image(), list(s.cluster.topology.broker_ids)
    if image is None or len(brokers) < 3 or s.budget.rots():
        return False
    names = [
        name for name in sorted(image.topics_by_name) if not name.startswith(("operator", "__"))
    ]
    if not names:
        return False
    chosen = TOPIC if TOPIC in names and s.rng.random() < 0.6 else s.rng.choice(names)
    topic = image.topics_by_name[chosen]
    states = list(topic.partitions())
    roomy = [state for state in states if len(brokers) - len(state.replicas) >= 2]
    state = s.rng.choice(roomy or states)
    others = [broker for broker in brokers if broker not in state.replicas]
    s.rng.shuffle(others)
    if state.reassigning or len(others) < 2:
        # There is room for others where it has few replicas.
        kept = s.rng.randrange(1, max(2, len(brokers) - 1))
        _ask(s, state, _some(s, state.replicas, kept))
        return True
    coming = others[: s.rng.choice([2, 2, 3])]
    absent = s.cluster.nodes[coming[-1]]
    s.note(f"{state} to be on {coming}, and {absent.id} is down")
    absent.kill()
    stays = _some(s, state.replicas, s.rng.randrange(len(state.replicas) + 1))
    _ask(s, state, [*coming, *stays][: len(brokers)])
    _lie_in_wait(s, state, coming)
    s.world.after(s.wait_ms(3000, 6000), absent.start)
    return True


def _some(s: Strike, brokers: Iterable[int], count: int) -> list[int]:
    shuffled = list(brokers)
    s.rng.shuffle(shuffled)
    return shuffled[:count]


def _lie_in_wait(s: Strike, begun: PartitionState, coming: list[int]) -> None:
    former, killed = list(begun.replicas), [False]

    def look(node: SimNode) -> bool:
        image = node.image if node.running is not None else None
        state = image.partition(begun.topic_id, begun.partition) if image is not None else None
        if image is None or state is None or not state.reassigning:
            return False
        if not killed[0] and set(coming) & set(state.isr):
            killed[0] = True
            s.note(f"{state}: {former} are ambushed")
            for broker in former:
                s.kill_later(0.0, s.cluster.nodes[broker])
        elif killed[0] and not set(former) & set(state.isr):
            if not any(s.cluster.nodes[broker].is_up for broker in former):
                for broker in former:
                    s.world.after(s.wait_ms(1, 20, 200), s.cluster.nodes[broker].start)
            if _is_back(image, former):
                s.count("moves ambushed")
                _strike(s, state, former, coming)
                return True
        return False

    def bring_back() -> None:
        for broker in former:
            s.cluster.nodes[broker].start()

    watch(s, look)
    s.repair_later(8_000.0, bring_back)


def _is_back(image: MetadataImage, former: list[int]) -> bool:
    known = [image.brokers.get(broker) for broker in former]
    return any(broker is not None and not broker.fenced for broker in known)


def _strike(s: Strike, state: PartitionState, former: list[int], coming: list[int]) -> None:
    choice = s.rng.random()
    if choice < 0.6:
        _ask(s, state, None)
    else:
        target = _some(s, [*former, *coming], s.rng.randrange(1, 4))
        s.world.after(s.rng.choice([0.0, 60.0]), lambda: _ask(s, state, target))
    if s.rng.random() < 0.5:
        victim = s.cluster.nodes[s.rng.choice([*former, *state.isr, *state.isr])]
        s.kill_later(s.wait_ms(0.0, 2, 20), victim)
        s.world.after(100.0 + s.wait_ms(20, 1500), victim.start)


def _ask(s: Strike, state: PartitionState, replicas: list[int] | None) -> None:
    if s.budget.rots() or s.budget.any_broker_lacks_data():  # since the fault began
        return
    client = s.cluster.client(f"moves{s.number}")
    one = ReassignablePartition(partition_index=state.partition, replicas=replicas)
    topics = [ReassignableTopic(name=state.topic, partitions=[one])]
    request = AlterPartitionReassignmentsRequest(topics=topics)

    async def ask() -> None:
        s.budget.moves_asked += 1
        try:
            answer = await client.ask_any(lambda: request, timeout_ms=REQUEST_TIMEOUT_MS)
        except (ChannelError, KafkaError) as error:
            s.note(f"{state}: no node was asked: {error}")
            return
        finally:
            s.budget.moves_asked -= 1
        reported = [(p.error_code, p.error_message) for t in answer.responses for p in t.partitions]
        s.note(f"{state} to be on {replicas}: {answer.error_code} {reported}")
        if replicas is None and state.topic == TOPIC and not any(code for code, _ in reported):
            s.count("moves called off uncleanly")

    client.tasks.start(ask())
