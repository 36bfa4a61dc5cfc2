"""Debian's Prometheus scrapes a cluster under load: every query of our boards has a value, its tool accepts
our rules, and the lag in seconds is that of a group which reads at a known distance."""

from __future__ import annotations

import json
import subprocess
import threading
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest
from confluent_kafka import admin

from barnabas.cli.local.free_ports import HOST, FreePorts
from barnabas.monitoring.boards.alerts import rules_text
from barnabas.monitoring.boards.boards import BOARDS
from barnabas.monitoring.boards.panels import queries_of
from barnabas.testing.cluster import Cluster
from tests.foreign_boards import BOARDS as FOREIGN_BOARDS
from tests.process.launch import barnabas

pytestmark = [
    pytest.mark.interop,
    pytest.mark.long,
    pytest.mark.peers("prometheus"),
    pytest.mark.timeout(400),
]
PATIENCE_S = 120.0
TOPIC, GROUP, PARTITIONS = "orders", "spark-orders", 3
RATE_PER_S = 60
BEHIND_S = 6.0
"""The age of the first record that the group has not committed."""
TOLERANCE_S = 1.0
SERVICE_UNAVAILABLE = 503
"""Prometheus answers this while it reads its own log."""


class Load(threading.Thread):
    """Writes at a known rate, in transactions as well, and commits what is older than `BEHIND_S`."""

    def __init__(self, bootstrap: str) -> None:
        super().__init__(daemon=True)
        self.bootstrap = bootstrap
        self.ended = threading.Event()
        self.failures: list[str] = []
        self.written: dict[int, list[float]] = {index: [] for index in range(PARTITIONS)}
        """The timestamp of each record (seconds), by partition."""
        self.between_commits_s = 0.0
        """The longest time from the moment that one commit speaks of to the end of the next."""
        self.committed_at_s = time.time()
        client = {"bootstrap.servers": bootstrap, "log_level": 0}
        self.producer = confluent_kafka.Producer({**client, "linger.ms": 0, "acks": "all"})
        self.transactional = confluent_kafka.Producer({**client, "transactional.id": "t"})
        self.reader = confluent_kafka.Consumer({**client, "group.id": GROUP})
        self.member = confluent_kafka.Consumer(
            {**client, "group.id": "members", "auto.offset.reset": "earliest"}
        )

    def run(self) -> None:
        self.transactional.init_transactions()
        self.member.subscribe([TOPIC])
        number = 0
        while not self.ended.is_set():
            self.write(number)
            number += 1
            if number % RATE_PER_S == 0:
                self.commit_transaction()
                self.commit()
            self.member.poll(0)
            self.ended.wait(1 / RATE_PER_S)
        self.producer.flush()
        self.member.close()
        self.reader.close()

    def write(self, number: int) -> None:
        partition, now_s = number % PARTITIONS, time.time()
        self.producer.produce(
            TOPIC,
            b"v" * 100,
            partition=partition,
            timestamp=int(now_s * 1000),
            on_delivery=lambda error, _: self.failures.append(str(error)) if error else None,
        )
        self.producer.poll(0)
        self.written[partition].append(now_s)

    def commit_transaction(self) -> None:
        self.transactional.begin_transaction()
        self.transactional.produce("paid", b"v")
        self.transactional.commit_transaction()

    def commit(self) -> None:
        """Without members, as a query of Spark does."""
        now_s = time.time()
        limit_s = now_s - BEHIND_S
        places = [
            confluent_kafka.TopicPartition(TOPIC, index, sum(at <= limit_s for at in written))
            for index, written in self.written.items()
        ]
        self.reader.commit(offsets=places, asynchronous=False)
        self.between_commits_s = max(self.between_commits_s, time.time() - self.committed_at_s)
        self.committed_at_s = now_s

    def stop(self) -> None:
        self.ended.set()
        self.join(30)


