"""A controller in memory: a quorum that commits when told, a clock, a network that may refuse."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any, NamedTuple

from barnabas.config.node import NodeConfig
from barnabas.controller import handlers
from barnabas.controller.active.quorum_controller import QuorumController
from barnabas.limits import NodeBounds
from barnabas.metadata.bootstrap_records import bootstrap_records
from barnabas.metadata.features import accepted
from barnabas.metadata.image.image import MetadataImage
from barnabas.policy import load_policies
from barnabas.types import Buffer, Endpoint, Uuid
from barnabas.wire.errors import KafkaError
from barnabas.wire.messages import broker_registration_request as registration
from barnabas.wire.messages.broker_heartbeat_request import BrokerHeartbeatRequest
from barnabas.wire.messages.create_topics_request import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from barnabas.wire.request import Parked, Proof, RequestContext
from barnabas.wire.schema import Message

CLUSTER_ID = "castle"
MODULES = {module.API.request: module for module in handlers.MODULES}


class Committed(NamedTuple):
    last_offset: int
    epoch: int
    append_timestamp: int
    values: list[Buffer]


class FakeClock:
    def __init__(self) -> None:
        self.at_ms = 1000.0

    def now_ms(self) -> float:
        return self.at_ms

    def wall_ms(self) -> int:
        return 1_700_000_000_000 + int(self.at_ms)


class FakeWakeup:
    def __init__(self, at_ms: float, callback: Callable[[], None]) -> None:
        self.at_ms = at_ms
        self.callback = callback
        self.cancelled = False

    def cancel(self) -> None:
        self.cancelled = True


class FakeWakeups:
    def __init__(self, clock: FakeClock) -> None:
        self.clock = clock
        self.soon: list[Callable[[], None]] = []
        self.timed: list[FakeWakeup] = []

    def call_soon(self, callback: Callable[[], None]) -> None:
        self.soon.append(callback)

    def callback_began_ms(self) -> float:
        return self.clock.now_ms()

    def call_at(self, when_ms: float, callback: Callable[[], None]) -> FakeWakeup:
        wakeup = FakeWakeup(when_ms, callback)
        self.timed.append(wakeup)
        return wakeup

    def run_soon(self) -> int:
        turns = 0
        while self.soon:
            self.soon.pop(0)()
            turns += 1
        return turns

    def advance(self, ms: float) -> None:
        until = self.clock.at_ms + ms
        self.run_soon()
        while True:
            due = [w for w in self.timed if not w.cancelled and w.at_ms <= until]
            if not due:
                break
            first = min(due, key=lambda w: w.at_ms)
            self.timed.remove(first)
            self.clock.at_ms = max(self.clock.at_ms, first.at_ms)
            first.callback()
            self.run_soon()
        self.clock.at_ms = until


class FakeConnection:
    peer = Endpoint("", 0)
    unsent_bytes = 0

    def send(self, parts: Sequence[Any]) -> None: ...
    def close(self) -> None: ...
    def abort(self) -> None: ...
    def pause_reading(self) -> None: ...
    def resume_reading(self) -> None: ...


class FakeNetwork:
    unsent_bytes = 0
    capacity = 1000

    def __init__(self) -> None:
        self.refusing: set[Endpoint] = set()
        self.asked: list[Endpoint] = []

    def listen(self, endpoint: Endpoint, accept: Callable[[], Any], gate: Any = None) -> Any:
        raise NotImplementedError

    def addresses_of(self, host: str) -> list[str]:
        return [host]

    def machine_name(self) -> str:
        return "here"

    def connect(self, endpoint: Endpoint, receiver: Any) -> None:
        self.asked.append(endpoint)
        if endpoint in self.refusing:
            receiver.on_closed(ConnectionRefusedError(111, "refused"))
        else:
            receiver.on_connected(FakeConnection())


class FakePorts:
    disk: Any = None
    background: Any = None
    bounds = NodeBounds()

    def __init__(self, seed: int = 1) -> None:
        self.clock = FakeClock()
        self.wakeups = FakeWakeups(self.clock)
        self.network = FakeNetwork()
        self.seed = seed
        self.lines: list[tuple[str, str, dict[str, object]]] = []

    def rng(self, concern: str) -> random.Random:
        return random.Random(f"{self.seed} {concern}")

    def log(self, level: str, event: str, **fields: object) -> None:
        self.lines.append((level, event, fields))

    def halt(self, reason: str) -> None:
        raise AssertionError(reason)


class FakeQuorum:
    """A log in memory. Batches are committed by `commit`."""

    def __init__(self) -> None:
        self.batches: list[Committed] = []
        self.is_active = True
        self.leader_endpoint: Endpoint | None = None
        self.epoch = 1
        self.committed = 0
        self.kraft_version = 0
        self.records = 0
        """Counted by benchmarks that do not keep the log."""
        self.listeners: list[QuorumController] = []

    @property
    def log_end_offset(self) -> int:
        return self.batches[-1].last_offset + 1 if self.batches else 0

    def append(self, values: Sequence[Buffer]) -> int:
        assert self.is_active
        last = self.log_end_offset + len(values) - 1
        self.batches.append(Committed(last, self.epoch, 0, list(values)))
        return last

    def upgrade_kraft_version(
        self, level: int, encode: Callable[[Any], Message], *, validate_only: bool = False
    ) -> Message:
        self.kraft_version = level
        return encode(SimpleNamespace(error=0, message=""))

    def commit(self, count: int | None = None) -> None:
        end = len(self.batches) if count is None else self.committed + count
        batches, self.committed = self.batches[self.committed : end], end
        for listener in self.listeners:
            listener.on_commit(batches)


class World:
    """One active controller (node 100) and brokers that exist as requests only."""

    def __init__(
        self,
        properties: dict[str, str] | None = None,
        seed: int = 1,
        sender: Any = None,
        bootstrap: list[Any] | None = None,
    ) -> None:
        self.sender = sender
        self.ports = FakePorts(seed)
        self.config = NodeConfig.from_properties(
            {
                "process.roles": "controller",
                "node.id": "100",
                "controller.quorum.voters": "100@localhost:9093",
                "listeners": "CONTROLLER://localhost:9093",
                "controller.listener.names": "CONTROLLER",
                "log.dirs": "/data",
                **(properties or {}),
            }
        )
        self.quorum = FakeQuorum()
        self.bootstrap = bootstrap_records() if bootstrap is None else bootstrap
        self.controller = self.new_controller()
        self.controller.on_leader_change(100, 1)
        self.settle()
        self.epochs: dict[int, int] = {}

    def new_controller(self) -> QuorumController:
        controller = QuorumController(
            self.ports,
            self.config,
            self.quorum,
            cluster_id=CLUSTER_ID,
            endpoints={"CONTROLLER": Endpoint("localhost", 9093)},
            bootstrap=self.bootstrap,
            sender=self.sender,
            policies=load_policies(self.config.properties),
        )
        self.quorum.listeners.append(controller)
        return controller

    def failover(self) -> None:
        """The active controller is gone; another one reads the log and takes over."""
        self.quorum.listeners.remove(self.controller)
        self.controller.on_leader_change(-1, self.quorum.epoch)
        self.quorum.epoch += 1
        self.controller = self.new_controller()
        self.controller.on_commit(self.quorum.batches[: self.quorum.committed])
        self.controller.on_leader_change(100, self.quorum.epoch)
        self.settle()

    @property
    def image(self) -> MetadataImage:
        return self.controller.image

    def settle(self) -> None:
        """Run what is to be run soon and commit everything, until nothing is left."""
        while self.ports.wakeups.run_soon() or self.quorum.committed < len(self.quorum.batches):
            self.quorum.commit()
        self.controller.validate()

    def advance(self, ms: float) -> None:
        self.ports.wakeups.advance(ms)
        self.settle()

    def start(
        self,
        request: Any,
        version: int | None = None,
        connection: int = 0,
        principal: str = "User:ANONYMOUS",
        proof: Proof = Proof.NONE,
    ) -> Any:
        """A response, a Parked, or the error that the handler raised made into a response."""
        module = MODULES[type(request)]
        ctx = RequestContext(
            api_key=module.API.key,
            api_version=request.VALID[1] if version is None else version,
            connection_id=connection,
            listener="CONTROLLER",
            principal=principal,
            proof=proof,
        )
        try:
            return module.handle(request, ctx, self.controller)
        except KafkaError as error:
            return module.API.error_response(request, error.code, error.message)

    def ask(
        self,
        request: Any,
        version: int | None = None,
        connection: int = 0,
        principal: str = "User:ANONYMOUS",
        proof: Proof = Proof.NONE,
        patience_ms: float = 0.0,
    ) -> Any:
        """As `start`, with everything committed. `patience_ms` passes where the answer waits for brokers that
        say nothing."""
        answer = self.start(request, version, connection, principal, proof)
        if isinstance(answer, Parked):
            box: list[Any] = []
            answer.attach(box.append)
            self.settle()
            if patience_ms and not box:
                self.advance(patience_ms)
            assert box, f"{request!r} was not answered"
            return box[0]
        return answer

    def register(
        self,
        broker: int,
        *,
        rack: str | None = None,
        incarnation: int | None = None,
        directories: tuple[Uuid, ...] | None = None,
        previous_epoch: int = -1,
    ) -> Any:
        asked = self.registration(
            broker,
            incarnation if incarnation is not None else 1000 + broker,
            previous_epoch,
            rack,
            directories,
        )
        answer = self.ask(asked)
        if not answer.error_code:
            self.epochs[broker] = answer.broker_epoch
        return answer

    def registration(
        self,
        broker: int,
        incarnation: int,
        previous_epoch: int = -1,
        rack: str | None = None,
        directories: tuple[Uuid, ...] | None = None,
    ) -> registration.BrokerRegistrationRequest:
        return registration.BrokerRegistrationRequest(
            broker_id=broker,
            cluster_id=CLUSTER_ID,
            incarnation_id=uuid(incarnation),
            listeners=[registration.Listener(name="PLAINTEXT", host="h", port=9000 + broker)],
            features=[
                registration.Feature(
                    name=name, min_supported_version=low, max_supported_version=high
                )
                for name, (low, high) in accepted().items()
            ],
            rack=rack,
            log_dirs=[uuid(2000 + broker)] if directories is None else directories,
            previous_broker_epoch=previous_epoch,
        )

    def heartbeat(self, broker: int, **wishes: Any) -> Any:
        return self.ask(
            BrokerHeartbeatRequest(
                broker_id=broker,
                broker_epoch=self.epochs[broker],
                current_metadata_offset=wishes.pop("offset", self.controller.committed_offset),
                **wishes,
            ),
            connection=500 + broker,
        )

    def join(self, *brokers: int, racks: dict[int, str] | None = None) -> None:
        """Register and unfence."""
        for broker in brokers:
            assert not self.register(broker, rack=(racks or {}).get(broker)).error_code
            assert not self.heartbeat(broker).is_fenced

    def kill(self, *brokers: int) -> None:
        """The processes die, all at once: their listeners refuse, their connections end."""
        for broker in brokers:
            self.ports.network.refusing.add(Endpoint("h", 9000 + broker))
            self.controller.on_connection_closed(500 + broker)
        self.settle()

    def revive(self, broker: int, *, clean: bool = False, incarnation: int = 7000) -> None:
        self.ports.network.refusing.discard(Endpoint("h", 9000 + broker))
        previous = self.epochs.get(broker, -1) if clean else -1
        assert not self.register(
            broker, incarnation=incarnation + broker, previous_epoch=previous
        ).error_code
        assert not self.heartbeat(broker).is_fenced

    def create(
        self,
        name: str,
        assignments: list[list[int]] | None = None,
        *,
        partitions: int = -1,
        factor: int = -1,
        configs: dict[str, str] | None = None,
    ) -> Any:
        answer = self.ask(
            CreateTopicsRequest(
                topics=[
                    CreatableTopic(
                        name=name,
                        num_partitions=partitions,
                        replication_factor=factor,
                        assignments=[
                            CreatableReplicaAssignment(partition_index=i, broker_ids=replicas)
                            for i, replicas in enumerate(assignments or [])
                        ],
                        configs=[
                            CreatableTopicConfig(name=key, value=value)
                            for key, value in (configs or {}).items()
                        ],
                    )
                ]
            )
        )
        return answer.topics[0]

    def partition(self, name: str, index: int = 0) -> Any:
        return self.image.topics_by_name[name].partition(index)


def uuid(number: int) -> Uuid:
    return Uuid(number.to_bytes(16, "big"))
