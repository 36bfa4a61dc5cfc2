"""Performs the machine's effects through ports, in their order.

Effects wait in one queue. A binding `SaveElection` and an `InstallSnapshot` hold all effects behind them
until they are durable, whichever step those came from; a `Sync` does not: it comes back as an event. A disk
error ends the node, for its state can no longer be trusted.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, Protocol

from barnabas.log.errors import CorruptLogError
from barnabas.ports import Ports
from barnabas.raft.core import effects as do
from barnabas.raft.core import events as on
from barnabas.raft.core.batches import control_batch
from barnabas.raft.core.election_state import FILE_NAME
from barnabas.raft.core.machine import Machine
from barnabas.raft.core.messages import FetchRequest, SnapshotRequest
from barnabas.raft.metrics import QuorumMetrics
from barnabas.raft.runtime.applier import Applier
from barnabas.raft.runtime.leader_probe import LeaderProbe
from barnabas.raft.runtime.peer_refusals import Strangers
from barnabas.raft.runtime.replica_storage import ReplicaStorage
from barnabas.raft.runtime.request_tickets import RequestTickets
from barnabas.raft.storage import snapshot_files
from barnabas.raft.transport import ASKING, FETCHING, Transport
from barnabas.raft.wire.fetch_codec import FetchMessage
from barnabas.raft.wire.wire_mapping import request_to_wire, response_from_wire
from barnabas.record.batch import CorruptBatchError
from barnabas.wire.errors import ErrorCode
from barnabas.wire.schema import Message

_DISK_FAULTS = (OSError, CorruptLogError, CorruptBatchError)


class SteppedReplica(Protocol):
    """The replica whose effects are performed."""

    @property
    def metrics(self) -> QuorumMetrics: ...
    @property
    def begin_again(self) -> Callable[[str], None] | None:
        """Called, in the next turn, where the quorum is another one; None: the replica ends then."""

    def step(self, event: on.Event, /) -> None:
        """Take an event back."""

    def tell_news(self) -> None:
        """Called in the turn after a `TickSoon`."""

    def close(self) -> None:
        """Called before the node halts."""


class EffectExecutor:
    """The hands of one replica."""

    def __init__(
        self,
        ports: Ports,
        storage: ReplicaStorage,
        transport: Transport,
        machine: Machine,
        applier: Applier,
        tickets: RequestTickets,
        replica: SteppedReplica,
    ) -> None:
        self._ports = ports
        self._settings = machine.settings
        self._storage, self._directory, self._log = storage, storage.directory, storage.log
        self._transport = transport
        self._machine = machine
        self._applier = applier
        self._tickets = tickets
        self._replica, self._metrics, self._step = replica, replica.metrics, replica.step
        self._leader_probe = LeaderProbe(
            transport, lambda endpoint: self._step(on.PeerGone(endpoint))
        )
        self._strangers = Strangers(ports, self._directory, transport, machine, self.halt)
        self._effects: deque[do.Effect] = deque()
        self._waiting_for_disk = False
        self._performing = False
        self._syncing = False
        self._sync_again = self._sync_comes = False
        self.tick_is_due = False
        """Whether a `TickSoon` was performed since `tick_later` was asked."""
        self._tick_comes = False
        self._closed = False

    @property
    def is_idle(self) -> bool:
        """Whether everything asked for so far is done and durable."""
        return not (self._effects or self._syncing or self._sync_comes or self._waiting_for_disk)

    @property
    def is_waiting_for_disk(self) -> bool:
        return self._waiting_for_disk

    def close(self) -> None:
        self._closed = True
        self._leader_probe.close()

    def finish(self) -> None:
        """Behind the last sync of a clean shutdown: say how far the log is on disk. Raises ``OSError``."""
        if self._settings.can_vote:
            self._storage.recovery_point.finish(self._machine.log.synced_offset)

    def perform(self, effects: Iterable[do.Effect]) -> bool:
        """Queue `effects` and perform what need not wait. False where this was called from within
        itself and the outer call continues."""
        self._effects += effects
        if self._performing:
            return False
        if not self._effects:
            return True
        self._performing = True
        try:
            while self._effects and not self._waiting_for_disk and not self._closed:
                effect = self._effects.popleft()
                _PERFORM[type(effect)](self, effect)
        except _DISK_FAULTS as error:
            self._failed(error)
        finally:
            self._performing = False
        return True

    def _wait_for(self, queue: str, job: Callable[[], None], then: Callable[[], None]) -> None:
        """Hold all further effects until `job` is done; then continue with `then`."""
        self._waiting_for_disk = True

        def done(result: object) -> None:
            if self._closed or self._failed(result):
                return
            self._waiting_for_disk = False
            try:
                then()
            except (OSError, snapshot_files.CorruptSnapshotError) as error:
                self._failed(error)
                return
            self._step(on.Tick())

        self._ports.background.run(queue, job, done)

    def _failed(self, result: object) -> bool:
        if isinstance(result, BaseException):
            self.halt(f"the quorum's directory {self._directory} failed: {result}")
            return True
        return False

    def _check(self, result: object) -> None:
        if not self._closed:
            self._failed(result)

    def halt(self, reason: str) -> None:
        """End the node as a crash would."""
        self._ports.log("error", "raft.halt", node=self._settings.node_id, reason=reason)
        self._replica.close()
        self._ports.halt(reason)

    # -- disk ------------------------------------------------------------------------------------

    def _save_election(self, effect: do.SaveElection) -> None:
        path = f"{self._directory}/{FILE_NAME}"
        content = effect.election.to_json(effect.kraft_version, list(effect.voter_ids))

        def job() -> None:
            self._ports.disk.write_atomic(path, content)

        if effect.binding:
            self._wait_for("raft-election", job, lambda: None)
        else:
            self._ports.background.run("raft-election", job, self._check)

    def _append(self, effect: do.Append) -> None:
        self._storage.append(effect.records, effect.base_offset)
        self._note_append(effect.base_offset)

    def _note_append(self, base_offset: int) -> None:
        end = self._log.end_offset
        self._metrics.on_append(end - base_offset, end, self._machine.now)

    def _append_control(self, effect: do.AppendControl) -> None:
        wall_ms = self._ports.clock.wall_ms()
        batch = control_batch(effect.records, effect.base_offset, effect.epoch, wall_ms)
        self._storage.append(batch, effect.base_offset)
        self._note_append(effect.base_offset)

    def _truncate(self, effect: do.Truncate) -> None:
        self._ports.log("info", "raft.truncate", node=self._settings.node_id, offset=effect.offset)
        self._storage.truncate_to(effect.offset)

    def _sync(self, effect: do.Sync) -> None:
        if not effect.after_answers:
            self._sync_now()
        elif not self._sync_comes:
            self._sync_comes = True
            self._ports.wakeups.call_soon(self._sync_at_last)

    def _sync_at_last(self) -> None:
        self._sync_comes = False
        if not self._closed:
            self._sync_now()

    def _sync_now(self) -> None:
        if self._syncing:
            self._sync_again = True
            return
        storage, end, cuts = self._storage, self._log.end_offset, self._storage.cuts
        try:
            job, on_synced = self._log.sync_job()
        except _DISK_FAULTS as error:  # it writes indexes, and not only `perform` comes by here
            self._failed(error)
            return
        self._syncing = True

        def done(result: object) -> None:
            self._syncing = False
            if self._closed or self._failed(result):
                return
            on_synced()
            if cuts == storage.cuts and self._settings.can_vote:
                voters_offset = self._machine.history.voters_offset
                storage.recovery_point.update(end, -1 if voters_offset is None else voters_offset)
            if self._sync_again:
                self._sync_again = False
                self._sync_now()
            if cuts == storage.cuts:
                self._step(on.Synced(end))
            elif self._machine.log.synced_offset < self._machine.log.end_offset:
                # The log was cut while it was being synced: that sync vouches for nothing.
                self._sync_now()

        self._ports.background.run_brief("raft-log", job, done)

    # -- network ---------------------------------------------------------------------------------

    def _send(self, effect: do.Send) -> None:
        request, cluster_id = effect.request, self._settings.cluster_id
        timeout, purpose = self._settings.request_timeout_ms, ASKING
        message: Message
        if type(request) is FetchRequest:
            timeout, purpose = timeout + request.max_wait_ms, FETCHING
            message = FetchMessage(request, cluster_id)
        else:
            # Answers come in the order of the requests, and that to AddVoter waits for what is fetched.
            if type(request) is SnapshotRequest:
                purpose = FETCHING
            message = request_to_wire(request, cluster_id, effect.node_id)

        def on_done(answer: object) -> None:
            if self._closed:
                return
            if isinstance(answer, Message):
                response = response_from_wire(request, answer, self._machine.epoch)
                self._strangers.on_answer(effect.endpoint, request, response.error)
                self._step(on.Answered(effect.request_id, response))
            else:
                unsupported = getattr(answer, "kind", "") == "unsupported"
                if unsupported:
                    why = ErrorCode.UNSUPPORTED_VERSION
                    self._strangers.on_answer(effect.endpoint, request, why)
                self._step(on.Failed(effect.request_id, unsupported))

        self._transport.send(effect.endpoint, message, on_done, timeout_ms=timeout, purpose=purpose)

    def _reply(self, effect: do.Reply) -> None:
        self._tickets.answer(effect.ticket, effect.response)

    # -- the state machine -----------------------------------------------------------------------

    def _commit(self, effect: do.Commit) -> None:
        self._metrics.on_commit(effect.offset, self._machine.now)
        self._applier.on_commit(effect.offset)

    def _leader_is(self, effect: do.LeaderIs) -> None:
        node = self._settings.node_id
        self._ports.log(
            "info",
            "raft.leader",
            node=node,
            leader=effect.leader_id,
            epoch=effect.epoch,
            state=type(self._machine.state).__name__,
        )
        self._metrics.on_leader()
        self._strangers.on_leader(effect.leader_id)
        self._leader_probe.watch(effect.endpoint if effect.leader_id != node else None)
        self._applier.on_leader(effect.leader_id, effect.epoch, effect.start_offset)

    # -- snapshots -------------------------------------------------------------------------------

    def _store_snapshot(self, effect: do.StoreSnapshot) -> None:
        self._storage.fetched.store(effect.id, effect.position, effect.data)

    def _install_snapshot(self, effect: do.InstallSnapshot) -> None:
        problems: list[str] = []

        def job() -> None:
            problem = self._storage.fetched.finish(effect.id)
            if problem:
                problems.append(problem)

        def then() -> None:
            if problems:
                self._ports.log("warning", "raft.snapshot_refused", reason=problems[0])
                self._step(on.SnapshotRefused(effect.id))
                return
            self._storage.restart_at(effect.id.offset)
            path = f"{self._directory}/{snapshot_files.file_name(effect.id)}"
            ports = self._ports
            snapshot = snapshot_files.SnapshotFile(ports.disk, path, effect.id, ports.bounds.raft)
            self._applier.load(snapshot)
            node = self._settings.node_id
            self._ports.log("info", "raft.snapshot_installed", node=node, id=str(effect.id))
            self._step(on.SnapshotInstalled(effect.id, snapshot.controls))

        self._wait_for("raft-log", job, then)

    def _tick_soon(self, effect: do.TickSoon) -> None:
        self.tick_is_due = True

    def tick_later(self, is_needed: bool) -> None:
        """At the end of a step: what was proposed within it may have taken the news along."""
        if self.tick_is_due:
            self.tick_is_due = False
            if is_needed and not self._tick_comes:
                self._tick_comes = True
                self._ports.wakeups.call_soon(self._tick)

    def _tick(self) -> None:
        self._tick_comes = False
        self._replica.tell_news()

    def _leave_other_quorum(self, effect: do.Halt | do.QuorumReplaced) -> None:
        reason, begin_again = effect.reason, self._replica.begin_again
        if begin_again is not None:
            self._ports.wakeups.call_soon(lambda: begin_again(reason))
        elif isinstance(effect, do.Halt):
            self.halt(reason)
        else:
            self._strangers.on_other_quorum(reason)


_PERFORM: dict[type, Callable[[EffectExecutor, Any], None]] = {
    do.SaveElection: EffectExecutor._save_election,
    do.Append: EffectExecutor._append,
    do.AppendControl: EffectExecutor._append_control,
    do.Truncate: EffectExecutor._truncate,
    do.Sync: EffectExecutor._sync,
    do.Send: EffectExecutor._send,
    do.Reply: EffectExecutor._reply,
    do.Commit: EffectExecutor._commit,
    do.LeaderIs: EffectExecutor._leader_is,
    do.StoreSnapshot: EffectExecutor._store_snapshot,
    do.InstallSnapshot: EffectExecutor._install_snapshot,
    do.TickSoon: EffectExecutor._tick_soon,
    do.Halt: EffectExecutor._leave_other_quorum,
    do.QuorumReplaced: EffectExecutor._leave_other_quorum,
}
