"""Transactions as a partition's leader and a group's coordinator see them: Produce, WriteTxnMarkers, Fetch,
ListOffsets, DescribeProducers, TxnOffsetCommit. The coordinator of transactions is a stub that says what the
test wants."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest

from barnabas.broker.partitions.partition import Partition
from barnabas.record.batch import iterate
from barnabas.record.builder import build_batch
from barnabas.types import Uuid
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.describe_producers_request import (
    DescribeProducersRequest,
    TopicRequest,
)
from barnabas.wire.messages.find_coordinator_request import FindCoordinatorRequest
from barnabas.wire.messages.list_offsets_request import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from barnabas.wire.messages.offset_fetch_request import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from barnabas.wire.messages.txn_offset_commit_request import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from barnabas.wire.messages.write_txn_markers_request import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from tests.unit.broker.world import Answer, Cluster, code, values_of

READ_COMMITTED = 1
OFFSETS = "__consumer_offsets"
UNKNOWN_ID = Uuid(b"unknown topic id")


class Coordinator:
    """Says `answer` to each question, at once or once `release` is called."""

    def __init__(self) -> None:
        self.answer = ErrorCode.NONE
        self.held: list[Callable[[], None]] | None = None
        self.questions: list[tuple[str, int, int, tuple[tuple[str, int], ...], bool, bool]] = []

    def verify(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: Iterable[tuple[str, int]],
        *,
        add: bool,
        on_done: Callable[[dict[tuple[str, int], ErrorCode]], None],
        abortable: bool = True,
    ) -> None:
        places = tuple(partitions)
        self.questions.append(
            (transactional_id, producer_id, producer_epoch, places, add, abortable)
        )
        answer = self.answer

        def reply() -> None:
            on_done(dict.fromkeys(places, answer))

        if self.held is None:
            reply()
        else:
            self.held.append(reply)

    def release(self) -> None:
        held, self.held = self.held or [], None
        for reply in held:
            reply()


class Transactions:
    """One producer's requests against the brokers that lead."""

    def __init__(self, nodes: int = 1) -> None:
        self.cluster = Cluster(nodes, offsets_topic_num_partitions="1")
        self.coordinator = Coordinator()
        for node in self.cluster.ids:
            self.cluster.broker(node).transactions.verifier = self.coordinator
        self.sequences: dict[tuple[str, int, int], int] = {}

    def topic(self, name: str, **configs: str) -> str:
        self.cluster.create_topic(name, 2, 1, **configs)
        return name

    def partition(self, topic: str) -> Partition:
        return self.cluster.partition(1, topic)

    def batch(
        self, topic: str, values: list[bytes], producer: int, epoch: int, sequence: int | None
    ) -> bytes:
        key = (topic, producer, epoch)
        first = self.sequences.get(key, 0) if sequence is None else sequence
        self.sequences[key] = first + len(values)
        return build_batch(
            [(b"k", value) for value in values],
            timestamp_ms=self.cluster.client.clock.wall_ms(),
            producer_id=producer,
            producer_epoch=epoch,
            base_sequence=first,
            transactional=True,
        )

    def later(
        self, topic: str, values: list[bytes], *, producer: int = 9, epoch: int = 0,
        version: int = 12, sequence: int | None = None, transactional_id: str | None = "app",
        acks: int = -1,
    ) -> Answer:  # fmt: skip
        batch = self.batch(topic, values, producer, epoch, sequence)
        request = self.cluster.produce_request([], topic=topic, batch=batch, acks=acks)
        request.transactional_id = transactional_id
        if version < 13:
            request.topic_data[0].topic_id = Uuid(bytes(16))
        else:
            request.topic_data[0].name = ""
        return self.cluster.ask_later(request, self.cluster.leader(topic), version)

    def write(self, topic: str, values: list[bytes], **how: Any) -> str:
        answer = self.later(topic, values, **how)
        self.cluster.until(lambda: answer.is_there)
        return code(answer.value.responses[0].partition_responses[0].error_code)

    def end(
        self, topic: str, *, commit: bool, producer: int = 9, epoch: int = 0, version: int = 2,
        coordinator: int = 1, level: int = 0, index: int = 0,
    ) -> str:  # fmt: skip
        marker = WritableTxnMarker(
            producer_id=producer,
            producer_epoch=epoch,
            transaction_result=commit,
            coordinator_epoch=coordinator,
            transaction_version=level,
            topics=[WritableTxnMarkerTopic(name=topic, partition_indexes=[index])],
        )
        request = WriteTxnMarkersRequest(markers=[marker])
        known = self.cluster.broker(self.cluster.ids[0]).image.topics_by_name.get(topic)
        led = known is not None and known.has(index) and topic != OFFSETS
        node = self.cluster.leader(topic, index) if led else self.cluster.ids[0]
        answer = self.cluster.ask_later(request, node, version, purpose="coordinator")
        self.cluster.until(lambda: answer.is_there)
        response = answer.value
        [told] = response.markers
        assert told.producer_id == producer
        return code(told.topics[0].partitions[0].error_code)

    def committed(self, topic: str) -> list[bytes]:
        """What a reader of committed records makes of one fetch."""
        data = self.cluster.fetch(topic=topic, isolation=READ_COMMITTED)
        aborted = {t.producer_id: t.first_offset for t in data.aborted_transactions or ()}
        found = []
        for batch in iterate(memoryview(data.records)):  # type: ignore[arg-type]
            header = batch.header
            if header.is_control:
                aborted.pop(header.producer_id, None)
            elif aborted.get(header.producer_id, 1 << 62) > header.base_offset:
                found += [bytes(r.value) for r in batch_records(batch)]
        return found

    def latest(self, topic: str, isolation: int) -> int:
        asked = ListOffsetsPartition(partition_index=0, timestamp=-1)
        request = ListOffsetsRequest(
            replica_id=-1,
            isolation_level=isolation,
            topics=[ListOffsetsTopic(name=topic, partitions=[asked])],
        )
        offset: int = self.cluster.ask(request).topics[0].partitions[0].offset
        return offset

    def commit_offset(
        self, group: str, topic: str, offset: int, *, version: int = 5, producer: int = 9,
        epoch: int = 0, generation: int = -1, member: str = "",
    ) -> str:  # fmt: skip
        part = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
        known = self.cluster.broker().image.topics_by_name.get(topic)
        topic_id = UNKNOWN_ID if known is None else known.id
        request = TxnOffsetCommitRequest(
            transactional_id="app",
            group_id=group,
            producer_id=producer,
            producer_epoch=epoch,
            topics=[TxnOffsetCommitRequestTopic(name=topic, topic_id=topic_id, partitions=[part])],
        )
        if version >= 3:
            request.generation_id_or_member_epoch, request.member_id = generation, member
        response = self.cluster.ask(request, version=version)
        return code(response.topics[0].partitions[0].error_code)

    def offset(self, group: str, topic: str, *, stable: bool = False) -> tuple[str, int]:
        wanted = OffsetFetchRequestTopics(name=topic, partition_indexes=[0])
        asked = OffsetFetchRequestGroup(group_id=group, topics=[wanted])
        request = OffsetFetchRequest(groups=[asked], require_stable=stable)
        response = self.cluster.ask(request, version=9)
        part = response.groups[0].topics[0].partitions[0]
        return code(part.error_code), part.committed_offset

    def with_group(self, group: str) -> str:
        """The topic of offsets exists and its coordinator is loaded."""
        request = FindCoordinatorRequest(key_type=0, coordinator_keys=[group])

        def found() -> bool:
            return bool(self.cluster.ask(request).coordinators[0].error_code == 0)

        self.cluster.until(found)
        shards = self.cluster.broker().groups.shards
        self.cluster.until(lambda: 0 in shards and shards[0].active)
        return group


