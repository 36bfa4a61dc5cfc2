"""A blocking client for the command line, tests and drivers of pipelines.

    with connect("localhost:9092") as client:
        client.create_topic("flights", partitions=6, replication_factor=3)
        with client.producer() as producer:
            producer.send(ProducerRecord("flights", b"..."))
        for record in client.read(["flights"]):
            ...

The client has its own loop, which runs only during a call. It is not thread-safe, and nothing happens between
calls: a group member that does not poll within its session time-out is removed from the group. Errors are
`KafkaError` (a broker refused) and `ChannelError` (no broker answered).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any, Self, TypeAlias, TypeVar

from barnabas.client.admin import Admin, ClusterDescription, NewTopic, TopicOutcome
from barnabas.client.client import Client, Trying
from barnabas.client.consumers.consumer import Consumer, ConsumerSettings
from barnabas.client.consumers.fetch_requests import FetchedRun, FetchSettings, fetch
from barnabas.client.consumers.share_consumer import Outcome, ShareConsumer, ShareConsumerSettings
from barnabas.client.consumers.share_runs import Acknowledge
from barnabas.client.metadata_wait import until_known, until_unknown
from barnabas.client.network.channels import ChannelError
from barnabas.client.network.cluster_metadata import TopicMetadata
from barnabas.client.network.tasks import TaskOutcome
from barnabas.client.offsets import (
    EARLIEST,
    LATEST,
    CommittedOffset,
    OffsetAndTimestamp,
    committed_offsets,
    list_offsets,
)
from barnabas.client.producers.producer import Producer, ProducerSettings
from barnabas.client.records import ConsumerRecord, DeliveredRecord, Delivery, ProducerRecord
from barnabas.host.loop import new_loop
from barnabas.host.ports import HostPorts
from barnabas.host.programs.blocking_ports import wait_for
from barnabas.host.secrets.config_files import security_of
from barnabas.host.structured_log import StructuredLog
from barnabas.security.client_security import OPEN, ClientSecurity
from barnabas.types import Endpoint, TopicPartition, is_int32

T = TypeVar("T")
BUFFER_BYTES_MAX = 64 * 1024 * 1024
"""Unacknowledged bytes of a producer above which `send` waits (buffer.memory)."""
POLL_MS = 500.0
SLOW_S = 2.5
"""Duration of a call after which `on_slow` is called."""
OnSlow: TypeAlias = Callable[[Trying, float], None]


def parse_bootstrap(text: str) -> list[Endpoint]:
    """Parse ``host:port,host:port``; an IPv6 address is in brackets. Raises ``ValueError``."""
    endpoints = []
    for item in filter(None, (part.strip() for part in text.split(","))):
        host, _, port = item.rpartition(":")
        if not is_int32(port) or not 0 < int(port) < 65536 or not host:
            raise ValueError(f"a bootstrap server is host:port, not {item!r}")
        endpoints.append(Endpoint(host.strip("[]"), int(port)))
    if not endpoints:
        raise ValueError("there is no bootstrap server")
    return endpoints


def connect(
    bootstrap: str,
    *,
    client_id: str = "barnabas",
    log_level: str = "error",
    properties: Mapping[str, str] | None = None,
    on_slow: OnSlow | None = None,
) -> Connected:
    """A client of the cluster with the bootstrap servers `bootstrap`; it connects with the first call.
    `properties` are Kafka's client properties ``security.protocol``, ``sasl.*``, ``ssl.*`` and
    ``config.providers``. `on_slow` is called with what is tried, and the seconds left, if a call takes longer
    than `SLOW_S`. Raises ``ConfigError``, and ``ValueError`` for malformed servers."""
    security = security_of(properties or {})
    return Connected(parse_bootstrap(bootstrap), client_id, log_level, security, on_slow)


class Connected:
    """One client and its loop. Close it, or use it in ``with``."""

    def __init__(
        self,
        bootstrap: Sequence[Endpoint],
        client_id: str,
        log_level: str,
        security: ClientSecurity = OPEN,
        on_slow: OnSlow | None = None,
    ) -> None:
        self._loop = new_loop()
        self._ports = HostPorts(self._loop, StructuredLog(level=log_level))
        if security.tls is not None:
            self._ports.secrets.check_tls(security.tls, is_server=False)
        self.client = Client(self._ports, bootstrap, client_id, security=security)
        self.admin = Admin(self.client)
        self._on_slow = on_slow
        self._pid = os.getpid()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close all connections. Records that were not flushed are lost. In a process that was forked it
        closes nothing: all is its parent's."""
        if self._loop.is_closed() or self._pid != os.getpid():
            return
        try:
            self.client.close()
            self.run_for(0)
        finally:
            self._ports.network.abort_all()
            self._ports.stop(wait=False)
            self._loop.close()

    # -- running ---------------------------------------------------------------------------------

    def wait(self, outcome: TaskOutcome[T], on_slow: Callable[[], None] | None = None) -> T:
        """Run until `outcome` is filled. Returns its value or raises its exception. `on_slow` is called in
        place of the client's if it takes longer than `SLOW_S`."""
        self._check_process()
        slow = self._loop.call_later(SLOW_S, on_slow or self._tell_slow)
        try:
            return wait_for(self._loop, outcome)
        finally:
            slow.cancel()

    def _check_process(self) -> None:
        """Raises `ChannelError` in a forked process: it would read the answers of its parent."""
        if self._pid != os.getpid():
            text = "the client is of the process that this one was forked from: connect here"
            raise ChannelError("closed", text)

    def _tell_slow(self) -> None:
        trying = self.client.trying
        if self._on_slow is not None and trying is not None:
            self._on_slow(trying, (trying.deadline_ms - self.client.now_ms()) / 1000)

    def call(
        self, coroutine: Coroutine[Any, Any, T], on_slow: Callable[[], None] | None = None
    ) -> T:
        """Run a coroutine of the client to its end, as in ``call(client.admin.list_topics())``; `on_slow`
        as in `wait`."""
        try:
            self._check_process()
        except ChannelError:
            coroutine.close()
            raise
        return self.wait(self.client.tasks.start(coroutine, lambda _: None), on_slow)

    def run_for(self, duration_ms: float) -> None:
        """Run the loop for this time; 0 runs one turn."""
        self.run_until(lambda: False, duration_ms)

    def run_until(self, happened: Callable[[], bool], timeout_ms: float) -> bool:
        """Run until `happened` is true or the time is up; returns whether it is true. It is checked on every
        `nudge`."""
        self._check_process()
        deadline = self._loop.time() + timeout_ms / 1000
        while not happened():
            if self._loop.time() >= deadline and timeout_ms > 0:
                return False
            timer = self._loop.call_at(deadline, self._loop.stop)
            self._loop.run_forever()
            timer.cancel()
            if timeout_ms <= 0:
                return happened()
        return True

    def nudge(self) -> None:
        """Have `run_until` check its condition again; a callback calls it."""
        self._loop.stop()

    # -- shortcuts -------------------------------------------------------------------------------

    def create_topic(
        self,
        name: str,
        partitions: int = -1,
        replication_factor: int = -1,
        configs: Mapping[str, str | None] | None = None,
        assignments: Mapping[int, Sequence[int]] | None = None,
    ) -> TopicOutcome:
        """Create a topic and wait until all brokers know it. Raises `KafkaError` (TOPIC_ALREADY_EXISTS,
        ...)."""
        topic = NewTopic(name, partitions, replication_factor, configs or {}, assignments or {})
        outcome = self.call(self.admin.create_topics([topic]))[0].check()
        self.call(until_known(self.client, name, outcome.topic_id))
        return outcome

    def delete_topic(self, name: str) -> None:
        """Delete a topic and wait until no broker knows it. Raises `KafkaError`."""
        self.call(self.admin.delete_topics([name]))[0].check()
        self.call(until_unknown(self.client, name))

    def topics(self) -> list[TopicMetadata]:
        return self.call(self.admin.list_topics())

    def topic(self, name: str) -> TopicMetadata:
        """The current metadata of a topic. Raises `KafkaError`."""
        return self.call(self.admin.describe_topics([name]))[0]

    def partitions_of(self, topics: Sequence[str]) -> list[TopicPartition]:
        views = self.call(self.admin.describe_topics(topics))
        return [TopicPartition(v.name, index) for v in views for index in sorted(v.partitions)]

    def describe_cluster(self) -> ClusterDescription:
        return self.call(self.admin.describe_cluster())

    def offsets(
        self,
        partitions: Sequence[TopicPartition],
        timestamp_ms: int = LATEST,
        *,
        read_committed: bool = False,
    ) -> dict[TopicPartition, OffsetAndTimestamp]:
        """The offsets at a timestamp in ms, or `EARLIEST`, `LATEST`; with `read_committed` none behind an
        open transaction. A partition without a leader makes it wait until it times out."""
        wanted = dict.fromkeys(partitions, timestamp_ms)
        return self.call(list_offsets(self.client, wanted, read_committed=read_committed))

    def committed(self, group_id: str) -> dict[TopicPartition, CommittedOffset]:
        return self.call(committed_offsets(self.client, group_id))

    def fetch(
        self,
        positions: Mapping[TopicPartition, int],
        *,
        max_bytes: int = 50 * 1024 * 1024,
        partition_max_bytes: int = 1024 * 1024,
        wait_ms: int = 500,
        read_committed: bool = False,
    ) -> dict[TopicPartition, FetchedRun]:
        """Raw record batches (`FetchedRun.data`, a view) from many partitions and leaders at once."""
        settings = FetchSettings(
            wait_ms_max=wait_ms,
            bytes_max=max_bytes,
            partition_bytes_max=partition_max_bytes,
            read_committed=read_committed,
        )
        return self.call(fetch(self.client, positions, settings))

    def producer(self, settings: ProducerSettings | None = None) -> BlockingProducer:
        return BlockingProducer(self, settings or ProducerSettings())

    def consumer(
        self, group_id: str | None = None, settings: ConsumerSettings | None = None
    ) -> BlockingConsumer:
        return BlockingConsumer(self, group_id, settings or ConsumerSettings())

    def share_consumer(
        self, group_id: str, settings: ShareConsumerSettings | None = None
    ) -> BlockingShareConsumer:
        return BlockingShareConsumer(self, group_id, settings or ShareConsumerSettings())

    def read(self, topics: Sequence[str]) -> Iterator[ConsumerRecord]:
        """Yield all records that are in these topics now, in order within each partition. Fetches only as far
        as the caller iterates."""
        partitions = self.partitions_of(topics)
        ends = {tp: found.offset for tp, found in self.offsets(partitions).items()}
        consumer = self.consumer(settings=ConsumerSettings(auto_offset_reset="earliest"))
        consumer.inner.assign(dict.fromkeys(partitions, EARLIEST))

        def is_done() -> bool:
            positions = {tp: consumer.inner.position(tp) for tp in partitions}
            return all((p if p is not None else -1) >= ends[tp] for tp, p in positions.items())

        try:
            while not is_done():
                for record in consumer.poll(POLL_MS):
                    if record.offset < ends[TopicPartition(record.topic, record.partition)]:
                        yield record
        finally:
            if not self._loop.is_closed():
                consumer.close()


