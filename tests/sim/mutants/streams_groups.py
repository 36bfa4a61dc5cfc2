"""Bugs of streams groups (KIP-1071)."""

from __future__ import annotations

from typing import Any

from barnabas.group.streams import configured_topology, current_assignment
from barnabas.group.streams.streams_group import StreamsGroup
from barnabas.sim.run import Plan
from tests.sim.mutants.planting import Mutant, Patch

STREAMS = Plan(streams=True)


def active_twice() -> list[Patch]:
    return [(StreamsGroup, "active_at", lambda self, task: ())]


def not_given_up() -> list[Patch]:
    return [(current_assignment, "_has_not_released", lambda on, revoking: False)]


def too_few_partitions() -> list[Patch]:
    honest = vars(configured_topology)["_internal"]

    def one_less(topic: Any, counts: Any) -> Any:
        found = honest(topic, counts)
        return configured_topology.InternalTopic(
            found.name, max(1, found.partitions - 1), found.replication_factor, found.configs
        )

    return [(configured_topology, "_internal", one_less)]


MUTANTS = (
    Mutant("task-active-twice", "a task is given to a member while another one has it",
           active_twice, STREAMS),
    Mutant("task-not-given-up", "a coordinator does not wait until a member has given up its tasks",
           not_given_up, STREAMS),
    Mutant("internal-topic-too-small", "an internal topic has a partition less than there are tasks",
           too_few_partitions, STREAMS),
)  # fmt: skip
