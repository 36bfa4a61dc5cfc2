"""Bugs of share groups (KIP-932)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from barnabas.broker.share import share_partition
from barnabas.broker.share.in_flight import Piece
from barnabas.broker.share.led_partitions import LedPartitions
from barnabas.broker.share.share_partition import RELEASE, SharePartition
from barnabas.share import machine
from barnabas.share.delivery import DeliveryState
from barnabas.share.machine import ShareMachine
from barnabas.share.state import ShareState
from barnabas.sim.run import Plan
from tests.sim.mutants.planting import Mutant, Patch

SHARES = Plan(shares=True)


def held_twice() -> list[Patch]:
    def also_held(self: Piece) -> bool:
        free = (DeliveryState.AVAILABLE, DeliveryState.ACQUIRED)
        return self.state in free and self.pending is None

    return [(Piece, "is_available", property(also_held))]


def batches_not_read() -> list[Patch]:
    honest = LedPartitions._begin

    def from_start(
        self: LedPartitions, led: Any, epoch: int, batches: Any, start: Any, *, chosen: bool = False
    ) -> None:
        honest(self, led, epoch, [], start, chosen=chosen)

    return [(LedPartitions, "_begin", from_start)]


def delivery_not_counted() -> list[Patch]:
    honest = SharePartition._acquire_again

    def uncounted(self: SharePartition, *given: Any) -> Any:
        found, is_whole = honest(self, *given)
        for part in found:
            for piece in self.in_flight.between(part.first, part.last):
                piece.deliveries -= 1
        fewer = [part._replace(deliveries=part.deliveries - 1) for part in found]
        return fewer, is_whole

    return [(SharePartition, "_acquire_again", uncounted)]


def limit_exceeded() -> list[Patch]:
    honest = LedPartitions.limits

    def one_more(self: LedPartitions, group_id: str) -> Any:
        limits = honest(self, group_id)
        return limits._replace(deliveries_max=limits.deliveries_max + 1)

    return [(LedPartitions, "limits", one_more)]


def snapshot_without_batches() -> list[Patch]:
    honest = vars(machine)["snapshot_of"]

    def bare(state: ShareState) -> Any:
        return honest(replace(state, batches=()))

    return [(machine, "snapshot_of", bare)]


def release_archives() -> list[Patch]:
    return [
        (
            share_partition,
            "_STATE_AFTER",
            {**vars(share_partition)["_STATE_AFTER"], RELEASE: DeliveryState.ARCHIVED},
        )
    ]


def released_not_delivered() -> list[Patch]:
    def at_end(self: SharePartition) -> int:
        return self.in_flight.end

    return [(SharePartition, "next_fetch_offset", at_end)]


def pruned_too_far() -> list[Patch]:
    def all_committed(self: ShareMachine) -> int:
        return self._journal.committed

    return [(ShareMachine, "redundant_before", all_committed)]


MUTANTS = (
    Mutant("record-held-twice", "a record is delivered to a member while another one holds it",
           held_twice, SHARES),
    Mutant("share-batches-not-read", "a new leader reads the start of a share partition and no more",
           batches_not_read, SHARES),
    Mutant("delivery-not-counted", "a record that is delivered again is not counted",
           delivery_not_counted, SHARES),
    Mutant("delivered-too-often", "records are delivered once more than the limit", limit_exceeded, SHARES),
    Mutant("share-snapshot-without-batches", "a snapshot of a share state has its start and no batches",
           snapshot_without_batches, SHARES),
    Mutant("release-archives", "a record that is released is not delivered again", release_archives, SHARES),
    Mutant("released-not-delivered", "records that are available again are passed over",
           released_not_delivered, SHARES),
    Mutant("share-state-pruned", "share coordinators delete records that they need",
           pruned_too_far, SHARES),
)  # fmt: skip
