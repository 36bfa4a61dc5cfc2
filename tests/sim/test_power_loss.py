"""What seeds 41 and 28 found, as one scene: a leader loses its log with the power and is back before any
replica has missed it. In the metadata it still leads; it must not continue in its old epoch."""

from __future__ import annotations

import pytest

from barnabas.client.admin import Admin, NewTopic
from barnabas.client.network.channels import ChannelError
from barnabas.client.network.tasks import TaskOutcome
from barnabas.client.producers.producer import Producer
from barnabas.client.records import Delivery, ProducerRecord
from barnabas.sim.cluster import SimCluster, SimNode, Topology
from barnabas.sim.history import History
from barnabas.sim.workload import FinalRead
from barnabas.sim.world.world import World
from barnabas.wire.errors import KafkaError

pytestmark = [pytest.mark.sim, pytest.mark.slow]
RECORDS = 60


class Scene:
    """Three nodes, one partition, one writer."""

    def __init__(self, seed: int) -> None:
        self.world = World(seed)
        # With a snapshot it knows old metadata at once, before it hears of any newer.
        settings = {"metadata.log.max.record.bytes.between.snapshots": "300"}
        self.cluster = SimCluster(self.world, Topology(nodes=3, settings=settings))
        self.client = self.cluster.client("writer")
        self.history = History()
        self.settled = 0

    def is_ready(self) -> bool:
        active = self.cluster.active_controller()
        brokers = active.node.metadata.image.brokers if active and active.node else {}
        return len(brokers) == 3 and not any(broker.fenced for broker in brokers.values())

    def leader(self) -> int:
        active = self.cluster.active_controller()
        assert active is not None and active.node is not None
        return int(active.node.metadata.image.topics_by_name["t"].partition(0).leader)

    def is_whole(self) -> bool:
        active = self.cluster.active_controller()
        if active is None or active.node is None or len(self.cluster.up()) < 3:
            return False
        state = active.node.metadata.image.topics_by_name["t"].partition(0)
        return state.leader >= 0 and len(state.isr) == 3

    async def write(self) -> None:
        (created,) = await Admin(self.client).create_topics([NewTopic("t", 1, 3)])
        created.check()
        producer = Producer(self.client)
        for index in range(RECORDS):
            value = b"%d" % index
            self.history.on_sent("t", 0, value)
            producer.send(ProducerRecord("t", value)).when_done(
                lambda outcome, value=value: self._settle(value, outcome)  # type: ignore[misc]
            )
            await self.client.tasks.sleep(3)

    def _settle(self, value: bytes, outcome: TaskOutcome[Delivery]) -> None:
        self.settled += 1
        try:
            self.history.on_acknowledged("t", 0, value, outcome.result().offset)
        except (ChannelError, KafkaError):
            self.history.failed.add(value)

    def kill_the_leader(self) -> SimNode:
        """In the midst of the records, by a power loss."""
        world = self.world
        self.cluster.start_all()
        assert world.run(30_000, self.is_ready)
        self.client.tasks.start(self.write())
        assert world.run(world.now_ms + 30_000, lambda: self.settled >= RECORDS // 2)
        node = self.cluster.nodes[self.leader()]
        node.kill(power_loss=True)
        return node

    def play(self) -> None:
        node, world = self.kill_the_leader(), self.world
        world.after(world.rng("away").uniform(0.1, 5.0), node.start)
        assert world.run(world.now_ms + 120_000, lambda: self.settled == RECORDS), "a send hangs"
        assert world.run(world.now_ms + 120_000, self.is_whole), "the ISR stays small"
        final = FinalRead(self.cluster, "t", 1)
        acknowledged = self.history.acknowledged["t", 0]
        assert world.run(world.now_ms + 60_000, lambda: len(final.found[0]) >= len(acknowledged)), (
            "fewer records than were acknowledged"
        )
        self.history.check_final("t", 0, final.found[0])


@pytest.mark.parametrize("seed", range(1, 5))
def test_a_leader_that_lost_its_log_with_the_power_does_not_lead_on(seed: int) -> None:
    Scene(seed).play()


def test_it_leads_nothing_before_the_metadata_hold_its_own_registration() -> None:
    """Cut off from the others it knows what its snapshot says: that it leads. That was another life of it."""
    scene = Scene(1)
    node, world = scene.kill_the_leader(), scene.world
    for other in scene.cluster.nodes.values():
        if other is not node:
            scene.cluster.network.cut(other.machine.host, node.machine.host)
            scene.cluster.network.cut(node.machine.host, other.machine.host)
    node.start()
    world.run(world.now_ms + 3_000)
    assert node.node is not None and node.node.broker is not None
    topic = node.node.broker.image.topics_by_name.get("t")
    assert topic is not None and topic.partition(0).leader == node.id, "the scene is another"
    assert not any(part.is_leader for part in node.node.broker.replicas.by_id.values())
