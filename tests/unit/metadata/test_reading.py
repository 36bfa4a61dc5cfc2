"""Events and the tree: what people see of the metadata."""

from __future__ import annotations

import json

import pytest

from barnabas.metadata.image.codec import encode_records
from barnabas.metadata.image.image import MetadataImage
from barnabas.metadata.records.broker_registration_change_record import (
    BrokerRegistrationChangeRecord,
)
from barnabas.metadata.records.config_record import ConfigRecord
from barnabas.metadata.records.feature_level_record import FeatureLevelRecord
from barnabas.metadata.records.no_op_record import NoOpRecord
from barnabas.metadata.records.partition_change_record import PartitionChangeRecord
from barnabas.metadata.records.partition_record import PartitionRecord
from barnabas.metadata.records.register_broker_record import BrokerEndpoint, RegisterBrokerRecord
from barnabas.metadata.records.remove_topic_record import RemoveTopicRecord
from barnabas.metadata.records.topic_record import TopicRecord
from barnabas.metadata.views.cluster_events import EventReader
from barnabas.metadata.views.metadata_tree import NoSuchPathError, cat, children
from barnabas.types import Uuid
from barnabas.wire.schema import Message

TOPIC = Uuid(bytes(15) + b"\x07")
LOG: list[Message] = [
    FeatureLevelRecord(name="metadata.version", feature_level=30),
    RegisterBrokerRecord(
        broker_id=1, broker_epoch=1, incarnation_id=TOPIC, rack=None,
        end_points=[BrokerEndpoint(name="PLAINTEXT", host="h", port=9)], log_dirs=[TOPIC],
    ),
    TopicRecord(name="flights", topic_id=TOPIC),
    ConfigRecord(resource_type=2, resource_name="flights", name="retention.ms", value="5"),
    ConfigRecord(resource_type=4, resource_name="", name="ssl.key.password", value="x"),
    PartitionRecord(partition_id=0, topic_id=TOPIC, replicas=[1, 2], isr=[1, 2], leader=1,
                    leader_epoch=0, partition_epoch=0, directories=[TOPIC, TOPIC]),
    PartitionChangeRecord(partition_id=0, topic_id=TOPIC, isr=[2], leader=2, reason="1 is gone"),
    PartitionChangeRecord(partition_id=0, topic_id=TOPIC, isr=[2, 1]),
    PartitionChangeRecord(partition_id=0, topic_id=TOPIC, adding_replicas=[3], replicas=[1, 2, 3]),
    BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=1, fenced=1, reason="silent"),
    NoOpRecord(),
]  # fmt: skip


def test_the_log_tells_events_with_their_reasons() -> None:
    reader = EventReader()
    events = list(reader.feed(encode_records(LOG, 30), 100, 5))
    assert [str(event) for event in events] == [
        "feature metadata.version: 0 → 30",
        "broker 1: registered with epoch 1",
        "topic flights: created",
        "config topic flights: retention.ms = 5",
        "config broker (all): ssl.key.password = (secret)",
        "partition flights-0: created with replicas 1,2, leader 1",
        "election flights-0: leader 1 → 2, isr 1,2 → 2 (1 is gone)",
        "isr flights-0: isr 2 → 2,1",
        "reassignment flights-0: replicas 1,2 → 1,2,3, adding none → 3",
        "broker 1: fenced (silent)",
    ]
    assert events[-1].offset == 109 and events[-1].at_ms == 5
    again = PartitionRecord(partition_id=0, topic_id=TOPIC, replicas=[1], leader_epoch=1002)
    raised = list(reader.feed(encode_records([again], 30), 110, 6))
    assert [str(event) for event in raised] == [
        "partition flights-0: continues in leader epoch 1002"
    ]
    gone = list(reader.feed(encode_records([RemoveTopicRecord(topic_id=TOPIC)], 30), 111, 6))
    assert [str(event) for event in gone] == ["topic flights: deleted"]


def test_the_tree_can_be_browsed_and_carried_by_json() -> None:
    image = MetadataImage()
    image.replay_batch(LOG, 10, 2)
    assert children(image)[:4] == ["provenance", "features", "cluster/", "topics/"]
    assert children(image, "/topics/byName") == ["flights/"]
    assert cat(image, "/topics/byName/flights/0")["state"] == "Online"
    assert cat(image, "/cluster/brokers/1")["fenced"] is True
    assert cat(image, "/configs/BROKER/(default)") == {"ssl.key.password": "(secret)"}
    assert json.loads(json.dumps(cat(image, "/")))["provenance"]["offset"] == 10


@pytest.mark.parametrize("path", ["/nope", "/topics/byName/x", "/features/metadata.version/x"])
def test_a_path_without_a_value_is_refused(path: str) -> None:
    image = MetadataImage()
    image.replay_batch(LOG, 10, 2)
    with pytest.raises(NoSuchPathError):
        cat(image, path)
