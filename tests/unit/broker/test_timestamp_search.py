"""ListOffsets by timestamp: found on another thread, whatever happens to the log meanwhile."""

from __future__ import annotations

import errno

import pytest

from barnabas.broker.replicas.timestamp_search import Search, _outcome
from barnabas.log.compaction import cleaning_pass
from barnabas.log.compaction.compactor import LocalCompactor
from barnabas.record.batch import seal
from barnabas.record.builder import build_batch
from barnabas.wire.messages.list_offsets_request import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from tests.unit.broker.test_log_dir_moves import home, move, other
from tests.unit.broker.world import Answer, Cluster, code

START = 1_700_000_000_000
MAX_TIMESTAMP = -3


def written(nodes: int = 1) -> Cluster:
    """Batches of three records whose timestamps are 10 ms apart, in many segments."""
    cluster = Cluster(nodes)
    cluster.create_topic(
        "t", replication=nodes, internal_segment_bytes="400",
        message_timestamp_after_max_ms=str(1 << 60),
    )  # fmt: skip
    for at in range(20):
        stamp = START + at * 30
        batch = build_batch(
            [(b"k", b"v" * 20, (), stamp + 10 * i) for i in range(3)], timestamp_ms=stamp
        )
        assert cluster.produce([], batch=batch).error_code == 0
    return cluster


def ask(cluster: Cluster, *timestamps: int, node: int | None = None) -> Answer:
    request = ListOffsetsRequest(
        topics=[
            ListOffsetsTopic(
                name="t",
                partitions=[ListOffsetsPartition(partition_index=0, timestamp=t)],
            )
            for t in timestamps
        ]
    )
    return cluster.ask_later(request, cluster.leader("t") if node is None else node)


def found(answer: Answer) -> tuple[str, int, int]:
    data = answer.value.topics[0].partitions[0]
    return code(data.error_code), data.timestamp, data.offset


@pytest.mark.parametrize(
    ("timestamp", "stamp", "offset"),
    [
        (0, START, 0),
        (START + 95, START + 100, 10),
        (START + 590, START + 590, 59),
        (START + 591, -1, -1),
        (MAX_TIMESTAMP, START + 590, 59),
    ],
)
def test_the_first_record_at_or_after_a_timestamp(timestamp: int, stamp: int, offset: int) -> None:
    cluster = written()
    answer = ask(cluster, timestamp)
    cluster.until(lambda: answer.is_there)
    assert found(answer) == ("NONE", stamp, offset)


def test_the_owner_of_the_log_reads_nothing() -> None:
    cluster = written()
    cluster.broker().logs.files.close_all()
    disk = cluster.sim.nodes[1].machine.disk
    owner = cluster.broker().logs.files
    answer = ask(cluster, START + 95)
    cluster.until(lambda: answer.is_there)
    assert found(answer)[2] == 10 and disk.totals["cold_reads"] == 0
    assert len(owner) == 0  # the search has files of its own


def test_records_that_were_deleted_are_not_found() -> None:
    cluster = written()
    log = cluster.partition(1).log
    assert log is not None
    cluster.partition(1).delete_records(40)
    answer, newest = ask(cluster, 0), ask(cluster, MAX_TIMESTAMP)
    cluster.until(lambda: answer.is_there and newest.is_there)
    assert found(answer) == ("NONE", START + 400, 40)
    assert found(newest) == ("NONE", START + 590, 59)


def test_a_batch_whose_count_lies_breaks_no_search() -> None:
    cluster = Cluster()
    cluster.create_topic("t", message_timestamp_after_max_ms=str(1 << 60))
    lying = bytearray(build_batch([(None, b"x" * 9)] * 3, timestamp_ms=START))
    lying[23:27], lying[57:61] = (4).to_bytes(4, "big"), (5).to_bytes(4, "big")
    seal(lying)
    assert cluster.produce([], batch=bytes(lying)).error_code == 0
    good = build_batch([(None, b"good")], timestamp_ms=START + 5)
    assert cluster.produce([], batch=good).base_offset == 5
    cluster.partition(1).delete_records(2)
    first, newest = ask(cluster, START + 1), ask(cluster, MAX_TIMESTAMP)
    cluster.until(lambda: first.is_there and newest.is_there)
    assert found(first) == found(newest) == ("NONE", START + 5, 5)


