"""The typed configuration of each topic's replicas here: the log's, and ``min.insync.replicas``.

A topic's value overrides the broker's, which overrides the default. Topics without values of their
own share one configuration. Every change of a configuration drops all that were derived.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import NamedTuple

from barnabas.config.topic import broker_part, topic_values
from barnabas.log.config import LogConfig
from barnabas.metadata.image.image import TOPIC, MetadataImage

PLAIN = ""
"""The key for all topics that set nothing themselves."""


class ReplicaConfig(NamedTuple):
    log: LogConfig
    min_isr: int


Texts = tuple[tuple[str, str], ...]


@lru_cache(1024)
def _derive(overrides: Texts, broker: Texts) -> ReplicaConfig:
    """Derive a configuration from its texts alone, so that topics with equal texts share it."""
    values = topic_values(dict(overrides), dict(broker))
    min_isr = values["min.insync.replicas"]
    assert isinstance(min_isr, int)
    return ReplicaConfig(LogConfig.from_topic_config(values), min_isr)


class TopicConfigs:
    """Derived configurations by topic."""

    def __init__(self, image: MetadataImage, broker_texts: Callable[[], Mapping[str, str]]) -> None:
        self._image = image
        self._broker_texts = broker_texts
        self._known: dict[str, ReplicaConfig] = {}
        self._version = -1
        self._broker: Texts = ()

    def of(self, topic: str) -> ReplicaConfig:
        if self._version != self._image.config_version:
            self._version = self._image.config_version
            self._known.clear()
            self._broker = broker_part(self._broker_texts())
        overrides = self._image.config(TOPIC, topic)
        name = topic if overrides else PLAIN
        found = self._known.get(name)
        if found is None:
            found = self._known[name] = _derive(tuple(overrides.items()), self._broker)
        return found

    def log_config(self, topic: str) -> LogConfig:
        return self.of(topic).log
