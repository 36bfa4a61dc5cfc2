"""Checks whether a node is alive, and whether it is ready; each failed check has a reason.

A node is alive if its loop runs: it answers. It is ready if the cluster can count on it:

* ``quorum``: it knows the leader of the metadata quorum and hears of it, or leads a majority that fetches;
* ``registration``: the controller has this process registered and unfenced (brokers);
* ``metadata``: it has applied the metadata that it knows to be committed;
* ``min_isr``: no partition refuses producers because this broker is not in the ISR (brokers);
* ``log_directories``: each one can be written to (brokers);
* ``running``: it does not shut down.

A broker in ZooKeeper mode has no quorum; the mode adds a check of its session with the ensemble.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import isfinite
from typing import NamedTuple

from barnabas.broker.broker import Broker
from barnabas.broker.controller_client.broker_lifecycle import LifecyclePhase
from barnabas.ports import Clock
from barnabas.raft.raft_node import RaftNode

SILENCE_MS_MAX = 900.0
"""How long a replica of the quorum may hear nothing. Fetches come every half second where nothing happens;
elections have longer time-outs of their own."""
SETTLED_MS = 2_000.0
WALK_INTERVAL_MS = 500.0
METADATA_LAG_MAX = 1_000
"""The number of committed metadata records that a ready node may still have to apply."""


class HealthCheck(NamedTuple):
    """One condition. `why` is empty if it holds."""

    name: str
    why: str

    @property
    def passes(self) -> bool:
        return not self.why

    def describe(self) -> dict[str, object]:
        return {"check": self.name, "passes": self.passes, "why": self.why}


class NodeReadiness:
    """The checks of one node. They are asked for several times a second, so the partitions are walked only
    after the metadata have changed."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._min_isr = MinIsrCheck()

    def checks(
        self, quorum: RaftNode | None, broker: Broker | None, *, is_stopping: bool
    ) -> list[HealthCheck]:
        """Every check, in the order of the list above. `quorum` is None in ZooKeeper mode."""
        checks = []
        if quorum is not None:
            checks.append(HealthCheck("quorum", _of_quorum(quorum)))
        if broker is not None:
            checks.append(HealthCheck("registration", _of_registration(broker)))
        if quorum is not None:
            checks.append(HealthCheck("metadata", _of_metadata(quorum, broker)))
        if broker is not None:
            checks.append(HealthCheck("min_isr", self._min_isr.why(broker, self._clock.now_ms())))
            checks.append(HealthCheck("log_directories", _of_directories(broker)))
        checks.append(HealthCheck("running", "the node shuts down" if is_stopping else ""))
        return checks


class MinIsrCheck:
    """The partitions that refuse producers for lack of this broker, as of the last walk.

    A walk shows what the image and the replicas had then. Replicas follow the image within some turns, so an
    image that stays is walked until a walk began `SETTLED_MS` after the change; a changing one at intervals.
    """

    def __init__(self) -> None:
        self._why = ""
        self._walked_ms = self._changed_ms = float("-inf")
        self._seen: tuple[object, ...] = ()
        self.walks = 0

    def why(self, broker: Broker, now_ms: float) -> str:
        """The reason in a sentence; empty where there is no such partition."""
        seen = (broker.incarnation, broker.image.offset, len(broker.replicas.by_id))
        if seen != self._seen:
            self._seen, self._changed_ms = seen, now_ms
        is_settled = self._walked_ms >= self._changed_ms + SETTLED_MS
        if not is_settled and now_ms >= self._walked_ms + WALK_INTERVAL_MS:
            self._why, self._walked_ms = _of_min_isr(broker), now_ms
            self.walks += 1
        return self._why


def _of_quorum(quorum: RaftNode) -> str:
    silence_ms = quorum.silence_ms
    if quorum.leader_id < 0 or not isfinite(silence_ms):
        return "no leader of the metadata quorum is known"
    if silence_ms < SILENCE_MS_MAX:
        return ""
    if quorum.leader_id == quorum.node_id:
        return f"no majority of the metadata quorum has fetched for {silence_ms / 1000:.1f} s"
    return f"the leader of the metadata quorum has not answered for {silence_ms / 1000:.1f} s"


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
