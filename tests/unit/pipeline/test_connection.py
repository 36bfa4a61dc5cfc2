"""A pipeline's connections: what goes wrong in a socket is a `ChannelError`, and silence has an end."""

from __future__ import annotations

import errno
import os
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from barnabas.client.network.cluster_metadata import PartitionMetadata, TopicMetadata
from barnabas.client.network.connection import ChannelError
from barnabas.pipeline.cluster_client import ClusterClient
from barnabas.pipeline.errors import ClusterUnreachableError, OptionError
from barnabas.pipeline.options import cluster_options
from barnabas.pipeline.patience import now_ms
from barnabas.types import Endpoint
from barnabas.wire.messages.metadata_request import MetadataRequest
from barnabas.wire.messages.metadata_response import MetadataResponse

HERE = Endpoint("127.0.0.1", 9092)


@pytest.fixture
def silent() -> Iterator[Endpoint]:
    """A broker that was stopped: its kernel accepts, no process answers."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield Endpoint(*listening.getsockname())


def test_a_socket_that_ends_at_once_is_a_failed_connection(
    silent: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any) -> None:
        raise OSError(errno.EINVAL, "Invalid argument")

    monkeypatch.setattr(socket.socket, "setsockopt", refuse)
    cluster = ClusterClient([silent])
    with pytest.raises(ChannelError, match=r"closed: no connection to .*: .*Invalid argument"):
        cluster.call(silent, MetadataRequest(), MetadataResponse, timeout_ms=5_000.0)
    assert not cluster.client.channels.in_flight(silent)


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


def test_a_request_that_is_not_answered_is_over_in_its_time(silent: Endpoint) -> None:
    cluster = ClusterClient([silent])
    began = now_ms()
    late = cluster.submit(silent, MetadataRequest(), timeout_ms=20.0)
    with pytest.raises(ChannelError, match=r"timeout: no answer from .* to ApiVersions in time"):
        cluster.wait(late)
    assert now_ms() - began < 5_000


def test_a_request_gets_the_time_in_which_the_program_did_something_else(
    silent: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("barnabas.pipeline.cluster_client.IDLE_MS", 5.0)
    cluster = ClusterClient([silent])
    ahead = cluster.submit(silent, MetadataRequest(), timeout_ms=15.0)
    time.sleep(0.02)
    began = now_ms()
    with pytest.raises(ChannelError, match="timeout"):
        cluster.wait(ahead)
    assert now_ms() - began >= 10


def test_a_connection_that_was_closed_is_opened_again(silent: Endpoint) -> None:
    cluster = ClusterClient([silent])
    ahead = cluster.submit(silent, MetadataRequest(), timeout_ms=5_000.0)
    cluster.close()
    with pytest.raises(ChannelError, match="was closed here"):
        cluster.wait(ahead)
    with pytest.raises(ChannelError, match="timeout"):
        cluster.call(silent, MetadataRequest(), MetadataResponse, timeout_ms=20.0)


def test_threads_of_one_process_take_turns(silent: Endpoint) -> None:
    cluster = ClusterClient([silent])
    heard: list[str] = []

    def ask() -> None:
        for _ in range(3):
            with pytest.raises(ChannelError) as raised:
                cluster.call(silent, MetadataRequest(), MetadataResponse, timeout_ms=2.0)
            heard.append(raised.value.kind)

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert heard == ["timeout"] * 12


def test_a_thread_does_not_wait_for_what_another_waits_for(silent: Endpoint) -> None:
    """One lock was held while a thread waited: a dead leader held up every query of a driver."""
    with socket.create_server(("127.0.0.1", 0)) as gone:
        refused = Endpoint(*gone.getsockname())
    cluster = ClusterClient([silent])
    waits, over = threading.Event(), threading.Event()
    heard: list[str] = []

    def wait_long() -> None:
        late = cluster.submit(silent, MetadataRequest(), timeout_ms=60_000.0)
        waits.set()
        with pytest.raises(ChannelError) as raised:
            cluster.wait(late)
        heard.append(raised.value.message)
        over.set()

    thread = threading.Thread(target=wait_long)
    thread.start()
    assert waits.wait(30)
    for _ in range(20):
        with pytest.raises(ChannelError, match="refused"):
            cluster.call(refused, MetadataRequest(), MetadataResponse)
    assert not over.is_set()
    cluster.close()
    thread.join(30)
    assert "was closed here" in heard[0]


def test_threads_share_one_object(silent: Endpoint) -> None:
    begin = threading.Barrier(8)
    found: list[ClusterClient] = []

    def share() -> None:
        begin.wait()
        found.append(ClusterClient.shared([silent], "threads"))

    threads = [threading.Thread(target=share) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert len(set(map(id, found))) == 1
    assert ClusterClient.shared([silent], "threads", patience_ms=1.0).patience_ms == 1.0
    assert found[0].patience_ms == 60_000.0


def test_a_forked_process_opens_its_own_connections() -> None:
    """It read the answers of its parent, and its end ended its parent's requests."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        here = Endpoint(*listening.getsockname())
        cluster = ClusterClient([here])
        ahead = cluster.submit(here, MetadataRequest(), timeout_ms=60_000.0)
        with pytest.raises(ChannelError, match="timeout"):
            cluster.call(here, MetadataRequest(), MetadataResponse, timeout_ms=1.0)
        with pytest.raises(ChannelError):
            cluster.wait(ahead)
        before = cluster.client
        ahead = cluster.submit(here, MetadataRequest(), timeout_ms=60_000.0)
        child = os.fork()
        if child == 0:
            os._exit(outcome_in_child(cluster, ahead, before, here))
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert cluster.client is before
        assert not ahead.done
        cluster.close()


def outcome_in_child(cluster: ClusterClient, ahead: Any, before: object, here: Endpoint) -> int:
    """0 where all is as it should be, else the number of what is not."""
    with pytest.raises(ChannelError, match="of the process that this one forked from"):
        cluster.wait(ahead)
    if cluster.client is before:
        return 2
    with pytest.raises(ChannelError, match="timeout"):
        cluster.call(here, MetadataRequest(), MetadataResponse, timeout_ms=20.0)
    return 0


def test_a_writer_counts_partitions_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker lives for many tasks: what it remembers may have grown, or been created again."""
    cluster = ClusterClient([HERE])
    counts = iter((2, 3))

    def topics(names: list[str], *, create: bool) -> dict[str, TopicMetadata]:
        partitions = {index: PartitionMetadata() for index in range(next(counts))}
        found = TopicMetadata("t", partitions=partitions)
        cluster.client.cluster.topics["t"] = found
        return {"t": found}

    monkeypatch.setattr(cluster, "topics", topics)
    assert [cluster.partition_count("t"), cluster.partition_count("t")] == [2, 3]


def test_a_silent_cluster_is_given_up_when_the_patience_is_over(silent: Endpoint) -> None:
    cluster = ClusterClient([silent], patience_ms=40)
    with pytest.raises(
        ClusterUnreachableError, match=r"gave up after 0 s: no broker of .* answers .*timeout: no"
    ):
        cluster.topics(["t"])


def test_a_process_that_is_not_there_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        gone = Endpoint(*listening.getsockname())
    cluster = ClusterClient([gone], patience_ms=0)
    with pytest.raises(ClusterUnreachableError, match="refused: no process listens at"):
        cluster.topics()
