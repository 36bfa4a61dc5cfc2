"""A broker's group coordinators on a log in memory, with a clock that a test moves.

The handlers, the coordinators and the machine are the real ones; the log commits at once, or when
the test says so, and refuses appends when told to.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import Any

from barnabas.broker.coordinator.group_coordinator import GroupCoordinators
from barnabas.broker.handlers import (
    consumer_group_describe,
    consumer_group_heartbeat,
    delete_groups,
    describe_groups,
    heartbeat,
    join_group,
    leave_group,
    list_groups,
    offset_commit,
    offset_delete,
    offset_fetch,
    sync_group,
)
from barnabas.config.node import NodeConfig
from barnabas.limits import NodeBounds
from barnabas.metadata.image.image import MetadataImage
from barnabas.metadata.records.partition_record import PartitionRecord
from barnabas.metadata.records.topic_record import TopicRecord
from barnabas.record.batch import iterate
from barnabas.record.decode import Record, records_of
from barnabas.security.authorization.authorizer import Authorizer
from barnabas.types import Buffer, Endpoint, Uuid
from barnabas.wire.codec import decode, encode_bytes
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.request import Parked, RequestContext
from barnabas.wire.schema import Message

HANDLERS: dict[int, Any] = {
    int(module.API.key): module
    for module in (
        consumer_group_describe,
        consumer_group_heartbeat,
        delete_groups,
        describe_groups,
        heartbeat,
        join_group,
        leave_group,
        list_groups,
        offset_commit,
        offset_delete,
        offset_fetch,
        sync_group,
    )
}
WALL_MS = 1_700_000_000_000


class FakeWakeup:
    def __init__(self, when_ms: float, callback: Callable[[], None]) -> None:
        self.when_ms = when_ms
        self.callback: Callable[[], None] | None = callback

    def cancel(self) -> None:
        self.callback = None


class FakePorts:
    """Clock, wake-ups, chance and log lines; the other ports are not used here."""

    bounds = NodeBounds()

    def __init__(self) -> None:
        self.now = 1_000.0
        self.soon: list[Callable[[], None]] = []
        self.later: list[FakeWakeup] = []
        self.jobs: list[tuple[Callable[[], Any], Callable[[Any], None]]] = []
        self.lines: list[tuple[str, str, dict[str, object]]] = []
        self.clock = self.wakeups = self.background = self

    def now_ms(self) -> float:
        return self.now

    def wall_ms(self) -> int:
        return WALL_MS + int(self.now)

    def call_soon(self, callback: Callable[[], None]) -> None:
        self.soon.append(callback)

    def callback_began_ms(self) -> float:
        return self.now

    def call_at(self, when_ms: float, callback: Callable[[], None]) -> FakeWakeup:
        self.later.append(FakeWakeup(when_ms, callback))
        return self.later[-1]

    def run(self, queue: str, job: Callable[[], Any], done: Callable[[Any], None]) -> None:
        self.jobs.append((job, done))

    def rng(self, concern: str) -> random.Random:
        return random.Random(concern)

    def log(self, level: str, event: str, **fields: object) -> None:
        self.lines.append((level, event, fields))

    def settle(self) -> None:
        """Run what is due at this instant."""
        while self.soon or self.jobs:
            soon, self.soon = self.soon, []
            for callback in soon:
                callback()
            jobs, self.jobs = self.jobs, []
            for job, done in jobs:
                done(job())

    def advance(self, ms: float) -> None:
        end = self.now + ms
        self.settle()
        while True:
            due = [w for w in self.later if w.callback is not None and w.when_ms <= end]
            if not due:
                break
            first = min(due, key=lambda wakeup: wakeup.when_ms)
            self.later.remove(first)
            self.now = max(self.now, first.when_ms)
            assert first.callback is not None
            first.callback()
            self.settle()
        self.now = end


class MemoryLog:
    """One partition of the offsets topic."""

    log_dir = "/logs"

    def __init__(self) -> None:
        self.batches: list[bytes] = []
        self.starts: list[int] = []
        self.log_start_offset = 0
        self.log_end_offset = 0
        self.high_watermark = 0
        self.batch_bytes_max = 1_048_588
        self.refusal: ErrorCode | None = None
        self.cold = False
        """Reads would block."""

    def append(
        self, batch: bytes, verification: object = None, transaction_version: int = 0
    ) -> int:
        if self.refusal is not None:
            raise KafkaError(self.refusal, "told to")
        [view] = list(iterate(batch))
        assert len(batch) <= self.batch_bytes_max
        self.starts.append(self.log_end_offset)
        patched = bytearray(batch)
        patched[:8] = self.log_end_offset.to_bytes(8, "big")
        self.batches.append(bytes(patched))
        self.log_end_offset += view.header.last_offset_delta + 1
        return self.log_end_offset

    def read(self, offset: int, max_bytes: int, *, block: bool = False) -> Buffer | None:
        return None if self.cold and not block else self.read_job(offset, max_bytes)()

    def read_job(self, offset: int, max_bytes: int) -> Callable[[], Buffer]:
        def job() -> Buffer:
            for start, batch in zip(self.starts, self.batches):
                if start >= offset:
                    return batch
            return b""

        return job

    def records(self) -> list[Record]:
        return [r for batch in self.batches for view in iterate(batch) for r in records_of(view)]

    def truncate(self) -> None:
        """Forget what was not committed."""
        while self.starts and self.starts[-1] >= self.high_watermark:
            self.log_end_offset = self.starts.pop()
            self.batches.pop()


class World:
    """One broker that leads every partition of ``__consumer_offsets``."""

    def __init__(self, partitions: int = 1, **properties: str) -> None:
        given = {
            "node.id": "1",
            "process.roles": "broker,controller",
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.voters": "1@h:9093",
            "listeners": "PLAINTEXT://:9092,CONTROLLER://:9093",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "log.dirs": "/d",
        } | {key.replace("_", "."): value for key, value in properties.items()}
        self.ports = FakePorts()
        self.partitions = partitions
        config = NodeConfig.from_properties(given)
        self.config = config
        self.image = MetadataImage()
        self.image.features["group.version"] = 1
        self.groups = GroupCoordinators(config, self.ports, lambda: partitions, self)  # type: ignore[arg-type]
        self.topics_made = 0
        self.authorizer: Authorizer | None = None
        self.logs = [MemoryLog() for _ in range(partitions)]
        self.held = False
        self.epoch = 0
        self.elect()

    def elect(self) -> None:
        """This broker becomes leader of all partitions, and loads them."""
        self.epoch += 1
        for index, log in enumerate(self.logs):
            self.groups.on_elected(index, log, self.epoch)
        self.settle()

    def resign(self) -> None:
        for index in range(self.partitions):
            self.groups.on_resigned(index)
        self.settle()

    def topic(self, name: str, partitions: int = 4) -> Uuid:
        self.topics_made += 1
        topic_id = Uuid(self.topics_made.to_bytes(16, "big"))
        self.image.replay(TopicRecord(name=name, topic_id=topic_id))
        for index in range(partitions):
            self.image.replay(
                PartitionRecord(
                    partition_id=index, topic_id=topic_id, replicas=[1], isr=[1], leader=1
                )
            )
        return topic_id

    def broker_texts(self) -> Mapping[str, str]:
        return self.config.texts

    def tell(self) -> None:
        """The coordinators hear what moved in the metadata."""
        self.image.moved_to(self.image.offset + 1, 0)
        changes = self.image.take_changes()
        self.groups.on_metadata(self.image, changes)
        if changes.topics_deleted:
            self.groups.on_topics_deleted(changes.topics_deleted)
        self.settle()

    def settle(self) -> None:
        """Let everything happen that happens now."""
        self.ports.settle()
        while not self.held and any(log.high_watermark < log.log_end_offset for log in self.logs):
            self.commit()

    def commit(self) -> None:
        """Followers have everything."""
        for index, log in enumerate(self.logs):
            log.high_watermark = log.log_end_offset
            self.groups.on_high_watermark(index, log.high_watermark)
        self.ports.settle()

    def advance(self, ms: float) -> None:
        """Time passes; what is written is committed at once unless held."""
        end = self.ports.now + ms
        while True:
            due = [w.when_ms for w in self.ports.later if w.callback is not None]
            step = min([end, *(when for when in due if when > self.ports.now)])
            self.ports.advance(step - self.ports.now)
            self.settle()
            if step >= end:
                return

    def send(self, request: Message, version: int | None = None, *, client: str = "c") -> Pending:
        """One request through its handler, both ways through the wire's form of `version`."""
        version = type(request).VALID[1] if version is None else version
        asked = decode(type(request), version, encode_bytes(request, version))
        ctx = RequestContext(
            api_key=request.API_KEY,
            api_version=version,
            client_id=client,
            peer=Endpoint("10.0.0.1", 4711),
        )
        pending = Pending(version)
        answer = HANDLERS[request.API_KEY].handle(asked, ctx, self)
        if isinstance(answer, Parked):
            answer.attach(pending.take)
        else:
            pending.take(answer)
        self.settle()
        return pending

    def ask(self, request: Message, version: int | None = None, *, client: str = "c") -> Any:
        """As `send`, for requests that are answered at once."""
        pending = self.send(request, version, client=client)
        assert pending.answer is not None, f"no answer to {request!r}"
        return pending.answer


class Pending:
    """A request, and its answer once there is one."""

    def __init__(self, version: int) -> None:
        self.version = version
        self.answer: Any = None

    def take(self, response: Message | None) -> None:
        assert self.answer is None and response is not None
        encoded = encode_bytes(response, self.version)
        self.answer = decode(type(response), self.version, encoded)
