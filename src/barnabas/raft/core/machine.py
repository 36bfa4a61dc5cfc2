"""One replica's decisions: ``step(event, now_ms) -> effects``. No time, disk, network or chance of its own.

`Machine` owns the present state, the picture of the log, the voters and the requests under way; what
happens in which state is in :mod:`elections`, :mod:`following`, :mod:`leading` and
:mod:`membership_change`, as functions over it. After every event `step` asks the present state what is due
(`poll`), so that requests and retries follow from the state alone and never from timers.

Invariants: effects are performed in their order; `SaveElection` precedes whatever rests on it;
the high watermark never goes back; one request per endpoint is under way.
Source: KIP-595, KIP-630, KIP-853, KIP-996, KIP-1166. Kafka's ``KafkaRaftClient``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from barnabas.ports import Rng
from barnabas.raft.core import effects as do
from barnabas.raft.core import elections, following, leading, membership_change
from barnabas.raft.core import events as on
from barnabas.raft.core.batches import ControlRecord
from barnabas.raft.core.election_state import NO_LEADER, ElectionState
from barnabas.raft.core.inflight import InflightRequests, Pending
from barnabas.raft.core.log_metadata import LogMetadata
from barnabas.raft.core.messages import (
    AddVoterRequest,
    BeginEpochRequest,
    DescribeRequest,
    EndEpochRequest,
    FeaturesRequest,
    FetchRequest,
    RemoveVoterRequest,
    Request,
    Response,
    SnapshotRequest,
    UpdateVoterRequest,
    VoteRequest,
)
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
from barnabas.raft.core.voters import ReplicaKey, VoterHistory, VoterNode, VoterSet
from barnabas.raft.settings import ReplicaSettings
from barnabas.types import Endpoint

NEVER = float("inf")
BEGIN_RETRY_MS = 250
"""Between two attempts of a leader to reach a voter that is not there; a returning one asks itself."""


class Machine:
    """The decisions of one replica, from what was persisted (`log`, `history`, `election`) on."""

    def __init__(
        self,
        settings: ReplicaSettings,
        rng: Rng,
        log: LogMetadata,
        history: VoterHistory,
        election: ElectionState,
        now_ms: float,
    ) -> None:
        self.settings = settings
        self.rng = rng
        self.log = log
        self.history = history
        self.me = ReplicaKey(settings.node_id, settings.directory_id)
        self.own_endpoint = next(iter(settings.listeners.values()), None)
        """The address at which others find this replica when it leads."""
        self.inflight = InflightRequests()
        self.now = now_ms
        self.high_watermark = log.latest_snapshot.offset if log.latest_snapshot else -1
        self.leaving = False
        self.saved = election
        self.announced = (NO_LEADER, -1)
        self.unreachable: set[int] = set()
        """Voters that did not answer in this round of an election."""
        self.change: membership_change.VoterChange | None = None
        self.static_updates: dict[int, VoterNode] = {}
        """The updates that voters of a static quorum sent this leader about themselves."""
        self.own_change_at_ms = 0.0
        """When to look again whether the voter set is wrong about this replica."""
        self.lost_leader = (-1, NO_LEADER)
        """(epoch, leader) whose process was seen to be gone: only it can say that it is not."""
        self.older_epochs_since_ms: float | None = None
        """Since when this observer has had no other answers than those of an older epoch."""
        self.older_epoch_heard_ms = 0.0
        """When the last of them came."""
        self.searched_in: State | None = None
        """In which state this voter asked a bootstrap server last."""
        self.announced_static_voter = -1
        """The epoch whose leader knows this static voter's directory."""
        self._own_voters: VoterSet | None = None
        self.out: list[do.Effect] = []
        self.next_poll_ms = float("-inf")
        """Before that nothing is due in the state that was asked last, if only what `_CALM` names happens."""
        self.asked_state: State | None = None
        """Which state was asked last what is due."""
        self.state: State = elections.first_state(self, election)
        self.epoch = self.state.epoch
        """The quorum epoch of `state`."""

    def validate(self) -> None:
        """Invariants 1 to 3, as far as one replica can see. Raises AssertionError."""
        state, log = self.state, self.log
        log.validate()
        assert self.epoch == state.epoch >= self.saved.epoch, f"{state} is older than {self.saved}"
        # Of an epoch that only its log tells of, a replica that starts has saved nothing yet.
        if self.saved.epoch == self.epoch:
            voted, saved = state.election.voted, self.saved.voted
            # Below kraft.version 1 the file has no directory id.
            same = saved is None if voted is None else saved is not None and saved.id == voted.id
            assert same, f"{state} is not {self.saved}"
        assert self.announced[1] <= self.epoch, f"{self.announced} was announced before {state}"
        assert log.last_epoch <= self.epoch, f"{log!r} has records of later epochs than {state}"
        assert self.high_watermark <= log.end_offset, f"{self.high_watermark} is behind {log!r}"
        if isinstance(state, Leader):
            assert state.me.id == self.me.id, f"{self.me} leads as {state.me}"
            assert state.start_offset < log.end_offset, f"a leader without a record: {state}"
            assert log.last_epoch == state.epoch, f"{log!r} is not of {state}"
        elif isinstance(state, (Follower, Observer)):
            assert state.leader_id != self.me.id, f"{state} follows itself"

    # -- the seam --------------------------------------------------------------------------------

    def step(self, event: on.Event, now_ms: float) -> tuple[do.Effect, ...]:
        """The effects that follow from `event` at `now_ms` (monotonic)."""
        self.now = now_ms
        self.out = []
        kind = type(event)
        _EVENTS[kind](self, event)
        if kind not in _CALM or not self._is_calm(event):
            self._poll()
            self.asked_state, self.next_poll_ms = self.state, self.deadline_ms()
        return tuple(self.out)

    def _is_calm(self, event: on.Event) -> bool:
        """Whether `event` left nothing to do but what waits for its time, and a follower's next fetch: what
        happens a thousand times a second need not be asked after each."""
        state = self.state
        if state is not self.asked_state:
            return False
        if type(state) is Follower:
            return following.continue_fetching(self, state)
        if type(state) is not Leader or self.change is not None or type(event) is on.Answered:
            return False
        if type(event) is on.Asked and type(event.request) is not FetchRequest:
            return False
        return self.now < self.next_poll_ms

    def wakes_at_ms(self) -> float:
        """The `deadline_ms`, perhaps too early but never too late, and cheap."""
        return self.next_poll_ms if self.state is self.asked_state else self.deadline_ms()

    def deadline_ms(self) -> float:
        """When `step` wants a `Tick`, if nothing happens before; infinity: never."""
        state = self.state
        due = self.inflight.wakes_at(self.now) or NEVER
        if isinstance(state, Leader):
            return min(due, leading.deadline_ms(self, state))
        if self.leaving:  # it searches for no leader; the shutdown has its own timer
            return due
        return min(due, state.deadline_ms)

    def _poll(self) -> None:
        """Ask the state what is due until it stays what it is."""
        for _ in range(10):
            state = self.state
            _POLLS[type(state)](self, state)
            if self.state is state:
                return
        raise AssertionError(f"states go round in circles: {self.state}")

    # -- what everybody asks ---------------------------------------------------------------------

    @property
    def voters(self) -> VoterSet:
        return self.history.voters

    @property
    def is_voter(self) -> bool:
        """Whether this replica may stand for election."""
        return self.settings.can_vote and self.history.may_stand(self.me, self.high_watermark)

    def is_in_voters(self) -> bool:
        """Whether the voter set in force has this replica. Sets never change, so that the last one that
        had it need not be looked into again."""
        voters = self.history.voters
        if voters is not self._own_voters:
            if self.me not in voters:
                return False
            self._own_voters = voters
        return True

    @property
    def votes_alone(self) -> bool:
        """Whether this replica is the only voter: no other has a copy of what is lost here."""
        nodes = self.history.voters.nodes
        return len(nodes) == 1 and self.me.id in nodes

    @property
    def leader_id(self) -> int:
        state = self.state
        if isinstance(state, (Candidate, Voted, Resigned)):
            return NO_LEADER
        return state.leader_id

    @property
    def leader_endpoint(self) -> Endpoint | None:
        state = self.state
        if isinstance(state, Leader):
            return self.own_endpoint
        if isinstance(state, (Follower, Observer, Prospective)):
            return state.leader_endpoint
        return None

    def leader_for(self, asker: int = NO_LEADER) -> tuple[int, Endpoint | None]:
        """(id, endpoint) of the leader for an answer to `asker`; the id is -1 where the endpoint is unknown.
        An Apache Kafka replica that does not know the endpoint either (a new one has no voter set yet) exits
        on an answer with the id alone. So does a leader that lost its disk, asks, and is named itself."""
        leader_id, endpoint = self.leader_id, self.leader_endpoint
        if leader_id == self.me.id:
            return leader_id, endpoint
        endpoint = endpoint or self.voters.endpoint(leader_id, self.settings.listener_name)
        if endpoint is None or leader_id == asker:
            return NO_LEADER, None
        return leader_id, endpoint

    def other_voters(self) -> list[tuple[int, Endpoint]]:
        """(id, endpoint) of the voters that can be asked, ascending, without this one."""
        listener = self.settings.listener_name
        found = []
        for node in self.voters.nodes.values():
            endpoint = node.endpoints.get(listener)
            if node.key.id != self.me.id and endpoint is not None:
                found.append((node.key.id, endpoint))
        return found

    # -- doing -----------------------------------------------------------------------------------

    def become(self, state: State) -> None:
        """Move. Persists what changed, forgets requests under way, tells who leads."""
        before = self.state
        assert state.epoch >= before.epoch, f"{before} cannot become {state}"
        self.state, self.epoch = state, state.epoch
        self.inflight.reset()
        self.unreachable.clear()
        self._save(state.election)
        if isinstance(before, Leader):
            leading.left(self, before)
        self.tell_leader()

    def update_state(self, state: State) -> None:
        """The same state, knowing more: nothing under way is forgotten."""
        self.state, self.epoch = state, state.epoch
        self._save(state.election)

    def _save(self, election: ElectionState) -> None:
        if election == self.saved:
            return
        binding = (election.epoch, election.voted) != (self.saved.epoch, self.saved.voted)
        binding |= self._withdraw_save()
        self.saved = election
        self.out.append(
            do.SaveElection(election, binding, self.history.kraft_version, tuple(self.voters))
        )

    def _withdraw_save(self) -> bool:
        """Take back a write of this step that a later one makes superfluous (a new epoch, then a vote
        in it). Whether it was binding."""
        for index in range(len(self.out) - 1, -1, -1):
            effect = self.out[index]
            if isinstance(effect, do.SaveElection):
                del self.out[index]
                return effect.binding
            if not isinstance(effect, do.LeaderIs):
                break
        return False

    def tell_leader(self) -> None:
        present = (self.leader_id, self.epoch)
        if present != self.announced:
            self.announced = present
            start = self.state.start_offset if isinstance(self.state, Leader) else -1
            self.out.append(do.LeaderIs(*present, self.leader_endpoint, start))

    def send(self, node_id: int, endpoint: Endpoint, request: Request) -> bool:
        """Send, unless a request is under way there or a pause holds."""
        request_id = self.inflight.open(node_id, endpoint, request, self.now)
        if request_id is None:
            return False
        self.out.append(do.Send(request_id, node_id, endpoint, request))
        return True

    def reply(self, ticket: int, response: Response) -> None:
        self.out.append(do.Reply(ticket, response))

    def commit(self, offset: int) -> None:
        if offset > self.high_watermark:
            assert offset <= self.log.end_offset, f"{offset} is behind {self.log!r}"
            self.high_watermark = offset
            self.out.append(do.Commit(offset))

    def election_timeout(self) -> float:
        """A random instant, one to two election time-outs from now."""
        base = self.settings.election_timeout_ms
        return self.now + self.rng.uniform(base, 2 * base)

    def backoff(self, retries: int) -> float:
        """A random instant soon, later with each retry."""
        bound = self.settings.peer_gone_backoff_ms_max * 2 ** min(retries, 10)
        return self.now + self.rng.uniform(0, min(bound, self.settings.election_backoff_ms_max))

    def fetch_timeout(self) -> float:
        return self.now + self.settings.fetch_timeout_ms

    # -- epochs and leaders seen in messages ----------------------------------------------------

    def on_epoch(self, epoch: int, leader_id: int, endpoint: Endpoint | None) -> None:
        """A message told of `epoch` and perhaps its leader: follow what is newer."""
        if epoch == self.epoch and type(self.state) is Follower:
            return  # it has a leader
        if leader_id >= 0 and endpoint is None:
            endpoint = self.voters.endpoint(leader_id, self.settings.listener_name)
        if epoch > self.epoch:
            if leader_id >= 0 and endpoint is not None and leader_id != self.me.id:
                self.follow(epoch, leader_id, endpoint)
            else:
                self.newer_epoch(epoch)
        elif epoch == self.epoch and leader_id >= 0 and leader_id != self.me.id:
            hearsay = (epoch, leader_id) == self.lost_leader
            if endpoint is not None and self._lacks_leader() and not hearsay:
                self.follow(epoch, leader_id, endpoint)

    def _lacks_leader(self) -> bool:
        state = self.state
        if isinstance(state, Observer):
            return state.leader_endpoint is None
        return isinstance(state, (Unattached, Voted, Prospective, Candidate))

    def follow(self, epoch: int, leader_id: int, endpoint: Endpoint) -> None:
        self.become(self.state.to_follower(epoch, leader_id, endpoint, self.fetch_timeout()))

    def newer_epoch(self, epoch: int) -> None:
        """A newer epoch without a known leader. A replica that waited for its own election keeps its
        deadline: otherwise a candidate that never wins could delay it for ever. A replica that had a
        leader tries soon, since a pre-vote disturbs no other replica."""
        state = self.state
        if isinstance(state, Observer):
            self.become(state.at_epoch(epoch, self.now))
            return
        waiting = isinstance(state, (Unattached, Voted, Prospective, Candidate))
        deadline = state.deadline_ms if waiting else self.backoff(1)  # type: ignore[union-attr]
        self.become(state.to_unattached(epoch, max(deadline, self.now)))

    def append_control(self, records: list[ControlRecord]) -> int:
        """Append one control batch as the leader; its base offset."""
        return leading.append_control(self, records)

    def membership_may_have_changed(self) -> None:
        """The voter set in force is another: a voter may have become an observer or the reverse."""
        state = self.state
        if isinstance(state, Observer):
            if self.is_voter:
                self.become(state.to_voter(self.fetch_timeout()))
        elif isinstance(state, Leader):
            leading.voters_changed(self, state)
        elif not self.is_voter:
            self.become(state.to_observer(self.now))


