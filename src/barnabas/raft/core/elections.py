"""Voting and candidacy: pre-vote, vote, and the news of who leads.

*Pre-vote* (KIP-996) asks with the present epoch and binds no voter: a replica that heard from a living
leader denies it, so that a returning or slow node disturbs nothing. That is why a replica may try it
soon and often: at its start, and after a random wait of at most 50 ms when the leader's process is
seen to be gone. Only a *vote* raises the epoch and is durable on both sides before it is spoken of.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.raft.core import leading
from barnabas.raft.core.election_state import NO_LEADER, ElectionState
from barnabas.raft.core.inflight import Pending
from barnabas.raft.core.messages import (
    BeginEpochRequest,
    BeginEpochResponse,
    EndEpochRequest,
    EndEpochResponse,
    VoteRequest,
    VoteResponse,
)
from barnabas.raft.core.quorum_math import Tally
from barnabas.raft.core.states import (
    Candidate,
    Follower,
    Leader,
    Observer,
    Prospective,
    Resigned,
    State,
    Unattached,
    Voted,
)
from barnabas.raft.core.voters import ReplicaKey
from barnabas.wire.errors import ErrorCode

if TYPE_CHECKING:
    from barnabas.raft.core.machine import Machine

EPOCHS_AHEAD_MAX = 1 << 24
"""How far the epoch of a request may be ahead: half a year of elections, one a second. A broken or hostile
sender cannot take the quorum to the last epoch there is, 2**31 - 1, after which no election is possible."""


def first_state(m: Machine, saved: ElectionState) -> State:
    """The state after a start, from what was persisted and from the log.

    A leader or candidate does not resume its role after a restart: the role is over for this epoch. A
    former leader starts as Resigned, as in Kafka.
    """
    soon = m.backoff(0)
    epoch = max(saved.epoch, m.log.last_epoch)
    if epoch > saved.epoch:
        saved = ElectionState(epoch)
    if not m.is_voter:
        leader = saved.leader_id if saved.leader_id != m.me.id else NO_LEADER
        return Observer(epoch, soon, leader_id=leader, voted=saved.voted)
    if saved.leader_id == m.me.id:
        return Resigned(epoch, soon, m.me, notified=frozenset(m.voters))
    if saved.voted is not None and saved.leader_id == NO_LEADER:
        return Voted(epoch, soon, saved.voted)
    endpoint = m.voters.endpoint(saved.leader_id, m.settings.listener_name)
    if saved.leader_id != NO_LEADER and endpoint is not None:
        return Follower(epoch, soon, saved.leader_id, endpoint, voted=saved.voted)
    return Unattached(epoch, soon, saved.leader_id)


# -- answering -----------------------------------------------------------------------------------


def on_vote_request(m: Machine, ticket: int, request: VoteRequest) -> None:
    error = _check_vote(m, request)
    granted = False
    if error is ErrorCode.NONE:
        if request.epoch > m.epoch:
            m.newer_epoch(request.epoch)
        if request.voter is not None and not request.voter.matches(m.me):
            error = ErrorCode.INVALID_VOTER_KEY  # the epoch is known all the same
    if error is ErrorCode.NONE:
        complete = m.log.is_behind(request.last)
        if request.pre_vote:
            granted = complete and _grants_pre_vote(m.state)
        else:
            granted = _grants_vote(m.state, request.candidate, complete)
            if granted:
                _record_vote(m, request.candidate)
    leader = m.leader_for(request.candidate.id)
    m.reply(ticket, VoteResponse(error, m.epoch, *leader, granted))


def _check_vote(m: Machine, request: VoteRequest) -> ErrorCode:
    last, epoch = request.last, request.epoch
    if last.offset < 0 or last.epoch < 0 or last.epoch > epoch - (not request.pre_vote):
        return ErrorCode.INVALID_REQUEST
    return check_from_voter(m, request.candidate.id, epoch)


def check_from_voter(m: Machine, node_id: int, epoch: int) -> ErrorCode:
    """Check the sender of Vote, BeginQuorumEpoch or EndQuorumEpoch. It need not be a voter: the sender
    may know a newer voter set than this replica."""
    if epoch < m.epoch:
        return ErrorCode.FENCED_LEADER_EPOCH
    if node_id < 0 or epoch > m.epoch + EPOCHS_AHEAD_MAX:
        return ErrorCode.INVALID_REQUEST
    return ErrorCode.NONE


def _grants_pre_vote(state: State) -> bool:
    match state:
        case Leader():
            return False
        case Follower(has_fetched=fetched):
            return not fetched
        case Observer(leader_endpoint=endpoint, has_fetched=fetched):
            return endpoint is None or not fetched
        case _:
            return True


def _grants_vote(state: State, candidate: ReplicaKey, complete: bool) -> bool:
    match state:
        case Voted(voted=voted):
            return voted.admits(candidate)
        case Unattached(leader_id=leader):
            return complete and leader == NO_LEADER
        case Prospective(leader_id=leader, voted=voted) | Observer(leader_id=leader, voted=voted):
            if voted is not None:
                return leader == NO_LEADER and voted.admits(candidate)
            return complete and leader == NO_LEADER
        case _:
            return False


def _record_vote(m: Machine, candidate: ReplicaKey) -> None:
    state = m.state
    if isinstance(state, Observer):
        m.update_state(state.with_vote(state.voted or candidate))
    elif isinstance(state, (Unattached, Prospective)):
        voted = state.voted if isinstance(state, Prospective) and state.voted else candidate
        m.become(state.to_voted(voted, m.election_timeout()))


def on_begin_epoch(m: Machine, ticket: int, request: BeginEpochRequest) -> None:
    error = check_from_voter(m, request.leader_id, request.epoch)
    if error is ErrorCode.NONE:
        # A request with another voter key comes from a leader that knows another incarnation of this id.
        if request.voter is not None and not request.voter.matches(m.me):
            error = ErrorCode.INVALID_VOTER_KEY
        endpoint = request.leader_endpoints.get(m.settings.listener_name)
        if m.lost_leader == (request.epoch, request.leader_id):
            m.lost_leader = (-1, NO_LEADER)
        m.on_epoch(request.epoch, request.leader_id, endpoint)
        state = m.state
        if isinstance(state, (Follower, Observer)) and state.leader_id == request.leader_id:
            if endpoint is not None and state.leader_endpoint != endpoint:
                m.update_state(state.at_endpoint(endpoint))
    m.reply(ticket, BeginEpochResponse(error, m.epoch, *m.leader_for()))


def on_end_epoch(m: Machine, ticket: int, request: EndEpochRequest) -> None:
    error = check_from_voter(m, request.leader_id, request.epoch)
    if error is ErrorCode.NONE:
        endpoint = request.leader_endpoints.get(m.settings.listener_name)
        m.on_epoch(request.epoch, request.leader_id, endpoint)
        state = m.state
        if isinstance(state, Follower) and state.leader_id == request.leader_id:
            m.update_state(state.dismissed(m.now + _rank_delay(m, request.successors)))
    m.reply(ticket, EndEpochResponse(error, m.epoch, *m.leader_for()))


def _rank_delay(m: Machine, successors: tuple[ReplicaKey, ...]) -> float:
    """How long to wait before the election, by rank: the first successor does not wait, each next one waits
    twice as long, and a voter that is not named waits longest. If no successor is named, no voter waits."""
    last = len(successors)
    rank = next((i for i, key in enumerate(successors) if key.matches(m.me)), last)
    bound = m.settings.election_backoff_ms_max
    if rank == 0:
        return 0.0
    return float(bound if rank == last else min(bound, (bound >> (last - 1)) << (rank - 1)))


# -- standing ------------------------------------------------------------------------------------


def poll_waiting(m: Machine, state: Unattached | Voted) -> None:
    if not m.is_voter:
        m.become(state.to_observer(m.now))
    elif m.now >= state.deadline_ms and not m.leaving:
        start_pre_vote(m, state)


def start_pre_vote(m: Machine, state: Unattached | Voted | Follower | Candidate) -> None:
    """Begin a pre-vote."""
    m.become(state.to_prospective(_own_tally(m), m.election_timeout()))


def _own_tally(m: Machine) -> Tally:
    return Tally(frozenset(m.voters)).with_vote(m.me.id, True)


def poll_nominee(m: Machine, state: Prospective | Candidate) -> None:
    if not m.is_voter:
        m.become(state.to_observer(m.now))
        return
    if m.leaving:
        return
    tally = state.tally
    if tally.is_won:
        if isinstance(state, Prospective):
            m.become(state.to_candidate(m.me, Tally(frozenset(m.voters)), m.election_timeout()))
        else:
            leading.take_over(m, state)
    elif isinstance(state, Candidate) and state.backing_off:
        if m.now >= state.deadline_ms:
            start_pre_vote(m, state)
    elif _round_is_over(m, tally) or m.now >= state.deadline_ms:
        _lose(m, state)
    else:
        _ask_for_votes(m, state)


def _round_is_over(m: Machine, tally: Tally) -> bool:
    """Whether no voter is left that could change the result: each has answered or cannot be reached."""
    return tally.is_lost or all(voter in m.unreachable for voter in tally.open)


def _lose(m: Machine, state: Prospective | Candidate) -> None:
    if isinstance(state, Candidate):
        m.update_state(state.backed_off(m.backoff(state.retries)))
        return
    endpoint = state.leader_endpoint
    gone = m.lost_leader == (state.epoch, state.leader_id)
    if state.tally.is_lost and state.leader_id != NO_LEADER and endpoint is not None and not gone:
        # A majority hears the leader: it is this replica that could not.
        m.follow(state.epoch, state.leader_id, endpoint)
    else:
        m.become(state.to_loser(m.backoff(state.retries)))


def _ask_for_votes(m: Machine, state: Prospective | Candidate) -> None:
    open_voters = set(state.tally.open) - m.unreachable
    for node_id, endpoint in m.other_voters():
        if node_id in open_voters:
            request = VoteRequest(
                state.epoch,
                m.me,
                m.voters.key(node_id),
                m.log.last,
                pre_vote=isinstance(state, Prospective),
            )
            m.send(node_id, endpoint, request)


def on_vote_answer(m: Machine, pending: Pending, response: VoteResponse) -> None:
    if not is_current(m, response.error, response.epoch, response.leader_id):
        m.on_epoch(response.epoch, response.leader_id, response.leader_endpoint)
        return
    request, state = pending.request, m.state
    assert isinstance(request, VoteRequest)
    expected = Prospective if request.pre_vote else Candidate
    if not isinstance(state, expected) or state.epoch != request.epoch:
        return
    if response.error is ErrorCode.UNSUPPORTED_VERSION and request.pre_vote:
        m.update_state(state.counted(pending.node_id, True))
    elif response.error is not ErrorCode.NONE:
        on_vote_failed(m, pending, False)
    else:
        m.update_state(state.counted(pending.node_id, response.granted))
        if not response.granted and response.leader_id not in (NO_LEADER, m.me.id):
            _heed_leader(m, response)


def _heed_leader(m: Machine, response: VoteResponse) -> None:
    """A voter that denies the vote names a leader of the same epoch: follow it where this replica knew
    none. (A candidate that knew the leader may be right that it is gone: a majority decides.)"""
    state = m.state
    if isinstance(state, (Prospective, Candidate)) and state.epoch == response.epoch:
        if not isinstance(state, Prospective) or state.leader_endpoint is None:
            m.on_epoch(response.epoch, response.leader_id, response.leader_endpoint)


def on_vote_failed(m: Machine, pending: Pending, unsupported: bool) -> None:
    """No answer. A peer that does not know pre-votes counts as granting (KIP-996)."""
    state = m.state
    if not isinstance(state, (Prospective, Candidate)):
        return
    if unsupported and isinstance(state, Prospective):
        m.update_state(state.counted(pending.node_id, True))
    else:
        m.unreachable.add(pending.node_id)


def is_current(m: Machine, error: ErrorCode, epoch: int, leader_id: int) -> bool:
    """Whether a response is about this epoch; otherwise what it says of epochs is all it says."""
    if error in (ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.NOT_LEADER_OR_FOLLOWER):
        return False
    return epoch == m.epoch and error is not ErrorCode.UNKNOWN_LEADER_EPOCH
