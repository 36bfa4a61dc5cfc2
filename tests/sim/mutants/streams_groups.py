"""Bugs of streams groups (KIP-1071)."""

from __future__ import annotations

from barnabas.group.streams.streams_group import StreamsGroup
from barnabas.sim.run import Plan
from tests.sim.mutants.planting import Mutant, Patch

STREAMS = Plan(streams=True)


def active_twice() -> list[Patch]:
    return [(StreamsGroup, "active_at", lambda self, task: ())]


MUTANTS = (
    Mutant("task-active-twice", "a task is given to a member while another one has it",
           active_twice, STREAMS),
)  # fmt: skip
