"""The differences between znodes and a metadata log."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple, cast

from barnabas.metadata.image.image import MetadataImage
from barnabas.metadata.image.snapshot import image_records, load_records
from barnabas.metadata.records.access_control_entry_record import AccessControlEntryRecord
from barnabas.metadata.records.partition_record import PartitionRecord
from barnabas.security.authorization.acls import acl_of
from barnabas.types import uuid_text
from barnabas.zookeeper.layout.cluster_znodes import ClusterLayout
from barnabas.zookeeper.layout.topic_ids import number_topics
from barnabas.zookeeper.migration.sensitive_values import is_sensitive
from barnabas.zookeeper.operations import NodeData

OF_ELR = ("brokers/<default>", "min.insync.replicas")
HIDDEN = "(hidden)"
NO_ID = "no id"
Configs = Mapping[tuple[str, str], str]
"""The values by entity and key."""


class Difference(NamedTuple):
    """One thing of which the two do not say the same."""

    what: str
    znodes: str
    log: str
    """Empty where there is nothing."""


def differences(znodes: Mapping[str, NodeData], image: MetadataImage) -> list[Difference]:
    """Sorted by subject. Leaders and ISRs move while brokers run: of these only a leader epoch that is
    earlier in the log than in the znode is one. Raises `MalformedZnode`."""
    layout = ClusterLayout()
    layout.load(znodes)
    nameless = number_topics(layout)
    known = MetadataImage(track_changes=False)
    load_records(known, layout.records(), -1, -1)
    return sorted(_all(known, image, dict.fromkeys(nameless, NO_ID)))


def _all(
    znodes: MetadataImage, log: MetadataImage, nameless: Mapping[str, str]
) -> Iterator[Difference]:
    yield from _unequal("topic", {**_topics(znodes), **nameless}, _topics(log))
    yield from _unequal("partition", _partitions(znodes), _partitions(log))
    yield from _configurations(_configs(znodes), _configs(log))
    yield from _unequal("access control entry", _acls(znodes), _acls(log))
    yield from _unequal("delegation token", _tokens(znodes), _tokens(log))
    before, after = _epochs(znodes), _epochs(log)
    for name, epoch in before.items():
        if after.get(name, epoch) < epoch:
            yield Difference(f"leader epoch of {name}", str(epoch), str(after[name]))
    if log.next_producer_id < znodes.next_producer_id:
        yield Difference(
            "next producer id", str(znodes.next_producer_id), str(log.next_producer_id)
        )


def _unequal(what: str, znodes: Mapping[str, str], log: Mapping[str, str]) -> Iterator[Difference]:
    for name in znodes.keys() | log.keys():
        one, other = znodes.get(name, ""), log.get(name, "")
        if one != other:
            yield Difference(f"{what} {name}", one, other)


def _topics(image: MetadataImage) -> dict[str, str]:
    return {name: uuid_text(topic.id) for name, topic in image.topics_by_name.items()}


def _partition_records(image: MetadataImage) -> Iterator[tuple[str, PartitionRecord]]:
    for record in image_records(image):
        if isinstance(record, PartitionRecord):
            topic = image.topics_by_id[record.topic_id]
            yield f"{topic.name}-{record.partition_id}", record


def _partitions(image: MetadataImage) -> dict[str, str]:
    return {
        name: f"replicas {list(record.replicas)}, adding {list(record.adding_replicas)},"
        f" removing {list(record.removing_replicas)}"
        for name, record in _partition_records(image)
    }


def _epochs(image: MetadataImage) -> dict[str, int]:
    return {name: record.leader_epoch for name, record in _partition_records(image)}


def _configurations(znodes: Configs, log: Configs) -> Iterator[Difference]:
    """Secrets are compared and not shown. The ``min.insync.replicas`` with which a quorum begins (KIP-966) is
    none of the znodes'."""
    for place in (znodes.keys() | log.keys()) - ({OF_ELR} - znodes.keys()):
        one, other = znodes.get(place, ""), log.get(place, "")
        if one != other:
            if is_sensitive(*place):
                one, other = one and HIDDEN, other and HIDDEN
            yield Difference(f"configuration {' '.join(place)}", one, other)


def _configs(image: MetadataImage) -> Configs:
    """With quotas and users."""
    layout = ClusterLayout()
    layout.apply(image_records(image))
    return {
        (entity, key): value
        for entity, config in layout.configs.items()
        for key, value in config.items()
    }


def _acls(image: MetadataImage) -> dict[str, str]:
    records = cast("dict[object, AccessControlEntryRecord]", image.acls).values()
    return {str(acl_of(record)): "there" for record in records}


def _tokens(image: MetadataImage) -> dict[str, str]:
    return dict.fromkeys(image.delegation_tokens, "there")
