"""`barnabas migrate` on znodes of a tree in memory and directories on disk: order, locks, refusals."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from barnabas.cli.commands import migrate, migrate_online
from barnabas.cli.connection import controller_directories
from barnabas.cli.connection.zookeeper_reader import read_znodes
from barnabas.cli.connection.zookeeper_writer import write_znodes
from barnabas.cli.failure import Failure
from barnabas.config.meta_properties import read_owner, zookeeper_owner_text
from barnabas.controller.migration_state import ZkMigrationState
from barnabas.host.disk import HostDisk
from barnabas.metadata.bootstrap_records import bootstrap_records
from barnabas.metadata.features import LATEST_METADATA_VERSION
from barnabas.metadata.image.codec import encode_records
from barnabas.metadata.records.zk_migration_state_record import ZkMigrationStateRecord
from barnabas.raft.bootstrap_snapshot import first_snapshot_path
from barnabas.record.builder import build_batch
from barnabas.wire.schema import Message
from barnabas.zookeeper.layout.cluster_state_znodes import CONTROLLER, MIGRATION
from barnabas.zookeeper.migration import claim
from barnabas.zookeeper.operations import Create, Multi, NodeData
from barnabas.zookeeper.znode_tree import ZnodeTree
from tests.json_shapes import assert_documented
from tests.unit.zookeeper.test_migration import CLUSTER, of, topic, topics_of

CLUSTER_ID = "J7s9e8PPTKOO47PxzI39VA"
OTHER_ID = "c3RvcmFnZS1mb3JtYXQtdA"
AT = "127.0.0.1:2181/kafka"
METADATA = "__cluster_metadata-0"
BROKER_1 = (
    b'{"version":5,"host":"h","port":9092,"jmx_port":-1,"timestamp":"1","endpoints":["PLAINTEXT://h:9092"],'
    b'"listener_security_protocol_map":{"PLAINTEXT":"PLAINTEXT"},"features":{}}'
)


class Znodes:
    """What the commands read and write, in place of an ensemble."""

    def __init__(self) -> None:
        self.tree = ZnodeTree()
        znodes = of(topic(), *CLUSTER)
        self._zxid = 0
        for path in sorted(znodes):
            self._apply(Create(path, znodes[path].data))

    def _apply(self, request: Create | Multi) -> object:
        self._zxid += 1
        return self.tree.apply(request, 0, self._zxid, 0).result

    def read(self, connect: str, *, as_json: bool = False) -> dict[str, NodeData]:
        found: dict[str, NodeData] = {}
        pending = ["/"]
        while pending:
            path = pending.pop()
            if path != "/":
                found[path] = self.tree.get(path)
            pending += [f"{path.rstrip('/')}/{name}" for name in self.tree.children(path).names]
        return found

    def write(self, connect: str, transactions: Sequence[Multi], *, as_json: bool = False) -> None:
        for transaction in transactions:
            answer = self._apply(transaction)
            assert isinstance(answer, tuple), answer

    def put(self, path: str, data: bytes) -> None:
        self._apply(Create(path, data))

    def claim(self) -> None:
        self.write(AT, [claim.take(self.read(AT), 1, 0, 0)[0]])


@pytest.fixture
def znodes(monkeypatch: pytest.MonkeyPatch) -> Znodes:
    made = Znodes()
    for module in (migrate, migrate_online):
        monkeypatch.setattr(module, "read_znodes", made.read)
        monkeypatch.setattr(module, "write_znodes", made.write)
    return made


class Node:
    """A stopped node that has been on ZooKeeper, with a file for KRaft."""

    def __init__(self, home: Path, node_id: int, roles: str, votes: str) -> None:
        self.directory = home / f"data-{node_id}"
        self.directory.mkdir(parents=True)
        self.file = home / f"{node_id}.properties"
        self.file.write_text(
            f"process.roles={roles}\nnode.id={node_id}\n{votes}\nlog.dirs={self.directory}\n"
            "listeners=CONTROLLER://127.0.0.1:9093"
            + (",PLAINTEXT://127.0.0.1:9092\n" if "broker" in roles else "\n")
            + "controller.listener.names=CONTROLLER\n"
        )
        self.meta = self.directory / "meta.properties"
        if "broker" in roles:
            self.meta.write_text(zookeeper_owner_text(CLUSTER_ID, node_id))

    def run(self, records: list[Message]) -> None:
        """Leave a metadata log with `records`, as a controller that has run."""
        values = encode_records(records, LATEST_METADATA_VERSION)
        folder = self.directory / METADATA
        folder.mkdir(exist_ok=True)
        batch = build_batch(
            [(None, value) for value in values], timestamp_ms=1, base_offset=0, leader_epoch=1
        )
        (folder / f"{0:020d}.log").write_bytes(batch)

    @property
    def is_a_zookeeper_brokers(self) -> bool:
        owner = read_owner(HostDisk(), str(self.directory))
        return owner is not None and owner.is_in_zookeeper_mode

    @property
    def has_a_quorum(self) -> bool:
        return (self.directory / METADATA).exists() or (
            self.directory / "bootstrap.checkpoint"
        ).exists()


VOTERS = "controller.quorum.voters=1@127.0.0.1:9093"
DYNAMIC = "controller.quorum.bootstrap.servers=127.0.0.1:9093"


@pytest.fixture
def nodes(tmp_path: Path) -> list[Node]:
    """Broker and controller; a controller alone."""
    return [
        Node(tmp_path, 1, "broker,controller", "controller.quorum.voters=1@127.0.0.1:9093,2@h:9"),
        Node(tmp_path, 2, "controller", "controller.quorum.voters=1@127.0.0.1:9093,2@h:9"),
    ]


def run(*words: object) -> str:
    """What the command prints. Raises what it raises."""
    done = CliRunner().invoke(migrate.app, [str(word) for word in words])
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    assert done.exit_code == 0, done.output
    return done.output


def run_for_programs(*words: object) -> Any:
    """The JSON that it prints, in the documented shape."""
    found = json.loads(run(*words, "--json"))
    assert_documented(["migrate", str(words[0])], found)
    return found


def copied(nodes: Sequence[Node]) -> str:
    return run("copy", *(node.file for node in nodes), "--zookeeper", AT)


def revert(nodes: Sequence[Node], *words: object, metadata: Path | None = None) -> str:
    home = nodes[0].directory if metadata is None else metadata
    files = [node.file for node in nodes]
    return run("revert", *files, "--zookeeper", AT, "--metadata", home, "--yes", *words)


@pytest.fixture
def under_kraft(znodes: Znodes, nodes: list[Node]) -> list[Node]:
    """Nodes that were copied to and have run, and made topics `a` and `b`."""
    copied(nodes)
    for node in nodes:
        node.run([*bootstrap_records(), *topics_of({"a": (1, 2), "b": (2, 1)})])
    return nodes


def topics(znodes: Znodes) -> tuple[str, ...]:
    return znodes.tree.children("/brokers/topics").names


def check_reverted(znodes: Znodes, nodes: Sequence[Node]) -> None:
    assert topics(znodes) == ("a", "b")
    assert znodes.tree.find(CONTROLLER) is None
    assert znodes.tree.find(MIGRATION) is None
    assert [node.is_a_zookeeper_brokers for node in nodes] == [True, False]
    assert not any(node.has_a_quorum for node in nodes)
    assert not nodes[1].meta.exists()


# -- nodes are stopped -------------------------------------------------------------------------------


@pytest.fixture
def running() -> Iterator[Callable[[Node], None]]:
    disk = HostDisk()

    def start(node: Node) -> None:
        assert disk.try_lock(f"{node.directory}/.lock")

    yield start
    disk.unlock_all()


def test_copy_refuses_directories_of_a_running_node(
    znodes: Znodes, nodes: list[Node], running: Callable[[Node], None]
) -> None:
    running(nodes[1])
    with pytest.raises(Failure, match=r"a running node has .*/data-2: stop it, and repeat"):
        copied(nodes)
    assert znodes.tree.find(CONTROLLER) is None
    assert not nodes[0].has_a_quorum


def test_revert_refuses_directories_of_a_running_node(
    znodes: Znodes, under_kraft: list[Node], running: Callable[[Node], None]
) -> None:
    running(under_kraft[1])
    with pytest.raises(Failure, match=r"a running node has .*/data-2: stop it, and repeat"):
        revert(under_kraft)
    assert topics(znodes) == ("t",)
    assert all(node.has_a_quorum for node in under_kraft)


# -- there -------------------------------------------------------------------------------------------


def test_copy_may_be_repeated_until_a_controller_has_started(
    znodes: Znodes, nodes: list[Node]
) -> None:
    first = copied(nodes)
    assert "1 topic with 1 partition" in first
    assert copied(nodes) == first
    nodes[0].run(bootstrap_records())
    with pytest.raises(Failure, match="node 1 has run as a controller"):
        copied(nodes)


def test_a_standalone_controller_is_the_first_voter(znodes: Znodes, tmp_path: Path) -> None:
    node = Node(tmp_path, 1, "broker,controller", DYNAMIC)
    words = ("copy", node.file, "--zookeeper", AT, "--standalone")
    first = run(*words)
    snapshot = Path(first_snapshot_path(str(node.directory)))
    assert snapshot.exists()
    assert run(*words) == first
    assert snapshot.exists()
    node.run(bootstrap_records())
    with pytest.raises(Failure, match="has run as a controller"):
        run(*words)


def test_a_controller_that_cannot_begin_leaves_no_claim(znodes: Znodes, tmp_path: Path) -> None:
    node = Node(tmp_path, 1, "broker,controller", DYNAMIC)
    with pytest.raises(Failure, match="say who votes first"):
        copied([node])
    assert znodes.tree.find(CONTROLLER) is None


def test_copy_says_why_its_claim_is_refused(
    znodes: Znodes, nodes: list[Node], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*words: object) -> None:
        raise claim.ClaimRefusedError("another quorum has migrated these znodes")

    monkeypatch.setattr(claim, "take", refuse)
    with pytest.raises(Failure, match="another quorum has migrated these znodes"):
        copied(nodes)
    assert znodes.tree.find(CONTROLLER) is None
    assert not any(node.has_a_quorum for node in nodes)


def test_copy_refuses_directories_of_another_cluster(znodes: Znodes, nodes: list[Node]) -> None:
    nodes[0].meta.write_text(zookeeper_owner_text(OTHER_ID, 1))
    with pytest.raises(Failure, match=f"data-1 belongs to node 1 of cluster {OTHER_ID}"):
        copied(nodes)
    assert znodes.tree.find(CONTROLLER) is None


# -- and back ----------------------------------------------------------------------------------------


def test_a_dry_run_of_revert_changes_nothing(znodes: Znodes, under_kraft: list[Node]) -> None:
    before = {path: node.data for path, node in znodes.read(AT).items()}
    assert "znodes would be written" in revert(under_kraft, "--dry-run")
    told = json.loads(revert(under_kraft, "--dry-run", "--json"))
    assert_documented(["migrate", "revert"], told)
    assert {path: node.data for path, node in znodes.read(AT).items()} == before
    assert all(node.has_a_quorum for node in under_kraft)
    told = json.loads(revert(under_kraft, "--json"))
    assert_documented(["migrate", "revert"], told)
    assert [row["node_id"] for row in told["directories"]] == [1, 2]
    check_reverted(znodes, under_kraft)


def test_a_dry_run_of_copy_changes_nothing(znodes: Znodes, nodes: list[Node]) -> None:
    files = [node.file for node in nodes]
    assert "would be copied" in run("copy", *files, "--zookeeper", AT, "--dry-run")
    told = run_for_programs("copy", *files, "--zookeeper", AT, "--dry-run")
    assert (told["dry_run"], told["partitions"], told["directories"]) == (True, 1, [])
    assert znodes.tree.find(CONTROLLER) is None
    assert not any(node.has_a_quorum for node in nodes)
    told = run_for_programs("copy", *files, "--zookeeper", AT)
    assert [row["node_id"] for row in told["directories"]] == [1, 2]


def test_revert_without_nodes_gives_a_running_cluster_back(
    znodes: Znodes, under_kraft: list[Node]
) -> None:
    home = under_kraft[0].directory
    at = ("revert", "--zookeeper", AT, "--metadata", home, "--yes")
    assert "would elect" in run(*at, "--dry-run")
    told = run_for_programs(*at, "--dry-run")
    assert told["dry_run"] and told["znodes"] > 0
    release = ("release", *at[1:])
    assert run_for_programs(*release, "--dry-run") == told
    assert znodes.tree.find(MIGRATION) is not None
    assert "Restart the brokers" in run(*at)
    assert topics(znodes) == ("a", "b")
    assert znodes.tree.find(CONTROLLER) is None and znodes.tree.find(MIGRATION) is None
    assert all(node.has_a_quorum for node in under_kraft)


def test_revert_of_a_quorum_that_has_no_copy_leaves_the_znodes(
    znodes: Znodes, nodes: list[Node]
) -> None:
    """A controller took `/controller` and died before the znodes were in its log."""
    znodes.claim()
    nodes[1].meta.write_text(nodes[0].meta.read_text().replace("broker.id=1", "broker.id=2"))
    nodes[1].run([ZkMigrationStateRecord(zk_migration_state=ZkMigrationState.PRE_MIGRATION)])
    before = topics(znodes)
    assert before
    home = nodes[1].directory
    assert "0 znodes written" in run("revert", "--zookeeper", AT, "--metadata", home, "--yes")
    assert topics(znodes) == before
    assert znodes.tree.find(CONTROLLER) is None and znodes.tree.find(MIGRATION) is None


def test_revert_refuses_a_migration_that_the_controllers_have_ended(
    znodes: Znodes, nodes: list[Node]
) -> None:
    znodes.claim()
    nodes[1].meta.write_text(nodes[0].meta.read_text().replace("broker.id=1", "broker.id=2"))
    nodes[1].run([ZkMigrationStateRecord(zk_migration_state=ZkMigrationState.POST_MIGRATION)])
    before = topics(znodes)
    with pytest.raises(Failure, match="final by the controllers' log"):
        run("revert", "--zookeeper", AT, "--metadata", nodes[1].directory, "--yes")
    assert topics(znodes) == before


def test_a_running_cluster_is_checked_as_one(znodes: Znodes) -> None:
    znodes.put("/brokers/ids/1", BROKER_1)
    with pytest.raises(AssertionError, match="brokers 1 are registered: stop them"):
        run("check", "--zookeeper", AT)
    told = run("check", "--zookeeper", AT, "--online")
    assert "brokers of Apache Kafka 3.9 know none above 3.9-IV0" in told
    assert "eligible leader replicas, which znodes cannot say" in told
    older = run("check", "--zookeeper", AT, "--online", "--metadata-version", "3.9-IV0")
    assert "eligible leader replicas" not in older and "brokers of Apache Kafka 3.9" not in older


def test_start_says_first_what_znodes_cannot_hold(znodes: Znodes, tmp_path: Path) -> None:
    node = Node(tmp_path, 1, "controller", VOTERS)
    enabled = "zookeeper.metadata.migration.enable=true\nzookeeper.connect=127.0.0.1:2181/kafka\n"
    node.file.write_text(node.file.read_text() + enabled)
    words = ("start", node.file, "--zookeeper", AT)
    told = run(*words, "--dry-run")
    assert "eligible leader replicas, which znodes cannot say" in told
    assert "would be formatted; nothing was done" in told and not node.meta.exists()
    assert "start the controllers" in run(*words) and node.meta.exists()


def test_revert_leaves_brokers_of_zookeeper(znodes: Znodes, under_kraft: list[Node]) -> None:
    revert(under_kraft)
    check_reverted(znodes, under_kraft)
    with pytest.raises(Failure, match="no migration was begun"):
        revert(under_kraft)


class Planted(Exception):
    """A failure of a test."""


class FailingCalls:
    """Of all that `revert` writes, the call `at` fails, before or after it is done."""

    def __init__(self, at: int, done: bool) -> None:
        self._left, self._done = at, done

    def plant(self, patched: pytest.MonkeyPatch) -> None:
        for owner, name in (
            (migrate, "write_znodes"),
            (HostDisk, "write_atomic"),
            (controller_directories.shutil, "rmtree"),  # type: ignore[attr-defined]
            (Path, "unlink"),
        ):
            patched.setattr(owner, name, self._failing(getattr(owner, name)))

    def _failing(self, call: Callable[..., None]) -> Callable[..., None]:
        def planted(*words: object, **named: object) -> None:
            self._left -= 1
            if self._left == 0 and not self._done:
                raise Planted
            call(*words, **named)
            if self._left == 0:
                raise Planted

        return planted


STEPS = 9
"""Znodes; two `meta.properties`; the claim; log and checkpoint of two nodes; the controller's identity."""


