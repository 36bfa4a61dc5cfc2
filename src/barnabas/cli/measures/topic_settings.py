"""The settings of many topics in few requests, with where each value comes from."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

from barnabas.client.admin import TOPIC
from barnabas.host.client import Connected
from barnabas.wire.messages.describe_configs_request import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
)

TOPICS_PER_REQUEST = 500
MIN_ISR = "min.insync.replicas"
OF_TOPIC = 1
"""Source of a value that is set on the topic itself."""


class TopicSetting(NamedTuple):
    """The value that is in force, and Kafka's number of its source."""

    value: str | None
    source: int


def settings_of_topics(
    connected: Connected, names: Sequence[str], keys: Sequence[str] | None
) -> dict[str, dict[str, TopicSetting]]:
    """Topic → key → setting, of these keys or of all. Topics that the user may not see are left out.
    Raises ``KafkaError``, ``ChannelError``."""
    found: dict[str, dict[str, TopicSetting]] = {}
    for start in range(0, len(names), TOPICS_PER_REQUEST):
        some = names[start : start + TOPICS_PER_REQUEST]
        answer: Any = connected.call(connected.client.ask_any(partial(_request, some, keys)))
        for result in answer.results:
            if not result.error_code:
                found[result.resource_name] = {
                    key.name: TopicSetting(key.value, key.config_source) for key in result.configs
                }
    return found


def min_isr_of(settings: dict[str, dict[str, TopicSetting]], topic: str) -> int | None:
    """The topic's min.insync.replicas; None where it is not known."""
    setting = settings.get(topic, {}).get(MIN_ISR)
    return int(setting.value) if setting is not None and setting.value else None


def _request(names: Sequence[str], keys: Sequence[str] | None) -> DescribeConfigsRequest:
    return DescribeConfigsRequest(
        resources=[
            DescribeConfigsResource(
                resource_type=TOPIC,
                resource_name=name,
                configuration_keys=None if keys is None else list(keys),
            )
            for name in names
        ]
    )
