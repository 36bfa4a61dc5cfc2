"""The leader: appends, answers fetches, advances the high watermark, resigns.

Appended records can be fetched at once, before they are durable here. They are committed when a majority of
voters has them on disk (this leader counts as far as it is synced), together with a record of the leader's
own epoch. A leader resigns if no majority fetches from it any more (check-quorum). Source: KIP-595, KIP-835,
KIP-1166; Kafka's ``LeaderState``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.raft.core import effects as do
from barnabas.raft.core import events as on
from barnabas.raft.core import membership_change
from barnabas.raft.core.batches import ControlRecord
from barnabas.raft.core.inflight import Pending
from barnabas.raft.core.log_metadata import FetchCheck, FetchFit
from barnabas.raft.core.messages import (
    BeginEpochRequest,
    BeginEpochResponse,
    DescribeRequest,
    DescribeResponse,
    EndEpochRequest,
    EndEpochResponse,
    FetchRequest,
    FetchResponse,
    ReadLog,
    ReadSnapshot,
    SnapshotRequest,
    SnapshotResponse,
)
from barnabas.raft.core.progress import PendingFetch, ReplicaProgressTable
from barnabas.raft.core.states import Candidate, Leader, Resigned
from barnabas.raft.state_machine import OffsetAndEpoch
from barnabas.record.builder import ControlType
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.leader_change_message import LeaderChangeMessage, Voter

if TYPE_CHECKING:
    from barnabas.raft.core.machine import Machine


FETCH_BYTES_MAX = 8 * 1024 * 1024
"""Bytes of one answer at most, as in Kafka."""
WAIT_MS_MAX = 30_000
"""Time that a fetch waits for records at most."""

BEGIN_RETRY_MS = 50
"""Wait before BeginQuorumEpoch is tried again for a voter to which it cannot be sent now."""


class NotLeadingError(Exception):
    """A proposal reached a replica that does not lead."""


# -- becoming and ceasing to be ------------------------------------------------------------------


def take_over(m: Machine, state: Candidate) -> None:
    """Become leader and append the LeaderChange record; earlier records commit together with it."""
    table = ReplicaProgressTable(m.me, m.voters, m.settings.fetch_timeout_ms, m.now)
    leader = state.to_leader(table, m.log.end_offset)
    m.become(leader)
    controls: list[ControlRecord] = [(ControlType.LEADER_CHANGE, _announcement(m, leader))]
    controls += membership_change.start_of_epoch_records(m)
    append_control(m, controls)


def _announcement(m: Machine, leader: Leader) -> LeaderChangeMessage:
    """The LeaderChange record, always in version 0: Apache Kafka reads no other."""
    return LeaderChangeMessage(
        leader_id=m.me.id,
        voters=[Voter(voter_id=node) for node in m.voters],
        granting_voters=[Voter(voter_id=node) for node in sorted(leader.granting)],
    )


def left(m: Machine, leader: Leader) -> None:
    """Leadership ended: answer the waiting fetches with NOT_LEADER_OR_FOLLOWER, so that their senders look
    for the new leader, and abandon a voter change."""
    for pending in list(leader.progress_table.pending.values()):
        m.reply(
            pending.ticket, _error(m, ErrorCode.NOT_LEADER_OR_FOLLOWER, pending.request.replica.id)
        )
    leader.progress_table.pending.clear()
    membership_change.abandon_change(m)


def on_resign(m: Machine, event: on.Resign) -> None:
    m.leaving = m.leaving or event.for_good
    if isinstance(m.state, Leader):
        resign(m, m.state)


def resign(m: Machine, state: Leader) -> None:
    successors = state.progress_table.successors()
    m.become(state.to_resigned(successors, m.election_timeout()))


def poll_resigned(m: Machine, state: Resigned) -> None:
    """Send EndQuorumEpoch to the voters; after an election time-out become unattached in the next epoch."""
    if m.now >= state.deadline_ms and not m.leaving:
        m.newer_epoch(state.epoch + 1)
        return
    for node_id, endpoint in m.other_voters():
        if node_id not in state.notified:
            request = EndEpochRequest(state.epoch, m.me.id, state.successors, m.settings.listeners)
            m.send(node_id, endpoint, request)


def on_end_answer(m: Machine, pending: Pending, response: EndEpochResponse) -> None:
    m.on_epoch(response.epoch, response.leader_id, response.leader_endpoint)
    if isinstance(m.state, Resigned):
        m.update_state(m.state.acknowledged(pending.node_id))


def on_end_failed(m: Machine, pending: Pending) -> None:
    """A leader that shuts down does not wait for a voter that it cannot reach: a dead process needs no
    EndQuorumEpoch, and a live one sees this leader's connections close."""
    if m.leaving and isinstance(m.state, Resigned):
        m.update_state(m.state.acknowledged(pending.node_id))


