"""A cluster that a real ZooKeeper coordinates: used by another client, hurt under load, started again.

Needs Java and pyspark, whose jars have ZooKeeper's server.
"""

from __future__ import annotations

import json
import os
import signal
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic
from kazoo.client import KazooClient

from tests.process.launch import Up, barnabas, has_ended, wait_until

pytestmark = pytest.mark.process
TOPIC = "t"
PARTITIONS = 6


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    started = Up(tmp_path_factory.mktemp("zookeeper"), "--coordination", "zookeeper", "--restart")
    try:
        started.wait_for_line("bootstrap: ")
        yield started
    finally:
        started.end()


@pytest.fixture(scope="module")
def znodes(up: Up) -> Iterator[KazooClient]:
    client = KazooClient(hosts=up.wait_for_line("zookeeper: ").split()[1])
    client.start()
    yield client
    client.stop()
    client.close()


def bootstrap(up: Up) -> str:
    return str(up.state["bootstrap"])


def read_json(znodes: Any, path: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(znodes.get(path)[0])
    return found


def create(up: Up, name: str, partitions: int = 1, within_s: float = 30.0) -> None:
    """By another client; asked again while no controller answers."""
    admin = AdminClient({"bootstrap.servers": bootstrap(up), "log_level": 0})
    deadline = time.monotonic() + within_s
    while True:
        topic = NewTopic(name, partitions, 3, config={"min.insync.replicas": "2"})
        try:
            admin.create_topics([topic], request_timeout=5)[name].result()
            return
        except KafkaException as error:
            assert time.monotonic() < deadline, error


class Numbers:
    """Numbered records, acks=all and idempotent, from a thread until the block ends."""

    def __init__(self, up: Up, topic: str = TOPIC) -> None:
        self.topic = topic
        self.acknowledged: list[int] = []
        self._up = up
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Numbers:
        self._thread.start()
        wait_until(lambda: len(self.acknowledged) > 50, "no record was acknowledged")
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join(60)

    def wait_for_more(self, count: int = 200) -> None:
        wanted = len(self.acknowledged) + count
        wait_until(
            lambda: len(self.acknowledged) >= wanted, "records are not acknowledged any more"
        )

    def _run(self) -> None:
        producer = Producer(
            {
                "bootstrap.servers": bootstrap(self._up),
                "enable.idempotence": True,
                "linger.ms": 1,
                "socket.timeout.ms": 5000,
                "request.timeout.ms": 5000,
                "log_level": 0,
            }
        )
        number = 0
        while not self._ended.is_set():
            producer.produce(
                self.topic,
                str(number),
                partition=number % PARTITIONS,
                on_delivery=self._on_delivery,
            )
            number += 1
            producer.poll(0.002)
        assert producer.flush(40) == 0

    def _on_delivery(self, error: object, message: Any) -> None:
        if error is None:
            self.acknowledged.append(int(message.value()))


def read_all(up: Up, group: str, count: int, topic: str = TOPIC) -> list[int]:
    """Everything in the topic, of `count` records at least."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap(up),
            "group.id": group,
            "auto.offset.reset": "earliest",
            "log_level": 0,
        }
    )
    consumer.subscribe([topic])
    found: list[int] = []
    deadline = time.monotonic() + 60
    while len(found) < count and time.monotonic() < deadline:
        found += [int(m.value()) for m in consumer.consume(2000, 0.5) if not m.error()]
    consumer.commit(asynchronous=False)
    consumer.close()
    return found


def kill(up: Up, broker: int) -> None:
    """Without warning; `up` starts it again."""
    node = next(node for node in up.state["nodes"] if node["id"] == broker)
    os.kill(node["pid"], signal.SIGKILL)


def all_in_sync(znodes: Any, topic: str = TOPIC) -> bool:
    paths = [f"/brokers/topics/{topic}/partitions/{i}/state" for i in range(PARTITIONS)]
    return all(len(read_json(znodes, path)["isr"]) == 3 for path in paths)


@pytest.mark.timeout(120)
def page(up: Up, node: int, path: str) -> tuple[int, str]:
    """Status and body that a node's endpoint for metrics and health answers."""
    address = next(entry["metrics"] for entry in up.state["nodes"] if entry["id"] == node)
    try:
        with urllib.request.urlopen(f"{address}{path}", timeout=30) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def test_nodes_show_their_session_and_one_controller(up: Up) -> None:
    wait_until(
        lambda: all(page(up, node, "/health/ready")[0] == 200 for node in (1, 2, 3)),
        "some node is not ready",
    )
    checks = json.loads(page(up, 1, "/health/ready")[1])["checks"]
    assert [check["check"] for check in checks] == [
        "session", "registration", "min_isr", "log_directories", "running",
    ]  # fmt: skip
    pages = [page(up, node, "/metrics")[1].splitlines() for node in (1, 2, 3)]
    assert all('barnabas_zookeeper_session{state="connected"} 1' in lines for lines in pages)
    active = "kafka_controller_kafkacontroller_activecontrollercount"
    assert sorted(line for lines in pages for line in lines if line.startswith(active)) == [
        f"{active} 0", f"{active} 0", f"{active} 1",
    ]  # fmt: skip
    assert all("kafka_brokers 3" in lines for lines in pages)


def test_topics_and_configurations_are_znodes_of_kafka_3_9(up: Up, znodes: KazooClient) -> None:
    create(up, TOPIC, PARTITIONS)
    topic = read_json(znodes, f"/brokers/topics/{TOPIC}")
    assert topic["version"] == 3
    assert set(topic["partitions"]) == {str(index) for index in range(PARTITIONS)}
    state = read_json(znodes, f"/brokers/topics/{TOPIC}/partitions/0/state")
    assert state["leader"] == topic["partitions"]["0"][0]
    assert read_json(znodes, f"/config/topics/{TOPIC}")["config"] == {"min.insync.replicas": "2"}
    assert sorted(znodes.get_children("/brokers/ids")) == ["1", "2", "3"]
    controller = read_json(znodes, "/controller")["brokerid"]
    admin = AdminClient({"bootstrap.servers": bootstrap(up), "log_level": 0})
    assert admin.list_topics(timeout=10).controller_id == controller


@pytest.mark.timeout(120)
def test_the_command_line_creates_alters_and_deletes(up: Up, znodes: KazooClient) -> None:
    at = ("--data", str(up.data))
    assert barnabas("topics", "create", "c", "--partitions", "2", *at).returncode == 0
    assert barnabas("topics", "alter", "c", "--partitions", "3", *at).returncode == 0
    counted = json.loads(barnabas("cluster", "metrics", "--json", *at).stdout)
    assert counted["kafka.controller:type=KafkaController,name=ActiveBrokerCount"] == 3
    set_it = ("configs", "alter", "--topic", "c", "--set", "retention.ms=3600000")
    assert barnabas(*set_it, *at).returncode == 0
    assert read_json(znodes, "/config/topics/c")["config"]["retention.ms"] == "3600000"
    described = barnabas("topics", "describe", "c", "--json", *at)
    assert len(json.loads(described.stdout)[0]["partition_list"]) == 3
    assert barnabas("topics", "delete", "c", "--yes", *at).returncode == 0
    wait_until(lambda: znodes.exists("/brokers/topics/c") is None, "the topic's znodes stay")
    assert znodes.exists("/config/topics/c") is None
    wait_until(lambda: not list(up.data.glob("node-*/data/c-?")), "logs of the topic stay")
    told = barnabas("cluster", "events", "--about", "c", "--kind", "step", *at).stdout
    for step in ("assignment written", "LeaderAndIsr sent", "StopReplica sent", "znodes gone"):
        assert step in told, told


@pytest.mark.timeout(120)
def test_a_topic_that_another_tool_makes_by_a_znode_is_served(up: Up, znodes: KazooClient) -> None:
    assignment = {"version": 1, "partitions": {"0": [2, 3], "1": [3, 1]}}
    znodes.create("/brokers/topics/by_znode", json.dumps(assignment).encode())
    admin = AdminClient({"bootstrap.servers": bootstrap(up), "log_level": 0})

    def is_led() -> bool:
        topic = admin.list_topics(timeout=10).topics.get("by_znode")
        return topic is not None and {i: p.leader for i, p in topic.partitions.items()} == {
            0: 2,
            1: 3,
        }

    wait_until(is_led, "no broker leads it")
    assert read_json(znodes, "/brokers/topics/by_znode")["topic_id"]
    znodes.create("/admin/delete_topics/by_znode")
    wait_until(lambda: znodes.exists("/brokers/topics/by_znode") is None, "it is not deleted")


@pytest.mark.timeout(300)
def test_nothing_acknowledged_is_lost_when_leader_and_controller_die(
    up: Up, znodes: KazooClient
) -> None:
    with Numbers(up) as numbers:
        controller = read_json(znodes, "/controller")["brokerid"]
        other = next(broker for broker in (1, 2, 3) if broker != controller)
        kill(up, other)
        numbers.wait_for_more()
        wait_until(lambda: all_in_sync(znodes), "the killed broker does not return to its ISRs")
        epoch = int(znodes.get("/controller_epoch")[0])
        kill(up, controller)
        create(up, "after")
        assert int(znodes.get("/controller_epoch")[0]) > epoch
        numbers.wait_for_more()
        wait_until(lambda: all_in_sync(znodes), "the former controller does not return")
    read = read_all(up, "g", len(numbers.acknowledged))
    assert set(numbers.acknowledged) <= set(read)
    assert len(read) == len(set(read))


@pytest.mark.timeout(180)
def test_groups_keep_their_offsets_where_the_topic_grows(up: Up, znodes: KazooClient) -> None:
    """By request it does not; another tool may write its znode."""
    path, groups = "/brokers/topics/__consumer_offsets", [f"g{number}" for number in range(10)]
    create(up, "kept")
    for group in groups:
        client = _member(up, group)
        client.commit(offsets=[TopicPartition("kept", 0, 7)], asynchronous=False)
        client.close()
    admin = AdminClient({"bootstrap.servers": bootstrap(up), "log_level": 0})
    present = len(read_json(znodes, path)["partitions"])
    more = NewPartitions("__consumer_offsets", present + 9)
    with pytest.raises(KafkaException, match=f"keeps its {present} partitions"):
        admin.create_partitions([more])["__consumer_offsets"].result(30)
    assignment = read_json(znodes, path)
    for index in range(present, present + 9):
        assignment["partitions"][str(index)] = [1, 2, 3]
    znodes.set(path, json.dumps(assignment).encode())
    for _ in range(2):  # the controller that takes over makes what the znode says
        kill(up, read_json(znodes, "/controller")["brokerid"])
        new = f"{path}/partitions/{present + 8}/state"
        wait_until(lambda new=new: znodes.exists(new), "the partitions are not made")  # type: ignore[misc]
        wait_until(lambda: len(znodes.get_children("/brokers/ids")) == 3, "a broker is absent")
    for group in groups:
        client = _member(up, group)
        (place,) = client.committed([TopicPartition("kept", 0)], timeout=60)
        assert place.offset == 7, group
        client.close()


def _member(up: Up, group: str) -> Any:
    return Consumer(
        {
            "bootstrap.servers": bootstrap(up),
            "group.id": group,
            "enable.auto.commit": False,
            "log_level": 0,
        }
    )


def without_topic_ids(up: Up, znodes: KazooClient) -> int:
    """End the cluster, and leave the topic as brokers of Kafka 2.4 to 2.7 do; how many records it has.

    The brokers end before the znode changes: a controller that saw it would give the topic a new id. They end
    cleanly and in every ISR: that of a log without a topic id nothing was lost is known by it. A broker that
    still recovered its logs would not leave its mark. No test after this one has the module's cluster.
    """
    consumer = Consumer({"bootstrap.servers": bootstrap(up), "group.id": "none", "log_level": 0})
    places = [TopicPartition(TOPIC, index) for index in range(PARTITIONS)]
    count = sum(consumer.get_watermark_offsets(place, timeout=20)[1] for place in places)
    consumer.close()
    wait_until(lambda: all_in_sync(znodes), "a broker that was killed does not return to its ISRs")
    up.process.send_signal(signal.SIGSTOP)
    for process in up.pids:
        assert process
        os.kill(process, signal.SIGTERM)
        assert has_ended(process, 20)
    topic = read_json(znodes, f"/brokers/topics/{TOPIC}")
    del topic["topic_id"]
    znodes.set(f"/brokers/topics/{TOPIC}", json.dumps({**topic, "version": 2}).encode())
    up.process.terminate()
    assert up.stop(signal.SIGCONT) < 10
    files = list(up.data.glob(f"node-*/data/{TOPIC}-*/partition.metadata"))
    assert len(files) == 3 * PARTITIONS
    for file in files:
        file.unlink()
    return int(count)


@pytest.mark.timeout(120)
def test_a_cluster_of_before_topic_ids_begins_again_with_all_it_had(
    up: Up, znodes: KazooClient
) -> None:
    count = without_topic_ids(up, znodes)
    again = Up(up.data)
    try:
        again.wait_for_line("bootstrap: ")
        assert count and len(set(read_all(again, "again", count))) == count
        described = barnabas("topics", "describe", TOPIC, "--json", "--data", str(up.data))
        given = json.loads(described.stdout)[0]["topic_id"]
        files = list(up.data.glob(f"node-*/data/{TOPIC}-*/partition.metadata"))
        assert len(files) == 3 * PARTITIONS
        assert all(f"topic_id: {given}" in file.read_text() for file in files)
        assert not list(up.data.glob("node-*/data/*-stray"))
        assert (up.data / "node-1/data/meta.properties").read_text().count("version=0") == 1
    finally:
        again.end()


def test_a_secure_cluster_has_its_users_in_znodes(tmp_path: Path) -> None:
    arguments = ("--secure", "--coordination", "zookeeper", "--nodes", "1")
    started = Up(tmp_path, *arguments)
    try:
        started.wait_for_line("bootstrap: ")
        admin, user = (
            ("--command-config", str(tmp_path / f"{name}.properties"))
            for name in ("client", "user")
        )
        at = ("-b", bootstrap(started))
        entry = ("--deny-principal", "User:user", "--operation", "Describe", "--topic", "hidden")
        for words in (
            ("topics", "create", "shown", "hidden", *admin, *at),
            ("acls", "add", *entry, *admin, *at),
        ):
            done = barnabas(*words)
            assert done.returncode == 0, done.stderr
        listed = barnabas("topics", "list", "--json", *user, *at)
        assert "shown" in listed.stdout
        assert "hidden" not in listed.stdout
        refused = barnabas("topics", "create", "another", *user, *at)
        assert refused.returncode != 0 and "Traceback" not in refused.stderr
        file = tmp_path / "token.properties"
        made = barnabas("tokens", "create", "--write", str(file), *user, *at)
        assert made.returncode == 0, made.stderr
        seen = barnabas("topics", "list", "--json", "--command-config", str(file), *at)
        assert "shown" in seen.stdout and "hidden" not in seen.stdout, seen.stderr
    finally:
        started.end()
