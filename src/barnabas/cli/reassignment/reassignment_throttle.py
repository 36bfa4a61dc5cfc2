"""The throttle of reassignments: which rate for which brokers, which replicas it is for (KIP-73).

As Apache Kafka's ``kafka-reassign-partitions --throttle``: the rates are set on every broker that takes part,
the replicas on their topics (those there are throttled as leaders, those to come as followers), before
anything moves. `lift` takes all of it away again.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Mapping
from functools import partial
from typing import NamedTuple

from barnabas.cli.connection.connect import USAGE
from barnabas.cli.failure import Failure
from barnabas.cli.reassignment.reassignment_progress import POLL_S, Placed
from barnabas.client.admin import BROKER, DELETE, SET, TOPIC
from barnabas.client.network.connection import ChannelError
from barnabas.client.operations import ConfigEdit, change_configs
from barnabas.host.client import Connected
from barnabas.types import TopicPartition
from barnabas.wire.errors import KafkaError
from barnabas.wire.messages.describe_configs_request import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
)

RATES = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")
LEADERS, FOLLOWERS = (
    "leader.replication.throttled.replicas",
    "follower.replication.throttled.replicas",
)
DYNAMIC_TOPIC, DYNAMIC_BROKER = 1, 2
"""Sources of a configuration: set on this topic, on this broker."""
TOPICS_PER_REQUEST = 500
Target = tuple[int, ...] | None
REQUEST_TIMEOUT_MS = 2_000.0
DEATH_S = 20.0
"""The time in which a broker that died is no longer among those that live: a session, and some more."""
_UNITS = {"": 1, "k": 1_000, "m": 1_000_000, "g": 1_000_000_000}


class ThrottledMove(NamedTuple):
    """The replicas of a partition when it began to move, and those that are added."""

    origin: tuple[int, ...]
    adding: tuple[int, ...]


def parse_rate(text: str) -> int:
    """Bytes per second: a number, or one with k, M or G. Raises `Failure`."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([kKmMgG]?)", text.strip())
    rate = int(float(found[1]) * _UNITS[found[2].lower()]) if found else 0
    if rate <= 0:
        raise Failure(f"a rate is bytes per second, as 50M, not {text!r}", USAGE)
    return rate


def moves_of(
    moving: Mapping[TopicPartition, Placed], wanted: Mapping[TopicPartition, tuple[Placed, Target]]
) -> dict[TopicPartition, ThrottledMove]:
    """The moves that copy when `wanted` is asked for beside what is `moving`. As with Apache Kafka's tool
    all of it is throttled together: the lists on topics and the rates of brokers are one for all."""
    moves = {at: ThrottledMove(state.origin, state.adding) for at, state in moving.items()}
    for at, (state, target) in wanted.items():
        origin = moving.get(at, state).origin
        moves[at] = ThrottledMove(origin, tuple([b for b in target or () if b not in origin]))
    return moves


def throttle(
    connected: Connected, moves: Mapping[TopicPartition, ThrottledMove], rate: int
) -> None:
    """Hold the copies of `moves` to `rate` bytes per second on every broker. Raises `KafkaError`."""
    topics: dict[str, dict[str, list[str]]] = {}
    brokers: set[int] = set()
    for at, move in sorted(moves.items()):
        if not move.adding:
            continue
        keys = topics.setdefault(at.topic, {LEADERS: [], FOLLOWERS: []})
        keys[LEADERS] += [f"{at.partition}:{broker}" for broker in move.origin]
        keys[FOLLOWERS] += [f"{at.partition}:{broker}" for broker in move.adding]
        brokers.update(move.origin, move.adding)
    for topic, keys in topics.items():
        values: dict[str, str | None] = {key: ",".join(listed) for key, listed in keys.items()}
        connected.call(connected.admin.alter_configs(TOPIC, topic, values))
    set_rate(connected, brokers.intersection(_registered(connected)), rate)


def set_rate(connected: Connected, brokers: Iterable[int], rate: int | None) -> None:
    """Both directions; None takes the rate away. Apache Kafka's brokers change their own settings only."""
    operation, value = (DELETE, None) if rate is None else (SET, str(rate))
    changes = [ConfigEdit(key, operation, value) for key in RATES]
    client = connected.client
    for broker in sorted(brokers):
        connected.call(change_configs(client, BROKER, str(broker), changes, validate_only=False))


def lift(connected: Connected) -> None:
    """Throttle nothing of any topic, and nothing on any broker. One that does not answer keeps no other from
    being asked. Raises its `KafkaError` or `ChannelError` then."""
    for topic in throttled_topics(connected):
        nothing = dict.fromkeys((LEADERS, FOLLOWERS))
        connected.call(connected.admin.alter_configs(TOPIC, topic, nothing))
    failures = []
    for broker in sorted(_registered(connected)):
        try:
            _lift_of(connected, broker)
        except (ChannelError, KafkaError) as error:
            failures.append(error)
    if failures:
        raise failures[0]


def _lift_of(connected: Connected, broker: int) -> None:
    deadline_s = time.monotonic() + DEATH_S
    while True:
        try:
            set_rate(connected, [broker], None)
            return
        except ChannelError:
            # It may have died a moment ago. Another broker is asked once the metadata say so.
            if time.monotonic() > deadline_s:
                raise
        time.sleep(POLL_S)
        connected.call(connected.client.cluster.refresh())


def _registered(connected: Connected) -> list[int]:
    return [broker.node_id for broker in connected.describe_cluster().brokers]


def rates_in_force(connected: Connected) -> dict[int, int]:
    """The slower of both directions on each broker that is throttled, as it says itself."""
    found: dict[int, int] = {}
    for broker in connected.describe_cluster().brokers:
        if broker.fenced:
            continue
        asked = connected.admin.describe_configs(
            BROKER, str(broker.node_id), timeout_ms=REQUEST_TIMEOUT_MS
        )
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


def is_throttled(connected: Connected) -> bool:
    return bool(rates_in_force(connected)) or bool(throttled_topics(connected))


def throttled_topics(connected: Connected) -> list[str]:
    """Those with throttled replicas."""
    names = [view.name for view in connected.topics()]
    found = []
    for start in range(0, len(names), TOPICS_PER_REQUEST):
        answer = connected.call(
            connected.client.ask_any(partial(_ask_lists, names[start : start + TOPICS_PER_REQUEST]))
        )
        found += [
            result.resource_name
            for result in answer.results
            if any(key.value and key.config_source == DYNAMIC_TOPIC for key in result.configs)
        ]
    return found


def _ask_lists(names: list[str]) -> DescribeConfigsRequest:
    return DescribeConfigsRequest(
        resources=[
            DescribeConfigsResource(
                resource_type=TOPIC, resource_name=name, configuration_keys=[LEADERS, FOLLOWERS]
            )
            for name in names
        ]
    )
