"""The znodes of a running cluster as the records that a quorum's log takes up.

Unlike the copy of a stopped cluster every partition keeps its leader and epochs, for its brokers serve on. A
topic whose deletion was asked for is left out: it goes when the znodes follow the log.
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
    """All but the registrations, which brokers have made with the quorum, and levels, which are the
    quorum's. Raises `MalformedZnode`."""
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
