"""Kafka Connect's file source with exactly-once support: one transaction after the other, without a pause."""

from __future__ import annotations

from pathlib import Path

import pytest

from barnabas.host.client import connect
from barnabas.testing.cluster import Cluster
from tests.clients.checks import fresh
from tests.clients.committed import read_committed
from tests.clients.connect_worker import ConnectWorker

pytestmark = [pytest.mark.process, pytest.mark.java, pytest.mark.peers("clients"), pytest.mark.slow]

LINES = 1_200
LINE = "line {:0110}"
"""The task reads 1,024 characters at a time and writes them in one transaction: nine of these lines."""
TIMEOUT_S = 180.0


def copy_file(bootstrap: str, folder: Path) -> None:
    """The source stays RUNNING through more than 100 transactions, and each line is committed once."""
    topic = fresh("lines")
    connected = connect(bootstrap)
    connected.create_topic(topic, 6, 3, {"min.insync.replicas": "2"})
    connected.close()
    lines = [LINE.format(number) for number in range(LINES)]
    source = folder / "lines.txt"
    source.write_text("".join(f"{line}\n" for line in lines))
    worker = ConnectWorker(bootstrap, folder, fresh("worker"))
    try:
        worker.start(
            "file",
            {
                "connector.class": "org.apache.kafka.connect.file.FileStreamSourceConnector",
                "tasks.max": "1",
                "file": str(source),
                "topic": topic,
                "exactly.once.support": "required",
                "transaction.boundary": "poll",
            },
        )
        read = read_committed(bootstrap, topic, LINES, lambda: worker.problem("file"), TIMEOUT_S)
        assert sorted(record.value.decode() for record in read) == sorted(lines)
        assert worker.states("file") == ["RUNNING", "RUNNING"]
    finally:
        worker.kill()


@pytest.mark.timeout(600)
def test_a_file_source_with_exactly_once_support_keeps_running(
    cluster: Cluster, tmp_path: Path
) -> None:
    copy_file(cluster.bootstrap, tmp_path)