@pytest.mark.slow
@pytest.mark.parametrize("done", [False, True])
@pytest.mark.parametrize("step", range(1, STEPS + 1))
def test_revert_may_be_repeated_after_a_failure_at_any_step(
    znodes: Znodes, under_kraft: list[Node], step: int, done: bool
) -> None:
    with pytest.MonkeyPatch.context() as patched:
        FailingCalls(step, done).plant(patched)
        with pytest.raises(Planted):
            revert(under_kraft)
    if step < STEPS or not done:
        revert(under_kraft)
    check_reverted(znodes, under_kraft)


@pytest.mark.slow
def test_revert_has_no_step_that_is_not_tested(znodes: Znodes, under_kraft: list[Node]) -> None:
    with pytest.MonkeyPatch.context() as patched:
        FailingCalls(STEPS + 1, False).plant(patched)
        revert(under_kraft)
    check_reverted(znodes, under_kraft)


def test_revert_refuses_the_metadata_log_of_another_cluster(
    znodes: Znodes, under_kraft: list[Node], tmp_path: Path
) -> None:
    other = Node(tmp_path / "other", 1, "broker,controller", VOTERS)
    other.meta.write_text(zookeeper_owner_text(OTHER_ID, 1))
    other.run(bootstrap_records())
    with pytest.raises(Failure, match=f"is of cluster {OTHER_ID}, and the znodes are of"):
        revert(under_kraft, metadata=other.directory)
    with pytest.raises(Failure, match=f"belongs to node 1 of cluster {OTHER_ID}"):
        revert([other], metadata=under_kraft[0].directory)
    assert topics(znodes) == ("t",)


