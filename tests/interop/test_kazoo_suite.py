"""kazoo's own tests, as its package has them, against three of our ZooKeeper servers."""

from __future__ import annotations

import os
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

pytestmark = [
    pytest.mark.process,
    pytest.mark.slow,
    pytest.mark.long,
    pytest.mark.timeout(900),
]
LEFT_OUT = {
    "test_build.py": "is about kazoo's own builds",
    "test_sasl.py": "SASL is refused (divergence 271)",
    "test_eventlet_handler.py": "is about a library that is not here",
    "test_gevent_handler.py": "is about a library that is not here",
    "test_utils.py::TestCreateTCPConnection::test_timeout_arg_eventlet": "as above",
    "test_client.py::TestSSLClient": "TLS is refused (divergence 271)",
    "test_client.py::TestReconfig": "the ensemble does not change while it runs (divergence 275)",
    "test_connection.py::TestReadOnlyMode": "there are no read-only servers (divergence 275)",
}
"""Tests that are not run, and why."""
TESTS_MIN = 290


def test_kazoos_own_tests_pass(tmp_path: Path) -> None:
    results = tmp_path / "results.xml"
    environment = {**os.environ, "ZOOKEEPER_VERSION": "3.9.3"}
    out = [word for name in LEFT_OUT for word in ("--deselect", f"kazoo/tests/{name}")]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-rs", "-p", "tests.interop.kazoo_servers",
         "-p", "no:cacheprovider", "-o", "addopts=", "-o", "log_level=ERROR", "--rootdir", str(site()),
         "--pyargs", "kazoo.tests", *out, f"--junitxml={results}"],
        cwd=Path(__file__).parents[2], env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-10_000:]
    cases = list(ET.parse(results).getroot().iter("testcase"))
    skipped = [case.get("name") for case in cases if case.find("skipped") is not None]
    assert not skipped, "a test that does not run is listed in LEFT_OUT with its reason"
    assert len(cases) >= TESTS_MIN


def site() -> Path:
    """Where the package is."""
    import kazoo

    return Path(kazoo.__file__).parents[1]
