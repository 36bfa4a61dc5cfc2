"""What producer and consumer promise, against brokers that move, die and keep silent."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas.client.consumers.consumer import Consumer, ConsumerSettings
from barnabas.client.network.channels import ChannelError
from barnabas.client.network.tasks import TaskOutcome
from barnabas.client.offsets import EARLIEST
from barnabas.client.producers.producer import Producer, ProducerSettings
from barnabas.client.records import Delivery, ProducerRecord, murmur2, partition_for
from barnabas.record import decode
from barnabas.types import TopicPartition
from barnabas.wire.api_table import ApiKey
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.messages.init_producer_id_request import InitProducerIdRequest
from barnabas.wire.messages.init_producer_id_response import InitProducerIdResponse
from barnabas.wire.messages.offset_fetch_response import (
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
)
from barnabas.wire.request import Parked
from tests.unit.client.fake_cluster import FakeCluster, read_all, write

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def test_records_are_read_in_the_order_they_were_written() -> None:
    cluster = FakeCluster()
    producer = Producer(cluster.client())
    outcomes = write(cluster, producer, 100)
    cluster.world.run(1000)
    assert all(o.done for o in outcomes)
    assert producer.buffered_bytes == 0
    consumer = Consumer(cluster.client())
    consumer.assign({T0: EARLIEST, T1: EARLIEST})
    got = read_all(cluster, consumer, 100)
    for tp in (T0, T1):
        values = [int(r.value) for r in got if r.partition == tp.partition]
        assert values == sorted(values)
    assert sorted(int(r.value) for r in got) == list(range(100))
    written = {(o.result().partition, o.result().offset) for o in outcomes}
    assert written == {(r.partition, r.offset) for r in got}


def test_records_without_a_key_fill_one_batch_after_the_other() -> None:
    """They were spread over all partitions first, one record each."""
    cluster = FakeCluster(partitions=12)
    producer = Producer(cluster.client(), ProducerSettings(batch_bytes=1000))

    def batches() -> list[int]:
        return [len(p.batches) for p in cluster.partitions.values() if p.batches]

    write(cluster, producer, 30)
    cluster.world.run(cluster.world.now + 1000)
    assert batches() == [1]
    size = ProducerRecord("t", b"x" * 10).size
    for _ in range(10 * (1000 // size)):
        producer.send(ProducerRecord("t", b"x" * 10))
    cluster.world.run(cluster.world.now + 1000)
    assert sum(batches()) == 1 + 10
    assert len(batches()) > 3


def test_batches_of_records_with_keys_move_no_record_without_one() -> None:
    cluster = FakeCluster(partitions=12)
    producer = Producer(cluster.client(), ProducerSettings(linger_ms=10))
    write(cluster, producer, 1, 11)
    cluster.world.run(cluster.world.now + 1000)
    for _ in range(5):
        keyed = write(cluster, producer, 1, 11)
        cluster.world.run(cluster.world.now + 6)
        others = write(cluster, producer, 1)
        cluster.world.run(cluster.world.now + 6)
        assert keyed[0].done and not others[0].done
        others += write(cluster, producer, 1)
        cluster.world.run(cluster.world.now + 100)
        assert len({outcome.result().partition for outcome in others}) == 1


def test_a_lost_answer_leaves_no_duplicate() -> None:
    cluster = FakeCluster(partitions=1)
    producer = Producer(cluster.client(), ProducerSettings(request_timeout_ms=200))
    cluster.mute = 2
    outcomes = write(cluster, producer, 10, 0)
    cluster.world.run(5000)
    assert [o.result().offset for o in outcomes] == list(range(10))
    assert cluster.partitions[0].end == 10
    assert cluster.produced == 3


def test_the_leader_moves_and_the_producer_follows() -> None:
    cluster = FakeCluster(nodes=3, partitions=1)
    producer = Producer(cluster.client())
    write(cluster, producer, 5, 0)
    cluster.world.run(100)
    cluster.partitions[0].leader, cluster.partitions[0].epoch = 2, 1
    moved = write(cluster, producer, 5, 0)
    cluster.world.run(200)
    assert [o.result().offset for o in moved] == [5, 6, 7, 8, 9]
    cluster.kill(2, successor=3)
    after = write(cluster, producer, 5, 0)
    cluster.world.run(2000)
    assert [o.result().offset for o in after] == [10, 11, 12, 13, 14]
    assert cluster.partitions[0].end == 15


def test_retriable_refusals_are_retried_and_others_told() -> None:
    cluster = FakeCluster(partitions=1)
    producer = Producer(cluster.client())
    cluster.faults.extend([ErrorCode.NOT_ENOUGH_REPLICAS] * 3)
    outcomes = write(cluster, producer, 3, 0)
    cluster.world.run(2000)
    assert [o.result().offset for o in outcomes] == [0, 1, 2]
    cluster.faults.append(ErrorCode.MESSAGE_TOO_LARGE)
    refused = write(cluster, producer, 1, 0)
    cluster.world.run(3000)
    with pytest.raises(KafkaError, match="MESSAGE_TOO_LARGE"):
        refused[0].result()
    again = write(cluster, producer, 2, 0)
    cluster.world.run(4000)
    assert [o.result().offset for o in again] == [3, 4]
    assert cluster.ids == 2  # the gap in its sequence made it another


def test_a_batch_that_a_topic_finds_too_large_goes_in_parts() -> None:
    cluster = FakeCluster(partitions=1)
    producer = Producer(cluster.client())
    append = cluster.partitions[0].append

    def small(data: bytes) -> tuple[int, int]:
        too_large = ErrorCode.MESSAGE_TOO_LARGE if len(data) > 500 else None
        return append(data) if too_large is None else (too_large, -1)

    cluster.partitions[0].append = small  # type: ignore[method-assign]
    outcomes = write(cluster, producer, 100, 0)
    outcomes.append(producer.send(ProducerRecord("t", b"x" * 900, partition=0)))
    outcomes += write(cluster, producer, 100, 0)
    cluster.world.run(5000)
    with pytest.raises(KafkaError, match="MESSAGE_TOO_LARGE"):
        outcomes.pop(100).result()
    assert [o.result().offset for o in outcomes] == list(range(200))
    assert producer.buffered_bytes == 0


def test_a_leader_that_is_cut_off_is_not_asked_for_ever() -> None:
    """It continues saying that it leads, and can write nothing."""
    cluster = FakeCluster(partitions=1)
    metadata, produce = cluster.metadata, cluster.produce

    def stale(request: Any, ctx: Any, node: int) -> Any:
        partition = cluster.partitions[0]
        partition.leader, partition.epoch = (1, 0) if node == 1 else (2, 1)
        return metadata(request, ctx, node)

    def refused(request: Any, ctx: Any, node: int) -> Any:
        cluster.partitions[0].leader = node
        cluster.faults.extend([ErrorCode.NOT_ENOUGH_REPLICAS] if node == 1 else [])
        return produce(request, ctx, node)

    cluster.metadata, cluster.produce = stale, refused  # type: ignore[method-assign]
    for node in (1, 2):
        cluster.kill(node)
        cluster.start(node)
    client = cluster.client()
    client.cluster._rotation = 0
    producer = Producer(client)
    outcomes = write(cluster, producer, 1, 0)
    cluster.world.run(5000)
    assert all(o.done for o in outcomes)


def test_a_broker_that_names_a_former_coordinator_is_not_asked_for_ever() -> None:
    cluster = FakeCluster(partitions=1)
    find = cluster.find

    def stale(request: Any, ctx: Any, node: int) -> Any:
        answer = find(request, ctx, node)
        named = answer.coordinators[0]
        named.node_id, named.host = (9, "broker9") if node == 1 else (2, "broker2")
        return answer

    cluster.find = stale  # type: ignore[method-assign]
    for node in (1, 2):
        cluster.kill(node)
        cluster.start(node)
    client = cluster.client()
    client.tasks.start(client.cluster.refresh(["t"]))
    consumer = Consumer(client, "g")
    consumer.assign({T0: 0})
    cluster.world.run(100)
    client.cluster._rotation = 0
    done = client.tasks.start(consumer.commit())
    cluster.world.run(5000)
    assert done.done and cluster.committed[0] == 0


def test_a_caller_that_waited_behind_a_failed_refresh_asks_itself() -> None:
    cluster = FakeCluster(nodes=1)
    cluster.kill(1)
    client = cluster.client()
    client.tasks.start(client.cluster.refresh(["a"], timeout_ms=1000)).when_done(lambda _: None)
    client.tasks.start(client.cluster.refresh(["t"], timeout_ms=1000)).when_done(lambda _: None)
    patient = client.tasks.start(client.cluster.refresh(["t"], timeout_ms=60_000))
    cluster.world.run(5000)
    still_waits = not patient.done
    cluster.start(1)
    cluster.world.run(10_000)
    assert still_waits and patient.done and client.cluster.require("t").partitions


def test_a_caller_that_waited_behind_a_cancelled_refresh_asks_itself() -> None:
    cluster = FakeCluster(nodes=1)
    client = cluster.client()
    first = client.tasks.start(client.cluster.refresh(["other"]))
    cancelled = client.tasks.start(client.cluster.refresh(["t"]))
    patient = client.tasks.start(client.cluster.refresh(["t"]))
    first.when_done(lambda _: cancelled.cancel())  # which is asking for both by then
    cluster.world.run(1000)
    assert patient.done and client.cluster.require("t").partitions


def test_a_look_at_topics_does_not_end_what_takes_long() -> None:
    cluster = FakeCluster(nodes=1)
    asked: list[Parked] = []

    def slow(request: Any, ctx: Any, node: int) -> Parked:
        asked.append(Parked())
        return asked[-1]

    cluster.servers[1].table.replace(ApiKey.INIT_PRODUCER_ID, slow)
    client = cluster.client()
    request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)
    patient = client.tasks.start(client.ask_any(lambda: request))
    looked = client.tasks.start(client.cluster.refresh(["t"]))
    cluster.world.run(9_000)
    asked[0].complete(InitProducerIdResponse(producer_id=7))
    cluster.world.run(10_000)
    assert looked.done and patient.result().producer_id == 7 and len(asked) == 1


def test_a_topic_that_does_not_appear_fails_in_time() -> None:
    cluster = FakeCluster()
    producer = Producer(cluster.client(), ProducerSettings(delivery_timeout_ms=500))
    outcome = producer.send(ProducerRecord("nowhere", b"x"))
    cluster.world.run(2000)
    with pytest.raises(KafkaError, match="UNKNOWN_TOPIC"):
        outcome.result()
    flushed = producer._client.tasks.start(producer.flush())
    cluster.world.run(2100)
    assert flushed.done


def stubborn(producer: Producer, topic: str, partitions: list[int | None]) -> list[Any]:
    """Send a record to each in turn, the next one as soon as one failed; the codes of those that did."""
    left, codes = iter(partitions), list[Any]()

    def send_next(outcome: TaskOutcome[Delivery] | None) -> None:
        try:
            if outcome is not None:
                outcome.result()
        except KafkaError as error:
            codes.append(error.code)
        for partition in left:
            producer.send(ProducerRecord(topic, b"x", partition=partition)).when_done(send_next)
            break

    send_next(None)
    return codes


def test_a_caller_that_sends_again_at_its_timeout_is_served() -> None:
    cluster = FakeCluster(partitions=3)
    producer = Producer(cluster.client(), ProducerSettings(delivery_timeout_ms=500))
    for partition in cluster.partitions.values():
        partition.leader = -1
    codes = stubborn(producer, "t", [0, 1, 2])
    cluster.world.run(3000)
    assert codes == [ErrorCode.REQUEST_TIMED_OUT] * 3
    codes = stubborn(producer, "nowhere", [None, None])
    cluster.world.run(3250)
    other = producer.send(ProducerRecord("nowhere", b"y"))
    cluster.world.run(5000)
    assert codes == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION] * 2
    assert other.done and producer.buffered_bytes == 0


def test_a_producer_without_an_id_fails_its_records_but_none_sent_in_return() -> None:
    cluster = FakeCluster(partitions=1)
    cluster.kill(1)
    cluster.kill(2)
    producer = Producer(cluster.client(), ProducerSettings(delivery_timeout_ms=500))
    failed: list[Any] = []

    def again(outcome: TaskOutcome[Delivery]) -> None:
        failed.append(outcome)
        assert len(failed) < 100
        producer.send(ProducerRecord("t", b"x", partition=0)).when_done(again)

    again(TaskOutcome())
    cluster.world.run(5000)
    assert 2 <= len(failed) < 20


def test_a_record_that_cannot_be_written_fails_and_delays_no_other() -> None:
    cluster = FakeCluster(nodes=1)
    producer = Producer(cluster.client())
    bad = producer.send(ProducerRecord("t", "no bytes", partition=0))  # type: ignore[arg-type]
    good = write(cluster, producer, 1, 1)
    cluster.world.run(1000)
    with pytest.raises(KafkaError, match="INVALID_RECORD"):
        bad.result()
    good += write(cluster, producer, 1, 0)
    cluster.world.run(2000)
    assert [o.result().offset for o in good] == [0, 0]


@pytest.mark.parametrize("name", ["\udc80", "a b"])
def test_an_invalid_topic_name_blocks_no_other_topic(name: str) -> None:
    cluster = FakeCluster()
    client = cluster.client()
    producer = Producer(client, ProducerSettings(delivery_timeout_ms=500))
    wrong = producer.send(ProducerRecord(name, b"1"))
    outcomes = write(cluster, producer, 3)
    cluster.world.run(1000)
    assert all(outcome.result().topic == "t" for outcome in outcomes)
    with pytest.raises(KafkaError, match="did not appear"):
        wrong.result()


def test_a_partition_that_is_not_there_is_looked_for_now_and_then() -> None:
    cluster = FakeCluster()
    producer = Producer(cluster.client(), ProducerSettings(delivery_timeout_ms=2000))
    asked, metadata = 0, cluster.metadata

    def counted(request: Any, ctx: Any, node: int) -> Any:
        nonlocal asked
        asked += 1
        return metadata(request, ctx, node)

    cluster.metadata = counted  # type: ignore[method-assign]
    for node in (1, 2):
        cluster.kill(node)
        cluster.start(node)
    outcome = producer.send(ProducerRecord("t", b"x", partition=7))
    cluster.world.run(2500)
    assert outcome.done and asked < 60


def test_flush_does_not_wait_for_the_linger() -> None:
    cluster = FakeCluster()
    producer = Producer(cluster.client(), ProducerSettings(linger_ms=60_000))
    outcomes = write(cluster, producer, 4)
    cluster.world.run(1000)
    assert not any(o.done for o in outcomes)
    flushed = producer._client.tasks.start(producer.flush())
    cluster.world.run(1100)
    assert flushed.done and all(o.done for o in outcomes)


@pytest.mark.slow
def test_a_flush_ends_though_other_tasks_keep_sending() -> None:
    cluster = FakeCluster(partitions=1)
    producer = Producer(cluster.client())

    def send_again(outcome: TaskOutcome[Delivery]) -> None:
        if len(acknowledged) < 1000:
            acknowledged.append(outcome)
            producer.send(ProducerRecord("t", b"more")).when_done(send_again)

    acknowledged: list[TaskOutcome[Delivery]] = []
    producer.send(ProducerRecord("t", b"first")).when_done(send_again)
    before: list[int] = []
    producer._client.tasks.start(producer.flush(), lambda _: before.append(len(acknowledged)))
    cluster.world.run(10_000)
    assert len(acknowledged) == 1000 and before[0] < 10


def test_a_closing_producer_refuses_new_records_and_writes_what_it_accepted() -> None:
    cluster = FakeCluster(partitions=1)
    producer = Producer(cluster.client())
    outcomes = write(cluster, producer, 3)
    late: list[TaskOutcome[Delivery]] = []

    async def flush_and_send() -> None:
        await producer.flush()
        late.append(producer.send(ProducerRecord("t", b"late")))

    producer._client.tasks.start(flush_and_send())
    closed = producer._client.tasks.start(producer.close())
    cluster.world.run(1000)
    assert closed.done and [outcome.result().offset for outcome in outcomes] == [0, 1, 2]
    with pytest.raises(ChannelError, match="closed"):
        late[0].result()


@pytest.mark.slow
def test_a_callback_that_raises_costs_no_other_callback_its_result() -> None:
    cluster = FakeCluster()
    producer = Producer(cluster.client())

    def fail(outcome: TaskOutcome[Delivery]) -> None:
        raise ValueError("of the program around it")

    producer.send(ProducerRecord("nowhere", b"1")).when_done(fail)
    producer.send(ProducerRecord("t", b"1", partition=0)).when_done(fail)
    outcomes = [*write(cluster, producer, 3, 0), *write(cluster, producer, 3, 1)]
    flushed = producer._client.tasks.start(producer.flush())
    cluster.world.run(200_000)
    assert flushed.done and all(outcome.done for outcome in outcomes)
    told = [line for line in cluster.world.lines if line[1] == "client.task_failed"]
    assert len(told) == 2 and "of the program around it" in str(told[0][2])


def test_a_consumer_resumes_where_its_group_committed() -> None:
    cluster = FakeCluster(partitions=1)
    producer = Producer(cluster.client())
    write(cluster, producer, 20, 0)
    cluster.world.run(500)
    settings = ConsumerSettings(auto_offset_reset="earliest")
    first = Consumer(cluster.client(), "g", settings)
    first.assign([T0])
    got = read_all(cluster, first, 7)
    assert len(got) == 7
    done = first._client.tasks.start(first.commit())
    cluster.world.run(cluster.world.now + 100)
    done.result()
    second = Consumer(cluster.client(), "g", settings)
    second.assign([T0])
    rest = read_all(cluster, second, 13)
    assert [r.offset for r in rest] == list(range(7, 20))


def test_an_offset_out_of_range_is_reset_by_policy() -> None:
    cluster = FakeCluster(partitions=1)
    producer = Producer(cluster.client(), ProducerSettings(linger_ms=0))
    write(cluster, producer, 5, 0)
    cluster.world.run(100)
    consumer = Consumer(cluster.client(), None, ConsumerSettings(auto_offset_reset="earliest"))
    consumer.assign({T0: 99})
    assert [r.offset for r in read_all(cluster, consumer, 5)] == [0, 1, 2, 3, 4]
    strict = Consumer(cluster.client(), None, ConsumerSettings(auto_offset_reset="none"))
    strict.assign({T0: 99})
    cluster.world.run(cluster.world.now + 500)
    assert strict.failure is not None and strict.failure.code == ErrorCode.OFFSET_OUT_OF_RANGE


def test_a_callback_that_raises_on_data_does_not_end_the_reading() -> None:
    cluster = FakeCluster(nodes=1)
    for partition in (0, 1):
        write(cluster, Producer(cluster.client()), 2, partition)
    cluster.world.run(100)
    told: list[int] = []

    def take() -> None:
        if not told:
            told.append(0)
            raise ValueError("of the program around it")
        told.append(len(consumer.poll()))

    consumer = Consumer(cluster.client(), on_data=take)
    consumer.assign({T0: EARLIEST, T1: EARLIEST})
    cluster.world.run(1000)
    for partition in (0, 1):
        write(cluster, Producer(cluster.client()), 2, partition)
    cluster.world.run(3000)
    assert sum(told) == 8


def five_fetched() -> tuple[FakeCluster, Consumer]:
    """A batch of five records, which a consumer has and has not taken."""
    cluster = FakeCluster(partitions=1)
    write(cluster, Producer(cluster.client()), 5, 0)
    cluster.world.run(100)
    consumer = Consumer(cluster.client())
    consumer.assign({T0: 0})
    cluster.world.run(200)
    return cluster, consumer


def test_a_batch_that_is_polled_in_parts_is_decoded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its batch was checked and decoded again for each part."""
    decoded: list[int] = []

    def read_record(data: bytes, position: int) -> tuple[Any, ...]:
        decoded.append(position)
        return read(data, position)

    read = decode._read_record
    monkeypatch.setattr(decode, "_read_record", read_record)
    _, consumer = five_fetched()
    assert [r.offset for _ in range(3) for r in consumer.poll(1)] == [0, 1, 2]
    assert len(decoded) == 4  # one ahead, to know whether anything follows
    assert [r.offset for r in consumer.poll()] == [3, 4]
    assert len(decoded) == 5