# -- appending -----------------------------------------------------------------------------------


def on_propose(m: Machine, event: on.Propose) -> None:
    """Append a proposed batch. Raises :class:`NotLeadingError`; `RaftNode` checks for leadership first."""
    if not isinstance(m.state, Leader):
        raise NotLeadingError(f"proposal to {m.state}")
    base = m.log.end_offset
    m.log.append(base, base + event.record_count, m.epoch)
    m.out.append(do.Append(event.batch, base))
    _appended(m, m.state)


def append_control(m: Machine, records: list[ControlRecord]) -> int:
    """Append one control batch as the leader. Returns its base offset."""
    assert isinstance(m.state, Leader)
    base = m.log.end_offset
    m.log.append(base, base + len(records), m.epoch)
    m.out.append(do.AppendControl(tuple(records), base, m.epoch))
    changed = membership_change.apply_control(m, records, base)
    _appended(m, m.state)
    if changed:
        m.membership_may_have_changed()
    return base


def _appended(m: Machine, state: Leader) -> None:
    """Answer waiting fetches with the new batch before it is synced here: followers sync it in parallel."""
    pending = state.progress_table.pending
    for ticket in list(pending):
        _answer_fetch(m, state, ticket, pending.pop(ticket).request)
    m.out.append(do.SYNC if m.votes_alone else do.SYNC_AFTER_ANSWERS)


def on_synced(m: Machine, event: on.Synced) -> None:
    log, offset = m.log, event.offset
    if log.synced_offset < offset:
        log.synced_offset = min(offset, log.end_offset)
    state = m.state
    if type(state) is Leader:
        _move_high_watermark(m, state)


def voters_changed(m: Machine, state: Leader) -> None:
    state.progress_table.set_voters(m.voters, m.now)
    _move_high_watermark(m, state)


def _move_high_watermark(m: Machine, state: Leader) -> None:
    before = m.high_watermark
    offset = state.progress_table.high_watermark(m.log.synced_offset, state.start_offset, before)
    if offset == before:
        return
    m.commit(offset)
    _tell_high_watermark_soon(m, state)
    membership_change.on_committed(m, state)


def _tell_high_watermark_soon(m: Machine, state: Leader) -> None:
    """Answer waiting followers with the new high watermark (KIP-1166) on the next tick. The answer then also
    holds what the state machine proposes once it knows the commit: one answer instead of two."""
    if _owes_news(m, state):
        m.out.append(do.TickSoon())


def _known_high_watermark(m: Machine, state: Leader) -> int:
    """The high watermark for answers: -1 before a record of this epoch is committed. The value that this
    replica had as a follower may be lower than one that others received from the former leader, and Apache
    Kafka's replicas exit when a leader's high watermark goes back."""
    offset = m.high_watermark
    return offset if offset > state.start_offset else -1


def _fetches_behind_watermark(m: Machine, state: Leader) -> list[PendingFetch]:
    """Waiting fetches of followers that do not know the current high watermark."""
    pending, known = state.progress_table.pending.values(), _known_high_watermark(m, state)
    return [one for one in pending if one.request.high_watermark < known]


def _owes_news(m: Machine, state: Leader) -> bool:
    """Whether a fetch waits of a follower that does not know the current high watermark."""
    known = _known_high_watermark(m, state)
    for one in state.progress_table.pending.values():  # noqa: SIM110 - asked after each event: no generator
        if one.request.high_watermark < known:
            return True
    return False


def on_tick(m: Machine, event: on.Tick) -> None:
    """Leader: answer waiting followers that do not know the high watermark. Others: after the start, announce
    the leader that the stored election state names."""
    if isinstance(m.state, Leader):
        for pending in _fetches_behind_watermark(m, m.state):
            _answer_pending(m, m.state, pending)
    elif m.announced[1] < 0 and m.leader_endpoint is not None:
        m.tell_leader()


def owes_news(m: Machine) -> bool:
    """Whether the `TickSoon` of an earlier step is still needed."""
    state = m.state
    return type(state) is Leader and _owes_news(m, state)


