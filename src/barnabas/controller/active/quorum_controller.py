"""The active controller: decide → append → replay → answer when committed.

`QuorumController` is a state machine of the quorum and replays the metadata log on every
controller. While this node leads the quorum, it is active: deciders work on its image, which then
also holds its own uncommitted records. When it loses leadership, it undoes these and answers the
waiting requests with NOT_CONTROLLER.

Everything runs on the node's thread. Long work (fencing a broker with many partitions) is cut
into slices, and requests are served between them. Meanwhile the broker is in `cluster.departing`, so
that no decision gives it leaderships.

The quorum calls `on_leader_change`, `on_commit`, `on_snapshot` and `snapshot`; the node calls
`on_connection_closed`. The controller arms its own wake-up for its next deadline.

Source: Kafka's ``QuorumController``.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

from barnabas.client.network.channels import Channels
from barnabas.config.node import NodeConfig
from barnabas.controller.active.broker_fencing import BrokerFencing
from barnabas.controller.active.broker_liveness import BrokerLiveness
from barnabas.controller.active.controller_registrar import ControllerRegistrar
from barnabas.controller.active.finalized_features import FinalizedFeatures
from barnabas.controller.active.first_records import first_decisions
from barnabas.controller.active.isr_backoff import IsrBackoff
from barnabas.controller.active.leader_balance import LeaderBalancer, LeaderSearch
from barnabas.controller.active.leaders_id_check import LeadersIdCheck
from barnabas.controller.active.refusals import Refusals
from barnabas.controller.active.unclean_recovery import QuerySender, UncleanRecovery
from barnabas.controller.brokers.broker_heartbeat import reconciled
from barnabas.controller.brokers.broker_registration import BrokerStanding
from barnabas.controller.brokers.broker_sessions import BrokerSessions
from barnabas.controller.decision import Decision
from barnabas.controller.decision_context import ControllerContext
from barnabas.controller.duties import Duty
from barnabas.controller.migration_state import (
    MigrationModeError,
    check_served,
    records_of_activation,
)
from barnabas.controller.quorum import DecidedBatch, Quorum
from barnabas.controller.security.change_audit import ChangeAudit
from barnabas.controller.security.delegation_tokens import TokenSettings
from barnabas.controller.security.token_expiry import TokenExpiry
from barnabas.limits import SLICE_MS
from barnabas.metadata.bootstrap_records import complete_bootstrap
from barnabas.metadata.features import METADATA_VERSION
from barnabas.metadata.image.bulk_partition_records import Replayable
from barnabas.metadata.image.codec import encode_records
from barnabas.metadata.image.image import MetadataImage
from barnabas.metadata.image.partition_states import count_states
from barnabas.metadata.image.snapshot import snapshot_values
from barnabas.metadata.records.abort_transaction_record import AbortTransactionRecord
from barnabas.policy import NO_POLICIES, Policies
from barnabas.ports import Ports, Wakeup, call_all, raise_soon
from barnabas.security.authorization.authorizer import authorizer_of
from barnabas.security.quotas.client_quotas import ClientQuotas, QuotaWindows
from barnabas.types import Buffer, Endpoint
from barnabas.wire.api_table import ApiKey
from barnabas.wire.dispatch import ApiTable
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.request import Api, Parked
from barnabas.wire.schema import Message

M = TypeVar("M", bound=Message)
AFTER_FAULT_MS = 1_000.0
"""Delay before the duties run again after one of them raised an unexpected exception."""
Work = Iterator[Decision[Any]]
"""Long work in slices: each decision is appended before the next one is made."""


_REFUSALS_NOTED = frozenset(
    {ApiKey.ALTER_PARTITION, ApiKey.BROKER_HEARTBEAT, ApiKey.ASSIGN_REPLICAS_TO_DIRS}
)
"""APIs whose deciders record their refusals themselves, or whose answers contain none."""


class _Waiting:
    """An answer that waits for an offset to be committed."""

    __slots__ = ("api", "offset", "parked", "request", "response")

    def __init__(
        self, offset: int, parked: Parked, response: Message, api: Api, request: Message
    ) -> None:
        self.offset = offset
        self.parked = parked
        self.response = response
        self.api = api
        self.request = request

    def refuse(self, code: ErrorCode, message: str) -> None:
        self.parked.complete(self.api.error_response(self.request, code, message))


def _context(
    ports: Ports, config: NodeConfig, quorum: Quorum, image: MetadataImage, policies: Policies
) -> ControllerContext:
    return ControllerContext(
        image,
        config.controller,
        config.properties,
        int(config.node_id),
        lambda: quorum.log_end_offset,
        policies,
        [int(voter.node_id) for voter in config.voters],
        lambda: quorum.kraft_version,
        ports.bounds.decisions,
    )


class QuorumController:
    """One node's controller; the role that handlers get."""

    def __init__(  # noqa: PLR0913 - keywords of the composition root
        self,
        ports: Ports,
        config: NodeConfig,
        quorum: Quorum,
        *,
        cluster_id: str,
        endpoints: Mapping[str, Endpoint],
        bootstrap: Sequence[Message] = (),
        sender: QuerySender | None = None,
        to_controllers: QuerySender | None = None,
        policies: Policies = NO_POLICIES,
        session_timeout_ms: float | None = None,
        migrates: bool = False,
        listener_metrics: Callable[[], Mapping[str, int]] = dict,
    ) -> None:
        """`endpoints`: this controller's advertised endpoints, by listener. `sender` sends requests
        to brokers (None: `Channels` made of `ports`), `to_controllers` to controllers (None: the
        same). `session_timeout_ms`: the session time-out of brokers (None: as configured).
        `migrates`: whether the cluster migrates to KRaft. `listener_metrics` has the counts of the
        node's listeners."""
        self.ports, self.config = ports, config
        self.node_id = int(config.node_id)
        self.quorum = quorum
        self.cluster_id, self.listener_metrics = cluster_id, listener_metrics
        self.image = MetadataImage(track_changes=False)
        self.cluster = _context(ports, config, quorum, self.image, policies)
        self.sessions = BrokerSessions(session_timeout_ms or config.controller.session_timeout_ms)
        self._migrates = migrates
        self.placement_rng, self.acl_rng, self.token_rng = map(
            ports.rng, ("controller.placement", "controller.acls", "controller.tokens")
        )
        self.tokens = TokenSettings.of(config)
        self.change_audit = ChangeAudit(ports.log, self.now_ms)
        self.authorizer = authorizer_of(config.properties, self.image, ports.log, self.now_ms)
        self.quotas = ClientQuotas(self.image, self.now_ms, QuotaWindows.of(config.properties))
        self.active_epoch: int | None = None
        """Quorum epoch in which this controller is active; None while it is not."""
        self.leader_id = -1
        self.epoch = -1
        self._bootstrap = list(bootstrap)
        self._waiting: deque[_Waiting] = deque()
        self._later: list[_Waiting] = []
        """Requests that are decided when their work in slices is done."""
        self._work: deque[Work] = deque()
        self._work_scheduled = False
        self._appending = False
        self._deferred: list[DecidedBatch] = []
        self._wakeup: Wakeup | None = None
        self._wakeup_ms, self.committed_offset = 0.0, -1
        self.finalized = FinalizedFeatures()
        self.forwarded_apis = ApiTable()
        """The APIs that an Envelope may carry; the listener's table and this one are filled
        together."""
        self.refusals = Refusals(self.wall_ms)
        self.isr_backoff = IsrBackoff(self.cluster, self.now_ms)
        self.fencing = BrokerFencing(self)
        self.liveness = BrokerLiveness(self, self.fencing.fence)
        self.rebalance, self.leader_search = LeaderBalancer(self), LeaderSearch(self)
        sender = sender or Channels(ports, f"controller-{config.node_id}")
        self.recovery = UncleanRecovery(self, sender, self.liveness.probe_endpoint)
        asker = to_controllers or sender
        self.registrar = ControllerRegistrar(self, asker, endpoints, migrates=migrates)
        self._leaders_id = LeadersIdCheck(self, asker)
        self.duties: tuple[Duty, ...] = (
            self.liveness, self.recovery, self.rebalance, self.leader_search,
            TokenExpiry(self, enabled=self.tokens.secrets.enabled),
        )  # fmt: skip

    # -- what the quorum says (the state machine's side) -------------------------------------------

    def on_leader_change(self, leader_id: int, epoch: int) -> None:
        """`leader_id` (-1: unknown) leads the quorum in `epoch`. The quorum names this node only when
        its own epoch has begun in the committed log and everything before is applied."""
        if (leader_id, epoch) == (self.leader_id, self.epoch):
            return
        if self.active_epoch is not None:
            self._resign(f"node {leader_id} leads the quorum in epoch {epoch}")
        self.leader_id, self.epoch = leader_id, epoch
        if leader_id >= 0:
            self._leaders_id.on_leader()
        if leader_id == self.node_id:
            if self.quorum.is_active:  # else the quorum's next report ends the leadership
                self._activate()
        elif leader_id >= 0:
            self.registrar.on_leader()

    def on_commit(
        self, batches: Sequence[DecidedBatch], staged: Sequence[Sequence[Replayable]] = ()
    ) -> None:
        """Batches were committed, in order of the log. `staged`: their content, where a caller has
        decoded it already."""
        if self._appending:
            self._deferred += batches
            return
        image = self.image
        for number, batch in enumerate(batches):
            last_offset = batch.last_offset
            if last_offset > image.offset:
                position = last_offset, batch.epoch, batch.append_timestamp
                if staged:
                    image.replay_batch(staged[number], *position)
                else:
                    image.replay_values(batch.values, *position)
            image.commit_to(last_offset)
            self.committed_offset = max(self.committed_offset, last_offset)
        if self.finalized.on_commit(image, self.committed_offset):
            self.registrar.on_levels()
        self.registrar.on_image()
        self._answer_committed()

    def on_snapshot_coming(self) -> None:
        """A snapshot is being read that will replace the state."""
        if self.active_epoch is not None:
            self._resign("a snapshot replaces the state")

    def on_snapshot(self, image: MetadataImage) -> None:
        """Replace the state by `image`, which was loaded from a snapshot."""
        self.image.become(image)
        self.committed_offset = self.image.offset
        self.finalized.on_snapshot(self.image)
        self.registrar.on_levels()
        self.registrar.on_image()

    def snapshot(self) -> Iterator[Sequence[Buffer]] | None:
        """The committed state in chunks of encoded records; it stays that of this moment while the log
        grows. None within a metadata transaction, and during an append: batches committed meanwhile are
        deferred, while the quorum counts them as applied."""
        return None if self._appending else snapshot_values(self.image)

    def _answer_committed(self) -> None:
        waiting = self._waiting
        while waiting and waiting[0].offset <= self.committed_offset:
            done = waiting.popleft()
            try:
                done.parked.complete(done.response)
            except Exception as fault:  # noqa: BLE001 - the requester's fault must not reach other requests
                raise_soon(self.ports.wakeups, fault)

    # -- becoming active and ceasing to be -------------------------------------------------------

    @property
    def is_active(self) -> bool:
        return self.active_epoch is not None

    @property
    def may_decide(self) -> bool:
        """Whether this controller is active and the quorum still accepts records; the quorum stops
        accepting them before it calls `on_leader_change`."""
        return self.active_epoch is not None and self.quorum.is_active

    def _activate(self) -> None:
        self.active_epoch = self.epoch
        self.ports.log("info", "controller.active", epoch=self.epoch, offset=self.image.offset)
        if self.image.transaction is not None:
            abort = AbortTransactionRecord(reason="a new controller ends what another began")
            self.commit(Decision(None, [abort]))
        is_first = METADATA_VERSION not in self.image.features
        try:
            states = records_of_activation(self.image, is_first=is_first, migrates=self._migrates)
        except MigrationModeError as error:
            self.ports.halt(str(error))
            return
        if is_first:
            first = complete_bootstrap(self._bootstrap, self.config.controller.min_insync_replicas)
            first += states
            bytes_max = self.config.metadata_log.batch_bytes_max
            for decision in first_decisions(first, self.image.metadata_version, bytes_max):
                self.commit(decision)
        elif states:
            self.commit(Decision(None, states, "the migration from ZooKeeper is final"))
        self.registrar.on_activation()
        for duty in self.duties:
            duty.on_activation()
        self.begin(reconciled(self.cluster, self.sessions))

    def _resign(self, reason: str) -> None:
        self.active_epoch = None
        if self._wakeup is not None:
            self._wakeup.cancel()
            self._wakeup = None
        self.ports.log("info", "controller.resigned", reason=reason, offset=self.image.offset)
        self._work.clear()
        self.cluster.departing.clear()
        self.cluster.arriving = None
        self.fencing.clear()
        for duty in self.duties:
            duty.clear()
        self.isr_backoff.clear()
        self.cluster.to_recover.clear()
        self.image.undo_uncommitted()
        self.finalized.on_resignation()
        waiting, self._waiting = [*self._waiting, *self._later], deque()
        self._later.clear()
        message = f"this controller resigned: {reason}"
        call_all(partial(one.refuse, ErrorCode.NOT_CONTROLLER, message) for one in waiting)

    def require_active(self) -> None:
        """Raises NOT_CONTROLLER, with the active controller's id if known, unless this one may decide."""
        if not self.may_decide:
            who = f"the active controller appears to be node {self.leader_id}"
            raise KafkaError(
                ErrorCode.NOT_CONTROLLER, who if self.leader_id >= 0 else "no controller is active"
            )

    # -- decisions -------------------------------------------------------------------------------

    def decide(
        self,
        api: Api,
        request: Message,
        decider: Callable[[ControllerContext], Decision[M]],
        on_appended: Callable[[Decision[M], int], None] | None = None,
    ) -> M | Parked:
        """Make a decision for a request. The answer waits until its records, and all earlier ones that it was
        based on, are committed. `on_appended` gets the decision and its offset. Raises KafkaError."""
        self.require_active()
        check_served(self.image, api.key)
        try:
            decision = decider(self.cluster)
        except KafkaError as error:
            self.refusals.add(api.key.name, error.code.name, error.message)
            raise
        if api.key not in _REFUSALS_NOTED:
            self.refusals.note_all(api.key.name, decision.response)
        last_offset = self.commit(decision)
        if decision.then is not None:
            return self._decide_later(api, request, decision, on_appended)
        if decision.work is not None:
            self.begin(decision.work)
        if on_appended is not None:
            on_appended(decision, last_offset)
        if last_offset <= self.committed_offset:
            return decision.response
        parked = Parked()
        self._waiting.append(_Waiting(last_offset, parked, decision.response, api, request))
        return parked

    def _decide_later(
        self,
        api: Api,
        request: Message,
        first: Decision[M],
        on_appended: Callable[[Decision[M], int], None] | None,
    ) -> Parked:
        """Run the first decision's work in slices, then make and commit the decision that is answered."""
        parked = Parked()
        later = _Waiting(-1, parked, first.response, api, request)
        self._later.append(later)

        def slices() -> Work:
            assert first.then is not None
            try:
                if first.work is not None:
                    yield from first.work
                decision = first.then(self.cluster)
                later.offset = self.commit(decision)
            except KafkaError as error:
                self._later.remove(later)
                self.refusals.add(api.key.name, error.code.name, error.message)
                later.refuse(error.code, error.message)
                return
            except Exception as error:
                self._later.remove(later)
                later.refuse(ErrorCode.UNKNOWN_SERVER_ERROR, type(error).__name__)
                raise
            self._later.remove(later)
            self.refusals.note_all(api.key.name, decision.response)
            later.response = decision.response
            if on_appended is not None:
                on_appended(decision, later.offset)
            self._waiting.append(later)
            self._answer_committed()

        self.begin(slices())
        return parked

    def commit(self, decision: Decision[Any]) -> int:
        """Append and apply the records. Returns the offset whose commit makes the decision final; for a
        decision without records, that of the newest record it may be based on."""
        if not decision.size:
            if self.cluster.to_recover:
                self._schedule_recovery()
            return self.image.offset
        values: Sequence[bytes]
        replayed: Sequence[Replayable]
        if decision.prepared is not None:
            values, replayed = decision.prepared
        else:
            replayed = decision.records
            values = encode_records(decision.records, self.image.metadata_version)
        self._appending = True
        try:
            last_offset = self.quorum.append(values)
            self.image.apply_uncommitted(replayed, last_offset, self.epoch, self.wall_ms())
        finally:
            self._appending = False
        if decision.reason:
            self.ports.log(
                "info", "controller.decided", reason=decision.reason, records=decision.size
            )
        if self.cluster.to_recover:
            self._schedule_recovery()
        if self._deferred:
            deferred, self._deferred = self._deferred, []
            self.on_commit(deferred)
        return last_offset

    def standing(self, broker: int) -> BrokerStanding:
        """The facts on which the registration of `broker` depends beside the image."""
        session = self.sessions.get(broker)
        return BrokerStanding(
            self.cluster_id,
            self.sessions.is_valid(broker, self.now_ms()),
            session is not None and session.connection_open,
            self.wall_ms(),
        )

    def _schedule_recovery(self) -> None:
        keys, self.cluster.to_recover = self.cluster.to_recover, {}

        def begin() -> None:
            if self.may_decide:
                self.recovery.begin(keys)

        self.ports.wakeups.call_soon(begin)

    # -- work in slices --------------------------------------------------------------------------

    def begin(self, work: Work) -> None:
        """Queue long work; it runs slice by slice after the work queued before."""
        self._work.append(work)
        self._schedule_work()

    def _schedule_work(self) -> None:
        if self._work and not self._work_scheduled:
            self._work_scheduled = True
            self.ports.wakeups.call_soon(self._run_slice)

    def _run_slice(self) -> None:
        """Run steps for some milliseconds, at most a fixed number (a simulated clock does not advance within
        a turn)."""
        self._work_scheduled = False
        until_ms = self.now_ms() + SLICE_MS
        try:
            for _ in range(self.cluster.bounds.slices_per_turn):
                if not self._work or not self.may_decide:
                    break
                self._take_step(self._work[0])
                if self.now_ms() >= until_ms:
                    break
        finally:  # if one job raises, the others continue
            if self.cluster.to_recover and self.may_decide:
                self._schedule_recovery()
            if self.may_decide:
                self._schedule_work()

    def _take_step(self, work: Work) -> None:
        """Commit the next decision of `work`, the first in the queue; drop it when it ended or raised."""
        has_more = False
        try:
            decision = next(work, None)
            if decision is not None:
                self.commit(decision)
                has_more = True
        finally:
            if not has_more and self._work and self._work[0] is work:
                self._work.popleft()

    # -- time and connections --------------------------------------------------------------------

    def now_ms(self) -> float:
        return self.ports.clock.now_ms()

    def wall_ms(self) -> int:
        return self.ports.clock.wall_ms()

    def arm(self, deadline_ms: float | None) -> None:
        """Arm the wake-up for `deadline_ms`, unless it is armed for an earlier time."""
        if deadline_ms is None or (self._wakeup is not None and self._wakeup_ms <= deadline_ms):
            return
        if self._wakeup is not None:
            self._wakeup.cancel()
        self._wakeup_ms = deadline_ms
        self._wakeup = self.ports.wakeups.call_at(deadline_ms, self._on_wakeup)

    def _on_wakeup(self) -> None:
        self._wakeup = None
        if not self.may_decide:
            return
        now_ms = self.now_ms()
        try:
            call_all(partial(duty.on_time, now_ms) for duty in self.duties)
        except Exception:
            # Not at once: the deadline of the failed duty has passed.
            self.arm(now_ms + AFTER_FAULT_MS)
            raise
        for duty in self.duties:
            self.arm(duty.deadline_ms())

    def on_connection_closed(self, connection_id: int) -> None:
        """A connection to this controller's listener ended."""
        broker = self.sessions.connection_closed(connection_id)
        if broker is not None and self.is_active:
            self.liveness.on_broker_connection_closed(broker)

    def backlog(self) -> dict[str, int]:
        """Sizes of this controller's queues, as metrics."""
        return {
            "WaitingAnswers": len(self._waiting) + len(self._later),
            "WorkInSlices": len(self._work),
            "DepartingBrokers": len(self.cluster.departing),
            "RememberedRefusals": len(self.refusals),
        }

    def validate(self) -> None:
        """Invariants 4, 5, 8 and 12 in this controller's image. Raises AssertionError."""
        offsets = [waiting.offset for waiting in self._waiting]
        assert offsets == sorted(offsets), f"answers are out of order: {offsets}"
        assert not offsets or offsets[0] > self.committed_offset, f"{offsets[0]} is committed"
        if self.active_epoch is None:
            assert not self.image.uncommitted, f"{self!r} keeps what it may not decide"
            assert not self._waiting and not self._later, f"{self!r} still answers"
        self.image.validate()

    def describe(self) -> dict[str, object]:
        """A summary for people, metrics and logs."""
        return {
            "active": self.is_active,
            "leader": self.leader_id,
            "epoch": self.epoch,
            "offset": self.image.offset,
            "committed_offset": self.committed_offset,
            "waiting": len(self._waiting),
            "work": len(self._work),
            "departing": dict(self.cluster.departing),
            "partitions": count_states(self.image.topics_by_id.values()),
            "refusals": len(self.refusals),
        }

    def __repr__(self) -> str:
        state = "active" if self.is_active else "standby"
        return f"QuorumController({state}, epoch={self.epoch}, offset={self.image.offset})"
