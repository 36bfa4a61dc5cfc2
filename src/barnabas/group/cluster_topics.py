"""The cluster as groups see it: topics, their hashes, and the configuration of groups.

It is a view of the metadata image; `changed` says which hashes to compute again.

Source: KIP-1101; ``Utils.computeTopicHash`` and ``computeGroupHash`` of Apache Kafka 4.3 (XXH3 over
the bytes that hash4j's stream makes of the values).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from struct import pack
from typing import cast

from xxhash import xxh3_64_intdigest

from barnabas.config.definition import ConfigError, ConfigValue
from barnabas.config.group import group_values
from barnabas.metadata.features import GROUP_VERSION, STREAMS_VERSION
from barnabas.metadata.image.image import GROUP, MetadataImage
from barnabas.metadata.image.topic import Topic
from barnabas.types import Uuid

_MAGIC = 0
CACHED_CONFIGS = 10_000


class ClusterTopics:
    """Topics by name and id."""

    def __init__(
        self,
        image: MetadataImage | None = None,
        broker_texts: Callable[[], Mapping[str, str]] | None = None,
    ) -> None:
        """`broker_texts` are the broker's present configuration values."""
        self.image = MetadataImage(track_changes=False) if image is None else image
        self._broker_texts = broker_texts or (dict)
        self._hashes: dict[str, int] = {}
        self._configs: dict[str, dict[str, ConfigValue]] = {}
        self._config_version = -1
        self.new_topics_version = 0
        """The metadata offset at which a topic was last added."""

    @property
    def version(self) -> int:
        """The metadata's present offset."""
        return self.image.offset

    @property
    def serves_consumer_groups(self) -> bool:
        """Whether ``group.version`` is 1 or more."""
        return self.image.features.get(GROUP_VERSION, 0) >= 1

    @property
    def serves_streams_groups(self) -> bool:
        """Whether ``streams.version`` is 1 or more."""
        return self.image.features.get(STREAMS_VERSION, 0) >= 1

    def named(self, name: str) -> Topic | None:
        return self.image.topics_by_name.get(name)

    def id_of(self, name: str) -> Uuid | None:
        topic = self.image.topics_by_name.get(name)
        return None if topic is None else topic.id

    def name_of(self, topic_id: Uuid) -> str | None:
        topic = self.image.topics_by_id.get(topic_id)
        return None if topic is None else topic.name

    def partitions_of(self, topic_id: Uuid) -> int:
        """The number of partitions of the topic; 0 if it is unknown."""
        topic = self.image.topics_by_id.get(topic_id)
        return 0 if topic is None else len(topic)

    def names(self) -> list[str]:
        return sorted(self.image.topics_by_name)

    def changed(self, names: Iterable[str], *, new: bool) -> None:
        """Topics were created (`new`), deleted, or got more partitions or other replicas."""
        for name in names:
            self._hashes.pop(name, None)
        if new:
            self.new_topics_version = self.version

    def changed_entirely(self) -> None:
        """The image was replaced."""
        self._hashes.clear()
        self.new_topics_version = self.version

    def group_hash(self, names: Iterable[str]) -> int:
        """The hash over all of the topics that exist; 0 if none does."""
        hashes = [
            self._topic_hash(topic)
            for topic in map(self.image.topics_by_name.get, sorted(names))
            if topic is not None
        ]
        if not hashes:
            return 0
        return _signed(xxh3_64_intdigest(pack(f"<{len(hashes)}q", *hashes)))

    def _topic_hash(self, topic: Topic) -> int:
        known = self._hashes.get(topic.name)
        if known is None:
            racks: dict[tuple[int, ...], bytes] = {}
            places = []
            for replicas in topic.replicas:
                key = tuple(replicas)
                place = racks.get(key)
                if place is None:
                    place = racks[key] = _place(self._racks(replicas))
                places.append(place)
            known = self._hashes[topic.name] = _hash_of(topic.id, topic.name, places)
        return known

    def _racks(self, replicas: Iterable[int]) -> list[str]:
        brokers = self.image.brokers
        racks = (brokers[node].rack for node in replicas if node in brokers)
        return sorted(rack for rack in racks if rack is not None)

    def group_config(self, group_id: str, key: str) -> int:
        """The group's configured number, else the one for all groups."""
        return cast(int, self.group_value(group_id, key))

    def group_value(self, group_id: str, key: str) -> ConfigValue:
        """The group's configured value, else the one for all groups."""
        if self._config_version != self.image.config_version or len(self._configs) > CACHED_CONFIGS:
            self._config_version = self.image.config_version
            self._configs.clear()
        values = self._configs.get(group_id)
        if values is None:
            overrides, texts = self.image.config(GROUP, group_id), self._broker_texts()
            try:
                values = group_values(overrides, texts)
            except ConfigError:  # the value was not checked by this version's controller
                values = group_values({}, texts)
            self._configs[group_id] = values
        return values[key]


def topic_hash(topic_id: Uuid, name: str, racks: list[list[str]]) -> int:
    """The hash of a topic's identity, its partitions, and the sorted racks of each one's replicas."""
    return _hash_of(topic_id, name, [_place(found) for found in racks])


def _hash_of(topic_id: Uuid, name: str, places: list[bytes]) -> int:
    """The hash of a topic; `places` has the bytes that follow each partition's index."""
    count = len(places)
    indexes = pack(f"<{count}i", *range(count))
    if any(places):
        cut = (indexes[start : start + 4] for start in range(0, 4 * count, 4))
        indexes = b"".join([part for pair in zip(cut, places) for part in pair])
    head = b"".join(
        (
            bytes((_MAGIC,)),
            topic_id[7::-1],  # two longs, the little end first
            topic_id[:7:-1],
            _text(name),
            pack("<i", count),
        )
    )
    return _signed(xxh3_64_intdigest(head + indexes))


def _place(racks: list[str]) -> bytes:
    """The sorted racks of one partition's replicas."""
    return b"".join(pack("<i", len(rack)) + _text(rack) for rack in racks)


def _text(text: str) -> bytes:
    data = text.encode("utf-16-le")
    return data + pack("<i", len(data) // 2)


def _signed(value: int) -> int:
    return value - (1 << 64) if value >> 63 else value
