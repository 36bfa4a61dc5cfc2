"""Quorum mathematics, the log's shape, voter sets, quorum-state: values and functions of values."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.raft.core.election_state import ElectionState, QuorumStateError
from barnabas.raft.core.log_metadata import FetchFit, LogMetadata
from barnabas.raft.core.quorum_math import Tally, high_watermark, majority
from barnabas.raft.core.voters import ReplicaKey, VoterHistory, VoterNode, VoterSet
from barnabas.raft.state_machine import OffsetAndEpoch
from barnabas.types import Endpoint, Uuid

DIRECTORY = Uuid(b"directory of one")


# -- quorum mathematics --------------------------------------------------------------------------


@pytest.mark.slow
@given(st.lists(st.integers(-1, 50), min_size=1, max_size=7), st.integers(0, 50))
def test_a_majority_has_what_is_committed(ends: list[int], start: int) -> None:
    offset = high_watermark(ends, start, -1)
    if offset >= 0:
        assert sum(end >= offset for end in ends) >= majority(len(ends))
        assert offset > start


@pytest.mark.slow
@given(st.lists(st.integers(-1, 50), min_size=1, max_size=7), st.integers(-1, 50))
def test_the_high_watermark_never_goes_back(ends: list[int], present: int) -> None:
    assert high_watermark(ends, 0, present) >= present


@pytest.mark.slow
@given(
    st.sets(st.integers(1, 7), min_size=1), st.lists(st.tuples(st.integers(1, 9), st.booleans()))
)
def test_an_election_is_not_both_won_and_lost(
    voters: set[int], votes: list[tuple[int, bool]]
) -> None:
    tally = Tally(frozenset(voters))
    for voter, granted in votes:
        tally = tally.with_vote(voter, granted)
        assert not (tally.granted & tally.rejected)
        assert not (tally.is_won and tally.is_lost)
    assert tally.granted | tally.rejected | set(tally.open) == voters


# -- the shape of a log --------------------------------------------------------------------------

Runs = st.lists(st.tuples(st.integers(1, 3), st.integers(1, 4)), max_size=5)


def build(runs: list[tuple[int, int]]) -> LogMetadata:
    shape, epoch = LogMetadata(), 0
    for step, count in runs:
        epoch += step
        shape.append(shape.end_offset, shape.end_offset + count, epoch)
    return shape


def records(shape: LogMetadata) -> list[int]:
    """The epoch of each record."""
    return [shape.epoch_before(offset + 1) for offset in range(shape.end_offset)]


@pytest.mark.slow
@given(Runs, Runs, Runs)
def test_a_follower_that_truncates_at_the_diverging_epoch_matches(
    shared: list[tuple[int, int]], own: list[tuple[int, int]], other: list[tuple[int, int]]
) -> None:
    leader, follower = build(shared + own), build(shared + other)
    for _ in range(20):
        verdict = leader.check(follower.end_offset, follower.last_epoch)
        if verdict.fit is FetchFit.VALID:
            break
        assert verdict.at is not None
        before = follower.end_offset
        follower.truncate_to(follower.truncation_point(verdict.at))
        assert follower.end_offset < before
    else:
        raise AssertionError("it never stops truncating")
    end = follower.end_offset
    common = len(records(build(shared)))
    # Two logs that agree on (epoch, end) agree on all before only where one leader wrote each epoch;
    # what was shared is never cut.
    assert end >= min(common, leader.end_offset)


@pytest.mark.slow
@given(Runs, st.integers(0, 20))
def test_truncating_keeps_the_records_before_it(runs: list[tuple[int, int]], offset: int) -> None:
    shape = build(runs)
    before = records(shape)
    offset = min(offset, shape.end_offset)
    shape.truncate_to(offset)
    assert records(shape) == before[:offset]


def test_a_position_before_the_log_gets_a_snapshot() -> None:
    shape = build([(1, 10)])
    snapshot = OffsetAndEpoch(6, 1)
    shape.snapshot_added(snapshot)
    shape.advance_start(6, snapshot)
    assert shape.check(0, 0).fit is FetchFit.SNAPSHOT
    assert shape.check(3, 1).at == snapshot
    assert shape.check(6, 1).fit is FetchFit.VALID
    assert shape.check(10, 1).fit is FetchFit.VALID


def test_a_log_that_begins_below_its_snapshots_holds_older_epochs() -> None:
    shape = LogMetadata(17, 17, [], OffsetAndEpoch(25, 1), OffsetAndEpoch(35, 3))
    shape.append(17, 30, 1)
    shape.append(30, 40, 3)
    assert shape.epochs == [(1, 17), (3, 30)]
    assert shape.epoch_before(17) == 0
    assert shape.epoch_before(31) == 3


def test_an_append_must_follow() -> None:
    shape = build([(2, 3)])
    with pytest.raises(ValueError):
        shape.append(4, 5, 2)
    with pytest.raises(ValueError):
        shape.append(3, 4, 1)


# -- voters --------------------------------------------------------------------------------------


def node(number: int, directory: Uuid = DIRECTORY) -> VoterNode:
    key = ReplicaKey(number, directory)
    return VoterNode(key, {"CONTROLLER": Endpoint(f"n{number}", 1)}, (0, 1))


def test_a_voter_set_is_what_its_record_says() -> None:
    voters = VoterSet.of(node(2), node(1))
    assert VoterSet.from_record(voters.to_record()) == voters
    assert list(voters) == [1, 2]


def test_another_directory_is_another_replica() -> None:
    voters = VoterSet.of(node(1))
    assert ReplicaKey(1, DIRECTORY) in voters
    assert ReplicaKey(1, Uuid(b"another one.....")) not in voters
    static = VoterSet.static({1: Endpoint("n1", 1)}, "CONTROLLER")
    assert ReplicaKey(1, DIRECTORY) in static


def test_truncation_takes_a_voter_set_back() -> None:
    history = VoterHistory(VoterSet.of())
    history.add_voters(5, VoterSet.of(node(1)))
    history.add_voters(9, VoterSet.of(node(1), node(2)))
    history.truncate_to(9)
    assert list(history.voters) == [1]
    history.truncate_to(0)
    assert list(history.voters) == []


def test_a_voter_that_removed_itself_may_stand_until_that_is_committed() -> None:
    history = VoterHistory(VoterSet.of(node(1), node(2)))
    history.add_voters(7, VoterSet.of(node(2)))
    removed = ReplicaKey(1, DIRECTORY)
    assert history.may_stand(removed, high_watermark=7)
    assert not history.may_stand(removed, high_watermark=8)


# -- quorum-state --------------------------------------------------------------------------------


@pytest.mark.parametrize("kraft_version", [0, 1])
def test_quorum_state_is_read_as_it_was_written(kraft_version: int) -> None:
    voted = ReplicaKey(3, DIRECTORY) if kraft_version else ReplicaKey(3)
    state = ElectionState(7, -1, voted)
    assert ElectionState.from_json(state.to_json(kraft_version, [1, 2, 3])) == state


def test_kafkas_own_file_is_understood() -> None:
    text = (
        '{"clusterId":"","leaderId":3,"leaderEpoch":2,"votedId":-1,"appliedOffset":0,'
        '"currentVoters":[{"voterId":1}],"data_version":0}'
    )
    assert ElectionState.from_json(text.encode()) == ElectionState(2, 3, None)


@pytest.mark.parametrize("data", [b"", b"{}", b"[]", b'{"data_version":2}', b"\xff", b"null"])
def test_a_malformed_quorum_state_is_refused(data: bytes) -> None:
    with pytest.raises(QuorumStateError):
        ElectionState.from_json(data)


def test_version_0_has_kafkas_fields() -> None:
    fields = json.loads(ElectionState(2, 3, None).to_json(0, [1]))
    assert list(fields) == [
        "clusterId",
        "leaderId",
        "leaderEpoch",
        "votedId",
        "appliedOffset",
        "currentVoters",
        "data_version",
    ]
