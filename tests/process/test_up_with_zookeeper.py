"""`barnabas up --coordination zookeeper`: with a ZooKeeper that runs already, and where Java is missing."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from kazoo.client import KazooClient

from tests.process.ensembles import ensemble
from tests.process.launch import Up, barnabas

pytestmark = [pytest.mark.process, pytest.mark.slow, pytest.mark.long, pytest.mark.interop]


@pytest.mark.timeout(120)
def test_a_zookeeper_that_runs_is_used_below_its_chroot(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with ensemble(tmp_path) as servers:
        at = f"{servers.connect}/some/chroot"  # which is not there yet
        for _ in range(2):  # the directory remembers where its ZooKeeper is
            started = Up(data, "--coordination", "zookeeper", "--zookeeper", at)
            try:
                bootstrap = started.wait_for_line("bootstrap: ").split()[1]
                created = barnabas("topics", "create", "t", "--if-not-exists", "-b", bootstrap)
                assert created.returncode == 0, created.stderr
                client = KazooClient(hosts=servers.connect)
                client.start()
                assert client.get_children("/some/chroot/brokers/ids") == ["1", "2", "3"]
                assert client.exists("/some/chroot/brokers/topics/t") is not None
                assert client.exists("/brokers") is None
                client.stop()
                client.close()
                assert not list(data.glob("zookeeper*"))  # no server of its own
            finally:
                started.end()


@pytest.mark.timeout(60)
def test_missing_java_is_said_in_one_sentence(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "barnabas", "up", "--zookeeper-server", "apache"]
    without = {**os.environ, "JAVA_HOME": str(tmp_path / "none")}
    done = subprocess.run(
        [*command, "--data", str(tmp_path / "data")],
        capture_output=True, text=True, check=False, timeout=50, env=without,
    )  # fmt: skip
    assert done.returncode != 0
    assert "needs Java, and none is found" in done.stderr
    assert "--zookeeper host:port" in done.stderr
    assert "Traceback" not in done.stderr
    assert len(done.stderr.strip().splitlines()) <= 3
