"""Fetches that name hundreds of partitions: followed in parts, answered as a whole, like any other."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from barnabas.broker.cooperative_jobs import CooperativeJobs, OnError
from barnabas.broker.fetch.fetch_read import NO_DIVERGENCE, remember
from barnabas.broker.partitions.partition import Partition
from barnabas.client.network.connection import ChannelError
from barnabas.limits import FetchBounds, NodeBounds
from barnabas.replication.sessions import FetchSession, SessionPartition
from barnabas.sim.cluster import CLIENT_PORT
from barnabas.types import Endpoint
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from barnabas.wire.messages.fetch_response import FetchResponse, PartitionData
from barnabas.wire.request import Working
from tests.unit.broker.world import Cluster, values_of

pytestmark = pytest.mark.slow

MANY = 250


@pytest.fixture(scope="module")
def module_cluster() -> Cluster:
    cluster = Cluster(1)
    cluster.create_topic("a", MANY, 1)
    cluster.create_topic("b", MANY, 1)
    cluster.until(lambda: not len(cluster.broker().replicas.apply_queue))
    return cluster


@pytest.fixture
def shared(module_cluster: Cluster) -> Iterator[Cluster]:
    yield module_cluster
    assert module_cluster.broker().slices.under_way == 0


def ends(cluster: Cluster) -> dict[tuple[str, int], int]:
    table = cluster.broker().replicas
    return {
        (name, index): table.by_name[name, index].high_watermark
        for name in "ab"
        for index in range(MANY)
    }


def request(
    cluster: Cluster,
    *,
    session: tuple[int, int] = (0, 0),
    max_wait_ms: int = 0,
    names: str = "ab",
    indexes: range = range(MANY),
) -> FetchRequest:
    """From the end of every log."""
    at = ends(cluster)
    ids = cluster.broker().image.topics_by_name
    return FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=1,
        max_bytes=1 << 24,
        session_id=session[0],
        session_epoch=session[1],
        topics=[
            FetchTopic(
                topic=name,
                topic_id=ids[name].id,
                partitions=[
                    FetchPartition(
                        partition=index, fetch_offset=at[name, index], partition_max_bytes=1 << 20
                    )
                    for index in indexes
                ],
            )
            for name in names
        ],
    )


def told(cluster: Cluster, response: FetchResponse) -> dict[tuple[str, int], PartitionData]:
    assert response.error_code == 0
    names = {topic.id: name for name, topic in cluster.broker().image.topics_by_name.items()}
    found = [
        (names[t.topic_id], p.partition_index, p) for t in response.responses for p in t.partitions
    ]
    assert len({entry[:2] for entry in found}) == len(found)
    return {(name, index): data for name, index, data in found}


def values(data: dict[tuple[str, int], PartitionData]) -> dict[tuple[str, int], list[bytes]]:
    return {key: values_of(found) for key, found in data.items() if found.records}


def test_a_full_answer_names_every_partition_and_its_session_continues(shared: Cluster) -> None:
    before = request(shared)
    shared.produce([b"x"], topic="a", index=7)
    shared.produce([b"y"], topic="b", index=249)
    answer = shared.ask_later(before)
    shared.until(lambda: shared.broker().slices.under_way)
    assert not answer.is_there
    shared.until(lambda: answer.is_there)
    data = told(shared, answer.value)
    assert len(data) == 2 * MANY
    assert values(data) == {("a", 7): [b"x"], ("b", 249): [b"y"]}
    assert len(answer.value.responses) == 2
    session = answer.value.session_id
    moved = request(shared, session=(session, 1), names="a", indexes=range(7, 8))
    moved.topics += request(shared, names="b", indexes=range(249, 250)).topics  # type: ignore[operator]
    shared.produce([b"z"], topic="b", index=3)
    data = told(shared, shared.ask(moved))
    assert values(data) == {("b", 3): [b"z"]}


def test_it_waits_for_news_and_then_names_all(shared: Cluster) -> None:
    answer = shared.ask_later(request(shared, max_wait_ms=5_000), purpose="waits")
    shared.run(50)
    assert not answer.is_there and not shared.broker().slices.under_way
    shared.produce([b"news"], topic="b", index=100)
    shared.until(lambda: answer.is_there)
    data = told(shared, answer.value)
    assert len(data) == 2 * MANY
    assert values(data) == {("b", 100): [b"news"]}


def test_its_time_is_over_without_news(shared: Cluster) -> None:
    began = shared.world.now_ms
    data = told(shared, shared.ask(request(shared, max_wait_ms=300)))
    assert 300 <= shared.world.now_ms - began < 400
    assert len(data) == 2 * MANY and not values(data)


def test_appends_during_the_read_are_reported(shared: Cluster) -> None:
    """Of a partition that was passed already: with this answer or with the next one."""
    answer = shared.ask_later(request(shared))
    shared.until(lambda: shared.broker().slices.under_way)
    partition = shared.partition(1, "a", 0)
    batch = shared.produce_request([b"late"], topic="a").topic_data[0].partition_data[0].records
    for _ in range(200):
        if answer.is_there:
            break
        assert batch is not None and not isinstance(batch, list)
        partition.append(batch, acks_all=True)
        shared.world.step()
    first = told(shared, answer.value)["a", 0]
    follow = request(shared, session=(answer.value.session_id, 1), names="")
    if first.high_watermark < partition.high_watermark:
        got = told(shared, shared.ask(follow))
        assert got["a", 0].high_watermark == partition.high_watermark


def test_a_followers_mark_that_moves_during_the_read_is_reported(shared: Cluster) -> None:
    """No append would tell it again."""
    session = FetchSession[Partition](2, uses_ids=True, now_ms=0.0)
    partition = shared.partition(1, "a", 1)
    watched = SessionPartition(session, (partition.topic_id, 1), "")
    watched.partition, watched.fetch_offset = partition, partition.high_watermark
    session.mark(watched)
    data = PartitionData(
        high_watermark=partition.high_watermark - 1,
        log_start_offset=0,
        diverging_epoch=NO_DIVERGENCE,
        records=b"",
    )
    remember(session, watched, data)
    assert watched in session.dirty
    data.high_watermark = partition.high_watermark
    remember(session, watched, data)
    assert watched not in session.dirty


def test_a_fetch_without_a_session_keeps_nothing(shared: Cluster) -> None:
    known = len(shared.broker().fetches.sessions)
    watchers = len(shared.partition(1, "a", 5).high_watermark_watchers)
    response = shared.ask(request(shared, session=(0, -1)))
    assert response.session_id == 0
    assert len(told(shared, response)) == 2 * MANY
    assert len(shared.broker().fetches.sessions) == known
    assert len(shared.partition(1, "a", 5).high_watermark_watchers) == watchers


@pytest.mark.parametrize("session", [(0, 0), (0, -1)])
def test_a_connection_that_closes_meanwhile_leaves_nothing_that_waits(
    shared: Cluster, session: tuple[int, int]
) -> None:
    watchers = len(shared.partition(1, "b", 249).high_watermark_watchers)
    answer = shared.ask_later(request(shared, session=session, max_wait_ms=200), purpose="gone")
    shared.until(lambda: shared.broker().slices.under_way)
    shared.channels.disconnect(Endpoint("n1", CLIENT_PORT), "gone")
    shared.run(1_000)
    assert isinstance(answer.value, ChannelError)
    if session[1] < 0:
        assert len(shared.partition(1, "b", 249).high_watermark_watchers) == watchers


def test_a_request_for_a_session_that_is_not_ready_starts_a_new_one(shared: Cluster) -> None:
    """It asked over another connection before its first answer: it must not lack what it named."""
    first = shared.ask(request(shared))
    large = shared.ask_later(request(shared, session=(first.session_id, 1)), purpose="one")
    shared.until(lambda: shared.broker().slices.under_way)
    other = request(shared, session=(first.session_id, 2), names="")
    refused = shared.ask_later(other, purpose="other")
    shared.until(lambda: refused.is_there)
    if not large.is_there:
        assert refused.value.error_code == ErrorCode.INVALID_FETCH_SESSION_EPOCH
    shared.until(lambda: large.is_there)


def test_a_new_full_fetch_ends_the_one_under_way(shared: Cluster) -> None:
    first = shared.ask(request(shared))
    old = shared.ask_later(request(shared, session=(first.session_id, 1)), purpose="one")
    shared.until(lambda: shared.broker().slices.under_way)
    new = shared.ask_later(request(shared, session=(first.session_id, 0)), purpose="other")
    shared.until(lambda: old.is_there and new.is_there)
    assert len(told(shared, new.value)) == 2 * MANY
    assert shared.broker().fetches.sessions.get(first.session_id) is None


def test_a_fault_in_the_middle_is_logged_and_ends_the_session(
    shared: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = 0
    readable = Partition.readable_log

    def failing(self: Partition, *given: object, **how: object) -> object:
        nonlocal calls
        calls += 1
        if calls == 300:
            raise RuntimeError("a fault")
        return readable(self, *given, **how)  # type: ignore[arg-type]

    known = len(shared.broker().fetches.sessions)
    monkeypatch.setattr(Partition, "readable_log", failing)
    response = shared.ask(request(shared))
    assert response.error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert len(shared.broker().fetches.sessions) == known
    assert len(told(shared, shared.ask(request(shared)))) == 2 * MANY


@pytest.mark.parametrize("session", [(0, 0), (0, -1)])
def test_a_partition_that_loses_its_offset_before_the_read_is_the_only_error(
    session: tuple[int, int],
) -> None:
    """They were not in memory when it was looked at, and DeleteRecords came before the disk was asked."""
    cluster = Cluster(1)
    for name in "ab":
        cluster.create_topic(name, MANY, 1)
    cluster.until(lambda: not len(cluster.broker().replicas.apply_queue))
    asked = request(cluster, session=session)
    for value in (b"x", b"y", b"z"):
        cluster.produce([value], topic="a", index=0)
    cluster.produce([b"news"], topic="b", index=249)
    disk = cluster.sim.nodes[1].machine.disk
    disk.cold_read_rate, before = 1.0, disk.totals["cold_reads"]
    answer = cluster.ask_later(asked)
    cluster.until(lambda: disk.totals["cold_reads"] > before)
    assert cluster.broker().slices.under_way
    cluster.partition(1, "a", 0).delete_records(2)
    cluster.until(lambda: answer.is_there)
    data = told(cluster, answer.value)
    assert data.pop(("a", 0)).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert {found.error_code for found in data.values()} == {0}
    assert values(data) == {("b", 249): [b"news"]}


def test_partitions_that_are_not_here_have_their_error(shared: Cluster) -> None:
    asked = request(shared)
    partitions = list(asked.topics[0].partitions)
    partitions[30] = FetchPartition(partition=MANY + 9, fetch_offset=0, partition_max_bytes=1)
    asked.topics[0].partitions = partitions
    data = told(shared, shared.ask(asked))
    wrong = data.pop(("a", MANY + 9))
    assert wrong.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert {found.error_code for found in data.values()} == {0}
    assert len(data) == 2 * MANY - 1


def test_followers_of_hundreds_of_partitions_keep_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Their requests are followed in parts on the leader's side: places are noted all the same."""
    jobs: list[object] = []
    run = CooperativeJobs.run

    def counted(
        slices: CooperativeJobs, steps: Iterator[object], on_error: OnError, request: Working | None
    ) -> None:
        jobs.append(steps)
        run(slices, steps, on_error, request)

    monkeypatch.setattr(CooperativeJobs, "run", counted)
    cluster = Cluster(3, bounds=NodeBounds(FetchBounds(inline_max=5)))
    cluster.create_topic("t", 300, 3)
    cluster.until(lambda: all(not len(cluster.broker(n).replicas.apply_queue) for n in cluster.ids))
    for index in range(0, 300, 30):
        assert cluster.produce([b"x"], index=index).error_code == 0
    cluster.until(
        lambda: all(
            cluster.partition(n, "t", index).high_watermark == 1
            for n in cluster.ids
            for index in range(0, 300, 30)
        )
    )
    for index in range(300):
        leader = cluster.partition(cluster.leader("t", index), "t", index).leader
        assert leader is not None and len(leader.isr) == 3
    assert jobs
