"""The states of partitions and replicas by Kafka's names, and the tables of moves between them.

A table has, for each state, the states from which a controller may move to it.

Source: ``PartitionState`` and ``ReplicaState`` of Kafka 3.9's ``kafka.controller``.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from barnabas.metadata.image.partition_states import NEW, NON_EXISTENT, OFFLINE, ONLINE

DELETION_STARTED = "ReplicaDeletionStarted"
"""StopReplica was sent to the broker."""
DELETION_SUCCESSFUL = "ReplicaDeletionSuccessful"
"""The broker has answered StopReplica: the log is gone."""
DELETION_INELIGIBLE = "ReplicaDeletionIneligible"
"""The broker is not alive, or could not delete the log: it is asked again."""

Moves = Mapping[str, frozenset[str]]

PARTITION_MOVES: Moves = MappingProxyType(
    {
        NEW: frozenset({NON_EXISTENT}),
        ONLINE: frozenset({NEW, ONLINE, OFFLINE}),
        OFFLINE: frozenset({NEW, ONLINE, OFFLINE}),
        NON_EXISTENT: frozenset({OFFLINE}),
    }
)
REPLICA_MOVES: Moves = MappingProxyType(
    {
        NEW: frozenset({NON_EXISTENT}),
        ONLINE: frozenset({NEW, ONLINE, OFFLINE, DELETION_INELIGIBLE}),
        OFFLINE: frozenset({NEW, ONLINE, OFFLINE, DELETION_INELIGIBLE}),
        DELETION_STARTED: frozenset({OFFLINE}),
        DELETION_SUCCESSFUL: frozenset({DELETION_STARTED}),
        DELETION_INELIGIBLE: frozenset({OFFLINE, DELETION_STARTED}),
        NON_EXISTENT: frozenset({DELETION_SUCCESSFUL}),
    }
)


def may_move(table: Moves, before: str, after: str) -> bool:
    """Whether `table` has the move."""
    return before in table[after]