def test_a_log_that_loses_segments_meanwhile_is_searched_again() -> None:
    cluster = written()
    partition = cluster.partition(1)
    log = partition.log
    assert log is not None
    job = log.search_job(0)
    partition.delete_records(40)
    log.delete_old_segments(0)
    with pytest.raises(Exception, match="No such file"):
        job()
    before = ask(cluster, 0)
    cluster.until(lambda: before.is_there)
    assert found(before)[2] == 40


@pytest.mark.slow
def test_a_corrupt_batch_is_no_answer_and_is_mended() -> None:
    cluster = written(nodes=3)
    node = cluster.leader("t")
    log = cluster.partition(node).log
    assert log is not None
    cluster.until(lambda: cluster.partition(node).high_watermark == 60)
    segment = log.segments[1]
    cluster.sim.nodes[node].machine.disk.rot(segment.path, 100)
    wanted = START + 10 * segment.base_offset
    answer = ask(cluster, wanted, node=node)
    cluster.until(lambda: answer.is_there)
    assert found(answer)[0] == "KAFKA_STORAGE_ERROR"
    cluster.until(lambda: cluster.broker(node).repairs.mended == 1)
    answer = ask(cluster, wanted, node=node)
    cluster.until(lambda: answer.is_there)
    assert found(answer) == ("NONE", wanted, segment.base_offset)


def test_a_disk_error_takes_the_directory_offline() -> None:
    cluster = written()
    cluster.broker().logs.files.close_all()
    disk = cluster.sim.nodes[1].machine.disk
    log = cluster.partition(1).log
    assert log is not None
    disk.fail_call(1, for_good=True, prefix=log.directory)
    ask(cluster, 0, node=1)
    cluster.until(lambda: not cluster.sim.nodes[1].is_up)  # its only one


def test_the_disk_error_of_a_log_that_moved_away_is_not_its_new_directorys() -> None:
    cluster = Cluster(directories=2)
    cluster.create_topic("t")
    cluster.produce([b"a record"])

    def elsewhere() -> None:
        target = other(cluster)
        assert move(cluster, target.path) == "NONE"
        cluster.until(lambda: home(cluster) is target)

    elsewhere()  # so that the next one has been cut as often as this one
    search = Search(cluster.partition(1), 0, lambda found: None)
    elsewhere()
    assert not search.on_result(OSError(errno.EIO, "the old disk")), "searched again"
    assert all(directory.is_online for directory in cluster.broker().logs.directories)


@pytest.mark.parametrize("timestamp", [START + 95, START + 300, None])
def test_a_log_that_is_compacted_meanwhile_is_searched_again(timestamp: int | None) -> None:
    """The job knew of an index with more entries than the file has by then: it ended with an error that
    was not expected, and the request was never answered."""
    cluster = written()
    log = cluster.partition(1).log
    assert log is not None
    log.flush()
    log.durability.compactable_to = log.recovery_point
    settled = list[object]()
    search = Search(cluster.partition(1), timestamp, settled.append)
    plan = cleaning_pass.make_plan(log, 0, START)
    compactor = LocalCompactor()
    for group in cleaning_pass.groups_of(plan, compactor.begin(plan, 1000)):
        assert cleaning_pass.swap(log, plan, compactor.clean(group))
    assert not search.on_result(_outcome(search.job)) and search.try_again()
    assert search.on_result(_outcome(search.job))
    assert settled == [log.search_job(timestamp)()] != [None]


def test_the_largest_timestamp_of_records_without_one_is_that_of_the_first() -> None:
    """Kafka 4.3 answers timestamp -1 and the first offset."""
    cluster = Cluster(1)
    cluster.create_topic("t", replication=1)
    assert searched(cluster, MAX_TIMESTAMP) == ("NONE", -1, -1)
    for _ in range(2):
        batch = build_batch([(b"k", b"v", (), -1) for _ in range(2)], timestamp_ms=-1)
        assert cluster.produce([], batch=batch).error_code == 0
    assert searched(cluster, MAX_TIMESTAMP) == ("NONE", -1, 0)
    assert searched(cluster, 0) == ("NONE", -1, -1)


def searched(cluster: Cluster, timestamp: int) -> tuple[str, int, int]:
    answer = ask(cluster, timestamp)
    cluster.until(lambda: answer.is_there)
    return found(answer)
