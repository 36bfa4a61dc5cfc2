"""The share coordinators of a broker (KIP-932).

Owns the wiring of :class:`~barnabas.share.machine.ShareMachine` into
:class:`~barnabas.broker.coordinator.coordinators.Coordinators`, and the machine's effect: records that
are not needed any more are deleted. The rules are the machine's.

Source: Kafka's ``ShareCoordinatorService``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from barnabas.broker.coordinator.coordinators import Coordinators, CoordinatorShard, Instant
from barnabas.config.node import NodeConfig
from barnabas.ports import Ports
from barnabas.share.machine import ShareMachine
from barnabas.share.outcome import Prune, ShareOutcome
from barnabas.types import SHARE_STATE_TOPIC, Uuid
from barnabas.wire.errors import KafkaError


class ShareCoordinators(Coordinators[ShareMachine]):
    """A share machine per partition of ``__share_group_state`` that this broker leads."""

    def __init__(
        self,
        config: NodeConfig,
        ports: Ports,
        partition_count: Callable[[], int],
        waits_to_lead: Callable[[int], bool],
        partitions_of: Callable[[Uuid], int],
        delete_records: Callable[[int, int], None],
    ) -> None:
        """`partition_count` and `waits_to_lead`: of ``__share_group_state``; `partitions_of` a topic id.
        `delete_records` of a partition of the topic, before an offset; it may raise ``KafkaError``."""
        settings = config.share_coordinator
        self._delete_records = delete_records
        super().__init__(
            SHARE_STATE_TOPIC,
            ports,
            lambda: ShareMachine(settings, partitions_of),
            partition_count,
            waits_to_lead,
            write_timeout_ms=settings.write_timeout_ms,
            load_bytes=settings.load_bytes,
            codec=settings.topic_compression,
        )

    def perform(self, shard: CoordinatorShard[ShareMachine], effect: Any) -> None:
        """Delete the records that the machine no longer needs. A failure is no fault: the next look asks
        again."""
        assert isinstance(effect, Prune)
        if effect.offset <= shard.log.log_start_offset:
            return
        try:
            self._delete_records(shard.partition, effect.offset)
        except KafkaError as error:
            self._ports.log(
                "warning", "share.state_not_pruned", partition=shard.partition,
                offset=effect.offset, why=str(error),
            )  # fmt: skip

    def on_topics_deleted(self, deleted: Mapping[Uuid, str]) -> None:
        """Topics (name by id) are gone from the cluster: so is the state of their share partitions."""

        def delete(machine: ShareMachine, at: Instant) -> ShareOutcome:
            return machine.delete_topics(deleted.keys())

        self.write_all(delete)
