"""What holds for each topic's replicas here: the log's configuration and min.insync.replicas.

Topic over broker over default, typed; topics without values of their own share one. What was derived is
dropped whenever any configuration changes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from barnabas.config.topic import topic_values
from barnabas.log.config import LogConfig, intern_config
from barnabas.metadata.image import TOPIC, MetadataImage

PLAIN = ""
"""Stands for all topics that set nothing themselves."""


class ReplicaConfig(NamedTuple):
    log: LogConfig
    min_isr: int


class TopicConfigs:
    """Derived configurations by topic."""

    def __init__(self, image: MetadataImage, broker_texts: Callable[[], Mapping[str, str]]) -> None:
        self._image = image
        self._broker_texts = broker_texts
        self._known: dict[str, ReplicaConfig] = {}
        self._version = -1

    def of(self, topic: str) -> ReplicaConfig:
        if self._version != self._image.config_version:
            self._version = self._image.config_version
            self._known.clear()
        overrides = self._image.config(TOPIC, topic)
        name = topic if overrides else PLAIN
        found = self._known.get(name)
        if found is None:
            values = topic_values(overrides, self._broker_texts())
            min_isr = values["min.insync.replicas"]
            assert isinstance(min_isr, int)
            log = intern_config(LogConfig.from_topic_config(values))
            found = self._known[name] = ReplicaConfig(log, min_isr)
        return found

    def log_config(self, topic: str) -> LogConfig:
        return self.of(topic).log
