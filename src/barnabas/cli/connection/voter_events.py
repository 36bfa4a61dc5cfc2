"""Voters that joined and left the quorum, as events: read off the metadata log's control records.

A ``VotersRecord`` has the whole set, so a change is its difference from the set before it: that of the
snapshot with which reading began, or of the log. Source: KIP-853.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from barnabas.raft.core.batches import control_records, iter_runs
from barnabas.raft.core.voters import VoterNode, VoterSet
from barnabas.types import ZERO_UUID, Buffer, uuid_text
from barnabas.wire.messages.k_raft_version_record import KRaftVersionRecord
from barnabas.wire.messages.voters_record import VotersRecord
from barnabas.wire.schema import Message

KRAFT_VERSION = "kraft.version"


class VoterEvent(NamedTuple):
    """The parts of an event that a control record tells; it has no reason."""

    kind: str
    subject: str
    change: str


class VoterEvents:
    """Knows the voters up to where the log was read."""

    def __init__(self) -> None:
        self.voters: VoterSet | None = None
        """None: no record has told them yet."""
        self.kraft_version = 0

    def load(self, snapshot: Buffer) -> None:
        """Begin again from a snapshot's bytes: what it holds happened before. Raises CorruptBatchError."""
        self.voters, self.kraft_version = None, 0
        view = memoryview(snapshot)
        for run in iter_runs(view):
            if run.is_control:
                for _, message in control_records(view[run.position : run.position + run.size]):
                    list(self.read_record(message))

    def read_record(self, message: Message) -> Iterator[VoterEvent]:
        """The changes of one control record."""
        if isinstance(message, KRaftVersionRecord):
            before, self.kraft_version = self.kraft_version, message.k_raft_version
            if before != self.kraft_version:
                yield VoterEvent("feature", KRAFT_VERSION, f"{before} → {self.kraft_version}")
        elif isinstance(message, VotersRecord):
            known, self.voters = self.voters, VoterSet.from_record(message)
            yield from _changes(known, self.voters)


def _changes(before: VoterSet | None, after: VoterSet) -> Iterator[VoterEvent]:
    if before is None:
        members = ", ".join(map(str, after.nodes))
        yield VoterEvent("quorum", members or "none", "are the first voters")
        return
    for node, voter in after.nodes.items():
        former = before.nodes.get(node)
        change = _change(former, voter)
        if change:
            yield VoterEvent("quorum", str(node), change)
    for node, voter in before.nodes.items():
        if node not in after.nodes:
            yield VoterEvent("quorum", str(node), f"removed from the voters{_directory(voter)}")


def _change(former: VoterNode | None, voter: VoterNode) -> str:
    if former is None:
        return f"added to the voters{_directory(voter)}{_places(voter)}"
    if former.key.directory_id not in (voter.key.directory_id, ZERO_UUID):
        return f"is a voter with another directory{_directory(voter)}{_places(voter)}"
    if former.key != voter.key:
        return f"the voter's directory is known{_directory(voter)}"
    if former.endpoints != voter.endpoints:
        return f"the voter moved{_places(voter)}"
    return ""


def _directory(voter: VoterNode) -> str:
    key = voter.key
    return "" if key.directory_id == ZERO_UUID else f", directory {uuid_text(key.directory_id)}"


def _places(voter: VoterNode) -> str:
    return "".join(f", at {endpoint}" for endpoint in voter.endpoints.values())
