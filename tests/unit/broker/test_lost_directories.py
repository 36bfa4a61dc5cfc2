"""Log directories that are not there when a broker starts: what they hold is not created
again, empty, in their place; and where it has to be, no broker takes it for what was there."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from barnabas.broker.replicas.directory_assignments import DirectoryAssignments
from barnabas.log.directories.log_directories import UNREADABLE
from barnabas.metadata.features import DIRECTORIES_SINCE, ELR_SINCE, METADATA_VERSION
from barnabas.metadata.image.topic import PartitionState
from barnabas.types import DIRECTORY_LOST, DIRECTORY_UNASSIGNED, TopicPartition
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.describe_log_dirs_request import DescribeLogDirsRequest
from barnabas.wire.messages.update_features_request import FeatureUpdateKey, UpdateFeaturesRequest
from tests.unit.broker.test_log_dir_moves import move, not_yet
from tests.unit.broker.test_stray_logs import start, stop
from tests.unit.broker.world import Cluster, code, name


def state(cluster: Cluster, index: int) -> PartitionState:
    return cluster.broker(cluster.ids[0]).image.topics_by_name["t"].partition(index)


def home(cluster: Cluster, node: int, index: int) -> str:
    directory = cluster.broker(node).logs.directory_of(TopicPartition("t", index))
    assert directory is not None
    return directory.path


@pytest.mark.parametrize("clean", [True, False])
def test_a_replica_in_a_directory_that_cannot_be_read_stays_offline(clean: bool) -> None:
    cluster = Cluster(directories=2)
    cluster.create_topic("t", partitions=6, replication=1)
    index = next(at for at in range(6) if home(cluster, 1, at) == "/data2")
    values = [b"acknowledged %d" % at for at in range(10)]
    for value in values:
        assert code(cluster.produce([value], index=index).error_code) == "NONE"
    disk = cluster.sim.nodes[1].machine.disk
    if clean:
        stop(cluster, 1)
    else:
        cluster.sim.nodes[1].kill()
    disk.fail_call(1, for_good=True, prefix="/data2")
    start(cluster, 1)
    cluster.run(2000)
    assert cluster.partition(1, index=index).log is None
    assert state(cluster, index).leader == -1
    answer = cluster.ask(DescribeLogDirsRequest(topics=None))
    codes = {result.log_dir: result.error_code for result in answer.results}
    assert codes == {"/data": 0, "/data2": ErrorCode.KAFKA_STORAGE_ERROR}
    assert [(it.log_dir, it.reason) for it in answer.offline_reasons] == [("/data2", UNREADABLE)]
    stop(cluster, 1)
    disk.fail_call(0)
    start(cluster, 1)
    cluster.until(lambda: state(cluster, index).leader == 1)
    assert cluster.values(cluster.fetch(0, index=index)) == values
    assert not any(path.endswith("-stray") for path in disk.names)


def test_a_volume_without_a_size_hides_no_other_volume() -> None:
    """A directory is online until something that is written or read there fails."""
    cluster = Cluster(directories=2)
    cluster.create_topic("t", partitions=6, replication=1)
    cluster.run(2000)
    disk = cluster.sim.nodes[1].machine.disk
    disk.fail_call(1, for_good=True, prefix="/data2")
    answer = cluster.ask(DescribeLogDirsRequest(topics=None))
    assert answer.error_code == 0
    first, second = answer.results
    assert (first.log_dir, first.error_code, len(first.topics[0].partitions)) == ("/data", 0, 3)
    assert (second.log_dir, second.error_code) == ("/data2", ErrorCode.KAFKA_STORAGE_ERROR)
    assert not second.topics


def raise_level(cluster: Cluster) -> None:
    """To the one that knows of log directories."""
    raised = FeatureUpdateKey(
        feature=METADATA_VERSION, max_version_level=DIRECTORIES_SINCE, upgrade_type=1
    )
    assert not cluster.ask(UpdateFeaturesRequest(feature_updates=[raised])).error_code


def is_known_to(cluster: Cluster, broker: int, at: PartitionState) -> bool:
    return at.directory_of(broker) in cluster.broker().image.brokers[broker].directories


def led_in(cluster: Cluster, node: int, path: str) -> list[int]:
    found = [i for i in range(8) if home(cluster, node, i) == path]
    led = [i for i in found if state(cluster, i).leader == node]
    assert led
    return led


@pytest.mark.slow
def test_a_lost_directory_loses_its_leaderships_once_the_level_has_directories() -> None:
    """It had failed before, without a controller to report it to; the replicas' directory stayed unknown,
    and it led."""
    cluster = Cluster(2, directories=2, level=DIRECTORIES_SINCE - 1)
    cluster.create_topic("t", partitions=8, replication=2)
    led = led_in(cluster, 2, "/data2")
    gone = [i for i in range(8) if home(cluster, 2, i) == "/data2"]
    lost = next(d for d in cluster.broker(2).logs.directories if d.path == "/data2")
    disk = cluster.sim.nodes[2].machine.disk
    cluster.produce([b"acknowledged"], index=led[0])
    disk.fail_call(1, for_good=True, prefix="/data2")
    cluster.produce([b"x"], index=led[0], acks=1)
    assert not lost.is_online
    cluster.run(3000)
    raise_level(cluster)
    cluster.until(lambda: all(state(cluster, i).leader == 1 for i in led))
    cluster.until(lambda: all(state(cluster, i).isr == (1,) for i in gone))
    assert all(state(cluster, i).directory_of(2) == lost.directory_id for i in gone)
    assert all(set(state(cluster, i).isr) == {1, 2} for i in range(8) if i not in gone)
    stop(cluster, 2)
    disk.fail_call(0)
    start(cluster, 2)
    cluster.until(lambda: all(set(state(cluster, i).isr) == {1, 2} for i in range(8)))
    assert all(is_known_to(cluster, 2, state(cluster, i)) for i in range(8))


def test_a_directory_that_fails_after_the_level_rose_leads_nothing() -> None:
    cluster = Cluster(2, directories=2, level=DIRECTORIES_SINCE - 1)
    cluster.create_topic("t", partitions=8, replication=2)
    assert not cluster.broker().image.brokers[1].directories
    raise_level(cluster)
    told = [(broker, index) for broker in (1, 2) for index in range(8)]
    cluster.until(lambda: all(is_known_to(cluster, b, state(cluster, i)) for b, i in told))
    led = led_in(cluster, 2, "/data2")
    epochs = {broker: known.epoch for broker, known in cluster.broker().image.brokers.items()}
    cluster.sim.nodes[2].machine.disk.fail_call(1, for_good=True, prefix="/data2")
    cluster.produce([b"x"], index=led[0], acks=1)
    cluster.until(lambda: all(state(cluster, i).leader == 1 for i in led))
    assert epochs == {b: known.epoch for b, known in cluster.broker().image.brokers.items()}


@contextmanager
def a_partition_of_unknown_directory() -> Iterator[tuple[Cluster, int]]:
    """One that broker 2, which has it in /data2, and broker 3 hold: without ELR, and while this lasts the
    controller does not learn in which directory it is."""
    cluster = Cluster(3, directories=2, level=ELR_SINCE - 1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(DirectoryAssignments, "submit", lambda *_: None)
        cluster.create_topic("t", partitions=12, replication=2)
        both = [i for i in range(12) if set(state(cluster, i).replicas) == {2, 3}]
        yield cluster, next(i for i in both if home(cluster, 2, i) == "/data2")


@pytest.mark.slow
def test_a_replica_of_unknown_directory_is_not_created_beside_an_offline_one() -> None:
    """The broker had written to it before the controller heard where it was (seed 101173)."""
    with a_partition_of_unknown_directory() as (cluster, index):
        assert state(cluster, index).directory_of(2) == DIRECTORY_UNASSIGNED
        assert code(cluster.produce([b"acknowledged"], index=index).error_code) == "NONE"
        cluster.sim.nodes[3].kill()
        cluster.until(lambda: state(cluster, index).isr == (2,))
        stop(cluster, 2)
    disk = cluster.sim.nodes[2].machine.disk
    disk.fail_call(1, for_good=True, prefix="/data2")
    start(cluster, 3)
    start(cluster, 2)
    cluster.until(lambda: state(cluster, index).directory_of(2) == DIRECTORY_LOST)
    cluster.run(1000)
    assert (state(cluster, index).leader, state(cluster, index).isr) == (-1, (2,))
    assert cluster.partition(2, index=index).log is None
    stop(cluster, 2)
    disk.fail_call(0)
    start(cluster, 2)
    cluster.until(lambda: state(cluster, index).leader == 2)
    assert cluster.values(cluster.fetch(0, index=index)) == [b"acknowledged"]
    cluster.until(lambda: set(state(cluster, index).isr) == {2, 3})


@pytest.mark.slow
@pytest.mark.parametrize("is_replaced", [False, True])
def test_a_replica_that_is_in_none_of_its_former_directories_was_never_created(
    is_replaced: bool,
) -> None:
    """Its broker died before it had made it (seed 201). Where a directory is new it may have been in the one
    before, and no other replica was in sync."""
    with a_partition_of_unknown_directory() as (cluster, index):
        cluster.sim.nodes[3].kill()
        cluster.until(lambda: state(cluster, index).isr == (2,))
        cluster.sim.nodes[2].kill()
    disk = cluster.sim.nodes[2].machine.disk
    made = f"/data2/t-{index}"
    for path in [p for p in disk.names if p == made or p.startswith(f"{made}/")]:
        del disk.names[path]
    disk.fail_call(1, for_good=True, prefix="/data2")
    start(cluster, 2)
    cluster.until(lambda: state(cluster, index).directory_of(2) == DIRECTORY_LOST)
    stop(cluster, 2)
    disk.fail_call(0)
    if is_replaced:
        for path in [p for p in disk.names if p.startswith("/data2/") and "/t-" in p]:
            del disk.names[path]
    start(cluster, 2)
    if is_replaced:
        cluster.run(1000)
        assert state(cluster, index).leader == -1
    else:
        cluster.until(lambda: state(cluster, index).leader == 2)


@pytest.mark.slow
def test_a_replica_outside_the_isr_is_created_where_its_directory_is_unknown() -> None:
    """A directory is away, and the replica may be there; but it was not in sync (seed 200412)."""
    cluster = Cluster(3, directories=2)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(DirectoryAssignments, "submit", lambda *_: None)
        cluster.create_topic("t", partitions=6, replication=3)
        index = next(i for i in range(6) if home(cluster, 3, i) == "/data2")
        stop(cluster, 3)
    disk = cluster.sim.nodes[3].machine.disk
    disk.fail_call(1, for_good=True, prefix="/data2")
    assert code(cluster.produce([b"acknowledged"], index=index).error_code) == "NONE"
    start(cluster, 3)
    cluster.until(lambda: cluster.partition(3, index=index).log is not None)
    cluster.until(lambda: 3 in state(cluster, index).isr)
    assert home(cluster, 3, index) == "/data"


@pytest.mark.parametrize("is_away", [True, False])
def test_a_clean_end_is_not_claimed_while_a_directory_is_away(is_away: bool) -> None:
    """A replica whose directory the controller does not know is created again: it is not eligible then."""
    cluster = Cluster(directories=2)
    disk = cluster.sim.nodes[1].machine.disk
    stop(cluster, 1)
    if is_away:
        disk.fail_call(1, for_good=True, prefix="/data2")
    start(cluster, 1)
    assert (cluster.broker(1)._identity().previous_broker_epoch == -1) is is_away


def test_a_log_goes_where_the_disk_is_well_if_its_directory_fails_as_it_is_made() -> None:
    """The controller knew of no directory of the replica, which led on with KAFKA_STORAGE_ERROR."""
    cluster = Cluster(directories=2)
    cluster.sim.nodes[1].machine.disk.fail_call(1, for_good=True, prefix="/data2/t-")
    cluster.create_topic("t", partitions=6, replication=1)
    failed = cluster.broker(1).logs.directories[1]
    assert not failed.is_online
    for index in range(6):
        assert home(cluster, 1, index) == "/data"
        assert code(cluster.produce([b"a"], index=index).error_code) == "NONE"


@pytest.mark.slow
def test_a_future_log_in_place_of_a_lost_log_is_not_in_sync() -> None:
    """The controller had agreed to the move, and the copy lacked what was acknowledged last. Then the broker
    shut down cleanly, and was started without the directory that the replica was to leave."""
    cluster = Cluster(nodes=3, directories=2)
    cluster.create_topic("t", replication=3)
    node = next(n for n in cluster.ids if n != cluster.leader("t"))
    partition = name("t")
    directories = {d.path: d for d in cluster.broker(node).logs.directories}
    if home(cluster, node, 0) == "/data":
        assert move(cluster, "/data2", node=node) == "NONE"
        cluster.until(lambda: home(cluster, node, 0) == "/data2")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cluster.broker(node).logs.futures, "replace_current", not_yet)
        assert move(cluster, "/data", node=node) == "NONE"
        target = directories["/data"].directory_id
        cluster.until(lambda: state(cluster, 0).directory_of(node) == target)
        cluster.run(600)
        for _ in range(5):
            assert code(cluster.produce([b"acknowledged"]).error_code) == "NONE"
        log, copy = (
            cluster.partition(node).log,
            cluster.broker(node).logs.futures.logs[partition],
        )
        assert log is not None
        cluster.until(lambda: log.log_end_offset == 5, 200)
        assert copy.log_end_offset < 5
        stop(cluster, node)
    cluster.sim.nodes[node].directories = ["/data"]
    cluster.sim.nodes[node].start()
    assert cluster.broker(node).logs.previous_broker_epoch == -1
    start(cluster, node)
    cluster.until(lambda: (log := cluster.partition(node).log) and log.log_end_offset == 5)
