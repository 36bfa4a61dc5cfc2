"""Changing who votes while running (KIP-853): add, remove and update one voter at a time.

A change is a VotersRecord that the leader appends; it holds from then on, on every replica that has it,
and the next one waits until it is committed. A new voter must have caught up first, or it would
cost availability instead of adding to it. A leader that is removed leads on until the record that
removes it is committed, counting itself no more, and then resigns.
Source: KIP-853; Kafka's AddVoterHandler, RemoveVoterHandler, UpdateVoterHandler.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from barnabas.raft.core import events as on
from barnabas.raft.core.batches import ControlRecord
from barnabas.raft.core.inflight import Pending
from barnabas.raft.core.messages import (
    AddVoterRequest,
    ChangeVoterResponse,
    FeaturesRequest,
    FeaturesResponse,
    RemoveVoterRequest,
    UpdateVoterRequest,
)
from barnabas.raft.core.quorum_math import majority
from barnabas.raft.core.states import Follower, Leader, Observer
from barnabas.raft.core.voters import KRAFT_VERSIONS, ReplicaKey, VoterNode, VoterSet
from barnabas.raft.state_machine import OffsetAndEpoch
from barnabas.record.builder import ControlType
from barnabas.types import ZERO_UUID, Endpoint
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.k_raft_version_record import KRaftVersionRecord
from barnabas.wire.messages.voters_record import VotersRecord
from barnabas.wire.schema import Message

if TYPE_CHECKING:
    from barnabas.raft.core.machine import Machine

Controls = Sequence[ControlRecord]
CAUGHT_UP_WITHIN_MS = 10_000
"""A replica that had the whole log within this time may become a voter."""
UPDATE_TIMEOUT_MS = 30_000
ANSWERED_WITHIN = 0.95
"""Fraction of AddVoter's time-out: the client, which waits no longer than that, still reads the reason."""
_HEARD = frozenset({ErrorCode.NONE, ErrorCode.UNSUPPORTED_VERSION})
"""After these answers a static voter need not say again where it is."""


@dataclass(frozen=True, slots=True)
class VoterChange:
    """The one change of voters under way on a leader."""

    ticket: int
    voters: VoterSet | None
    """The set to append; None until what is needed for it is known."""
    node: VoterNode | None
    """The voter to add, until its features are known and it has caught up."""
    deadline_ms: float
    ack_when_committed: bool = True
    features_known: bool = False
    offset: int | None = None
    """The offset of the appended record."""


# -- the voters that the log says ----------------------------------------------------------------


def apply_control(m: Machine, controls: Controls, base_offset: int) -> bool:
    """Take over what appended control records say of voters. Whether anything changed."""
    changed = False
    for offset, (_, message) in enumerate(controls, base_offset):
        changed |= _apply(m, message, offset)
    return changed


def apply_snapshot_controls(m: Machine, controls: Controls, snapshot: OffsetAndEpoch) -> None:
    """All of a snapshot's control records hold from its end on."""
    for _, message in controls:
        _apply(m, message, snapshot.offset - 1)


def _apply(m: Machine, message: Message, offset: int) -> bool:
    if isinstance(message, KRaftVersionRecord):
        m.history.add_version(offset, message.k_raft_version)
        return True
    if isinstance(message, VotersRecord):
        m.history.add_voters(offset, VoterSet.from_record(message))
        return True
    return False


def start_of_epoch_records(m: Machine) -> list[ControlRecord]:
    """The records that a new leader of a dynamic quorum writes behind its announcement: the set of the
    bootstrap snapshot, which only its own directory has, or its own endpoints where they moved."""
    if m.history.kraft_version < 1:
        return []
    voters = m.voters
    moved = voters.nodes.get(m.me.id)
    if moved is not None and (
        dict(moved.endpoints) != dict(m.settings.listeners) or moved.versions != KRAFT_VERSIONS
    ):
        voters = voters.updated(m.me.id, m.settings.listeners, KRAFT_VERSIONS)
    if m.history.voters_offset == -1:
        level = KRaftVersionRecord(version=0, k_raft_version=m.history.kraft_version)
        return [
            (ControlType.KRAFT_VERSION, level),
            (ControlType.KRAFT_VOTERS, voters.to_record()),
        ]
    return [(ControlType.KRAFT_VOTERS, voters.to_record())] if voters is not m.voters else []


