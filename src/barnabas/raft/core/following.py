"""Replication at a follower or observer: fetches from the leader.

One fetch is in flight at a time. Its offset is the end of the durable log, so the leader may count it
towards the majority. Fetched batches are appended and synced before the next fetch. If the logs diverge, the
leader's answer says where and this replica truncates its log. If the leader's log no longer has the missing
offsets, this replica fetches a snapshot in chunks. Source: KIP-595, KIP-630, KIP-1166.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from barnabas.raft.core import effects as do
from barnabas.raft.core import elections, membership_change
from barnabas.raft.core import events as on
from barnabas.raft.core.batches import control_records, iter_runs
from barnabas.raft.core.election_state import NO_LEADER
from barnabas.raft.core.inflight import Pending
from barnabas.raft.core.messages import (
    FetchRequest,
    FetchResponse,
    ReadLog,
    ReadSnapshot,
    SnapshotRequest,
    SnapshotResponse,
)
from barnabas.raft.core.states import Follower, Following, Leader, Observer, Unattached, Voted
from barnabas.raft.core.voters import ReplicaKey
from barnabas.raft.state_machine import OffsetAndEpoch
from barnabas.record.batch import CorruptBatchError
from barnabas.types import METADATA_TOPIC, Buffer, Endpoint
from barnabas.wire.errors import ErrorCode

if TYPE_CHECKING:
    from barnabas.raft.core.machine import Machine

Fetcher: TypeAlias = Follower | Observer
DEADLINE_STEP = 1 / 64
"""Share of the fetch time-out by which a follower's deadline may lag behind the last answer of its leader."""
OLDER_EPOCHS_TIMEOUTS = 3
"""How many fetch time-outs an observer hears of older epochs alone before they are another quorum's to it."""
SILENCE_TIMEOUTS = 2
"""How many fetch time-outs may be between two such answers: one passes with each server that is silent."""
REFUSED_SNAPSHOT_PAUSE_MS = 500
"""Wait before a corrupt snapshot is fetched again."""


# -- asking --------------------------------------------------------------------------------------


def poll_follower(m: Machine, state: Follower) -> None:
    if m.leaving:
        return
    if not m.is_voter:
        m.become(state.to_observer(m.fetch_timeout()))
    elif m.now >= state.deadline_ms:
        elections.start_pre_vote(m, state)
    else:
        membership_change.maybe_change_own_voter(m, state)
        fetch(m, state, state.leader_id, state.leader_endpoint)


def continue_fetching(m: Machine, state: Follower) -> bool:
    """Send the next fetch, if nothing else is due before `m.next_poll_ms`. Returns whether it did."""
    if m.now >= m.next_poll_ms or m.now >= m.own_change_at_ms or m.inflight.pauses or m.leaving:
        return False
    if not m.is_in_voters():
        return False
    fetch(m, state, state.leader_id, state.leader_endpoint)
    return True


def poll_observer(m: Machine, state: Observer) -> None:
    if m.leaving:
        return
    if state.leader_endpoint is not None:
        if m.now >= state.deadline_ms:
            m.become(state.searching(m.now))
        else:
            membership_change.maybe_change_own_voter(m, state)
            fetch(m, state, state.leader_id, state.leader_endpoint)
    elif m.now >= state.deadline_ms:
        m.inflight.reset()
        _search(m, state)


def _search(m: Machine, state: Observer) -> None:
    """Ask a random server for the leader. The question is a fetch: it may reach the leader itself, which
    counts its offset, so it is sent only when the whole log is durable. Candidates are the bootstrap servers
    and the voters that are not among them: bootstrap servers may have left the quorum, or changed their
    address."""
    known = m.settings.bootstrap_servers
    servers = [(-1, endpoint) for endpoint in known]
    servers += [voter for voter in m.other_voters() if voter[1] not in known]
    sent = False
    if servers and m.log.synced_offset == m.log.end_offset:
        node_id, endpoint = servers[m.rng.randrange(len(servers))]
        sent = m.send(node_id, endpoint, _fetch_request(m))
    m.update_state(
        state.searching(m.fetch_timeout() if sent else m.now + m.settings.retry_backoff_ms)
    )