def test_a_seek_drops_what_is_left_of_a_batch() -> None:
    cluster, consumer = five_fetched()
    assert [r.offset for r in consumer.poll(2)] == [0, 1]
    consumer.seek(T0, 1)
    assert [r.offset for r in read_all(cluster, consumer, 4)] == [1, 2, 3, 4]


def test_a_seek_drops_what_was_on_its_way() -> None:
    cluster = FakeCluster(partitions=1)
    producer = Producer(cluster.client())
    write(cluster, producer, 5, 0)
    cluster.world.run(100)
    consumer = Consumer(cluster.client())
    consumer.assign({T0: 0})
    cluster.world.run(200)
    consumer.seek(T0, 3)
    assert [r.offset for r in read_all(cluster, consumer, 2)] == [3, 4]
    assert consumer.position(T0) == 5


def test_an_offset_by_time_is_found_however_long_that_takes() -> None:
    """By policy it would begin at the end, behind what is there."""
    cluster = FakeCluster(nodes=1, partitions=2)
    producer = Producer(cluster.client())
    write(cluster, producer, 5, 0)
    write(cluster, producer, 5, 1)
    cluster.world.run(500)
    cluster.kill(1)
    consumer = Consumer(cluster.client(), "g")
    consumer.assign({T0: EARLIEST, T1: EARLIEST})
    cluster.world.run(200_000)
    cluster.start(1)
    assert len(read_all(cluster, consumer, 10)) == 10


