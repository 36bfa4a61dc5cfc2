"""Other people's programs that use transactions: how each is started, and what it has to leave behind.

Each function takes the address of a cluster and a folder for files, so that the same runs against any system.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections import defaultdict
from collections.abc import Callable, Iterable
from pathlib import Path

from barnabas.cli.local.free_ports import FreePorts
from barnabas.client.records import ProducerRecord
from barnabas.host.client import connect
from tests.clients.checks import fresh
from tests.clients.committed import Read, read_committed
from tests.clients.connect_worker import ConnectWorker
from tests.clients.go_programs import franz_go_tests
from tests.interop.java_programs import JavaProcess, Program
from tests.peers import CLASS_PATH_PROGRAMS

PARTITIONS = 3
TIMEOUT_S = 300.0
JVM = (
    "-Xmx300m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
)
Disturbance = Callable[[str], None]
"""Takes the topic that the program writes, and waits by itself until the program is under way."""


def undisturbed(_: str) -> None: ...


def java(folder: Path, name: str, *words: str, options: Iterable[str] = JVM) -> JavaProcess:
    """A main class of `CLASS_PATH_PROGRAMS`; its log is `name` in `folder`."""
    log = folder / f"{name}.log"
    return JavaProcess(*words, log=log, class_path=CLASS_PATH_PROGRAMS, options=tuple(options))


def create(bootstrap: str, *topics: str, partitions: int = PARTITIONS) -> None:
    connected = connect(bootstrap)
    for topic in topics:
        connected.create_topic(topic, partitions, 3, {"min.insync.replicas": "2"})
    connected.close()


def feed(bootstrap: str, topic: str, count: int) -> None:
    """Numbers from 0, `count` of them in each partition."""
    connected = connect(bootstrap)
    with connected.producer() as producer:
        for number in range(count):
            for partition in range(PARTITIONS):
                producer.send(ProducerRecord(topic, b"%d" % number, partition=partition))
    connected.close()


def assert_numbers(read: Iterable[Read], count: int) -> None:
    """Each partition has the numbers below `count`, once and in order."""
    found: dict[int, list[int]] = defaultdict(list)
    for record in read:
        found[record.partition].append(int(record.value))
    for partition in range(PARTITIONS):
        assert found[partition] == list(range(count)), f"{partition}: {len(found[partition])}"


def copier(
    bootstrap: str, folder: Path, source: str, target: str, group: str, name: str, size: int = 20
) -> JavaProcess:
    """Kafka's TransactionalMessageCopier, which aborts each third transaction at random."""
    words = ["org.apache.kafka.tools.TransactionalMessageCopier", "--broker-list", bootstrap]
    words += ["--input-topic", source, "--input-partition", "-1", "--output-topic", target]
    words += ["--transactional-id", name, "--consumer-group", group, "--group-mode"]
    words += ["--transaction-size", str(size), "--transaction-timeout", "20000"]
    return java(folder, name, *words, "--enable-random-aborts", "--use-group-metadata")


def message_copier(bootstrap: str, folder: Path) -> None:
    """librdkafka reads what is committed while the copier still writes."""
    source, target, count = fresh("source"), fresh("target"), 1_000
    create(bootstrap, source, target)
    feed(bootstrap, source, count)
    process = copier(bootstrap, folder, source, target, fresh("copiers"), fresh("copier"))
    try:
        read = read_committed(bootstrap, target, count * PARTITIONS, timeout_s=TIMEOUT_S)
        process.wait_for_all_lines(TIMEOUT_S)
        assert_numbers(read, count)
    finally:
        process.kill()


