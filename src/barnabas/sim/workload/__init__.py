"""The clients of a simulated cluster: producers, consumer groups, operators."""

from __future__ import annotations

from barnabas.sim.workload.consumers import ConsumerPlan, FinalRead
from barnabas.sim.workload.producers import ProducerPlan
from barnabas.sim.workload.readers import ReaderPlan
from barnabas.sim.workload.transactions import ProcessorPlan
from barnabas.sim.workload.workload import TopicPlan, Workload, WorkloadPlan

__all__ = [
    "ConsumerPlan",
    "FinalRead",
    "ProcessorPlan",
    "ProducerPlan",
    "ReaderPlan",
    "TopicPlan",
    "Workload",
    "WorkloadPlan",
]