@pytest.mark.slow
def test_a_partition_long_without_a_leader_stops_no_other_and_recovers() -> None:
    cluster = FakeCluster(nodes=1, partitions=2)
    producer = Producer(cluster.client())
    write(cluster, producer, 5, 0)
    write(cluster, producer, 5, 1)
    cluster.world.run(500)
    cluster.partitions[0].leader = -1
    consumer = Consumer(cluster.client(), None, ConsumerSettings(auto_offset_reset="earliest"))
    consumer.assign([T0, T1])
    assert [r.partition for r in read_all(cluster, consumer, 5)] == [1] * 5
    cluster.world.run(200_000)
    assert consumer.failure is None
    cluster.partitions[0].leader = 1
    assert len(read_all(cluster, consumer, 5)) == 5


def test_a_new_leader_is_asked_for_offsets_while_the_former_one_is_silent() -> None:
    cluster = FakeCluster(nodes=2, partitions=1)
    silent = cluster.servers[1].table
    silent.replace(ApiKey.LIST_OFFSETS, lambda request, ctx, node: Parked())
    consumer = Consumer(cluster.client())
    consumer.assign({T0: EARLIEST})
    cluster.world.run(1000)
    cluster.partitions[0].leader, cluster.partitions[0].epoch = 2, 1
    cluster.world.run(8000)
    assert consumer.position(T0) == 0


