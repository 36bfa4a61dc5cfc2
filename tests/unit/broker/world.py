"""Nodes in a simulated world, asked by raw requests: the broker as clients see it, to the byte.

The nodes are real; time, network and disks are simulated, so a test runs in milliseconds and waits for
conditions, never for time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from barnabas.broker.broker import Broker
from barnabas.broker.partitions.partition import Partition
from barnabas.client.network.channels import Channels
from barnabas.client.network.connection import ChannelError
from barnabas.limits import NodeBounds
from barnabas.metadata.features import METADATA_VERSION
from barnabas.record.builder import build_batch
from barnabas.sim.cluster import CLIENT_PORT, SimCluster, Topology
from barnabas.sim.world.world import World
from barnabas.types import Endpoint, TopicPartition, Uuid
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.create_topics_request import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from barnabas.wire.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from barnabas.wire.messages.fetch_response import FetchResponse, PartitionData
from barnabas.wire.messages.produce_request import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from barnabas.wire.messages.produce_response import PartitionProduceResponse, ProduceResponse
from barnabas.wire.schema import Message

M = TypeVar("M", bound=Message)
LIMIT_MS = 30_000.0


class Answer:
    """One request's answer, once there is one."""

    def __init__(self) -> None:
        self.value: Any = None

    @property
    def is_there(self) -> bool:
        return self.value is not None

    def __call__(self, value: Any) -> None:
        self.value = value


USUAL = NodeBounds()


