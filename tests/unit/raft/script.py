"""Text scripts for the quorum's machine: one command per line after ``> ``, what it caused below it.

Machines without disks or sockets: messages arrive at once, time passes only by command, chance gives
the node with the lowest id the shortest wait. Commands:

    voters 1 2 3 [observers 4 5]    replicas with empty logs, not started
    dynamic 1 2 3 [observers 4 5]   the same with voters in the log (kraft.version 1); all may be voters
    old N                           N knows no pre-vote, as Apache Kafka before 4.0
    believes N 1 2                  before its start N takes these for the voters
    log N 1x3 2x2                   before its start N has 3 records of epoch 1, then 2 of epoch 2
    saved N E voted V | leader L    before its start N remembers this of epoch E
    snapshot N O@E                  N takes a snapshot, and cuts its log there
    start N ... | crash N ... | restart N ...
    isolate N ... | heal            nothing reaches N or comes from it
    wipe N                          N, which does not run, loses its disk
    die N                           its process ends, and everybody sees its connections closed
    run MS                          let time pass
    propose N K                     N appends a batch of K records
    resign N | leave N              N gives up leadership; for good
    disk N slow | fast              what N syncs is not durable before it is fast again
    ends L N S ...                  N hears that L's epoch is over, and that S ... may follow, in this order
    add L N | remove L N            L is asked to make N a voter, or none
    state                           what everybody is
    electorate                      whom everybody takes for the voters
"""

from __future__ import annotations

from dataclasses import replace

from barnabas.raft.core import events as on
from barnabas.raft.core.batches import control_records, data_batch, iter_runs
from barnabas.raft.core.election_state import ElectionState
from barnabas.raft.core.log_metadata import LogMetadata
from barnabas.raft.core.machine import Machine
from barnabas.raft.core.messages import AddVoterRequest, EndEpochRequest, RemoveVoterRequest
from barnabas.raft.core.voters import KRAFT_VERSIONS, ReplicaKey, VoterHistory, VoterNode, VoterSet
from barnabas.raft.settings import ReplicaSettings
from barnabas.raft.state_machine import OffsetAndEpoch
from barnabas.types import Endpoint, Uuid
from barnabas.wire.messages.k_raft_version_record import KRaftVersionRecord
from barnabas.wire.messages.voters_record import VotersRecord
from tests.unit.raft.script_machines import Machines, Node, SteadyRng, who