def batch_records(batch: Any) -> list[Any]:
    from barnabas.record.decode import records_of

    return list(records_of(batch))


@pytest.fixture(scope="module")
def shared() -> Transactions:
    return Transactions()


@pytest.fixture
def world(shared: Transactions) -> Transactions:
    shared.coordinator = Coordinator()
    shared.cluster.broker().transactions.verifier = shared.coordinator
    return shared


class TestVisibility:
    def test_an_open_transaction_is_not_read_as_committed(self, world: Transactions) -> None:
        t = world.topic("open")
        assert world.write(t, [b"a", b"b"]) == "NONE"
        assert world.committed(t) == []
        assert values_of(world.cluster.fetch(topic=t)) == [b"a", b"b"]
        assert (world.latest(t, 0), world.latest(t, READ_COMMITTED)) == (2, 0)

    @pytest.mark.parametrize("version", [1, 2])
    def test_a_marker_decides_what_is_read(self, world: Transactions, version: int) -> None:
        t = world.topic(f"decided-{version}")
        world.write(t, [b"a"])
        world.write(t, [b"x"], producer=10)
        assert world.end(t, commit=True, version=version) == "NONE"
        assert world.committed(t) == [b"a"]
        assert world.end(t, commit=False, producer=10, version=version) == "NONE"
        world.write(t, [b"b"])
        world.end(t, commit=True)
        assert world.committed(t) == [b"a", b"b"]
        assert world.latest(t, READ_COMMITTED) == 6

    def test_a_waiting_reader_of_committed_records_is_woken_by_the_marker(
        self, world: Transactions
    ) -> None:
        t = world.topic("woken")
        world.write(t, [b"a"])
        request = world.cluster.fetch_request(topic=t, isolation=READ_COMMITTED, max_wait_ms=20_000)
        waiting = world.cluster.ask_later(request, purpose="reader")
        world.cluster.run(500)
        assert not waiting.is_there
        world.end(t, commit=True)
        world.cluster.until(lambda: waiting.is_there, limit_ms=1_000)
        assert waiting.value.responses[0].partitions[0].records

    def test_deleted_records_of_an_open_transaction_block_no_reader(
        self, world: Transactions
    ) -> None:
        t = world.topic("deleted")
        world.write(t, [b"a", b"b"])
        world.partition(t).delete_records(-1)
        assert world.latest(t, READ_COMMITTED) == 2
        world.write(t, [b"c"])
        assert world.latest(t, READ_COMMITTED) == 2


