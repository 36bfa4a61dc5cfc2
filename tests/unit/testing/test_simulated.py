"""``@simulated``: programs of a test on the simulator; a seed that fails says how to replay it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from barnabas.client.producers.producer import Producer
from barnabas.client.records import ProducerRecord
from barnabas.testing.simulated import VARIABLE, SimulatedCluster, UnfinishedError, simulated

pytestmark = pytest.mark.slow


async def write(cluster: SimulatedCluster, count: int) -> list[int]:
    """The offsets of records of one producer."""
    client = cluster.client("writer")
    await cluster.admin().create_topic("t", 1, 3, min_insync_replicas="2")
    producer = Producer(client)
    offsets = []
    for number in range(count):
        delivery = await producer.send(ProducerRecord("t", b"%d" % number, partition=0))
        offsets.append(delivery.offset)
        await cluster.sleep(0.5)
    return offsets


@simulated(seeds=2)
async def test_a_program_runs_on_each_seed(cluster: SimulatedCluster) -> None:
    began_s = cluster.now_s
    assert await write(cluster, 4) == [0, 1, 2, 3]
    assert cluster.now_s - began_s >= 2


@simulated(seed=3, faults=("kill", "pause", "netsplit"), fault_interval_s=1.0)
async def test_faults_of_the_seed_lose_no_record(cluster: SimulatedCluster) -> None:
    offsets = await write(cluster, 20)
    assert sorted(set(offsets)) == offsets
    assert cluster.world.totals["faults"] > 3


@simulated(seed=4)
async def test_a_program_kills_starts_and_cuts(cluster: SimulatedCluster) -> None:
    controller = cluster.cluster.active_controller()
    assert controller is not None
    cluster.kill(controller.id)
    other = await cluster.wait_for(cluster.cluster.active_controller)
    assert other.id != controller.id
    cluster.start(controller.id)
    one, two = (node for node in cluster.node_ids if node != controller.id)
    cluster.cut(one, two)
    await cluster.sleep(1)
    cluster.heal()
    assert await write(cluster, 2) == [0, 1]


@pytest.fixture
def three() -> int:
    return 3


@simulated(seed=5)
async def test_other_parameters_are_fixtures(cluster: SimulatedCluster, three: int) -> None:
    assert len(cluster.node_ids) == three


def trace_of(seed: int) -> str:
    seen: list[SimulatedCluster] = []

    @simulated(seed=seed, faults=("kill",))
    async def program(cluster: SimulatedCluster) -> None:
        seen.append(cluster)
        await write(cluster, 3)

    program()
    return seen[0].world.trace_hash()


def test_a_seed_gives_one_trace() -> None:
    assert trace_of(7) == trace_of(7) != trace_of(8)


@pytest.mark.parametrize("error", [ValueError("odd"), None])
def test_a_seed_that_fails_prints_the_line_that_replays_it(
    error: Exception | None, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    played: list[int] = []

    @simulated(seeds=[11, 12, 13], limit_s=5)
    async def program(cluster: SimulatedCluster) -> None:
        played.append(cluster.seed)
        if cluster.seed == 12:
            if error is not None:
                raise error
            await cluster.sleep(50)

    with pytest.raises(ValueError if error else UnfinishedError) as raised:
        program()
    assert played == [11, 12]
    [note] = raised.value.__notes__
    assert note.endswith(f"{VARIABLE}=12 python -m pytest '{request.node.nodeid}'")
    monkeypatch.setenv(VARIABLE, "12")
    with pytest.raises(ValueError if error else UnfinishedError):
        program()
    assert played == [11, 12, 12]


def test_a_fault_that_is_none_is_one_sentence() -> None:
    decorate: Callable[[], object] = lambda: simulated(faults=("explode",))  # noqa: E731
    with pytest.raises(ValueError, match="explode: no such fault; there are kill, "):
        decorate()
