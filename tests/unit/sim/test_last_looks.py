"""Checkers that look at the end alone: each passes a healthy node, and objects to what was changed behind
its back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from barnabas.client.admin import Admin, NewTopic
from barnabas.client.consumers.consumer import Consumer
from barnabas.client.producers.producer import Producer
from barnabas.client.records import ProducerRecord
from barnabas.log.partition.partition_log import PartitionLog
from barnabas.sim.checkers.checker import Checker
from barnabas.sim.checkers.coordinator_state import CoordinatorsKnowTheirLogs
from barnabas.sim.checkers.derived_files import DerivedFilesFit
from barnabas.sim.checkers.known_files import EveryFileIsKnown
from barnabas.sim.checkers.log_configs import LogsFollowTheirConfigs
from barnabas.sim.cluster import SimCluster, SimNode, Topology
from barnabas.sim.history import Violation
from barnabas.sim.restart_equality import ClusterState
from barnabas.sim.world.world import World
from barnabas.types import TopicPartition

PLACE = TopicPartition("t", 0)


class Scene:
    """One node, one topic, some records and a committed offset."""

    def __init__(self) -> None:
        self.world = World(1)
        settings = {"log.index.interval.bytes": "64"}
        self.cluster = SimCluster(self.world, Topology(nodes=1, settings=settings))
        self.client = self.cluster.client("writer")
        self.is_done = False
        self.cluster.start_all()
        self.client.tasks.start(self._write())
        assert self.world.run(60_000, lambda: self.is_done)

    async def _write(self) -> None:
        (created,) = await Admin(self.client).create_topics([NewTopic("t", 1, 1)])
        created.check()
        producer = Producer(self.client)
        for index in range(30):
            producer.send(ProducerRecord("t", b"%d" % index))
            await self.client.tasks.sleep(20)
        await Consumer(self.client, "g").commit({PLACE: 7})
        self.is_done = True

    @property
    def node(self) -> SimNode:
        return self.cluster.nodes[1]

    @property
    def log(self) -> PartitionLog:
        assert self.node.node is not None and self.node.node.broker is not None
        return self.node.node.broker.logs.logs[PLACE]


def change_config(scene: Scene) -> None:
    scene.log.reconfigure(replace(scene.log.config, retention_ms=1))


def bend_index(scene: Scene) -> None:
    relative, position = scene.log.active.index.entries()[-1]
    scene.log.active.index.append(relative + 1, position + 1)


def leave_a_segment(scene: Scene) -> None:
    process = scene.node.process
    assert process is not None
    process.disk.open(f"{scene.log.directory}/00000000000000009999.log", create=True)


def forget_an_offset(scene: Scene) -> None:
    assert scene.node.node is not None and scene.node.node.broker is not None
    for shard in scene.node.node.broker.groups.shards.values():
        shard.machine.offsets.remove("g", PLACE)


@pytest.mark.parametrize(
    ("checker", "change", "objection"),
    [
        (LogsFollowTheirConfigs(), change_config, "goes by"),
        (DerivedFilesFit(), bend_index, "says that a batch ends"),
        (EveryFileIsKnown(), leave_a_segment, "belongs to no log"),
        (CoordinatorsKnowTheirLogs(), forget_an_offset, "of g it holds"),
    ],
    ids=["configs", "index", "files", "coordinator"],
)
def test_it_objects_only_to_what_was_changed(
    checker: Checker, change: Callable[[Scene], None], objection: str
) -> None:
    scene = Scene()
    checker.finish(scene.cluster)
    change(scene)
    with pytest.raises(Violation, match=objection):
        checker.finish(scene.cluster)


def test_a_restart_that_forgets_producers_is_seen() -> None:
    scene = Scene()
    standing = ClusterState(scene.cluster)
    standing.compare(scene.cluster)
    scene.log.producers.entries.clear()
    with pytest.raises(Violation, match="before and after a clean restart"):
        standing.compare(scene.cluster)


def test_an_uncommitted_offset_may_have_another_record_after_a_restart() -> None:
    scene = Scene()
    end = scene.log.log_end_offset
    scene.log.high_watermark = end - 5
    standing = ClusterState(scene.cluster)
    scene.log.epochs.assign(7, end - 5)
    scene.log.producers.entries.clear()
    standing.compare(scene.cluster)
    scene.log.epochs.starts[-1] -= 1
    with pytest.raises(Violation, match="before and after a clean restart"):
        standing.compare(scene.cluster)
