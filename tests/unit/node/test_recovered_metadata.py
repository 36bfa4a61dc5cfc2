"""What a lost history may have given out is not given out again by the quorum that was recovered."""

from __future__ import annotations

import pytest

from barnabas.metadata.features import LATEST_METADATA_VERSION, METADATA_VERSION
from barnabas.metadata.image.codec import decode_record, encode_records
from barnabas.metadata.image.image import MetadataImage
from barnabas.metadata.records.abort_transaction_record import AbortTransactionRecord
from barnabas.metadata.records.begin_transaction_record import BeginTransactionRecord
from barnabas.metadata.records.feature_level_record import FeatureLevelRecord
from barnabas.metadata.records.no_op_record import NoOpRecord
from barnabas.metadata.records.partition_change_record import PartitionChangeRecord
from barnabas.metadata.records.partition_record import PartitionRecord
from barnabas.metadata.records.producer_ids_record import ProducerIdsRecord
from barnabas.metadata.records.topic_record import TopicRecord
from barnabas.node.recovered_metadata import PRODUCER_IDS_SKIPPED, beyond_what_was_lost, image_of
from barnabas.raft.quorum_recovery import EPOCHS_SKIPPED, RecoveryRefusedError, recover
from barnabas.raft.storage.bootstrap import open_replica
from barnabas.sim.world.world import START_WALL_MS
from barnabas.types import Uuid
from barnabas.wire.schema import Message
from tests.unit.raft.quorum_world import Quorum, QuorumNode

TOPIC = Uuid(bytes(15) + b"\x07")
LOG: list[Message] = [
    FeatureLevelRecord(name=METADATA_VERSION, feature_level=LATEST_METADATA_VERSION),
    TopicRecord(name="t", topic_id=TOPIC),
    PartitionRecord(
        partition_id=0, topic_id=TOPIC, replicas=[1, 2, 3], isr=[1, 2], leader=1, leader_epoch=4,
        partition_epoch=6, directories=[TOPIC, TOPIC, TOPIC],
    ),
    PartitionChangeRecord(partition_id=0, topic_id=TOPIC, leader=2, isr=[2]),
    ProducerIdsRecord(broker_id=1, broker_epoch=1, next_producer_id=5000),
]  # fmt: skip


def stopped(*runs: list[Message]) -> QuorumNode:
    """A lone voter that has committed `runs`."""
    quorum = Quorum(voters=1, first_voters=1)
    quorum.start()
    for records in runs:
        quorum.commit(*encode_records(records, LATEST_METADATA_VERSION))
    node = quorum.nodes[1]
    node.kill()
    return node


def recovered(node: QuorumNode) -> MetadataImage:
    disk = node.machine.disk.open_for_process()
    recover(disk, node.settings, "/data", START_WALL_MS, "test", beyond_what_was_lost)
    opened = open_replica(disk, node.settings, "/data")
    try:
        return image_of(opened)
    finally:
        opened.log.close(clean=True)


def test_epochs_and_producer_ids_continue_further_up() -> None:
    image = recovered(stopped(LOG))
    state = image.topics_by_name["t"].partition(0)
    assert (state.leader, state.isr, state.replicas) == (2, (2,), (1, 2, 3))
    assert state.leader_epoch == 5 + EPOCHS_SKIPPED
    assert state.partition_epoch == 7 + EPOCHS_SKIPPED
    assert state.directories == (TOPIC, TOPIC, TOPIC)
    assert image.next_producer_id == 5000 + PRODUCER_IDS_SKIPPED


def test_a_transaction_that_was_open_ends_first() -> None:
    begun: list[Message] = [
        BeginTransactionRecord(name="lost"),
        TopicRecord(name="u", topic_id=Uuid(b"u" * 16)),
    ]
    node = stopped(LOG, begun)
    opened = open_replica(node.machine.disk.open_for_process(), node.settings, "/data")
    first, *_ = beyond_what_was_lost(opened)
    assert [type(decode_record(value)) for value in first] == [AbortTransactionRecord]
    opened.log.close(clean=True)
    image = recovered(node)
    assert image.transaction is None and "u" not in image.topics_by_name
    assert image.next_producer_id == 5000 + PRODUCER_IDS_SKIPPED


def test_nothing_is_written_where_no_id_was_given_out_or_a_record_is_unread() -> None:
    node = stopped([NoOpRecord()])
    assert not recovered(node).features
    quorum = Quorum(voters=1, first_voters=1)
    quorum.start()
    quorum.commit(b"\x01\xffno record")
    node = quorum.nodes[1]
    node.kill()
    before = node.machine.disk.content("/data/__cluster_metadata-0/00000000000000000000.log")
    with pytest.raises(RecoveryRefusedError, match="cannot be read"):
        recovered(node)
    after = node.machine.disk.content("/data/__cluster_metadata-0/00000000000000000000.log")
    assert after == before