# -- being fetched from --------------------------------------------------------------------------


def _check_epoch(m: Machine, epoch: int) -> ErrorCode:
    if epoch < m.epoch:
        return ErrorCode.FENCED_LEADER_EPOCH
    if epoch > m.epoch:
        return ErrorCode.UNKNOWN_LEADER_EPOCH
    return ErrorCode.NONE if isinstance(m.state, Leader) else ErrorCode.NOT_LEADER_OR_FOLLOWER


def _error(m: Machine, error: ErrorCode, asker: int) -> FetchResponse:
    start = m.log.start_offset
    return FetchResponse(error, m.epoch, *m.leader_for(asker), log_start_offset=start)


def on_fetch(m: Machine, ticket: int, request: FetchRequest) -> None:
    asker = request.replica.id
    if (
        request.max_wait_ms < 0
        or request.offset < 0
        or request.last_epoch < 0
        or request.last_epoch > request.epoch
    ):
        m.reply(ticket, _error(m, ErrorCode.INVALID_REQUEST, asker))
        return
    state = m.state
    if request.epoch != m.epoch or type(state) is not Leader:
        m.reply(ticket, _error(m, _check_epoch(m, request.epoch), asker))
        return
    if request.replica == m.me:
        m.reply(ticket, _error(m, ErrorCode.INVALID_REQUEST, asker))
        return
    verdict = m.log.check(request.offset, request.last_epoch)
    if request.offset == 0 and asker >= 0:
        verdict = _snapshot_for_empty_log(m.log.latest_snapshot) or verdict
    if verdict.fit is FetchFit.VALID:
        _answer_valid(m, state, ticket, request)
        return
    if asker >= 0:
        state.progress_table.on_contact(request.replica, m.now)
    if verdict.fit is FetchFit.DIVERGING:
        m.reply(ticket, _answer(m, state)._replace(diverging=verdict.at))
    else:
        m.reply(ticket, _answer(m, state)._replace(snapshot=verdict.at))


def _snapshot_for_empty_log(latest: OffsetAndEpoch | None) -> FetchCheck | None:
    """A replica with an empty log loads a snapshot sooner than the whole log. The snapshot at offset 0, which
    names the first voters, is only for its own directory and is never sent."""
    return (
        FetchCheck(FetchFit.SNAPSHOT, latest) if latest is not None and latest.offset > 0 else None
    )


def _answer(m: Machine, state: Leader, records: bytes | ReadLog = b"") -> FetchResponse:
    """A leader's answer to a fetch."""
    return FetchResponse(
        ErrorCode.NONE,
        m.epoch,
        m.me.id,
        m.own_endpoint,
        high_watermark=_known_high_watermark(m, state),
        log_start_offset=m.log.start_offset,
        records=records,
    )


def _answer_valid(m: Machine, state: Leader, ticket: int, request: FetchRequest) -> None:
    table, log, replica = state.progress_table, m.log, request.replica
    if replica.id >= 0:
        # A fetch offset below the high watermark cannot advance it.
        if (
            table.on_fetch(replica, request.offset, log.end_offset, m.now)
            and request.offset > m.high_watermark
        ):
            _move_high_watermark(m, state)
            if m.state is not state:
                m.reply(ticket, _error(m, ErrorCode.NOT_LEADER_OR_FOLLOWER, replica.id))
                return
        if m.change is not None:
            membership_change.on_progress(m, state, replica)
    if log.end_offset > request.offset or request.max_wait_ms == 0:
        _answer_fetch(m, state, ticket, request)
        return
    deadline_ms = m.now + min(request.max_wait_ms, WAIT_MS_MAX)
    table.pending[ticket] = PendingFetch(ticket, request, deadline_ms)
    if deadline_ms < m.next_poll_ms:
        m.next_poll_ms = deadline_ms
    _tell_high_watermark_soon(m, state)


def _answer_pending(m: Machine, state: Leader, pending: PendingFetch) -> None:
    state.progress_table.pending.pop(pending.ticket, None)
    _answer_fetch(m, state, pending.ticket, pending.request)


def _answer_fetch(m: Machine, state: Leader, ticket: int, request: FetchRequest) -> None:
    """Answer with the records from the fetch offset on, if there are any."""
    end = m.log.end_offset
    records: bytes | ReadLog = b""
    if end > request.offset:
        records = ReadLog(request.offset, end, min(request.max_bytes, FETCH_BYTES_MAX))
    m.reply(ticket, _answer(m, state, records))