def test_a_consumer_that_may_not_see_its_groups_offsets_says_so() -> None:
    cluster = FakeCluster(nodes=1)
    refusal = OffsetFetchResponseGroup(
        group_id="g", error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED
    )
    answer = OffsetFetchResponse(groups=[refusal])
    cluster.servers[1].table.replace(ApiKey.OFFSET_FETCH, lambda request, ctx, node: answer)
    consumer = Consumer(cluster.client(), "g")
    consumer.assign([T0])
    cluster.world.run(5000)
    assert consumer.failure is not None
    assert consumer.failure.code == ErrorCode.GROUP_AUTHORIZATION_FAILED


def test_a_damaged_batch_is_asked_for_again() -> None:
    cluster = FakeCluster(partitions=1)
    producer = Producer(cluster.client())
    write(cluster, producer, 6, 0)
    cluster.world.run(100)
    partition = cluster.partitions[0]
    whole, times = partition.read, 0

    def read(offset: int) -> bytes:
        nonlocal times
        times += 1
        data = bytearray(whole(offset))
        if data and times < 4:
            data[-1 if times % 2 else 16] ^= 0x40  # in a record, in the header
        return bytes(data)

    partition.read = read  # type: ignore[method-assign]
    consumer = Consumer(cluster.client())
    consumer.assign({T0: 0})
    assert [r.offset for r in read_all(cluster, consumer, 6)] == list(range(6))
    assert times >= 4


