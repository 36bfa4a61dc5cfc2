"""kazoo is an extra: a node without ZooKeeper does not load it, and one with it says what to install."""

from __future__ import annotations

import subprocess
import sys

import pytest

START = "import sys; import barnabas.host.main, barnabas.host.ports; "
NO_KAZOO = """
sys.modules["kazoo"] = None
from barnabas.host.loop import Loop
from barnabas.host.zookeeper.ports import ZookeeperPorts
from barnabas.zookeeper.session import MissingLibrary
try:
    ZookeeperPorts(Loop(), None).zookeeper
except MissingLibrary as missing:
    print(missing)
"""


def _run(program: str) -> str:
    run = subprocess.run(
        [sys.executable, "-c", START + program], check=False, capture_output=True, text=True
    )
    assert run.returncode == 0, run.stderr
    return run.stdout.strip()


@pytest.mark.slow
def test_a_node_without_zookeeper_does_not_load_kazoo() -> None:
    assert _run("print([name for name in sys.modules if 'kazoo' in name])") == "[]"


@pytest.mark.slow
def test_missing_kazoo_is_one_sentence_that_says_what_to_install() -> None:
    said = _run("\n" + NO_KAZOO)
    assert said == "zookeeper.connect needs the package kazoo: pip install 'barnabas[zookeeper]'"


@pytest.mark.slow
def test_a_znode_without_data_has_none_on_the_wire() -> None:
    # Empty data is no JSON: a broker of Kafka before 3.0 ended at /latest_producer_id_block.
    told = "from barnabas.host.zookeeper.wire import to_kazoo; "
    told += "from barnabas.zookeeper.operations import Create, SetData; "
    for request in ("Create('/a', b'')", "SetData('/a', b'')"):
        data = _run(told + f"print(to_kazoo({request}).serialize()[6:10].hex())")
        assert data == "ffffffff"
