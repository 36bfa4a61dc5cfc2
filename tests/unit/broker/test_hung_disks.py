"""A disk that hangs keeps its jobs for ever; what another log directory has is read meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from barnabas.broker.coordinator.coordinator_loader import CoordinatorLoader
from barnabas.ports import Ports
from barnabas.wire.messages.list_offsets_request import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from tests.unit.broker.test_log_dir_moves import home
from tests.unit.broker.world import Cluster
from tests.unit.log.directories_world import DirectoriesWorld


class Hanging:
    """The queues of `kind` that are given a job while `is_on` stand from then on."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, ports: Ports, kind: str) -> None:
        self.is_on = True
        self.queues = set[str]()
        run = ports.background.run

        def hang(queue: str, job: Callable[[], Any], done: Callable[[Any], None]) -> None:
            if self.is_on and queue.startswith(kind):
                self.queues.add(queue)
            if queue not in self.queues:
                run(queue, job, done)

        monkeypatch.setattr(ports.background, "run", hang)


@pytest.fixture
def cluster() -> Cluster:
    """Two topics in a directory each, of which nothing is in memory."""
    cluster = Cluster(directories=2)
    for topic in ("hung", "sound"):
        cluster.create_topic(topic)
        cluster.produce([b"a record"], topic=topic)
    assert home(cluster, "hung") is not home(cluster, "sound")
    cluster.sim.nodes[1].machine.disk.cold_read_rate = 1.0
    return cluster


def test_a_fetch_waits_for_no_other_disk(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    hanging = Hanging(monkeypatch, cluster.broker().ports, "read ")
    request = cluster.fetch_request(topic="hung")
    stuck = [cluster.ask_later(request, purpose=str(at)) for at in range(8)]
    cluster.run(200)
    hanging.is_on = False
    assert hanging.queues and not any(answer.is_there for answer in stuck)
    for _ in range(4):
        assert cluster.values(cluster.fetch(topic="sound")) == [b"a record"]


def search(topic: str) -> ListOffsetsRequest:
    wanted = ListOffsetsPartition(partition_index=0, timestamp=0)
    return ListOffsetsRequest(topics=[ListOffsetsTopic(name=topic, partitions=[wanted])])


def test_a_search_by_timestamp_waits_for_no_other_disk(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    hanging = Hanging(monkeypatch, cluster.broker().ports, "timestamps ")
    stuck = cluster.ask_later(search("hung"), purpose="stuck")
    cluster.run(200)
    hanging.is_on = False
    assert hanging.queues and not stuck.is_there
    assert cluster.ask(search("sound")).topics[0].partitions[0].offset == 0


class ColdLog:
    """An empty one that says so only where it may block."""

    log_start_offset, log_end_offset = 0, 1

    def __init__(self, log_dir: str) -> None:
        self.log_dir = log_dir

    def read(self, offset: int, max_bytes: int, *, block: bool) -> bytes | None:
        return b"" if block else None

    def read_job(self, offset: int, max_bytes: int) -> Callable[[], bytes]:
        return bytes


def test_a_coordinator_is_loaded_while_the_disk_of_another_hangs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = DirectoriesWorld()
    hung, sound = (SimpleNamespace(log=ColdLog(path)) for path in ("/hung", "/sound"))
    loaded: list[Any] = []
    loader: CoordinatorLoader[Any] = CoordinatorLoader(
        world.process, 1000, object, lambda shard: True, loaded.append
    )
    hanging = Hanging(monkeypatch, world.process, "coordinators")
    loader.add(hung)  # type: ignore[arg-type]
    world.run_ms(100)
    hanging.is_on = False
    assert hanging.queues
    loader.add(sound)  # type: ignore[arg-type]
    world.run_ms(100)
    assert loaded == [sound]