@pytest.mark.slow
def test_directories_of_another_machine_follow(znodes: Znodes, under_kraft: list[Node]) -> None:
    first, second = under_kraft
    with pytest.raises(Failure, match="the znodes are not written yet"):
        revert([second], "--directories-only")
    revert([first])
    assert second.has_a_quorum
    revert([second], "--directories-only", metadata=second.directory)
    check_reverted(znodes, under_kraft)


# -- wrongly typed -----------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["undo"], "No such command 'undo'"),
        (["copy", "x"], "Missing option '--zookeeper'"),
        (["revert", "x", "--zookeeper", AT], "Missing option '--metadata'"),
        (["copy", "--zookeeper", AT], "Missing argument 'FILE...'"),
    ],
)
def test_a_wrongly_typed_command_is_a_usage_error(words: list[str], sentence: str) -> None:
    done = CliRunner().invoke(migrate.app, words)
    assert done.exit_code == 2
    assert sentence in done.output


@pytest.mark.slow
@pytest.mark.parametrize("connect", ["127.0.0.1:port/kafka", "127.0.0.1:99999", ""])
def test_an_address_that_is_none_is_named(connect: str) -> None:
    with pytest.raises(Failure, match=f"--zookeeper {connect}") as raised:
        run("check", "--zookeeper", connect)
    assert raised.value.status == 2


