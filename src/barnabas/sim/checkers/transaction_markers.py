"""Invariant 10, as far as logs show it: replicas agree on what a transaction marker ended.

That markers stand at the same place on all replicas follows from log matching. Here the index of aborted
transactions, which each replica writes by itself and a consumer's read_committed rests on, is compared
with what the batches say; and no record of a transaction lies above the last stable offset unmarked.
"""

from __future__ import annotations

from barnabas.log.segments.transaction_index import marker_of
from barnabas.sim.checkers.chains import Link
from barnabas.sim.checkers.replica_logs import ReplicaLogs, Rule, Watched
from barnabas.sim.cluster import SimCluster
from barnabas.sim.history import Violation


class TransactionMarkers(Rule):
    def at_end(self, logs: ReplicaLogs, cluster: SimCluster) -> None:
        for key in logs.versions:
            for replica in logs.live(cluster, key):
                if not replica.compacted:
                    self._check(replica)

    @staticmethod
    def _check(replica: Watched) -> None:
        log = replica.partition.log
        assert log is not None
        disk = replica.node.machine.disk
        if any(disk.is_rotten(segment.path) for segment in log.segments):
            return  # nothing proves the index: what rotted is judged by who reads it (seed 61718)
        mark = min(replica.high_watermark, replica.held.end)
        aborted, _ = transactions_in(replica.held.chain, mark)
        if any(first < log.log_start_offset for _, first in aborted):
            return  # their beginnings are gone: the batches do not show what the index says
        found = set(log.read_transactions(log.log_start_offset, mark))
        # A marker above the mark is in the index already.
        known, _ = transactions_in(replica.held.chain, replica.held.end)
        if not aborted <= found <= known:
            raise Violation(
                f"{replica.where}: its index has aborted transactions {sorted(found)}, its batches"
                f" {sorted(aborted)}"
            )
        # As in Kafka, snapshots of producers do not say which markers are replicated: those before one that
        # was loaded count, wherever the high watermark is (seed 30116). All others count below it only.
        decided = min(max(mark, log.producers.loaded_to), replica.held.end)
        _, undecided = transactions_in(replica.held.chain, decided)
        if undecided is not None and log.last_stable_offset > undecided:
            raise Violation(
                f"{replica.where}: last stable offset {log.last_stable_offset} beyond {undecided},"
                " where a transaction is undecided"
            )


def transactions_in(chain: list[Link], mark: int) -> tuple[set[tuple[int, int]], int | None]:
    """((producer id, first offset) of each aborted transaction, the first offset of the first undecided one),
    of the batches before `mark`."""
    begun: dict[int, int] = {}
    aborted: set[tuple[int, int]] = set()
    for link in chain:
        header = link.header
        if header is None or link.end > mark or header.producer_id < 0:
            continue
        if header.is_control:
            marker = marker_of(header, memoryview(link.data))
            first = begun.pop(header.producer_id, None)
            if marker is not None and marker[0] and first is not None:
                aborted.add((header.producer_id, first))
        elif header.is_transactional:
            begun.setdefault(header.producer_id, link.start)
    return aborted, min(begun.values(), default=None)
