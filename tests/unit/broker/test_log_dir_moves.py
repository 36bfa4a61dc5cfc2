"""AlterReplicaLogDirs on real brokers in a simulated world: moves while data flow, answers, failures."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from barnabas.broker.partitions.partition import Partition
from barnabas.log.directories.log_directory import LogDirectory
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.messages.alter_replica_log_dirs_request import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from barnabas.wire.messages.delete_topics_request import DeleteTopicsRequest
from barnabas.wire.messages.describe_log_dirs_request import DescribeLogDirsRequest
from tests.unit.broker.world import Cluster, code, name


def move(
    cluster: Cluster, path: str, topic: str = "t", index: int = 0, node: int = 1, version: int = 2
) -> str:
    """The name of the answer's error code."""
    request = AlterReplicaLogDirsRequest(
        dirs=[
            AlterReplicaLogDir(
                path=path, topics=[AlterReplicaLogDirTopic(name=topic, partitions=[index])]
            )
        ]
    )
    answer: Any = cluster.ask(request, node, version)
    (told,) = answer.results
    assert told.topic_name == topic and told.partitions[0].partition_index == index
    return code(told.partitions[0].error_code)


def home(cluster: Cluster, topic: str = "t", node: int = 1) -> LogDirectory:
    found = cluster.broker(node).logs.directory_of(name(topic))
    assert found is not None
    return found


def other(cluster: Cluster, topic: str = "t", node: int = 1) -> LogDirectory:
    here = home(cluster, topic, node)
    return next(d for d in cluster.broker(node).logs.directories if d is not here)


def described(cluster: Cluster, node: int = 1) -> Mapping[str, Mapping[tuple[str, int], Any]]:
    """By path, by replica: what DescribeLogDirs says."""
    answer: Any = cluster.ask(DescribeLogDirsRequest(topics=None), node)
    return {
        found.log_dir: {
            (topic.name, part.partition_index): part
            for topic in found.topics
            for part in topic.partitions
        }
        for found in answer.results
    }


def assigned(cluster: Cluster, topic: str = "t", node: int = 1) -> bytes:
    """Where the metadata have the replica."""
    state = cluster.broker(node).image.topics_by_name[topic].partition(0)
    return state.directory_of(node)


def test_a_replica_moves_while_it_is_written_and_read() -> None:
    cluster = Cluster(directories=2, replica_alter_log_dirs_io_max_bytes_per_second="3000000")
    cluster.create_topic("t")
    for at in range(30):
        cluster.produce([b"%d" % at + b"x" * 200_000])
    target = other(cluster)
    assert move(cluster, target.path) == "NONE"
    shown = described(cluster)
    assert shown[target.path]["t", 0].is_future_key
    assert shown[target.path]["t", 0].offset_lag > 0
    assert not shown[home(cluster).path]["t", 0].is_future_key
    cluster.produce([b"while it moves"])
    cluster.until(lambda: home(cluster) is target)
    assert assigned(cluster) == target.directory_id
    cluster.produce([b"behind it"])
    shown = described(cluster)
    assert not shown[target.path]["t", 0].is_future_key
    assert sum(("t", 0) in parts for parts in shown.values()) == 1
    read: list[bytes] = []
    while len(read) < 32:
        read += cluster.values(cluster.fetch(len(read)))
    assert read[-2:] == [b"while it moves", b"behind it"]
    assert move(cluster, target.path, version=1) == "NONE", "it is there already"
    assert not cluster.broker().moves.describe()


def in_sync(partition: Partition) -> int:
    return 0 if partition.leader is None else len(partition.leader.isr)


@pytest.mark.slow
def test_a_move_continues_after_a_crash_and_replication_with_it() -> None:
    cluster = Cluster(nodes=3, directories=2)
    cluster.create_topic("t", replication=3)
    for at in range(20):
        cluster.produce([b"%d" % at + b"x" * 300_000])
    for node in (1, 2, 3):
        target = other(cluster, node=node).path
        assert move(cluster, target, node=node) == "NONE"
        cluster.sim.nodes[node].kill()
        cluster.sim.nodes[node].start()

        def moved(node: int = node, target: str = target) -> bool:
            broker = cluster.broker(node)
            here = broker.logs.directory_of(name("t"))
            return here is not None and here.path == target and not broker.moves.describe()

        cluster.until(moved)
        leader = cluster.partition(cluster.leader("t"))
        cluster.until(lambda leader=leader: in_sync(leader) == 3)  # type: ignore[misc]
    assert cluster.produce([b"to all three"]).error_code == 0
    ends = {cluster.partition(node).log.log_end_offset for node in (1, 2, 3)}  # type: ignore[union-attr]
    assert ends == {21}


