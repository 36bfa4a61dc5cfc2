"""Log directories that are not there when a broker starts: what they hold is not made anew, empty, in their
place; and where it has to be, nobody takes it for what was there."""

from __future__ import annotations

import pytest

from barnabas.log.directories import UNREADABLE
from barnabas.metadata.topic import PartitionState
from barnabas.types import TopicPartition
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.describe_log_dirs_request import DescribeLogDirsRequest
from tests.unit.broker.test_stray_logs import start, stop
from tests.unit.broker.world import Cluster, code


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


@pytest.mark.parametrize("is_away", [True, False])
def test_a_clean_end_is_not_claimed_while_a_directory_is_away(is_away: bool) -> None:
    """A replica whose directory the controller was not told is made anew: it must not be eligible then."""
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