class Cluster:
    """A simulated cluster and one client machine."""

    def __init__(
        self, nodes: int = 1, seed: int = 1, directories: int = 1, level: int | None = None,
        racks: int = 0, bounds: NodeBounds = USUAL, **settings: str,
    ) -> None:  # fmt: skip
        """`level`: the metadata.version, where it is not the newest."""
        self.world = World(seed)
        named = {name.replace("_", "."): value for name, value in settings.items()}
        features = {} if level is None else {METADATA_VERSION: level}
        topology = Topology(
            nodes, settings=named, directories=directories, features=features, racks=racks
        )
        self.sim = SimCluster(self.world, topology, bounds)
        machine = self.sim.add_machine("client")
        self.client = machine.start_process()
        self.channels = Channels(self.client, "test")
        self.sim.start_all()
        self.until(lambda: all(self.broker(n).lifecycle.phase.value == "running" for n in self.ids))
        # What one broker knows of another may come a moment later.
        self.until(
            lambda: (
                all(
                    not known.fenced
                    for n in self.ids
                    for known in self.broker(n).image.brokers.values()
                )
                and all(len(self.broker(n).image.brokers) == nodes for n in self.ids)
            )
        )

    @property
    def ids(self) -> list[int]:
        return [node_id for node_id, node in self.sim.nodes.items() if node.is_up]

    def broker(self, node_id: int = 1) -> Broker:
        node = self.sim.nodes[node_id].node
        assert node is not None and node.broker is not None
        return node.broker

    # -- time ------------------------------------------------------------------------------------

    def until(self, condition: Callable[[], object], limit_ms: float = LIMIT_MS) -> None:
        """Continue until `condition` holds; an error where that takes too long."""
        end = self.world.now_ms + limit_ms
        while not condition():
            assert self.world.now_ms < end, f"it does not come to be in {limit_ms} ms"
            assert self.world.step(), "nothing happens any more"

    def run(self, ms: float) -> None:
        """Let `ms` pass."""
        end = self.world.now_ms + ms
        marker: list[bool] = []
        self.world.at(end, lambda: marker.append(True))
        while not marker:
            self.world.step()

    # -- requests --------------------------------------------------------------------------------

    def ask_later(
        self, request: Message, node: int = 1, version: int | None = None, purpose: str = ""
    ) -> Answer:
        answer = Answer()
        self.channels.send(
            Endpoint(f"n{node}", CLIENT_PORT), request, answer, version=version, purpose=purpose
        )
        return answer

    def ask(self, request: Message, node: int = 1, version: int | None = None) -> Any:
        """The response. Raises `ChannelError`."""
        answer = self.ask_later(request, node, version)
        self.until(lambda: answer.is_there)
        if isinstance(answer.value, ChannelError):
            raise answer.value
        return answer.value

    def create_topic(
        self, name: str, partitions: int = 1, replication: int = 1, **configs: str
    ) -> Uuid:
        response = self.ask(
            CreateTopicsRequest(
                topics=[
                    CreatableTopic(
                        name=name,
                        num_partitions=partitions,
                        replication_factor=replication,
                        configs=[
                            CreatableTopicConfig(name=key.replace("_", "."), value=value)
                            for key, value in configs.items()
                        ],
                    )
                ],
                timeout_ms=10_000,
            ),
            self.ids[0],
        )
        assert response.topics[0].error_code == 0, response.topics[0]
        self.until(lambda: all(name in self.broker(n).image.topics_by_name for n in self.ids))
        return Uuid(response.topics[0].topic_id)

    def leader(self, topic: str, index: int = 0) -> int:
        """Who leads, as that broker itself has applied it."""
        found: list[int] = []

        def known() -> bool:
            found[:] = [n for n in self.ids if self._leads(n, topic, index)]
            return bool(found)

        self.until(known)
        return found[0]

    def _leads(self, node: int, topic: str, index: int) -> bool:
        partition = self.broker(node).replicas.by_name.get((topic, index))
        return partition is not None and partition.is_leader

    def partition(self, node: int, topic: str = "t", index: int = 0) -> Partition:
        return self.broker(node).replicas.by_name[topic, index]

    # -- data ------------------------------------------------------------------------------------

    def produce_request(
        self, values: list[bytes], *, topic: str = "t", index: int = 0, acks: int = -1,
        timeout_ms: int = 5000, batch: bytes | None = None,
    ) -> ProduceRequest:  # fmt: skip
        records = batch or build_batch(
            [(b"k", value) for value in values], timestamp_ms=self.client.clock.wall_ms()
        )
        topic_id = self.broker(self.ids[0]).image.topics_by_name[topic].id
        return ProduceRequest(
            acks=acks,
            timeout_ms=timeout_ms,
            topic_data=[
                TopicProduceData(
                    name=topic,
                    topic_id=topic_id,
                    partition_data=[PartitionProduceData(index=index, records=records)],
                )
            ],
        )

    def produce(
        self, values: list[bytes], *, node: int | None = None, version: int = 13, topic: str = "t",
        **how: Any,
    ) -> PartitionProduceResponse:  # fmt: skip
        """One batch to the leader (or to `node`); the partition's answer."""
        request = self.produce_request(values, topic=topic, **how)
        at = self.leader(topic, how.get("index", 0)) if node is None else node
        if version >= 13:
            request.topic_data[0].name = ""
        else:
            request.topic_data[0].topic_id = Uuid(bytes(16))
        response: ProduceResponse = self.ask(request, at, version)
        answer: PartitionProduceResponse = response.responses[0].partition_responses[0]
        return answer

    def fetch_request(
        self, offset: int = 0, *, topic: str = "t", index: int = 0, max_wait_ms: int = 0,
        min_bytes: int = 1, max_bytes: int = 1 << 20, session: tuple[int, int] = (0, -1),
        isolation: int = 0, leader_epoch: int = -1, last_fetched_epoch: int = -1,
        partition_bytes: int = 1 << 20,
    ) -> FetchRequest:  # fmt: skip
        topic_id = self.broker(self.ids[0]).image.topics_by_name[topic].id
        return FetchRequest(
            max_wait_ms=max_wait_ms,
            min_bytes=min_bytes,
            max_bytes=max_bytes,
            isolation_level=isolation,
            session_id=session[0],
            session_epoch=session[1],
            topics=[
                FetchTopic(
                    topic=topic,
                    topic_id=topic_id,
                    partitions=[
                        FetchPartition(
                            partition=index,
                            fetch_offset=offset,
                            current_leader_epoch=leader_epoch,
                            last_fetched_epoch=last_fetched_epoch,
                            partition_max_bytes=partition_bytes,
                        )
                    ],
                )
            ],
        )

    def fetch(self, offset: int = 0, *, node: int | None = None, **how: Any) -> PartitionData:
        """One fetch of one partition, without a session; its answer."""
        at = self.leader(how.get("topic", "t"), how.get("index", 0)) if node is None else node
        response: FetchResponse = self.ask(self.fetch_request(offset, **how), at)
        assert response.error_code == 0
        data: PartitionData = response.responses[0].partitions[0]
        return data

    def values(self, data: PartitionData) -> list[bytes]:
        return values_of(data)


def values_of(data: PartitionData) -> list[bytes]:
    """The values of the records that an answer carries."""
    from barnabas.record.decode import records_in

    assert data.records is not None and not isinstance(data.records, list)
    return [bytes(record.value or b"") for record in records_in(memoryview(data.records))]


def code(value: int) -> str:
    return ErrorCode(value).name


def name(topic: str, index: int = 0) -> TopicPartition:
    return TopicPartition(topic, index)
