"""Log matching of partitions: equal offset and leader epoch mean an equal batch, and equal ones before.

:meth:`~barnabas.sim.checkers.chains.LogVersions.link` checks this when a replica appends a batch. This
checker adds the rest: leader epochs do not go back within a log, and offsets leave no gap.
"""

from __future__ import annotations

from barnabas.sim.checkers.chains import Link
from barnabas.sim.checkers.replica_logs import Rule, Watched
from barnabas.sim.history import Violation


class PartitionLogMatching(Rule):
    def on_appended(self, replica: Watched, link: Link, *, new: bool) -> None:
        before = link.previous_link
        if not new or before is None:
            return
        if link.epoch < before.epoch:
            raise Violation(
                f"{replica.where}: a batch of leader epoch {link.epoch} at offset {link.start} is"
                f" behind one of epoch {before.epoch}"
            )
        if link.start != before.end:
            raise Violation(
                f"{replica.where}: offset {link.start} follows {before.end}: a gap in the log"
            )
        leader = replica.partition.leader
        if leader is None or link.start < leader.epoch_start_offset:
            return  # it may have been appended in a leadership before, within the same event
        if link.epoch != replica.partition.leader_epoch:
            raise Violation(
                f"{replica.where} leads in epoch {replica.partition.leader_epoch} and appends in epoch"
                f" {link.epoch}"
            )
