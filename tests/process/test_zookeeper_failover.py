"""Failover with three ZooKeeper servers, Apache's and ours, each time under idempotent load: nothing lost or
twice.

Pauses are longer than a ZooKeeper session (18 s), so these take minutes.
"""

from __future__ import annotations

import os
import shutil
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from kazoo.client import KazooClient

from barnabas.cli.local.zookeeper_servers import (
    APACHE,
    OWN,
    ZooKeeperMissing,
    class_path,
    four_letter_word,
    java,
)
from tests.process.launch import Up, barnabas, wait_until
from tests.process.test_zookeeper_mode import (
    PARTITIONS,
    TOPIC,
    Numbers,
    all_in_sync,
    bootstrap,
    create,
    kill,
    read_all,
    read_json,
)

LONGER_THAN_SESSION_S = 25.0
pytestmark = [
    pytest.mark.process,
    pytest.mark.slow,
    pytest.mark.interop,
    pytest.mark.timeout(300),
    pytest.mark.long,
]


@pytest.fixture(scope="module", params=[OWN, pytest.param(APACHE, marks=pytest.mark.java)])
def up(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    try:
        if request.param == APACHE:
            java(), class_path()
    except ZooKeeperMissing as missing:
        pytest.skip(str(missing))
    ensemble = ("--zookeeper-server", request.param, "--zookeeper-servers", "3")
    started = Up(tmp_path_factory.mktemp("ensemble"), *ensemble, "--restart")
    try:
        started.wait_for_line("bootstrap: ")
        create(started, TOPIC, PARTITIONS)
        yield started
    finally:
        started.end()


@pytest.fixture
def znodes(up: Up) -> Iterator[KazooClient]:
    client = KazooClient(hosts=up.wait_for_line("zookeeper: ").split()[1])
    client.start()
    yield client
    client.stop()
    client.close()


def servers(up: Up) -> dict[int, int]:
    """Process id to client port, of this cluster's ZooKeeper servers that run."""
    found = {}
    for file in up.data.glob("zookeeper-*/zoo.cfg"):
        lines = file.read_text().splitlines()
        port = next(int(line.split("=")[1]) for line in lines if line.startswith("clientPort="))
        for entry in Path("/proc").glob("[0-9]*/cmdline"):
            try:
                arguments = entry.read_bytes().split(b"\0")
            except OSError:
                continue
            if str(file).encode() in arguments:
                found[int(entry.parent.name)] = port
    return found


def registrations(znodes: KazooClient) -> dict[str, int]:
    """Each broker's epoch."""
    brokers = znodes.get_children("/brokers/ids")
    found = {broker: znodes.exists(f"/brokers/ids/{broker}") for broker in brokers}
    return {broker: stat.czxid for broker, stat in found.items() if stat is not None}


def registrations_after(znodes: KazooClient, before: dict[str, int]) -> set[str]:
    """Brokers whose registration is another one than in `before`."""
    return {broker for broker, czxid in registrations(znodes).items() if czxid != before[broker]}


def node_pid(up: Up, broker: int) -> int:
    return next(int(node["pid"]) for node in up.state["nodes"] if node["id"] == broker)


def epoch(znodes: KazooClient) -> int:
    return int(znodes.get("/controller_epoch")[0])


@pytest.fixture
def numbers(up: Up, znodes: KazooClient, request: pytest.FixtureRequest) -> Iterator[Numbers]:
    """Load during the test, in a topic of its own; afterwards every acknowledged record is there once."""
    topic = request.node.originalname
    create(up, topic, PARTITIONS)
    with Numbers(up, topic) as load:
        yield load
        load.wait_for_more()
    read = read_all(up, topic, len(load.acknowledged), topic)
    assert set(load.acknowledged) <= set(read)
    assert len(read) == len(set(read))


def test_a_controller_that_sleeps_past_its_session_rules_no_more(
    up: Up, znodes: KazooClient, numbers: Numbers
) -> None:
    controller, former = read_json(znodes, "/controller")["brokerid"], epoch(znodes)
    pid = node_pid(up, controller)
    os.kill(pid, signal.SIGSTOP)
    try:
        wait_until(lambda: epoch(znodes) > former, "no broker takes over")
        numbers.wait_for_more()
    finally:
        os.kill(pid, signal.SIGCONT)
    create(up, "after_it_woke")
    wait_until(lambda: len(registrations(znodes)) == 3, "it does not register again")
    wait_until(lambda: all_in_sync(znodes, numbers.topic), "it does not return to its ISRs")
    assert read_json(znodes, "/controller")["brokerid"] != controller
    assert node_pid(up, controller) == pid


def test_broker_and_controller_die_together(up: Up, znodes: KazooClient, numbers: Numbers) -> None:
    controller, former = read_json(znodes, "/controller")["brokerid"], epoch(znodes)
    before = registrations(znodes)
    other = next(broker for broker in (1, 2, 3) if broker != controller)
    kill(up, controller)
    kill(up, other)
    wait_until(lambda: epoch(znodes) > former, "no broker takes over")
    wait_until(
        lambda: {str(controller), str(other)} <= registrations_after(znodes, before),
        "they do not register again",
    )
    create(up, "after_both")
    numbers.wait_for_more()
    wait_until(lambda: all_in_sync(znodes, numbers.topic), "they do not return to their ISRs")


def test_zookeeper_asleep_for_longer_than_the_session(
    up: Up, znodes: KazooClient, numbers: Numbers
) -> None:
    asleep = list(servers(up))
    assert len(asleep) == 3
    for pid in asleep:
        os.kill(pid, signal.SIGSTOP)
    try:
        until = time.monotonic() + LONGER_THAN_SESSION_S
        while time.monotonic() < until:
            numbers.wait_for_more()  # brokers serve on with what they know
    finally:
        for pid in asleep:
            os.kill(pid, signal.SIGCONT)
    create(up, "after_zookeeper_woke", within_s=60.0)
    wait_until(lambda: len(registrations(znodes)) == 3, "brokers do not register again")
    wait_until(lambda: all_in_sync(znodes, numbers.topic), "ISRs do not fill")


def test_sessions_move_when_zookeepers_leader_dies(
    up: Up, znodes: KazooClient, numbers: Numbers
) -> None:
    before = registrations(znodes)
    running = servers(up)
    assert len(running) == 3
    leader = next(
        pid for pid, port in running.items() if "Mode: leader" in four_letter_word("srvr", port)
    )
    os.kill(leader, signal.SIGKILL)
    create(up, "after_the_leader_died", within_s=60.0)
    numbers.wait_for_more()
    assert registrations(znodes) == before


def log_dir(up: Up, broker: int) -> Path:
    return up.data / f"node-{broker}" / "data"


def test_a_broker_returns_with_an_empty_disk(up: Up, znodes: KazooClient, numbers: Numbers) -> None:
    before = registrations(znodes)
    leader = read_json(znodes, f"/brokers/topics/{numbers.topic}/partitions/0/state")["leader"]
    pid, directory = node_pid(up, leader), log_dir(up, leader)
    os.kill(pid, signal.SIGSTOP)  # it is started again at once: its disk has to be empty by then
    for found in directory.iterdir():
        if found.is_dir():
            shutil.rmtree(found)
        else:
            found.unlink()
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: str(leader) in registrations_after(znodes, before), "it does not register")
    numbers.wait_for_more()
    wait_until(lambda: all_in_sync(znodes, numbers.topic), "it does not return to its ISRs")
    assert (directory / f"{numbers.topic}-0").is_dir()


