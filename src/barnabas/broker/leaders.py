"""Who leads now, for clients that asked the wrong broker (KIP-951).

An answer NOT_LEADER_OR_FOLLOWER or FENCED_LEADER_EPOCH carries the leader this broker knows of and
where it listens, so that the client need not ask for metadata first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.broker.partition import Partition
from barnabas.replication.sessions import PartitionKey
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages import fetch_response, produce_response
from barnabas.wire.messages.fetch_response import FetchResponse
from barnabas.wire.messages.produce_response import ProduceResponse

if TYPE_CHECKING:
    from barnabas.broker.broker import Broker

LEADERSHIP = frozenset({ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH})
FETCH_ENDPOINTS_SINCE = 16


def add_fetch_leaders(
    broker: Broker, response: FetchResponse, version: int, refused: dict[PartitionKey, Partition]
) -> None:
    """Name the leaders of `refused` in their answers."""
    wanted: dict[int, None] = {}
    for topic in response.responses:
        for data in topic.partitions:
            partition = refused.get((topic.topic_id, data.partition_index)) or refused.get(
                (topic.topic, data.partition_index)
            )
            if partition is None or data.error_code not in LEADERSHIP:
                continue
            data.current_leader = fetch_response.LeaderIdAndEpoch(
                leader_id=partition.leader_id, leader_epoch=partition.leader_epoch
            )
            wanted[partition.leader_id] = None
    if version >= FETCH_ENDPOINTS_SINCE:
        response.node_endpoints = [
            fetch_response.NodeEndpoint(node_id=node, host=host, port=port, rack=rack)
            for node, host, port, rack in _endpoints(broker, wanted)
        ]


def add_produce_leaders(broker: Broker, response: ProduceResponse) -> None:
    """Name the leaders of the partitions that were refused for leadership."""
    image = broker.image
    wanted: dict[int, None] = {}
    for topic in response.responses:
        for answer in topic.partition_responses:
            if answer.error_code not in LEADERSHIP:
                continue
            known = (
                image.topics_by_name.get(topic.name)
                if topic.name
                else image.topics_by_id.get(topic.topic_id)
            )
            if known is None or not known.has(answer.index):
                continue
            leader = known.leader[answer.index]
            answer.current_leader = produce_response.LeaderIdAndEpoch(
                leader_id=leader, leader_epoch=known.leader_epoch[answer.index]
            )
            wanted[leader] = None
    response.node_endpoints = [
        produce_response.NodeEndpoint(node_id=node, host=host, port=port, rack=rack)
        for node, host, port, rack in _endpoints(broker, wanted)
    ]


def _endpoints(broker: Broker, nodes: dict[int, None]) -> list[tuple[int, str, int, str | None]]:
    """Where the brokers `nodes` serve clients. The listener is the inter-broker one unless the
    brokers' other listeners are all that is known."""
    found = []
    for node in nodes:
        known = broker.image.brokers.get(node)
        if known is None:
            continue
        at = known.endpoint(broker.config.inter_broker_listener_name)
        if at is not None:
            found.append((node, at.host, at.port, known.rack))
    return found