class TestProduce:
    def test_the_first_batch_asks_the_coordinator_and_others_do_not(
        self, world: Transactions
    ) -> None:
        t = world.topic("asked")
        world.write(t, [b"a"])
        world.write(t, [b"b"])
        assert world.coordinator.questions == [("app", 9, 0, ((t, 0),), True, True)]
        world.end(t, commit=True)
        world.write(t, [b"c"], version=11)
        assert world.coordinator.questions[1:] == [("app", 9, 0, ((t, 0),), False, True)]
        world.end(t, commit=True)
        world.write(t, [b"d"], version=10)
        assert world.coordinator.questions[2:] == [("app", 9, 0, ((t, 0),), False, False)]

    @pytest.mark.parametrize("version", [12, 13])
    def test_a_topic_is_asked_about_by_name(self, world: Transactions, version: int) -> None:
        t = world.topic(f"named-{version}")
        assert world.write(t, [b"a"], version=version) == "NONE"
        assert world.coordinator.questions[0][3] == ((t, 0),)

    @pytest.mark.parametrize(
        ("answer", "told"),
        [
            ("INVALID_TXN_STATE", "INVALID_TXN_STATE"),
            ("TRANSACTION_ABORTABLE", "TRANSACTION_ABORTABLE"),
            ("INVALID_PRODUCER_EPOCH", "INVALID_PRODUCER_EPOCH"),
            ("INVALID_PRODUCER_ID_MAPPING", "INVALID_PRODUCER_ID_MAPPING"),
            ("CONCURRENT_TRANSACTIONS", "NOT_ENOUGH_REPLICAS"),
            ("NETWORK_EXCEPTION", "NOT_ENOUGH_REPLICAS"),
            ("COORDINATOR_LOAD_IN_PROGRESS", "NOT_ENOUGH_REPLICAS"),
            ("COORDINATOR_NOT_AVAILABLE", "NOT_ENOUGH_REPLICAS"),
            ("NOT_COORDINATOR", "NOT_ENOUGH_REPLICAS"),
        ],
    )
    def test_a_batch_that_the_coordinator_refuses_is_not_written(
        self, world: Transactions, answer: str, told: str
    ) -> None:
        t = world.topic(f"refused-{answer}")
        world.coordinator.answer = ErrorCode[answer]
        assert world.write(t, [b"a"]) == told
        assert world.partition(t).high_watermark == 0

    def test_a_marker_during_the_question_makes_its_answer_void(self, world: Transactions) -> None:
        """A late batch would begin a transaction that never ends (KIP-890)."""
        t = world.topic("void")
        world.coordinator.held = []
        late = world.later(t, [b"late"], version=11)
        world.cluster.until(lambda: world.coordinator.held)
        assert world.end(t, commit=False) == "NONE"
        world.coordinator.release()
        world.cluster.until(lambda: late.is_there)
        told = late.value.responses[0].partition_responses[0]
        assert code(told.error_code) == "INVALID_TXN_STATE"
        assert world.latest(t, READ_COMMITTED) == 1

    def test_a_connection_s_later_batches_wait_for_the_answer(self, world: Transactions) -> None:
        t = world.topic("order")
        world.coordinator.held = []
        first = world.later(t, [b"a"])
        world.cluster.until(lambda: world.coordinator.held)
        second = world.later(t, [b"b"])
        world.cluster.run(100)
        assert not second.is_there
        world.coordinator.release()
        world.cluster.until(lambda: first.is_there and second.is_there)
        assert values_of(world.cluster.fetch(topic=t)) == [b"a", b"b"]

    def test_a_transactional_batch_needs_a_transactional_id(self, world: Transactions) -> None:
        t = world.topic("nameless")
        refused = world.write(t, [b"a"], transactional_id=None)
        assert refused == "TRANSACTIONAL_ID_AUTHORIZATION_FAILED"

    def test_an_older_epoch_is_refused_after_a_newer_one(self, world: Transactions) -> None:
        t = world.topic("zombie")
        world.write(t, [b"a"], epoch=1)
        assert world.write(t, [b"z"], epoch=0) == "INVALID_PRODUCER_EPOCH"

    def test_a_repeated_batch_is_not_asked_about_when_its_transaction_is_over(
        self, world: Transactions
    ) -> None:
        t = world.topic("repeated")
        world.write(t, [b"a"], sequence=0)
        world.end(t, commit=True)
        assert world.write(t, [b"a"], sequence=0) == "NONE"
        assert values_of(world.cluster.fetch(topic=t))[0] == b"a"
        assert world.latest(t, READ_COMMITTED) == 2

    def test_a_producer_of_level_2_begins_with_sequence_0(self, world: Transactions) -> None:
        t = world.topic("begins")
        assert world.write(t, [b"b"], sequence=5) == "OUT_OF_ORDER_SEQUENCE_NUMBER"
        assert world.write(t, [b"b"], sequence=5, version=11, producer=11) == "NONE"