@pytest.mark.slow
def test_a_zookeeper_that_does_not_answer_is_named() -> None:
    with pytest.raises(Failure, match=r"no ZooKeeper answers at 127.0.0.1:1 within 0.1 s"):
        read_znodes("127.0.0.1:1/kafka", 0.1)
    with pytest.raises(Failure, match=r"ZooKeeper at 127.0.0.1:1/kafka answered 0 of 1 trans"):
        write_znodes("127.0.0.1:1/kafka", [Multi(())], 0.1)


@pytest.mark.slow
def test_a_directory_that_is_none_is_named(
    znodes: Znodes, under_kraft: list[Node], tmp_path: Path
) -> None:
    for missing in (tmp_path / "missing", under_kraft[0].file):
        with pytest.raises(Failure, match=str(missing)):
            revert(under_kraft, metadata=missing)
    (tmp_path / "empty").mkdir()
    with pytest.raises(Failure, match=r"empty has no meta.properties"):
        revert(under_kraft, metadata=tmp_path / "empty")
    with pytest.raises(Failure, match=r"nothing\.properties cannot be read: No such file"):
        run("copy", tmp_path / "nothing.properties", "--zookeeper", AT)
    assert all(node.has_a_quorum for node in under_kraft)


def test_a_broker_alone_needs_no_copy(znodes: Znodes, tmp_path: Path) -> None:
    node = Node(tmp_path, 3, "broker", DYNAMIC)
    node.file.write_text(node.file.read_text().replace("CONTROLLER://127.0.0.1:9093,", ""))
    with pytest.raises(Failure, match="none of the files is a controller's"):
        copied([node])
