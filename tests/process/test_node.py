"""``barnabas node start`` and ``barnabas storage``: what cannot work is one sentence."""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

from barnabas.cli.local.free_ports import HOST, FreePorts
from barnabas.config.properties import format_properties, parse_properties
from tests.process.launch import barnabas, wait_until

pytestmark = [pytest.mark.process, pytest.mark.slow]

CLUSTER_ID = "4L6g3nShT-eMCtK--X86sw"


def write_properties(home: Path, node_id: int = 1, **changes: str) -> Path:
    ports = FreePorts()
    client, controller = ports.keep_or_take(None), ports.keep_or_take(None)
    values = {
        "process.roles": "broker,controller",
        "node.id": str(node_id),
        "listeners": f"PLAINTEXT://{HOST}:{client},CONTROLLER://{HOST}:{controller}",
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.voters": f"{node_id}@{HOST}:{controller}",
        "log.dirs": str(home / "data"),
        "offsets.topic.replication.factor": "1",
    }
    values.update({name.replace("_", "."): value for name, value in changes.items()})
    file = home / f"server-{node_id}.properties"
    file.write_text(format_properties(values))
    return file


def format_storage(file: Path, cluster_id: str = CLUSTER_ID) -> None:
    result = barnabas("storage", "format", str(file), "--cluster-id", cluster_id)
    assert result.returncode == 0, result.stderr


def refused(file: Path) -> str:
    """The sentence with which a node does not start."""
    result = barnabas("node", "start", str(file))
    assert result.returncode == 1, result.stderr
    return result.stderr.rstrip("\n").splitlines()[-1]


def test_format_writes_what_info_shows_and_refuses_to_do_it_twice(tmp_path: Path) -> None:
    file = write_properties(tmp_path)
    before = barnabas("storage", "info", str(file))
    assert (before.returncode, before.stdout) == (1, f"{tmp_path}/data is not formatted\n")
    format_storage(file)
    assert (tmp_path / "data" / "bootstrap.checkpoint").exists()
    shown = json.loads(barnabas("storage", "info", str(file), "--json").stdout)
    directory = shown["directories"][f"{tmp_path}/data"]
    assert (directory["cluster.id"], directory["node.id"]) == (CLUSTER_ID, 1)
    assert len(directory["directory.id"]) == 22
    twice = barnabas("storage", "format", str(file), "--cluster-id", CLUSTER_ID)
    assert twice.returncode == 1
    assert twice.stderr.startswith(f"{tmp_path}/data is formatted already")
    kept = barnabas(
        "storage", "format", str(file), "--cluster-id", CLUSTER_ID, "--ignore-formatted"
    )
    assert kept.returncode == 0


def test_another_cluster_or_level_is_refused(tmp_path: Path) -> None:
    file = write_properties(tmp_path)
    wrong = barnabas(
        "storage", "format", str(file), "--cluster-id", CLUSTER_ID, "--feature", "no.such=1"
    )
    assert wrong.returncode == 1
    assert "unknown feature no.such" in wrong.stderr
    format_storage(file)
    other = barnabas("storage", "format", str(file), "--cluster-id", "other", "--ignore-formatted")
    assert other.returncode == 1
    assert "belongs to node 1 of cluster 4L6g3nShT-eMCtK--X86sw" in other.stderr


def test_random_uuids_differ_and_are_no_options() -> None:
    texts = {barnabas("storage", "random-uuid").stdout.strip() for _ in range(2)}
    assert len(texts) == 2
    assert all(len(text) == 22 and not text.startswith("-") for text in texts)


@pytest.mark.usefixtures("hears_hangups")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_node_runs_until_it_is_terminated(tmp_path: Path, number: signal.Signals) -> None:
    file = write_properties(tmp_path)
    format_storage(file)
    log = tmp_path / "log"
    with log.open("wb") as stderr:
        node = subprocess.Popen(
            [sys.executable, "-m", "barnabas", "node", "start", str(file)], stderr=stderr
        )
    try:
        wait_until(lambda: "node.started" in log.read_text(), "the node has started")
        node.send_signal(number)
        assert node.wait(10) == 0, log.read_text()
        assert "node.stopped" in log.read_text()
    finally:
        node.kill()
        node.wait()


