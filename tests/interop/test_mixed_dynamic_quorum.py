"""One quorum of both systems whose voters stand in its log (KIP-853).

Two controllers of ours and one of Apache Kafka begin with one voter. Both systems' tools add and remove
voters while either leads, a replica with an empty disk installs a snapshot and votes again, and Kafka's tool
reads what all of them leave, the log that was recovered among it.
"""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from barnabas.config.meta_properties import read_meta_properties
from barnabas.host.disk import HostDisk
from barnabas.types import uuid_text
from tests.interop.log.dump_tool import dump
from tests.interop.quorum_nodes import JVM, PATIENCE_S, QuorumNodes
from tests.peers import CLASS_PATH
from tests.process.launch import barnabas

pytestmark = [
    pytest.mark.process,
    pytest.mark.peers("kafka"),
    pytest.mark.java,
    pytest.mark.slow,
    pytest.mark.timeout(600),
]
OURS = (1, 2)
KAFKA = 3
EVERYBODY = [1, 2, 3]


@pytest.fixture
def nodes(tmp_path: Path) -> Iterator[QuorumNodes]:
    nodes = QuorumNodes(tmp_path, {KAFKA}, dynamic=True)
    try:
        yield nodes
    finally:
        nodes.close()


def kafka(tool: str, *words: str) -> str:
    """What a tool of Kafka says; it must be content."""
    done = subprocess.run(
        [*JVM, "-cp", CLASS_PATH, f"org.apache.kafka.tools.{tool}", *words],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def kafka_quorum(nodes: QuorumNodes, *words: str) -> str:
    return kafka("MetadataQuorumCommand", "--bootstrap-controller", nodes.controllers, *words)


def kafka_adds(nodes: QuorumNodes, node: int) -> None:
    kafka_quorum(nodes, "--command-config", str(nodes.file(node)), "add-controller")
    assert node in nodes.voting()


def kafka_removes(nodes: QuorumNodes, node: int) -> None:
    meta = read_meta_properties(HostDisk(), str(nodes.data(node)))
    assert meta is not None
    which = ("--controller-id", str(node), "--controller-directory-id")
    kafka_quorum(nodes, "remove-controller", *which, uuid_text(meta.directory_id))


def ours(nodes: QuorumNodes, *words: str) -> None:
    done = barnabas("quorum", *words, "--bootstrap-controller", nodes.controllers)
    assert done.returncode == 0, done.stdout + done.stderr


def stop(nodes: QuorumNodes, *which: int) -> None:
    for node in which:
        nodes.stop(node, signal.SIGTERM)
    check_files(nodes, *which)


def check_files(nodes: QuorumNodes, *which: int) -> str:
    """Kafka's tool reads every log and snapshot that they left; what it says of the logs."""
    said = ""
    for node in which:
        for suffix in ("log", "checkpoint"):
            files = sorted(map(str, nodes.log_directory(node).glob(f"*.{suffix}")))
            how = ("--cluster-metadata-decoder", "--deep-iteration", "--files")
            shown = dump(*how, ",".join(files))
            assert "isvalid: false" not in shown and "Found" not in shown
            assert "KRaftVoters" in shown or suffix == "log"
            said += shown if suffix == "log" else ""
    return said


def test_a_dynamic_quorum_of_both_systems(nodes: QuorumNodes) -> None:
    for node in nodes.voters:
        nodes.start(node)
    nodes.all_follow()
    assert nodes.voting() == [1]
    kafka_adds(nodes, 2)
    kafka_adds(nodes, KAFKA)
    assert nodes.voting() == EVERYBODY
    check_features(nodes)
    kafka_leads(nodes)
    kafka_leads_no_more_when_it_is_removed(nodes)
    kafka_votes_again_with_an_empty_disk(nodes)
    stop(nodes, *nodes.voters)
    one_of_ours_is_recovered(nodes)


def check_features(nodes: QuorumNodes) -> None:
    """Kafka's tool hears the levels from controllers that are no brokers."""
    said = kafka("FeatureCommand", "--bootstrap-controller", str(nodes.endpoints[1]), "describe")
    lines = {line.split()[1]: line for line in said.splitlines() if line.startswith("Feature")}
    assert "FinalizedVersionLevel: 1 " in lines["kraft.version"], said
    assert "UNKNOWN" not in lines["metadata.version"], said


def kafka_leads(nodes: QuorumNodes) -> None:
    """One of ours lacks a record that Kafka has; the other one dies."""
    leader = nodes.wait_for_leader(*OURS)
    behind = sum(OURS) - leader
    nodes.stop(behind)
    nodes.restart(KAFKA)
    nodes.stop(leader)
    nodes.start(behind)
    assert nodes.wait_for_leader(KAFKA, behind) == KAFKA
    nodes.start(leader)
    nodes.all_follow()
    ours(nodes, "remove-controller", str(behind))
    assert nodes.voting() == sorted({leader, KAFKA})
    ours(nodes, "add-controller", str(nodes.file(behind)))
    assert nodes.voting() == EVERYBODY
    assert nodes.leader() == KAFKA


def kafka_leads_no_more_when_it_is_removed(nodes: QuorumNodes) -> None:
    kafka_removes(nodes, KAFKA)
    nodes.wait_for_leader(*OURS)
    nodes.all_follow()
    assert nodes.voting() == list(OURS)


def kafka_votes_again_with_an_empty_disk(nodes: QuorumNodes) -> None:
    """It gets a snapshot, in which the voters stand."""
    nodes.stop(KAFKA)
    leader = nodes.wait_for_leader(*OURS)
    for _ in range(20):
        if nodes.snapshots(leader):
            break
        nodes.restart(sum(OURS) - leader)
    nodes.wait_for("the leader's log begins later", lambda: nodes.begins_later(leader))
    nodes.empty(KAFKA)
    nodes.start(KAFKA)
    nodes.wait_for("its log begins with a snapshot", lambda: nodes.begins_later(KAFKA))
    nodes.all_follow()
    ours(nodes, "add-controller", str(nodes.file(KAFKA)))
    assert nodes.voting() == EVERYBODY


def one_of_ours_is_recovered(nodes: QuorumNodes) -> None:
    """The others are lost for good; a new one of Kafka's joins what is left."""
    done = barnabas("quorum", "recover", "--yes", str(nodes.file(1)))
    assert done.returncode == 0, done.stderr
    assert "LeaderChange" in check_files(nodes, 1)
    nodes.start(1)
    assert nodes.wait_for_leader(1) == 1
    nodes.empty(KAFKA)
    nodes.start(KAFKA)
    nodes.all_follow(KAFKA)
    kafka_adds(nodes, KAFKA)
    assert nodes.voting() == [1, KAFKA]
    stop(nodes, KAFKA, 1)
