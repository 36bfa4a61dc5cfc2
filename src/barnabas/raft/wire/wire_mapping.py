"""Maps this replica's requests to Kafka's messages, and responses back to values.

Requests of other nodes are mapped in :mod:`barnabas.raft.handlers`. A response that is not about
``__cluster_metadata-0`` is mapped to UNKNOWN_SERVER_ERROR in this replica's own epoch, which changes nothing.
Source: KIP-595, KIP-630, KIP-853.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from barnabas.raft.core.messages import (
    AddVoterRequest,
    BeginEpochRequest,
    BeginEpochResponse,
    ChangeVoterResponse,
    EndEpochRequest,
    EndEpochResponse,
    FeaturesRequest,
    FeaturesResponse,
    FetchRequest,
    FetchResponse,
    RemoveVoterRequest,
    Request,
    Response,
    SnapshotRequest,
    SnapshotResponse,
    UpdateVoterRequest,
    VoteRequest,
    VoteResponse,
)
from barnabas.raft.core.voters import ReplicaKey
from barnabas.raft.state_machine import OffsetAndEpoch
from barnabas.raft.wire.fetch_codec import FetchAnswer, FetchMessage
from barnabas.types import METADATA_TOPIC, ZERO_UUID, Endpoint
from barnabas.wire.errors import ErrorCode, code_of
from barnabas.wire.messages import add_raft_voter_request as add_voter
from barnabas.wire.messages import begin_quorum_epoch_request as begin_epoch
from barnabas.wire.messages import end_quorum_epoch_request as end_epoch
from barnabas.wire.messages import fetch_snapshot_request as fetch_snapshot
from barnabas.wire.messages import update_raft_voter_request as update_voter
from barnabas.wire.messages import vote_request as vote
from barnabas.wire.messages.api_versions_request import ApiVersionsRequest
from barnabas.wire.messages.remove_raft_voter_request import RemoveRaftVoterRequest
from barnabas.wire.schema import Message

PARTITION = 0
SOFTWARE = ("barnabas", "1")


class _Node(Protocol):
    node_id: int
    host: str
    port: int


# -- requests ------------------------------------------------------------------------------------


def request_to_wire(request: Request, cluster_id: str, target_id: int) -> Message:
    """Encode a request to node `target_id`; -1 for a bootstrap server."""
    return _REQUESTS[type(request)](request, cluster_id, target_id)


def _vote(request: VoteRequest, cluster_id: str, target_id: int) -> Message:
    return vote.VoteRequest(
        cluster_id=cluster_id,
        voter_id=target_id,
        topics=[
            vote.TopicData(
                topic_name=METADATA_TOPIC,
                partitions=[
                    vote.PartitionData(
                        partition_index=PARTITION,
                        replica_epoch=request.epoch,
                        replica_id=request.candidate.id,
                        replica_directory_id=request.candidate.directory_id,
                        voter_directory_id=_directory(request.voter),
                        last_offset_epoch=request.last.epoch,
                        last_offset=request.last.offset,
                        pre_vote=request.pre_vote,
                    )
                ],
            )
        ],
    )


def _directory(key: ReplicaKey | None) -> Any:
    return key.directory_id if key is not None else ZERO_UUID


def _begin_epoch(request: BeginEpochRequest, cluster_id: str, target_id: int) -> Message:
    return begin_epoch.BeginQuorumEpochRequest(
        cluster_id=cluster_id,
        voter_id=target_id,
        topics=[
            begin_epoch.TopicData(
                topic_name=METADATA_TOPIC,
                partitions=[
                    begin_epoch.PartitionData(
                        partition_index=PARTITION,
                        voter_directory_id=_directory(request.voter),
                        leader_id=request.leader_id,
                        leader_epoch=request.epoch,
                    )
                ],
            )
        ],
        leader_endpoints=[
            begin_epoch.LeaderEndpoint(name=name, host=at.host, port=at.port)
            for name, at in request.leader_endpoints.items()
        ],
    )


def _end_epoch(request: EndEpochRequest, cluster_id: str, target_id: int) -> Message:
    return end_epoch.EndQuorumEpochRequest(
        cluster_id=cluster_id,
        topics=[
            end_epoch.TopicData(
                topic_name=METADATA_TOPIC,
                partitions=[
                    end_epoch.PartitionData(
                        partition_index=PARTITION,
                        leader_id=request.leader_id,
                        leader_epoch=request.epoch,
                        preferred_successors=[key.id for key in request.successors],
                        preferred_candidates=[
                            end_epoch.ReplicaInfo(
                                candidate_id=key.id, candidate_directory_id=key.directory_id
                            )
                            for key in request.successors
                        ],
                    )
                ],
            )
        ],
        leader_endpoints=[
            end_epoch.LeaderEndpoint(name=name, host=at.host, port=at.port)
            for name, at in request.leader_endpoints.items()
        ],
    )


def _fetch(request: FetchRequest, cluster_id: str, target_id: int) -> Message:
    return FetchMessage(request, cluster_id)


def _fetch_snapshot(request: SnapshotRequest, cluster_id: str, target_id: int) -> Message:
    return fetch_snapshot.FetchSnapshotRequest(
        cluster_id=cluster_id,
        replica_id=request.replica.id,
        max_bytes=request.max_bytes,
        topics=[
            fetch_snapshot.TopicSnapshot(
                name=METADATA_TOPIC,
                partitions=[
                    fetch_snapshot.PartitionSnapshot(
                        partition=PARTITION,
                        current_leader_epoch=request.epoch,
                        snapshot_id=fetch_snapshot.SnapshotId(
                            end_offset=request.snapshot.offset, epoch=request.snapshot.epoch
                        ),
                        position=request.position,
                        replica_directory_id=request.replica.directory_id,
                    )
                ],
            )
        ],
    )


def _add_voter(request: AddVoterRequest, cluster_id: str, target_id: int) -> Message:
    return add_voter.AddRaftVoterRequest(
        cluster_id=cluster_id,
        timeout_ms=request.timeout_ms,
        voter_id=request.voter.id,
        voter_directory_id=request.voter.directory_id,
        listeners=[
            add_voter.Listener(name=name, host=at.host, port=at.port)
            for name, at in request.endpoints.items()
        ],
        ack_when_committed=request.ack_when_committed,
    )


def _remove_voter(request: RemoveVoterRequest, cluster_id: str, target_id: int) -> Message:
    return RemoveRaftVoterRequest(
        cluster_id=cluster_id,
        voter_id=request.voter.id,
        voter_directory_id=request.voter.directory_id,
    )


def _update_voter(request: UpdateVoterRequest, cluster_id: str, target_id: int) -> Message:
    return update_voter.UpdateRaftVoterRequest(
        cluster_id=cluster_id,
        current_leader_epoch=request.epoch,
        voter_id=request.voter.id,
        voter_directory_id=request.voter.directory_id,
        listeners=[
            update_voter.Listener(name=name, host=at.host, port=at.port)
            for name, at in request.endpoints.items()
        ],
        k_raft_version_feature=update_voter.KRaftVersionFeature(
            min_supported_version=request.versions[0], max_supported_version=request.versions[1]
        ),
    )


def _features(request: FeaturesRequest, cluster_id: str, target_id: int) -> Message:
    return ApiVersionsRequest(client_software_name=SOFTWARE[0], client_software_version=SOFTWARE[1])


_REQUESTS: dict[type, Callable[[Any, str, int], Message]] = {
    VoteRequest: _vote,
    BeginEpochRequest: _begin_epoch,
    EndEpochRequest: _end_epoch,
    FetchRequest: _fetch,
    SnapshotRequest: _fetch_snapshot,
    AddVoterRequest: _add_voter,
    RemoveVoterRequest: _remove_voter,
    UpdateVoterRequest: _update_voter,
    FeaturesRequest: _features,
}


# -- responses -----------------------------------------------------------------------------------


def response_from_wire(request: Request, message: Any, own_epoch: int) -> Response:
    """The response to `request` in `message`. `own_epoch` is used if the message has no epoch."""
    return _RESPONSES[type(request)](message, own_epoch)


def _partition(topics: Sequence[Any], name: str = "topic_name") -> Any | None:
    """The one partition that a response is about."""
    if len(topics) == 1 and len(topics[0].partitions) == 1:
        return topics[0].partitions[0]
    return None


def _endpoint_of(leader_id: int, nodes: Sequence[_Node]) -> Endpoint | None:
    for node in nodes:
        if node.node_id == leader_id and node.host:
            return Endpoint(node.host, node.port)
    return None


def _failure(message: Any) -> ErrorCode:
    """The error of a response without a partition."""
    return code_of(message.error_code) if message.error_code else ErrorCode.UNKNOWN_SERVER_ERROR


def _vote_response(message: Any, own_epoch: int) -> VoteResponse:
    part = _partition(message.topics)
    if message.error_code or part is None:
        return VoteResponse(_failure(message), own_epoch, -1, None, False)
    endpoint = _endpoint_of(part.leader_id, message.node_endpoints)
    error = code_of(part.error_code)
    return VoteResponse(error, part.leader_epoch, part.leader_id, endpoint, part.vote_granted)


def _begin_response(message: Any, own_epoch: int) -> BeginEpochResponse:
    part = _partition(message.topics)
    if message.error_code or part is None:
        return BeginEpochResponse(_failure(message), own_epoch, -1, None)
    endpoint = _endpoint_of(part.leader_id, message.node_endpoints)
    return BeginEpochResponse(code_of(part.error_code), part.leader_epoch, part.leader_id, endpoint)


def _end_response(message: Any, own_epoch: int) -> EndEpochResponse:
    return EndEpochResponse(*_begin_response(message, own_epoch))


def _fetch_response(message: FetchAnswer, own_epoch: int) -> FetchResponse:
    response = message.response
    return response if response.epoch >= 0 else response._replace(epoch=own_epoch)


def _snapshot_response(message: Any, own_epoch: int) -> SnapshotResponse:
    part = _partition(message.topics)
    if message.error_code or part is None:
        return SnapshotResponse(_failure(message), own_epoch, -1, None)
    leader = part.current_leader
    data = part.unaligned_records
    if isinstance(data, list):
        data = b"".join(data)
    return SnapshotResponse(
        code_of(part.error_code),
        leader.leader_epoch if leader.leader_epoch >= 0 else own_epoch,
        leader.leader_id,
        _endpoint_of(leader.leader_id, message.node_endpoints),
        snapshot=OffsetAndEpoch(part.snapshot_id.end_offset, part.snapshot_id.epoch),
        size=part.size,
        position=part.position,
        data=b"" if data is None else data,
    )


def _change_response(message: Any, own_epoch: int) -> ChangeVoterResponse:
    return ChangeVoterResponse(
        code_of(message.error_code), -1, -1, None, message.error_message or ""
    )


def _update_response(message: Any, own_epoch: int) -> ChangeVoterResponse:
    leader = message.current_leader
    endpoint = Endpoint(leader.host, leader.port) if leader.host else None
    return ChangeVoterResponse(
        code_of(message.error_code), leader.leader_epoch, leader.leader_id, endpoint
    )


def _features_response(message: Any, own_epoch: int) -> FeaturesResponse:
    for feature in message.supported_features:
        if feature.name == "kraft.version":
            return FeaturesResponse(
                code_of(message.error_code), (feature.min_version, feature.max_version)
            )
    return FeaturesResponse(code_of(message.error_code), (0, 0))


_RESPONSES: dict[type, Callable[[Any, int], Response]] = {
    VoteRequest: _vote_response,
    BeginEpochRequest: _begin_response,
    EndEpochRequest: _end_response,
    FetchRequest: _fetch_response,
    SnapshotRequest: _snapshot_response,
    AddVoterRequest: _change_response,
    RemoveVoterRequest: _change_response,
    UpdateVoterRequest: _update_response,
    FeaturesRequest: _features_response,
}
