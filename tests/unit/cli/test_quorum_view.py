"""Lag, roles and times as ``barnabas quorum describe`` tells them."""

from __future__ import annotations

from barnabas.cli.reports.quorum_view import metrics_of, view_of
from barnabas.types import ZERO_UUID, Uuid, uuid_text
from barnabas.wire.messages.describe_quorum_response import (
    DescribeQuorumResponse,
    Listener,
    Node,
    PartitionData,
    QuorumMetric,
    ReplicaState,
    TopicData,
)

ONE, TWO, THREE = (Uuid(bytes([n]) * 16) for n in (1, 2, 3))


def replica(node: int, directory: Uuid, end: int, caught_up: int = -1) -> ReplicaState:
    return ReplicaState(
        replica_id=node,
        replica_directory_id=directory,
        log_end_offset=end,
        last_fetch_timestamp=1_000,
        last_caught_up_timestamp=caught_up,
    )


def response(
    voters: list[ReplicaState], observers: list[ReplicaState], leader: int = 1
) -> DescribeQuorumResponse:
    part = PartitionData(
        leader_id=leader,
        leader_epoch=7,
        high_watermark=90,
        current_voters=voters,
        observers=observers,
    )
    return DescribeQuorumResponse(
        topics=[TopicData(topic_name="__cluster_metadata", partitions=[part])],
        nodes=[
            Node(node_id=1, listeners=[Listener(name="CONTROLLER", host="localhost", port=9093)])
        ],
    )


def test_lag_and_status_of_each() -> None:
    view = view_of(
        response(
            [replica(2, TWO, 80, 400), replica(1, ONE, 100, 1_000)],
            [replica(9, ZERO_UUID, -1)],
        ),
        "c",
    )
    assert [(r.node_id, r.lag, r.status) for r in view.replicas] == [
        (1, 0, "Leader"),
        (2, 20, "Follower"),
        (9, 100, "Observer"),
    ]
    assert (view.max_follower_lag, view.max_follower_lag_time_ms) == (20, 600)
    assert view.voters[0].endpoints == ("CONTROLLER://localhost:9093",)
    assert view.observers[0].directory_id is None
    assert ("LeaderEpoch", "7") in view.status()
    assert (
        "CurrentVoters",
        f"1, directory {uuid_text(ONE)}, CONTROLLER://localhost:9093",
    ) in view.status()


def test_static_voters_have_no_directories_and_the_silent_do_not_follow() -> None:
    static = view_of(response([replica(1, ZERO_UUID, 9), replica(2, ZERO_UUID, 9)], []), "c")
    assert static.is_static
    silent = replica(3, THREE, 5)
    silent.last_fetch_timestamp = -1
    leader = replica(1, ONE, 9)
    leader.last_fetch_timestamp = 100_000
    dynamic = view_of(response([leader, replica(2, TWO, 9), silent], []), "c")
    assert not dynamic.is_static and dynamic.following() == {1}


def test_no_replica_lags() -> None:
    view = view_of(response([replica(1, ONE, 100, 1_000), replica(2, TWO, 100)], []), "c")
    assert (view.max_follower_lag, view.max_follower_lag_time_ms) == (0, 0)
    assert ("CurrentObservers", "none") in view.status()


def test_a_voter_that_was_never_caught_up_has_no_lag_time() -> None:
    view = view_of(response([replica(1, ONE, 100, 1_000), replica(2, TWO, 5)], []), "c")
    assert (view.max_follower_lag, view.max_follower_lag_time_ms) == (95, -1)


def test_a_leader_that_removed_itself_is_no_voter() -> None:
    view = view_of(response([replica(2, TWO, 85), replica(3, THREE, 90)], []), "c")
    assert [r.lag for r in view.voters] == [5, 0]
    assert view.max_follower_lag_time_ms == -1


def test_metrics_are_numbers_where_they_can_be() -> None:
    told = DescribeQuorumResponse(
        metrics=[
            QuorumMetric(name="current-state", value="leader"),
            QuorumMetric(name="current-epoch", value="7"),
            QuorumMetric(name="commit-latency-avg", value="0.5"),
        ]
    )
    assert metrics_of(told) == {
        "current-state": "leader",
        "current-epoch": 7,
        "commit-latency-avg": 0.5,
    }