def produce_bench(bootstrap: str, folder: Path, disturb: Disturbance = undisturbed) -> None:
    """Trogdor's ProduceBench: 100 transactions of 20 records, by its agent alone."""
    topic, count = fresh("bench"), 2_000
    create(bootstrap, topic)
    (port,) = FreePorts().take(1)
    node = {"hostname": "localhost", "trogdor.agent.port": port}
    platform = "org.apache.kafka.trogdor.basic.BasicPlatform"
    config = folder / f"{topic}-agent.json"
    config.write_text(json.dumps({"platform": platform, "nodes": {"node0": node}}))
    spec = folder / f"{topic}-spec.json"
    spec.write_text(
        json.dumps(
            {
                "class": "org.apache.kafka.trogdor.workload.ProduceBenchSpec",
                "startMs": 0,
                "durationMs": int(TIMEOUT_S * 1000),
                "producerNode": "node0",
                "bootstrapServers": bootstrap,
                "targetMessagesPerSec": 1_000,
                "maxMessages": count,
                "transactionGenerator": {"type": "uniform", "messagesPerTransaction": 20},
                "keyGenerator": {"type": "sequential", "size": 8, "startOffset": 0},
                "valueGenerator": {"type": "constant", "size": 64, "value": "YmFybmFiYXM="},
                "activeTopics": {topic: {"numPartitions": PARTITIONS, "replicationFactor": 3}},
                "inactiveTopics": {},
            }
        )
    )
    agent = "org.apache.kafka.trogdor.agent.Agent"
    words = (agent, "--agent.config", str(config), "--node-name", "node0", "--exec", str(spec))
    process = java(folder, topic, *words)
    try:
        disturb(topic)
        said = "\n".join(process.wait_for_all_lines(TIMEOUT_S))
        assert f'"totalSent":{count}' in said.replace(" ", ""), said[-2_000:]
        read = read_committed(bootstrap, topic, count)
        assert len(read) == len({record.key for record in read}) == count
    finally:
        process.kill()


def performance_tool(bootstrap: str, folder: Path, disturb: Disturbance = undisturbed) -> None:
    """``kafka-producer-perf-test --transactional-id``: as many transactions as fit, of 20 ms each."""
    topic, count = fresh("perf"), 6_000
    create(bootstrap, topic)
    words = ["org.apache.kafka.tools.ProducerPerformance", "--topic", topic]
    words += ["--num-records", str(count), "--throughput", "600", "--payload-monotonic"]
    words += ["--transactional-id", topic, "--transaction-duration-ms", "20"]
    words += [
        "--command-property",
        f"bootstrap.servers={bootstrap}",
        "--bootstrap-server",
        bootstrap,
    ]
    process = java(folder, topic, *words)
    try:
        disturb(topic)
        process.wait_for_all_lines(TIMEOUT_S)
        read = read_committed(bootstrap, topic, count)
        assert len(read) == len({record.value for record in read}) == count
    finally:
        process.kill()


def mirror_maker(bootstrap: str, folder: Path, disturb: Disturbance = undisturbed) -> None:
    """MirrorMaker 2's source with exactly-once support: 12,000 records, from and to one cluster."""
    topic, count, name = fresh("mirrored"), 4_000, fresh("mirror")
    create(bootstrap, topic)
    feed(bootstrap, topic, count)
    worker = ConnectWorker(bootstrap, folder, name, CLASS_PATH_PROGRAMS)
    try:
        worker.start(
            "mirror",
            {
                "connector.class": "org.apache.kafka.connect.mirror.MirrorSourceConnector",
                "tasks.max": "1",
                "source.cluster.alias": "here",
                "target.cluster.alias": "there",
                "source.cluster.bootstrap.servers": bootstrap,
                "target.cluster.bootstrap.servers": bootstrap,
                "topics": topic,
                "replication.factor": "3",
                "offset-syncs.topic.replication.factor": "3",
                "sync.topic.acls.enabled": "false",
                "consumer.isolation.level": "read_committed",
                "consumer.max.poll.records": "100",
                "key.converter": "org.apache.kafka.connect.converters.ByteArrayConverter",
                "value.converter": "org.apache.kafka.connect.converters.ByteArrayConverter",
                "exactly.once.support": "required",
                "transaction.boundary": "poll",
            },
        )
        target = f"here.{topic}"
        disturb(target)
        read = read_committed(
            bootstrap, target, count * PARTITIONS, lambda: worker.problem("mirror"), TIMEOUT_S
        )
        assert_numbers(read, count)
        assert set(worker.states("mirror")) == {"RUNNING"}
    finally:
        worker.kill()


