"""The pytest plugin in projects of other people: runs of pytest with their own files and options."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.process.launch import await_nothing

pytestmark = [pytest.mark.process, pytest.mark.slow]
RUN_S = 90.0
NOTHING_ELSE = ["-p", "no:cacheprovider", "-q", "-s"]
A_TOPIC = """
from confluent_kafka import Consumer, Producer

def test_a_record_goes_round(bootstrap_servers, kafka_topic, kafka_cluster):
    producer = Producer({"bootstrap.servers": bootstrap_servers})
    producer.produce(kafka_topic, b"one")
    assert producer.flush(30) == 0
    reading = {"bootstrap.servers": bootstrap_servers, "group.id": "g", "auto.offset.reset": "earliest"}
    consumer = Consumer(reading)
    consumer.subscribe([kafka_topic])
    assert consumer.poll(30).value() == b"one"
    consumer.close()
    print("directory", kafka_cluster.directory)

def test_a_topic_has_what_was_asked_for(kafka_topics, kafka_client):
    name = kafka_topics(partitions=3, configs={"cleanup.policy": "compact"})
    assert len(kafka_client.topic(name).partitions) == 3

def test_topics_of_other_tests_are_gone(kafka_client, kafka_cluster):
    assert not [topic.name for topic in kafka_client.topics() if topic.name.startswith("test-")]
    print("directory", kafka_cluster.directory)
"""
FAULTS = """
def test_a_node_dies_and_comes_back(kafka_clusters):
    cluster = kafka_clusters(nodes=3)
    assert len(cluster.node_ids) == 3
    cluster.kill(2)
    assert not cluster.is_alive(2)
    cluster.restart(2)
    cluster.wait_for(lambda: cluster.is_alive(2), "node 2 to run")
    print("directory", cluster.directory)
"""
SECURED = """
import pytest

@pytest.fixture
def anyio_backend():
    return "asyncio"

@pytest.mark.anyio
async def test_aiokafka_is_the_administrator(aiokafka_clients, kafka_topic):
    async with aiokafka_clients.producer() as producer:
        await producer.send_and_wait(kafka_topic, b"one")
    async with aiokafka_clients.consumer(kafka_topic) as consumer:
        assert (await consumer.getone()).value == b"one"
"""
DIES = """
import os, signal

def test_its_worker_dies(kafka_cluster, kafka_topic):
    with open(os.environ["SEEN"], "a") as file:
        file.write(f"directory {kafka_cluster.directory}\\n")
    os.kill(os.getpid(), signal.SIGKILL)

def test_another_lives(kafka_cluster, kafka_topic):
    with open(os.environ["SEEN"], "a") as file:
        file.write(f"directory {kafka_cluster.directory}\\n")
"""
HANGS = """
import signal

def test_it_never_ends(kafka_cluster):
    kafka_cluster.kill(1)
    kafka_cluster.restart(1)
    print("directory", kafka_cluster.directory, flush=True)
    signal.pause()
