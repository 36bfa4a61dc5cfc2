"""kafka-python's own integration tests, as its source distribution has them, against our broker.

`make peers` fetches the distribution. The suite uses a broker that runs already (``KAFKA_URI``) and the
installed library. The distribution lacks the module by which the suite starts brokers; `SERVICE` replaces it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from pathlib import Path

import pytest

from barnabas.config.coordination import STANDARD_AUTHORIZER
from barnabas.testing.cluster import Cluster
from tests import peers

pytestmark = [
    pytest.mark.process,
    pytest.mark.slow,
    pytest.mark.peers("kafka-python-source"),
    pytest.mark.timeout(400),
]
FOLDER = "test/integration"
LEFT_OUT = {
    "test_sasl_integration.py": "starts brokers itself, with Kafka's scripts; test_secured has SASL",
    "test_ssl_integration.py": "starts brokers itself, with Kafka's scripts; test_secured has TLS",
    "test_admin_integration.py::test_create_partitions": "places replicas on broker 0; ours begin at 1",
    "test_admin_integration.py::test_alter_replica_log_dirs": "moves a replica of broker 0; ours begin at 1",
    "test_consumer_integration.py::test_kafka_consumer_offsets_for_time_old": "for brokers before 0.10.1",
}
"""Tests that are not run, and why."""
SETTINGS = {
    "num.partitions": "4",
    "group.initial.rebalance.delay.ms": "200",
    "group.min.session.timeout.ms": "3000",
    "authorizer.class.name": STANDARD_AUTHORIZER,
    "super.users": "User:ANONYMOUS",
}
SERVICE = """
class SpawnedService:
    def __init__(self, *given, **named):
        raise NotImplementedError("brokers are started outside")


class ExternalService:
    def __init__(self, host, port):
        self.host, self.port = host, port

    def dump_logs(self):
        pass

    def stop(self):
        pass
"""


@pytest.fixture
def suite(tmp_path: Path) -> Path:
    """The unpacked distribution, without the library itself."""
    source = peers.kafka_python_source()
    assert source is not None
    with tarfile.open(source) as archive:
        archive.extractall(tmp_path, filter="data")
    [root] = tmp_path.iterdir()
    shutil.rmtree(root / "kafka")
    (root / "test/service.py").write_text(SERVICE)
    (root / "test/__init__.py").touch()
    (root / "no-kafka").mkdir()
    return root


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster(
        nodes=1, settings=SETTINGS
    ) as cluster:  # one poll has to bring all partitions' records
        yield cluster


def test_kafka_pythons_own_integration_tests_pass(suite: Path, cluster: Cluster) -> None:
    first = cluster.bootstrap.split(",")[0]
    environment = {
        **os.environ,
        "KAFKA_URI": f"kafka://{first}",
        "KAFKA_VERSION": ".".join(peers.KAFKA_VERSION.split(".")[:2]),
        "KAFKA_ROOT": str(suite / "no-kafka"),
    }
    results = suite / "results.xml"
    out = [word for name in LEFT_OUT for word in ("--deselect", f"{FOLDER}/{name}")]
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-rs",
        "-p",
        "no:cacheprovider",
        "-o",
        "addopts=",
    ]
    done = subprocess.run(
        [*command, "-o", "log_level=WARNING", FOLDER, *out, f"--junitxml={results}"],
        cwd=suite, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-10_000:]
    cases = list(ET.parse(results).getroot().iter("testcase"))
    skipped = [case.get("name") for case in cases if case.find("skipped") is not None]
    assert not skipped, "a test that does not run is listed in LEFT_OUT with its reason"
    assert len(cases) >= 50