def test_flush_messages_holds_through_a_move_and_a_power_loss() -> None:
    cluster = Cluster(directories=2)
    cluster.create_topic("t", flush_messages="1")
    acknowledged = 0
    target = other(cluster)
    assert move(cluster, target.path) == "NONE"
    while home(cluster) is not target or acknowledged < 20:
        assert cluster.produce([b"x" * 5000], acks=1).error_code == 0
        acknowledged += 1
        assert acknowledged < 1000
    assert cluster.produce([b"last"], acks=1).error_code == 0
    node = cluster.sim.nodes[1]
    node.kill(power_loss=True)
    node.start()
    cluster.leader("t")
    log = cluster.partition(1).log
    assert log is not None and log.log_end_offset == acknowledged + 1
    assert home(cluster).path == target.path


def test_a_path_is_no_text() -> None:
    cluster = Cluster(directories=2)
    cluster.create_topic("t")
    target = other(cluster)
    parent, _, last = target.path.rpartition("/")
    assert move(cluster, f"{parent}//x/../{last}/") == "NONE"
    cluster.until(lambda: home(cluster) is target)


def test_refusals_are_kafkas() -> None:
    cluster = Cluster(directories=2)
    cluster.create_topic("t")
    assert move(cluster, "/no/such/directory") == "LOG_DIR_NOT_FOUND"
    assert move(cluster, other(cluster).path, topic="unknown") == "UNKNOWN_TOPIC_OR_PARTITION"
    assert move(cluster, other(cluster).path, index=9) == "UNKNOWN_TOPIC_OR_PARTITION"
    target = other(cluster)
    cluster.broker().lifecycle.set_cordoned([target.directory_id])
    assert move(cluster, target.path) == "INVALID_REPLICA_ASSIGNMENT"
    cluster.broker().lifecycle.set_cordoned([])
    cluster.broker().logs.fail(target, "the test says so")
    assert move(cluster, target.path) == "KAFKA_STORAGE_ERROR"


def test_a_replica_comes_where_it_was_wanted() -> None:
    cluster = Cluster(directories=2)
    cluster.create_topic("other")
    wanted = home(cluster, "other").path  # it has more logs than the one that would be taken
    assert move(cluster, wanted) == "UNKNOWN_TOPIC_OR_PARTITION"
    cluster.create_topic("t")
    cluster.until(lambda: ("t", 0) in cluster.broker().replicas.by_name)
    assert home(cluster).path == wanted
    cluster.until(lambda: assigned(cluster) == home(cluster).directory_id)


def test_a_replica_that_only_others_have_is_not_available() -> None:
    cluster = Cluster(2, directories=2)
    cluster.create_topic("t", 1, 1)
    elsewhere = 3 - cluster.leader("t")
    path = cluster.broker(elsewhere).logs.directories[0].path
    assert move(cluster, path, node=elsewhere) == "REPLICA_NOT_AVAILABLE"


def test_moving_back_calls_the_move_off() -> None:
    cluster = Cluster(directories=2, replica_alter_log_dirs_io_max_bytes_per_second="1000")
    cluster.create_topic("t")
    for _ in range(4):
        cluster.produce([b"x" * 800_000])
    here, target = home(cluster), other(cluster)
    assert move(cluster, target.path) == "NONE"
    cluster.run(5000)
    copied = cluster.broker().logs.futures.logs[name("t")].log_end_offset
    assert 0 < copied < 4, "the move is throttled"
    assert move(cluster, here.path) == "NONE"
    assert not cluster.broker().logs.futures.logs and not cluster.broker().moves.describe()
    assert home(cluster) is here and cluster.produce([b"y"]).error_code == 0


def test_a_target_that_dies_leaves_the_source_alone() -> None:
    cluster = Cluster(directories=2, replica_alter_log_dirs_io_max_bytes_per_second="1000000")
    cluster.create_topic("t")
    for _ in range(10):
        cluster.produce([b"x" * 800_000])
    here, target = home(cluster), other(cluster)
    assert move(cluster, target.path) == "NONE"
    cluster.run(1500)
    cluster.sim.nodes[1].machine.disk.fail_call(1, for_good=True, prefix=target.path)
    cluster.until(lambda: not target.is_online)
    assert cluster.produce([b"y"]).error_code == 0
    cluster.until(lambda: not cluster.broker().moves.describe())
    assert home(cluster) is here and assigned(cluster) == here.directory_id