# -- events --------------------------------------------------------------------------------------


def _on_asked(m: Machine, event: on.Asked) -> None:
    _REQUESTS[type(event.request)](m, event.ticket, event.request)


def _on_answered(m: Machine, event: on.Answered) -> None:
    pending = m.inflight.close(event.request_id)
    if pending is not None:
        _ANSWERS[type(pending.request)](m, pending, event.response)


def _on_failed(m: Machine, event: on.Failed) -> None:
    pending = m.inflight.close(event.request_id)
    if pending is None:
        return
    told_dead = isinstance(pending.request, BeginEpochRequest)
    pause = BEGIN_RETRY_MS if told_dead else m.settings.retry_backoff_ms
    m.inflight.pause(pending, m.now + pause)
    if isinstance(pending.request, VoteRequest):
        elections.on_vote_failed(m, pending, event.unsupported)
    elif isinstance(pending.request, (FetchRequest, SnapshotRequest)):
        following.on_fetch_failed(m, pending)
    elif isinstance(pending.request, EndEpochRequest):
        leading.on_end_failed(m, pending)
    elif isinstance(pending.request, FeaturesRequest):
        membership_change.on_features_failed(m, pending)


def _on_peer_gone(m: Machine, event: on.PeerGone) -> None:
    following.on_peer_gone(m, event.endpoint)


