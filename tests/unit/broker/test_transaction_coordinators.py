"""Coordinators of transactions in a cluster of three: every version of their requests, and what becomes of a
transaction whose coordinator or leaders die between two steps."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas.broker.coordinator.coordinators import partition_of
from barnabas.record.builder import build_batch
from barnabas.types import TRANSACTIONS_TOPIC
from barnabas.wire.messages.add_offsets_to_txn_request import AddOffsetsToTxnRequest
from barnabas.wire.messages.add_partitions_to_txn_request import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from barnabas.wire.messages.describe_transactions_request import DescribeTransactionsRequest
from barnabas.wire.messages.end_txn_request import EndTxnRequest
from barnabas.wire.messages.find_coordinator_request import FindCoordinatorRequest
from barnabas.wire.messages.init_producer_id_request import InitProducerIdRequest
from barnabas.wire.messages.list_transactions_request import ListTransactionsRequest
from tests.unit.broker.world import Cluster, code, values_of

READ_COMMITTED = 1


class Transactions:
    """One transactional id in a cluster."""

    def __init__(self, transactional_id: str = "app") -> None:
        self.cluster = Cluster(
            3,
            transaction_abort_timed_out_transaction_cleanup_interval_ms="500",
        )
        self.transactional_id = transactional_id
        self.cluster.create_topic("t", 3, 3)
        for index in range(3):
            self.cluster.leader("t", index)
        self.until_found()
        self.producer_id = self.epoch = -1

    def until_found(self) -> None:
        request = FindCoordinatorRequest(key_type=1, coordinator_keys=[self.transactional_id])
        node = self.cluster.ids[0]
        self.cluster.until(
            lambda: (
                code(self.cluster.ask(request, node).coordinators[0].error_code) == "NONE"
                and self.is_active()
            )
        )

    def is_active(self) -> bool:
        for node in self.cluster.ids:
            coordinators = self.cluster.broker(node).transactions.coordinators
            shard = coordinators.shards.get(coordinators.partition_for(self.transactional_id))
            if shard is not None and shard.active:
                return True
        return False

    @property
    def coordinator(self) -> int:
        topic = self.cluster.broker(self.cluster.ids[0]).image.topics_by_name[TRANSACTIONS_TOPIC]
        return self.cluster.leader(
            TRANSACTIONS_TOPIC, partition_of(self.transactional_id, len(topic))
        )

    def ask(self, request: Any, version: int | None = None) -> Any:
        return self.cluster.ask(request, self.coordinator, version)

    def init(self, version: int = 5, timeout_ms: int = 60_000) -> str:
        answer = self.ask(
            InitProducerIdRequest(
                transactional_id=self.transactional_id, transaction_timeout_ms=timeout_ms
            ),
            version,
        )
        if answer.error_code == 0:
            self.producer_id, self.epoch = answer.producer_id, answer.producer_epoch
        return code(answer.error_code)

    def add(self, *indexes: int, version: int = 3, verify: bool = False) -> list[str]:
        topics = [AddPartitionsToTxnTopic(name="t", partitions=indexes)]
        who = (self.transactional_id, self.producer_id, self.epoch)
        if version >= 4:
            one = AddPartitionsToTxnTransaction(
                transactional_id=who[0], producer_id=who[1], producer_epoch=who[2],
                verify_only=verify, topics=topics,
            )  # fmt: skip
            answer = self.ask(AddPartitionsToTxnRequest(transactions=[one]), version)
            found = answer.results_by_transaction[0].topic_results
        else:
            request = AddPartitionsToTxnRequest(
                v3_and_below_transactional_id=who[0], v3_and_below_producer_id=who[1],
                v3_and_below_producer_epoch=who[2], v3_and_below_topics=topics,
            )  # fmt: skip
            found = self.ask(request, version).results_by_topic_v3_and_below
        return [code(p.partition_error_code) for topic in found for p in topic.results_by_partition]

    def end(self, commit: bool, version: int = 4) -> str:
        answer = self.ask(
            EndTxnRequest(
                transactional_id=self.transactional_id, producer_id=self.producer_id,
                producer_epoch=self.epoch, committed=commit,
            ),
            version,
        )  # fmt: skip
        if answer.error_code == 0 and answer.producer_id >= 0:
            self.producer_id, self.epoch = answer.producer_id, answer.producer_epoch
        return code(answer.error_code)

    def describe(self) -> Any:
        request = DescribeTransactionsRequest(transactional_ids=[self.transactional_id])
        return self.ask(request).transaction_states[0]

    def write(self, index: int, *values: bytes, version: int = 12) -> str:
        batch = build_batch(
            [(b"k", value) for value in values],
            timestamp_ms=self.cluster.client.clock.wall_ms(),
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            base_sequence=0,
            transactional=True,
        )
        cluster = self.cluster
        request = cluster.produce_request([], topic="t", index=index, batch=batch)
        request.transactional_id = self.transactional_id
        answer = cluster.ask(request, cluster.leader("t", index), version)
        return code(answer.responses[0].partition_responses[0].error_code)

    def until_state(self, label: str) -> None:
        self.cluster.until(lambda: self.is_active() and self.describe().transaction_state == label)

    def read(self, index: int) -> list[bytes]:
        """Committed records of one partition, once everything in it is decided."""
        cluster = self.cluster
        leader = cluster.leader("t", index)
        partition = cluster.partition(leader, "t", index)

        def stable() -> bool:
            log = partition.log
            assert log is not None
            return log.last_stable_offset == log.log_end_offset

        cluster.until(stable)
        data = cluster.fetch(topic="t", index=index, node=leader, isolation=READ_COMMITTED)
        aborted = {(a.producer_id, a.first_offset) for a in data.aborted_transactions or ()}
        return [] if aborted else values_of(data)


@pytest.fixture(scope="module")
def shared() -> Transactions:
    return Transactions()


class TestEveryVersion:
    @pytest.mark.parametrize("version", range(6))
    def test_init_producer_id(self, shared: Transactions, version: int) -> None:
        shared.cluster.until(lambda: shared.init(version) == "NONE")
        before = (shared.producer_id, shared.epoch)
        assert shared.init(version) == "NONE"
        assert (shared.producer_id, shared.epoch) == (before[0], before[1] + 1)

    @pytest.mark.parametrize("version", range(6))
    def test_partitions_and_offsets_are_added_and_the_transaction_ends(
        self, shared: Transactions, version: int
    ) -> None:
        shared.cluster.until(lambda: shared.init() == "NONE")
        assert shared.add(0, 1, version=version) == ["NONE", "NONE"]
        assert shared.add(0, 7, version=version) == [
            "OPERATION_NOT_ATTEMPTED", "UNKNOWN_TOPIC_OR_PARTITION",
        ]  # fmt: skip
        offsets = AddOffsetsToTxnRequest(
            transactional_id="app", producer_id=shared.producer_id, producer_epoch=shared.epoch,
            group_id="g",
        )  # fmt: skip
        answer = shared.ask(offsets, min(version, 4))
        assert code(answer.error_code) == "NONE"
        described = shared.describe()
        assert described.transaction_state == "Ongoing"
        assert {topic.topic for topic in described.topics} == {"t", "__consumer_offsets"}
        assert shared.end(True, version) == "NONE"

    @pytest.mark.parametrize("version", range(3))
    def test_list_transactions(self, shared: Transactions, version: int) -> None:
        answer = shared.ask(ListTransactionsRequest(), version)
        assert code(answer.error_code) == "NONE"
        assert [one.transactional_id for one in answer.transaction_states] == ["app"]

    @pytest.mark.parametrize("version", [0, 1, 2, 3])
    def test_a_fenced_producer_learns_it_as_its_version_says(
        self, shared: Transactions, version: int
    ) -> None:
        shared.cluster.until(lambda: shared.init() == "NONE")
        shared.epoch -= 1
        expected = "PRODUCER_FENCED" if version >= 2 else "INVALID_PRODUCER_EPOCH"
        assert shared.add(0, version=version) == [expected]
        assert shared.end(True, version) == expected

    def test_other_brokers_do_not_answer_for_the_coordinator(self, shared: Transactions) -> None:
        other = next(node for node in shared.cluster.ids if node != shared.coordinator)
        request = DescribeTransactionsRequest(transactional_ids=["app"])
        answer = shared.cluster.ask(request, other).transaction_states[0]
        assert code(answer.error_code) == "NOT_COORDINATOR"

    def test_the_topic_is_as_transaction_state_log_keys_say(self, shared: Transactions) -> None:
        image = shared.cluster.broker().image
        topic = image.topics_by_name[TRANSACTIONS_TOPIC]
        configs = image.config(2, TRANSACTIONS_TOPIC)
        assert len(topic) == 2 and len(topic.replicas[0]) == 3
        assert configs["cleanup.policy"] == "compact"
        assert configs["unclean.leader.election.enable"] == "false"
        assert configs["min.insync.replicas"] == "2"
        assert configs["compression.type"] == "uncompressed"


def test_a_write_of_version_12_joins_and_one_of_version_11_asks() -> None:
    one = Transactions()
    assert one.init() == "NONE"
    assert one.write(0, b"a", version=11) == "TRANSACTION_ABORTABLE"
    assert one.write(0, b"a", version=10) == "INVALID_TXN_STATE"
    assert one.write(0, b"a", version=12) == "NONE"
    assert one.add(0, 1, version=5, verify=True) == ["NONE", "TRANSACTION_ABORTABLE"]
    assert one.end(True, 5) == "NONE"
    assert one.read(0) == [b"a"]
    assert one.epoch == 1


@pytest.mark.parametrize("commit", [True, False])
@pytest.mark.parametrize("version", [4, 5])
def test_a_decision_outlives_its_coordinator(commit: bool, version: int) -> None:
    one = Transactions()
    cluster = one.cluster
    assert one.init() == "NONE"
    for index in range(3):
        assert one.add(index, version=3 if version == 4 else 5) == ["NONE"]
        assert one.write(index, b"v", version=12) == "NONE"
    coordinator = one.coordinator
    assert one.end(commit, version) == "NONE"
    cluster.sim.nodes[coordinator].kill()
    one.until_found()
    one.until_state("CompleteCommit" if commit else "CompleteAbort")
    for index in range(3):
        assert one.read(index) == ([b"v"] if commit else [])


@pytest.mark.slow
def test_a_dead_producers_transaction_is_aborted_by_the_next_coordinator() -> None:
    one = Transactions()
    cluster = one.cluster
    assert one.init(timeout_ms=3_000) == "NONE"
    assert one.write(0, b"v") == "NONE"
    cluster.sim.nodes[one.coordinator].kill()
    one.until_found()
    one.until_state("CompleteAbort")
    assert one.read(0) == []


def test_a_marker_waits_for_a_leader_that_is_gone() -> None:
    one = Transactions()
    cluster = one.cluster
    assert one.init() == "NONE"
    others = [n for n in cluster.ids if n != one.coordinator]
    index = next(i for i in range(3) if cluster.leader("t", i) in others)
    assert one.write(index, b"v") == "NONE"
    cluster.sim.nodes[cluster.leader("t", index)].kill()
    assert one.end(True, 5) == "NONE"
    one.until_state("CompleteCommit")
    assert one.read(index) == [b"v"]


@pytest.mark.slow
def test_the_next_transaction_begins_while_markers_of_the_last_are_on_their_way() -> None:
    """The write waits for them, as ``add.partitions.to.txn.retry.backoff.max.ms`` says."""
    one = Transactions()
    assert one.init() == "NONE"
    for number in range(5):
        value = b"%d" % number
        assert one.write(0, value) == "NONE"
        assert one.end(True, 5) == "NONE"
    assert one.read(0) == [b"0", b"1", b"2", b"3", b"4"]