def test_the_consumer_survives_the_death_of_a_leader() -> None:
    cluster = FakeCluster(nodes=2, partitions=1)
    producer = Producer(cluster.client())
    write(cluster, producer, 5, 0)
    cluster.world.run(100)
    consumer = Consumer(cluster.client())
    consumer.assign({T0: 0})
    assert len(read_all(cluster, consumer, 5)) == 5
    cluster.kill(1, successor=2)
    write(cluster, producer, 5, 0)
    assert [r.offset for r in read_all(cluster, consumer, 5)] == [5, 6, 7, 8, 9]


@pytest.mark.parametrize(
    ("key", "hashed"),
    [
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
)
def test_keys_go_where_kafka_puts_them(key: bytes, hashed: int) -> None:
    assert murmur2(key) == hashed & 0xFFFFFFFF
    assert 0 <= partition_for(key, 7) < 7


def test_each_consumer_of_a_client_fetches_on_a_connection_of_its_own() -> None:
    """A broker answers the fetches of one connection one after the other."""
    cluster = FakeCluster()
    client = cluster.client()
    first, _ = Consumer(client), Consumer(client)
    assert client.fetching == {"fetch-0", "fetch-1"}
    client.tasks.start(first.close())
    cluster.world.run()
    assert client.fetching == {"fetch-1"}
    Consumer(client)
    assert client.fetching == {"fetch-0", "fetch-1"}