class BlockingProducer:
    """A producer whose `send` blocks only if too many bytes are unacknowledged."""

    def __init__(self, connected: Connected, settings: ProducerSettings) -> None:
        self.inner = Producer(connected.client, settings)
        self.failures: list[Exception] = []
        """Failures of records since the last flush."""
        self._connected = connected

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is None:
            self.flush()

    def send(self, record: ProducerRecord) -> TaskOutcome[Delivery]:
        outcome = self.inner.send(record)
        outcome.when_done(self._keep_failure)
        if self.inner.buffered_bytes > BUFFER_BYTES_MAX:
            self._connected.wait(outcome)
        return outcome

    def flush(self) -> None:
        """Wait until all records are acknowledged or failed. Raises the first failure since the last
        flush."""
        self._connected.call(self.inner.flush())
        failures, self.failures = self.failures, []
        if failures:
            raise failures[0]

    def _keep_failure(self, outcome: TaskOutcome[Delivery]) -> None:
        try:
            outcome.result()
        except Exception as error:  # noqa: BLE001 - kept for `flush`
            self.failures.append(error)


class BlockingConsumer:
    """A consumer with a blocking `poll`."""

    def __init__(
        self, connected: Connected, group_id: str | None, settings: ConsumerSettings
    ) -> None:
        self._connected = connected
        self._has_data = False
        self.inner = Consumer(connected.client, group_id, settings, on_data=self._on_data)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def poll(self, timeout_ms: float = POLL_MS, max_records: int = 500) -> list[ConsumerRecord]:
        """The next records; waits up to `timeout_ms` for the first. Raises the consumer's failure."""
        self._connected.run_for(0)
        records = self.inner.poll(max_records)
        if not records and self.inner.failure is None:
            self._has_data = False
            self._connected.run_until(lambda: self._has_data, timeout_ms)
            records = self.inner.poll(max_records)
        if not records and self.inner.failure is not None:
            raise self.inner.failure
        return records

    def commit(self) -> None:
        """Commit the offsets after all records polled so far. Raises `KafkaError`."""
        self._connected.call(self.inner.commit())

    def close(self) -> None:
        self._connected.call(self.inner.close())

    def _on_data(self) -> None:
        self._has_data = True
        self._connected.nudge()