SMOKE_TOPICS = (
    "data",
    "fk",
    "echo",
    "min",
    "min-suppressed",
    "min-raw",
    "max",
    "sum",
    "sws-raw",
    "sws-suppressed",
    "dif",
    "cnt",
    "avg",
    "tagg",
)


def streams_smoke_test(bootstrap: str, folder: Path, disturb: Disturbance = undisturbed) -> None:
    """The driver feeds Kafka's own Streams application for 90 seconds and verifies each of its results."""
    create(bootstrap, *SMOKE_TOPICS, partitions=5)
    properties = folder / "smoke.properties"
    properties.write_text(
        f"bootstrap.servers={bootstrap}\n"
        "processing.guarantee=exactly_once_v2\n"
        "commit.interval.ms=100\n"
        f"state.dir={folder / 'smoke-state'}\n"
    )
    words = ("org.apache.kafka.streams.tests.StreamsSmokeTest", str(properties))
    client = java(folder, "smoke-client", *words, "process", options=("-Xmx400m", *JVM[1:]))
    driver = java(folder, "smoke-driver", *words, "run")
    try:
        disturb("echo")
        said = driver.wait_for_all_lines(2 * TIMEOUT_S)
        assert "SUCCESS" in said and "ALL-RECORDS-DELIVERED" in said, said[-20:]
        assert "PROCESSED-MORE-THAN-GENERATED" not in said
        assert client.process.poll() is None
    finally:
        driver.kill()
        client.kill()


def chained_etl(bootstrap: str, folder: Path) -> None:
    """franz-go's own test: groups of consumers in a chain, each of which copies in transactions."""
    settings = {"KGO_SEEDS": bootstrap, "KGO_TEST_RF": "3", "KGO_TEST_RECORDS": "20000"}
    settings |= {"KGO_LOG_LEVEL": "none", "KGO_TEST_MAX_TOPIC_PARTS": "5"}
    limit = f"{TIMEOUT_S:.0f}s"
    log = folder / "chained-etl.log"
    with log.open("wb") as output:
        done = subprocess.run(
            [str(franz_go_tests()), "-test.run", "^TestTxnEtl$", "-test.timeout", limit],
            cwd=folder,
            env={**os.environ, **settings},
            stdout=output,
            stderr=subprocess.STDOUT,
            timeout=TIMEOUT_S + 30,
            check=False,
        )
    said = log.read_text(errors="replace")
    assert done.returncode == 0 and "no tests to run" not in said, said[-3_000:]


def spring_listener(bootstrap: str, folder: Path, disturb: Disturbance = undisturbed) -> None:
    """Spring Kafka's listener copies each record in a transaction of its container."""
    source, target, count = fresh("spring-source"), fresh("spring-target"), 200
    create(bootstrap, source, target)
    feed(bootstrap, source, count)
    arguments = (bootstrap, source, target, fresh("spring"), str(count * PARTITIONS))
    process = Program(
        "SpringCopy",
        *arguments,
        log=folder / "spring.log",
        class_path=CLASS_PATH_PROGRAMS,
        options=("-Xmx400m", *JVM[1:]),
    )
    try:
        disturb(target)
        said = process.wait_for_all_lines(TIMEOUT_S)
        assert_numbers(read_committed(bootstrap, target, count * PARTITIONS), count)
        return_line = said[-1]
        assert return_line.startswith("rolled back "), said[-5:]
        if disturb is undisturbed:
            assert return_line == "rolled back 0"
    finally:
        process.kill()
