"""The active controller is cut off from all other nodes: is there ever more than one leader in an epoch?

    python examples/simulator/split_network.py [SEED]

Shows how to check a rule after every event, and how to print what happened.
"""

from __future__ import annotations

import sys

from barnabas.sim import SimCluster, SimNode, Topology, Violation, World

READY_MS = 30_000.0


class Experiment:
    """Three nodes; the one that leads the quorum is cut off, and later healed."""

    def __init__(self, seed: int) -> None:
        self.world = World(seed)
        self.cluster = SimCluster(self.world, Topology(nodes=3))
        self.leaders: dict[int, int] = {}
        """Quorum epoch → the node that was seen to lead it."""
        self.world.after_event.append(self.check)

    def check(self) -> None:
        """Runs after every event: an epoch has one leader."""
        for node in self.cluster.up():
            assert node.node is not None
            quorum = node.node.quorum
            if quorum.is_active and self.leaders.setdefault(quorum.epoch, node.id) != node.id:
                raise Violation(f"two leaders in epoch {quorum.epoch}")

    def active(self) -> SimNode:
        found = self.cluster.active_controller()
        assert found is not None
        return found

    def run(self) -> tuple[int, int, float]:
        """The former leader's id, the next leader's id, and the virtual ms from the cut to its election."""
        world, cluster = self.world, self.cluster
        cluster.start_all()
        assert world.run(READY_MS, lambda: cluster.active_controller() is not None)
        former = self.active()
        rest = [node for node in cluster.nodes.values() if node is not former]
        for node in rest:
            cluster.network.cut(former.machine.host, node.machine.host)
            cluster.network.cut(node.machine.host, former.machine.host)
        world.note(f"node {former.id} is cut off")
        cut_at = world.now_ms
        assert world.run(cut_at + READY_MS, lambda: self.active() is not former), "no new leader"
        took_ms, successor = world.now_ms - cut_at, self.active()
        cluster.network.heal()
        world.note("healed")

        def agreed() -> bool:
            return all(n.node is not None and n.node.quorum.leader_id == self.active().id
                       for n in cluster.up())  # fmt: skip

        assert world.run(world.now_ms + READY_MS, agreed), "they do not agree again"
        return former.id, successor.id, took_ms


def main() -> None:
    experiment = Experiment(int(sys.argv[1]) if len(sys.argv) > 1 else 1)
    former, successor, took_ms = experiment.run()
    story = [line for line in experiment.world.trace if "raft.leader" in line or "cut" in line]
    print("\n".join(story[-12:]))
    print(f"node {former} was cut off; node {successor} leads {took_ms:.1f} virtual ms later")
    print(f"leaders by epoch: {experiment.leaders}")
    print(f"trace {experiment.world.trace_hash()}")


if __name__ == "__main__":
    main()
