"""A replicated tree with sessions and watches on one replica: the way in for users of the recipes.

`Store` is the replica's `StateMachine`. Changes go to the leader, wherever they are asked for; `on_done` gets
the result, a `RefusedError` where the command met something else, or a `ProposalError`. Invariants: a
`RefusedError` changed nothing; a definite `ProposalError` changed nothing; an indefinite one may have, and
conditional commands (by version, by a key that must not exist) make it safe to ask again.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from barnabas.ports import Listener, Ports, call_all
from barnabas.raft.raft_node import RaftNode
from barnabas.raft.recipes.calling import (
    PROPOSAL_RETRY_MS,
    Answer,
    MalformedFrameError,
    PeerClient,
    ProposalError,
    Reply,
    serve,
)
from barnabas.raft.recipes.confirming import Confirmation
from barnabas.raft.recipes.session import Session, SessionClock
from barnabas.raft.recipes.tree import Applied, Change, RefusedError, Tree, decode, encode
from barnabas.raft.state_machine import CommittedBatch, NotLeaderError, SnapshotReader
from barnabas.types import Buffer, Endpoint

OnDone = Callable[[Any], None]
OnChange = Callable[[Change], None]


COMMAND_BYTES_MAX = 512 * 1024
"""Size of one change in its encoding in the log, where values are base64."""
ANSWER_WITHIN_MS = 10_000.0
"""A leader that is silent for longer has not answered. Most often another leads before that."""


class _Waiting(NamedTuple):
    offset: int
    epoch: int
    on_done: OnDone


class PendingProposals:
    """Proposals of this replica as leader, in the order of their offsets, until they are committed."""

    def __init__(self, call: Callable[..., None]) -> None:
        """`call` calls back and logs an exception."""
        self._call = call
        self._waiting: list[_Waiting] = []

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, offset: int, epoch: int, on_done: OnDone) -> None:
        self._waiting.append(_Waiting(offset, epoch, on_done))

    def complete(self, offset: int, epoch: int, result: object) -> None:
        """Complete the proposal at `offset` in `epoch` with `result`; earlier proposals were replaced."""
        while self._waiting and self._waiting[0].offset <= offset:
            waiting = self._waiting.pop(0)
            mine = waiting.offset == offset and waiting.epoch == epoch
            lost = ProposalError("another leader took its place", definite=True)
            self._call(waiting.on_done, result if mine else lost)

    def fail_all(self, why: str) -> None:
        """They may be committed yet, under another leader."""
        waiting, self._waiting = self._waiting, []
        for item in waiting:
            self._call(item.on_done, ProposalError(why, definite=False))

    def validate(self) -> None:
        """Raises AssertionError."""
        offsets = [waiting.offset for waiting in self._waiting]
        assert offsets == sorted(offsets), f"answers are out of order: {offsets}"


class Store:
    """One replica's view of the tree. Give it to `RaftNode.open`, then `attach` the replica."""

    def __init__(self, ports: Ports) -> None:
        self.tree = Tree()
        self.ports = ports
        self._replica: RaftNode | None = None
        self._peers: Mapping[int, Endpoint] = {}
        self._peer_client = PeerClient(ports)
        self._listener: Listener | None = None
        self._pending = PendingProposals(self.call)
        self._watches: list[tuple[str, OnChange]] = []
        self._leader_callbacks: list[Callable[[int], None]] = []
        self._closed = False
        self.clock = SessionClock(self, Confirmation(self))

    def attach(self, replica: RaftNode, peers: Mapping[int, Endpoint]) -> None:
        """`peers` says where each voter's store is called, this one's own included (it listens
        there). Raises ``OSError`` where the address is taken."""
        self._replica, self._peers = replica, peers
        own = peers.get(replica.node_id)
        if own is not None:
            self._listener = serve(self.ports.network, own, self._on_call)

    def close(self) -> None:
        """Take no part any more; what waits is answered, and sessions of this store end by their
        time-outs."""
        self._closed = True
        if self._listener is not None:
            self._listener.close()
        call_all(
            (
                self._peer_client.close,
                self.clock.close,
                partial(self._pending.fail_all, "the store was closed"),
            )
        )

    @property
    def replica(self) -> RaftNode:
        assert self._replica is not None, "attach first"
        return self._replica

    @property
    def leads(self) -> bool:
        return self._replica is not None and self._replica.is_active and not self._closed

    # -- changing --------------------------------------------------------------------------------

    def create(
        self,
        key: str,
        value: bytes,
        on_done: OnDone,
        *,
        session: int = 0,
        sequential: bool = False,
    ) -> None:
        """A key that must not exist; the result is its name, to which `sequential` adds a number that
        grows with every record. With `session` it goes when that ends."""
        command = {"do": "create", "key": key, "value": value}
        self.propose({**command, "session": session, "sequential": sequential}, on_done)

    def put(self, key: str, value: bytes, on_done: OnDone, *, version: int = -1) -> None:
        """Write; only over `version` where one is given. The result is the new version."""
        self.propose({"do": "put", "key": key, "value": value, "version": version}, on_done)

    def delete(self, key: str, on_done: OnDone, *, version: int = -1) -> None:
        self.propose({"do": "delete", "key": key, "version": version}, on_done)

    def barrier(self, on_done: OnDone) -> None:
        """Done when all that was committed before is visible here."""

        def committed(result: Any) -> None:
            if isinstance(result, Exception):
                on_done(result)
            else:
                self._when_applied(int(result), on_done)

        self.propose({"do": "barrier"}, committed)

    def open_session(self, timeout_ms: int, on_done: OnDone) -> None:
        """The result is a `Session`, which keeps itself alive from then on; an indefinite
        ``ProposalError`` where the answer came later than its time-out."""
        asked_ms = self.ports.clock.now_ms()

        def opened(result: Any) -> None:
            if isinstance(result, Exception):
                on_done(result)
            elif self.ports.clock.now_ms() - asked_ms >= timeout_ms:
                self.propose({"do": "end", "session": result}, lambda ended: None)
                on_done(ProposalError("the session may be over already", definite=False))
            else:
                on_done(Session(self, result, timeout_ms, asked_ms))

        self.propose({"do": "open", "timeout_ms": timeout_ms}, opened)

    def propose(self, command: Mapping[str, Any], on_done: OnDone) -> None:
        """Any command of the tree: here where this replica leads, otherwise through the leader."""
        encoded = encode(command)
        if len(encoded) > COMMAND_BYTES_MAX:
            on_done(RefusedError("too large", str(command.get("key", ""))))
        elif self.leads:
            try:
                offset = self.replica.append([encoded])
            except NotLeaderError as error:
                on_done(ProposalError(str(error), definite=True))
            else:
                self._pending.add(offset, self.replica.epoch, on_done)
        else:
            self._forward({"propose": encoded.decode()}, on_done, ANSWER_WITHIN_MS)

    def insist(
        self,
        command: Mapping[str, Any],
        on_done: OnDone,
        is_wanted: Callable[[], bool] = lambda: True,
    ) -> None:
        """Propose until there is an answer, or `is_wanted` no more (then `on_done` gets the last error).
        For what may be done twice."""

        def answered(result: Any) -> None:
            if not isinstance(result, ProposalError) or self._closed or not is_wanted():
                on_done(result)
            else:
                due = self.ports.clock.now_ms() + PROPOSAL_RETRY_MS
                self.ports.wakeups.call_at(due, lambda: self.insist(command, on_done, is_wanted))

        self.propose(command, answered)

    def _forward(self, message: dict[str, Any], on_done: OnDone, timeout_ms: float) -> None:
        if self._closed:
            on_done(ProposalError("the store is closed", definite=True))
            return
        endpoint = self._peers.get(self.replica.leader_id)
        if endpoint is None or self.replica.leader_id == self.replica.node_id:
            on_done(ProposalError("no replica leads at the moment", definite=True))
            return

        def answered(answer: Answer | None) -> None:
            result: Any
            if answer is None:
                result = ProposalError("the leader did not answer", definite=False)
            elif "refused" in answer:
                result = RefusedError(*answer["refused"])
            elif "failed" in answer:
                result = ProposalError(answer["failed"], definite=answer["definite"])
            else:
                result = answer.get("result")
            self.call(on_done, result)  # others may wait on the same connection

        self._peer_client.ask(endpoint, message, answered, timeout_ms)

    def ask_epoch(
        self, voter: int, on_answer: Callable[[Answer | None], None], timeout_ms: float
    ) -> None:
        """Which epoch another voter knows of; None where it does not say."""
        endpoint = self._peers.get(voter)
        if endpoint is None:
            on_answer(None)
        else:
            self._peer_client.ask(endpoint, {"epoch": self.replica.epoch}, on_answer, timeout_ms)

    def _on_call(self, message: dict[str, Any], reply: Reply) -> None:
        """Another replica passes on a change, or a session's heartbeat."""

        def done(result: Any) -> None:
            if isinstance(result, RefusedError):
                reply({"refused": [result.reason, result.key]})
            elif isinstance(result, ProposalError):
                reply({"failed": str(result), "definite": result.definite})
            else:
                reply({"result": result})

        if "epoch" in message:
            done(self.replica.epoch)
        elif not self.leads:
            done(ProposalError(f"node {self.replica.node_id} does not lead", definite=True))
        elif "touch" in message:
            session = message["touch"]
            if type(session) is not int:
                raise MalformedFrameError(f"no session: {session!r}")
            self.clock.touch(session, done)
        else:
            try:
                command = decode(str(message.get("propose", "")).encode())
            except ValueError as error:
                done(RefusedError("malformed", str(error)))
            else:
                self.propose(command, done)

    def touch(self, session: int, on_done: OnDone, *, timeout_ms: float) -> None:
        """A session's sign of life; the result is whether it lives."""
        if self.leads:
            self.clock.touch(session, on_done)
        else:
            self._forward({"touch": session}, on_done, timeout_ms)

    # -- watching --------------------------------------------------------------------------------

    def watch(self, prefix: str, on_change: OnChange) -> Callable[[], None]:
        """Report every change of keys that begin with `prefix`, in order, after it is visible
        here. Returns what ends the watch."""
        entry = (prefix, on_change)
        self._watches.append(entry)

        def unwatch() -> None:
            if entry in self._watches:
                self._watches.remove(entry)

        return unwatch

    def _notify_watchers(self, changes: Sequence[Change]) -> None:
        for change in changes:
            for prefix, on_change in list(self._watches):
                if change.key.startswith(prefix):
                    self.call(on_change, change)

    def call(self, callback: Callable[..., object], *values: object) -> None:
        """Call back and log an exception: each commit is applied once, and the other callbacks still run."""
        try:
            callback(*values)
        except Exception as error:  # noqa: BLE001 - whatever it is
            self.ports.log("error", "raft.callback_failed", reason=repr(error))

    # -- the state machine's side ----------------------------------------------------------------

    def on_commit(self, batches: Sequence[CommittedBatch]) -> None:
        for batch in batches:
            for offset, value in enumerate(batch.values, batch.base_offset):
                applied = self._applied(value, offset)
                self._notify_watchers(applied.changes)
                self._pending.complete(offset, batch.epoch, applied.result)

    def _applied(self, value: Buffer, offset: int) -> Applied:
        try:
            command = decode(value)
        except (TypeError, ValueError) as error:  # it is committed: on every replica alike
            return Applied(RefusedError("malformed", str(error)))
        return self.tree.apply(command, offset)

    def _when_applied(self, offset: int, on_done: OnDone) -> None:
        if self.replica.applied_offset > offset:
            on_done(offset)
        elif self._closed:
            on_done(ProposalError("the store was closed", definite=False))
        else:
            self.ports.wakeups.call_at(
                self.ports.clock.now_ms() + 1, lambda: self._when_applied(offset, on_done)
            )

    def on_snapshot(self, snapshot: SnapshotReader) -> None:
        before = self.tree.entries
        self.tree.load(snapshot.values())
        after = self.tree.entries
        gone = [Change(key, None) for key in before if key not in after]
        new = [Change(key, entry) for key, entry in after.items() if before.get(key) != entry]
        self._notify_watchers(gone + new)

    def on_leader_change(self, leader_id: int, epoch: int) -> None:
        if leader_id != self.replica.node_id:
            self._pending.fail_all("the leadership was lost")
        if leader_id >= 0:
            self._peer_client.keep_only(self._peers.get(leader_id))
        self.clock.on_leader(leader_id == self.replica.node_id and not self._closed)
        for callback in list(self._leader_callbacks):
            self.call(callback, leader_id)

    def on_leader(self, callback: Callable[[int], None]) -> None:
        """Call `callback` with every new leader of the quorum."""
        self._leader_callbacks.append(callback)

    def snapshot(self) -> Iterator[Sequence[Buffer]] | None:
        return self.tree.snapshot()

    def validate(self) -> None:
        """Raises AssertionError where the tree or what waits is not as it should be."""
        self.tree.validate()
        self._pending.validate()

    def describe(self) -> dict[str, Any]:
        """State for tools and tests."""
        return {
            "keys": len(self.tree.entries),
            "sessions": len(self.tree.sessions),
            "waiting": len(self._pending),
            "watches": len(self._watches),
        }


def text_of(value: bytes) -> str:
    """A value for people: as text where it is."""
    try:
        return value.decode()
    except UnicodeDecodeError:
        return b64encode(value).decode()
