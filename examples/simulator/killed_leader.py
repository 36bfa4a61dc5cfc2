"""A partition's leader is killed while a producer writes: how long does the producer wait?

    python examples/simulator/killed_leader.py [SEED]

Everything runs in one thread on virtual time, so the answer is exact, comes in a second, and is the
same whenever it is asked with the same seed.
"""

from __future__ import annotations

import sys

from barnabas.client.admin import Admin, NewTopic
from barnabas.client.producer import Producer
from barnabas.client.records import ProducerRecord
from barnabas.sim.cluster import SimCluster, Topology
from barnabas.sim.world import World

RECORDS = 300
KILLED_AFTER = 100


class Experiment:
    """One cluster, one writer, one kill."""

    def __init__(self, seed: int) -> None:
        self.world = World(seed)
        self.cluster = SimCluster(self.world, Topology(nodes=3))
        self.client = self.cluster.client("writer")
        self.offsets: list[int] = []
        self.longest_ms = 0.0

    def leader(self) -> int:
        """Who leads the partition, as the active controller knows it."""
        active = self.cluster.active_controller()
        assert active is not None and active.node is not None
        return int(active.node.metadata.image.topics_by_name["t"].partition(0).leader)

    def is_ready(self) -> bool:
        """Whether all three brokers take part."""
        active = self.cluster.active_controller()
        if active is None or active.node is None:
            return False
        brokers = active.node.metadata.image.brokers
        return len(brokers) == 3 and not any(broker.fenced for broker in brokers.values())

    async def write(self) -> None:
        (created,) = await Admin(self.client).create_topics([NewTopic("t", 1, 3)])
        created.check()
        producer = Producer(self.client)  # acks=all and idempotent, as Kafka's is
        for index in range(RECORDS):
            if index == KILLED_AFTER:
                self.cluster.nodes[self.leader()].kill()
            began = self.world.now_ms
            delivery = await producer.send(ProducerRecord("t", b"%d" % index))
            self.offsets.append(delivery.offset)
            self.longest_ms = max(self.longest_ms, self.world.now_ms - began)

    def run(self) -> None:
        self.cluster.start_all()
        assert self.world.run(30_000, self.is_ready), "the cluster did not come up"
        writing = self.client.tasks.start(self.write())
        assert self.world.run(120_000, lambda: writing.done), "the writer got stuck"
        writing.result()  # raises what the writer met
        assert self.offsets == list(range(RECORDS)), "a record was lost or written twice"


def main() -> None:
    experiment = Experiment(int(sys.argv[1]) if len(sys.argv) > 1 else 1)
    experiment.run()
    print(f"{RECORDS} records, none lost, none twice")
    print(f"longest wait for an acknowledgement: {experiment.longest_ms:.1f} virtual ms")
    print(f"trace {experiment.world.trace_hash()}")


if __name__ == "__main__":
    main()
