"""Znodes → the records with which a quorum begins; an image → the operations that bring znodes to the same.

Every partition begins without a leader on the other side, in the epoch that it had: who starts first of its
ISR is elected in the next one, so that no broker leads in an epoch in which it has written before.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping

from barnabas.limits import ZookeeperBounds
from barnabas.metadata.image.image import MetadataImage
from barnabas.metadata.image.topic import NO_LEADER
from barnabas.metadata.records.feature_level_record import FeatureLevelRecord
from barnabas.metadata.records.partition_record import PartitionRecord
from barnabas.metadata.records.register_broker_record import RegisterBrokerRecord
from barnabas.metadata.records.register_controller_record import RegisterControllerRecord
from barnabas.wire.schema import Message
from barnabas.zookeeper.cut_operations import take_operations
from barnabas.zookeeper.layout.cluster_state_znodes import CONTROLLER_EPOCH, ControllerEpochZnode
from barnabas.zookeeper.layout.cluster_znodes import ClusterLayout
from barnabas.zookeeper.migration.dual_write import DualWriter
from barnabas.zookeeper.operations import CheckVersion, Multi, NodeData

_OF_KRAFT_ALONE = (FeatureLevelRecord, RegisterBrokerRecord, RegisterControllerRecord)


def records_of(znodes: Mapping[str, NodeData]) -> list[Message]:
    """The first records of a quorum, behind its feature levels. Raises `MalformedZnode`."""
    layout = ClusterLayout()
    layout.load(znodes)
    found = []
    for record in layout.records():
        if isinstance(record, _OF_KRAFT_ALONE):
            continue
        if isinstance(record, PartitionRecord):
            record.leader = NO_LEADER
        found.append(record)
    return found


def way_back(znodes: Mapping[str, NodeData], image: MetadataImage) -> list[Multi]:
    """The transactions after which `znodes` say what `image` says, each conditional on the controller's
    epoch. Raises `MalformedZnode`."""
    epoch = znodes[CONTROLLER_EPOCH]
    writer = DualWriter(
        znodes, ControllerEpochZnode.decode(CONTROLLER_EPOCH, epoch.data).epoch, is_stopped=True
    )
    check = CheckVersion(CONTROLLER_EPOCH, epoch.stat.version)
    left = deque(writer.everything(image).operations)
    found = []
    while left:
        found.append(Multi((check, *take_operations(left, ZookeeperBounds(), besides=1))))
    return found
