"""Random faults on a quorum, and outside observers that hold it to its promises after every event.

Checked: one leader per epoch; an offset that was committed anywhere has the same epoch and values
everywhere and for ever (log matching, leader completeness as seen by state machines); the high
watermark of a replica never goes back while it lives; what was acknowledged is there at the end; after
healing there is progress.
"""

from __future__ import annotations

from collections import Counter

from barnabas.raft.core import messages
from barnabas.raft.core.states import Leader
from barnabas.raft.raft_node import RaftNode
from barnabas.record.batch import HEADER, HEADER_SIZE, LENGTH_PREFIX
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.vote_response import VoteResponse
from barnabas.wire.schema import Message
from tests.unit.raft.quorum_world import NotLeaderError, Quorum, QuorumNode


class Checker:
    """Looks at all nodes after every event."""

    def __init__(self, quorum: Quorum) -> None:
        self.quorum = quorum
        self.leaders: dict[int, int] = {}
        self.committed: list[bytes] = []
        """What any state machine was given, in order: the history of the log."""
        self.seen: dict[tuple[int, int], int] = {}
        self.watermarks: dict[tuple[int, int], int] = {}
        quorum.world.after_event.append(self.check)

    def check(self) -> None:
        for node in self.quorum.nodes.values():
            if node.is_up and node.replica is not None:
                self._check_leader(node)
                self._check_history(node)

    def _check_leader(self, node: QuorumNode) -> None:
        assert node.replica is not None
        machine = node.replica.machine
        state = machine.state
        assert machine.wakes_at_ms() <= machine.deadline_ms(), "it would sleep through what is due"
        if isinstance(state, Leader):
            known = self.leaders.setdefault(state.epoch, node.id)
            assert known == node.id, f"{known} and {node.id} lead epoch {state.epoch}"
        life = (node.id, node.machine.starts)
        before = self.watermarks.get(life, -1)
        now = node.replica.high_watermark
        assert now >= before, f"high watermark of {node.id} went back from {before} to {now}"
        self.watermarks[life] = now

    def _check_history(self, node: QuorumNode) -> None:
        life = (node.id, node.machine.starts)
        values, done = node.journal.values, self.seen.get(life, 0)
        for index in range(done, len(values)):
            if index == len(self.committed):
                self.committed.append(values[index])
            assert self.committed[index] == values[index], (
                f"value {index} of {node.id} is {values[index]!r}, elsewhere {self.committed[index]!r}"
            )
        self.seen[life] = len(values)