class TestMarkers:
    def test_an_older_coordinator_is_fenced(self, world: Transactions) -> None:
        t = world.topic("fenced")
        world.write(t, [b"a"])
        assert world.end(t, commit=True, coordinator=5) == "NONE"
        world.write(t, [b"b"])
        assert world.end(t, commit=True, coordinator=4) == "TRANSACTION_COORDINATOR_FENCED"
        assert world.end(t, commit=True, epoch=-1, coordinator=5) == "INVALID_PRODUCER_EPOCH"
        assert world.end(t, commit=False, coordinator=5) == "NONE"

    def test_a_marker_of_level_2_never_ends_the_transaction_of_its_own_epoch(
        self, world: Transactions
    ) -> None:
        t = world.topic("late-marker")
        world.write(t, [b"a"], epoch=3)
        assert world.end(t, commit=True, epoch=3, level=2) == "INVALID_PRODUCER_EPOCH"
        assert world.end(t, commit=True, epoch=4, level=2) == "NONE"
        assert world.end(t, commit=True, epoch=4, level=2) == "NONE"  # sent once more
        assert world.committed(t) == [b"a"]

    def test_unknown_partitions_are_distinguished(self, world: Transactions) -> None:
        t = world.topic("known")
        assert world.end("unknown", commit=True) == "UNKNOWN_TOPIC_OR_PARTITION"
        assert world.end(t, commit=True, index=7) == "UNKNOWN_TOPIC_OR_PARTITION"
        assert world.end(OFFSETS, commit=True, index=7) == "NOT_LEADER_OR_FOLLOWER"

    def test_open_transactions_are_described(self, world: Transactions) -> None:
        t = world.topic("described")
        world.write(t, [b"a"], epoch=2)
        asked = TopicRequest(name=t, partition_indexes=[0])
        request = DescribeProducersRequest(topics=[asked])

        def producer() -> tuple[int, int, int, int]:
            [told] = world.cluster.ask(request).topics[0].partitions[0].active_producers
            return (
                told.producer_id,
                told.producer_epoch,
                told.coordinator_epoch,
                told.current_txn_start_offset,
            )

        assert producer() == (9, 2, -1, 0)
        world.end(t, commit=False, epoch=2, coordinator=6)
        assert producer() == (9, 2, 6, -1)


