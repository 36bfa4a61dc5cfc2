"""`barnabas.testing.Cluster` leaves nothing behind, and believes no process too early."""

from __future__ import annotations

import json
import platform
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from barnabas.client.feature_levels import describe_features
from barnabas.host.client import connect
from barnabas.metadata.features import METADATA_VERSION, SHARE_VERSION
from barnabas.testing.cluster import Cluster, ClusterError
from barnabas.wire.errors import KafkaError
from tests.process.launch import await_nothing, wait_until

pytestmark = [pytest.mark.process, pytest.mark.slow]

EXIT = {"x86_64": 60, "aarch64": 93}
"""Number of the system call that ends one thread, by machine."""
FIRST_THREAD_ENDS = """
import ctypes, sys, threading
threading.Thread(target=sys.stdin.read).start()
ctypes.CDLL(None).syscall(int(sys.argv[1]), 0)
"""


def test_a_cluster_that_does_not_start_leaves_nothing(tmp_path: Path) -> None:
    cluster = Cluster(1, start_timeout_s=0.0)
    with pytest.raises(ClusterError, match=r"waited 0\.0 s for the cluster to take writes"):
        cluster.start()
    assert cluster._up is not None and cluster._up.poll() is not None
    assert not cluster.directory.exists()


def test_output_of_an_earlier_run_is_not_taken_for_this_ones(tmp_path: Path) -> None:
    (tmp_path / "up.log").write_text("bootstrap: 127.0.0.1:9\n")
    with pytest.raises(ClusterError, match="waited"):
        Cluster(1, directory=tmp_path, start_timeout_s=0.0).start()


@pytest.mark.skipif(platform.machine() not in EXIT, reason="this machine's calls are not known")
def test_topics_of_coordinators_are_made_where_that_is_wanted() -> None:
    with Cluster(1, coordinators=True) as cluster, connect(cluster.bootstrap) as client:

        def is_there(name: str) -> bool:
            try:
                return bool(client.topic(name).partitions)
            except KafkaError:
                return False

        for name in ("__consumer_offsets", "__transaction_state"):
            wait_until(lambda name=name: is_there(name), name)  # type: ignore[misc]


def test_a_node_lives_as_long_as_any_of_its_threads(tmp_path: Path) -> None:
    command = [sys.executable, "-c", FIRST_THREAD_ENDS, str(EXIT[platform.machine()])]
    node = subprocess.Popen(command, stdin=subprocess.PIPE)
    cluster = Cluster(1, directory=tmp_path)
    state = {"nodes": [{"id": 1, "pid": node.pid}]}
    (tmp_path / "cluster").mkdir()
    (tmp_path / "cluster/cluster.json").write_text(json.dumps(state))

    def first_thread_has_ended() -> bool:
        return ") Z " in Path(f"/proc/{node.pid}/stat").read_text()

    try:
        wait_until(first_thread_has_ended, "its first thread has ended")
        assert cluster.is_alive(1)
        node.kill()
        wait_until(lambda: not cluster.is_alive(1), "it has ended")
    finally:
        node.kill()
        node.communicate()


def levels_of(cluster: Cluster) -> tuple[int, int]:
    """Of metadata.version and share.version."""
    with connect(cluster.bootstrap) as client:
        found = client.call(describe_features(client.client)).features
    return found[METADATA_VERSION].level, found[SHARE_VERSION].level


def test_a_cluster_begins_at_a_release_and_keeps_it(tmp_path: Path) -> None:
    cluster = Cluster(1, directory=tmp_path, release="4.3", features={SHARE_VERSION: 0})
    for _ in range(2):
        with cluster:
            assert levels_of(cluster) == (30, 0)
    up = [sys.executable, "-m", "barnabas", "up", "--data", str(tmp_path / "cluster")]
    again = subprocess.run([*up, "--release", "4.4"], capture_output=True, text=True, check=False)
    assert again.returncode == 2
    assert again.stderr.startswith("levels are for a new cluster")


class Piped:
    """One ``python -m barnabas.testing``."""

    def __init__(self, *arguments: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "barnabas.testing", *arguments], text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip

    def line(self) -> dict[str, Any]:
        assert self.process.stdout is not None and self.process.stderr is not None
        said = self.process.stdout.readline()
        assert said, self.process.stderr.read()
        return dict(json.loads(said))

    def tell(self, command: str) -> dict[str, Any]:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{command}\n")
        self.process.stdin.flush()
        return self.line()

    def close(self) -> None:
        """End its standard input."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.stdin = None

    def end(self) -> None:
        self.process.kill()
        self.process.communicate()


@pytest.fixture
def piped() -> Iterator[Callable[..., Piped]]:
    started: list[Piped] = []

    def start(*arguments: str) -> Piped:
        started.append(Piped(*arguments))
        return started[-1]

    yield start
    for one in started:
        one.end()


def test_a_test_in_another_language_starts_kills_and_ends_a_cluster(
    piped: Callable[..., Piped],
) -> None:
    program = piped("--faults", "--set", "num.partitions=3")
    said = program.line()
    assert said["nodes"] == [1] and said["client"] == {} and list(said["controls"]) == ["1"]
    with connect(said["bootstrap"]) as client:
        client.create_topic("t")
        assert len(client.topic("t").partitions) == 3
    command = {"token": said["token"], "do": "clock", "ms": 5}
    with socket.create_connection(("127.0.0.1", said["controls"]["1"])) as control:
        control.sendall(json.dumps(command).encode() + b"\n")
        assert json.loads(control.makefile().readline()) == {"ok": 5}
    assert program.tell("kill 1") == {"ok": "kill 1"}
    assert program.tell("restart 1") == {"ok": "restart 1"}
    assert program.tell("kill 2") == {"error": "there is no node 2"}
    assert "a command is one of kill, pause" in program.tell("explode")["error"]
    program.close()
    assert program.process.wait(30) == 0
    await_nothing(Path(said["directory"]))


def test_a_signal_ends_a_cluster_of_pipes(piped: Callable[..., Piped]) -> None:
    program = piped()
    directory = Path(program.line()["directory"])
    program.process.terminate()
    assert program.process.wait(30) == 0
    await_nothing(directory)


def test_a_wrong_option_of_the_program_is_a_sentence(piped: Callable[..., Piped]) -> None:
    program = piped("--set", "nothing")
    _, said = program.process.communicate(timeout=30)
    assert program.process.returncode == 2
    assert "--set takes KEY=VALUE, not 'nothing'" in said
