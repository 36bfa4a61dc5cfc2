"""Machines of the quorum without disks or sockets, for text scripts: what they want is done at once."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from barnabas.raft.core import effects as do
from barnabas.raft.core import events as on
from barnabas.raft.core.batches import control_batch, iter_runs
from barnabas.raft.core.election_state import ElectionState
from barnabas.raft.core.log_metadata import LogMetadata
from barnabas.raft.core.machine import Machine
from barnabas.raft.core.messages import (
    BeginEpochRequest,
    ChangeVoterResponse,
    EndEpochRequest,
    FeaturesRequest,
    FeaturesResponse,
    FetchRequest,
    FetchResponse,
    ReadLog,
    ReadSnapshot,
    Request,
    Response,
    SnapshotRequest,
    SnapshotResponse,
    VoteRequest,
    VoteResponse,
)
from barnabas.raft.core.voters import KRAFT_VERSIONS, VoterSet
from barnabas.raft.settings import ReplicaSettings
from barnabas.wire.errors import ErrorCode


class SteadyRng:
    """Chance without chance: every draw is as far up its range as the node's id is high."""

    def __init__(self, node: int) -> None:
        self._part = node / 10

    def uniform(self, low: float, high: float) -> float:
        return low + (high - low) * self._part

    def randrange(self, start: int, stop: int | None = None) -> int:
        return start if stop is not None else 0


@dataclass
class Node:
    """One replica: what is on its disk, and its machine while it runs."""

    settings: ReplicaSettings
    first_voters: VoterSet | None = None
    """What its bootstrap snapshot says in a dynamic quorum."""
    shape: LogMetadata = field(default_factory=LogMetadata)
    batches: list[tuple[int, bytes]] = field(default_factory=list)
    saved: ElectionState = field(default_factory=ElectionState)
    machine: Machine | None = None
    slow_disk: bool = False
    owed_sync: int | None = None
    tickets: dict[int, Callable[[Response], None]] = field(default_factory=dict)


