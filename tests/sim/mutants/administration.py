"""Bugs in what administrators ask for."""

from __future__ import annotations

from typing import Any

from barnabas.broker.controller_client.broker_lifecycle import BrokerLifecycle
from barnabas.broker.fetch import fetch_sessions
from barnabas.broker.follower.replication_throttle import ReplicationThrottle
from barnabas.broker.partitions.partition import Partition
from barnabas.controller import atomic_batch
from barnabas.controller.configs import producer_ids, update_features
from barnabas.controller.decision_context import ControllerContext
from barnabas.controller.handlers import allocate_producer_ids
from barnabas.controller.partitions import topic_assignments
from barnabas.metadata.records.producer_ids_record import ProducerIdsRecord
from tests.sim.mutants.planting import Mutant, Patch


def producer_ids_overlap() -> list[Patch]:
    honest = producer_ids.allocate

    def nothing_is_taken(cluster: ControllerContext, request: Any) -> Any:
        decision = honest(cluster, request)
        for record in decision.records:
            assert isinstance(record, ProducerIdsRecord)
            record.next_producer_id = cluster.image.next_producer_id
        return decision

    return [(allocate_producer_ids, "allocate", nothing_is_taken)]


def throttle_holds_everybody() -> list[Patch]:
    def any_replica(
        self: ReplicationThrottle, partition: Partition, follower: int, promised: int
    ) -> bool:
        side = self._current(self.leader)
        return self._is_throttled(side, partition) and side.quota.is_exceeded(
            self._clock.now_ms(), promised
        )

    return [(ReplicationThrottle, "_is_held_back", any_replica)]


def cordon_overlooked() -> list[Patch]:
    return [(topic_assignments, "is_cordoned", lambda cluster, broker: False)]


def validation_writes() -> list[Patch]:
    honest = atomic_batch.AtomicBatchBuilder.__init__

    def always_writes(
        self: atomic_batch.AtomicBatchBuilder[Any], *arguments: Any, validate_only: bool
    ) -> None:
        honest(self, *arguments, validate_only=False)

    return [(atomic_batch.AtomicBatchBuilder, "__init__", always_writes)]


def downgrade_loses_metadata() -> list[Patch]:
    return [(update_features, "_check_metadata_version", lambda present, level, kind: None)]


def directories_not_named() -> list[Patch]:
    return [(BrokerLifecycle, "register_again", lambda self: None)]


def idle_places_forgotten() -> list[Patch]:
    return [(fetch_sessions, "note_registration", lambda session, epoch, named: None)]


MUTANTS = (
    Mutant("producer-ids-overlap", "a block of producer ids is given out again", producer_ids_overlap),
    Mutant("throttle-holds-everybody", "a throttle holds back members of the ISR as well",
           throttle_holds_everybody),
    Mutant("cordon-overlooked", "a cordoned broker takes new replicas", cordon_overlooked),
    Mutant("validation-writes", "what was only to be validated is made", validation_writes),
    Mutant("downgrade-loses-metadata", "metadata.version goes below a level that brought records",
           downgrade_loses_metadata),
    Mutant("directories-not-named", "a broker names no log directories once the level knows of them",
           directories_not_named),
    Mutant("idle-places-forgotten", "a broker that registers again is not in sync where nothing is written",
           idle_places_forgotten),
)  # fmt: skip