class BlockingShareConsumer:
    """A member of a share group with a blocking `poll`. Nothing happens between calls: records whose
    locks end meanwhile are delivered to others."""

    def __init__(
        self, connected: Connected, group_id: str, settings: ShareConsumerSettings
    ) -> None:
        self._connected = connected
        self._has_data = False
        self.consumer = ShareConsumer(connected.client, group_id, settings, on_data=self._on_data)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def subscribe(self, topics: Sequence[str]) -> None:
        """Join the group for these topics."""
        self.consumer.subscribe(topics)

    def poll(
        self, timeout_ms: float = POLL_MS, records_max: int | None = None
    ) -> list[DeliveredRecord]:
        """The next records; waits up to `timeout_ms` for the first. Raises the consumer's failure, and
        ``ValueError`` in explicit mode while records are not acknowledged."""
        self._connected.run_for(0)
        records = self.consumer.poll(records_max)
        if not records and self.consumer.failure is None:
            self._has_data = False
            self._connected.run_until(lambda: self._has_data, timeout_ms)
            records = self.consumer.poll(records_max)
        if not records and self.consumer.failure is not None:
            raise self.consumer.failure
        return records

    def acknowledge(self, record: DeliveredRecord, kind: Acknowledge = Acknowledge.ACCEPT) -> None:
        """Say what became of a record, in explicit mode."""
        self.consumer.acknowledge(record, kind)

    def commit(self) -> Outcome:
        """Wait until what was acknowledged is kept: the first error of each partition, or None."""
        return self._connected.call(self.consumer.commit())

    def close(self) -> None:
        """Release what is in hand, and leave the group."""
        self._connected.call(self.consumer.close())

    def _on_data(self) -> None:
        self._has_data = True
        self._connected.nudge()
