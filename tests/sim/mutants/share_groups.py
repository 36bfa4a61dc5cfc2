"""Bugs of share groups (KIP-932)."""

from __future__ import annotations

from barnabas.broker.share import share_partition
from barnabas.broker.share.in_flight import Piece
from barnabas.broker.share.share_partition import RELEASE
from barnabas.share.delivery import DeliveryState
from barnabas.sim.run import Plan
from tests.sim.mutants.planting import Mutant, Patch

SHARES = Plan(shares=True)


def held_twice() -> list[Patch]:
    def also_held(self: Piece) -> bool:
        free = (DeliveryState.AVAILABLE, DeliveryState.ACQUIRED)
        return self.state in free and self.pending is None

    return [(Piece, "is_available", property(also_held))]


def release_archives() -> list[Patch]:
    return [
        (
            share_partition,
            "_STATE_AFTER",
            {**vars(share_partition)["_STATE_AFTER"], RELEASE: DeliveryState.ARCHIVED},
        )
    ]


MUTANTS = (
    Mutant("record-held-twice", "a record is delivered to a member while another one holds it",
           held_twice, SHARES),
    Mutant("release-archives", "a record that is released is not delivered again", release_archives, SHARES),
)  # fmt: skip
