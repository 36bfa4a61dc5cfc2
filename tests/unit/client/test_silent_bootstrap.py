"""A bootstrap server that accepts and says nothing does not use up the time for those that answer."""

from __future__ import annotations

import pytest

from barnabas.client.client import Client
from barnabas.client.network.channels import ChannelError
from barnabas.client.network.tasks import TaskOutcome
from barnabas.client.offsets import committed_offsets
from barnabas.ports import Connection
from barnabas.types import Endpoint
from tests.unit.client.fake_cluster import FakeCluster

SILENT = Endpoint("silent", 9092)
TIMEOUT_MS = 5_000.0


class Silence:
    """A host that was stopped: its kernel accepts, no process answers."""

    def on_connected(self, connection: Connection) -> None:
        pass

    def get_buffer(self) -> memoryview:
        return memoryview(bytearray(1024))

    def buffer_updated(self, size: int) -> None:
        pass

    def on_closed(self, error: OSError | None) -> None:
        pass


def refresh(client: Client) -> list[TaskOutcome[None]]:
    """What becomes of it, once it is done."""
    done: list[TaskOutcome[None]] = []
    client.tasks.start(client.cluster.refresh(timeout_ms=TIMEOUT_MS), done.append)
    return done


@pytest.mark.parametrize("silent_at", [0, 1])
def test_the_next_one_is_asked_in_time(silent_at: int) -> None:
    cluster = FakeCluster(nodes=1)
    cluster.world.listen(SILENT, Silence)
    servers = [cluster.endpoints[1]]
    servers.insert(silent_at, SILENT)
    client = Client(cluster.world, servers)
    done = refresh(client)
    cluster.world.run(TIMEOUT_MS)
    done[0].result()
    assert sorted(client.cluster.brokers) == [1]


def test_a_coordinator_is_looked_for_at_the_next_one_in_time() -> None:
    """Without heartbeats for so long, most members' sessions are over."""
    cluster = FakeCluster(nodes=1)
    cluster.world.listen(SILENT, Silence)
    client = Client(cluster.world, [SILENT, cluster.endpoints[1]])
    client.cluster.avoid(cluster.endpoints[1])
    asked = client.tasks.start(committed_offsets(client, "g"))
    cluster.world.run(2 * TIMEOUT_MS)
    assert asked.result() == {}


def test_no_server_answers_in_time() -> None:
    cluster = FakeCluster(nodes=1)
    cluster.world.listen(SILENT, Silence)
    done = refresh(Client(cluster.world, [SILENT]))
    cluster.world.run(2 * TIMEOUT_MS)
    with pytest.raises(ChannelError):
        done[0].result()


def test_leaders_are_asked_of_different_brokers_and_of_a_silent_one_last() -> None:
    """The one that leaders are asked of changes all the same: it may be cut off from the others."""
    cluster = FakeCluster(nodes=2)
    cluster.world.listen(SILENT, Silence)
    client = Client(cluster.world, [*cluster.endpoints.values(), SILENT])
    asked = []
    for at in range(1, 5):
        done = refresh(client)
        cluster.world.run(at * TIMEOUT_MS)
        done[0].result()
        asked.append(client.cluster.candidates()[0])
    assert asked[2] != asked[3]
    assert set(asked) == set(cluster.endpoints.values())
    assert client.cluster.candidates()[-1] == SILENT