class TestOffsets:
    @pytest.mark.parametrize("version", range(7))
    def test_offsets_hold_once_the_transaction_is_committed(
        self, world: Transactions, version: int
    ) -> None:
        t, group = world.topic(f"read-{version}"), world.with_group(f"g{version}")
        assert world.commit_offset(group, t, 5, version=version) == "NONE"
        assert world.offset(group, t) == ("NONE", -1)
        assert world.offset(group, t, stable=True) == ("UNSTABLE_OFFSET_COMMIT", -1)
        assert world.end(OFFSETS, commit=True) == "NONE"
        assert world.offset(group, t, stable=True) == ("NONE", 5)
        question = world.coordinator.questions[0]
        assert question == ("app", 9, 0, ((OFFSETS, 0),), version >= 5, version >= 4)

    def test_a_topic_that_does_not_exist_is_refused_by_name_or_id(
        self, world: Transactions
    ) -> None:
        group = world.with_group("absent")
        assert world.commit_offset(group, "absent", 5) == "UNKNOWN_TOPIC_OR_PARTITION"
        assert world.commit_offset(group, "absent", 5, version=6) == "UNKNOWN_TOPIC_ID"

    def test_offsets_of_an_aborted_transaction_never_hold(self, world: Transactions) -> None:
        t, group = world.topic("aborted"), world.with_group("aborted")
        world.commit_offset(group, t, 5)
        world.end(OFFSETS, commit=True)
        world.commit_offset(group, t, 9)
        assert world.offset(group, t) == ("NONE", 5)
        world.end(OFFSETS, commit=False)
        assert world.offset(group, t, stable=True) == ("NONE", 5)

    def test_a_producer_of_an_older_epoch_commits_nothing(self, world: Transactions) -> None:
        t, group = world.topic("old-epoch"), world.with_group("old-epoch")
        assert world.commit_offset(group, t, 5, epoch=3, producer=77) == "NONE"
        refused = world.commit_offset(group, t, 9, epoch=2, producer=77)
        assert refused == "INVALID_PRODUCER_EPOCH"
        world.end(OFFSETS, commit=True, epoch=3, producer=77)
        assert world.offset(group, t) == ("NONE", 5)

    def test_an_unknown_generation_commits_nothing(self, world: Transactions) -> None:
        t, group = world.topic("generation"), world.with_group("generation")
        refused = world.commit_offset(group, t, 5, generation=3, member="m")
        assert refused == "ILLEGAL_GENERATION"
        world.commit_offset(group, t, 5)
        assert world.commit_offset(group, t, 6, generation=3, member="m") == "UNKNOWN_MEMBER_ID"

    @pytest.mark.parametrize("version", [1, 2])
    def test_older_producers_do_not_see_that_it_loads(
        self, world: Transactions, version: int
    ) -> None:
        t, group = world.topic(f"loads-{version}"), world.with_group(f"loads-{version}")
        world.coordinator.answer = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        known = ("COORDINATOR_NOT_AVAILABLE", "COORDINATOR_LOAD_IN_PROGRESS")[version - 1]
        assert world.commit_offset(group, t, 5, version=version, producer=55) == known


