"""What an operator of Kafka asks of a running cluster: configurations, elections, groups' offsets, deletions,
and mistakes that are answered in a sentence."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from barnabas.cli.main import main
from barnabas.client.consumers.consumer import ConsumerSettings
from barnabas.client.records import ProducerRecord
from barnabas.host.client import connect
from barnabas.testing.cluster import Cluster
from tests.json_shapes import assert_documented

pytestmark = pytest.mark.process
HELD = re.compile(
    r'held_by="the broker at PLAINTEXT://\S+, registered since 20\d\d-\d\d-\d\d \S+ UTC"'
)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(nodes=3, settings={"auto.leader.rebalance.enable": "false"}) as cluster:
        yield cluster


class Command:
    """Runs commands against the cluster; gives what they print, or what they complain of."""

    def __init__(self, cluster: Cluster, capfd: pytest.CaptureFixture[str]) -> None:
        self.where = ["--bootstrap-server", cluster.bootstrap]
        self.capfd = capfd

    def __call__(self, *words: str, status: int = 0, where: list[str] | None = None) -> str:
        self.capfd.readouterr()
        got = main([*words, *(self.where if where is None else where)])
        printed = self.capfd.readouterr()
        assert got == status, printed
        return printed.err if status else printed.out

    def json(self, *words: str) -> Any:
        value = json.loads(self(*words, "--json"))
        assert_documented(words, value)
        return value


@pytest.fixture
def run(cluster: Cluster, capfd: pytest.CaptureFixture[str]) -> Command:
    return Command(cluster, capfd)


def fill(cluster: Cluster, topic: str, partitions: int, each: int) -> None:
    with connect(cluster.bootstrap) as client:
        client.create_topic(topic, partitions, 3)
        with client.producer() as producer:
            for number in range(each * partitions):
                producer.send(ProducerRecord(topic, b"%d" % number, partition=number % partitions))


def read(cluster: Cluster, group: str, topic: str, count: int) -> None:
    """Read `count` records in a group, commit, and leave it."""
    settings = ConsumerSettings(auto_offset_reset="earliest")
    with connect(cluster.bootstrap) as client, client.consumer(group, settings) as consumer:
        consumer.inner.subscribe([topic])
        got = 0
        while got < count:
            got += len(consumer.poll(100, count - got))
        consumer.commit()


def test_a_topics_configuration_tells_where_each_value_comes_from(run: Command) -> None:
    run("topics", "create", "configured", "-p", "1", "-r", "3")
    alter = ["configs", "alter", "--topic", "configured"]
    judged = run.json(*alter, "--set", "retention.ms=1000", "--dry-run")
    assert judged["dry_run"] and judged["changes"][0]["after"] is None
    assert "retention.ms" not in run("configs", "describe", "--topic", "configured")
    run(*alter, "--set", "retention.ms=1000", "--set", "cleanup.policy=delete")
    run(*alter, "--append", "cleanup.policy=compact")
    told = {k["name"]: k for k in run.json("configs", "describe", "--topic", "configured", "--all")}
    assert told["retention.ms"]["value"] == "1000"
    assert told["retention.ms"]["source"] == "DYNAMIC_TOPIC_CONFIG"
    assert told["cleanup.policy"]["value"] == "delete,compact"
    assert told["segment.bytes"]["source"] == "DEFAULT_CONFIG"
    assert told["segment.bytes"]["synonyms"][-1]["name"] == "log.segment.bytes"
    assert all(key["documentation"] for key in told.values())
    assert "did you mean retention.ms?" in run(*alter, "--set", "retention.mss=1", status=1)
    assert "did you mean" in run(
        "configs", "describe", "--topic", "configured", "-k", "retention.mss", status=1
    )
    run(*alter, "--delete", "retention.ms")
    assert "retention.ms" not in run("configs", "describe", "--topic", "configured")
    assert "say whose" in run("configs", "describe", status=2)


def test_brokers_groups_and_client_metrics_are_configured_alike(run: Command) -> None:
    run("configs", "alter", "--broker-defaults", "--set", "log.retention.ms=90000000")
    told = {k["name"]: k for k in run.json("configs", "describe", "--broker", "2")}
    assert told["log.retention.ms"]["source"] == "DYNAMIC_DEFAULT_BROKER_CONFIG"
    assert told["node.id"]["source"] == "STATIC_BROKER_CONFIG" and told["node.id"]["read_only"]
    entity = ["--entity-type", "brokers", "--entity-default"]
    run("configs", "alter", *entity, "--delete-config", "log.retention.ms")
    assert "the brokers are 1, 2, 3" in run("configs", "describe", "--broker", "9", status=1)
    assert main(["configs", "alter", "--broker", "1", "--set", "num.partition=3", *run.where]) == 0
    assert "did you mean num.partitions?" in run.capfd.readouterr().err
    for whose, key, value in (
        (["--group", "g"], "consumer.session.timeout.ms", "46000"),
        (["--client-metrics", "m"], "interval.ms", "1000"),
        (["--broker-logger", "1"], "raft", "DEBUG"),
    ):
        run("configs", "alter", *whose, "--set", f"{key}={value}")
        told = {k["name"]: k for k in run.json("configs", "describe", *whose)}
        assert told[key]["value"] == value


def test_topics_grow_and_lose_records_before_an_offset(run: Command, cluster: Cluster) -> None:
    fill(cluster, "cut", 2, 10)
    run("topics", "alter", "cut", "--partitions", "3", "--dry-run")
    assert len(cluster_view(cluster, "cut")) == 2
    run("topics", "alter", "cut", "--partitions", "3")
    assert "would not be an increase" in run("topics", "alter", "cut", "-p", "2", status=1)
    words = ["topics", "delete-records", "cut", "-p", "0"]
    assert "there is no terminal" in run(*words, "--before", "4", status=2)
    assert "4 records would be deleted" in run(*words, "--before", "4", "--dry-run")
    assert run.json(*words, "--before", "4", "--yes")[0]["outcome"] == "begins at 4"
    assert main([*words, "--before", "99", "--yes", *run.where]) == 1
    assert "OFFSET_OUT_OF_RANGE" in run.capfd.readouterr().out
    run("topics", "delete-records", "cut", "--all", "--yes")
    told = run.json("topics", "describe", "cut", "--offsets")[0]["partition_list"]
    assert [(p["start"], p["end"]) for p in told] == [(10, 10), (10, 10), (0, 0)]


def cluster_view(cluster: Cluster, topic: str) -> dict[int, Any]:
    with connect(cluster.bootstrap) as client:
        return dict(client.topic(topic).partitions)


def test_a_group_is_moved_by_every_way_and_only_when_told(run: Command, cluster: Cluster) -> None:
    fill(cluster, "moved", 2, 10)
    read(cluster, "g1", "moved", 20)

    def reset(*words: str) -> list[int]:
        given = words if "--from-file" in words else (*words, "--topic", "moved")
        told = run.json("groups", "reset-offsets", "g1", *given)
        return [row["to"] for row in told["partitions"]]

    assert reset("--to-earliest") == [0, 0]
    assert reset("--to-current") == [10, 10], "nothing was moved: nothing asked for it"
    assert reset("--shift-by", "-3", "--execute") == [7, 7]
    assert reset("--to-current") == [7, 7]
    assert reset("--to-offset", "99") == [10, 10] and reset("--to-latest") == [10, 10]
    assert reset("--by-duration", "PT1H") == [0, 0]
    assert reset("--to-datetime", "2199-01-01T00:00:00") == [10, 10]
    words = ["groups", "reset-offsets", "g1", "--topic", "moved:1", "--to-offset", "2"]
    exported = cluster.directory / "offsets.csv"
    exported.write_text(run(*words, "--export"))
    assert reset("--from-file", str(exported), "--execute") == [2]
    assert reset("--to-current") == [7, 2]
    assert "say where to" in run("groups", "reset-offsets", "g1", "--all-topics", status=2)
    assert "a date is" in run(
        "groups", "reset-offsets", "g1", "--all-topics", "--to-datetime", "x", status=2
    )


def test_a_group_with_members_is_refused_with_their_names(run: Command, cluster: Cluster) -> None:
    fill(cluster, "held", 1, 5)
    with connect(cluster.bootstrap, client_id="holder") as client:
        settings = ConsumerSettings(auto_offset_reset="earliest")
        consumer = client.consumer("g2", settings)
        consumer.inner.subscribe(["held"])
        while not consumer.poll(100):
            pass
        consumer.commit()
        reset = ["groups", "reset-offsets", "g2", "--topic", "held", "--to-earliest"]
        assert "(holder at 127.0.0.1)" in run(*reset, "--execute", status=1)
        assert "(holder at 127.0.0.1)" in run("groups", "delete", "g2", "--yes", status=1)
        forget = ["groups", "delete-offsets", "g2", "--topic", "held"]
        assert main([*forget, "--yes", *run.where]) == 1
        assert "the group reads it, with 1 member: holder" in run.capfd.readouterr().out
        consumer.close()
    run(*forget, "--dry-run")
    assert run.json(*forget, "--yes")[0]["outcome"] == "forgotten"
    assert "would be deleted" in run("groups", "delete", "g2", "--dry-run")
    run("groups", "delete", "g2", "--yes")
    assert "there is no group g2" in run("groups", "delete", "g2", "--yes", status=1)


def test_leaders_go_back_and_those_left_alone_say_why(run: Command, cluster: Cluster) -> None:
    run("topics", "create", "led", "-p", "3", "-r", "3")
    words = ["leaders", "elect", "--topic", "led"]
    assert {row["outcome"].split(" ", 3)[3] for row in run.json(*words)} == {
        f"{n} leads already" for n in (1, 2, 3)
    }
    victim = cluster_view(cluster, "led")[0].leader
    cluster.kill(victim)
    cluster.wait_for(lambda: cluster_view(cluster, "led")[0].leader not in (victim, -1), "another")
    survivors = ",".join(
        cluster.node(n)["listeners"]["PLAINTEXT"] for n in cluster.node_ids if n != victim
    )
    run.where = ["--bootstrap", survivors]
    cluster.wait_for(lambda: victim not in cluster_view(cluster, "led")[0].isr, "its absence")
    assert main([*words, "-p", "0", *run.where]) == 1
    assert f"preferred leader {victim} is not in the ISR" in run.capfd.readouterr().out
    cluster.restart(victim)
    cluster.wait_for(lambda: victim in cluster_view(cluster, "led")[0].isr, "its return")
    assert "would be given to" in run(*words, "-p", "0", "--dry-run")
    assert run.json(*words, "-p", "0")[0]["outcome"] == "elected"
    cluster.wait_for(lambda: cluster_view(cluster, "led")[0].leader == victim, "the preferred one")
    refused = run(*words, "--type", "unclean", "--yes")
    assert "an unclean election is for partitions without a leader" in refused
    assert "there is no topic nix" in run("leaders", "elect", "--topic", "nix", status=1)


def test_wrong_addresses_are_answered_in_a_sentence(run: Command, cluster: Cluster) -> None:
    controller = cluster.node(1)["listeners"]["CONTROLLER"]
    broker = cluster.node(1)["listeners"]["PLAINTEXT"]
    told = run("topics", "list", status=2, where=["-b", controller])
    assert f"{controller} is a controller's listener" in told
    told = run("quorum", "describe", status=1, where=["-C", broker])
    assert f"{broker} is a broker's listener" in told
    assert "ago" in run("quorum", "describe", "--replication")
    assert "ago" not in run("quorum", "describe", "--replication", "--exact")
    run("topics", "create", "spelt", "-p", "1", "-r", "3")
    assert "did you mean spelt?" in run("topics", "describe", "spellt", status=1)
    assert "there is no terminal" in run("quorum", "make-dynamic", status=2)
    # Voters tell a new leader what they support within some seconds.
    dry_run = ["quorum", "make-dynamic", "--dry-run", *run.where]
    cluster.wait_for(lambda: main(dry_run) == 0, "voters that have told what they support")
    assert "it would be done" in run(*dry_run[:3])


def test_a_bare_environment_is_enough_for_a_command(cluster: Cluster, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "barnabas", "topics", "list", "-b", cluster.bootstrap]
    done = subprocess.run(
        command, env={}, cwd=tmp_path, capture_output=True, timeout=30, check=False
    )
    assert (done.returncode, done.stderr) == (0, b"")


def test_a_second_broker_of_one_id_says_who_has_it(cluster: Cluster, tmp_path: Path) -> None:
    voters = ",".join(f"{n}@{cluster.node(n)['listeners']['CONTROLLER']}" for n in (1, 2, 3))
    with connect(cluster.bootstrap) as client:
        cluster_id = client.describe_cluster().cluster_id

    def start(name: str) -> subprocess.Popen[bytes]:
        home = tmp_path / name
        home.mkdir()
        file = home / "server.properties"
        file.write_text(
            "process.roles=broker\nnode.id=4\nlisteners=PLAINTEXT://127.0.0.1:0\n"
            "controller.listener.names=CONTROLLER\n"
            "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT\n"
            f"controller.quorum.voters={voters}\nlog.dirs={home}/data\n"
        )
        assert main(["storage", "format", str(file), "--cluster-id", cluster_id]) == 0
        with (home / "log").open("wb") as log:
            command = [sys.executable, "-m", "barnabas", "node", "start", str(file)]
            return subprocess.Popen(command, stderr=log, env=dict(os.environ))

    processes = [start("first")]
    try:
        log = tmp_path / "first" / "log"
        cluster.wait_for(lambda: "broker.unfenced" in log.read_text(), "the first one")
        processes.append(start("second"))
        log = tmp_path / "second" / "log"
        cluster.wait_for(lambda: bool(HELD.search(log.read_text())), "why")
    finally:
        for process in processes:
            process.kill()
            process.wait()


def test_levels_are_moved_and_programs_learn_it(run: Command) -> None:
    told = run.json("features", "downgrade", "-f", "group.version=0", "--dry-run")
    (moved,) = told["features"]
    assert told["dry_run"] and (moved["name"], moved["after"]) == ("group.version", 0)
    assert run.json("features", "upgrade", "-f", f"group.version={moved['before']}") == {
        "dry_run": False,
        "features": [],
    }


def test_metadata_are_a_tree_for_programs(run: Command) -> None:
    run("topics", "create", "seen", "-p", "1", "-r", "3")
    rows = run.json("metadata", "tree", "/topics/byName", "--depth", "2")
    assert {"path": "/topics/byName/seen/name", "is_folder": False} in rows
    assert run.json("metadata", "cat", "/topics/byName/seen")["name"] == "seen"


def test_files_that_are_written_are_named_to_programs(run: Command, tmp_path: Path) -> None:
    written = run.json("debug", "bundle", "-o", str(tmp_path / "bundle.tar.gz"))
    assert written["path"] == str(tmp_path / "bundle.tar.gz")
    assert {"versions.json", "cluster/topics.json"} <= set(written["files"])
    boards = json.loads(run("dashboards", "write", str(tmp_path / "boards"), "--json", where=[]))
    assert_documented(["dashboards", "write"], boards)
    assert "cluster.json" not in {Path(name).name for name in boards}  # that is a file of `up`
    assert all(Path(board).exists() for board in boards)
