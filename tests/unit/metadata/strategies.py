"""Hypothesis strategies for metadata records, and images compared by what they hold."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from barnabas.metadata.image.image import MetadataImage
from barnabas.metadata.records.broker_registration_change_record import (
    BrokerRegistrationChangeRecord,
)
from barnabas.metadata.records.clear_elr_record import ClearElrRecord
from barnabas.metadata.records.client_quota_record import ClientQuotaRecord, EntityData
from barnabas.metadata.records.config_record import ConfigRecord
from barnabas.metadata.records.feature_level_record import FeatureLevelRecord
from barnabas.metadata.records.no_op_record import NoOpRecord
from barnabas.metadata.records.partition_change_record import PartitionChangeRecord
from barnabas.metadata.records.partition_record import PartitionRecord
from barnabas.metadata.records.producer_ids_record import ProducerIdsRecord
from barnabas.metadata.records.register_broker_record import (
    BrokerEndpoint,
    BrokerFeature,
    RegisterBrokerRecord,
)
from barnabas.metadata.records.remove_topic_record import RemoveTopicRecord
from barnabas.metadata.records.topic_record import TopicRecord
from barnabas.metadata.records.unregister_broker_record import UnregisterBrokerRecord
from barnabas.types import Uuid

BROKERS = (1, 2, 3, 4, 5)
brokers = st.sampled_from(BROKERS)
broker_sets = st.lists(brokers, unique=True, max_size=4).map(tuple)
topic_ids = st.integers(1, 4).map(lambda n: Uuid(n.to_bytes(16, "big")))
NAMES = ("a", "b", "a.b", "a_b")
names = st.sampled_from(NAMES)
topics = topic_ids.map(
    lambda topic_id: TopicRecord(name=NAMES[topic_id[-1] - 1], topic_id=topic_id)
)
"""A name of its own for each: no two topics ever have the same at one time."""
indexes = st.integers(0, 3)
maybe = st.one_of(st.none(), st.text(max_size=140))
maybe_set = st.one_of(st.none(), broker_sets)
replicas = st.lists(brokers, unique=True, min_size=1, max_size=4).map(tuple)
uuids = st.binary(min_size=16, max_size=16).map(Uuid)


@st.composite
def partition_records(draw: Any) -> PartitionRecord:
    assigned = draw(replicas)
    return PartitionRecord(
        partition_id=draw(indexes),
        topic_id=draw(topic_ids),
        replicas=assigned,
        isr=draw(st.lists(st.sampled_from(assigned), unique=True).map(tuple)),
        adding_replicas=draw(st.one_of(st.just(()), broker_sets)),
        removing_replicas=draw(st.one_of(st.just(()), broker_sets)),
        leader=draw(st.sampled_from((-1, *assigned))),
        leader_recovery_state=draw(st.sampled_from((0, 0, 0, 1))),
        leader_epoch=draw(st.integers(0, 1 << 20)),
        partition_epoch=draw(st.integers(0, 1 << 20)),
        directories=[draw(uuids) for _ in assigned],
        eligible_leader_replicas=draw(maybe_set),
        last_known_elr=draw(maybe_set),
        reason=draw(maybe),
    )


@st.composite
def partition_changes(draw: Any) -> PartitionChangeRecord:
    assigned = draw(st.one_of(st.none(), replicas))
    return PartitionChangeRecord(
        partition_id=draw(indexes),
        topic_id=draw(topic_ids),
        isr=draw(maybe_set),
        leader=draw(st.sampled_from((-2, -2, -1, 1, 2, 300))),
        replicas=assigned,
        directories=None if assigned is None else [draw(uuids) for _ in assigned],
        adding_replicas=draw(st.one_of(st.none(), broker_sets)),
        removing_replicas=draw(st.one_of(st.none(), broker_sets)),
        leader_recovery_state=draw(st.sampled_from((-1, -1, 0, 1))),
        eligible_leader_replicas=draw(maybe_set),
        last_known_elr=draw(maybe_set),
        reason=draw(maybe),
    )


@st.composite
def registrations(draw: Any) -> RegisterBrokerRecord:
    return RegisterBrokerRecord(
        broker_id=draw(brokers),
        broker_epoch=draw(st.integers(0, 3)),
        incarnation_id=draw(uuids),
        end_points=[BrokerEndpoint(name="PLAINTEXT", host="h", port=draw(st.integers(1, 65535)))],
        features=[BrokerFeature(name="metadata.version", max_supported_version=30)],
        rack=draw(st.sampled_from((None, "r"))),
        fenced=draw(st.booleans()),
        log_dirs=draw(st.lists(uuids, max_size=2)),
    )


small = st.integers(-1, 1)
records = st.one_of(
    topics,
    partition_records(),
    partition_records(),
    partition_changes(),
    partition_changes(),
    st.builds(RemoveTopicRecord, topic_id=topic_ids),
    st.builds(
        ConfigRecord,
        resource_type=st.sampled_from((2, 4)),
        resource_name=names,
        name=st.sampled_from(("retention.ms", "flush.ms")),
        value=st.one_of(st.none(), st.text(max_size=3)),
    ),
    registrations(),
    st.builds(
        BrokerRegistrationChangeRecord,
        broker_id=brokers,
        broker_epoch=st.integers(0, 3),
        fenced=small,
        in_controlled_shutdown=st.integers(0, 1),
    ),
    st.builds(UnregisterBrokerRecord, broker_id=brokers, broker_epoch=st.integers(0, 3)),
    st.builds(
        FeatureLevelRecord,
        name=st.sampled_from(("group.version", "share.version")),
        feature_level=st.integers(0, 1),
    ),
    st.builds(ProducerIdsRecord, next_producer_id=st.integers(1, 1 << 40)),
    st.builds(ClearElrRecord, topic_name=st.sampled_from(("", "a", "b"))),
    st.builds(
        ClientQuotaRecord,
        entity=st.just([EntityData(entity_type="user", entity_name="u")]),
        key=st.sampled_from(("producer_byte_rate", "consumer_byte_rate")),
        value=st.floats(0, 10),
        remove=st.booleans(),
    ),
    st.just(NoOpRecord()),
)


def holds(image: MetadataImage) -> dict[str, Any]:
    """Everything an image says, without how it is kept."""
    return {
        "topics": {
            topic.id: (topic.name, topic.partitions()) for topic in image.topics_by_id.values()
        },
        "names": {name: topic.id for name, topic in image.topics_by_name.items()},
        "collisions": image.collisions,
        "brokers": image.brokers,
        "controllers": image.controllers,
        "configs": image.configs,
        "features": image.features,
        "producer_ids": image.next_producer_id,
        "quotas": image.client_quotas,
        "members": {
            broker: sorted((topic.id, index) for topic, index in image.partitions_of(broker))
            for broker in BROKERS
        },
        "offset": (image.offset, image.epoch),
        "transaction": image.transaction,
    }


def truly_members(image: MetadataImage) -> dict[int, list[tuple[Uuid, int]]]:
    """What `partition_keys_of` should say, by looking at every partition."""
    return {
        broker: sorted(
            (topic.id, state.partition)
            for topic in image.topics_by_id.values()
            for state in topic.partitions()
            if broker in state.replicas
        )
        for broker in BROKERS
    }