def poll_waiting(m: Machine, state: Unattached | Voted) -> None:
    """Between failed elections, ask a random bootstrap server for the leader: the voters may have left the
    endpoints that the log names. The fetch has replica id -1, since this replica does not wait for the
    answer: if the leader counted it as a follower, it would stop sending BeginQuorumEpoch."""
    elections.poll_waiting(m, state)
    if m.state is not state or not state.retries or m.searched_in is state or m.leaving:
        return
    servers = [at for at in m.settings.bootstrap_servers if at != m.own_endpoint]
    if servers:
        m.searched_in = state
        server = servers[m.rng.randrange(len(servers))]
        m.send(-1, server, _fetch_request(m)._replace(replica=ReplicaKey(-1), max_wait_ms=0))


def _fetch_request(m: Machine) -> FetchRequest:
    return FetchRequest(
        m.epoch,
        m.me,
        m.log.end_offset,
        m.log.last_epoch,
        m.settings.fetch_wait_ms_max,
        m.settings.fetch_bytes_max,
        m.high_watermark,
    )


def fetch(m: Machine, state: Fetcher, leader_id: int, endpoint: Endpoint) -> None:
    """Fetch from the leader, if nothing is in flight and the log is durable: the log, or the next chunk of
    the snapshot that is being loaded."""
    snapshot = state.snapshot
    if snapshot is not None:
        if not snapshot.installing:
            request = SnapshotRequest(
                state.epoch,
                m.me,
                snapshot.id,
                snapshot.position,
                m.settings.fetch_snapshot_bytes_max,
            )
            m.send(leader_id, endpoint, request)
    elif m.log.synced_offset == m.log.end_offset:
        m.send(leader_id, endpoint, _fetch_request(m))


# -- what comes back -----------------------------------------------------------------------------


def on_fetch_failed(m: Machine, pending: Pending) -> None:
    state = m.state
    if isinstance(state, Observer) and state.leader_endpoint is None:
        m.update_state(state.searching(m.now + m.settings.retry_backoff_ms))


def on_peer_gone(m: Machine, endpoint: Endpoint) -> None:
    """No process listens on `endpoint` now. If the leader did: start an election after a short random
    wait."""
    state = m.state
    if isinstance(state, Follower) and state.leader_endpoint == endpoint:
        m.lost_leader = (state.epoch, state.leader_id)
        m.update_state(state.suspecting_leader(m.backoff(0)))
    elif isinstance(state, Observer) and state.leader_endpoint == endpoint:
        m.become(state.searching(m.now + m.settings.retry_backoff_ms))


def _fetcher(
    m: Machine, pending: Pending, response: FetchResponse | SnapshotResponse
) -> Fetcher | None:
    """The current state, if the response is of its leader; otherwise None, and the next request waits. The
    response may still carry an error."""
    if _is_of_other_quorum(m, response):
        _pause(m, pending)
        return None
    if pending.node_id < 0 and response.error is ErrorCode.NONE:
        if m.lost_leader == (response.epoch, response.leader_id):
            m.lost_leader = (-1, NO_LEADER)  # the server that answered is the leader
    m.on_epoch(response.epoch, response.leader_id, response.leader_endpoint)
    if not elections.is_current(m, response.error, response.epoch, response.leader_id):
        _pause(m, pending)
        _suspect_former_leader(m, pending, response)
        return None
    state = m.state
    if not isinstance(state, (Follower, Observer)) or state.leader_id != response.leader_id:
        _pause(m, pending)
        return None
    return state


def _is_of_other_quorum(m: Machine, response: FetchResponse | SnapshotResponse) -> bool:
    """Whether an observer must not follow what `response` says of its epoch. Another quorum may have begun at
    the addresses of this one: its epochs begin again at 0. A voter that lags behind has an older epoch, too,
    but not for long."""
    state = m.state
    if not isinstance(state, Observer) or m.settings.can_vote:
        return False
    if response.epoch >= m.epoch:
        m.older_epochs_since_ms = None
    if response.epoch == m.epoch and NO_LEADER not in (response.leader_id, state.leader_id):
        if response.leader_id == state.leader_id:
            return False
        first, second = state.leader_id, response.leader_id
        m.out.append(do.QuorumReplaced(f"nodes {first} and {second} both lead in epoch {m.epoch}"))
        return True
    if response.epoch < m.epoch and _are_older_epochs_all(m):
        told = f"it is in epoch {response.epoch}, and this node has seen epoch {m.epoch}"
        m.out.append(do.QuorumReplaced(told))
    return False