class Machines:
    """Replicas whose messages arrive at once, and what they did, line by line."""

    def __init__(self) -> None:
        self.nodes: dict[int, Node] = {}
        self.now = 0.0
        self.lines: list[str] = []
        self.isolated: set[int] = set()
        self.old: set[int] = set()
        """Who knows no pre-vote."""
        self._work: deque[Callable[[], None]] = deque()
        self._ticket = 0

    def _do_old(self, name: str) -> None:
        self.old.add(int(name))

    def say(self, line: str) -> None:
        self.lines.append(f"  {line}")

    def _ask(self, leader: int, request: Request, what: str) -> None:
        def answer(response: Response) -> None:
            assert isinstance(response, ChangeVoterResponse)
            why = f" ({response.message})" if response.message else ""
            self.say(f"{leader} answers on {what}: {response.error.name}{why}")

        node = self.nodes[leader]
        self._ticket += 1
        node.tickets[self._ticket] = answer
        self._step(node, on.Asked(self._ticket, request))

    # -- performing ------------------------------------------------------------------------------

    def _step(self, node: Node, event: on.Event) -> None:
        if node.machine is not None:
            effects = node.machine.step(event, self.now)
            node.machine.validate()
            for effect in effects:
                self._perform(node, effect)

    def _settle(self) -> None:
        for _ in range(2_000):
            if not self._work:
                return
            self._work.popleft()()
        raise AssertionError("the replicas exchange messages for ever")

    def _perform(self, node: Node, effect: do.Effect) -> None:
        me = node.settings.node_id
        match effect:
            case do.SaveElection(election=election):
                node.saved = election
                voted = f" voted {election.voted.id}" if election.voted else ""
                self.say(
                    f"{me} saves epoch {election.epoch} leader {who(election.leader_id)}{voted}"
                )
            case do.Append(records=records, base_offset=base):
                for run in iter_runs(records):
                    batch = bytes(memoryview(records)[run.position : run.position + run.size])
                    node.batches.append((run.base_offset, batch))
                end = node.batches[-1][0] + 1
                self.say(f"{me} appends from {base}")
                del end
            case do.AppendControl(records=records, base_offset=base, epoch=epoch):
                node.batches.append((base, control_batch(records, base, epoch, 0)))
                self.say(f"{me} announces epoch {epoch} at {base}")
            case do.Truncate(offset=offset):
                node.batches = [entry for entry in node.batches if entry[0] < offset]
                self.say(f"{me} cuts its log at {offset}")
            case do.Sync():
                self._sync(node)
            case do.Commit(offset=offset):
                self.say(f"{me} commits {offset}")
            case do.LeaderIs(leader_id=leader, epoch=epoch):
                state = type(node.machine.state).__name__ if node.machine else ""
                self.say(f"{me} is {state}: leader of {epoch} is {who(leader)}")
            case do.Send():
                self._work.append(lambda: self._deliver(node, effect))
            case do.Reply(ticket=ticket, response=response):
                waiter = node.tickets.pop(ticket, None)
                if waiter is not None:
                    waiter(self._resolved(node, response))
            case do.InstallSnapshot(id=snapshot):
                self.say(f"{me} installs snapshot {snapshot}")
                node.batches.clear()
                self._work.append(lambda: self._step(node, on.SnapshotInstalled(snapshot)))
            case do.TickSoon():
                self._work.append(lambda: self._step(node, on.Tick()))
            case do.Halt(reason=reason):
                self.say(f"{me} halts: {reason}")
                node.machine = None
            case do.QuorumReplaced(reason=reason):
                self.say(f"{me} meets another quorum: {reason}")
            case _:
                pass

    def _sync(self, node: Node) -> None:
        end = node.shape.end_offset
        if node.slow_disk:
            node.owed_sync = end
        else:
            self._work.append(lambda: self._step(node, on.Synced(end)))

    def _resolved(self, node: Node, response: Response) -> Response:
        if isinstance(response, FetchResponse) and isinstance(response.records, ReadLog):
            read = response.records
            parts = [b for base, b in node.batches if read.offset <= base < read.end_offset]
            return response._replace(records=b"".join(parts))
        if isinstance(response, SnapshotResponse) and isinstance(response.data, ReadSnapshot):
            return response._replace(data=b"snapshot", size=8)
        return response

    def _deliver(self, sender: Node, send: do.Send) -> None:
        me = sender.settings.node_id
        target = int(send.endpoint.host[1:])
        node = self.nodes[target]
        if {me, target} & self.isolated:
            if not isinstance(send.request, FetchRequest):
                self.say(f"{me}→{target} {_show(send.request)}: lost")
            return
        if node.machine is None:
            self._step(sender, on.Failed(send.request_id))
            return
        if not isinstance(send.request, FetchRequest):
            self.say(f"{me}→{target} {_show(send.request)}")
        if target in self.old and isinstance(send.request, VoteRequest) and send.request.pre_vote:
            self.say(f"{me}←{target} unknown version")
            self._work.append(
                lambda: self._step(sender, on.Failed(send.request_id, unsupported=True))
            )
            return
        if isinstance(send.request, FeaturesRequest):
            answered = on.Answered(
                send.request_id, FeaturesResponse(ErrorCode.NONE, KRAFT_VERSIONS)
            )
            self._work.append(lambda: self._step(sender, answered))
            return
        self._ticket += 1

        def answer(response: Response) -> None:
            if {me, target} & self.isolated:
                return
            shown = _show_response(response)
            if shown:
                self.say(f"{me}←{target} {shown}")
            self._work.append(lambda: self._step(sender, on.Answered(send.request_id, response)))

        node.tickets[self._ticket] = answer
        self._step(node, on.Asked(self._ticket, send.request))


def who(node: int) -> str:
    return str(node) if node >= 0 else "none"


def _show(request: Request) -> str:
    match request:
        case VoteRequest(epoch=epoch, last=last, pre_vote=pre_vote):
            return f"{'pre-vote' if pre_vote else 'vote'} in {epoch}, log ends at {last}"
        case BeginEpochRequest(epoch=epoch):
            return f"begins epoch {epoch}"
        case EndEpochRequest(epoch=epoch, successors=successors):
            return f"ends epoch {epoch}, successors {[key.id for key in successors]}"
        case SnapshotRequest(snapshot=snapshot, position=position):
            return f"fetches snapshot {snapshot} from {position}"
        case _:
            return type(request).__name__


def _show_response(response: Response) -> str:
    error = "" if response.error is ErrorCode.NONE else response.error.name
    match response:
        case VoteResponse(granted=granted):
            return error or ("granted" if granted else "denied")
        case FetchResponse(diverging=diverging, snapshot=snapshot):
            if diverging is not None:
                return f"diverges at {diverging}"
            return f"has snapshot {snapshot} instead" if snapshot is not None else error
        case _:
            return error