# -- requests ------------------------------------------------------------------------------------


def _answer(m: Machine, ticket: int, error: ErrorCode, message: str = "") -> None:
    m.reply(ticket, ChangeVoterResponse(error, m.epoch, *m.leader_for(), message))


Refusal = tuple[ErrorCode, str]


def _refusal(m: Machine, senseless: Refusal | None) -> Refusal | None:
    """Why no change can begin now; a leader first says what makes the request `senseless`."""
    state = m.state
    if not isinstance(state, Leader):
        return ErrorCode.NOT_LEADER_OR_FOLLOWER, f"node {m.leader_id} leads"
    if senseless is not None:
        return senseless
    if m.high_watermark <= state.start_offset:
        return ErrorCode.REQUEST_TIMED_OUT, "the leader has not committed a record of its epoch yet"
    if m.history.kraft_version < 1:
        return ErrorCode.UNSUPPORTED_VERSION, "the voters are static (kraft.version 0)"
    if m.change is not None:
        return ErrorCode.REQUEST_TIMED_OUT, "another change of voters is under way"
    offset = m.history.voters_offset
    if offset is None or offset >= m.high_watermark:
        return ErrorCode.REQUEST_TIMED_OUT, "the last change of voters is not committed yet"
    return None


def _check_voter(voter: ReplicaKey) -> Refusal | None:
    """A voter of the log is one directory: without its id it would be any."""
    if voter.id >= 0 and voter.directory_id != ZERO_UUID:
        return None
    return ErrorCode.INVALID_REQUEST, "a node id and a directory id must say which voter"


def _check_listed(
    m: Machine, voter: ReplicaKey, endpoints: Mapping[str, Endpoint]
) -> Refusal | None:
    """Check a voter that tells where it is."""
    refusal = _check_voter(voter)
    if refusal is None and m.settings.listener_name not in endpoints:
        refusal = ErrorCode.INVALID_REQUEST, f"no endpoint for {m.settings.listener_name}"
    return refusal


def on_add_voter(m: Machine, ticket: int, request: AddVoterRequest) -> None:
    refusal = _refusal(m, _check_listed(m, request.voter, request.endpoints))
    if refusal is None and request.voter.id in m.voters.nodes:
        refusal = ErrorCode.DUPLICATE_VOTER, f"node {request.voter.id} is a voter already"
    if refusal is not None:
        _answer(m, ticket, *refusal)
        return
    node = VoterNode(request.voter, dict(request.endpoints))
    deadline = m.now + request.timeout_ms * ANSWERED_WITHIN
    m.change = VoterChange(ticket, None, node, deadline, request.ack_when_committed)


def on_remove_voter(m: Machine, ticket: int, request: RemoveVoterRequest) -> None:
    refusal = _refusal(m, _check_voter(request.voter))
    node = m.voters.nodes.get(request.voter.id)
    if refusal is None and (node is None or node.key != request.voter):
        refusal = ErrorCode.VOTER_NOT_FOUND, f"{request.voter} is no voter"
    if refusal is None and len(m.voters) == 1:
        refusal = ErrorCode.VOTER_NOT_FOUND, "the last voter cannot be removed"
    if refusal is not None:
        _answer(m, ticket, *refusal)
        return
    voters = m.voters.without(request.voter.id)
    silent = _in_the_way(m, voters)
    if silent:
        why = (
            f"voters {silent} do not follow: without {request.voter.id} nothing could be committed"
        )
        _answer(m, ticket, ErrorCode.REQUEST_TIMED_OUT, why)
        return
    m.change = VoterChange(ticket, voters, None, m.now + request.timeout_ms)


