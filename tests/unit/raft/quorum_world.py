"""Quorum replicas on simulated machines: real driver, real wire, virtual time, network and disk."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import cast

from barnabas.client.network.channels import Channels
from barnabas.raft import handlers
from barnabas.raft.bootstrap_snapshot import write_first_snapshot
from barnabas.raft.core import messages
from barnabas.raft.core.voters import KRAFT_VERSIONS, ReplicaKey, VoterNode, VoterSet
from barnabas.raft.raft_node import RaftNode
from barnabas.raft.settings import ReplicaSettings
from barnabas.raft.state_machine import (
    CommittedBatch,
    NotLeaderError,
    SnapshotReader,
    StateMachine,
)
from barnabas.raft.storage.replica_log import DIRECTORY
from barnabas.sim.world.disk import SimDisk
from barnabas.sim.world.network import SimNetwork
from barnabas.sim.world.process import SimMachine, SimProcess
from barnabas.sim.world.world import START_WALL_MS, World
from barnabas.types import Buffer, Endpoint, Uuid
from barnabas.wire.api_versions import Features
from barnabas.wire.dispatch import ApiTable
from barnabas.wire.messages.vote_response import VoteResponse
from barnabas.wire.schema import Message
from barnabas.wire.server import RequestServer

PORT = 9093
LISTENER = "CONTROLLER"
CLUSTER = "cXVvcnVtLXdvcmxkLXRlc3"


class Journal:
    """A state machine that remembers what it received."""

    def __init__(self) -> None:
        self.values: list[bytes] = []
        self.ends: list[tuple[int, int]] = []
        """(last offset, epoch) of each batch."""
        self.at: dict[int, bytes] = {}
        """The values by their offsets, where no snapshot brought them."""
        self.leader = (-1, -1)
        self.snapshots_loaded = 0
        self.on_applied: list[Callable[[], None]] = []

    def on_commit(self, batches: Sequence[CommittedBatch]) -> None:
        for batch in batches:
            if self.ends and batch.base_offset <= self.ends[-1][0]:
                raise AssertionError(f"offset {batch.base_offset} after {self.ends[-1]}")
            self.values += map(bytes, batch.values)
            self.at |= enumerate(map(bytes, batch.values), batch.base_offset)
            self.ends.append((batch.last_offset, batch.epoch))
        for callback in list(self.on_applied):
            callback()

    def on_snapshot(self, snapshot: SnapshotReader) -> None:
        self.values = [bytes(value) for chunk in snapshot.values() for value in chunk]
        self.ends = [(snapshot.id.offset - 1, snapshot.id.epoch)]
        self.snapshots_loaded += 1

    def on_leader_change(self, leader_id: int, epoch: int) -> None:
        self.leader = (leader_id, epoch)

    def snapshot(self) -> Iterator[Sequence[Buffer]] | None:
        values = list(self.values)
        return iter([values[at : at + 100] for at in range(0, len(values), 100)])


class QuorumNode:
    """One replica's machine, and its present life if it has one."""

    def __init__(self, quorum: Quorum, settings: ReplicaSettings) -> None:
        self.quorum = quorum
        self.id = settings.node_id
        self.settings = settings
        self.port = PORT
        world = quorum.world
        disk = SimDisk(world.rng(f"disk-{self.id}"))
        self.machine = SimMachine(world, quorum.network, f"n{self.id}", disk)
        self.process: SimProcess | None = None
        self.replica: RaftNode | None = None
        self.journal = Journal()

    @property
    def is_up(self) -> bool:
        return self.process is not None and self.process.alive

    def start(self) -> None:
        if self.is_up:
            return
        process = self.process = self.machine.start_process(owner=self)
        self.journal = Journal()
        channels = Channels(process, f"node-{self.id}")
        machine = self.quorum.state_machine(self, process)
        replica = RaftNode.open(process, self.settings, "/data", channels, machine)
        self.replica = replica
        self.quorum.opened(self)
        if self.settings.listeners:
            table = ApiTable()
            server = RequestServer(process, LISTENER, table, features=self._features)
            process.network.listen(Endpoint(f"n{self.id}", self.port), server.accept)
            handlers.add_to(table, replica)
        replica.start()

    def _features(self) -> Features:
        return Features({"kraft.version": KRAFT_VERSIONS}, {}, -1)

    def on_halt(self, process: SimProcess, reason: str) -> None:
        self.quorum.halted(self.id, reason)
        if process is self.process:
            self.kill()

    @property
    def installed(self) -> int:
        """Snapshots fetched from a leader in the present life."""
        if self.process is None:
            return 0
        return sum("raft.snapshot_installed" in line for line in self.process.log_lines)

    def kill(self, *, power_loss: bool = False) -> None:
        if self.process is not None:
            self.process.kill(power_loss=power_loss)
        self.process = self.replica = None


