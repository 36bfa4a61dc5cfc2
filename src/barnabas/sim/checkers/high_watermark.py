"""Invariant 6: on a leader the high watermark never goes back, and never passes the log's end.

That consumers never see past it is judged by :mod:`barnabas.sim.history`: whatever was read must stay.
"""

from __future__ import annotations

from collections.abc import Iterator

from barnabas.broker.broker import Broker
from barnabas.sim.checkers.replica_logs import Rule, Watched
from barnabas.sim.history import Violation
from barnabas.types import TopicPartition


def led_partitions(broker: Broker) -> Iterator[tuple[TopicPartition, int, int, int]]:
    """(partition, leader epoch, high watermark, log end offset) of what a broker leads."""
    for partition in broker.replicas.leaders():
        if partition.log is not None and partition.leader is not None:
            log = partition.log
            yield partition.name, partition.leader.epoch, log.high_watermark, log.log_end_offset


class HighWatermarkNeverGoesBack(Rule):
    def __init__(self) -> None:
        self._last: dict[Watched, tuple[object, int, int]] = {}
        """(the log object, leader epoch, high watermark) by replica."""

    def on_high_watermark(self, replica: Watched, before: int) -> None:
        log, mark = replica.log, replica.high_watermark
        if log is not None and mark > log.log_end_offset:
            raise Violation(f"{replica.where}: high watermark {mark} beyond {log.log_end_offset}")
        if not replica.leads:
            return
        known = self._last.get(replica)
        if known is not None and known[0] is log and known[1] == replica.epoch and mark < known[2]:
            raise Violation(
                f"{replica.where}, leader epoch {replica.epoch}: high watermark went back from"
                f" {known[2]} to {mark}"
            )
        self._last[replica] = (log, replica.epoch, mark)