def test_a_node_started_with_closed_standard_streams_opens_the_null_device(
    tmp_path: Path,
) -> None:
    file = write_properties(tmp_path)
    format_storage(file)
    command = [sys.executable, "-m", "barnabas", "node", "start", str(file)]
    closed = ["sh", "-c", 'exec "$@" <&- >&- 2>&-', "sh", *command]
    node = subprocess.Popen(closed)
    try:
        client = parse_properties(file.read_text())["listeners"].partition(",")[0]
        wait_until(lambda: _takes_connections(client), "the node has started")
        streams = {os.readlink(f"/proc/{node.pid}/fd/{number}") for number in range(3)}
        assert streams == {os.devnull}
        node.send_signal(signal.SIGTERM)
        assert node.wait(10) == 0
    finally:
        node.kill()
        node.wait()
    assert (tmp_path / "data/.lock").read_bytes() == b""


def _takes_connections(listener: str) -> bool:
    host, _, port = listener.partition("://")[2].rpartition(":")
    with socket.socket() as probe:
        return probe.connect_ex((host, int(port))) == 0


def test_a_second_node_on_the_same_directory(tmp_path: Path) -> None:
    file = write_properties(tmp_path)
    format_storage(file)
    log = tmp_path / "log"
    with log.open("wb") as stderr:
        node = subprocess.Popen(
            [sys.executable, "-m", "barnabas", "node", "start", str(file)], stderr=stderr
        )
    try:
        wait_until(lambda: "node.started" in log.read_text(), "the node has started")
        again = write_properties(tmp_path)  # other ports
        assert refused(again).startswith(f"{tmp_path}/data: another process has it")
    finally:
        node.kill()
        node.wait()


@pytest.mark.parametrize("listener", ["PLAINTEXT", "CONTROLLER"])
def test_a_port_in_use(tmp_path: Path, listener: str) -> None:
    with socket.socket() as thief:
        thief.bind((HOST, 0))
        thief.listen()
        taken = thief.getsockname()[1]
        other = FreePorts().keep_or_take(None)
        client, controller = (taken, other) if listener == "PLAINTEXT" else (other, taken)
        file = write_properties(
            tmp_path,
            listeners=f"PLAINTEXT://{HOST}:{client},CONTROLLER://{HOST}:{controller}",
            controller_quorum_voters=f"1@{HOST}:{controller}",
        )
        format_storage(file)
        assert refused(file) == f"port {taken} of {HOST} is already in use"


def test_a_directory_that_is_not_formatted(tmp_path: Path) -> None:
    file = write_properties(tmp_path)
    assert refused(file).startswith(f"{tmp_path}/data is not formatted")


def test_a_directory_of_another_node(tmp_path: Path) -> None:
    format_storage(write_properties(tmp_path, 1))
    assert refused(write_properties(tmp_path, 2)) == (
        f"{tmp_path}/data belongs to node 1, but node.id is 2"
    )


@pytest.mark.parametrize("content", [b"", b"{", b"\xff\xfe"])
def test_a_vote_that_cannot_be_read(tmp_path: Path, content: bytes) -> None:
    file = write_properties(tmp_path)
    format_storage(file)
    state = tmp_path / "data/__cluster_metadata-0/quorum-state"
    state.parent.mkdir(exist_ok=True)
    state.write_bytes(content)
    result = barnabas("node", "start", str(file))
    assert result.returncode == 1
    assert result.stderr.startswith(f"{state}: it cannot be read")
    assert result.stderr.count("\n") == 1


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    file = tmp_path / "none.properties"
    assert refused(file) == f"{file} cannot be read: No such file or directory"


def test_a_value_that_is_not_allowed(tmp_path: Path) -> None:
    file = write_properties(tmp_path, num_partitions="0")
    assert refused(file) == f"{file}: num.partitions: '0' is not allowed; it must be at least 1"


def test_a_log_level_that_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BARNABAS_LOG_LEVEL", "loud")
    file = write_properties(tmp_path)
    format_storage(file)
    assert refused(file) == (
        "BARNABAS_LOG_LEVEL: a log level is debug, info, warning, error, not 'loud'"
    )


RULES = """
from barnabas.policy import NewTopic, PolicyViolation

class Small:
    def configure(self, properties: dict[str, str]) -> None:
        self.most = int(properties["our.partitions.max"])

    def validate(self, request: NewTopic) -> None:
        if (request.partitions or 0) > self.most:
            raise PolicyViolation(f"{request.name}: at most {self.most} partitions")
"""


