"""How the voters' records of the metadata log are described."""

from __future__ import annotations

from barnabas.cli.connection.voter_events import VoterEvents
from barnabas.raft.core.voters import KRAFT_VERSIONS, ReplicaKey, VoterNode, VoterSet
from barnabas.types import Endpoint, Uuid
from barnabas.wire.messages.k_raft_version_record import KRaftVersionRecord


def voter(node: int, directory: bytes = b"d", port: int = 9093) -> VoterNode:
    at = Endpoint(f"n{node}", port)
    return VoterNode(ReplicaKey(node, Uuid(directory * 16)), {"C": at}, KRAFT_VERSIONS)


def told(events: VoterEvents, *voters: VoterNode) -> list[str]:
    return [f"{e.subject} {e.change}" for e in events.read_record(VoterSet.of(*voters).to_record())]


def test_voters_are_listed_as_they_come_and_go() -> None:
    events = VoterEvents()
    assert told(events, voter(1), voter(2)) == ["1, 2 are the first voters"]
    directory = "ZGRkZGRkZGRkZGRkZGRkZA"
    added = told(events, voter(1), voter(2), voter(3))
    assert added == [f"3 added to the voters, directory {directory}, at n3:9093"]
    removed = told(events, voter(2), voter(3))
    assert removed == [f"1 removed from the voters, directory {directory}"]
    assert told(events, voter(2, port=9099), voter(3)) == ["2 the voter moved, at n2:9099"]
    (another,) = told(events, voter(2, port=9099), voter(3, b"e"))
    assert another.startswith("3 is a voter with another directory, directory ZWVl")
    assert told(events, voter(2, port=9099), voter(3, b"e")) == []


def test_the_level_of_the_quorum_is_a_feature() -> None:
    (level,) = VoterEvents().read_record(KRaftVersionRecord(version=0, k_raft_version=1))
    assert level == ("feature", "kraft.version", "0 → 1")
