"""What holds for a topic or a group: own values over the broker's over the defaults."""

from __future__ import annotations

import pytest

from barnabas.config.definition import ConfigError
from barnabas.config.group import broker_text, check_group_overrides, group_values
from barnabas.config.topic import (
    BROKER_SYNONYMS,
    TOPIC,
    check_topic_overrides,
    topic_default,
    topic_values,
)


def test_topic_defaults_are_the_brokers_defaults() -> None:
    assert topic_values({}) == {name: TOPIC.default(name) for name in TOPIC.keys}


@pytest.mark.parametrize(
    ("name", "broker", "value"),
    [
        ("retention.ms", {"log.retention.hours": "1"}, 3_600_000),
        ("retention.ms", {"log.retention.hours": "1", "log.retention.minutes": "2"}, 120_000),
        ("retention.ms", {"log.retention.minutes": "2", "log.retention.ms": "3"}, 3),
        ("retention.ms", {"log.retention.hours": "-1"}, -1),
        ("segment.ms", {"log.roll.hours": "2"}, 7_200_000),
        ("flush.ms", {"log.flush.scheduler.interval.ms": "9"}, 9),
        ("max.message.bytes", {"message.max.bytes": "17"}, 17),
        ("cleanup.policy", {"log.cleanup.policy": "compact,delete"}, ["compact", "delete"]),
        ("min.cleanable.dirty.ratio", {"log.cleaner.min.cleanable.ratio": "0.1"}, 0.1),
    ],
)
def test_a_brokers_key_is_the_topics_default(
    name: str, broker: dict[str, str], value: object
) -> None:
    assert topic_default(name, broker) == value


def test_a_topics_own_value_overrides_the_brokers() -> None:
    values = topic_values({"retention.ms": "5", "unknown": "x"}, {"log.retention.ms": "7"})
    assert values["retention.ms"] == 5
    assert "unknown" not in values


def test_every_synonym_exists() -> None:
    assert set(BROKER_SYNONYMS) <= set(TOPIC.keys)
    for name in BROKER_SYNONYMS:
        topic_default(name, {})


@pytest.mark.parametrize(
    ("overrides", "sentence"),
    [
        ({"no.such": "1"}, "a topic has no such key"),
        ({"segment.bytes": "9"}, "segment.bytes: '9' is not allowed; it must be at least 1048576"),
        ({"min.compaction.lag.ms": "9", "max.compaction.lag.ms": "8"}, "must not exceed max"),
        ({"remote.storage.enable": "true"}, "no remote tier"),
        ({"cleanup.policy": "shred"}, "a list of compact, delete"),
    ],
)
def test_invalid_topic_settings_are_refused(overrides: dict[str, str], sentence: str) -> None:
    with pytest.raises(ConfigError) as caught:
        check_topic_overrides(overrides, {})
    assert sentence in str(caught.value)


def test_keys_of_tiered_storage_are_accepted_as_they_are() -> None:
    check_topic_overrides({"local.retention.ms": "9", "retention.ms": "8"}, {})


def test_a_groups_value_is_kept_within_the_brokers_bounds() -> None:
    own = {"consumer.session.timeout.ms": "50000"}
    assert group_values(own)["consumer.session.timeout.ms"] == 50_000
    lowered = {"group.consumer.max.session.timeout.ms": "46000"}
    assert group_values(own, lowered)["consumer.session.timeout.ms"] == 46_000
    assert group_values({})["share.auto.offset.reset"] == "latest"
    with pytest.raises(ConfigError, match="it must be at most 46000, the broker's maximum"):
        check_group_overrides(own, lowered)
    with pytest.raises(ConfigError, match="a group has no such key"):
        check_group_overrides({"no.such": "1"}, {})


@pytest.mark.parametrize("value", ["", "Earliest", "none", "by_duration", "by_duration:x"])
def test_a_share_group_begins_at_an_end_or_some_time_ago(value: str) -> None:
    for good in ("earliest", "latest", "by_duration:PT1H"):
        check_group_overrides({"share.auto.offset.reset": good}, {})
    with pytest.raises(ConfigError, match="it must be earliest, latest or by_duration"):
        check_group_overrides({"share.auto.offset.reset": value}, {})


def test_a_group_hears_of_a_member_before_it_gives_it_up() -> None:
    near = {
        "group.consumer.min.session.timeout.ms": "6000",
        "group.consumer.session.timeout.ms": "6000",
    }
    check_group_overrides({"consumer.heartbeat.interval.ms": "5999"}, near)
    with pytest.raises(ConfigError, match=r"greater than consumer\.heartbeat\.interval\.ms"):
        check_group_overrides({"consumer.heartbeat.interval.ms": "6000"}, near)


def test_a_streams_group_names_an_assignor_that_its_brokers_have() -> None:
    by_class = "org.apache.kafka.coordinator.group.streams.assignor.StickyTaskAssignor"
    for brokers in ({}, {"group.streams.assignors": by_class}):
        check_group_overrides({"streams.assignor.name": "sticky"}, brokers)
        assert broker_text("streams.assignor.name", brokers) == "sticky"
        with pytest.raises(ConfigError, match="it must be a registered assignor: sticky"):
            check_group_overrides({"streams.assignor.name": "uniform"}, brokers)


def test_standby_replicas_are_bounded_by_a_key_of_another_name() -> None:
    with pytest.raises(ConfigError, match="at most 2"):
        check_group_overrides({"streams.num.standby.replicas": "3"}, {})
