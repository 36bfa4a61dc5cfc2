"""Brokers that the twin of a ZooKeeper ensemble coordinates, in virtual time, and a client of theirs."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from barnabas.broker.broker import Broker
from barnabas.client.network.channels import ChannelError, Channels
from barnabas.limits import NodeBounds
from barnabas.record.builder import build_batch
from barnabas.sim.world.disk import SimDisk
from barnabas.sim.world.network import SimNetwork
from barnabas.sim.world.process import SimMachine, SimProcess
from barnabas.sim.world.world import World
from barnabas.sim.zookeeper.ensemble import Ensemble
from barnabas.types import ZERO_UUID, Endpoint
from barnabas.wire.messages.alter_partition_reassignments_request import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from barnabas.wire.messages.create_topics_request import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from barnabas.wire.messages.delete_topics_request import DeleteTopicsRequest, DeleteTopicState
from barnabas.wire.messages.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from barnabas.wire.messages.produce_request import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from barnabas.wire.schema import Message
from barnabas.zookeeper.door import node_config
from barnabas.zookeeper.errors import ConnectionLoss, SessionExpired, ZooKeeperError
from barnabas.zookeeper.node.zookeeper_node import ZookeeperNode
from barnabas.zookeeper.operations import GetChildren, GetData, Request
from barnabas.zookeeper.session import SessionSettings, SessionState, WatchEvent

SESSION_MS = 6_000
PATIENCE_MS = 60_000
LOOK_MS = 5


class Client:
    """A session, and connections to brokers, of a machine of its own."""

    def __init__(self, process: SimProcess, connect: str) -> None:
        self._process = process
        self._settings = SessionSettings(connect, 30_000)
        self.session = process.zookeeper.open(self._settings, self)
        self.channels = Channels(process, "client")

    def on_session_state(self, state: SessionState) -> None:
        if state is SessionState.EXPIRED:
            self.session = self._process.zookeeper.open(self._settings, self)

    def on_watch(self, event: WatchEvent) -> None:
        return


class ZookeeperCluster:
    """Brokers 1 to `brokers`."""

    def __init__(
        self,
        brokers: int = 3,
        seed: int = 1,
        servers: int = 1,
        bounds: NodeBounds = NodeBounds(),
        **settings: str,
    ) -> None:
        self.bounds = bounds
        self.world = World(seed)
        self.network = SimNetwork(self.world)
        self.machines: dict[str, SimMachine] = {}
        hosts = [f"z{number}" for number in range(1, servers + 1)]
        self.ensemble = Ensemble(
            self.world, self.network, hosts, machines=self.machines, timeout_ms=(1_000, 60_000)
        )
        self.settings = settings
        self._has_control_plane = "control_plane_listener_name" in settings
        """Then each broker has a listener CONTROLLER, at port 9094."""
        self.processes: dict[int, SimProcess] = {}
        self.nodes: dict[int, ZookeeperNode] = {}
        for broker in range(1, brokers + 1):
            self.machine(f"n{broker}")
            self.start(broker)
        self.client = Client(self.machine("client").start_process(), self.ensemble.connect)
        self.wait(lambda: all(node.is_ready for node in self.nodes.values()), "brokers are ready")

    def machine(self, host: str) -> SimMachine:
        disk = SimDisk(self.world.rng(f"disk {host}"))
        machine = self.machines[host] = SimMachine(self.world, self.network, host, disk)
        machine.machines = self.machines
        return machine

    def start(self, broker: int) -> None:
        config = node_config(
            {
                "zookeeper.connect": self.ensemble.connect,
                "zookeeper.session.timeout.ms": str(SESSION_MS),
                "broker.id": str(broker),
                "listeners": f"PLAINTEXT://n{broker}:9092"
                + (f",CONTROLLER://n{broker}:9094" if self._has_control_plane else ""),
                "log.dirs": "/data",
                "min.insync.replicas": "1",
                **{key.replace("_", "."): value for key, value in self.settings.items()},
            }
        )
        process = self.processes[broker] = self.machines[f"n{broker}"].start_process()
        process.bounds = self.bounds
        node = self.nodes[broker] = ZookeeperNode(config, process)
        process.run(node.start)

    def kill(self, broker: int) -> None:
        self.processes[broker].kill()
        del self.nodes[broker]

    def stop(self, broker: int) -> None:
        """By a controlled shutdown."""
        node, process = self.nodes.pop(broker), self.processes[broker]
        done: list[None] = []
        process.run(lambda: node.begin_shutdown(lambda: done.append(None)))
        self.wait(lambda: bool(done), f"broker {broker} stops")
        process.kill()

    def wait(self, done: Callable[[], bool], what: str) -> None:
        until_ms = self.world.now_ms + PATIENCE_MS
        while not done():
            assert self.world.now_ms < until_ms, f"waited in vain: {what}"
            self.pass_time(LOOK_MS)

    def pass_time(self, ms: float) -> None:
        self.world.run(self.world.now_ms + ms)
        for node in self.nodes.values():
            node.validate()

    # -- what is there -----------------------------------------------------------------------------

    @property
    def controller(self) -> int:
        """The broker that may decide, or -1."""
        active = [b for b, node in self.nodes.items() if node.is_controller]
        assert len(active) <= 1 or len({self.epoch_of(b) for b in active}) == len(active)
        return max(active, key=self.epoch_of, default=-1)

    def epoch_of(self, broker: int) -> int:
        leadership = self.nodes[broker].election.leadership
        return -1 if leadership is None else leadership.epoch

    def wait_for_controller(self, other_than: int = -1) -> int:
        self.wait(lambda: self.controller not in (-1, other_than), "a controller")
        return self.controller

    def znode(self, request: Request[Any]) -> Any:
        while True:
            got: list[Any] = []
            self.client.session.submit(request, got.append)
            self.wait(lambda: bool(got), f"an answer to {request}")  # noqa: B023 - in this round
            if not isinstance(got[0], (ConnectionLoss, SessionExpired)):
                return got[0]
            self.pass_time(100)

    def read(self, path: str) -> dict[str, Any] | None:
        """The JSON of a znode; None where there is none."""
        found = self.znode(GetData(path))
        if isinstance(found, ZooKeeperError):
            return None
        value: dict[str, Any] = json.loads(found.data)
        return value

    def children(self, path: str) -> list[str]:
        found = self.znode(GetChildren(path))
        return [] if isinstance(found, ZooKeeperError) else list(found.names)

    def state(self, topic: str, index: int = 0) -> dict[str, Any]:
        found = self.read(f"/brokers/topics/{topic}/partitions/{index}/state")
        assert found is not None
        return found

    # -- what a client asks ------------------------------------------------------------------------

    def ask(self, broker: int, request: Message) -> Any:
        """The answer, or a `ChannelError`."""
        got: list[Any] = []
        at = Endpoint(f"n{broker}", 9092)
        self.client.channels.send(at, request, got.append, timeout_ms=20_000)
        self.wait(lambda: bool(got), f"an answer to {request!r}")
        return got[0]

    def create(
        self, topic: str, broker: int, partitions: int = 1, replicas: int = 3, **configs: str
    ) -> int:
        """Asked of one broker; the error code."""
        wanted = CreatableTopic(
            name=topic,
            num_partitions=partitions,
            replication_factor=replicas,
            configs=[
                CreatableTopicConfig(name=key.replace("_", "."), value=value)
                for key, value in configs.items()
            ],
        )
        request = CreateTopicsRequest(topics=[wanted], timeout_ms=10_000)
        return int(self.ask(broker, request).topics[0].error_code)

    def move(self, topic: str, broker: int, replicas: list[int]) -> int:
        """Partition 0 to these brokers; the error code."""
        one = ReassignablePartition(partition_index=0, replicas=replicas)
        wanted = ReassignableTopic(name=topic, partitions=[one])
        answer = self.ask(broker, AlterPartitionReassignmentsRequest(topics=[wanted]))
        return int(answer.responses[0].partitions[0].error_code)

    def alter_topic(self, topic: str, broker: int, **configs: str) -> int:
        values = [
            AlterableConfig(name=key.replace("_", "."), config_operation=0, value=value)
            for key, value in configs.items()
        ]
        resource = AlterConfigsResource(resource_type=2, resource_name=topic, configs=values)
        answer = self.ask(broker, IncrementalAlterConfigsRequest(resources=[resource]))
        return int(answer.responses[0].error_code)

    def delete(self, topic: str, broker: int) -> int:
        request = DeleteTopicsRequest(
            topics=[DeleteTopicState(name=topic)], topic_names=[topic], timeout_ms=10_000
        )
        return int(self.ask(broker, request).responses[0].error_code)

    def broker_of(self, broker: int) -> Broker:
        found = self.nodes[broker].broker
        assert found is not None
        return found

    def produce(self, topic: str, broker: int, value: bytes = b"v") -> int:
        """One record to partition 0, acks=all; the error code, -1 where no answer came."""
        known = self.broker_of(broker).image.topics_by_name.get(topic)
        batch = build_batch([(None, value)], timestamp_ms=self.processes[broker].clock.wall_ms())
        data = TopicProduceData(
            name=topic,
            topic_id=known.id if known is not None else ZERO_UUID,
            partition_data=[PartitionProduceData(index=0, records=batch)],
        )
        answer = self.ask(broker, ProduceRequest(acks=-1, timeout_ms=5_000, topic_data=[data]))
        if isinstance(answer, ChannelError):
            return -1
        return int(answer.responses[0].partition_responses[0].error_code)
