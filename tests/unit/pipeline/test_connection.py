"""A connection of a program that waits: what goes wrong in its socket is a `ChannelError`."""

from __future__ import annotations

import errno
import socket
from typing import Any

import pytest

from barnabas.client.network.connection import ChannelError
from barnabas.pipeline.broker_connection import BlockingConnection
from barnabas.pipeline.cluster_client import ClusterClient, TopicPartitions
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