def _in_the_way(m: Machine, voters: VoterSet) -> list[int]:
    """The voters of a new set that do not fetch, where so few do that the set could commit nothing, not
    even itself; empty where it could."""
    assert isinstance(m.state, Leader)
    silent = m.state.progress_table.silent(voters, m.now)
    return silent if len(voters) - len(silent) < majority(len(voters)) else []


def on_update_voter(m: Machine, ticket: int, request: UpdateVoterRequest) -> None:
    if request.epoch != m.epoch:
        older = request.epoch < m.epoch
        error = ErrorCode.FENCED_LEADER_EPOCH if older else ErrorCode.UNKNOWN_LEADER_EPOCH
        _answer(m, ticket, error)
        return
    senseless = _check_listed(m, request.voter, request.endpoints)
    if senseless is None and not 0 <= request.versions[0] <= request.versions[1]:
        senseless = ErrorCode.INVALID_REQUEST, f"no range of kraft.version: {request.versions}"
    if senseless is None and isinstance(m.state, Leader) and m.history.kraft_version < 1:
        _note_static_voter(m, ticket, request)
        return
    refusal = _refusal(m, senseless)
    node = m.voters.nodes.get(request.voter.id)
    if refusal is None and (node is None or node.key != request.voter):
        refusal = ErrorCode.VOTER_NOT_FOUND, f"{request.voter} is no voter"
    if refusal is None and not _covers(request.versions, m.history.kraft_version):
        refusal = ErrorCode.INVALID_REQUEST, f"kraft.version {m.history.kraft_version} is needed"
    if refusal is not None:
        _answer(m, ticket, *refusal)
        return
    voters = m.voters.updated(request.voter.id, request.endpoints, request.versions)
    if voters == m.voters:
        _answer(m, ticket, ErrorCode.NONE)
        return
    # Apache Kafka's voters fetch nothing before the answer: it does not wait for what they have to commit.
    deadline = m.now + UPDATE_TIMEOUT_MS
    m.change = VoterChange(ticket, voters, None, deadline, ack_when_committed=False)


def _note_static_voter(m: Machine, ticket: int, request: UpdateVoterRequest) -> None:
    """In a static quorum: the leader remembers the voter until an operator makes the quorum dynamic."""
    if request.voter.id not in m.voters.nodes:
        _answer(m, ticket, ErrorCode.VOTER_NOT_FOUND, f"{request.voter} is no voter")
        return
    m.static_updates[request.voter.id] = VoterNode(
        request.voter, dict(request.endpoints), request.versions
    )
    _answer(m, ticket, ErrorCode.NONE)


def _covers(versions: tuple[int, int], level: int) -> bool:
    return versions[0] <= level <= versions[1]


def on_upgrade(m: Machine, event: on.UpgradeKraftVersion) -> None:
    """Static to dynamic. All voters must have told their directory ids and support the level."""
    state, present = m.state, m.history.kraft_version
    if not isinstance(state, Leader):
        _answer(m, event.ticket, ErrorCode.NOT_LEADER_OR_FOLLOWER, f"node {m.leader_id} leads")
        return
    offset = m.history.voters_offset
    if event.level == present and (offset is None or offset < m.high_watermark):
        _answer(m, event.ticket, ErrorCode.NONE)
        return
    if event.level == present:
        why = "the last change of voters is not committed yet"
        _answer(m, event.ticket, ErrorCode.REQUEST_TIMED_OUT, why)
        return
    own = VoterNode(m.me, dict(m.settings.listeners), KRAFT_VERSIONS)
    known = {**m.static_updates, m.me.id: own}
    missing = [
        node for node in m.voters
        if node not in known or not _covers(known[node].versions, event.level)
    ]  # fmt: skip
    problem = None
    if event.level < present:
        problem = f"kraft.version cannot go back from {present} to {event.level}"
    elif not KRAFT_VERSIONS[0] <= event.level <= KRAFT_VERSIONS[1]:
        problem = f"kraft.version {event.level} is not known"
    elif missing:
        problem = f"voters {missing} have not told that they support kraft.version {event.level}"
    elif m.high_watermark <= state.start_offset or m.change is not None:
        problem = "the leader is not ready for a change of voters yet"
    if problem is not None:
        _answer(m, event.ticket, ErrorCode.INVALID_UPDATE_VERSION, problem)
        return
    if event.validate_only:
        _answer(m, event.ticket, ErrorCode.NONE)
        return
    voters = VoterSet.of(*(known[node] for node in m.voters))
    offset = m.append_control(
        [
            (
                ControlType.KRAFT_VERSION,
                KRaftVersionRecord(version=0, k_raft_version=event.level),
            ),
            (ControlType.KRAFT_VOTERS, voters.to_record()),
        ],
    )
    m.change = VoterChange(event.ticket, voters, None, m.now + UPDATE_TIMEOUT_MS, offset=offset + 1)