def _are_older_epochs_all(m: Machine) -> bool:
    """Whether this observer, which hears of an older epoch now, has heard of such alone for long enough. A
    silence says nothing; one that is no longer than a server takes that does not answer is none."""
    fetch_timeout_ms, before_ms = m.settings.fetch_timeout_ms, m.older_epoch_heard_ms
    m.older_epoch_heard_ms = m.now
    since_ms = m.older_epochs_since_ms
    if since_ms is None or m.now - before_ms > SILENCE_TIMEOUTS * fetch_timeout_ms:
        m.older_epochs_since_ms = m.now
        return False
    if m.now - since_ms <= OLDER_EPOCHS_TIMEOUTS * fetch_timeout_ms:
        return False
    m.older_epochs_since_ms = None
    return True


def _suspect_former_leader(
    m: Machine, pending: Pending, response: FetchResponse | SnapshotResponse
) -> None:
    """Start an election soon if the leader answered that it does not lead any more: it resigned, or its
    process was restarted."""
    state = m.state
    if not isinstance(state, Follower) or pending.node_id != state.leader_id:
        return
    if (
        response.epoch == state.epoch
        and response.leader_id != state.leader_id
        and state.has_fetched
    ):
        m.update_state(state.suspecting_leader(m.backoff(1)))


def _pause(m: Machine, pending: Pending) -> None:
    """Wait `retry_backoff_ms` before the next request to this server."""
    m.inflight.pause(pending, m.now + m.settings.retry_backoff_ms)
    state = m.state
    if isinstance(state, Observer) and state.leader_endpoint is None:
        m.update_state(state.searching(m.now + m.settings.retry_backoff_ms))


def on_fetch_answer(m: Machine, pending: Pending, response: FetchResponse) -> None:
    state = _fetcher(m, pending, response)
    if state is None:
        return
    if response.error is not ErrorCode.NONE:
        _pause(m, pending)
        return
    request, records = pending.request, response.records
    assert type(request) is FetchRequest
    if request.offset != m.log.end_offset or request.last_epoch != m.log.last_epoch:
        return  # the log has changed since the fetch was sent
    if response.diverging is not None:
        _truncate(m, response.diverging)
    elif response.snapshot is not None:
        state = _begin_snapshot(m, state, pending, response.snapshot)
    elif not isinstance(records, ReadLog):
        if len(records) and not _append(m, pending, records):
            return
        m.commit(min(response.high_watermark, m.log.end_offset))
    state = m.state  # type: ignore[assignment]
    if isinstance(state, (Follower, Observer)):
        _heard(m, state)


def _heard(m: Machine, state: Fetcher) -> None:
    """The leader answered: move the fetch deadline. The state changes only if the deadline moves by more than
    `DEADLINE_STEP`, so that a thousand answers a second do not make a thousand states."""
    deadline_ms = m.fetch_timeout()
    if (
        not state.has_fetched
        or deadline_ms - state.deadline_ms > m.settings.fetch_timeout_ms * DEADLINE_STEP
    ):
        m.update_state(state.heard(deadline_ms))


def _truncate(m: Machine, diverging: OffsetAndEpoch) -> None:
    offset = m.log.truncation_point(diverging)
    if offset < m.high_watermark:
        _halt(m, "asks to cut at", offset)
        return
    assert offset >= m.high_watermark, "what is committed stays"
    m.log.truncate_to(offset)
    m.history.truncate_to(offset)
    m.out.append(do.Truncate(offset))
    m.membership_may_have_changed()


def _halt(m: Machine, what: str, offset: int) -> None:
    """Stop the process: the leader lacks committed records. Only a quorum that was recovered without them
    does."""
    why = f"the leader {what} {offset}, below the high watermark {m.high_watermark}"
    latest = m.log.latest_snapshot
    if latest is not None and offset < latest.offset and not m.settings.can_vote:
        why += (
            f", and below snapshot {latest}: where the quorum was recovered without what is in it, this"
            f" node follows once its {METADATA_TOPIC}-0 is removed"
        )
    m.out.append(do.Halt(why))