class Script(Machines):
    """Runs one script and writes down what happened."""

    def run(self, text: str) -> str:
        """`text` with what its commands cause now in the place of what stood there."""
        for line in text.splitlines():
            if line.startswith("> "):
                self.lines.append(line)
                self._command(line[2:].split())
            elif line.startswith("#") or not line.strip():
                self.lines.append(line)
        return "\n".join(self.lines) + "\n"

    def _command(self, words: list[str]) -> None:
        getattr(self, f"_do_{words[0]}")(*words[1:])
        self._settle()

    # -- commands --------------------------------------------------------------------------------

    def _do_voters(self, *words: str) -> None:
        voters, observers = _split(words)
        endpoints = {node: Endpoint(f"n{node}", 1) for node in voters}
        for node in voters + observers:
            self.nodes[node] = Node(_settings(node, node in endpoints, endpoints))

    def _do_dynamic(self, *words: str) -> None:
        voters, observers = _split(words)
        first = VoterSet.of(*(_voter(node) for node in voters))
        servers = tuple(Endpoint(f"n{node}", 1) for node in voters)
        for node in voters + observers:
            settings = replace(_settings(node, True, {}), bootstrap_servers=servers)
            self.nodes[node] = Node(settings, first if node in voters else None)

    def _do_believes(self, name: str, *voters: str) -> None:
        node = self.nodes[int(name)]
        endpoints = {int(voter): Endpoint(f"n{voter}", 1) for voter in voters}
        node.settings = replace(node.settings, static_voters=endpoints)

    def _do_wipe(self, name: str) -> None:
        node = self.nodes[int(name)]
        assert node.machine is None
        node.shape, node.batches, node.saved = LogMetadata(), [], ElectionState()

    def _do_log(self, name: str, *runs: str) -> None:
        node = self.nodes[int(name)]
        for run in runs:
            epoch, count = map(int, run.split("x"))
            base = node.shape.end_offset
            batch = data_batch([b"v"] * count, base, epoch, 0)
            node.batches.append((base, batch))
            node.shape.append(base, base + count, epoch)
        node.shape.synced_offset = node.shape.end_offset

    def _do_saved(self, name: str, epoch: str, what: str, who: str) -> None:
        if what == "voted":
            voted = ReplicaKey(int(who), Uuid(bytes([int(who)]) * 16))
            self.nodes[int(name)].saved = ElectionState(int(epoch), -1, voted)
        else:
            self.nodes[int(name)].saved = ElectionState(int(epoch), int(who))

    def _do_start(self, *names: str) -> None:
        for name in names or [str(node) for node in self.nodes]:
            node = self.nodes[int(name)]
            node.shape.synced_offset = node.shape.end_offset
            node.machine = Machine(
                node.settings,
                SteadyRng(node.settings.node_id),  # type: ignore[arg-type]
                node.shape,
                _history(node),
                node.saved,
                self.now,
            )
            self._step(node, on.Tick())

    def _do_crash(self, *names: str) -> None:
        for name in names:
            node = self.nodes[int(name)]
            node.machine = None
            node.tickets.clear()
            end = node.shape.synced_offset
            node.batches = [entry for entry in node.batches if entry[0] < end]
            node.shape.truncate_to(end)

    def _do_restart(self, *names: str) -> None:
        self._do_crash(*names)
        self._do_start(*names)

    def _do_die(self, name: str) -> None:
        self._do_crash(name)
        gone = self.nodes[int(name)].settings.listeners["CONTROLLER"]
        for node in self.nodes.values():
            if node.machine is not None:
                self._step(node, on.PeerGone(gone))

    def _do_isolate(self, *names: str) -> None:
        self.isolated |= set(map(int, names))

    def _do_heal(self) -> None:
        self.isolated.clear()

    def _do_run(self, duration: str) -> None:
        until = self.now + float(duration)
        self._settle()
        while True:
            due = [
                (max(node.machine.deadline_ms(), self.now), name)
                for name, node in self.nodes.items()
                if node.machine is not None
            ]
            when, name = min(due, default=(float("inf"), -1))
            if when > until:
                break
            self.now = when
            self._step(self.nodes[name], on.Tick())
            self._settle()
        self.now = until

    def _do_propose(self, name: str, count: str) -> None:
        node = self.nodes[int(name)]
        assert node.machine is not None
        log, number = node.machine.log, int(count)
        batch = data_batch([b"v"] * number, log.end_offset, node.machine.epoch, 0)
        self._step(node, on.Propose(batch, number))

    def _do_resign(self, name: str) -> None:
        self._step(self.nodes[int(name)], on.Resign())

    def _do_leave(self, name: str) -> None:
        self._step(self.nodes[int(name)], on.Resign(for_good=True))

    def _do_ends(self, leader: str, name: str, *successors: str) -> None:
        node = self.nodes[int(name)]
        assert node.machine is not None
        keys = tuple(ReplicaKey(int(successor)) for successor in successors)
        request = EndEpochRequest(node.machine.epoch, int(leader), keys, {})
        self._step(node, on.Asked(0, request))

    def _do_disk(self, name: str, how: str) -> None:
        node = self.nodes[int(name)]
        node.slow_disk = how == "slow"
        if not node.slow_disk and node.owed_sync is not None:
            owed, node.owed_sync = node.owed_sync, None
            self._step(node, on.Synced(owed))

    def _do_snapshot(self, name: str, at: str) -> None:
        node = self.nodes[int(name)]
        assert node.machine is not None
        offset, epoch = map(int, at.split("@"))
        snapshot = OffsetAndEpoch(offset, epoch)
        self._step(node, on.SnapshotTaken(snapshot))
        self._step(node, on.LogCleaned(offset, snapshot))
        node.batches = [entry for entry in node.batches if entry[0] >= offset]

    def _do_add(self, leader: str, name: str) -> None:
        voter = _voter(int(name))
        request = AddVoterRequest(voter.key, voter.endpoints, timeout_ms=5_000)
        self._ask(int(leader), request, f"adding {name}")

    def _do_remove(self, leader: str, name: str) -> None:
        self._ask(int(leader), RemoveVoterRequest(_voter(int(name)).key), f"removing {name}")

    def _do_electorate(self) -> None:
        for name, node in self.nodes.items():
            if node.machine is not None:
                self.say(f"{name} knows the voters {list(node.machine.voters)}")

    def _do_state(self) -> None:
        for name, node in self.nodes.items():
            machine = node.machine
            if machine is None:
                self.say(f"{name} is down, log {_epochs(node.shape)}")
                continue
            self.say(
                f"{name} {type(machine.state).__name__} epoch {machine.epoch}"
                f" leader {who(machine.leader_id)} log {_epochs(node.shape)}"
                f" committed {machine.high_watermark}"
            )


def _split(words: tuple[str, ...]) -> tuple[list[int], list[int]]:
    """(voters, observers)."""
    at = words.index("observers") if "observers" in words else len(words)
    return [int(word) for word in words[:at]], [int(word) for word in words[at + 1 :]]


def _settings(node: int, can_vote: bool, static: dict[int, Endpoint]) -> ReplicaSettings:
    return ReplicaSettings(
        cluster_id="c",
        node_id=node,
        directory_id=Uuid(bytes([node]) * 16),
        can_vote=can_vote,
        listeners={"CONTROLLER": Endpoint(f"n{node}", 1)},
        static_voters=static,
        fetch_wait_ms_max=500,
    )


def _voter(node: int) -> VoterNode:
    key = ReplicaKey(node, Uuid(bytes([node]) * 16))
    return VoterNode(key, {"CONTROLLER": Endpoint(f"n{node}", 1)}, KRAFT_VERSIONS)


def _history(node: Node) -> VoterHistory:
    """What a replica that starts knows of voters: its configuration or bootstrap snapshot, then its log."""
    history = VoterHistory(VoterSet.static(node.settings.static_voters, "CONTROLLER"))
    if node.first_voters is not None:
        history.add_version(-1, 1)
        history.add_voters(-1, node.first_voters)
    for base, batch in node.batches:
        if next(iter_runs(batch)).is_control:
            for offset, (_, message) in enumerate(control_records(batch), base):
                if isinstance(message, KRaftVersionRecord):
                    history.add_version(offset, message.k_raft_version)
                elif isinstance(message, VotersRecord):
                    history.add_voters(offset, VoterSet.from_record(message))
    return history


def _epochs(shape: LogMetadata) -> str:
    runs = []
    for index, (epoch, start) in enumerate(shape.epochs):
        end = shape.epochs[index + 1][1] if index + 1 < len(shape.epochs) else shape.end_offset
        runs.append(f"{epoch}:{start}..{end}")
    return " ".join(runs) or f"empty at {shape.end_offset}"


__all__ = ["Script"]