def test_a_topic_is_deleted_while_a_replica_is_down(
    up: Up, znodes: KazooClient, numbers: Numbers
) -> None:
    create(up, "goes", PARTITIONS)
    controller = read_json(znodes, "/controller")["brokerid"]
    down = next(broker for broker in (1, 2, 3) if broker != controller)
    pid, directory = node_pid(up, down), log_dir(up, down)
    wait_until((directory / "goes-0").is_dir, "its replica")
    os.kill(pid, signal.SIGSTOP)
    try:
        wait_until(lambda: str(down) not in registrations(znodes), "its session does not end")
        deleted = barnabas("topics", "delete", "goes", "--yes", "-b", bootstrap(up))
        assert deleted.returncode == 0, deleted.stderr
        numbers.wait_for_more()
        assert znodes.exists("/admin/delete_topics/goes") is not None
        assert znodes.exists("/brokers/topics/goes") is not None
    finally:
        os.kill(pid, signal.SIGCONT)
    wait_until(lambda: znodes.exists("/brokers/topics/goes") is None, "the topic is not gone")
    assert znodes.exists("/admin/delete_topics/goes") is None
    wait_until(lambda: not (directory / "goes-0").exists(), "its log is not gone")
    wait_until(lambda: all_in_sync(znodes, numbers.topic), "it does not return to its ISRs")
