"""A partition's leader uses only an ISR that the metadata quorum has committed.

A leader learns a new ISR first from the controller's response to AlterPartition. The controller responds
after the commit. If it responded earlier, a leader could count on an ISR that the next controller does not
know.
"""

from __future__ import annotations

from barnabas.metadata.image.image import MetadataImage
from barnabas.sim.checkers.replica_logs import Rule, Watched
from barnabas.sim.history import Violation


class LeadersGoByWhatIsCommitted(Rule):
    def __init__(self, image: MetadataImage) -> None:
        """`image` holds all metadata that at least one node knows to be committed."""
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