def test_a_restarted_broker_knows_what_was_open() -> None:
    world = Transactions()
    t, group = world.topic("t"), world.with_group("g")
    world.write(t, [b"a"])
    world.commit_offset(group, t, 7)
    world.cluster.sim.nodes[1].kill()
    world.cluster.sim.nodes[1].start()
    world.cluster.until(lambda: 1 in world.cluster.ids and world.cluster.leader(t) == 1)
    world.cluster.broker().transactions.verifier = world.coordinator
    assert world.committed(t) == []
    world.cluster.until(lambda: 0 in world.cluster.broker().groups.shards)
    world.cluster.until(lambda: world.cluster.broker().groups.shards[0].active)
    assert world.offset(group, t, stable=True) == ("UNSTABLE_OFFSET_COMMIT", -1)
    assert world.end(OFFSETS, commit=True) == "NONE"
    assert world.end(t, commit=True) == "NONE"
    assert world.offset(group, t, stable=True) == ("NONE", 7)
    assert world.committed(t) == [b"a"]


class TestReplicas:
    """Three brokers: what the leader knew of transactions its followers know."""

    @pytest.fixture
    def three(self) -> Transactions:
        world = Transactions(3)
        world.cluster.create_topic("t", 2, 3, min_insync_replicas="2")
        return world

    @pytest.mark.slow
    def test_a_follower_serves_committed_records_only(self, three: Transactions) -> None:
        three.write("t", [b"a"])
        three.end("t", commit=False)
        three.write("t", [b"b"])
        leader = three.cluster.leader("t")
        for node in three.cluster.ids:
            if node == leader:
                continue
            three.cluster.until(
                lambda node=node: three.cluster.partition(node, "t").high_watermark == 3  # type: ignore[misc]
            )
            data = three.cluster.fetch(topic="t", node=node, isolation=READ_COMMITTED)
            assert [(a.producer_id, a.first_offset) for a in data.aborted_transactions or ()] == [
                (9, 0)
            ]
            assert data.last_stable_offset == 2
            assert [v for v in values_of(data) if v == b"b"] == []

    def test_a_new_leader_continues_open_transactions(self, three: Transactions) -> None:
        three.write("t", [b"a"])
        three.write("t", [b"x"], producer=10)
        three.end("t", commit=False, producer=10)
        leader = three.cluster.leader("t")
        three.cluster.sim.nodes[leader].kill()
        three.cluster.until(
            lambda: any(three.cluster._leads(n, "t", 0) for n in three.cluster.ids if n != leader)
        )
        assert three.committed("t") == []
        asked = len(three.coordinator.questions)
        assert three.write("t", [b"b"]) == "NONE"
        assert len(three.coordinator.questions) == asked, "its transaction is open here"
        assert three.end("t", commit=True) == "NONE"
        assert three.committed("t") == [b"a", b"b"]
