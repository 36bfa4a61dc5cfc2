"""Requests about hundreds of partitions are followed in parts: each effect once, in order, whatever
happens in between."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from barnabas.broker.broker import Broker
from barnabas.broker.cooperative_jobs import CONTINUES, CooperativeJobs, StepResult
from barnabas.broker.handlers import produce
from barnabas.broker.partitions.partition import Partition
from barnabas.client.network.connection import ChannelError
from barnabas.record.builder import build_batch
from barnabas.sim.cluster import CLIENT_PORT
from barnabas.types import Endpoint
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.produce_request import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from barnabas.wire.messages.produce_response import PartitionProduceResponse, ProduceResponse
from barnabas.wire.request import RequestContext, Working
from tests.unit.broker.fakes import Slow, advance, process
from tests.unit.broker.world import Cluster

MANY = 250
TOPICS = ("a", "b")


@pytest.fixture(scope="module")
def shared() -> Cluster:
    cluster = Cluster(1)
    for name in TOPICS:
        cluster.create_topic(name, MANY, 1)
    cluster.until(lambda: not len(cluster.broker().replicas.apply_queue))
    return cluster


def request(
    value: bytes, *, acks: int = -1, sequence: int = -1, last: int = MANY
) -> ProduceRequest:
    producer = (7, 0) if sequence >= 0 else (-1, -1)
    records = build_batch(
        [(b"k", value)],
        timestamp_ms=1_750_000_000_000,
        producer_id=producer[0],
        producer_epoch=producer[1],
        base_sequence=sequence,
    )
    return ProduceRequest(
        acks=acks,
        timeout_ms=5_000,
        topic_data=[
            TopicProduceData(
                name=name,
                partition_data=[
                    PartitionProduceData(index=index, records=records) for index in range(last)
                ],
            )
            for name in TOPICS
        ],
    )


def one_partition(topic: str) -> ProduceRequest:
    data = [data for data in request(b"small", last=1).topic_data if data.name == topic]
    return ProduceRequest(acks=-1, timeout_ms=5_000, topic_data=data)


def answers(response: ProduceResponse) -> dict[tuple[str, int], PartitionProduceResponse]:
    found = [(t.name, p.index, p) for t in response.responses for p in t.partition_responses]
    assert len({(name, index) for name, index, _ in found}) == len(found)
    return {(name, index): answer for name, index, answer in found}


def ends(cluster: Cluster) -> list[int]:
    table = cluster.broker().replicas
    return [table.by_name[name, index].high_watermark for name in TOPICS for index in range(MANY)]


@pytest.mark.slow
def test_every_partition_is_appended_to_once_and_answered_in_its_topic(shared: Cluster) -> None:
    before = ends(shared)
    answer = shared.ask_later(request(b"x"), version=9)
    shared.until(lambda: shared.broker().slices.under_way)
    assert not answer.is_there
    assert 0 < sum(ends(shared)) - sum(before) < 2 * MANY, "a part of it"
    shared.until(lambda: answer.is_there)
    assert [topic.name for topic in answer.value.responses] == list(TOPICS)
    told = answers(answer.value)
    assert [told[name, index].base_offset for name in TOPICS for index in range(MANY)] == before
    assert {found.error_code for found in told.values()} == {0}
    assert ends(shared) == [end + 1 for end in before]


@pytest.mark.slow
def test_the_requests_of_one_connection_keep_their_order(shared: Cluster) -> None:
    before = sum(ends(shared))
    sent = [shared.ask_later(request(b"%d" % at, sequence=at), version=9) for at in range(4)]
    shared.until(lambda: all(answer.is_there for answer in sent))
    for answer in sent:  # else: OUT_OF_ORDER_SEQUENCE_NUMBER
        assert {found.error_code for found in answers(answer.value).values()} == {0}
    assert sum(ends(shared)) - before == 4 * 2 * MANY


def test_a_small_request_does_not_overtake_a_large_one(shared: Cluster) -> None:
    large = shared.ask_later(request(b"large"), version=9)
    shared.until(lambda: shared.broker().slices.under_way)
    small = shared.ask_later(one_partition("b"), version=9)
    shared.until(lambda: large.is_there)
    assert not small.is_there
    first = answers(large.value)["b", 0].base_offset
    shared.until(lambda: small.is_there)
    assert answers(small.value)["b", 0].base_offset == first + 1


def test_another_connection_is_served_in_between(shared: Cluster) -> None:
    large = shared.ask_later(request(b"large"), version=9)
    shared.until(lambda: shared.broker().slices.under_way)
    # As if it had come over another connection just now.
    context = RequestContext(api_key=0, api_version=9, connection_id=99)
    assert isinstance(produce.handle(one_partition("a"), context, shared.broker()), ProduceResponse)
    assert not large.is_there
    shared.until(lambda: large.is_there)


def test_a_whole_request_takes_effect_though_its_connection_is_gone(shared: Cluster) -> None:
    before = ends(shared)
    answer = shared.ask_later(request(b"x"), version=9, purpose="gone")
    shared.until(lambda: shared.broker().slices.under_way)
    shared.channels.disconnect(Endpoint("n1", CLIENT_PORT), "gone")
    shared.until(lambda: not shared.broker().slices.under_way)
    shared.run(100)
    assert isinstance(answer.value, ChannelError)
    assert ends(shared) == [end + 1 for end in before]


def test_errors_stay_with_their_partitions(shared: Cluster) -> None:
    before = ends(shared)
    bad = request(b"x")
    partitions = list(bad.topic_data[0].partition_data)
    partitions[33] = PartitionProduceData(index=33, records=b"x" * 70)
    partitions[200] = PartitionProduceData(index=MANY + 5, records=partitions[0].records)
    bad.topic_data[0].partition_data = partitions
    told = answers(shared.ask(bad, version=9))
    assert ErrorCode(told["a", 33].error_code) is not ErrorCode.NONE
    assert told["a", MANY + 5].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    wrong = {("a", 33), ("a", MANY + 5)}
    assert {found.error_code for key, found in told.items() if key not in wrong} == {0}
    assert sum(ends(shared)) == sum(before) + 2 * MANY - 2


@pytest.mark.parametrize("acks", [-1, 0])
def test_a_fault_in_the_middle_is_logged_and_the_next_request_is_served(
    shared: Cluster, monkeypatch: pytest.MonkeyPatch, acks: int
) -> None:
    calls = 0
    append = Partition.append

    def failing(self: Partition, *given: object, **how: object) -> object:
        nonlocal calls
        calls += 1
        if calls == 300:
            raise RuntimeError("a fault")
        return append(self, *given, **how)  # type: ignore[arg-type]

    monkeypatch.setattr(Partition, "append", failing)
    answer = shared.ask_later(request(b"x", acks=acks), version=9, purpose="faulty")
    shared.until(lambda: calls >= 300)
    after = shared.ask_later(one_partition("a"), version=9, purpose="faulty")
    shared.until(lambda: after.is_there)
    if acks:
        shared.until(lambda: answer.is_there)
        told = {found.error_code for found in answers(answer.value).values()}
        assert told == {ErrorCode.UNKNOWN_SERVER_ERROR}
        assert answers(after.value)["a", 0].error_code == 0
    else:
        assert isinstance(after.value, ChannelError), "only a closed connection tells it"
    assert calls <= 301
    shared.until(lambda: not shared.broker().slices.under_way)


def test_acks_0_has_no_answer_and_delays_no_other_request(shared: Cluster) -> None:
    before = ends(shared)
    shared.ask_later(request(b"x", acks=0), version=9)
    after = shared.ask(request(b"x", last=1), version=9)
    assert {found.error_code for found in answers(after).values()} == {0}
    assert sum(ends(shared)) == sum(before) + 2 * MANY + 2


def test_a_waiting_request_that_loses_its_leader_names_the_new_one() -> None:
    cluster = Cluster(3)
    cluster.create_topic("t", 1, 3)
    leader = cluster.leader("t")
    for node in cluster.ids:
        if node != leader:
            cluster.broker(node).replicas.fetchers.close()  # no follower fetches: it waits
    answer = cluster.ask_later(cluster.produce_request([b"x"]), leader, version=13)
    cluster.until(lambda: len(cluster.partition(leader)._waiting))
    partition = cluster.partition(leader)
    heir = next(node for node in cluster.ids if node != leader)
    partition.leader_id, partition.leader = heir, None
    topic = cluster.broker(leader).image.topics_by_name["t"]
    topic.leader[0] = heir
    partition._end_leadership(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    cluster.until(lambda: answer.is_there)
    (told,) = answer.value.responses[0].partition_responses
    assert told.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert told.current_leader.leader_id == heir
    assert [node.node_id for node in answer.value.node_endpoints] == [heir]


def fail(error: Exception) -> None:
    pytest.fail(repr(error))


ANSWER = ProduceResponse()


def answering(
    count: int, answer: ProduceResponse | Working = ANSWER, *, fails: bool = False
) -> Iterator[ProduceResponse | Working | StepResult]:
    """`count` steps; the last one `fails`, or `answer` is behind it."""
    for _ in range(count):
        yield CONTINUES
    if fails:
        raise RuntimeError("a fault")
    yield answer


class TestSlices:
    def test_a_turn_takes_as_many_steps_as_it_has_time_for(self) -> None:
        ports = process()
        slices = CooperativeJobs(Slow(ports), steps_max=100)
        seen: list[int] = []
        slices.run(self.steps(seen, 20), fail)
        assert 3 <= len(seen) <= 6
        advance(ports, 10)
        assert seen == list(range(20))
        assert slices.under_way == 0

    def test_jobs_take_turns(self) -> None:
        ports = process()
        slices = CooperativeJobs(ports, steps_max=2)
        seen: list[int] = []
        slices.run(self.steps(seen, 4), fail)
        slices.run(self.steps(seen, 4, first=100), fail)
        advance(ports, 10)
        assert seen == [0, 1, 100, 101, 2, 3, 102, 103]

    def test_an_error_of_a_step_is_reported_once(self) -> None:
        ports = process()
        slices = CooperativeJobs(ports, steps_max=2)
        told: list[Exception] = []

        def steps() -> Iterator[None]:
            yield
            yield
            yield
            raise RuntimeError("a fault")

        slices.run(steps(), told.append)
        assert slices.under_way == 1
        advance(ports, 10)
        assert [str(error) for error in told] == ["a fault"]
        assert slices.under_way == 0

    def test_nothing_is_done_after_the_end(self) -> None:
        ports = process()
        slices = CooperativeJobs(ports, steps_max=2)
        seen: list[int] = []
        slices.run(self.steps(seen, 10), fail)
        slices.close()
        advance(ports, 10)
        assert seen == [0, 1]

    def test_steps_that_are_taken_at_once_look_at_no_clock(self) -> None:
        slices = CooperativeJobs(None)  # type: ignore[arg-type]
        assert slices.answer(answering(20), at_once=True) is ANSWER
        assert slices.under_way == 0

    def test_an_error_of_a_step_that_is_taken_at_once_is_the_callers(self) -> None:
        slices = CooperativeJobs(None)  # type: ignore[arg-type]
        with pytest.raises(RuntimeError, match="a fault"):
            slices.answer(answering(3, fails=True), at_once=True)

    @pytest.mark.parametrize("at_once", [False, True])
    def test_an_answer_completes_what_was_parked_in_an_earlier_turn(self, at_once: bool) -> None:
        ports = process()
        slices = CooperativeJobs(ports)
        parked = Working(holds=False)
        told: list[object] = []
        parked.attach(told.append)
        assert slices.answer(answering(1), at_once=at_once, parked=parked) is parked
        assert told == [ANSWER]

    def test_a_job_answers_after_its_last_step_and_lets_its_connection_continue(self) -> None:
        ports = process()
        slices = CooperativeJobs(ports, steps_max=2)
        parked = slices.answer(answering(5), at_once=False)
        assert isinstance(parked, Working) and parked.holds and not parked.done
        told: list[object] = []
        parked.attach(told.append)
        advance(ports, 10)
        assert told == [ANSWER] and not parked.holds

    def test_a_job_that_returns_what_waits_lets_its_connection_continue(self) -> None:
        parked = Working()
        slices = CooperativeJobs(process())
        assert slices.answer(answering(1, parked), at_once=False, parked=parked) is parked
        assert not parked.done and not parked.holds

    def test_a_job_that_fails_answers_with_its_error(self) -> None:
        ports = process()
        slices = CooperativeJobs(ports, steps_max=2)
        parked = slices.answer(answering(5, fails=True), at_once=False)
        assert isinstance(parked, Working)
        told: list[Exception] = []
        parked.watch(lambda: None, told.append)
        advance(ports, 10)
        assert [str(error) for error in told] == ["a fault"] and not parked.holds

    @staticmethod
    def steps(seen: list[int], count: int, first: int = 0) -> Iterator[None]:
        for step in range(first, first + count):
            seen.append(step)
            yield


@pytest.mark.slow
def test_the_brokers_end_leaves_undone_what_is_under_way() -> None:
    cluster = Cluster(1)
    for name in TOPICS:
        cluster.create_topic(name, MANY, 1)
    broker: Broker = cluster.broker()
    cluster.until(lambda: not len(broker.replicas.apply_queue))
    table = broker.replicas
    cluster.ask_later(request(b"x"), version=9)
    cluster.until(lambda: broker.slices.under_way)
    broker.slices.close()
    done = sum(partition.high_watermark for partition in table.by_id.values())
    cluster.run(200)
    assert sum(partition.high_watermark for partition in table.by_id.values()) == done < 2 * MANY
