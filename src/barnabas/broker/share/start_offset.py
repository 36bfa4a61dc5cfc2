"""Chooses the start offset of a new share partition by ``share.auto.offset.reset``.

``latest`` is the high watermark, ``earliest`` the log's start, and ``by_duration:PT1H`` the first
record of the last hour. Source: ``ShareGroupAutoOffsetResetStrategy`` of Apache Kafka 4.3.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from barnabas.broker.partitions.partition import Partition
from barnabas.broker.replicas.timestamp_search import Search, run_searches
from barnabas.config.validators import parse_duration
from barnabas.group.cluster_topics import ClusterTopics
from barnabas.log.partition.timestamp_lookup import Stamped
from barnabas.ports import Ports
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.messages.list_offsets_response import ListOffsetsResponse

RESET = "share.auto.offset.reset"
EARLIEST, LATEST, BY_DURATION = "earliest", "latest", "by_duration:"
OnOffset = Callable[[int | KafkaError], None]


class StartOffsets:
    """Chooses start offsets."""

    def __init__(self, ports: Ports, cluster: ClusterTopics) -> None:
        self._ports = ports
        self._cluster = cluster

    def choose(self, group_id: str, partition: Partition, on_done: OnOffset) -> None:
        """`on_done` gets the offset or the error, perhaps at once."""
        strategy = str(self._cluster.group_value(group_id, RESET)).strip()
        try:
            log = partition.readable_log(-1, leader_only=True)
            if strategy == EARLIEST:
                on_done(log.log_start_offset)
                return
            leader = partition.leader
            if leader is not None and leader.epoch_start_offset > log.high_watermark:
                raise KafkaError(
                    ErrorCode.OFFSET_NOT_AVAILABLE,
                    f"the high watermark of {partition.name} has not reached its leader's epoch yet",
                )
            if not strategy.startswith(BY_DURATION):
                on_done(log.high_watermark)
                return
            since = self._ports.clock.wall_ms() - parse_duration(strategy.removeprefix(BY_DURATION))
            search = Search(partition, max(since, 0), partial(_found, partition, on_done))
            run_searches(self._ports, [search], ListOffsetsResponse())
        except ValueError as error:
            on_done(KafkaError(ErrorCode.INVALID_CONFIG, str(error)))
        except KafkaError as error:
            on_done(error)


def _found(partition: Partition, on_done: OnOffset, result: Stamped | KafkaError | None) -> None:
    """The offset of the record that was found, if readers see it; else the end of what they see."""
    if isinstance(result, KafkaError):
        on_done(result)
        return
    end = partition.high_watermark
    on_done(end if result is None or result.offset > end else result.offset)