def _begin_snapshot(
    m: Machine, state: Fetcher, pending: Pending, snapshot: OffsetAndEpoch
) -> Fetcher:
    if snapshot.offset < 0 or snapshot.epoch < 0:
        _pause(m, pending)  # not a valid id; a later answer may have one
        return state
    if snapshot.offset < m.high_watermark:
        if snapshot.epoch > m.log.last_epoch:
            _halt(m, "has a snapshot of its own history at", snapshot.offset)
        else:
            _pause(m, pending)
        return state
    m.out.append(do.StoreSnapshot(snapshot, 0, b""))
    fetching = state.fetching_snapshot(Following(snapshot))
    m.update_state(fetching)
    return fetching


def _append(m: Machine, pending: Pending, records: Buffer) -> bool:
    """Append the complete batches of a fetched run. False if none could be appended: the first is corrupt, or
    does not begin at the log end offset."""
    base = m.log.end_offset
    view = memoryview(records)
    appended = 0
    changed = False
    try:
        for run in iter_runs(view):
            if run.base_offset != m.log.end_offset or not m.log.last_epoch <= run.epoch <= m.epoch:
                break
            end = run.position + run.size
            controls = control_records(view[run.position : end]) if run.is_control else ()
            m.log.append(run.base_offset, run.end_offset, run.epoch)
            appended = end
            if controls:
                changed |= membership_change.apply_control(m, controls, run.base_offset)
    except CorruptBatchError:
        if appended == 0:
            _pause(m, pending)
            return False
    if appended:
        m.out.append(do.Append(view[:appended], base))
        m.out.append(do.SYNC)
    elif len(view):
        _pause(m, pending)
        return False
    if changed:
        m.membership_may_have_changed()
    return True


# -- snapshots -----------------------------------------------------------------------------------


def on_snapshot_answer(m: Machine, pending: Pending, response: SnapshotResponse) -> None:
    state = _fetcher(m, pending, response)
    if state is None or state.snapshot is None:
        return
    snapshot = state.snapshot
    usable = response.error is ErrorCode.NONE and response.snapshot == snapshot.id
    if not usable or response.position != snapshot.position:
        # The leader has deleted the snapshot, or the answer is of another position: fetch the log again.
        m.update_state(state.fetching_snapshot(None).heard(m.fetch_timeout()))
        _pause(m, pending)
        return
    assert not isinstance(response.data, ReadSnapshot)
    position = snapshot.position + len(response.data)
    m.out.append(do.StoreSnapshot(snapshot.id, snapshot.position, response.data))
    complete = position >= response.size
    following = Following(snapshot.id, position, installing=complete)
    m.update_state(state.fetching_snapshot(following).heard(m.fetch_timeout()))
    if complete:
        m.out.append(do.InstallSnapshot(snapshot.id))
    elif not response.data:
        _pause(m, pending)


def on_snapshot_installed(m: Machine, event: on.SnapshotInstalled) -> None:
    """The snapshot replaced the log, which now starts after it."""
    m.log.restart_at(event.id)
    m.history.clear()
    membership_change.apply_snapshot_controls(m, event.controls, event.id)
    m.commit(event.id.offset)
    state = m.state
    if isinstance(state, (Follower, Observer)):
        m.update_state(state.fetching_snapshot(None))
    if not isinstance(state, Leader):
        m.membership_may_have_changed()


def on_snapshot_refused(m: Machine, event: on.SnapshotRefused) -> None:
    state = m.state
    if isinstance(state, (Follower, Observer)) and state.snapshot is not None:
        if state.snapshot.id == event.id:
            m.update_state(state.fetching_snapshot(None))
            if (
                state.leader_endpoint is not None
            ):  # the whole snapshot is fetched again, after a pause
                again = Pending(state.leader_id, state.leader_endpoint, _fetch_request(m))
                m.inflight.pause(again, m.now + REFUSED_SNAPSHOT_PAUSE_MS)
