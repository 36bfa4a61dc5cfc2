"""The znodes of a running cluster as records for the metadata log of the quorum.

Every partition keeps its leader and epochs, unlike in the copy of a stopped cluster, because its brokers
continue to serve. A topic whose deletion was requested is left out; dual write then deletes its znodes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from barnabas.metadata.records.feature_level_record import FeatureLevelRecord
from barnabas.metadata.records.register_broker_record import RegisterBrokerRecord
from barnabas.types import Uuid
from barnabas.wire.schema import Message
from barnabas.zookeeper.layout.cluster_znodes import ClusterLayout
from barnabas.zookeeper.layout.json_bytes import MalformedZnode
from barnabas.zookeeper.layout.request_znodes import DELETE_TOPICS
from barnabas.zookeeper.layout.topic_ids import give_ids, without_id
from barnabas.zookeeper.migration.findings import WHO_GIVES_IDS
from barnabas.zookeeper.operations import NodeData, SetData


def namings(znodes: Mapping[str, NodeData], new_id: Callable[[str], Uuid]) -> list[SetData]:
    """Operations that give ids to topics that have none, and no state either: a tool of before topic ids has
    made them since the brokers were asked. Raises `MalformedZnode` for a topic that is served without an id:
    its brokers alone know whether it has one."""
    layout = _layout_of(znodes)
    found = without_id(layout.topics.values())
    for topic in found:
        if topic.states:
            raise MalformedZnode(topic.znode.path, f"it has no id: {WHO_GIVES_IDS}")
    return give_ids(layout, found, new_id)


def _layout_of(znodes: Mapping[str, NodeData]) -> ClusterLayout:
    layout = ClusterLayout()
    layout.load(znodes)
    return layout


def records_of(znodes: Mapping[str, NodeData]) -> list[Message]:
    """All records except registrations and feature levels: brokers have registered with the quorum, and the
    quorum has its own levels. Raises `MalformedZnode`."""
    layout = _layout_of(znodes)
    for path in znodes:
        if path.startswith(f"{DELETE_TOPICS}/"):
            name = path.rpartition("/")[2]
            layout.topics.pop(name, None)
            layout.forget_config(f"topics/{name}")
    return [
        record
        for record in layout.records()
        if not isinstance(record, FeatureLevelRecord | RegisterBrokerRecord)
    ]