class Quorum:
    """`voters` replicas that vote, then `observers` that do not. Not started."""

    def __init__(
        self,
        seed: int = 1,
        voters: int = 3,
        observers: int = 0,
        *,
        first_voters: int | None = None,
        **settings: int,
    ) -> None:
        """`first_voters` makes a dynamic quorum (KIP-853) whose first voters are that many."""
        self.world = World(seed)
        self.network = SimNetwork(self.world)
        self.halts: list[str] = []
        self.is_dynamic = first_voters is not None
        endpoints = {node: Endpoint(f"n{node}", PORT) for node in range(1, voters + 1)}
        self.nodes: dict[int, QuorumNode] = {}
        for node in range(1, voters + observers + 1):
            listeners = {LISTENER: endpoints[node]} if node in endpoints else {}
            base = ReplicaSettings(
                cluster_id=CLUSTER,
                node_id=node,
                directory_id=Uuid(bytes([node]) * 16),
                can_vote=node in endpoints,
                listeners=listeners,
                static_voters=endpoints if first_voters is None else {},
                bootstrap_servers=() if first_voters is None else tuple(endpoints.values()),
            )
            self.add(replace(base, **settings))  # type: ignore[arg-type]
        for node in range(1, (first_voters or 0) + 1):
            self._format(node, first_voters or 0)

    def _format(self, node: int, first_voters: int) -> None:
        """As ``storage format --initial-controllers`` does."""
        voters = VoterSet.of(*(self.voter(n) for n in range(1, first_voters + 1)))
        disk = self.nodes[node].machine.disk.open_for_process()
        disk.make_dirs("/data")
        write_first_snapshot(disk, "/data", voters, START_WALL_MS)
        disk.sync_dir("/data")
        disk.sync_dir(f"/data/{DIRECTORY}")
        disk.sync_dir("/")

    def voter(self, node: int) -> VoterNode:
        """What the voter set should say of a node."""
        settings = self.nodes[node].settings
        key = ReplicaKey(node, settings.directory_id)
        return VoterNode(key, dict(settings.listeners), KRAFT_VERSIONS)

    def add(self, settings: ReplicaSettings) -> QuorumNode:
        node = QuorumNode(self, settings)
        self.nodes[node.id] = node
        machines = {f"n{n.id}": n.machine for n in self.nodes.values()}
        for other in self.nodes.values():
            other.machine.machines = machines
        return node

    def state_machine(self, node: QuorumNode, process: SimProcess) -> StateMachine:
        """What `node` replicates in the life that begins."""
        return node.journal

    def opened(self, node: QuorumNode) -> None:
        """`node` has a replica, which is not started yet."""

    def halted(self, node: int, reason: str) -> None:
        self.halts.append(f"{node}: {reason}")

    def start(self) -> None:
        for node in self.nodes.values():
            node.start()

    def up(self) -> list[QuorumNode]:
        return [node for node in self.nodes.values() if node.is_up]

    def active(self) -> QuorumNode | None:
        """The newest leader that learned so."""
        leaders = [n for n in self.up() if n.replica is not None and n.replica.is_active]
        return max(leaders, key=lambda n: n.replica.epoch if n.replica else -1, default=None)

    def run_until(self, done: Callable[[], bool], limit_ms: float = 30_000) -> float:
        """Run until `done`; how long that took, in virtual milliseconds."""
        began = self.world.now_ms
        if not self.world.run(began + limit_ms, done):
            raise AssertionError(
                "\n".join([*list(self.world.trace)[-60:], *(str(n.replica) for n in self.up())])
            )
        return self.world.now_ms - began

    def elect(self) -> QuorumNode:
        self.run_until(lambda: self.active() is not None)
        leader = self.active()
        assert leader is not None
        return leader

    def commit(self, *values: bytes, limit_ms: float = 30_000) -> int:
        """Propose on the active leader and run until it has applied them."""
        leader = self.elect()
        assert leader.replica is not None
        offset = leader.replica.append(values)
        replica, epoch = leader.replica, leader.replica.epoch
        self.run_until(lambda: replica.applied_offset > offset or replica.epoch > epoch, limit_ms)
        return offset

    def ask(
        self, request: messages.Request, limit_ms: float = 60_000
    ) -> messages.ChangeVoterResponse:
        """Ask the active leader and wait for the answer."""
        leader = self.elect()
        assert leader.replica is not None
        answers: list[messages.Response] = []

        def keep(response: messages.Response) -> Message:
            answers.append(response)
            return VoteResponse()

        leader.replica.ask(request, keep)
        self.run_until(lambda: bool(answers), limit_ms)
        return cast(messages.ChangeVoterResponse, answers[0])

    def add_voter(self, node: int, timeout_ms: int = 30_000) -> messages.ChangeVoterResponse:
        voter = self.voter(node)
        return self.ask(messages.AddVoterRequest(voter.key, voter.endpoints, timeout_ms))

    def remove_voter(self, node: int) -> messages.ChangeVoterResponse:
        return self.ask(messages.RemoveVoterRequest(self.voter(node).key))

    def settle(self) -> None:
        """Run until everybody who is up has applied what the leader has."""

        def even() -> bool:
            leader = self.active()
            ends = {n.replica.applied_offset for n in self.up() if n.replica is not None}
            if leader is None or leader.replica is None:
                return False
            return ends == {leader.replica.log_end_offset}

        self.run_until(even)


__all__ = ["CLUSTER", "Journal", "NotLeaderError", "Quorum", "QuorumNode"]
