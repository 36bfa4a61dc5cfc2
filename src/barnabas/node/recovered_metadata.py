"""Records that raise the epochs and producer ids of a recovered quorum.

The lost majority may have assigned numbers that the survivor does not know and would assign again: leader
epochs, with which brokers have written since, partition epochs and producer ids. But an offset and leader
epoch must identify one batch, and a producer id one producer. So the recovery raises all of these numbers by
a wide margin, like the quorum's own epoch. It writes ordinary records, which Apache Kafka replays, too.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from barnabas.log.errors import CorruptLogError
from barnabas.metadata.features import METADATA_VERSION
from barnabas.metadata.image.codec import encode_records
from barnabas.metadata.image.image import MetadataImage
from barnabas.metadata.image.snapshot import RECORDS_PER_SLICE, image_records
from barnabas.metadata.records.abort_transaction_record import AbortTransactionRecord
from barnabas.metadata.records.partition_record import PartitionRecord
from barnabas.metadata.records.producer_ids_record import ProducerIdsRecord
from barnabas.raft.core.batches import committed_batches
from barnabas.raft.quorum_recovery import EPOCHS_SKIPPED, RecoveryRefusedError
from barnabas.raft.storage.bootstrap import BootstrappedReplica
from barnabas.raft.storage.replica_log import SCAN_BYTES
from barnabas.record.batch import CorruptBatchError
from barnabas.wire.codec import MalformedError
from barnabas.wire.schema import Message

PRODUCER_IDS_SKIPPED = 1_000_000
"""Producer ids that are skipped: a thousand blocks."""


def beyond_what_was_lost(opened: BootstrappedReplica) -> Iterator[list[bytes]]:
    """The encoded records to append after the record that marks the recovery; each list is one batch. Blocks.
    Raises ``OSError``, :class:`CorruptLogError`, ``CorruptSnapshotError``, :class:`RecoveryRefusedError`."""
    image = image_of(opened)
    if METADATA_VERSION not in image.features:
        return  # no number was assigned yet
    if image.transaction is not None:
        abort = AbortTransactionRecord(reason="what another began was lost with the quorum")
        yield encode_records([abort], image.metadata_version)
        image.replay(abort)
    records = _raised(image)
    while taken := list(islice(records, RECORDS_PER_SLICE)):
        yield encode_records(taken, image.metadata_version)


def image_of(opened: BootstrappedReplica) -> MetadataImage:
    """The image of all records in a replica's directory, committed or not. Raises as
    `beyond_what_was_lost`."""
    image, log, snapshot = MetadataImage(track_changes=False), opened.log, opened.snapshot
    at = opened.log_metadata.start_offset
    try:
        if snapshot is not None and snapshot.id.offset > 0:
            at = snapshot.id.offset
            for values in snapshot.values():
                image.replay_values(values, at - 1, snapshot.id.epoch)
        while at < log.end_offset:
            found = committed_batches(log.read(at, SCAN_BYTES, log.end_offset), at, log.end_offset)
            if found.end_offset == at:
                raise CorruptLogError(opened.directory, 0, f"nothing is there at offset {at}")
            for batch in found.batches:
                image.replay_values(
                    batch.values, batch.last_offset, batch.epoch, batch.append_timestamp
                )
            at = found.end_offset
    except CorruptBatchError as error:
        raise CorruptLogError(opened.directory, error.position, error.why) from error
    except MalformedError as error:
        raise RecoveryRefusedError(f"the metadata cannot be read: {error}") from error
    return image


def _raised(image: MetadataImage) -> Iterator[Message]:
    for record in image_records(image):
        if isinstance(record, PartitionRecord):
            record.leader_epoch += EPOCHS_SKIPPED
            record.partition_epoch += EPOCHS_SKIPPED
            yield record
        elif isinstance(record, ProducerIdsRecord):
            record.next_producer_id += PRODUCER_IDS_SKIPPED
            yield record
