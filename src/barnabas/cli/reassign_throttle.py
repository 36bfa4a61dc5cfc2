"""The throttle of reassignments: which rate for which brokers, which replicas it is for (KIP-73).

As Apache Kafka's ``kafka-reassign-partitions --throttle``: the rates are set on every broker that takes part,
the replicas on their topics (those there are throttled as leaders, those to come as followers), before
anything moves. `lift` takes all of it away again.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from barnabas.cli.failure import Failure
from barnabas.cli.reaching import USAGE
from barnabas.client.admin import BROKER, TOPIC
from barnabas.client.connection import ChannelError
from barnabas.host.client import Connected
from barnabas.types import TopicPartition
from barnabas.wire.errors import KafkaError

RATES = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")
LEADERS, FOLLOWERS = (
    "leader.replication.throttled.replicas",
    "follower.replication.throttled.replicas",
)
DYNAMIC_BROKER = 2
"""Source of a configuration: set on this broker."""
ANSWER_MS = 2_000.0
_UNITS = {"": 1, "k": 1_000, "m": 1_000_000, "g": 1_000_000_000}


class Move(NamedTuple):
    """One partition's replicas now, and those that are added."""

    present: tuple[int, ...]
    adding: tuple[int, ...]


def parse_rate(text: str) -> int:
    """Bytes per second: a number, or one with k, M or G. Raises `Failure`."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([kKmMgG]?)", text.strip())
    rate = int(float(found[1]) * _UNITS[found[2].lower()]) if found else 0
    if rate <= 0:
        raise Failure(f"a rate is bytes per second, as 50M, not {text!r}", USAGE)
    return rate


def throttle(connected: Connected, moves: Mapping[TopicPartition, Move], rate: int) -> None:
    """Hold the copies of `moves` to `rate` bytes per second on every broker. Raises `KafkaError`."""
    topics: dict[str, dict[str, list[str]]] = {}
    brokers: set[int] = set()
    for at, move in sorted(moves.items()):
        if not move.adding:
            continue
        keys = topics.setdefault(at.topic, {LEADERS: [], FOLLOWERS: []})
        keys[LEADERS] += [f"{at.partition}:{broker}" for broker in move.present]
        keys[FOLLOWERS] += [f"{at.partition}:{broker}" for broker in move.adding]
        brokers.update(move.present, move.adding)
    for topic, keys in topics.items():
        values: dict[str, str | None] = {key: ",".join(listed) for key, listed in keys.items()}
        connected.call(connected.admin.alter_configs(TOPIC, topic, values))
    set_rate(connected, brokers, rate)


def set_rate(connected: Connected, brokers: Iterable[int], rate: int | None) -> None:
    """Both directions; None takes the rate away."""
    text = None if rate is None else str(rate)
    for broker in sorted(brokers):
        changes = dict.fromkeys(RATES, text)
        connected.call(connected.admin.alter_configs(BROKER, str(broker), changes))


def lift(connected: Connected, topics: Iterable[str], brokers: Iterable[int]) -> None:
    """Throttle nothing of `topics`, and nothing on `brokers`."""
    set_rate(connected, brokers, None)
    for topic in sorted(set(topics)):
        nothing = dict.fromkeys((LEADERS, FOLLOWERS))
        connected.call(connected.admin.alter_configs(TOPIC, topic, nothing))


def rates_in_force(connected: Connected) -> dict[int, int]:
    """The slower of both directions on each broker that is throttled, as it says itself."""
    found: dict[int, int] = {}
    for broker in connected.describe_cluster().brokers:
        if broker.fenced:
            continue
        asked = connected.admin.describe_configs(BROKER, str(broker.node_id), timeout_ms=ANSWER_MS)
        try:
            entries = connected.call(asked)
        except (ChannelError, KafkaError):
            continue
        rates = [
            int(entry.value)
            for entry in entries
            if entry.name in RATES and entry.source == DYNAMIC_BROKER and entry.value
        ]
        if rates:
            found[broker.node_id] = min(rates)
    return found


def throttled_topics(connected: Connected) -> list[str]:
    """Those with throttled replicas."""
    found = []
    for view in connected.topics():
        entries = connected.call(connected.admin.describe_configs(TOPIC, view.name))
        if any(e.name in (LEADERS, FOLLOWERS) and e.value and e.source == 1 for e in entries):
            found.append(view.name)
    return found
