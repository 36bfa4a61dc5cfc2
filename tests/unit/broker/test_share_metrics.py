"""What share partitions have under way is counted, under Kafka's names, and tools read it from that."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from barnabas.broker.metrics import Metrics, of_acknowledgements, of_share_partitions
from barnabas.broker.share.share_partition import ACCEPT, RELEASE
from barnabas.cli.commands.groups import deliveries_text
from barnabas.cli.measures.share_deliveries import ShareDeliveries, deliveries_of
from barnabas.monitoring.exposition import Exposition
from barnabas.monitoring.table import metrics
from barnabas.types import TopicPartition
from barnabas.wire.messages.describe_cluster_response import (
    ControllerMetric,
    DescribeClusterResponse,
)
from tests.unit.broker.fakes import advance
from tests.unit.broker.test_share_fetches import PLACE, World

HERE = "group=g,topic=t,partition=0"
LOCK_MS = 31_000


def counted(world: World) -> Metrics:
    shares: Any = SimpleNamespace(led=world.led, fetches=world.fetches)
    found = of_acknowledgements(shares)
    for part in of_share_partitions(shares):
        found |= part
    page = Exposition(metrics())
    for mbean, value in found.items():
        page.add_named(mbean, value)  # each is in the table
    return found


def short(found: Metrics) -> dict[str, int]:
    """The counts of the share partition, without its tags."""
    return {
        name.partition("name=")[2].replace(f",{HERE}", ""): count
        for name, count in found.items()
        if HERE in name
    }


def test_records_are_counted_by_holder_and_by_their_deliveries() -> None:
    world = World()
    world.begin("m", 1)
    for _ in range(3):
        world.logs[PLACE].append(2)
    world.fetch("m", wait_ms=0)
    world.acknowledge("m", 0, 0)
    world.acknowledge("m", 2, 3, RELEASE)
    world.fetch("m", most=1, strict=True, wait_ms=0)
    assert short(counted(world)) == {
        "InFlightMessageCount": 5,
        "InFlightBatchCount": 4,
        "AcquisitionLockTimeoutPerSec": 0,
        "Acquired": 4,
        "Delivered,deliveries=1": 4,
        "Delivered,deliveries=2": 1,
    }


def test_ends_of_locks_and_acknowledgements_are_counted() -> None:
    world = World()
    world.begin("m", 1)
    world.logs[PLACE].append(5)
    world.fetch("m", wait_ms=0)
    assert world.acknowledge("m", 0, 1, ACCEPT) is None
    assert world.acknowledge("m", 2, 2, RELEASE) is None
    assert world.acknowledge("m", 2, 2, ACCEPT) is not None, "the member holds it no more"
    advance(world.ports, LOCK_MS)
    found = counted(world)
    assert short(found)["AcquisitionLockTimeoutPerSec"] == 2 and short(found)["Acquired"] == 0
    kinds = {name.partition("ackType=")[2]: n for name, n in found.items() if "ackType" in name}
    assert kinds == {"Accept": 2, "Release": 1, "Reject": 0, "Renew": 0}
    assert of_acknowledgements(None) == {} and list(of_share_partitions(None)) == []


def test_tools_read_what_leaders_have_in_hand_of_one_group() -> None:
    world = World()
    world.begin("m", 1)
    world.logs[PLACE].append(3)
    world.fetch("m", wait_ms=0)
    told = counted(world)
    told |= {name.replace("group=g", "group=a%2Cb"): count + 1 for name, count in told.items()}
    answer = DescribeClusterResponse(
        metrics=[ControllerMetric(name=name, value=count) for name, count in told.items()]
    )
    places = {TopicPartition("t", 0): 1, TopicPartition("t", 1): 2, TopicPartition("t", 2): None}

    class Asked:
        """A cluster whose second broker is another program's."""

        client = SimpleNamespace(
            cluster=SimpleNamespace(leader=places.get),
            ask_node=lambda node, request, timeout_ms: node,
            tasks=SimpleNamespace(gather=None),
        )

        @staticmethod
        def call(coroutine: Any) -> list[Any]:
            coroutine.close()
            return [answer, DescribeClusterResponse()]

    connected: Any = Asked()
    found = deliveries_of(connected, "g", places)
    assert found == {TopicPartition("t", 0): ShareDeliveries(3, 3, {"1": 3})}
    assert deliveries_of(connected, "a,b", places)[TopicPartition("t", 0)].in_flight == 4
    assert deliveries_of(connected, "g", [TopicPartition("t", 2)]) == {}


def test_deliveries_have_words() -> None:
    assert deliveries_text({"1": 90, "2": 8}) == "90 once, 8 × 2"
    assert (deliveries_text({}), deliveries_text(None)) == ("none", "-")