def test_a_policy_of_the_operators_own_refuses_topics(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = write_properties(
        tmp_path, create_topic_policy_class_name="rules:Small", our_partitions_max="3"
    )
    format_storage(file)
    sentence = refused(file)
    assert sentence == (
        "create.topic.policy.class.name: 'rules:Small' is not allowed; it cannot be loaded"
        " (ModuleNotFoundError: No module named 'rules')"
    )
    (tmp_path / "rules.py").write_text(RULES)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    bootstrap = str(parse_properties(file.read_text())["listeners"]).partition(",")[0][12:]
    log = tmp_path / "log"
    with log.open("wb") as stderr:
        command = [sys.executable, "-m", "barnabas", "node", "start", str(file)]
        node = subprocess.Popen(command, stderr=stderr)
    try:
        wait_until(lambda: _says(log, "broker.unfenced"), "the node takes writes")
        many = barnabas("topics", "create", "t", "-p", "4", "--bootstrap", bootstrap)
        assert many.returncode == 1 and "t: at most 3 partitions" in many.stderr
        few = barnabas("topics", "create", "t", "-p", "3", "--bootstrap", bootstrap)
        assert few.returncode == 0, few.stderr
    finally:
        node.kill()
        node.wait()


def _says(log: Path, event: str) -> bool:
    return event in log.read_text()


def test_two_brokers_with_one_id_and_the_second_says_so_rarely(tmp_path: Path) -> None:
    controller = write_properties(tmp_path)
    format_storage(controller)
    voters = parse_properties(controller.read_text())["controller.quorum.voters"]
    files = [controller]
    for name in ("first", "second"):
        home = tmp_path / name
        home.mkdir()
        listener = f"PLAINTEXT://{HOST}:{FreePorts().keep_or_take(None)}"
        changes = {"process_roles": "broker", "listeners": listener}
        files.append(write_properties(home, 9, **changes, controller_quorum_voters=voters))
        format_storage(files[-1])
    logs = [tmp_path / f"log-{number}" for number in range(3)]
    nodes = []
    try:
        for file, log, event in zip(
            files, logs, ("broker.unfenced", "broker.unfenced", "refused"), strict=True
        ):
            with log.open("wb") as stderr:
                command = [sys.executable, "-m", "barnabas", "node", "start", str(file)]
                nodes.append(subprocess.Popen(command, stderr=stderr))
            wait_until(partial(_says, log, event), event)
        select.select([], [], [], 1.5)  # fifteen refusals later
        assert logs[2].read_text().count("DUPLICATE_BROKER_REGISTRATION") == 1
        assert [node.poll() for node in nodes] == [None] * 3
    finally:
        for node in nodes:
            node.kill()
            node.wait()


def test_a_node_with_few_descriptors_lives_with_many_partitions(tmp_path: Path) -> None:
    file = write_properties(tmp_path)
    format_storage(file)
    bootstrap = str(parse_properties(file.read_text())["listeners"]).partition(",")[0][12:]
    log = tmp_path / "log"

    with log.open("wb") as stderr:
        command = [sys.executable, "-m", "barnabas", "node", "start", str(file)]
        limited = ["sh", "-c", 'ulimit -n 150; exec "$@"', "sh", *command]
        node = subprocess.Popen(limited, stderr=stderr)
    try:
        wait_until(lambda: "broker.unfenced" in log.read_text(), "the node takes writes")
        created = barnabas("topics", "create", "t", "-p", "300", "--bootstrap", bootstrap)
        assert created.returncode == 0, created.stderr + log.read_text()
        lines = tmp_path / "lines"
        lines.write_text("".join(f"{number}\n" for number in range(3000)))
        written = barnabas("produce", "t", str(lines), "--bootstrap", bootstrap)
        assert written.returncode == 0, written.stderr + log.read_text()
        read = barnabas("consume", "t", "--exit", "--bootstrap", bootstrap)
        assert len(read.stdout.split()) == 3000, read.stderr + log.read_text()
        assert node.poll() is None
    finally:
        node.kill()
        node.wait()


@pytest.mark.parametrize("input_ends", ["while it starts", "once it runs"])
def test_a_node_ends_with_its_standard_input_where_it_is_asked_to(
    input_ends: str, tmp_path: Path
) -> None:
    file = write_properties(tmp_path)
    format_storage(file)
    with (tmp_path / "said").open("wb") as said:
        node = subprocess.Popen(
            [sys.executable, "-m", "barnabas", "node", "start", "--end-with-input", str(file)],
            stdin=subprocess.PIPE,
            stderr=said,
        )
    assert node.stdin is not None
    if input_ends == "once it runs":
        wait_until(lambda: b"node.started" in (tmp_path / "said").read_bytes(), "a node that runs")
    node.stdin.close()
    assert node.wait(60) == 0
    assert b"node.stopped" in (tmp_path / "said").read_bytes()
