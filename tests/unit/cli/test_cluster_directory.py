"""The directory of a cluster: layout, ports, and a cluster.json that is never half true."""

from __future__ import annotations

import errno
import json
import os
import socket
from pathlib import Path

import pytest

from barnabas.cli.failure import Failure
from barnabas.cli.local.cluster_directory import ClusterDirectory, bootstrap, owner_of
from barnabas.cli.local.free_ports import HOST, PORT_MAX, PORT_MIN, FreePorts
from barnabas.cli.up.first_checks import cluster_id_of
from barnabas.config.node import NodeConfig
from barnabas.config.properties import parse_properties


def config_of(directory: ClusterDirectory, node_id: int) -> NodeConfig:
    path = directory.path / f"node-{node_id}" / "server.properties"
    return NodeConfig.from_properties(parse_properties(path.read_text()))


def test_every_node_is_a_valid_combined_node_that_knows_all_voters(tmp_path: Path) -> None:
    directory = ClusterDirectory(tmp_path)
    nodes = directory.lay_out(3, {"num.partitions": "4"})
    voters = {config_of(directory, node.node_id).voters for node in nodes}
    assert len(voters) == 1
    (quorum,) = voters
    assert [voter.endpoint for voter in quorum] == [node.controller_endpoint for node in nodes]
    config = config_of(directory, 2)
    assert (config.node_id, config.is_broker, config.is_controller) == (2, True, True)
    assert config.broker.num_partitions == 4
    assert config.advertised[0].endpoint == nodes[1].client_endpoint
    assert config.log_dirs == (str(tmp_path / "node-2" / "data"),)
    assert config.unknown == ()
    assert directory.nodes() == nodes


@pytest.mark.parametrize(
    ("count", "factor", "in_sync"), [(1, 1, 1), (2, 2, 1), (3, 3, 2), (5, 3, 2)]
)
def test_internal_topics_fit_the_number_of_nodes(
    tmp_path: Path, count: int, factor: int, in_sync: int
) -> None:
    directory = ClusterDirectory(tmp_path)
    directory.lay_out(count, {})
    config = config_of(directory, 1)
    assert config.offsets.topic_replication_factor == factor
    assert config.transactions.topic_replication_factor == factor
    assert config.transactions.topic_min_isr == config.offsets.topic_min_isr == in_sync


def test_ports_and_settings_are_kept_from_start_to_start(tmp_path: Path) -> None:
    first = ClusterDirectory(tmp_path).lay_out(2, {"num.partitions": "4"})
    second = ClusterDirectory(tmp_path).lay_out(None, {"log.retention.ms": "5"})
    assert second == first
    values = config_of(ClusterDirectory(tmp_path), 1).texts
    assert (values["num.partitions"], values["log.retention.ms"]) == ("4", "5")


def test_a_port_that_another_process_took_is_replaced_everywhere(tmp_path: Path) -> None:
    directory = ClusterDirectory(tmp_path)
    before = directory.lay_out(2, {})
    with socket.socket() as thief:
        thief.bind((HOST, before[0].controller_port))
        thief.listen()
        after = directory.lay_out(2, {})
    assert after[0].controller_port != before[0].controller_port
    assert after[0].client_port == before[0].client_port
    assert after[1] == before[1]
    for node_id in (1, 2):
        voters = config_of(directory, node_id).voters
        assert voters[0].endpoint == after[0].controller_endpoint


def test_ports_differ_and_stay_below_those_of_outgoing_connections() -> None:
    ports = FreePorts()
    given = [ports.keep_or_take(None) for _ in range(50)]
    assert len(set(given)) == 50
    assert all(PORT_MIN <= port < PORT_MAX for port in given)
    assert ports.keep_or_take(given[0]) not in given


