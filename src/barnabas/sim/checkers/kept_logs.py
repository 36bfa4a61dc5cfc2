"""Who was merely killed comes back with all that it had: what stood in a log, and was not cut, is there
again, whatever recovery makes of it.

Excused is a machine on which something took more than a kill does since the life before began.
"""

from __future__ import annotations

from collections.abc import Mapping

from barnabas.sim.checkers.replica_logs import Key, Rule, Watched
from barnabas.sim.cluster import SimNode
from barnabas.sim.history import Violation

HARMS = ("power_losses", "directories_replaced", "calls_failed", "writes_without_room")


class KilledReplicasKeepTheirLogs(Rule):
    def __init__(self) -> None:
        self._harm: dict[int, int] = {}
        """Node → what its disk had suffered when its life began."""

    def on_life(self, node: SimNode, replicas: Mapping[Key, Watched]) -> None:
        totals = node.machine.disk.totals
        harm = sum(totals[harm] for harm in HARMS)
        before, self._harm[node.id] = self._harm.get(node.id), harm
        # What rotted may come to light in any later life.
        if before != harm or totals["bits_rotted"] or node.broker is None:
            return
        logs = node.broker.logs.logs
        for (topic_id, _), replica in replicas.items():
            former, log = replica.log, logs.get(replica.partition.name)
            if former is None or log is None or log.topic_id != topic_id:
                continue
            end = replica.end
            if former.generations.truncation_count != replica.cuts:
                end = min(end, former.generations.lowest_cut)  # it died within a cut
            if log.log_end_offset < end:
                raise Violation(
                    f"{replica.where}: had everything up to {end} and comes back with an end of"
                    f" {log.log_end_offset}"
                )
