"""Who leads now, for clients that asked the wrong broker (KIP-951).

An answer NOT_LEADER_OR_FOLLOWER or FENCED_LEADER_EPOCH carries the leader this broker knows of and
where it is reached by the listener that the client uses, so that it need not ask for metadata first. A leader
that was lost a moment ago is not named: the client asks for metadata, which wait for its successor.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from barnabas.broker.cluster_view import ClusterView
from barnabas.broker.partitions.partition import Partition
from barnabas.replication.sessions import PartitionKey
from barnabas.types import Uuid
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages import fetch_response, produce_response
from barnabas.wire.messages.fetch_response import FetchResponse
from barnabas.wire.messages.produce_response import ProduceResponse

if TYPE_CHECKING:
    from barnabas.broker.controller_client.metadata_hold import MetadataHold
    from barnabas.metadata.image.image import MetadataImage

LEADERSHIP = frozenset({ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH})


class LeaderHintsRole(Protocol):
    """Who leads by the metadata, and whether that leader was lost a moment ago."""

    @property
    def image(self) -> MetadataImage: ...
    @property
    def metadata_hold(self) -> MetadataHold: ...


def add_fetch_leaders(
    broker: LeaderHintsRole,
    response: FetchResponse,
    listener: str,
    refused: dict[PartitionKey, Partition | None],
) -> None:
    """Name the leaders of `refused` (None: no replica is here) in their answers."""
    wanted: dict[int, None] = {}
    for topic in response.responses:
        for data in topic.partitions:
            if data.error_code not in LEADERSHIP:
                continue
            index = data.partition_index
            partition = refused.get((topic.topic_id, index)) or refused.get((topic.topic, index))
            leader = (
                _known_leader(broker, topic.topic, topic.topic_id, index)
                if partition is None
                else (partition.leader_id, partition.leader_epoch)
            )
            if leader is not None and not broker.metadata_hold.is_lost(leader[0]):
                data.current_leader = fetch_response.LeaderIdAndEpoch(
                    leader_id=leader[0], leader_epoch=leader[1]
                )
                wanted[leader[0]] = None
    response.node_endpoints = [
        fetch_response.NodeEndpoint(node_id=node, host=host, port=port, rack=rack)
        for node, host, port, rack in _endpoints(broker, listener, wanted)
    ]


def add_produce_leaders(broker: LeaderHintsRole, response: ProduceResponse, listener: str) -> None:
    """Name the leaders of the partitions that were refused for leadership."""
    wanted: dict[int, None] = {}
    for topic in response.responses:
        for answer in topic.partition_responses:
            if answer.error_code not in LEADERSHIP:
                continue
            leader = _known_leader(broker, topic.name, topic.topic_id, answer.index)
            if leader is not None and not broker.metadata_hold.is_lost(leader[0]):
                answer.current_leader = produce_response.LeaderIdAndEpoch(
                    leader_id=leader[0], leader_epoch=leader[1]
                )
                wanted[leader[0]] = None
    response.node_endpoints = [
        produce_response.NodeEndpoint(node_id=node, host=host, port=port, rack=rack)
        for node, host, port, rack in _endpoints(broker, listener, wanted)
    ]


def add_share_leaders(
    broker: LeaderHintsRole,
    response: Any,
    listener: str,
    make_leader: Callable[..., Any],
    make_endpoint: Callable[..., Any],
) -> None:
    """Name the leaders of the partitions of a share fetch or acknowledgement that was refused for leadership.
    The response's own classes make the parts."""
    wanted: dict[int, None] = {}
    for topic in response.responses:
        for data in topic.partitions:
            if data.error_code not in LEADERSHIP:
                continue
            leader = _known_leader(broker, "", topic.topic_id, data.partition_index)
            if leader is not None and not broker.metadata_hold.is_lost(leader[0]):
                data.current_leader = make_leader(leader_id=leader[0], leader_epoch=leader[1])
                wanted[leader[0]] = None
    response.node_endpoints = [
        make_endpoint(node_id=node, host=host, port=port, rack=rack)
        for node, host, port, rack in _endpoints(broker, listener, wanted)
    ]


def _known_leader(
    broker: LeaderHintsRole, name: str, topic_id: Uuid, index: int
) -> tuple[int, int] | None:
    """(leader, its epoch) by the metadata."""
    image = broker.image
    topic = image.topics_by_name.get(name) if name else image.topics_by_id.get(topic_id)
    if topic is None or not topic.has(index):
        return None
    return topic.leader[index], topic.leader_epoch[index]


def _endpoints(
    broker: LeaderHintsRole, listener: str, nodes: dict[int, None]
) -> list[tuple[int, str, int, str | None]]:
    """The addresses at which those of the brokers `nodes` that live serve the clients of `listener`."""
    view = ClusterView(broker.image, listener)
    found = []
    for node in nodes:
        at = view.endpoint(node)
        if at is not None:
            found.append((node, at.host, at.port, broker.image.brokers[node].rack))
    return found
