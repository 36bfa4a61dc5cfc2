"""Whether a node is alive, and whether it is ready: each check with the reason where it fails.

Alive is a node whose loop turns: it answers. Ready is one that the cluster can count on:

* ``quorum``: it knows the leader of the metadata quorum;
* ``registration``: the controller has this process registered and unfenced (brokers);
* ``metadata``: it has applied what it knows to be committed;
* ``min_isr``: no partition refuses producers for lack of this broker in the ISR (brokers);
* ``log_directories``: each takes writes (brokers);
* ``running``: it does not shut down.

A broker that ZooKeeper coordinates knows no quorum; its mode adds a check of its session with the ensemble.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from barnabas.broker.broker import Broker
from barnabas.broker.controller_client.broker_lifecycle import LifecyclePhase
from barnabas.raft.raft_node import RaftNode

METADATA_LAG_MAX = 1_000
"""Committed records of metadata that a ready node may not have applied yet."""


class HealthCheck(NamedTuple):
    """One condition. `why` is empty where it holds."""

    name: str
    why: str

    @property
    def passes(self) -> bool:
        return not self.why

    def describe(self) -> dict[str, object]:
        return {"check": self.name, "passes": self.passes, "why": self.why}


def readiness(
    quorum: RaftNode | None, broker: Broker | None, *, is_stopping: bool
) -> list[HealthCheck]:
    """Every check of a node, in the order of the list above. `quorum` is None in ZooKeeper mode."""
    checks = []
    if quorum is not None:
        checks.append(HealthCheck("quorum", _of_quorum(quorum)))
    if broker is not None:
        checks.append(HealthCheck("registration", _of_registration(broker)))
    if quorum is not None:
        checks.append(HealthCheck("metadata", _of_metadata(quorum, broker)))
    if broker is not None:
        checks.append(HealthCheck("min_isr", _of_min_isr(broker)))
        checks.append(HealthCheck("log_directories", _of_directories(broker)))
    checks.append(HealthCheck("running", "the node shuts down" if is_stopping else ""))
    return checks


def _of_quorum(quorum: RaftNode) -> str:
    return "" if quorum.leader_id >= 0 else "no leader of the metadata quorum is known"


def _of_registration(broker: Broker) -> str:
    if not broker.is_started:
        return "the broker's logs are being opened"
    phase = broker.lifecycle.phase
    if phase is not LifecyclePhase.RUNNING:
        return f"the broker is {phase.value}"
    known = broker.image.brokers.get(broker.node_id)
    if known is None or known.incarnation != broker.incarnation:
        return "the metadata have no registration of this process"
    return "the controller has fenced this broker" if known.fenced else ""


def _of_metadata(quorum: RaftNode, broker: Broker | None) -> str:
    committed = quorum.high_watermark
    applied = quorum.applied_offset if broker is None else broker.image.offset
    missing = committed - applied
    return (
        f"{missing} committed metadata records are not applied yet"
        if missing > METADATA_LAG_MAX
        else ""
    )


def _of_min_isr(broker: Broker) -> str:
    short = list(_short_of_this_broker(broker))
    if not short:
        return ""
    rest = f" and {len(short) - 1} more" if len(short) > 1 else ""
    return f"{short[0]}{rest} refuse producers with acks=all: this broker is not in the ISR"


def _short_of_this_broker(broker: Broker) -> Iterator[str]:
    topics = broker.image.topics_by_id
    for (topic_id, index), partition in broker.replicas.by_id.items():
        topic = topics.get(topic_id)
        if topic is None or not topic.has(index):
            continue
        isr, replicas = topic.isr[index], topic.replicas[index]
        if len(isr) == len(replicas) or broker.node_id in isr:
            continue
        if len(isr) < min(partition.min_isr, len(replicas)):
            yield str(partition.name)


def _of_directories(broker: Broker) -> str:
    for directory in broker.logs.directories:
        if not directory.is_online:
            return f"{directory.path} is offline: {directory.offline_reason}"
        if directory.watchdog.ticks > 1:
            return f"{directory.path} has not answered for some seconds"
    return ""