class Chaos:
    """One seed: a workload under faults, then healing and the final checks."""

    def __init__(self, quorum: Quorum, *, duration_ms: float = 15_000) -> None:
        self.quorum = quorum
        self.world = quorum.world
        self.rng = quorum.world.rng("chaos")
        self.checker = Checker(quorum)
        self.duration_ms = duration_ms
        self.proposed = 0
        self.acknowledged: list[bytes] = []
        self.totals: Counter[str] = Counter()
        self._healing = False
        conditions = quorum.network.conditions
        conditions.slow_chance = self.rng.uniform(0, 0.05)
        conditions.slow_ms_max = self.rng.uniform(10, 400)
        conditions.reset_chance = self.rng.uniform(0, 0.004)

    def play(self) -> None:
        self.quorum.start()
        self.world.after(5, self._propose)
        self.world.after(100, self._fault)
        self.world.run(self.duration_ms)
        self._heal()
        self.quorum.elect()
        self.quorum.commit(b"the end")
        self.quorum.settle()
        assert not self.quorum.halts, self.quorum.halts
        lost = set(self.acknowledged) - set(self.checker.committed)
        assert not lost, f"acknowledged and lost: {sorted(lost)[:5]}"
        for node in self.quorum.nodes.values():
            self.totals["snapshots installed"] += node.installed
        self.totals["elections"] = len(self.checker.leaders)
        self.totals["committed"] = len(self.checker.committed)

    def _heal(self) -> None:
        self._healing = True
        self.quorum.network.heal()
        self.quorum.network.conditions.reset_chance = 0.0
        for node in self.quorum.nodes.values():
            node.start()

    def _propose(self) -> None:
        if self._healing:
            return
        self.world.after(self.rng.uniform(1, 20), self._propose)
        for node in self.quorum.up():
            if node.replica is not None and node.replica.is_active:
                self._propose_on(node, node.replica)

    def _propose_on(self, node: QuorumNode, replica: RaftNode) -> None:
        values = [b"%d.%d" % (self.proposed, part) for part in range(self.rng.randrange(1, 4))]
        self.proposed += 1
        try:
            offset = replica.append(values)
        except NotLeaderError:
            return
        epoch, journal = replica.epoch, node.journal

        def applied() -> None:
            if journal.ends and journal.ends[-1][0] >= offset and applied in journal.on_applied:
                journal.on_applied.remove(applied)
                if journal.ends[-1][1] == epoch:
                    self.acknowledged.extend(values)

        journal.on_applied.append(applied)

    def _fault(self) -> None:
        if self._healing:
            return
        self.world.after(self.rng.uniform(50, 1500), self._fault)
        nodes = list(self.quorum.nodes.values())
        node = nodes[self.rng.randrange(len(nodes))]
        kind = self.rng.randrange(10 if self.quorum.is_dynamic else 8)
        if kind <= 2:
            self._restart(node, power_loss=kind == 2)
        elif kind == 3 and node.process is not None:
            self.totals["pauses"] += 1
            node.process.pause(self.rng.uniform(10, 3000))
        elif kind == 4:
            self._cut(nodes, node)
        elif kind == 5:
            other = nodes[self.rng.randrange(len(nodes))]
            self.totals["one-way cuts"] += 1
            self.quorum.network.cut(f"n{node.id}", f"n{other.id}")
            self.world.after(self.rng.uniform(100, 4000), self._mend)
        elif kind == 6 and node.replica is not None:
            self.totals["resignations"] += 1
            node.replica.resign("chaos")
        elif kind >= 8:
            self._change_voters(node)
        else:
            active = self.quorum.active()
            if active is not None:
                self._restart(active, power_loss=False)

    def _change_voters(self, node: QuorumNode) -> None:
        """Add `node` where it is no voter, remove it where it is one; a static quorum becomes dynamic."""
        active = self.quorum.active()
        if active is None or active.replica is None:
            return
        if active.replica.kraft_version == 0:
            self.totals["upgrades"] += 1
            active.replica.upgrade_kraft_version(1, lambda _: VoteResponse())
            return
        voters = active.replica.machine.voters
        voter = self.quorum.voter(node.id)
        request: messages.Request
        if voter.key in voters and len(voters) > 1:
            kind, request = "voters removed", messages.RemoveVoterRequest(voter.key, 3_000)
        else:
            kind = "voters added"
            request = messages.AddVoterRequest(voter.key, voter.endpoints, 3_000)

        def answered(response: messages.Response) -> Message:
            if response.error is ErrorCode.NONE:
                self.totals[kind] += 1
            return VoteResponse()

        active.replica.ask(request, answered)

    def _restart(self, node: QuorumNode, *, power_loss: bool) -> None:
        if power_loss and sum(n.machine.off for n in self.quorum.nodes.values()) > 0:
            return
        self.totals["power losses" if power_loss else "kills"] += 1
        may_rot = self._is_spare(node)
        node.kill(power_loss=power_loss)
        if may_rot and self.rng.random() < 0.5:
            self._rot(node)
        self.world.after(self.rng.uniform(1, 3000), node.start)

    def _is_spare(self, node: QuorumNode) -> bool:
        """Whether all others have what `node` has, on disk, so that it may lose all of it."""
        logs = [n.replica.machine.log for n in self.quorum.up() if n.replica is not None]
        if self.quorum.is_dynamic or len(logs) < len(self.quorum.nodes) or node.replica is None:
            return False
        own = node.replica.machine.log
        return all(
            log.synced_offset >= own.end_offset and log.last_epoch == own.last_epoch for log in logs
        )

    def _rot(self, node: QuorumNode) -> None:
        """A bit flips in one segment: mostly in a batch's offset or epoch, which no CRC covers."""
        disk = node.machine.disk
        logs = [name for name in sorted(disk.names) if name.endswith(".log") and disk.content(name)]
        if not logs:
            return
        path, starts, at = logs[self.rng.randrange(len(logs))], [0], 0
        data = disk.content(path)
        while at + HEADER_SIZE <= len(data):
            starts.append(at)
            at += LENGTH_PREFIX + HEADER.unpack_from(data, at)[1]
        byte = [0, 4, 6, 7, 7, 12, 15, 15, 30][self.rng.randrange(9)]
        position = min(starts[self.rng.randrange(len(starts))] + byte, len(data) - 1)
        disk.rot(path, position, self.rng.randrange(8))
        self.totals["bits rotted"] += 1

    def _cut(self, nodes: list[QuorumNode], node: QuorumNode) -> None:
        self.totals["isolations"] += 1
        for other in nodes:
            if other is not node:
                self.quorum.network.cut(f"n{node.id}", f"n{other.id}")
                self.quorum.network.cut(f"n{other.id}", f"n{node.id}")
        self.world.after(self.rng.uniform(100, 5000), self._mend)

    def _mend(self) -> None:
        self.quorum.network.heal()