"""


class Project:
    """Tests and options of another project, in a folder of their own."""

    def __init__(self, folder: Path, tests: str, *options: str) -> None:
        self.folder = folder
        (folder / "test_it.py").write_text(tests)
        (folder / "pytest.ini").write_text("\n".join(["[pytest]", *options]) + "\n")
        self.environment = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST_")}

    def begin(self, *words: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "pytest", *NOTHING_ELSE, *words],
            cwd=self.folder, env=self.environment, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip

    def run(self, *words: str, ends_with: int = 0) -> str:
        process = self.begin(*words)
        said, _ = process.communicate(timeout=RUN_S)
        assert process.returncode == ends_with, said
        return said


def directories(said: str) -> list[Path]:
    return [Path(name) for name in re.findall(r"directory (\S+)", said)]


def test_one_cluster_serves_the_tests_of_a_run(tmp_path: Path) -> None:
    said = Project(tmp_path, A_TOPIC).run()
    assert "3 passed" in said
    (directory,) = set(directories(said))
    await_nothing(directory)


def test_each_test_has_a_cluster_where_that_is_asked_for(tmp_path: Path) -> None:
    options = ("kafka_scope = function", "kafka_settings = num.partitions=2")
    said = Project(tmp_path, A_TOPIC, *options).run()
    assert "3 passed" in said
    assert len(set(directories(said))) == 2


def test_a_test_kills_a_node_of_a_cluster_of_its_own(tmp_path: Path) -> None:
    said = Project(tmp_path, FAULTS).run()
    (directory,) = directories(said)
    await_nothing(directory)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_nothing_is_left_where_a_run_is_ended(number: signal.Signals, tmp_path: Path) -> None:
    process = Project(tmp_path, HANGS).begin()
    assert process.stdout is not None
    directory = None
    while directory is None:
        line = process.stdout.readline()
        assert line, process.wait()
        directory = next(iter(directories(line)), None)
    process.send_signal(number)
    process.wait(RUN_S)
    process.stdout.close()
    await_nothing(directory)


@pytest.mark.parametrize(("option", "clusters"), [("each", 2), ("shared", 1)])
def test_workers_of_xdist_have_a_cluster_each_or_one(
    option: str, clusters: int, tmp_path: Path
) -> None:
    pytest.importorskip("xdist")
    tests = "".join(
        f"""
def test_{number}(kafka_cluster, kafka_topic, worker_id):
    with open("{tmp_path}/" + worker_id, "w") as file:
        file.write("directory " + str(kafka_cluster.directory))
"""
        for number in range(4)
    )
    said = Project(tmp_path, tests, f"kafka_xdist = {option}").run("-n", "2")
    assert "4 passed" in said
    found = {path for file in tmp_path.glob("gw*") for path in directories(file.read_text())}
    assert len(found) == clusters
    for directory in found:
        await_nothing(directory)


@pytest.mark.parametrize("option", ["each", "shared"])
def test_a_worker_that_is_killed_leaves_nothing(option: str, tmp_path: Path) -> None:
    pytest.importorskip("xdist")
    project = Project(tmp_path, DIES, f"kafka_xdist = {option}")
    project.environment["SEEN"] = str(tmp_path / "seen")
    said = project.run("-n", "1", ends_with=1)
    assert "1 failed, 1 passed" in said and "crashed" in said
    found = set(directories((tmp_path / "seen").read_text()))
    assert len(found) == {"each": 2, "shared": 1}[option]
    for directory in found:
        await_nothing(directory)


def test_aiokafka_has_the_security_of_its_cluster(tmp_path: Path) -> None:
    pytest.importorskip("aiokafka")
    assert "1 passed" in Project(tmp_path, SECURED, "kafka_secure = true").run()


def test_a_wrong_option_is_one_sentence(tmp_path: Path) -> None:
    said = Project(tmp_path, A_TOPIC, "kafka_scope = forever").run(ends_with=4)
    assert "kafka_scope is one of session, module, function, not 'forever'" in said
    said = Project(tmp_path, A_TOPIC, "kafka_nodes = none").run(ends_with=4)
    assert "kafka_nodes is a positive whole number, not 'none'" in said


PREPARED = """
from barnabas.testing.template import TEMPLATE

def test_one_without_a_cluster():
    assert (TEMPLATE.pid is not None) is {prepared}
"""


@pytest.mark.parametrize(
    ("words", "prepared"), [((), True), (("-k", "without"), False)], ids=["all", "deselected"]
)
def test_a_cluster_is_prepared_where_a_test_will_start_one(
    words: tuple[str, ...], prepared: bool, tmp_path: Path
) -> None:
    """Not where that test was deselected."""
    tests = PREPARED.format(prepared=prepared)
    if prepared:
        tests += "\ndef test_two(kafka_clusters):\n    pass\n"
    else:
        tests += "\ndef test_with(kafka_clusters):\n    assert False\n"
    Project(tmp_path, tests).run(*words)