def test_a_port_that_is_not_bound_yet_is_given_out_once_per_process(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    first = FreePorts().keep_or_take(None)
    again = FreePorts()
    numbers = iter([first, first + 1, *range(first + 2, first + 1000)])
    monkeypatch.setattr(again._random, "randrange", lambda *_: next(numbers))
    assert again.keep_or_take(None) > first
    assert FreePorts().keep_or_take(first) == first, "who asks for its own may keep it"


def test_the_number_of_nodes_is_that_of_the_directory(tmp_path: Path) -> None:
    directory = ClusterDirectory(tmp_path)
    assert len(directory.lay_out(None, {})) == 1
    with pytest.raises(Failure, match="holds a cluster of 1 nodes, not 3"):
        directory.lay_out(3, {})


@pytest.mark.parametrize("key", ["node.id", "listeners", "log.dirs"])
def test_keys_that_up_chooses_cannot_be_set(tmp_path: Path, key: str) -> None:
    with pytest.raises(Failure, match=f"{key} cannot be set"):
        ClusterDirectory(tmp_path).lay_out(1, {key: "1"})


def test_a_directory_with_faults_is_started_by_the_test_cluster_only(tmp_path: Path) -> None:
    """Its nodes would look for a relay that has ended, and open the control of their faults."""
    (node,) = ClusterDirectory(tmp_path).lay_out(1, {})
    with node.properties.open("a") as file:
        file.write("testing.faults.file=/nowhere\n")
    with pytest.raises(Failure, match=r"only barnabas\.testing starts it"):
        ClusterDirectory(tmp_path).lay_out(1, {})


def test_cluster_json_says_what_runs_where(tmp_path: Path) -> None:
    directory = ClusterDirectory(tmp_path)
    nodes = directory.lay_out(2, {})
    directory.write_state(nodes, {1: 11, 2: 22})
    state = json.loads(directory.state_file.read_text())
    assert state["bootstrap"] == bootstrap(nodes)
    assert state["up"] == os.getpid()
    assert state["nodes"][1] == {
        "id": 2,
        "pid": 22,
        "listeners": {
            "PLAINTEXT": str(nodes[1].client_endpoint),
            "CONTROLLER": str(nodes[1].controller_endpoint),
        },
        "metrics": nodes[1].metrics_url,
        "properties": str(tmp_path / "node-2" / "server.properties"),
        "log": str(tmp_path / "node-2" / "node.log"),
    }
    directory.clear_pid(1, 10)  # another process has taken its place
    directory.clear_pid(2, 22)
    state = directory.read_state()
    assert state is not None
    assert [node["pid"] for node in state["nodes"]] == [11, None]
    directory.set_pid(2, 33)
    assert (directory.read_state() or {})["nodes"][1]["pid"] == 33


def test_a_cluster_json_that_cannot_be_written_leaves_no_other_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = ClusterDirectory(tmp_path)
    nodes = directory.lay_out(1, {})
    directory.write_state(nodes, {1: 11})
    before = sorted(tmp_path.iterdir())

    def refuse(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "replace", refuse)
    with pytest.raises(OSError, match="No space"):
        directory.set_pid(1, 12)
    assert sorted(tmp_path.iterdir()) == before


def test_a_node_started_by_hand_is_announced_and_withdrawn(tmp_path: Path) -> None:
    directory = ClusterDirectory(tmp_path)
    nodes = directory.lay_out(1, {})
    file = nodes[0].properties
    assert owner_of(file) is None
    directory.write_state(nodes, {1: None})
    owner = owner_of(file)
    assert owner is not None
    owner.announce(file, 33)
    assert (directory.read_state() or {})["nodes"][0]["pid"] == 33
    owner.withdraw(file, 34)  # another process has taken its place
    assert (directory.read_state() or {})["nodes"][0]["pid"] == 33
    owner.withdraw(file, 33)
    assert (directory.read_state() or {})["nodes"][0]["pid"] is None


def test_a_directory_is_run_by_one(tmp_path: Path) -> None:
    ClusterDirectory(tmp_path).lock()
    with pytest.raises(Failure, match="another `barnabas up` runs the cluster"):
        ClusterDirectory(tmp_path).lock()


def test_damaged_files_are_named(tmp_path: Path) -> None:
    directory = ClusterDirectory(tmp_path)
    nodes = directory.lay_out(1, {})
    directory.state_file.write_text("{")
    assert directory.read_state() is None  # `up` writes it again
    nodes[0].properties.write_text("a=1")
    with pytest.raises(Failure, match="is not what `barnabas up` writes"):
        directory.nodes()


def test_a_meta_properties_of_noise_is_named(tmp_path: Path) -> None:
    (node,) = ClusterDirectory(tmp_path).lay_out(1, {})
    node.data.mkdir(parents=True)
    (node.data / "meta.properties").write_bytes(b"\xfb\xff\x00")
    with pytest.raises(Failure, match=r"meta\.properties"):
        cluster_id_of([node])


def test_cluster_json_names_the_ensemble(tmp_path: Path) -> None:
    directory = ClusterDirectory(tmp_path)
    nodes = directory.lay_out(1, {}, zookeeper="127.0.0.1:2181/kafka")
    directory.write_state(nodes, {1: 11})
    assert json.loads(directory.state_file.read_text())["zookeeper"] == "127.0.0.1:2181/kafka"
    assert ClusterDirectory(tmp_path).zookeeper == "127.0.0.1:2181/kafka"
