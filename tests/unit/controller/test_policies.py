"""An operator's own rules: loaded by name, asked last, and what they raise reaches the client."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from barnabas.config.definition import ConfigError
from barnabas.policy import (
    ALTER_CONFIG,
    CREATE_TOPIC,
    ChangedConfigs,
    NewTopic,
    PolicyViolation,
    ResourceType,
    load_policies,
)
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages import alter_configs_request as legacy
from barnabas.wire.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from tests.unit.controller.harness import World
from tests.unit.controller.test_configs import BROKER, DELETE, SET, TOPIC, alter

HERE = __name__


class Recorder:
    """Remembers what it is asked; refuses what its class names."""

    asked: list[Any] = []
    configured: Mapping[str, str] = {}
    fault: Exception | None = None
    closed = 0

    def configure(self, properties: Mapping[str, str]) -> None:
        type(self).configured = properties

    def validate(self, request: Any) -> None:
        self.asked.append(request)
        if self.fault is not None:
            raise self.fault

    def close(self) -> None:
        type(self).closed += 1


class Topics(Recorder):
    asked: list[NewTopic] = []


class Configs(Recorder):
    asked: list[ChangedConfigs] = []


class Without:
    pass


class Difficult:
    def __init__(self) -> None:
        raise KeyError


@pytest.fixture
def world() -> Iterator[World]:
    world = World({CREATE_TOPIC: f"{HERE}:Topics", ALTER_CONFIG: f"{HERE}.Configs"})
    world.join(1, 2, 3)
    Topics.asked.clear()
    Configs.asked.clear()
    yield world
    Topics.fault = Configs.fault = None


def test_policies_are_configured_with_the_file(world: World) -> None:
    assert Topics.configured["node.id"] == Configs.configured["node.id"] == "100"


def test_a_new_topic_is_shown_with_its_size_or_its_replicas(world: World) -> None:
    assert not world.create("a", partitions=2, factor=3).error_code
    assert not world.create("b").error_code
    assert not world.create("c", [[1, 2], [2, 3]], configs={"retention.ms": "5"}).error_code
    assert Topics.asked == [
        NewTopic("a", 2, 3, None, {}),
        NewTopic("b", 1, 1, None, {}),
        NewTopic("c", None, None, {0: (1, 2), 1: (2, 3)}, {"retention.ms": "5"}),
    ]
    # Its configuration is also a configuration that changes.
    assert Configs.asked == [ChangedConfigs(ResourceType.TOPIC, "c", {"retention.ms": "5"})]


def test_a_policy_that_refuses_a_topic_says_why_and_the_others_come(world: World) -> None:
    Topics.fault = PolicyViolation("two replicas at least")
    answer = world.create("a", partitions=1, factor=1)
    assert (answer.error_code, answer.error_message) == (
        ErrorCode.POLICY_VIOLATION,
        "two replicas at least",
    )
    assert "a" not in world.image.topics_by_name
    told = [(n.subject, n.code, n.reason) for n in world.controller.refusals.since()]
    assert told == [("CREATE_TOPICS a", "POLICY_VIOLATION", "two replicas at least")]
    Topics.fault = ZeroDivisionError("division by zero")
    answer = world.create("a", partitions=1, factor=1)
    assert answer.error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert "ZeroDivisionError: division by zero" in answer.error_message
    Topics.fault = None
    assert not world.create("a", partitions=1, factor=1).error_code


def test_a_policy_is_asked_about_a_validation_too(world: World) -> None:
    Topics.fault = PolicyViolation("no")
    topic = CreatableTopic(name="a", num_partitions=1, replication_factor=1)
    answer = world.ask(CreateTopicsRequest(topics=[topic], validate_only=True))
    assert answer.topics[0].error_code == ErrorCode.POLICY_VIOLATION
    world.join(4)
    Configs.fault = PolicyViolation("never")
    refused = alter(world, BROKER, "4", ("log.cleaner.threads", SET, "2"), dry=True)
    assert refused.error_code == ErrorCode.POLICY_VIOLATION


def test_no_policy_is_asked_about_an_invalid_request(world: World) -> None:
    assert world.create("a", partitions=1, factor=9).error_code
    assert world.create("a", partitions=1, factor=1, configs={"nope": "1"}).error_code
    assert world.create("a b", partitions=1, factor=1).error_code
    assert alter(world, TOPIC, "none", ("retention.ms", SET, "5")).error_code
    assert not Topics.asked and not Configs.asked


def test_a_change_is_shown_as_far_as_it_changes_something(world: World) -> None:
    world.create("t", [[1]], configs={"retention.ms": "5", "segment.bytes": "1048576"})
    Configs.asked.clear()
    changes = ("retention.ms", SET, "5"), ("segment.bytes", DELETE, None), ("flush.ms", SET, "9")
    assert not alter(world, TOPIC, "t", *changes).error_code
    assert not alter(world, BROKER, "", ("log.cleaner.threads", SET, "2")).error_code
    assert not alter(world, BROKER, "", ("log.cleaner.threads", SET, "2")).error_code
    assert Configs.asked == [
        ChangedConfigs(ResourceType.TOPIC, "t", {"segment.bytes": None, "flush.ms": "9"}),
        *[ChangedConfigs(ResourceType.BROKER, "", {"log.cleaner.threads": "2"})] * 2,
    ]
    Configs.fault = PolicyViolation("records stay")
    answer = alter(world, TOPIC, "t", ("retention.ms", SET, "6"))
    assert (answer.error_code, answer.error_message) == (
        ErrorCode.POLICY_VIOLATION,
        "records stay",
    )
    assert world.image.config(TOPIC, "t") == {"retention.ms": "5", "flush.ms": "9"}


def test_a_policy_sees_no_key_that_the_older_request_does_not_name(world: World) -> None:
    world.create("t", [[1]], configs={"retention.ms": "5"})
    Configs.asked.clear()
    named = legacy.AlterableConfig(name="flush.ms", value="9")
    resource = legacy.AlterConfigsResource(resource_type=TOPIC, resource_name="t", configs=[named])
    assert not world.ask(legacy.AlterConfigsRequest(resources=[resource])).responses[0].error_code
    assert Configs.asked == [ChangedConfigs(ResourceType.TOPIC, "t", {"flush.ms": "9"})]
    assert world.image.config(TOPIC, "t") == {"flush.ms": "9"}


def test_policies_are_closed_at_the_end() -> None:
    before = Topics.closed
    load_policies({CREATE_TOPIC: f"{HERE}:Topics"}).close()
    load_policies({}).close()
    assert Topics.closed == before + 1


@pytest.mark.parametrize(
    ("named", "why"),
    [
        ("Small", "it must name a Python class as module:Class"),
        (
            "org.acme.kafka.Policy",
            "it cannot be loaded (ModuleNotFoundError: No module named 'org')",
        ),
        ("json:NoSuch", "it cannot be loaded (AttributeError: "),
        ("json:dumps", "it must name a Python class, which this is not"),
        (f"{HERE}:Difficult", "it cannot be loaded (KeyError)"),
        (f"{HERE}:Without", "its class must have a method validate(request)"),
    ],
)
@pytest.mark.parametrize("key", [CREATE_TOPIC, ALTER_CONFIG])
def test_a_policy_that_cannot_be_loaded_is_reported_in_a_sentence(
    key: str, named: str, why: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        load_policies({key: named})
    assert str(caught.value).startswith(f"{key}: '{named}' is not allowed; {why}")
    assert "\n" not in str(caught.value)