def on_gone(m: Machine, event: on.Gone) -> None:
    if isinstance(m.state, Leader):
        m.state.progress_table.pending.pop(event.ticket, None)


def on_snapshot_request(m: Machine, ticket: int, request: SnapshotRequest) -> None:
    """Answer with a `ReadSnapshot`; performing it yields the snapshot's size and whether it
    exists."""
    error = _check_epoch(m, request.epoch)
    if error is ErrorCode.NONE and request.max_bytes <= 0:
        error = ErrorCode.INVALID_REQUEST
    state = m.state
    data: bytes | ReadSnapshot = b""
    if error is ErrorCode.NONE and isinstance(state, Leader):
        if request.replica.id >= 0 and request.replica != m.me:
            state.progress_table.on_contact(request.replica, m.now)
        size = min(request.max_bytes, FETCH_BYTES_MAX)
        data = ReadSnapshot(request.snapshot, request.position, size)
    m.reply(
        ticket,
        SnapshotResponse(
            error,
            m.epoch,
            *m.leader_for(request.replica.id),
            snapshot=request.snapshot,
            position=request.position,
            data=data,
        ),
    )


def on_describe(m: Machine, ticket: int, request: DescribeRequest) -> None:
    state = m.state
    if not isinstance(state, Leader):
        m.reply(
            ticket,
            DescribeResponse(
                ErrorCode.NOT_LEADER_OR_FOLLOWER, m.epoch, m.leader_id, m.leader_endpoint
            ),
        )
        return
    voters, observers = state.progress_table.positions(m.log.end_offset, m.now)
    m.reply(
        ticket,
        DescribeResponse(
            ErrorCode.NONE,
            m.epoch,
            m.me.id,
            m.leader_endpoint,
            _known_high_watermark(m, state),
            voters,
            observers,
        ),
    )


# -- while it leads ------------------------------------------------------------------------------


def _begin_interval(m: Machine) -> float:
    return m.settings.fetch_timeout_ms / 2


def poll(m: Machine, state: Leader) -> None:
    table = state.progress_table
    if table.quorum_lost(m.now):
        resign(m, state)
        return
    for pending in list(table.pending.values()):
        if m.now >= pending.deadline_ms:
            _answer_pending(m, state, pending)
    membership_change.poll(m, state)
    for node_id, endpoint in m.other_voters():
        progress = table.voters.get(node_id)
        if progress is None or _knows_leader(m, table, node_id):
            continue
        if progress.acknowledged and m.now - progress.begin_sent_ms < _begin_interval(m):
            continue
        request = BeginEpochRequest(state.epoch, m.me.id, progress.key, m.settings.listeners)
        if m.send(node_id, endpoint, request):
            progress.begin_sent_ms = m.now


def _knows_leader(m: Machine, table: ReplicaProgressTable, node_id: int) -> bool:
    """Whether the voter fetched lately; otherwise the leader sends it BeginQuorumEpoch again."""
    last = table.voters[node_id].last_fetch_ms
    return last is not None and m.now - last < _begin_interval(m)


def on_begin_answer(m: Machine, pending: Pending, response: BeginEpochResponse) -> None:
    m.on_epoch(response.epoch, response.leader_id, response.leader_endpoint)
    state = m.state
    if not isinstance(state, Leader) or response.epoch != state.epoch:
        return
    progress = state.progress_table.voters.get(pending.node_id)
    if response.error is ErrorCode.NONE and progress is not None:
        progress.acknowledged = True
    elif response.error is not ErrorCode.NONE:
        m.inflight.pause(pending, m.now + _begin_interval(m))


def deadline_ms(m: Machine, state: Leader) -> float:
    table, due = state.progress_table, membership_change.deadline_ms(m, state)
    for pending in table.pending.values():
        due = min(due, pending.deadline_ms)
    if len(table.voters) > 1 or m.me.id not in table.voters:
        due = min(due, table.check_deadline_ms)
    interval_ms, soon_ms = _begin_interval(m), m.now + BEGIN_RETRY_MS
    for node_id, progress in table.voters.items():
        if node_id != m.me.id:
            last = max(progress.begin_sent_ms, progress.last_fetch_ms or progress.begin_sent_ms)
            due = min(due, max(last + interval_ms, soon_ms))
    return due