# -- the change under way ------------------------------------------------------------------------


def poll(m: Machine, state: Leader) -> None:
    """Take the change a step further."""
    change = m.change
    if change is None:
        return
    if m.now >= change.deadline_ms:
        m.change = None
        why = "it is not committed yet" if change.offset is not None else _what_lacks(change)
        _answer(m, change.ticket, ErrorCode.REQUEST_TIMED_OUT, why)
    elif change.offset is None and change.voters is not None:
        _append(m, change, change.voters)
    elif change.offset is None and change.node is not None:
        _prepare(m, state, change, change.node)


def _what_lacks(change: VoterChange) -> str:
    if change.features_known:
        return "the new voter has not caught up with the log, or too few others follow"
    return "the new voter could not be asked which kraft.version it supports"


def _append(m: Machine, change: VoterChange, voters: VoterSet) -> None:
    m.change = None  # appending looks at changes under way
    offset = m.append_control([(ControlType.KRAFT_VOTERS, voters.to_record())])
    m.change = replace(change, voters=voters, node=None, offset=offset)
    if not change.ack_when_committed:
        _answer(m, change.ticket, ErrorCode.NONE)
        m.change = replace(m.change, ticket=-1)
    if isinstance(m.state, Leader):
        on_committed(m, m.state)


def _prepare(m: Machine, state: Leader, change: VoterChange, node: VoterNode) -> None:
    if not change.features_known:
        m.send(node.key.id, node.endpoints[m.settings.listener_name], FeaturesRequest())
        return
    progress = state.progress_table.observers.get(node.key)
    caught_up = progress.last_caught_up_ms if progress is not None else None
    voters = m.voters.with_voter(node)
    if (
        caught_up is not None
        and m.now - caught_up <= CAUGHT_UP_WITHIN_MS
        and not _in_the_way(m, voters)
    ):
        m.change = replace(change, voters=voters)
        poll(m, state)
    elif not change.ack_when_committed:
        # It adds itself and asks again. Apache Kafka's would not fetch meanwhile, and so never catch up.
        m.change = None
        _answer(m, change.ticket, ErrorCode.REQUEST_TIMED_OUT, _what_lacks(change))


def on_features_answer(m: Machine, pending: Pending, response: FeaturesResponse) -> None:
    change = m.change
    if change is None or change.node is None or change.node.key.id != pending.node_id:
        return
    if response.error is not ErrorCode.NONE:
        m.inflight.pause(pending, m.now + m.settings.retry_backoff_ms)
        return
    if not _covers(response.kraft_versions, m.history.kraft_version):
        m.change = None
        supported = "{}..{}".format(*response.kraft_versions)
        message = f"node {pending.node_id} supports kraft.version {supported} only"
        _answer(m, change.ticket, ErrorCode.INVALID_REQUEST, message)
        return
    node = replace(change.node, versions=response.kraft_versions)
    m.change = replace(change, node=node, features_known=True)


