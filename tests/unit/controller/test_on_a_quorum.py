"""The controller on real replicas of the quorum: what happens between the decision and the commit."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas.config.node import NodeConfig
from barnabas.controller.active.quorum_controller import QuorumController
from barnabas.controller.decision import Decision
from barnabas.metadata.bootstrap_records import bootstrap_records
from barnabas.metadata.records.topic_record import TopicRecord
from barnabas.node.metadata_loader import MetadataLoader
from barnabas.raft.state_machine import StateMachine
from barnabas.sim.world.process import SimProcess
from barnabas.types import Endpoint, Uuid
from tests.unit.raft.quorum_world import Quorum, QuorumNode


class Controllers(Quorum):
    """Every voter's state machine is a controller."""

    def __init__(self, voters: int, *, quick_disks: bool = False, **settings: int) -> None:
        super().__init__(3, voters=voters, **settings)
        self.quick_disks = quick_disks
        self.logs: dict[int, MetadataLoader] = {}

    def state_machine(self, node: QuorumNode, process: SimProcess) -> StateMachine:
        if self.quick_disks:
            process.background._brief_rate = 1.0
        self.logs[node.id] = MetadataLoader(process)
        return self.logs[node.id]

    def opened(self, node: QuorumNode) -> None:
        at = f"n{node.id}:9093"
        config = NodeConfig.from_properties(
            {
                "process.roles": "controller",
                "node.id": str(node.id),
                "controller.quorum.voters": f"{node.id}@{at}",
                "listeners": f"CONTROLLER://{at}",
                "controller.listener.names": "CONTROLLER",
                "log.dirs": "/data",
            }
        )
        assert node.process is not None and node.replica is not None
        self.logs[node.id].add_controller(
            QuorumController(
                node.process,
                config,
                node.replica,
                cluster_id="c",
                endpoints={"CONTROLLER": Endpoint(f"n{node.id}", 9093)},
                bootstrap=bootstrap_records(),
            )
        )

    def controller(self, node: int) -> QuorumController:
        found = self.logs[node].controller
        assert found is not None
        return found

    def ready(self) -> int:
        """Who is the active controller, with its first records committed."""
        self.run_until(lambda: any(self.controller(node).is_active for node in self.logs))
        self.world.run(self.world.now_ms + 2_000)
        return self.elect().id

    def add_topic(self, node: int, number: int) -> None:
        topic = TopicRecord(name=name(number), topic_id=Uuid(number.to_bytes(16, "big")))
        self.controller(node).commit(Decision(None, [topic]))

    def topics(self, node: int) -> set[str]:
        return {topic.name for topic in self.controller(node).image.topics_by_id.values()}


def name(number: int) -> str:
    return f"{number:05d}" + "x" * 150


def test_a_controller_that_loses_leadership_in_an_append_keeps_nothing_of_it() -> None:
    """After a pause: the step that appends a full batch finds that no follower is left."""
    quorum = Controllers(3, batch_bytes_max=1_000)
    quorum.start()
    old = quorum.ready()

    def burst() -> None:
        for number in range(1, 13):
            if quorum.controller(old).may_decide:
                quorum.add_topic(old, number)

    process = quorum.nodes[old].process
    assert process is not None
    process.pause(5_000)
    process.wakeups.call_soon(burst)
    quorum.world.run(quorum.world.now_ms + 10_000)
    new = quorum.elect().id
    assert new != old
    for number in range(100, 120):
        quorum.add_topic(new, number)
        quorum.world.run(quorum.world.now_ms + 50)
    quorum.settle()
    assert {name(100), name(119)} <= quorum.topics(new)
    assert quorum.topics(1) == quorum.topics(2) == quorum.topics(3)


@pytest.mark.slow
@pytest.mark.parametrize("size", [900, 1_200])
def test_a_snapshot_has_what_was_committed_while_the_controller_appended(size: int) -> None:
    """The only voter, whose disk syncs within the step: all is committed at once."""
    settings: dict[str, Any] = {"bytes_between_snapshots": 2 * size, "snapshot_interval_ms_max": 0}
    quorum = Controllers(1, quick_disks=True, batch_bytes_max=size, **settings)
    quorum.start()
    quorum.ready()
    numbers = iter(range(1, 10_000))

    def burst() -> None:
        for _ in range(10):
            quorum.add_topic(1, next(numbers))

    for _ in range(30):
        process = quorum.nodes[1].process
        assert process is not None
        process.wakeups.call_soon(burst)
        quorum.world.run(quorum.world.now_ms + 50)
    made = next(numbers)
    quorum.nodes[1].kill()
    quorum.nodes[1].start()
    quorum.ready()
    assert quorum.topics(1) == {name(number) for number in range(1, made)}
