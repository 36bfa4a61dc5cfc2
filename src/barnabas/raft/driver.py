"""One replica of the metadata quorum in the world: performs the machine's effects through ports.

Owns ``<directory>/__cluster_metadata-0`` with its log, ``quorum-state`` and snapshots. A vote is durable
before any message that rests on it leaves; a leader counts its own log only as far as it is synced.
Proposals made in one turn of the loop travel in one batch, and while the disk is busy the next sync
collects what comes (group commit): nothing waits for a linger when nothing is under way.
What it does not do: decide (:mod:`barnabas.raft.machine`), interpret records (the `StateMachine`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from barnabas.ports import Ports, Wakeup
from barnabas.raft import effects as do
from barnabas.raft import events as on
from barnabas.raft import snapshots
from barnabas.raft.applying import Applier
from barnabas.raft.batches import control_batch, data_batch
from barnabas.raft.election_state import FILE_NAME
from barnabas.raft.fetched_snapshot import FetchedSnapshot
from barnabas.raft.machine import Machine
from barnabas.raft.messages import (
    FetchRequest,
    FetchResponse,
    ReadLog,
    ReadSnapshot,
    Request,
    Response,
    SnapshotResponse,
)
from barnabas.raft.opening import Opened, open_replica
from barnabas.raft.replica_log import RaftLog
from barnabas.raft.settings import ReplicaSettings
from barnabas.raft.snapshotting import Snapshotting
from barnabas.raft.state_machine import (
    BatchTooLargeError,
    NotLeaderError,
    OffsetAndEpoch,
    StateMachine,
)
from barnabas.raft.states import Leader, Resigned
from barnabas.raft.transport import Transport
from barnabas.raft.watching import LeaderWatch
from barnabas.raft.wire_form import request_to_wire, response_from_wire
from barnabas.types import Buffer, Endpoint
from barnabas.wire.errors import ErrorCode
from barnabas.wire.request import Parked
from barnabas.wire.schema import Message

RECORD_OVERHEAD_BYTES = 32
"""At most this much stands around a value in a batch."""
BATCH_OVERHEAD_BYTES = 61


class QuorumReplica:
    """A voter or an observer. `open` makes one, `start` begins; then everything is callbacks."""

    def __init__(
        self,
        ports: Ports,
        settings: ReplicaSettings,
        transport: Transport,
        state_machine: StateMachine,
        opened: Opened,
    ) -> None:
        self.settings = settings
        self.directory = opened.directory
        self._ports = ports
        self._transport = transport
        self._log: RaftLog = opened.log
        self._machine = Machine(
            settings,
            ports.rng("raft"),
            opened.shape,
            opened.history,
            opened.election,
            ports.clock.now_ms(),
        )
        later = ports.wakeups.call_soon
        self._applier = Applier(
            opened.log, state_machine, settings.node_id, opened.shape.start_offset, later
        )
        if opened.snapshot is not None:
            self._applier.load(opened.snapshot)
        self._snapshotting = Snapshotting(ports, settings, self, self._applier, state_machine)
        self._fetched = FetchedSnapshot(ports.disk, self.directory)
        self._watch = LeaderWatch(transport, self._on_peer_gone)
        self._effects: deque[do.Effect] = deque()
        self._waiting_for_disk = False
        self._pumping = False
        self._tickets: dict[int, Callable[[Response], None]] = {}
        self._next_ticket = 1
        self._proposals: list[Buffer] = []
        self._proposed_bytes = 0
        self._syncing = False
        self._sync_again = False
        self._log_generation = 0
        self._wakeup: Wakeup | None = None
        self._wakeup_at_ms = float("inf")
        self._on_shut_down: Callable[[], None] | None = None
        self._closed = False

    @classmethod
    def open(
        cls,
        ports: Ports,
        settings: ReplicaSettings,
        directory: str,
        transport: Transport,
        state_machine: StateMachine,
    ) -> QuorumReplica:
        """Open or create the log below `directory` (a metadata log dir, formatted before) and read
        what was persisted. Blocks on the disk. Raises ``OSError``, ``QuorumStateError``,
        ``CorruptSnapshotError``."""
        opened = open_replica(ports.disk, settings, directory)
        return cls(ports, settings, transport, state_machine, opened)

    # -- life ------------------------------------------------------------------------------------

    def start(self) -> None:
        """Load the latest snapshot and begin to take part. Callbacks follow from now on."""
        self._step(on.Tick())

    def shutdown(self, on_done: Callable[[], None], timeout_ms: float = 5_000) -> None:
        """Hand over where this is the leader (EndQuorumEpoch), sync, stop; at the latest after
        `timeout_ms`."""
        self._on_shut_down = on_done
        self._ports.wakeups.call_at(self._ports.clock.now_ms() + timeout_ms, self._finish_shutdown)
        self._step(on.Resign(for_good=True))
        self._maybe_shut_down()

    def _maybe_shut_down(self) -> None:
        state = self._machine.state
        told = isinstance(state, Resigned) and len(state.told) < len(self._machine.other_voters())
        if self._on_shut_down is not None and not told and not self._effects and not self._syncing:
            self._finish_shutdown()

    def _finish_shutdown(self) -> None:
        on_done, self._on_shut_down = self._on_shut_down, None
        if on_done is not None:
            self.close()
            on_done()

    def close(self) -> None:
        """Stop at once, as far as the world is concerned a crash with closed files."""
        if self._closed:
            return
        self._closed = True
        self._applier.stopped = True
        self._watch.close()
        if self._wakeup is not None:
            self._wakeup.cancel()
        self._log.close()

    # -- what everybody asks ---------------------------------------------------------------------

    @property
    def node_id(self) -> int:
        return self.settings.node_id

    @property
    def leader_id(self) -> int:
        """-1 where unknown. This node itself as soon as it is elected."""
        return self._machine.leader_id

    @property
    def leader_endpoint(self) -> Endpoint | None:
        """Where the leader's controller listener is."""
        return self._machine.leader_endpoint

    @property
    def epoch(self) -> int:
        return self._machine.epoch

    @property
    def is_active(self) -> bool:
        """Whether this node leads and its state machine has been told so."""
        return isinstance(self._machine.state, Leader) and self._applier.announced == (
            self.node_id,
            self._machine.epoch,
        )

    @property
    def high_watermark(self) -> int:
        """End of what is committed; -1 where not known yet in this run."""
        return self._machine.high_watermark

    @property
    def applied_offset(self) -> int:
        """End of what the state machine has been given (exclusive)."""
        return self._applier.applied_offset

    @property
    def log_end_offset(self) -> int:
        """Proposals that still wait for the end of the turn included."""
        return self._machine.log.end_offset + len(self._proposals)

    @property
    def log_start_offset(self) -> int:
        return self._machine.log.start_offset

    @property
    def log_size(self) -> int:
        """Bytes of the log on disk."""
        return self._log.size

    @property
    def machine(self) -> Machine:
        """To look at: for tools, tests and the simulator's checkers."""
        return self._machine

    def wall_time_of(self, instant_ms: float | None) -> int:
        """A monotonic instant as milliseconds since 1970; -1 for None."""
        if instant_ms is None:
            return -1
        clock = self._ports.clock
        return int(clock.wall_ms() - (clock.now_ms() - instant_ms))

    def voter_endpoints(self) -> dict[int, Endpoint]:
        """Of the present voter set, by node id."""
        name = self.settings.listener_name
        nodes = self._machine.voters.nodes.items()
        return {node_id: at for node_id, n in nodes if (at := n.endpoints.get(name)) is not None}

    def describe(self) -> dict[str, Any]:
        """State for tools, logs and tests."""
        machine = self._machine
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
            "snapshot": str(machine.log.latest_snapshot) if machine.log.latest_snapshot else None,
        }

    def __repr__(self) -> str:
        return f"QuorumReplica({self.describe()})"

    # -- proposing -------------------------------------------------------------------------------

    def append(self, values: Sequence[Buffer]) -> int:
        """Propose records that commit all or none, in one batch; the offset of the last one. Committed
        when `on_commit` has shown it (in the same epoch). Raises ``NotLeaderError``,
        ``BatchTooLargeError``."""
        if not self.is_active or self._closed:
            raise NotLeaderError(self.leader_id, self.epoch)
        size = sum(map(len, values)) + RECORD_OVERHEAD_BYTES * len(values)
        limit = self.settings.batch_bytes_max - BATCH_OVERHEAD_BYTES
        if size > limit or not values:
            raise BatchTooLargeError(f"{len(values)} values of {size} bytes, {limit} fit")
        if self._proposed_bytes + size > limit:
            self._drain()
        if not self._proposals:
            self._ports.wakeups.call_soon(self._drain)
        self._proposals += values
        self._proposed_bytes += size
        return self.log_end_offset - 1

    def _drain(self) -> None:
        """Append what was proposed since the last time as one batch."""
        if self._proposals and not self._closed:
            values, self._proposals = self._proposals, []
            self._proposed_bytes = 0
            machine = self._machine
            batch = data_batch(
                values, machine.log.end_offset, machine.epoch, self._ports.clock.wall_ms()
            )
            self._step(on.Propose(batch, len(values)))

    def resign(self, reason: str) -> None:
        """Give up leadership, where this is the leader: others are told at once."""
        self._ports.log("info", "raft.resign", node=self.node_id, epoch=self.epoch, reason=reason)
        self._step(on.Resign())

    # -- being asked -----------------------------------------------------------------------------

    def ask(self, request: Request, encode: Callable[[Response], Message]) -> Message | Parked:
        """Let the machine answer `request`; `encode` makes the wire's response of its answer."""
        return self._ask(lambda ticket: on.Asked(ticket, request), encode)

    def upgrade_kraft_version(
        self, level: int, encode: Callable[[Response], Message], *, validate_only: bool = False
    ) -> Message | Parked:
        """Make a static quorum dynamic (kraft.version 1); a `ChangeVoterResponse` is encoded."""
        return self._ask(
            lambda ticket: on.UpgradeKraftVersion(ticket, level, validate_only), encode
        )

    def _ask(
        self, event: Callable[[int], on.Event], encode: Callable[[Response], Message]
    ) -> Message | Parked:
        ticket = self._next_ticket
        self._next_ticket += 1
        parked = Parked()
        answer: list[Message] = []

        def at_once(response: Response) -> None:
            answer.append(encode(response))

        self._tickets[ticket] = at_once
        self._step(event(ticket))
        if answer:
            return answer[0]
        self._tickets[ticket] = lambda response: (parked.complete(encode(response)), None)[1]
        return parked

    # -- stepping --------------------------------------------------------------------------------

    def _step(self, event: on.Event) -> None:
        if self._closed:
            return
        self._drain()
        self._effects += self._machine.step(event, self._ports.clock.now_ms())
        self._pump()

    def step(self, event: on.Event) -> None:
        """An event from one of this replica's own parts."""
        self._step(event)

    def _pump(self) -> None:
        """Perform effects in order until one waits for the disk; then let the applier go on."""
        if self._pumping:
            return
        self._pumping = True
        try:
            while self._effects and not self._waiting_for_disk and not self._closed:
                effect = self._effects.popleft()
                _PERFORM[type(effect)](self, effect)
        finally:
            self._pumping = False
        if not self._closed:
            self._applier.run()
            self._snapshotting.maybe_begin()
            self._arm()
            if self._on_shut_down is not None:
                self._maybe_shut_down()

    def _arm(self) -> None:
        """One wake-up, at the machine's deadline or before."""
        due = self._machine.deadline_ms()
        if self._wakeup is not None:
            if self._wakeup_at_ms <= due:
                return
            self._wakeup.cancel()
            self._wakeup = None
        if due != float("inf"):
            self._wakeup_at_ms = max(due, self._ports.clock.now_ms())
            self._wakeup = self._ports.wakeups.call_at(self._wakeup_at_ms, self._on_wakeup)

    def _on_wakeup(self) -> None:
        self._wakeup = None
        if self._closed:
            return
        if self._machine.deadline_ms() <= self._ports.clock.now_ms():
            self._step(on.Tick())
        else:
            self._arm()

    def _on_peer_gone(self, endpoint: Endpoint) -> None:
        self._step(on.PeerGone(endpoint))

    # -- performing ------------------------------------------------------------------------------

    def _save_election(self, effect: do.SaveElection) -> None:
        path = f"{self.directory}/{FILE_NAME}"
        content = effect.election.to_json(effect.kraft_version, list(effect.voter_ids))

        def job() -> None:
            self._ports.disk.write_atomic(path, content)

        if effect.binding:
            self._wait_for("raft-election", job, lambda: None)
        else:
            self._ports.background.run("raft-election", job, self._on_saved)

    def _on_saved(self, result: object) -> None:
        if isinstance(result, BaseException) and not self._closed:
            self._halt(f"the quorum's directory {self.directory} failed: {result}")

    def _wait_for(self, queue: str, job: Callable[[], None], then: Callable[[], None]) -> None:
        """Hold all further effects until `job` is done; then go on with `then`."""
        self._waiting_for_disk = True

        def done(result: object) -> None:
            if self._closed:
                return
            if isinstance(result, BaseException):
                self._halt(f"the quorum's directory {self.directory} failed: {result}")
                return
            self._waiting_for_disk = False
            then()
            self._pump()

        self._ports.background.run(queue, job, done)

    def _halt(self, reason: str) -> None:
        self._ports.log("error", "raft.halt", node=self.node_id, reason=reason)
        self.close()
        self._ports.halt(reason)

    def _append(self, effect: do.Append) -> None:
        self._append_bytes(effect.records)

    def _append_control(self, effect: do.AppendControl) -> None:
        wall_ms = self._ports.clock.wall_ms()
        self._append_bytes(control_batch(effect.records, effect.base_offset, effect.epoch, wall_ms))

    def _append_bytes(self, records: Buffer) -> None:
        try:
            self._log.append(records)
        except OSError as error:
            self._halt(f"the quorum's log in {self.directory} failed: {error}")

    def _truncate(self, effect: do.Truncate) -> None:
        self._log_generation += 1
        self._ports.log("info", "raft.truncate", node=self.node_id, offset=effect.offset)
        self._log.truncate_to(effect.offset)

    def _sync(self, effect: do.Sync | None) -> None:
        if self._syncing:
            self._sync_again = True
            return
        self._syncing = True
        end, generation = self._log.end_offset, self._log_generation
        job, on_synced = self._log.sync_job()

        def done(result: object) -> None:
            self._syncing = False
            if self._closed:
                return
            if isinstance(result, BaseException):
                self._halt(f"the quorum's log in {self.directory} failed: {result}")
                return
            on_synced()
            if self._sync_again:
                self._sync_again = False
                self._sync(None)
            if generation == self._log_generation:
                self._step(on.Synced(end))
            else:
                self._sync_if_behind()

        self._ports.background.run("raft-log", job, done)

    def _sync_if_behind(self) -> None:
        """The log was cut while it was being synced: what that sync vouches for is not known."""
        if not self._syncing and self._machine.log.synced_offset < self._machine.log.end_offset:
            self._sync(None)

    def _send(self, effect: do.Send) -> None:
        request = effect.request
        fetching = isinstance(request, FetchRequest)
        timeout = self.settings.request_timeout_ms
        if isinstance(request, FetchRequest):
            timeout += request.max_wait_ms

        def on_done(answer: object) -> None:
            if isinstance(answer, Message):
                response = response_from_wire(request, answer, self._machine.epoch)
                self._step(on.Answered(effect.request_id, response))
            else:
                unsupported = getattr(answer, "kind", "") == "unsupported"
                self._step(on.Failed(effect.request_id, unsupported))

        self._transport.send(
            effect.endpoint,
            request_to_wire(request, self.settings.cluster_id, effect.node_id),
            on_done,
            timeout_ms=timeout,
            purpose="raft-fetch" if fetching else "raft",
        )

    def _reply(self, effect: do.Reply) -> None:
        waiter = self._tickets.pop(effect.ticket, None)
        if waiter is None:
            return
        response = effect.response
        if isinstance(response, FetchResponse) and isinstance(response.records, ReadLog):
            read = response.records
            records = self._log.read(read.offset, read.max_bytes, read.end_offset)
            response = response._replace(records=records)
        elif isinstance(response, SnapshotResponse) and isinstance(response.data, ReadSnapshot):
            response = self._read_snapshot(response, response.data)
        waiter(response)

    def _read_snapshot(self, response: SnapshotResponse, read: ReadSnapshot) -> SnapshotResponse:
        disk = self._ports.disk
        path = f"{self.directory}/{snapshots.file_name(read.snapshot)}"
        if not disk.exists(path):
            return response._replace(error=ErrorCode.SNAPSHOT_NOT_FOUND, data=b"")
        file = disk.open(path)
        try:
            size = file.size()
            if not 0 <= read.position < size:
                return response._replace(error=ErrorCode.POSITION_OUT_OF_RANGE, data=b"")
            return response._replace(size=size, data=file.read_at(read.position, read.max_bytes))
        finally:
            file.close()

    def _commit(self, effect: do.Commit) -> None:
        self._applier.on_commit(effect.offset)

    def _leader_is(self, effect: do.LeaderIs) -> None:
        self._ports.log(
            "info",
            "raft.leader",
            node=self.node_id,
            leader=effect.leader_id,
            epoch=effect.epoch,
            state=type(self._machine.state).__name__,
        )
        self._watch.watch(effect.endpoint if effect.leader_id != self.node_id else None)
        self._applier.on_leader(effect.leader_id, effect.epoch, effect.start_offset)

    def _store_snapshot(self, effect: do.StoreSnapshot) -> None:
        try:
            self._fetched.store(effect.id, effect.position, effect.data)
        except OSError as error:
            self._halt(f"the snapshot in {self.directory} cannot be written: {error}")

    def _install_snapshot(self, effect: do.InstallSnapshot) -> None:
        problems: list[str] = []

        def job() -> None:
            problem = self._fetched.finish(effect.id)
            if problem:
                problems.append(problem)

        def then() -> None:
            if problems:
                self._ports.log("warning", "raft.snapshot_refused", reason=problems[0])
                self._step(on.SnapshotRefused(effect.id))
                return
            self._log_generation += 1
            self._log.restart_at(effect.id.offset)
            path = f"{self.directory}/{snapshots.file_name(effect.id)}"
            snapshot = snapshots.SnapshotFile(self._ports.disk, path, effect.id)
            self._applier.load(snapshot)
            self._ports.log("info", "raft.snapshot_installed", node=self.node_id, id=str(effect.id))
            self._step(on.SnapshotInstalled(effect.id, snapshot.controls))

        self._wait_for("raft-log", job, then)

    def _perform_halt(self, effect: do.Halt) -> None:
        self._halt(effect.reason)

    def let_log_begin_at(self, snapshot: OffsetAndEpoch) -> None:
        """Delete log that `snapshot` makes superfluous: it is the oldest one that is kept."""
        self._log.delete_before(snapshot.offset)
        self._step(on.LogCleaned(self._log.start_offset, snapshot))


_PERFORM: dict[type, Callable[[QuorumReplica, Any], None]] = {
    do.SaveElection: QuorumReplica._save_election,
    do.Append: QuorumReplica._append,
    do.AppendControl: QuorumReplica._append_control,
    do.Truncate: QuorumReplica._truncate,
    do.Sync: QuorumReplica._sync,
    do.Send: QuorumReplica._send,
    do.Reply: QuorumReplica._reply,
    do.Commit: QuorumReplica._commit,
    do.LeaderIs: QuorumReplica._leader_is,
    do.StoreSnapshot: QuorumReplica._store_snapshot,
    do.InstallSnapshot: QuorumReplica._install_snapshot,
    do.Halt: QuorumReplica._perform_halt,
}
