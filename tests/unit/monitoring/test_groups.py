"""Lag of groups: what a coordinator asks of leaders, and what its page says of their answers."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from barnabas.client.network.connection import ChannelError
from barnabas.monitoring.lag import rounds
from barnabas.monitoring.scrape import Scrapes
from barnabas.monitoring.sources import groups as groups_module
from barnabas.monitoring.sources.groups import GroupSource
from barnabas.record.builder import build_batch
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.fetch_request import FetchRequest
from barnabas.wire.messages.fetch_response import (
    FetchableTopicResponse,
    FetchResponse,
    PartitionData,
)
from barnabas.wire.messages.list_offsets_request import ListOffsetsRequest
from barnabas.wire.messages.list_offsets_response import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from barnabas.wire.messages.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from tests.unit.group.world import WALL_MS, World


class FakeLeaders:
    """Leaders whose partitions have one record of 100 bytes in each batch, a second apart."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.ends_of: dict[tuple[str, int], int] = {}
        self.starts_of: dict[tuple[str, int], int] = {}
        self.asked_ends = self.asked_reads = 0
        self.silent = False
        self.names = False
        """Answers name topics, as Fetch before version 13 does."""

    def ends(
        self, leader: int, request: ListOffsetsRequest, on_done: Callable[[object], None]
    ) -> None:
        self.asked_ends += 1
        if self.silent:
            return
        topics = []
        for topic in request.topics:
            answers = []
            for asked in topic.partitions:
                table = self.ends_of if asked.timestamp == rounds.LATEST else self.starts_of
                index = asked.partition_index
                offset = table.get((topic.name, index), 0)
                answers.append(ListOffsetsPartitionResponse(partition_index=index, offset=offset))
            topics.append(ListOffsetsTopicResponse(name=topic.name, partitions=answers))
        self.world.ports.call_soon(lambda: on_done(ListOffsetsResponse(topics=topics)))

    def reads(self, leader: int, request: FetchRequest, on_done: Callable[[object], None]) -> None:
        self.asked_reads += 1
        if self.silent:
            return
        left = request.max_bytes
        responses = []
        for topic in request.topics:
            [asked] = topic.partitions
            key = (topic.topic, asked.partition)
            data = PartitionData(
                partition_index=asked.partition, high_watermark=self.ends_of.get(key, 0)
            )
            if asked.fetch_offset < self.starts_of.get(key, 0):
                data.error_code = ErrorCode.OFFSET_OUT_OF_RANGE
            elif left > 0:
                data.records = self.batch(asked.fetch_offset)
                left -= 400_000
            found = FetchableTopicResponse(partitions=[data])
            if self.names:
                found.topic = topic.topic
            else:
                found.topic_id = topic.topic_id
            responses.append(found)
        self.world.ports.call_soon(lambda: on_done(FetchResponse(responses=responses)))

    def batch(self, offset: int) -> bytes:
        return build_batch(
            [(None, b"v")], timestamp_ms=WALL_MS + 1_000 * offset, base_offset=offset
        )


class Watched:
    """A coordinator of groups, the leaders around it, and the pages of its broker."""

    def __init__(self) -> None:
        self.world = World()
        self.leaders = FakeLeaders(self.world)
        broker: Any = SimpleNamespace(
            ports=self.world.ports,
            groups=self.world.groups,
            image=self.world.image,
            node_id=9,
            replicas=SimpleNamespace(find=lambda key: (None, ErrorCode.NONE)),
        )
        source = GroupSource(broker, self.leaders)
        self.scrapes = Scrapes(self.world.ports, lambda: [source.steps])  # type: ignore[arg-type]

    def commit(self, group: str, topic: str, **offsets: int) -> None:
        self.world.ask(
            OffsetCommitRequest(
                group_id=group,
                topics=[
                    OffsetCommitRequestTopic(
                        name=topic,
                        topic_id=self.world.image.topics_by_name[topic].id,
                        partitions=[
                            OffsetCommitRequestPartition(
                                partition_index=int(index[1:]), committed_offset=offset
                            )
                            for index, offset in offsets.items()
                        ],
                    )
                ],
            )
        )

    def page(self) -> dict[str, float]:
        """Values by series, of a scrape that begins now."""
        pages: list[Any] = []
        self.scrapes.begin(pages.append)
        self.world.ports.settle()
        if not pages:
            self.world.advance(2 * rounds.ROUND_MS_MAX)
        [found] = pages
        lines = found.text().decode().splitlines()
        return {
            line.rpartition(" ")[0]: float(line.rpartition(" ")[2])
            for line in lines
            if not line.startswith("#")
        }


@pytest.fixture
def watched() -> Watched:
    found = Watched()
    found.world.topic("orders", 3)
    found.leaders.ends_of = {("orders", 0): 5, ("orders", 1): 7, ("orders", 2): 7}
    found.world.advance(20_000)  # so that no record is of the future
    return found


def series(name: str, partition: int, group: str = "spark") -> str:
    labels = f'consumergroup="{group}",topic="orders",partition="{partition}"'
    return f"kafka_consumergroup_{name}{{{labels}}}"


