"""The znodes of a running cluster as records for the metadata log of the quorum.

Every partition keeps its leader and epochs, unlike in the copy of a stopped cluster, because its brokers
continue to serve. A topic whose deletion was requested is left out; dual write then deletes its znodes.
"""

from __future__ import annotations

from collections.abc import Mapping

from barnabas.metadata.records.feature_level_record import FeatureLevelRecord
from barnabas.metadata.records.register_broker_record import RegisterBrokerRecord
from barnabas.wire.schema import Message
from barnabas.zookeeper.layout.cluster_znodes import ClusterLayout
from barnabas.zookeeper.layout.request_znodes import DELETE_TOPICS
from barnabas.zookeeper.operations import NodeData


def records_of(znodes: Mapping[str, NodeData]) -> list[Message]:
    """All records except registrations and feature levels: brokers have registered with the quorum, and the
    quorum has its own levels. Raises `MalformedZnode`."""
    layout = ClusterLayout()
    layout.load(znodes)
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
