"""The checks and answers that the handlers share: whose request may be answered, where the leader is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

from barnabas.raft.raft_node import RaftNode
from barnabas.types import METADATA_TOPIC, Endpoint
from barnabas.wire.errors import ErrorCode

N = TypeVar("N")
P = TypeVar("P")
T = TypeVar("T")


def check_cluster(cluster_id: str | None, role: RaftNode) -> ErrorCode:
    """A request that names no cluster is let through, as in Kafka."""
    if cluster_id is None or cluster_id == role.settings.cluster_id:
        return ErrorCode.NONE
    return ErrorCode.INCONSISTENT_CLUSTER_ID


def foreign_cluster(cluster_id: str | None, role: RaftNode) -> str:
    """A sentence about the foreign cluster, where `check_cluster` refuses."""
    return f"the request is for cluster {cluster_id}, this one is {role.settings.cluster_id}"


def only_partition(topics: Sequence[Any], name_field: str, index_field: str) -> Any | None:
    """The one partition a request is about; None where it is not just ``__cluster_metadata-0``."""
    if len(topics) != 1 or getattr(topics[0], name_field) != METADATA_TOPIC:
        return None
    partitions = topics[0].partitions
    if len(partitions) != 1 or getattr(partitions[0], index_field) != 0:
        return None
    return partitions[0]


def about_leader(topic: type[T], partition: type[P], answer: Any, **more: object) -> list[T]:
    """Who leads which epoch, in the one partition's entry of a response; `more` is what else it says."""
    reported = partition(
        partition_index=0,  # type: ignore[call-arg]
        error_code=answer.error,
        leader_id=answer.leader_id,
        leader_epoch=answer.epoch,
        **more,
    )
    return [topic(topic_name=METADATA_TOPIC, partitions=[reported])]  # type: ignore[call-arg]


def node_endpoints(
    node: type[N], leader_id: int, endpoint: Endpoint | None, *, known: bool
) -> list[N]:
    """The address of the leader, for versions that can say it (`known`)."""
    if not known or endpoint is None or leader_id < 0:
        return []
    return [node(node_id=leader_id, host=endpoint.host, port=endpoint.port)]  # type: ignore[call-arg]
