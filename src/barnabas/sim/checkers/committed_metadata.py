"""A partition's leader goes by an ISR that the quorum has committed, never by one that may still be lost.

The controller's answer to AlterPartition is what it goes by first; that answer rests on the commit. Were it
given earlier, a leader could count on an ISR that the next controller does not know.
"""

from __future__ import annotations

from barnabas.metadata.image.image import MetadataImage
from barnabas.sim.checkers.replica_logs import Rule, Watched
from barnabas.sim.history import Violation


class LeadersGoByWhatIsCommitted(Rule):
    def __init__(self, image: MetadataImage) -> None:
        """`image` holds everything of which any node knows that it is committed."""
        self._image = image

    def on_leading(self, replica: Watched) -> None:
        self._check(replica)

    def on_isr(self, replica: Watched, joined: tuple[int, ...]) -> None:
        self._check(replica)

    def _check(self, replica: Watched) -> None:
        leader = replica.partition.leader
        known = self._image.partition(replica.partition.topic_id, replica.partition.index)
        if leader is None or known is None:
            return
        if leader.partition_epoch > known.partition_epoch:
            raise Violation(
                f"{replica.where}: goes by ISR {list(leader.isr)} of partition epoch"
                f" {leader.partition_epoch}; committed is {list(known.isr)} of epoch"
                f" {known.partition_epoch}"
            )
