"""A node's endpoint for metrics and health, as a scraper and a load balancer use it."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.openmetrics import parser

from barnabas.cli.local.free_ports import HOST, FreePorts
from barnabas.monitoring.table import metrics
from tests.process.launch import PATIENCE_S, Up, barnabas, wait_until
from tests.process.test_node import format_storage, write_properties

pytestmark = pytest.mark.process
families_of: Any = parser.text_string_to_metric_families


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    started = Up(tmp_path_factory.mktemp("monitored"), "--nodes", "3")
    try:
        started.wait_for_line("bootstrap: ")
        yield started
    finally:
        started.end()


def ask(up: Up, node: int, path: str, **headers: str) -> tuple[int, str]:
    address = next(entry["metrics"] for entry in up.state["nodes"] if entry["id"] == node)
    request = urllib.request.Request(f"{address}{path}", headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def why_not_ready(up: Up, node: int) -> dict[str, str]:
    """The checks that fail, with their reasons."""
    status, text = ask(up, node, "/health/ready")
    found: dict[str, Any] = json.loads(text)
    failing = {check["check"]: check["why"] for check in found["checks"] if not check["passes"]}
    assert (status == 200) is found["ready"] is (not failing)
    return failing


def scrape(up: Up, node: int) -> dict[str, Any]:
    """Families by their names."""
    _, text = ask(up, node, "/metrics", Accept="application/openmetrics-text")
    return {family.name: family for family in families_of(text)}


def replicas_of(families: dict[str, Any], topic: str) -> int:
    """How many replicas of a topic are on the node of the page."""
    family = families.get("kafka_log_log_size")
    samples = [] if family is None else family.samples
    return sum(sample.labels["topic"] == topic for sample in samples)


def run(up: Up, *command: str) -> None:
    done = barnabas(*command, "--data", str(up.data))
    assert done.returncode == 0, done.stderr


def test_every_metric_of_the_table_has_a_value(up: Up) -> None:
    run(up, "topics", "create", "seen", "--partitions", "3", "--replication-factor", "3")
    commit_behind(up, "seen", "readers", records=2)
    wait_until(lambda: replicas_of(scrape(up, 1), "seen") == 3, "no replica is on node 1")
    named = {
        name.removesuffix("_total") if metric.type == "counter" else name
        for metric in metrics().values()
        if not (name := metric.name).startswith("barnabas_security")
    }
    of_zookeeper = ("todelete", "leftout", "zookeeper_session")
    of_dead_letters = "deadletterqueue"  # there from a group's first dead letter on
    of_shares = "sharepartition"  # there while a share group has a partition in service
    left_out = (*of_zookeeper, of_dead_letters, of_shares)
    absent = {name for name in named if any(part in name for part in left_out)}
    found: set[str] = set()
    for node in (1, 2, 3):
        families = scrape(up, node)
        assert replicas_of(families, "seen") == 3
        found |= set(families)
    assert found == named - absent


def test_each_partition_has_one_leader_in_all_pages_together(up: Up) -> None:
    pages = [scrape(up, node) for node in (1, 2, 3)]
    leaders = [
        (sample.labels["topic"], sample.labels["partition"])
        for page in pages
        if "kafka_topic_partition_leader" in page
        for sample in page["kafka_topic_partition_leader"].samples
        if sample.labels["topic"] == "seen"
    ]
    assert sorted(leaders) == [("seen", "0"), ("seen", "1"), ("seen", "2")]
    active = [
        page["kafka_controller_kafkacontroller_activecontrollercount"].samples[0].value
        for page in pages
    ]
    assert sum(active) == 1


def commit_behind(up: Up, topic: str, group: str, records: int) -> None:
    """A group without members whose offsets are before `records` records, in all partitions together."""
    lines = up.data / "lines"
    lines.write_text("line\n" * records)
    run(up, "produce", topic, str(lines))
    run(up, "groups", "reset-offsets", group, "-t", topic, "--to-earliest", "--execute")


def lag_of(up: Up, group: str, metric: str) -> dict[str, float]:
    """The values of one group by partition, over the pages of all nodes."""
    found: dict[str, float] = {}
    for node in (1, 2, 3):
        family = scrape(up, node).get(f"kafka_consumergroup_{metric}")
        for sample in [] if family is None else family.samples:
            if sample.labels["consumergroup"] == group:
                assert sample.labels["partition"] not in found
                found[sample.labels["partition"]] = sample.value
    return found


def test_a_group_without_members_has_a_lag_in_records_and_seconds(up: Up) -> None:
    run(up, "topics", "create", "read", "--partitions", "6", "--replication-factor", "3")
    began_s = time.time()
    commit_behind(up, "read", "spark", records=3)
    produced_s = time.time()
    wait_until(lambda: sum(lag_of(up, "spark", "lag").values()) == 3, "the lag is not 3")
    seconds = lag_of(up, "spark", "lag_seconds")
    assert sorted(seconds) == [str(index) for index in range(6)]
    behind = {index for index, records in lag_of(up, "spark", "lag").items() if records}
    now_s = time.time()
    for index, age_s in seconds.items():
        if index in behind:
            assert 0 < age_s <= now_s - began_s
        else:
            assert age_s == 0
    wait_until(
        lambda: max(lag_of(up, "spark", "lag_seconds").values()) > now_s - produced_s + 1,
        "the age does not grow",
    )
    run(up, "groups", "reset-offsets", "spark", "-t", "read", "--to-latest", "--execute")
    wait_until(lambda: not any(lag_of(up, "spark", "lag_seconds").values()), "it is not read")
    assert lag_of(up, "spark", "lag") == dict.fromkeys(seconds, 0)


def test_a_node_without_the_quorum_says_why_it_is_not_ready(up: Up) -> None:
    wait_until(
        lambda: not any(why_not_ready(up, node) for node in (1, 2, 3)), "some node is not ready"
    )
    assert ask(up, 1, "/health/live")[0] == 200
    killed = [entry["pid"] for entry in up.state["nodes"] if entry["id"] != 1]
    for pid in killed:
        os.kill(pid, signal.SIGKILL)
    wait_until(lambda: "quorum" in why_not_ready(up, 1), "it does not miss its quorum")
    wait_until(
        lambda: why_not_ready(up, 1)["quorum"] == "no leader of the metadata quorum is known",
        "it still leads",
    )
    assert ask(up, 1, "/health/live")[0] == 200


def test_the_endpoint_is_not_there_unless_it_is_configured() -> None:
    program = (
        "import sys, barnabas.node.node, barnabas.host.main;"
        "print([name for name in sys.modules if 'monitoring' in name or name == 'h11'])"
    )
    loaded = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert loaded.stdout.strip() == "[]"


def test_health_is_answered_while_logs_are_opened(tmp_path: Path) -> None:
    port = FreePorts().keep_or_take(None)
    address = f"http://{HOST}:{port}"
    file = write_properties(tmp_path, metrics_listeners=address)
    format_storage(file)
    gate, notices = tmp_path / "gate", tmp_path / "notices"
    manager = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    manager.bind(str(notices))
    manager.settimeout(PATIENCE_S)
    node = subprocess.Popen(
        [sys.executable, "-m", "tests.process.slow_opening", str(gate), str(file)],
        env={**os.environ, "NOTIFY_SOCKET": str(notices)},
    )
    try:
        wait_until(lambda: answer_of(f"{address}/health/live")[0] == 200, "it is not alive")
        status, text = answer_of(f"{address}/health/ready")
        assert status == 503 and "logs are being opened" in text
        assert "kafka_server_kafkaserver_brokerstate 1" in answer_of(f"{address}/metrics")[1]
        said: list[str] = []
        while "STATUS=the broker's logs are being opened" not in said:
            said += manager.recv(4096).decode().splitlines()
        assert "READY=1" not in said
        gate.touch()
        wait_until(lambda: answer_of(f"{address}/health/ready")[0] == 200, "it is not ready")
        while "READY=1" not in said:
            said += manager.recv(4096).decode().splitlines()
        node.send_signal(signal.SIGTERM)
        while "STOPPING=1" not in said:
            said += manager.recv(4096).decode().splitlines()
        assert node.wait(PATIENCE_S) == 0
    finally:
        node.kill()
        node.wait()
        manager.close()


def answer_of(url: str) -> tuple[int, str]:
    """Status and body; 0 where nothing listens."""
    try:
        with urllib.request.urlopen(url, timeout=10) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()
    except OSError:
        return 0, ""