@pytest.mark.parametrize("names", [True, False])
def test_a_group_without_members_shows_its_lag_in_records_and_in_seconds(
    watched: Watched, names: bool
) -> None:
    watched.leaders.names = names
    watched.commit("spark", "orders", p0=3, p1=7)
    watched.world.advance(9_000)
    page = watched.page()
    now_s = watched.world.ports.now / 1000
    assert page[series("current_offset", 0)] == 3
    assert page[series("lag", 0)] == 2 and page[series("lag", 1)] == 0
    assert page[series("lag_seconds", 0)] == pytest.approx(now_s - 3)
    assert page[series("lag_seconds", 1)] == 0
    assert page['kafka_consumergroup_lag_sum{consumergroup="spark",topic="orders"}'] == 2
    assert (
        page['kafka_consumergroup_current_offset_sum{consumergroup="spark",topic="orders"}'] == 10
    )
    assert page['kafka_consumergroup_members{consumergroup="spark"}'] == 0


def test_leaders_are_asked_once_a_second_and_only_for_scrapes(
    watched: Watched,
) -> None:
    watched.commit("spark", "orders", p0=3)
    watched.world.advance(60_000)
    assert watched.leaders.asked_ends == watched.leaders.asked_reads == 0
    for _ in range(3):
        watched.page()
    assert watched.leaders.asked_ends == watched.leaders.asked_reads == 1


def test_a_record_is_read_once_for_as_long_as_the_offset_stays(watched: Watched) -> None:
    watched.commit("spark", "orders", p0=3)
    first = watched.page()[series("lag_seconds", 0)]
    watched.world.advance(5_000)
    assert watched.page()[series("lag_seconds", 0)] == pytest.approx(first + 5)
    assert watched.leaders.asked_ends == 2 and watched.leaders.asked_reads == 1
    watched.commit("spark", "orders", p0=4)
    watched.world.advance(5_000)
    assert watched.page()[series("lag_seconds", 0)] == pytest.approx(first + 9)


def test_partitions_that_an_answer_has_no_room_for_are_asked_for_again(watched: Watched) -> None:
    watched.world.topic("wide", 40)
    watched.leaders.ends_of |= {("wide", index): 9 for index in range(40)}
    watched.commit("spark", "wide", **{f"p{index}": 1 for index in range(40)})
    page = watched.page()
    found = [value for key, value in page.items() if "lag_seconds" in key]
    assert len(found) == 40
    assert watched.leaders.asked_reads == 20  # two batches of 400 kB fill an answer


def test_offsets_of_two_groups_in_one_partition_have_lags_of_their_own(watched: Watched) -> None:
    watched.commit("spark", "orders", p0=3)
    watched.commit("reports", "orders", p0=1)
    page = watched.page()
    ahead, behind = series("lag_seconds", 0), series("lag_seconds", 0, "reports")
    assert page[behind] == pytest.approx(page[ahead] + 2)


def test_records_that_retention_deleted_count_from_the_logs_start(watched: Watched) -> None:
    watched.leaders.starts_of = {("orders", 0): 2}
    watched.commit("spark", "orders", p0=0)
    watched.world.advance(9_000)
    page = watched.page()
    assert page[series("lag", 0)] == 5
    assert page[series("lag_seconds", 0)] == pytest.approx(watched.world.ports.now / 1000 - 2)


def test_leaders_that_do_not_answer_leave_a_page_without_their_lag(watched: Watched) -> None:
    watched.commit("spark", "orders", p0=3)
    watched.leaders.silent = True
    page = watched.page()
    assert page[series("current_offset", 0)] == 3
    assert series("lag", 0) not in page and series("lag_seconds", 0) not in page
    watched.leaders.silent = False
    watched.world.advance(2_000)
    assert watched.page()[series("lag", 0)] == 2


def test_leaders_that_refuse_leave_a_page_without_their_lag(
    watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(leader: int, request: object, on_done: Callable[[object], None]) -> None:
        watched.world.ports.call_soon(lambda: on_done(ChannelError("refused", "no one listens")))

    monkeypatch.setattr(watched.leaders, "reads", refuse)
    watched.commit("spark", "orders", p0=3)
    page = watched.page()
    assert page[series("lag", 0)] == 2 and series("lag_seconds", 0) not in page


def test_offsets_of_a_deleted_topic_are_no_lag(watched: Watched) -> None:
    watched.commit("spark", "orders", p0=3)
    watched.world.topic("orders", 3)  # another topic of that name
    page = watched.page()
    assert not [key for key in page if "partition=" in key]


def test_offsets_beyond_the_bound_are_counted(
    watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(groups_module, "OFFSETS_MAX", 1)
    watched.commit("spark", "orders", p0=3, p1=3, p2=3)
    page = watched.page()
    assert len([key for key in page if "current_offset{" in key]) == 1
    assert page["barnabas_consumergroup_offsets_left_out"] == 2