def on_features_failed(m: Machine, pending: Pending) -> None:
    """An operator may yet start the node that is to vote. One that adds itself asks again, and what others
    want has its turn meanwhile."""
    change = m.change
    if change is None or change.node is None or change.node.key.id != pending.node_id:
        return
    if not change.ack_when_committed:
        m.change = None
        _answer(m, change.ticket, ErrorCode.REQUEST_TIMED_OUT, _what_lacks(change))


def on_progress(m: Machine, state: Leader, replica: ReplicaKey) -> None:
    """A replica fetched: the one that waits to be added may have caught up."""
    change = m.change
    if change is not None and change.node is not None and change.node.key == replica:
        poll(m, state)


def on_committed(m: Machine, state: Leader) -> None:
    """The high watermark moved."""
    change = m.change
    if change is not None and change.offset is not None and m.high_watermark > change.offset:
        m.change = None
        if change.ticket >= 0:
            _answer(m, change.ticket, ErrorCode.NONE)
    if not m.is_in_voters():
        offset = m.history.voters_offset
        if offset is not None and m.high_watermark > offset and m.state is state:
            m.become(state.to_resigned(state.progress_table.successors(), m.election_timeout()))


def abandon_change(m: Machine) -> None:
    """The leader leads no more; what it appended may still be committed by the next."""
    change, m.change = m.change, None
    m.static_updates.clear()
    if change is not None and change.ticket >= 0:
        _answer(m, change.ticket, ErrorCode.NOT_LEADER_OR_FOLLOWER, "the leadership was lost")


def deadline_ms(m: Machine, state: Leader) -> float:
    return m.change.deadline_ms if m.change is not None else float("inf")


# -- this replica as a voter ---------------------------------------------------------------------


def maybe_change_own_voter(m: Machine, state: Follower | Observer) -> None:
    """Ask the leader to correct what the voter set says of this replica, where it may and must: its
    endpoints, its directory after a lost disk, or (auto-join) that it is not in it."""
    if m.now < m.own_change_at_ms or not state.has_fetched or state.leader_endpoint is None:
        return
    if m.high_watermark < 0 or not m.settings.can_vote or not m.settings.listeners:
        return
    m.own_change_at_ms = m.now + m.settings.fetch_timeout_ms
    request = _own_change(m, state)
    if request is not None:
        m.send(state.leader_id, state.leader_endpoint, request)


def _own_change(
    m: Machine, state: Follower | Observer
) -> UpdateVoterRequest | AddVoterRequest | RemoveVoterRequest | None:
    listeners = dict(m.settings.listeners)
    node = m.voters.nodes.get(m.me.id)
    timeout = m.settings.request_timeout_ms
    if isinstance(state, Follower):
        if node is None or (
            m.history.kraft_version < 1 and m.announced_static_voter == state.epoch
        ):
            return None
        if m.history.kraft_version < 1:
            return UpdateVoterRequest(state.epoch, m.me, listeners, KRAFT_VERSIONS)
        if dict(node.endpoints) == listeners and node.versions == KRAFT_VERSIONS:
            return None
        return UpdateVoterRequest(state.epoch, m.me, listeners, KRAFT_VERSIONS)
    if not m.settings.auto_join or m.history.kraft_version < 1 or m.me in m.voters:
        return None
    if state.snapshot is not None:  # the leader would wait, and all other changes with it
        return None
    if node is not None:
        return RemoveVoterRequest(node.key, timeout)
    return AddVoterRequest(m.me, listeners, timeout, ack_when_committed=False)


def on_own_change_answer(m: Machine, pending: Pending, response: ChangeVoterResponse) -> None:
    if response.epoch >= 0:
        m.on_epoch(response.epoch, response.leader_id, response.leader_endpoint)
    # An older leader of Apache Kafka takes nothing of the kind from the voters of a static quorum.
    if isinstance(pending.request, UpdateVoterRequest) and response.error in _HEARD:
        m.announced_static_voter = m.epoch
    elif response.error is not ErrorCode.NONE:
        m.own_change_at_ms = m.now + m.settings.fetch_timeout_ms
