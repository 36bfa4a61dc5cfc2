"""The dead-letter topics of share groups: which one a group has, whether it may be used, and its leaders.

A group names its topic (``errors.deadletterqueue.topic.name``). The name begins with the broker's
``errors.deadletterqueue.topic.name.prefix``; the topic says itself that it takes dead letters
(``errors.deadletterqueue.group.enable``). One that does not exist is created where
``errors.deadletterqueue.auto.create.topics.enable`` is set.

Source: ``ShareGroupDLQStateManager.validateDlqTopic`` and ``ShareCoordinatorMetadataCacheHelperImpl`` of
Apache Kafka 4.4; KIP-1191.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from barnabas.config.broker import BROKER
from barnabas.config.definition import ConfigError
from barnabas.config.group import DEAD_LETTER_TOPIC
from barnabas.config.topic import TOPIC as TOPIC_KEYS
from barnabas.group.cluster_topics import ClusterTopics
from barnabas.log.config import LogConfig
from barnabas.metadata.image.image import TOPIC
from barnabas.types import Uuid
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.messages.create_topics_request import CreatableTopic, CreatableTopicConfig

COPIES = "errors.deadletterqueue.copy.record.enable"
PREFIX = "errors.deadletterqueue.topic.name.prefix"
CREATES = "errors.deadletterqueue.auto.create.topics.enable"
ENABLED = "errors.deadletterqueue.group.enable"


class LetterTarget(NamedTuple):
    """The partition that takes the dead letters of one partition."""

    topic: str
    topic_id: Uuid
    partition: int


class DeadLetterTopics:
    """The topics, by the committed metadata."""

    def __init__(
        self,
        cluster: ClusterTopics,
        broker_texts: Callable[[], Mapping[str, str]],
        log_config: Callable[[str], LogConfig],
    ) -> None:
        """`broker_texts` are the broker's own values at this moment, `log_config` a topic's."""
        self._cluster = cluster
        self._broker_texts = broker_texts
        self._log_config = log_config

    def __repr__(self) -> str:
        return f"DeadLetterTopics({self._cluster!r})"

    def named(self, group_id: str) -> str:
        """The topic of the group. Raises ``KafkaError`` where it has none that may be used, or that may be
        created."""
        name = str(self._cluster.group_value(group_id, DEAD_LETTER_TOPIC))
        if not name:
            raise _unusable(f"share group {group_id} has no dead-letter topic")
        prefix = self._broker_value(PREFIX)
        if name.startswith("__") or not name.startswith(str(prefix or "")):
            raise _unusable(f"the name of dead-letter topic {name} does not begin with {prefix!r}")
        if self._cluster.named(name) is None:
            if not self._broker_value(CREATES):
                raise _unusable(f"dead-letter topic {name} does not exist, and is not created")
        elif not self._takes_letters(name):
            raise _unusable(f"topic {name} takes no dead letters: its {ENABLED} is false")
        return name

    def copies(self, group_id: str) -> bool:
        """Whether dead letters have the keys and values of their records."""
        return bool(self._cluster.group_value(group_id, COPIES))

    def target(self, name: str, partition: int) -> LetterTarget | None:
        """The place of dead letters of a topic's `partition`; None where the topic is not there yet."""
        topic = self._cluster.named(name)
        return None if topic is None else LetterTarget(name, topic.id, partition % len(topic))

    def leader_of(self, target: LetterTarget) -> int:
        """The broker that leads it; -1 while there is none."""
        topic = self._cluster.named(target.topic)
        if topic is None or topic.id != target.topic_id or not topic.has(target.partition):
            return -1
        leader: int = topic.leader[target.partition]
        return leader

    def batch_bytes_max(self, name: str) -> int:
        """The largest batch that the topic takes."""
        return self._log_config(name).max_message_bytes

    def new_topic(self, name: str) -> CreatableTopic:
        """A topic to be created."""
        values = {ENABLED: "true", "message.timestamp.type": "CreateTime"}
        configs = [CreatableTopicConfig(name=key, value=text) for key, text in values.items()]
        return CreatableTopic(name=name, num_partitions=-1, replication_factor=-1, configs=configs)

    def _takes_letters(self, name: str) -> bool:
        try:
            return bool(
                TOPIC_KEYS.parse(
                    ENABLED, self._cluster.image.config(TOPIC, name).get(ENABLED, "false")
                )
            )
        except ConfigError:
            return False

    def _broker_value(self, key: str) -> object:
        text = self._broker_texts().get(key)
        return BROKER.default(key) if text is None else BROKER.parse(key, text)


def _unusable(why: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_CONFIG, why)