def not_yet(_: object) -> None:
    raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "the test holds it up")


def test_a_source_that_fails_after_the_agreement_takes_its_replica_offline() -> None:
    cluster = Cluster(nodes=2, directories=2)
    cluster.create_topic("t", replication=2)
    cluster.produce([b"x"])
    node = cluster.leader("t")
    broker, here, target = cluster.broker(node), home(cluster, node=node), other(cluster, node=node)
    futures = broker.logs.futures
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(futures, "replace_current", not_yet)
        assert move(cluster, target.path, node=node) == "NONE"
        cluster.until(lambda: assigned(cluster, node=node) == target.directory_id)
    broker.logs.fail(here, "the test says so")
    cluster.until(lambda: cluster.leader("t") != node)
    assert cluster.produce([b"y"]).error_code == 0


def test_a_topic_is_deleted_while_it_moves() -> None:
    cluster = Cluster(directories=2, replica_alter_log_dirs_io_max_bytes_per_second="1000")
    cluster.create_topic("t")
    cluster.produce([b"x" * 800_000])
    cluster.produce([b"x" * 800_000])
    assert move(cluster, other(cluster).path) == "NONE"
    cluster.ask(DeleteTopicsRequest(topic_names=["t"], timeout_ms=5000), version=5)
    cluster.until(lambda: ("t", 0) not in cluster.broker().replicas.by_name)
    cluster.until(lambda: not cluster.broker().moves.describe())
    assert not cluster.broker().logs.futures.logs
    cluster.create_topic("t")
    assert cluster.produce([b"y"]).base_offset == 0


def test_a_move_continues_though_memory_keeps_nothing_that_was_read() -> None:
    cluster = Cluster(directories=2)
    cluster.create_topic("t")
    for at in range(5):
        cluster.produce([b"%d" % at + b"x" * 300_000])
    cluster.sim.nodes[1].machine.disk.cold_read_rate = 1.0
    target = other(cluster)
    assert move(cluster, target.path) == "NONE"
    cluster.until(lambda: home(cluster) is target)


def test_a_fault_in_one_move_ends_no_other_one(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster(directories=2)
    targets = {}
    for topic in ("t", "u"):
        cluster.create_topic(topic)
        cluster.produce([b"x"], topic=topic)
        targets[topic] = other(cluster, topic)
    moves = cluster.broker().moves
    step, faults = moves._step, list[Any]()

    def fail_once(one: Any) -> int:
        if len(moves.describe()) == 2 and not faults:
            faults.append(one)
            raise RuntimeError("a fault of the program")
        if faults:
            return step(one)
        one.due_ms = cluster.sim.world.now_ms + 10
        return 0

    monkeypatch.setattr(moves, "_step", fail_once)
    with pytest.raises(RuntimeError):
        for topic, target in targets.items():
            move(cluster, target.path, topic)
        cluster.run(1000)
    cluster.until(lambda: all(home(cluster, topic) is there for topic, there in targets.items()))


def test_metadata_with_a_replica_elsewhere_learn_its_directory() -> None:
    """As after the recovery of a quorum that has lost what was reported (seed 301697)."""
    cluster = Cluster(directories=2)
    cluster.create_topic("t")
    here, target = home(cluster), other(cluster)
    cluster.until(lambda: assigned(cluster) == here.directory_id)
    cluster.broker().assignments.submit(cluster.partition(1), target.directory_id)
    cluster.until(lambda: assigned(cluster) == target.directory_id)
    cluster.until(lambda: assigned(cluster) == here.directory_id)


def test_an_agreed_assignment_is_sent_again_where_the_metadata_begin_afresh() -> None:
    cluster = Cluster(directories=2)
    cluster.create_topic("t")
    broker, target = cluster.broker(), other(cluster)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(broker.logs.futures, "replace_current", not_yet)
        assert move(cluster, target.path) == "NONE"
        cluster.until(
            lambda: any("agreed" in str(told) for told in broker.moves.describe().values())
        )
        broker.assignments.submit(cluster.partition(1), home(cluster).directory_id)
        cluster.until(lambda: assigned(cluster) != target.directory_id)
        broker.moves.ask_again()
        cluster.until(lambda: assigned(cluster) == target.directory_id)
    cluster.until(lambda: home(cluster) is target)
    assert assigned(cluster) == target.directory_id