def _on_snapshot_taken(m: Machine, event: on.SnapshotTaken) -> None:
    m.log.snapshot_added(event.id)


def _on_log_cleaned(m: Machine, event: on.LogCleaned) -> None:
    m.log.advance_start(event.start_offset, event.earliest_snapshot)


_Handler = Callable[[Machine, Any], None]

_EVENTS: dict[type, _Handler] = {
    on.Tick: leading.on_tick,
    on.Asked: _on_asked,
    on.Gone: leading.on_gone,
    on.Answered: _on_answered,
    on.Failed: _on_failed,
    on.PeerGone: _on_peer_gone,
    on.Synced: leading.on_synced,
    on.Propose: leading.on_propose,
    on.Resign: leading.on_resign,
    on.UpgradeKraftVersion: membership_change.on_upgrade,
    on.SnapshotTaken: _on_snapshot_taken,
    on.SnapshotInstalled: following.on_snapshot_installed,
    on.SnapshotRefused: following.on_snapshot_refused,
    on.LogCleaned: _on_log_cleaned,
}

_CALM = frozenset({on.Propose, on.Synced, on.Asked, on.Answered})
"""Events after which there may be nothing new to do: see `Machine._is_calm`."""

_REQUESTS: dict[type, Callable[[Machine, int, Any], None]] = {
    VoteRequest: elections.on_vote_request,
    BeginEpochRequest: elections.on_begin_epoch,
    EndEpochRequest: elections.on_end_epoch,
    FetchRequest: leading.on_fetch,
    SnapshotRequest: leading.on_snapshot_request,
    DescribeRequest: leading.on_describe,
    AddVoterRequest: membership_change.on_add_voter,
    RemoveVoterRequest: membership_change.on_remove_voter,
    UpdateVoterRequest: membership_change.on_update_voter,
}

_ANSWERS: dict[type, Callable[[Machine, Pending, Any], None]] = {
    VoteRequest: elections.on_vote_answer,
    BeginEpochRequest: leading.on_begin_answer,
    EndEpochRequest: leading.on_end_answer,
    FetchRequest: following.on_fetch_answer,
    SnapshotRequest: following.on_snapshot_answer,
    AddVoterRequest: membership_change.on_own_change_answer,
    RemoveVoterRequest: membership_change.on_own_change_answer,
    UpdateVoterRequest: membership_change.on_own_change_answer,
    FeaturesRequest: membership_change.on_features_answer,
}

_POLLS: dict[type, _Handler] = {
    Unattached: following.poll_waiting,
    Voted: following.poll_waiting,
    Prospective: elections.poll_nominee,
    Candidate: elections.poll_nominee,
    Leader: leading.poll,
    Resigned: leading.poll_resigned,
    Follower: following.poll_follower,
    Observer: following.poll_observer,
}
