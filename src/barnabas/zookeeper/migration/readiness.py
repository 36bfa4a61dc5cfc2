"""Who and what is missing before a running cluster can be taken over, a sentence each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from barnabas.controller.migration_state import LOWEST_LEVEL
from barnabas.metadata.features import CONTROLLER_REGISTRATION_SINCE, metadata_version_name
from barnabas.metadata.image.image import MetadataImage
from barnabas.zookeeper.layout.cluster_state_znodes import CLUSTER_ID, CONTROLLER_EPOCH
from barnabas.zookeeper.layout.cluster_znodes import ClusterLayout
from barnabas.zookeeper.layout.request_znodes import PREFERRED_ELECTION, REASSIGN
from barnabas.zookeeper.layout.topic_ids import without_id
from barnabas.zookeeper.migration.findings import WHO_GIVES_IDS, some_of
from barnabas.zookeeper.operations import NodeData


def unready_controllers(image: MetadataImage, voters: Sequence[int]) -> Iterator[str]:
    """The obstacles in the log: controllers that do not migrate, and a level that cannot carry the
    metadata."""
    level = image.metadata_version
    if level < LOWEST_LEVEL:
        name, wanted = metadata_version_name(level), metadata_version_name(LOWEST_LEVEL)
        yield f"metadata.version is {name}, and a migration needs {wanted} or later"
    if level < CONTROLLER_REGISTRATION_SINCE:
        return  # nothing tells of the other controllers
    for voter in voters:
        known = image.controllers.get(voter)
        if known is None:
            yield f"controller {voter} is not registered"
        elif not known.zk_migration_ready:
            yield f"controller {voter} has not enabled zookeeper.metadata.migration.enable"


def missing(znodes: Mapping[str, NodeData], image: MetadataImage) -> Iterator[str]:
    """The obstacles in znodes and log: brokers, and what cannot be copied. Raises `MalformedZnode`."""
    for path in (CLUSTER_ID, CONTROLLER_EPOCH):
        if path not in znodes:
            yield f"{path} is missing: this is no cluster that ever ran"
    layout = ClusterLayout()
    layout.load(znodes)
    assigned = {
        broker
        for topic in layout.topics.values()
        for partition in topic.znode.partitions.values()
        for broker in partition.replicas
    }
    for broker in sorted({*layout.brokers, *assigned}):
        known = image.brokers.get(broker)
        if known is None:
            where = "is in ZooKeeper" if broker in layout.brokers else "has replicas"
            yield (
                f"broker {broker} {where} and has not registered with the quorum: start it with"
                " zookeeper.metadata.migration.enable=true"
            )
        elif known.fenced:
            yield f"broker {broker} is registered with the quorum and not heard of: start it"
    nameless = [topic.znode.topic for topic in without_id(layout.topics.values()) if topic.states]
    if nameless:
        yield f"topics {some_of(nameless)} have no id: {WHO_GIVES_IDS}"
    for path, what in ((REASSIGN, "a reassignment"), (PREFERRED_ELECTION, "an election")):
        if path in znodes:
            yield f"{what} was asked for by {path} and is not finished: the brokers finish it"
