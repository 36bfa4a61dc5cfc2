"""Blocks of producer ids never overlap: each begins where the one before it ended, whichever controller
decides and whichever broker asks. (The history checks that no two clients get the same id.)"""

from __future__ import annotations

from barnabas.controller.migration_state import ZkMigrationState
from barnabas.metadata.image.image import MetadataImage
from barnabas.metadata.records.producer_ids_record import ProducerIdsRecord
from barnabas.sim.checkers.metadata_records import RecordRule
from barnabas.sim.history import Violation
from barnabas.wire.schema import Message


class ProducerIdBlocks(RecordRule):
    KINDS = (ProducerIdsRecord,)

    def on_record(self, image: MetadataImage, offset: int, record: Message) -> None:
        assert isinstance(record, ProducerIdsRecord)
        if record.next_producer_id <= image.next_producer_id:
            raise Violation(
                f"metadata offset {offset}: broker {record.broker_id} gets producer ids up to"
                f" {record.next_producer_id}, and {image.next_producer_id} were given out before"
            )
        if record.broker_id < 0 or image.zk_migration_state == ZkMigrationState.PRE_MIGRATION:
            return  # a recovered quorum skips what may have been given out; one that migrates copies it
        if record.broker_epoch < 0 and not image.next_producer_id:
            return  # with it a copy of a stopped cluster's znodes begins, which have no such epoch
        broker = image.brokers.get(record.broker_id)
        if broker is None or broker.epoch != record.broker_epoch:
            raise Violation(
                f"metadata offset {offset}: producer ids for broker {record.broker_id} in epoch"
                f" {record.broker_epoch}, which is not its own"
            )
