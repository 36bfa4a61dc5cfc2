"""One replica of the metadata quorum in the world: steps the machine and lets its effects be performed.

Owns ``<directory>/__cluster_metadata-0`` with its log, ``quorum-state`` and snapshots. A vote is durable
before any message that rests on it leaves; a leader counts its own log only as far as it is synced.
Proposals made in one turn of the loop travel in one batch, and while the disk is busy the next sync
collects what comes (group commit): nothing lingers, unless the settings say so.
What it does not do: decide (:mod:`machine`), perform (:mod:`effect_executor`), interpret records (the
`StateMachine`).

Source: Kafka's ``KafkaRaftClient``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf
from typing import Any

from barnabas.ports import Ports
from barnabas.raft.bootstrap_snapshot import FIRST
from barnabas.raft.core import events as on
from barnabas.raft.core import leading
from barnabas.raft.core.machine import Machine
from barnabas.raft.core.messages import Request, Response
from barnabas.raft.core.states import Follower, Leader, Observer, Resigned
from barnabas.raft.metrics import QuorumMetrics
from barnabas.raft.runtime.applier import Applier
from barnabas.raft.runtime.batch_accumulator import BatchAccumulator
from barnabas.raft.runtime.deadline_timer import DeadlineTimer
from barnabas.raft.runtime.effect_executor import EffectExecutor
from barnabas.raft.runtime.replica_storage import ReplicaStorage
from barnabas.raft.runtime.request_tickets import RequestTickets
from barnabas.raft.runtime.response_reader import ResponseReader
from barnabas.raft.runtime.snapshotter import Snapshotter
from barnabas.raft.settings import ReplicaSettings
from barnabas.raft.state_machine import NotLeaderError, StateMachine
from barnabas.raft.storage.bootstrap import BootstrappedReplica, open_replica
from barnabas.raft.storage.replica_log import RaftLog
from barnabas.raft.transport import Transport
from barnabas.types import Buffer, Endpoint
from barnabas.wire.request import Parked
from barnabas.wire.schema import Message


class RaftNode:
    """A voter or an observer. `open` makes one, `start` begins; then everything is callbacks.

    `machine` is there to look at: for tools, tests and the simulator's checkers.
    """

    def __init__(
        self,
        ports: Ports,
        settings: ReplicaSettings,
        transport: Transport,
        state_machine: StateMachine,
        bootstrapped: BootstrappedReplica,
        begin_again: Callable[[str], None] | None = None,
    ) -> None:
        self.settings, self.node_id, self.begin_again = settings, settings.node_id, begin_again
        self.directory = bootstrapped.directory
        self.ports = ports
        self._now_ms = ports.clock.now_ms
        self._log = bootstrapped.log
        self.machine = machine = Machine(
            settings,
            ports.rng("raft"),
            bootstrapped.log_metadata,
            bootstrapped.history,
            bootstrapped.election,
            self._now_ms(),
        )
        self.metrics = QuorumMetrics(machine, ports.clock.now_ms())
        self._applier = Applier(
            bootstrapped.log,
            bootstrapped.log_metadata,
            state_machine,
            self.node_id,
            ports.wakeups.call_soon,
            self._on_disk_failed,
            ports.bounds.raft,
        )
        if bootstrapped.snapshot is not None and bootstrapped.snapshot.id != FIRST:
            self._applier.load(bootstrapped.snapshot)
        storage = ReplicaStorage(ports, self.directory, bootstrapped.log)
        self._snapshotting = Snapshotter(
            ports,
            storage,
            machine,
            self._applier,
            state_machine,
            self.step,
            self._on_disk_failed,
        )
        rot, doubt = self._snapshotting.on_rot, self._snapshotting.on_doubt
        log, shape = bootstrapped.log, bootstrapped.log_metadata
        self._tickets = RequestTickets(
            ResponseReader(ports.disk, self.directory, log, shape, rot, doubt)
        )
        self._executor = EffectExecutor(
            ports, storage, transport, machine, self._applier, self._tickets, self
        )
        self._accumulator = BatchAccumulator(
            ports, machine, settings.batch_bytes_max, settings.append_linger_ms, self.step
        )
        self._timer = DeadlineTimer(ports, machine.wakes_at_ms, lambda: self.step(on.Tick()))
        self._closed = False
        self._on_shut_down: Callable[[], None] | None = None

    @classmethod
    def open(
        cls,
        ports: Ports,
        settings: ReplicaSettings,
        directory: str,
        transport: Transport,
        state_machine: StateMachine,
        begin_again: Callable[[str], None] | None = None,
    ) -> RaftNode:
        """Open or create the log below `directory` (a metadata log dir, formatted before) and read
        what was persisted. Blocks on the disk. `begin_again` is called, with the reason, where the quorum is
        not the one whose log this observer has; without it, an observer whose committed records that quorum
        lacks ends. Raises ``OSError``, ``QuorumStateError``, ``CorruptSnapshotError``,
        ``CorruptLogError``."""
        opened = open_replica(ports.disk, settings, directory, bounds=ports.bounds)
        if opened.damaged_snapshot:
            reason = opened.damaged_snapshot
            ports.log("warning", "raft.snapshot_damaged", node=settings.node_id, reason=reason)
        if opened.fault:
            ports.log("warning", "raft.log_cut", node=settings.node_id, reason=opened.fault)
        return cls(ports, settings, transport, state_machine, opened, begin_again)

    # -- life ------------------------------------------------------------------------------------

    def start(self) -> None:
        """Load the latest snapshot and begin to take part. Callbacks follow from now on."""
        self._snapshotting.start()
        self.step(on.Tick())

    def shutdown(self, on_done: Callable[[], None], timeout_ms: float = 2_000) -> None:
        """Hand over where this is the leader (EndQuorumEpoch), sync, stop; at the latest after
        `timeout_ms`."""
        self._on_shut_down = on_done
        deadline = self.ports.clock.now_ms() + timeout_ms
        self.ports.wakeups.call_at(deadline, lambda: self._leave(True))
        self.step(on.Resign(for_good=True))

    def _leave(self, at_once: bool = False) -> None:
        """Finish a shutdown when the others know and everything is durable, or `at_once`."""
        on_done, state = self._on_shut_down, self.machine.state
        if on_done is None:
            return
        all_know = not isinstance(state, Resigned) or all(
            node in state.notified for node, _ in self.machine.other_voters()
        )
        if at_once or (all_know and self._executor.is_idle):
            self._on_shut_down = None
            self.close(clean=self._executor.is_idle)
            on_done()

    def close(self, *, clean: bool = False) -> None:
        """Stop at once, as far as the world is concerned a crash with closed files; `clean` writes
        what is written behind (indexes)."""
        if self._closed:
            return
        self._closed = True
        self._applier.stopped = True
        self._executor.close()
        self._timer.close()
        try:
            self._log.close(clean=clean)
            if clean:
                self._executor.finish()
        except OSError as error:  # what counts was synced before
            self.ports.log("error", "raft.close_failed", node=self.node_id, reason=str(error))

    def _on_disk_failed(self, error: Exception) -> None:
        self._executor.halt(f"the quorum's log in {self.directory} failed: {error}")

    # -- what everybody asks ---------------------------------------------------------------------

    @property
    def leader_id(self) -> int:
        """-1 where unknown. This node itself as soon as it is elected."""
        return self.machine.leader_id

    @property
    def silence_ms(self) -> float:
        """The time since this replica heard of the quorum: a leader from a majority, another from its
        leader. It is infinite where this replica follows no leader. A follower whose own log is being synced
        does not ask, so its leader is not silent."""
        state, now_ms = self.machine.state, self._now_ms()
        if isinstance(state, Leader):
            return state.progress_table.silence_ms(now_ms)
        if not isinstance(state, (Follower, Observer)) or state.leader_endpoint is None:
            return inf
        log = self.machine.log
        if log.synced_offset < log.end_offset:
            return 0.0
        return max(now_ms - (state.deadline_ms - self.settings.fetch_timeout_ms), 0.0)

    @property
    def leader_endpoint(self) -> Endpoint | None:
        """The address of the leader's controller listener."""
        return self.machine.leader_endpoint

    @property
    def epoch(self) -> int:
        return self.machine.epoch

    @property
    def kraft_version(self) -> int:
        """0: static voters; 1: the log says who votes (KIP-853)."""
        return self.machine.history.kraft_version

    @property
    def is_active(self) -> bool:
        """Whether this node leads and its state machine knows it."""
        machine = self.machine
        return type(machine.state) is Leader and self._applier.announced == (
            self.node_id,
            machine.epoch,
        )

    @property
    def high_watermark(self) -> int:
        """End of what is committed; -1 where not known yet in this run."""
        return self.machine.high_watermark

    @property
    def applied_offset(self) -> int:
        """End of what the state machine has been given (exclusive)."""
        return self._applier.applied_offset

    @property
    def log_end_offset(self) -> int:
        """Proposals that still wait for the end of the turn included."""
        return self.machine.log.end_offset + len(self._accumulator)

    @property
    def log_start_offset(self) -> int:
        return self.machine.log.start_offset

    @property
    def log(self) -> RaftLog:
        """The log itself, to look at."""
        return self._log

    @property
    def is_saving(self) -> bool:
        """Whether a vote, an epoch or a snapshot is on its way to the disk and holds what rests on it."""
        return self._executor.is_waiting_for_disk

    def describe(self) -> dict[str, Any]:
        """State for tools, logs and tests."""
        return self._summary() | {"metrics": self.metrics.describe(self.ports.clock.now_ms())}

    def _summary(self) -> dict[str, Any]:
        machine, snapshot = self.machine, self.machine.log.latest_snapshot
        return {
            "node": self.node_id,
            "state": type(machine.state).__name__,
            "epoch": machine.epoch,
            "leader": machine.leader_id,
            "voters": list(machine.voters),
            "kraft_version": machine.history.kraft_version,
            "high_watermark": machine.high_watermark,
            "applied": self._applier.applied_offset,
            "log": [machine.log.start_offset, machine.log.end_offset],
            "synced": machine.log.synced_offset,
            "snapshot": str(snapshot) if snapshot else None,
        }

    def __repr__(self) -> str:
        return f"RaftNode({self._summary()})"

    # -- proposing and answering -----------------------------------------------------------------

    def append(self, values: Sequence[Buffer]) -> int:
        """Propose records that commit all or none, in one batch; the offset of the last one. Committed
        when `on_commit` has shown it (in the same epoch). Raises ``NotLeaderError``,
        ``BatchTooLargeError``."""
        if self._closed or not self.is_active:
            raise NotLeaderError(self.leader_id, self.epoch)
        return self._accumulator.add(values)

    def resign(self, reason: str) -> None:
        """Give up leadership, where this is the leader, and notify the other voters at once."""
        self.ports.log("info", "raft.resign", node=self.node_id, epoch=self.epoch, reason=reason)
        self.step(on.Resign())

    def ask(self, request: Request, encode: Callable[[Response], Message]) -> Message | Parked:
        """Let the machine answer `request`; `encode` makes the wire's response of its answer."""
        return self._ask(on.Asked(self._tickets.next, request), encode)

    def upgrade_kraft_version(
        self, level: int, encode: Callable[[Response], Message], *, validate_only: bool = False
    ) -> Message | Parked:
        """Make a static quorum dynamic (kraft.version 1); a `ChangeVoterResponse` is encoded."""
        event = on.UpgradeKraftVersion(self._tickets.next, level, validate_only)
        return self._ask(event, encode)

    def _ask(
        self,
        event: on.Asked | on.UpgradeKraftVersion,
        encode: Callable[[Response], Message],
    ) -> Message | Parked:
        """`event` has the next ticket."""
        answer: list[Message] = []
        ticket = self._tickets.take(lambda response: answer.append(encode(response)))
        assert ticket == event.ticket
        self.step(event)
        if answer:
            return answer[0]
        parked = Parked()

        def complete(response: Response) -> None:
            parked.complete(encode(response))

        self._tickets.park(ticket, complete)
        return parked

    def tell_news(self) -> None:
        """After a commit: what was proposed by then has taken the news along, or there is none."""
        if self._closed:
            return
        self._accumulator.end_of_turn()
        if leading.owes_news(self.machine):
            self.step(on.Tick())

    # -- stepping --------------------------------------------------------------------------------

    def step(self, event: on.Event) -> None:
        """Let the machine decide on `event`, perform what follows, give the state machine what is
        committed. For this replica's own parts."""
        if self._closed:
            return
        proposals, machine, now_ms = self._accumulator, self.machine, self._now_ms
        if proposals.values and proposals.go_before(event):
            proposals.drain()
        begun_ms = now_ms()
        effects = machine.step(event, begun_ms)
        if proposals.values and not isinstance(machine.state, Leader):
            proposals.drop()
        if self._executor.perform(effects) and not self._closed:
            if proposals.values or self._applier.is_due():
                try:
                    with proposals:
                        self._applier.run()
                except Exception:  # a fault of the state machine; it votes and follows all the same
                    self._timer.arm(machine.wakes_at_ms())
                    raise
            if proposals.is_draining:
                return  # within another step, whose end follows
            if self._executor.tick_is_due:
                self._executor.tick_later(leading.owes_news(machine))
            self._snapshotting.maybe_begin(begun_ms)
            due_ms = machine.wakes_at_ms()
            if due_ms < self._timer.at_ms:
                self._timer.arm(due_ms)
            if self._on_shut_down is not None:
                self._leave()
            self.metrics.on_step(begun_ms, now_ms())
