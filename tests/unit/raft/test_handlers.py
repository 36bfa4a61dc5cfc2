"""The quorum's APIs in every version that Apache Kafka serves, over the wire's own bytes."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas.client.network.connection import response_class
from barnabas.raft import handlers
from barnabas.raft.core import progress
from barnabas.raft.core.messages import VoteRequest
from barnabas.raft.core.states import Leader
from barnabas.raft.core.voters import ReplicaKey
from barnabas.raft.raft_node import RaftNode
from barnabas.raft.state_machine import OffsetAndEpoch
from barnabas.types import METADATA_TOPIC, METADATA_TOPIC_ID, Uuid
from barnabas.wire.api_table import API_SCHEMAS, ApiKey
from barnabas.wire.codec import decode, encode_bytes
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages import begin_quorum_epoch_request as begin_epoch
from barnabas.wire.messages import describe_quorum_request as describe
from barnabas.wire.messages import end_quorum_epoch_request as end_epoch
from barnabas.wire.messages import fetch_request as fetch
from barnabas.wire.messages import fetch_snapshot_request as fetch_snapshot
from barnabas.wire.messages import vote_request as vote
from barnabas.wire.messages.add_raft_voter_request import AddRaftVoterRequest
from barnabas.wire.messages.remove_raft_voter_request import RemoveRaftVoterRequest
from barnabas.wire.request import Parked, RequestContext
from barnabas.wire.schema import Message
from tests.unit.raft.quorum_world import CLUSTER, Quorum


@pytest.fixture(scope="module")
def quorum() -> Quorum:
    quorum = Quorum()
    quorum.start()
    quorum.commit(b"1", b"2")
    quorum.settle()
    return quorum


def leader(quorum: Quorum) -> RaftNode:
    replica = quorum.elect().replica
    assert replica is not None
    return replica


def ask(replica: RaftNode, request: Message, version: int) -> Any:
    """`request` as bytes to the handler, its response as bytes back."""
    module = next(m for m in handlers.HANDLERS if m.API.key == request.API_KEY)
    read = decode(module.API.request, version, encode_bytes(request, version))
    ctx = RequestContext(api_key=request.API_KEY, api_version=version)
    answer = module.handle(read, ctx, replica)
    assert isinstance(answer, Message), answer
    return decode(response_class(request.API_KEY), version, encode_bytes(answer, version))


def versions(key: ApiKey) -> range:
    schema = API_SCHEMAS[key]
    return range(schema.min_version, schema.max_stable_version + 1)


def vote_request(replica: RaftNode, **fields: Any) -> vote.VoteRequest:
    part = vote.PartitionData(replica_epoch=replica.epoch, replica_id=9, **fields)
    topic = vote.TopicData(topic_name=METADATA_TOPIC, partitions=[part])
    return vote.VoteRequest(cluster_id=CLUSTER, topics=[topic])


@pytest.mark.parametrize("version", versions(ApiKey.VOTE))
def test_a_leader_denies_votes(quorum: Quorum, version: int) -> None:
    replica = leader(quorum)
    answer = ask(replica, vote_request(replica, last_offset=99), version)
    [part] = answer.topics[0].partitions
    assert (part.error_code, part.vote_granted) == (ErrorCode.NONE, False)
    assert (part.leader_id, part.leader_epoch) == (replica.node_id, replica.epoch)
    if version >= 1:
        assert [n.host for n in answer.node_endpoints] == [f"n{replica.node_id}"]


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"last_offset": -1}, ErrorCode.INVALID_REQUEST),
        ({"last_offset_epoch": 99}, ErrorCode.INVALID_REQUEST),
        ({"replica_id": -1}, ErrorCode.INVALID_REQUEST),
        ({"replica_epoch": 0}, ErrorCode.INVALID_REQUEST),
        ({"replica_epoch": 0, "pre_vote": True}, ErrorCode.FENCED_LEADER_EPOCH),
    ],
)
def test_a_senseless_vote_request_is_refused(
    quorum: Quorum, change: dict[str, int], error: ErrorCode
) -> None:
    replica = leader(quorum)
    request = vote_request(replica)
    for name, value in change.items():
        setattr(request.topics[0].partitions[0], name, value)
    assert ask(replica, request, 2).topics[0].partitions[0].error_code == error


def test_a_vote_for_another_directory_is_refused_and_its_epoch_taken_over() -> None:
    quorum = Quorum()
    quorum.start()
    quorum.commit(b"1")
    replica = leader(quorum)
    epoch = replica.epoch + 5
    other = ReplicaKey(replica.node_id, Uuid(b"o" * 16))
    answer = quorum.ask(VoteRequest(epoch, ReplicaKey(9), other, OffsetAndEpoch(99, 1)))
    assert answer.error is ErrorCode.INVALID_VOTER_KEY
    assert (answer.epoch, answer.leader_id) == (epoch, -1)


def test_a_foreign_cluster_is_refused(quorum: Quorum) -> None:
    replica = leader(quorum)
    request = vote_request(replica)
    request.cluster_id = "another"
    assert ask(replica, request, 2).error_code == ErrorCode.INCONSISTENT_CLUSTER_ID


def test_another_partition_is_refused(quorum: Quorum) -> None:
    replica = leader(quorum)
    request = vote_request(replica)
    request.topics[0].topic_name = "other"
    assert ask(replica, request, 2).error_code == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize("version", versions(ApiKey.BEGIN_QUORUM_EPOCH))
def test_the_leader_of_an_older_epoch_is_fenced(quorum: Quorum, version: int) -> None:
    replica = leader(quorum)
    part = begin_epoch.PartitionData(leader_id=2, leader_epoch=0)
    topic = begin_epoch.TopicData(topic_name=METADATA_TOPIC, partitions=[part])
    request = begin_epoch.BeginQuorumEpochRequest(cluster_id=CLUSTER, topics=[topic])
    answer = ask(replica, request, version).topics[0].partitions[0]
    assert answer.error_code == ErrorCode.FENCED_LEADER_EPOCH
    assert answer.leader_id == replica.node_id


@pytest.mark.parametrize("version", versions(ApiKey.END_QUORUM_EPOCH))
def test_an_end_of_an_older_epoch_is_fenced(quorum: Quorum, version: int) -> None:
    replica = leader(quorum)
    part = end_epoch.PartitionData(leader_id=2, leader_epoch=0)
    topic = end_epoch.TopicData(topic_name=METADATA_TOPIC, partitions=[part])
    request = end_epoch.EndQuorumEpochRequest(cluster_id=CLUSTER, topics=[topic])
    answer = ask(replica, request, version).topics[0].partitions[0]
    assert answer.error_code == ErrorCode.FENCED_LEADER_EPOCH


def fetch_request(replica: RaftNode, version: int, **fields: Any) -> fetch.FetchRequest:
    where = {"current_leader_epoch": replica.epoch, "partition_max_bytes": 10_000, **fields}
    part = fetch.FetchPartition(**where)
    topic = fetch.FetchTopic(partitions=[part])
    if version < 13:
        topic.topic = METADATA_TOPIC
    else:
        topic.topic_id = METADATA_TOPIC_ID
    request = fetch.FetchRequest(topics=[topic], max_wait_ms=0)
    if version >= 12:
        request.cluster_id = CLUSTER
    if version < 15:
        request.replica_id = 77
    else:
        request.replica_state = fetch.ReplicaState(replica_id=77)
    if version < 12:
        part.last_fetched_epoch = -1
    return request


@pytest.mark.parametrize("version", [v for v in versions(ApiKey.FETCH) if v >= 12])
def test_a_replica_reads_the_log_from_its_beginning(quorum: Quorum, version: int) -> None:
    replica = leader(quorum)
    request = fetch_request(replica, version, fetch_offset=0, last_fetched_epoch=0)
    answer = ask(replica, request, version)
    [part] = answer.responses[0].partitions
    assert part.error_code == ErrorCode.NONE
    assert part.high_watermark == replica.high_watermark
    assert len(part.records) == sum(s.size for s in replica._log._log.segments)  # type: ignore[attr-defined]
    assert part.current_leader.leader_id == replica.node_id


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"fetch_offset": -1, "last_fetched_epoch": 0}, ErrorCode.INVALID_REQUEST),
        ({"fetch_offset": 0, "last_fetched_epoch": 99}, ErrorCode.INVALID_REQUEST),
        (
            {"fetch_offset": 0, "last_fetched_epoch": 0, "current_leader_epoch": 99},
            ErrorCode.UNKNOWN_LEADER_EPOCH,
        ),
        (
            {"fetch_offset": 0, "last_fetched_epoch": 0, "current_leader_epoch": 0},
            ErrorCode.FENCED_LEADER_EPOCH,
        ),
    ],
)
def test_a_senseless_fetch_is_refused(
    quorum: Quorum, fields: dict[str, int], error: ErrorCode
) -> None:
    replica = leader(quorum)
    answer = ask(replica, fetch_request(replica, 18, **fields), 18)
    assert answer.responses[0].partitions[0].error_code == error


@pytest.mark.parametrize("version", [v for v in versions(ApiKey.FETCH) if v >= 12])
def test_a_follower_says_from_version_17_on_where_the_leader_is(
    quorum: Quorum, version: int
) -> None:
    follower = next(n for n in quorum.up() if n is not quorum.elect()).replica
    assert follower is not None
    request = fetch_request(follower, version, fetch_offset=0, last_fetched_epoch=0)
    answer = ask(follower, request, version)
    [part] = answer.responses[0].partitions
    assert part.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert part.log_start_offset == 0
    assert part.current_leader.leader_id == leader(quorum).node_id
    assert len(answer.node_endpoints) == (1 if version >= 17 else 0)


def test_a_replica_that_fetched_nothing_of_the_log_is_no_observer() -> None:
    quorum = Quorum()
    quorum.start()
    quorum.commit(b"1")
    replica = leader(quorum)

    def observers(offset: int, epoch: int) -> list[int]:
        fields = {"fetch_offset": offset, "last_fetched_epoch": epoch}
        ask(replica, fetch_request(replica, 18, **fields), 18)
        [part] = ask(replica, describe_request(), 2).topics[0].partitions
        return [observer.replica_id for observer in part.observers]

    assert observers(1_000, replica.epoch) == []
    assert observers(0, 0) == [77]
    assert observers(1_000, replica.epoch) == [77]


def test_a_diverging_log_learns_where(quorum: Quorum) -> None:
    replica = leader(quorum)
    fields = {"fetch_offset": 1_000, "last_fetched_epoch": replica.epoch}
    [part] = ask(replica, fetch_request(replica, 18, **fields), 18).responses[0].partitions
    assert (part.diverging_epoch.epoch, part.diverging_epoch.end_offset) == (
        replica.epoch,
        replica.log_end_offset,
    )


def test_a_fetch_that_finds_nothing_new_waits(quorum: Quorum) -> None:
    replica = leader(quorum)
    request = fetch_request(
        replica,
        17,
        fetch_offset=replica.log_end_offset,
        last_fetched_epoch=replica.epoch,
    )
    request.max_wait_ms = 100
    module: Any = handlers.HANDLERS[0]
    ctx = RequestContext(api_key=ApiKey.FETCH, api_version=17)
    read = decode(module.API.request, 17, encode_bytes(request, 17))
    parked = module.handle(read, ctx, replica)
    assert isinstance(parked, Parked) and not parked.done
    assert quorum.run_until(lambda: parked.done) == pytest.approx(100, abs=5)


@pytest.mark.parametrize("version", versions(ApiKey.FETCH_SNAPSHOT))
def test_a_snapshot_that_is_not_there_is_not_found(quorum: Quorum, version: int) -> None:
    replica = leader(quorum)
    part = fetch_snapshot.PartitionSnapshot(
        current_leader_epoch=replica.epoch,
        snapshot_id=fetch_snapshot.SnapshotId(end_offset=5, epoch=1),
    )
    topic = fetch_snapshot.TopicSnapshot(name=METADATA_TOPIC, partitions=[part])
    request = fetch_snapshot.FetchSnapshotRequest(cluster_id=CLUSTER, topics=[topic])
    answer = ask(replica, request, version).topics[0].partitions[0]
    assert answer.error_code == ErrorCode.SNAPSHOT_NOT_FOUND


def describe_request() -> describe.DescribeQuorumRequest:
    part = describe.PartitionData(partition_index=0)
    topic = describe.TopicData(topic_name=METADATA_TOPIC, partitions=[part])
    return describe.DescribeQuorumRequest(topics=[topic])


@pytest.mark.parametrize("version", versions(ApiKey.DESCRIBE_QUORUM))
def test_the_quorum_is_described_by_its_leader(quorum: Quorum, version: int) -> None:
    replica = leader(quorum)
    answer = ask(replica, describe_request(), version)
    [part] = answer.topics[0].partitions
    assert part.leader_id == replica.node_id
    assert [voter.replica_id for voter in part.current_voters] == [1, 2, 3]
    assert {v.log_end_offset for v in part.current_voters} == {replica.log_end_offset}
    if version >= 1:
        assert all(v.last_caught_up_timestamp > 0 for v in part.current_voters)
    if version >= 2:
        assert [n.node_id for n in answer.nodes] == [1, 2, 3]


def test_another_partition_is_not_described(quorum: Quorum) -> None:
    request = describe_request()
    request.topics[0].partitions[0].partition_index = 1
    [part] = ask(leader(quorum), request, 2).topics[0].partitions
    assert part.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert "__cluster_metadata-0" in part.error_message


def test_voters_of_another_cluster_are_refused_with_a_sentence(quorum: Quorum) -> None:
    for request in (
        AddRaftVoterRequest(cluster_id="another", voter_id=4),
        RemoveRaftVoterRequest(cluster_id="another", voter_id=4),
    ):
        answer = ask(leader(quorum), request, 0)
        assert answer.error_code == ErrorCode.INCONSISTENT_CLUSTER_ID
        assert "another" in answer.error_message and CLUSTER in answer.error_message


@pytest.mark.parametrize("version", versions(ApiKey.DESCRIBE_QUORUM))
def test_a_follower_does_not_describe(quorum: Quorum, version: int) -> None:
    follower = next(n for n in quorum.up() if n is not quorum.elect())
    assert follower.replica is not None
    answer = ask(follower.replica, describe_request(), version)
    assert answer.error_code == ErrorCode.NONE and answer.topics[0].topic_name == METADATA_TOPIC
    [part] = answer.topics[0].partitions
    assert part.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


@pytest.mark.parametrize("max_bytes", [-1, 0, 2**31 - 1])
def test_an_absurd_size_is_bounded(quorum: Quorum, max_bytes: int) -> None:
    replica = leader(quorum)
    request = fetch_request(
        replica, 18, fetch_offset=0, last_fetched_epoch=0, partition_max_bytes=max_bytes
    )
    [part] = ask(replica, request, 18).responses[0].partitions
    assert part.error_code == ErrorCode.NONE and len(part.records) > 0


def test_observers_without_number_are_not_remembered(
    quorum: Quorum, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "OBSERVERS_MAX", 20)
    replica = leader(quorum)
    state = replica.machine.state
    assert isinstance(state, Leader)
    for number in range(100, 200):
        request = fetch_request(replica, 18, fetch_offset=0, last_fetched_epoch=0)
        request.replica_state.replica_id = number
        ask(replica, request, 18)
    assert len(state.progress_table.observers) <= 20


def begin_request(replica: RaftNode, epoch: int) -> begin_epoch.BeginQuorumEpochRequest:
    part = begin_epoch.PartitionData(leader_epoch=epoch, leader_id=9)
    topic = begin_epoch.TopicData(topic_name=METADATA_TOPIC, partitions=[part])
    return begin_epoch.BeginQuorumEpochRequest(cluster_id=CLUSTER, topics=[topic])


def end_request(replica: RaftNode, epoch: int) -> end_epoch.EndQuorumEpochRequest:
    part = end_epoch.PartitionData(leader_epoch=epoch, leader_id=9)
    topic = end_epoch.TopicData(topic_name=METADATA_TOPIC, partitions=[part])
    return end_epoch.EndQuorumEpochRequest(cluster_id=CLUSTER, topics=[topic])


def test_absurd_epochs_are_refused_and_stall_no_quorum() -> None:
    quorum = Quorum()
    quorum.start()
    first = leader(quorum).epoch
    for node in quorum.nodes.values():
        replica = node.replica
        assert replica is not None
        for epoch in (2**31 - 1, 2**31 - 2, 2**30, replica.epoch + (1 << 24) + 1):
            requests = (
                vote_request(replica),
                begin_request(replica, epoch),
                end_request(replica, epoch),
            )
            requests[0].topics[0].partitions[0].replica_epoch = epoch
            for request in requests:
                [part] = ask(replica, request, 1).topics[0].partitions
                assert part.error_code == ErrorCode.INVALID_REQUEST
                assert part.leader_epoch == replica.epoch == first
    quorum.commit(b"1")
    assert leader(quorum).epoch == first


def test_an_epoch_that_is_far_ahead_leaves_room_for_elections() -> None:
    quorum = Quorum()
    quorum.start()
    replica = leader(quorum)
    epoch = replica.epoch + (1 << 24)
    request = vote_request(replica)
    request.topics[0].partitions[0].replica_epoch = epoch
    ctx = RequestContext(api_key=request.API_KEY, api_version=2)
    handlers.vote.handle(request, ctx, replica)  # answered when the epoch is durable
    quorum.settle()
    assert leader(quorum).epoch >= epoch
    quorum.commit(b"1")
