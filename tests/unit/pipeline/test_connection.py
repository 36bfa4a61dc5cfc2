"""A connection of a program that waits: what goes wrong in its socket is a `ChannelError`."""

from __future__ import annotations

import errno
import socket
from pathlib import Path
from typing import Any

import pytest

from barnabas.client.network.connection import ChannelError
from barnabas.pipeline import cluster_client
from barnabas.pipeline.broker_connection import BlockingConnection, now_ms
from barnabas.pipeline.cluster_client import ClusterClient, TopicPartitions
from barnabas.pipeline.errors import ClusterUnreachableError, OptionError
from barnabas.pipeline.options import cluster_options
from barnabas.types import Endpoint, Uuid
from barnabas.wire.messages.metadata_request import MetadataRequest

HERE = Endpoint("127.0.0.1", 9092)


class FakeSocket:
    """Notes how long each send may take."""

    def __init__(self) -> None:
        self.timeout: float | None = None
        self.sent: list[float | None] = []
        self.is_closed = False
        self.refuses_options = False

    def setsockopt(self, *_: Any) -> None:
        if self.refuses_options:
            raise OSError(errno.EINVAL, "Invalid argument")

    def settimeout(self, seconds: float) -> None:
        self.timeout = seconds

    def sendall(self, _: Any) -> None:
        self.sent.append(self.timeout)

    def close(self) -> None:
        self.is_closed = True


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> FakeSocket:
    made = FakeSocket()
    monkeypatch.setattr(socket, "create_connection", lambda *_, **__: made)
    return made


def test_a_socket_that_ends_at_once_is_a_failed_connection(fake: FakeSocket) -> None:
    fake.refuses_options = True
    with pytest.raises(ChannelError, match="no connection to"):
        BlockingConnection(HERE, "c", timeout_ms=100.0)
    assert fake.is_closed


def test_a_truststore_that_is_missing_ends_the_first_try(tmp_path: Path) -> None:
    store = str(tmp_path / "none.pem")
    given = {
        "kafka.bootstrap.servers": "127.0.0.1:1",
        "kafka.security.protocol": "SSL",
        "kafka.ssl.truststore.type": "PEM",
        "kafka.ssl.truststore.location": store,
    }
    with pytest.raises(OptionError, match=r"kafka\.ssl\.truststore\.location: '.*none\.pem'"):
        cluster_options(given).connect().topics(["t"])


def test_a_request_has_its_own_time_to_be_sent(fake: FakeSocket) -> None:
    """Not what was left of the time of the answer before."""
    connection = BlockingConnection(HERE, "c", timeout_ms=100.0)
    fake.settimeout(0.001)
    connection.submit(MetadataRequest(), timeout_ms=5_000.0)
    assert fake.sent == [5.0]


def test_a_writer_counts_partitions_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker lives for many tasks: what it remembers may have grown, or been created again."""
    cluster = ClusterClient([HERE])
    counts = iter((2, 3))

    def topics(names: list[str], *, create: bool) -> dict[str, TopicPartitions]:
        found = TopicPartitions("t", Uuid(bytes(16)), tuple(range(next(counts))), {})
        cluster._topics["t"] = found
        return {"t": found}

    monkeypatch.setattr(cluster, "topics", topics)
    assert [cluster.partition_count("t"), cluster.partition_count("t")] == [2, 3]


class SilentBroker:
    """Takes requests and answers none: each takes its whole time-out by `clock`, in ms."""

    def __init__(self, clock: list[float], *, timeout_ms: float) -> None:
        self._clock = clock
        self.is_over = True
        assert timeout_ms > 0

    def call(self, *_: Any, timeout_ms: float, **__: Any) -> Any:
        self._clock[0] += timeout_ms
        raise ChannelError("timeout", "no answer")


def test_brokers_that_are_silent_together_take_no_more_than_the_patience(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    began = now_ms()
    clock = [began]
    monkeypatch.setattr(cluster_client, "now_ms", lambda: clock[0])
    monkeypatch.setattr(
        cluster_client,
        "BlockingConnection",
        lambda *_, timeout_ms, **__: SilentBroker(clock, timeout_ms=timeout_ms),
    )
    brokers = [Endpoint("127.0.0.1", port) for port in (1, 2, 3)]
    cluster = ClusterClient(brokers, request_timeout_ms=30_000, patience_ms=10_000)
    with pytest.raises(ClusterUnreachableError, match="gave up after 10 s"):
        cluster.topics(["t"])
    assert clock[0] - began < 10_000 + 3 * cluster_client.TRY_MS_MIN
    clock[0] = began
    patient = ClusterClient(brokers, request_timeout_ms=30_000, patience_ms=120_000)
    with pytest.raises(ClusterUnreachableError, match="gave up after 120 s"):
        patient.topics(["t"])
    assert 90_000 < clock[0] - began < 120_000 + 3 * cluster_client.TRY_MS_MIN
