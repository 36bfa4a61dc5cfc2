"""Drills of readiness: what a node says of itself in each state in which a cluster cannot count on it."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from barnabas.broker.controller_client.broker_lifecycle import LifecyclePhase
from barnabas.monitoring.health import (
    METADATA_LAG_MAX,
    SETTLED_MS,
    SILENCE_MS_MAX,
    WALK_INTERVAL_MS,
    MinIsrCheck,
    NodeReadiness,
)
from barnabas.types import TopicPartition, Uuid

TOPIC = Uuid(b"t" * 16)
INCARNATION = Uuid(b"i" * 16)


class Node:
    """A broker with one partition of three replicas, in a state that each drill changes."""

    def __init__(self) -> None:
        self.quorum: Any = SimpleNamespace(
            leader_id=1, node_id=3, high_watermark=5_000, applied_offset=5_000, silence_ms=500.0
        )
        self.registration = SimpleNamespace(incarnation=INCARNATION, fenced=False)
        self.topic = SimpleNamespace(
            isr=[(1, 2)], replicas=[(1, 2, 3)], has=lambda index: index == 0
        )
        self.directory = SimpleNamespace(
            path="/d", is_online=True, offline_reason="", watchdog=SimpleNamespace(ticks=0)
        )
        self.partition = SimpleNamespace(name=TopicPartition("orders", 0), min_isr=2)
        self.broker: Any = SimpleNamespace(
            node_id=3,
            incarnation=INCARNATION,
            is_started=True,
            lifecycle=SimpleNamespace(phase=LifecyclePhase.RUNNING),
            image=SimpleNamespace(
                brokers={3: self.registration}, topics_by_id={TOPIC: self.topic}, offset=5_000
            ),
            replicas=SimpleNamespace(by_id={(TOPIC, 0): self.partition}),
            logs=SimpleNamespace(directories=[self.directory]),
        )
        self.is_stopping = False

    def failing(self) -> dict[str, str]:
        clock: Any = SimpleNamespace(now_ms=lambda: 0.0)
        checks = NodeReadiness(clock).checks(self.quorum, self.broker, is_stopping=self.is_stopping)
        return {check.name: check.why for check in checks if not check.passes}


Drill = tuple[Callable[[Node], object], str, str]
"""How the state comes about, the check that fails, and a part of its reason."""
DRILLS: dict[str, Drill] = {
    "no quorum": (lambda n: setattr(n.quorum, "leader_id", -1), "quorum", "no leader"),
    "a silent leader": (
        lambda n: setattr(n.quorum, "silence_ms", SILENCE_MS_MAX), "quorum", "has not answered for 0.9 s",
    ),
    "a silent majority": (
        lambda n: n.quorum.__dict__.update(leader_id=3, silence_ms=1_500.0),
        "quorum",
        "no majority of the metadata quorum has fetched for 1.5 s",
    ),
    "a leader that is searched for": (
        lambda n: setattr(n.quorum, "silence_ms", float("inf")), "quorum", "no leader",
    ),
    "fenced": (
        lambda n: setattr(n.registration, "fenced", True), "registration", "has fenced this broker",
    ),
    "unregistered": (lambda n: n.broker.image.brokers.clear(), "registration", "no registration"),
    "replaced by another process": (
        lambda n: setattr(n.registration, "incarnation", Uuid(b"x" * 16)),
        "registration",
        "no registration of this process",
    ),
    "opening its logs": (
        lambda n: setattr(n.broker, "is_started", False), "registration", "logs are being opened",
    ),
    "leaving": (
        lambda n: setattr(n.broker.lifecycle, "phase", LifecyclePhase.LEAVING),
        "registration",
        "the broker is ",
    ),
    "not caught up": (
        lambda n: setattr(n.broker.image, "offset", 5_000 - METADATA_LAG_MAX - 1),
        "metadata",
        "1001 committed metadata records",
    ),
    "under min ISR because of it": (
        lambda n: n.topic.isr.__setitem__(0, (1,)), "min_isr", "orders-0 refuse",
    ),
    "a failed disk": (
        lambda n: setattr(n.directory, "is_online", False), "log_directories", "/d is offline",
    ),
    "a disk that hangs": (
        lambda n: setattr(n.directory.watchdog, "ticks", 2), "log_directories", "not answered",
    ),
    "shutting down": (lambda n: setattr(n, "is_stopping", True), "running", "shuts down"),
}  # fmt: skip


@pytest.mark.parametrize("name", DRILLS)
def test_a_node_says_why_it_is_not_ready(name: str) -> None:
    bring_about, check, why = DRILLS[name]
    node = Node()
    assert not node.failing()
    bring_about(node)
    failing = node.failing()
    assert list(failing) == [check] and why in failing[check]


def test_a_small_isr_of_others_is_no_reason() -> None:
    node = Node()
    node.topic.isr[0] = (3,)
    assert not node.failing()


def test_a_controller_alone_is_ready_by_the_quorum() -> None:
    node = Node()
    node.broker = None
    assert not node.failing()
    node.quorum.applied_offset = 0
    assert list(node.failing()) == ["metadata"]


def test_partitions_are_walked_after_a_change_only() -> None:
    """Replicas follow the image some turns later, so it is walked until it has been the same for a while."""
    node, check = Node(), MinIsrCheck()
    now_ms = 0.0
    while now_ms < 10 * SETTLED_MS:
        assert check.why(node.broker, now_ms) == ""
        now_ms += 100
    assert check.walks == SETTLED_MS / WALK_INTERVAL_MS + 1
    node.broker.image.offset += 1
    node.topic.isr[0] = (1,)
    assert "orders-0" in check.why(node.broker, now_ms)
    for _ in range(1_000):  # the metadata change all the time
        node.broker.image.offset += 1
        now_ms += 1
        check.why(node.broker, now_ms)
    assert check.walks <= SETTLED_MS / WALK_INTERVAL_MS + 2 + 1_000 / WALK_INTERVAL_MS
