"""A real disk that is full, and one that fails, take one log directory offline and nothing else; one that
hangs in a write holds its node up, which says where, and the others continue.

Node 1 has two log directories, the second on a small file system; three nodes, acks=all.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import confluent_kafka
import pytest

from barnabas.client.admin import NewTopic
from barnabas.host.client import connect
from barnabas.types import TopicPartition
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.describe_log_dirs_request import DescribeLogDirsRequest
from barnabas.wire.messages.describe_log_dirs_response import (
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
)
from bench.wire import ask
from tests.process.small_disks import failing_disk, frozen, grow, memory_disk, plain_disk
from tests.trio import Trio

pytestmark = [pytest.mark.process, pytest.mark.slow, pytest.mark.timeout(240)]
SETTINGS = {"offsets.topic.num.partitions": "1", "log.segment.bytes": str(8 << 20)}
NODE = 1
VALUE = b"v" * 250_000
KAFKA_STORAGE_ERROR = ErrorCode.KAFKA_STORAGE_ERROR


class Topics:
    """Topics of one partition on `replicas`; found by where node 1 has put them."""

    def __init__(self, trio: Trio, small: Path, replicas: list[int]) -> None:
        self.leader = replicas[0]
        names = [f"t{n}" for n in range(6)]
        with connect(trio.bootstrap) as client:
            configs = {"min.insync.replicas": "2"}
            topics = [NewTopic(name, -1, -1, configs, {0: replicas}) for name in names]
            for outcome in client.call(client.admin.create_topics(topics)):
                outcome.check()
        trio.wait_for_isr(names)
        here = {topic.name for topic in directories(trio)[0][str(small)].topics}
        self.on_small = sorted(here & set(names))
        self.elsewhere = sorted(set(names) - here)
        assert self.on_small and self.elsewhere


def directories(trio: Trio) -> tuple[dict[str, DescribeLogDirsResult], dict[str, str]]:
    """As node 1 describes them, and why some are offline."""
    server = str(trio.nodes[NODE].client_endpoint)
    answer = ask(server, DescribeLogDirsRequest(topics=None), 4, DescribeLogDirsResponse)
    assert answer.error_code == 0
    why = {offline.log_dir: offline.reason for offline in answer.offline_reasons}
    return {result.log_dir: result for result in answer.results}, why


@contextmanager
def running_with(directory: Path, small: Path, *instead: Path) -> Iterator[Trio]:
    """`instead` of its own directory, which holds the metadata log alone."""
    trio = Trio(directory, SETTINGS)
    properties = trio.nodes[NODE].properties
    text = properties.read_text()
    line = f"log.dirs={trio.data(NODE)}"
    assert line in text
    homes = ",".join(map(str, [*(instead or [trio.data(NODE)]), small]))
    metadata = f"metadata.log.dir={trio.data(NODE)}"
    properties.write_text(text.replace(line, f"log.dirs={homes}\n{metadata}"))
    trio.format("barnabas")
    with trio.running("barnabas"):
        trio.wait_for_brokers()
        yield trio


def write(trio: Trio, topic: str, first: int, count: int) -> list[int]:
    """Numbered records, all of which the client gets acknowledged, with whatever retries."""
    done: list[int] = []
    failed: list[str] = []

    def take(error: confluent_kafka.KafkaError | None, message: confluent_kafka.Message) -> None:
        if error is None:
            done.append(int((message.value() or b"").split()[0]))
        else:
            failed.append(str(error))

    producer = confluent_kafka.Producer(
        {
            "bootstrap.servers": trio.bootstrap,
            "enable.idempotence": True,
            "request.timeout.ms": 5000,
            "socket.timeout.ms": 5000,
            "log_level": 0,
        }
    )
    for number in range(first, first + count):
        producer.produce(topic, b"%d " % number + VALUE, partition=0, on_delivery=take)
        producer.poll(0)
    assert producer.flush(120) == 0 and not failed, failed[:3]
    return done


def read(trio: Trio, topic: str) -> list[int]:
    with connect(trio.bootstrap) as client:
        return [int((record.value or b"").split()[0]) for record in client.read([topic])]


def check_offline(trio: Trio, topics: Topics, small: Path, reason: str) -> None:
    """The directory and its partitions are gone from node 1, and only they."""
    trio.wait_for(lambda: "log.directory_offline" in trio.output(NODE), "the directory to fail")
    [line] = [x for x in trio.output(NODE).splitlines() if "log.directory_offline" in x]
    assert str(small) in line and reason in line, line
    described, why = directories(trio)
    assert described[str(small)].error_code == KAFKA_STORAGE_ERROR
    assert list(why) == [str(small)] and reason in why[str(small)]
    kept = described[str(trio.data(NODE))]
    assert kept.error_code == 0
    assert set(topics.elsewhere) <= {topic.name for topic in kept.topics}

    def moved() -> bool:
        with connect(trio.bootstrap) as client:
            views = [client.topic(name).partitions[0] for name in topics.on_small]
        return all(sorted(p.isr) == [2, 3] and p.leader in (2, 3) for p in views)

    trio.wait_for(moved, "others to lead what was on the failed directory")
    with connect(trio.bootstrap) as client:
        for name in topics.elsewhere:
            partition = client.topic(name).partitions[0]
            assert partition.leader == topics.leader and sorted(partition.isr) == [1, 2, 3]


@pytest.mark.parametrize("replicas", [[1, 2, 3], [2, 1, 3]], ids=["of a leader", "of a follower"])
def test_a_full_disk_takes_its_directory_offline_and_nothing_else(
    tmp_path: Path, replicas: list[int]
) -> None:
    with memory_disk(tmp_path / "small", 32) as small, running_with(tmp_path / "n", small) as trio:
        topics = Topics(trio, small, replicas)
        full, other = topics.on_small[0], topics.elsewhere[0]
        acknowledged = write(trio, full, 0, 180)  # 45 MB
        check_offline(trio, topics, small, "No space left on device")
        # A leader does not offer, nor wait for, a replica whose directory is gone.
        assert sum(trio.output(n).count("isr.change_refused") for n in trio.nodes) < 4
        beside = write(trio, other, 0, 20)
        assert read(trio, full) == acknowledged == list(range(180))
        assert read(trio, other) == beside == list(range(20))
        # With room again, and started again, it is a replica like before.
        trio.terminate(NODE)
        grow(small, 96)
        trio.start(NODE, "barnabas")
        trio.wait_for_isr([*topics.on_small, *topics.elsewhere])
        acknowledged += write(trio, full, 180, 10)
        assert read(trio, full) == acknowledged
        assert directories(trio)[0][str(small)].error_code == 0
        trio.wait_for(lambda: same_files(trio, small, full), "equal replicas")


def test_a_broker_whose_directories_all_fail_ends_and_others_lead(tmp_path: Path) -> None:
    with (
        memory_disk(tmp_path / "one", 32) as one,
        memory_disk(tmp_path / "two", 32) as two,
        running_with(tmp_path / "n", two, one) as trio,
    ):
        topics = Topics(trio, two, [1, 2, 3])
        names = [topics.elsewhere[0], topics.on_small[0]]
        acknowledged = {name: write(trio, name, 0, 180) for name in names}  # 45 MB each
        assert trio.wait_for_end(NODE) != 0
        assert "every log directory has failed" in trio.output(NODE)

        def others_lead() -> bool:
            with connect(str(trio.nodes[2].client_endpoint)) as client:
                fenced = [b.node_id for b in client.describe_cluster().brokers if b.fenced]
                views = [client.topic(name).partitions[0] for name in names]
            return fenced == [NODE] and all(
                sorted(p.isr) == [2, 3] and p.leader in (2, 3) for p in views
            )

        trio.wait_for(others_lead, "the others to lead everything")
        for name in names:
            acknowledged[name] += write(trio, name, 180, 5)
            assert read(trio, name) == acknowledged[name] == list(range(185))
        # With room again it is a broker like before.
        grow(one, 96)
        grow(two, 96)
        trio.start(NODE, "barnabas")
        trio.wait_for_isr([*topics.on_small, *topics.elsewhere])
        for name in names:
            acknowledged[name] += write(trio, name, 185, 5)
            assert read(trio, name) == acknowledged[name]
        trio.wait_for(lambda: same_files(trio, two, names[1]), "equal replicas")


def same_files(trio: Trio, small: Path, topic: str) -> bool:
    at = TopicPartition(topic, 0)
    roots = [small, trio.data(2), trio.data(3)]
    logs = {
        b"".join(f.read_bytes() for f in sorted((root / f"{at.topic}-0").glob("*.log")))
        for root in roots
    }
    return len(logs) == 1


def test_a_disk_that_loses_what_it_took_goes_offline_at_its_next_sync(tmp_path: Path) -> None:
    """The page cache took it, the device did not: only fsync says so."""
    with (
        failing_disk(tmp_path / "bad", 256, 24) as small,
        running_with(tmp_path / "n", small) as trio,
    ):
        topics = Topics(trio, small, [1, 2, 3])
        acknowledged = write(trio, topics.on_small[0], 0, 240)  # 60 MB, synced segment by segment
        check_offline(trio, topics, small, "syncing")
        beside = write(trio, topics.elsewhere[0], 0, 20)
        assert read(trio, topics.on_small[0]) == acknowledged == list(range(240))
        assert read(trio, topics.elsewhere[0]) == beside


def test_a_disk_that_hangs_in_a_write_holds_its_node_up_which_says_where(tmp_path: Path) -> None:
    """No write of any kind comes back from a frozen file system, not even to a kill -9."""
    with (
        plain_disk(tmp_path / "small", 128) as small,
        running_with(tmp_path / "n", small) as trio,
    ):
        topics = Topics(trio, small, [1, 2, 3])
        hung, other = topics.on_small[0], topics.elsewhere[0]
        acknowledged = write(trio, hung, 0, 10)
        with frozen(small):
            acknowledged += write(trio, hung, 10, 20)
            beside = write(trio, other, 0, 10)
            [line] = [x for x in trio.output(NODE).splitlines() if "loop.stalled" in x]
            assert str(small / f"{hung}-0") in line, line
            with connect(str(trio.nodes[2].client_endpoint)) as client:
                assert client.topic(hung).partitions[0].leader in (2, 3)
        trio.wait_for(lambda: "loop.resumed" in trio.output(NODE), "the node to resume")
        trio.wait_for_isr([hung, other])
        assert read(trio, hung) == acknowledged == list(range(30))
        assert read(trio, other) == beside
        trio.wait_for(lambda: same_files(trio, small, hung), "equal replicas")
