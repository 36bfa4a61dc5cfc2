"""Our own ZooKeeper servers as processes: a leader that dies, bad input, and `up` without Java."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import KazooException

from barnabas.cli.local.zookeeper_servers import HOST, OWN, ZooKeeperServer, ZooKeeperServers
from tests.process.launch import Up, barnabas, wait_until

pytestmark = [pytest.mark.process]


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeperServers]:
    with ZooKeeperServers(tmp_path_factory.mktemp("three"), 3, kind=OWN) as servers:
        yield servers


class Writer:
    """Creates numbered znodes from a thread, one after the other; each that was answered has to be there."""

    def __init__(self, client: KazooClient) -> None:
        self.client = client
        self.made: list[str] = []
        self.failed = 0
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Writer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join(30)

    def _run(self) -> None:
        number = 0
        while not self._ended.is_set():
            number += 1
            try:
                self.made.append(self.client.create(f"/load/{number}", ephemeral=True))
            except KazooException:
                self.failed += 1

    def wait_for_more(self) -> None:
        wanted = len(self.made) + 20
        wait_until(lambda: len(self.made) >= wanted, "changes are not answered any more")


@contextmanager
def opened(hosts: str) -> Iterator[KazooClient]:
    client = KazooClient(hosts=hosts)
    client.start()
    try:
        yield client
    finally:
        client.stop()
        client.close()


def connected(server: ZooKeeperServer, others: str) -> KazooClient:
    client = KazooClient(hosts=f"{server.address},{others}", timeout=10, randomize_hosts=False)
    client.start()
    return client


def test_sessions_survive_the_death_of_the_leader(three: ZooKeeperServers) -> None:
    clients = [connected(server, three.connect) for server in three.servers]
    identities = [client.client_id for client in clients]
    try:
        clients[0].create("/load")
        for number, client in enumerate(clients):
            client.create(f"/held-{number}", ephemeral=True)
        leader = three.leader()
        assert leader is not None
        at_followers = [
            client
            for client, server in zip(clients, three.servers, strict=True)
            if server is not leader
        ]
        with Writer(at_followers[0]) as load:
            load.wait_for_more()
            leader.kill()
            load.wait_for_more()
            three.start_server(leader)
            three.wait_ready(leader)
            load.wait_for_more()
        assert load.failed == 0  # its connection has outlived the change of leader
        for client in clients:
            client.sync("/")
            assert {"held-0", "held-1", "held-2"} <= set(client.get_children("/"))
            assert set(load.made) <= {f"/load/{name}" for name in client.get_children("/load")}
        assert [client.client_id for client in clients] == identities
        with opened(leader.address) as returned:
            returned.sync("/")
            assert len(returned.get_children("/load")) >= len(load.made)
    finally:
        for client in clients:
            client.stop()
            client.close()
    with opened(three.connect) as after:
        assert after.get_children("/load") == []


def test_a_lock_passes_on_through_the_death_of_the_leader(three: ZooKeeperServers) -> None:
    clients = [connected(server, three.connect) for server in three.servers]
    fences: list[int] = []

    def work(client: KazooClient) -> None:
        lock = client.Lock("/locks/one")
        with lock:
            fences.append(client.exists(f"/locks/one/{lock.node}").czxid)

    try:
        first, *others = clients
        held = first.Lock("/locks/one")
        assert held.acquire(timeout=30)
        fences.append(first.exists(f"/locks/one/{held.node}").czxid)
        waiting = [threading.Thread(target=work, args=(client,), daemon=True) for client in others]
        for thread in waiting:
            thread.start()
        wait_until(lambda: len(first.get_children("/locks/one")) == len(clients), "none waits")
        leader = three.leader()
        assert leader is not None
        leader.kill()
        assert len(fences) == 1
        first.stop()  # which ends its session, and with it its znode
        for thread in waiting:
            thread.join(60)
        three.start_server(leader)
        three.wait_ready(leader)
    finally:
        for client in clients:
            client.stop()
            client.close()
    assert len(fences) == len(clients)
    assert fences == sorted(set(fences))
    with opened(three.connect) as after:
        assert after.get_children("/locks/one") == []


def test_bad_input_closes_its_connection_and_no_other(three: ZooKeeperServers) -> None:
    server = three.servers[0]
    connect = struct.pack(">iqiqi16s?", 0, 0, 4_000, 0, 16, bytes(16), False)
    with opened(server.address) as client:
        client.ensure_path("/bad")
        for data in (
            b"\x7f\xff\xff\xff",
            b"\xff\xff\xff\xff",
            b"\0\0\0\5short",
            b"GET / HTTP/1.1\r\n\r\n",
            frame(connect) + frame(b"\0\0\0\1"),
            frame(connect) + frame(struct.pack(">iii", 1, 1, 1 << 30)),
        ):
            with socket.create_connection((HOST, server.client_port), 10) as bad:
                bad.sendall(data)
                while bad.recv(4096):
                    pass
        with socket.create_connection((HOST, server.election_port), 10) as bad:
            bad.sendall(b"\0" * 64)
            assert bad.recv(1) == b""
        assert client.exists("/bad") is not None
    assert "zookeeper.client_refused" in server.log.read_text()
    assert "zookeeper.link_refused" in server.log.read_text()


def frame(data: bytes) -> bytes:
    return len(data).to_bytes(4, "big") + data


@pytest.fixture
def without_java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "none"))


@pytest.mark.usefixtures("without_java")
def test_up_runs_in_zookeeper_mode_without_java(tmp_path: Path) -> None:
    data = tmp_path / "data"
    run_up(data, "first", {"first"})
    assert not list(data.glob("zookeeper-1/data/version-2"))
    other = barnabas("up", "--data", str(data), "--zookeeper-server", "apache")
    assert other.returncode != 0
    assert "are barnabas's: they stay so" in other.stderr


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.interop
@pytest.mark.usefixtures("without_java")
def test_up_starts_again_on_the_znodes_that_it_left(tmp_path: Path) -> None:
    run_up(tmp_path / "data", "first", {"first"})
    run_up(tmp_path / "data", "second", {"first", "second"})


def run_up(data: Path, topic: str, topics: set[str]) -> None:
    """A cluster of one node, with one topic more."""
    started = Up(data, "--coordination", "zookeeper", "--nodes", "1")
    try:
        bootstrap = started.wait_for_line("bootstrap: ").split()[1]
        created = barnabas("topics", "create", topic, "-b", bootstrap)
        assert created.returncode == 0, created.stderr
        with opened(started.wait_for_line("zookeeper: ").split()[1]) as client:
            assert client.server_version() == (3, 9, 3)
            assert topics <= set(client.get_children("/brokers/topics"))
    finally:
        started.end()