class Prometheus:
    """A server that scrapes each node once a second."""

    def __init__(self, cluster: Cluster, directory: Path) -> None:
        port = FreePorts().keep_or_take(None)
        self.address = f"http://{HOST}:{port}"
        targets = [
            cluster.node(node)["metrics"].removeprefix("http://") for node in cluster.node_ids
        ]
        rules = directory / "rules.yml"
        rules.write_text(rules_text())
        config = {
            "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
            "rule_files": [str(rules)],
            "scrape_configs": [{"job_name": "barnabas", "static_configs": [{"targets": targets}]}],
        }
        file = directory / "prometheus.yml"
        file.write_text(json.dumps(config))
        self.log = (directory / "prometheus.log").open("wb")
        self.process = subprocess.Popen(
            [
                "prometheus",
                f"--config.file={file}",
                f"--storage.tsdb.path={directory / 'tsdb'}",
                f"--web.listen-address={HOST}:{port}",
            ],
            stdout=self.log,
            stderr=self.log,
        )

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait(30)
        self.log.close()

    def ask(self, query: str) -> list[dict[str, Any]]:
        """The series of an instant query; none while the server starts."""
        url = f"{self.address}/api/v1/query?{urllib.parse.urlencode({'query': query})}"
        try:
            with urllib.request.urlopen(url, timeout=30) as answer:
                found: list[dict[str, Any]] = json.loads(answer.read())["data"]["result"]
                return found
        except urllib.error.HTTPError as error:
            if error.code == SERVICE_UNAVAILABLE:
                return []
            raise AssertionError(f"{query}: {error.read().decode()}") from error
        except OSError:
            return []

    def wait_for(self, query: str) -> list[dict[str, Any]]:
        deadline = time.monotonic() + PATIENCE_S
        while not (found := self.ask(query)):
            assert time.monotonic() < deadline, f"{query} has no value"
            time.sleep(0.2)
        return found


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(nodes=3, settings={"group.initial.rebalance.delay.ms": "0"}) as cluster:
        client = admin.AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
        topics = [admin.NewTopic(topic, PARTITIONS, 3) for topic in (TOPIC, "paid")]
        for created in client.create_topics(topics, request_timeout=PATIENCE_S).values():
            created.result(PATIENCE_S)
        yield cluster


@pytest.fixture(scope="module")
def load(cluster: Cluster) -> Iterator[Load]:
    load = Load(cluster.bootstrap)
    load.start()
    yield load
    load.stop()
    assert not load.failures


@pytest.fixture(scope="module")
def prometheus(
    cluster: Cluster, load: Load, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Prometheus]:
    server = Prometheus(cluster, tmp_path_factory.mktemp("prometheus"))
    yield server
    server.stop()


def test_every_query_of_our_boards_has_a_value(prometheus: Prometheus) -> None:
    for board in BOARDS:
        for query in queries_of(board):
            prometheus.wait_for(query.replace("$topic", ".*").replace("$group", ".*"))


@pytest.mark.parametrize("board", FOREIGN_BOARDS)
def test_every_metric_of_a_board_made_for_kafka_has_a_value(
    prometheus: Prometheus, board: str
) -> None:
    for name in sorted(FOREIGN_BOARDS[board]):
        prometheus.wait_for(name)


def test_lag_in_seconds_is_the_distance_of_the_reader(prometheus: Prometheus, load: Load) -> None:
    series = f'kafka_consumergroup_lag_seconds{{consumergroup="{GROUP}"}}'
    prometheus.wait_for(f"min({series}) > {BEHIND_S - TOLERANCE_S}")
    samples: list[float] = []
    for _ in range(20):
        samples += [float(found["value"][1]) for found in prometheus.ask(series)]
        time.sleep(0.25)
    # The distance grows from one commit to the next: by a second, or more on a busy machine.
    grown_s = max(load.between_commits_s, 1.0)
    assert len(samples) > PARTITIONS
    assert min(samples) > BEHIND_S - TOLERANCE_S
    assert max(samples) < BEHIND_S + 1 / RATE_PER_S * PARTITIONS + grown_s + TOLERANCE_S
    records = prometheus.ask(f'sum(kafka_consumergroup_lag{{consumergroup="{GROUP}"}})')
    assert float(records[0]["value"][1]) > 0


def test_promtool_accepts_the_text_and_the_rules(cluster: Cluster, tmp_path: Path) -> None:
    written = barnabas("dashboards", "write", str(tmp_path), timeout_s=PATIENCE_S)
    assert written.returncode == 0, written.stderr
    rules = str(tmp_path / "barnabas.rules.yml")
    run_promtool("rules", rules)
    with urllib.request.urlopen(f"{cluster.node(1)['metrics']}/metrics", timeout=30) as answer:
        text = answer.read()
    said = run_promtool("metrics", text=text.decode())
    assert "error" not in said.lower(), said


def run_promtool(*words: str, text: str = "") -> str:
    """What it prints of a check. It ends with 3 where it only has advice about names, which are Kafka's."""
    command = ["promtool", "check", *words]
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
    assert done.returncode in ((0, 3) if text else (0,)), done.stderr + done.stdout
    return done.stdout + done.stderr


def test_no_critical_rule_fires_while_all_is_well(prometheus: Prometheus) -> None:
    prometheus.wait_for("up == 1")
    firing = prometheus.ask('ALERTS{severity="critical",alertstate="firing"}')
    assert not firing
