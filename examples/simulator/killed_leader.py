"""A partition's leader is killed while a producer writes: how long does the producer wait?

    python examples/simulator/killed_leader.py [SEED]

Everything runs in virtual time, so the answer is exact, takes a second, and is the same for the same seed. A
history collects what was sent, acknowledged and read. At the end it raises an error if a record was lost,
duplicated or out of order.
"""

from __future__ import annotations

import sys
from functools import partial

from barnabas.client.admin import Admin, NewTopic
from barnabas.client.network.tasks import TaskOutcome
from barnabas.client.producers.producer import Producer
from barnabas.client.records import Delivery, ProducerRecord
from barnabas.sim import History, SimCluster, Topology, World
from barnabas.sim.workload import FinalRead

RECORDS = 300
KILLED_AFTER = 100
TOPIC = "t"


class Experiment:
    """One cluster, one writer, one kill."""

    def __init__(self, seed: int) -> None:
        self.world = World(seed)
        self.cluster = SimCluster(self.world, Topology(nodes=3))
        self.client = self.cluster.client("writer")
        self.history = History()
        self.longest_ms = 0.0

    def leader(self) -> int:
        """The broker that leads the partition, as the active controller knows it."""
        active = self.cluster.active_controller()
        assert active is not None and active.node is not None
        return int(active.node.metadata.image.topics_by_name[TOPIC].partition(0).leader)

    def is_ready(self) -> bool:
        """Whether all three brokers are registered and none is fenced."""
        active = self.cluster.active_controller()
        if active is None or active.node is None:
            return False
        brokers = active.node.metadata.image.brokers
        return len(brokers) == 3 and not any(broker.fenced for broker in brokers.values())

    async def write(self) -> None:
        (created,) = await Admin(self.client).create_topics([NewTopic(TOPIC, 1, 3)])
        created.check()
        producer = Producer(self.client)  # acks=all and idempotent, as Kafka's is
        for index in range(RECORDS):
            if index == KILLED_AFTER:
                self.cluster.nodes[self.leader()].kill()
            value, began = b"%d" % index, self.world.now_ms
            self.history.on_sent(TOPIC, 0, value)
            outcome = producer.send(ProducerRecord(TOPIC, value))
            outcome.when_done(partial(self.settled, value, began))
            await self.client.tasks.sleep(1.0)  # the next one does not wait for this one
        await producer.flush()

    def settled(self, value: bytes, began: float, outcome: TaskOutcome[Delivery]) -> None:
        self.history.on_acknowledged(TOPIC, 0, value, outcome.result().offset)
        self.longest_ms = max(self.longest_ms, self.world.now_ms - began)

    def run(self) -> None:
        world = self.world
        self.cluster.start_all()
        assert world.run(30_000, self.is_ready), "the cluster did not come up"
        writing = self.client.tasks.start(self.write())
        assert world.run(120_000, lambda: writing.done), "the writer got stuck"
        writing.result()  # raises the writer's error
        final = FinalRead(self.cluster, TOPIC, 1)
        assert world.run(world.now_ms + 30_000, lambda: final.has_read_to({0: RECORDS}))
        self.history.check_final(TOPIC, 0, final.found[0])  # raises Violation


def main() -> None:
    experiment = Experiment(int(sys.argv[1]) if len(sys.argv) > 1 else 1)
    experiment.run()
    print(f"{RECORDS} records, none lost, none twice, all in order")
    print(f"longest wait for an acknowledgement: {experiment.longest_ms:.1f} virtual ms")
    print(f"trace {experiment.world.trace_hash()}")


if __name__ == "__main__":
    main()
