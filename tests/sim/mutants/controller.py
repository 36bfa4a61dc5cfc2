"""Bugs of the controller and of the metadata."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

from barnabas.controller.active.quorum_controller import QuorumController
from barnabas.controller.brokers import broker_registration
from barnabas.controller.decision_context import ControllerContext, TopicRules
from barnabas.controller.partitions import leader_and_isr as isr
from barnabas.controller.partitions import partition_change
from barnabas.metadata.image import codec, replay, snapshot
from barnabas.metadata.image.image import MetadataImage
from barnabas.metadata.records.partition_change_record import PartitionChangeRecord
from barnabas.wire.request import Parked
from tests.sim.mutants.planting import Mutant, Patch


def fenced_broker_elected() -> list[Patch]:
    def any_replica(self: ControllerContext, broker: int, directory: Any) -> bool:
        return broker in self.image.brokers

    return [(ControllerContext, "may_lead", any_replica)]


def leader_epoch_not_bumped() -> list[Patch]:
    def keeps_the_epoch(image: MetadataImage, record: PartitionChangeRecord) -> None:
        before = image.partition(record.topic_id, record.partition_id)
        honest(image, record)
        topic = image.topics_by_id.get(record.topic_id)
        if before is not None and topic is not None:
            topic.leader_epoch[record.partition_id] = before.leader_epoch

    honest = replay.REPLAY[PartitionChangeRecord]
    return [(replay.REPLAY, "PartitionChangeRecord", keeps_the_epoch)]


def snapshot_misses_a_record() -> list[Patch]:
    def without_the_last(moment: Any, size: int) -> Iterator[list[bytes]]:
        try:
            records = list(snapshot.moment_records(moment))[:-1]
            rest = iter(records)
            while taken := list(islice(rest, size)):
                yield codec.encode_records(taken, moment.metadata_version)
        finally:
            moment.close()

    return [(snapshot, "_chunks", without_the_last)]


def replay_out_of_order() -> list[Patch]:
    honest = MetadataImage.replay_values

    def backwards(self: MetadataImage, values: Iterable[Any], *rest: Any) -> None:
        values = list(values)
        if len(values) == 2:
            values.reverse()
        honest(self, values, *rest)

    return [(MetadataImage, "replay_values", backwards)]


def answered_before_committed() -> list[Patch]:
    honest = QuorumController.decide

    def at_once(self: QuorumController, *arguments: Any, **named: Any) -> Any:
        answer = honest(self, *arguments, **named)
        if isinstance(answer, Parked) and self._waiting and self._waiting[-1].parked is answer:
            return self._waiting.pop().response
        return answer

    return [(QuorumController, "decide", at_once)]


def unclean_leader() -> list[Patch]:
    return [(TopicRules, "unclean", property(lambda self: True))]


def unclean_shutdown_overlooked() -> list[Patch]:
    honest = isr.isr_updates

    def forgives(*arguments: Any, unclean_shutdown: int | None = None, **named: Any) -> Any:
        return honest(*arguments, unclean_shutdown=None, **named)

    return [(broker_registration, "isr_updates", forgives)]


def reassignment_completes_early() -> list[Patch]:
    def at_once(self: partition_change.PartitionChangeBuilder) -> None:
        if self.adding or self.removing:
            replicas = tuple(r for r in self.replicas if r not in self.removing)
            isr = tuple(r for r in self.isr if r in replicas)
            if isr:
                self.isr, self.replicas, self.adding, self.removing = isr, replicas, (), ()

    return [(partition_change.PartitionChangeBuilder, "_complete_reassignment", at_once)]


MUTANTS = (
    Mutant("fenced-broker-elected", "a fenced broker may lead", fenced_broker_elected),
    Mutant("leader-epoch-not-bumped", "a new leader continues in the old leader epoch",
           leader_epoch_not_bumped),
    Mutant("snapshot-misses-record", "a metadata snapshot lacks its last record", snapshot_misses_a_record),
    Mutant("replay-out-of-order", "two records of one batch are replayed in the wrong order",
           replay_out_of_order),
    Mutant("answered-before-commit", "the controller answers before its records are committed",
           answered_before_committed),
    Mutant("unclean-leader", "a replica outside of ISR and ELR leads, though that is not allowed",
           unclean_leader),
    Mutant("unclean-shutdown-overlooked", "a broker that lost its power stays in the ELR",
           unclean_shutdown_overlooked),
    Mutant("reassignment-early", "a reassignment completes before its new replicas are in sync",
           reassignment_completes_early),
)  # fmt: skip
