"""One directory of an only voter, opened in turn by Apache Kafka and by ours.

Ours keeps a mark there of how far its log was synced (`recovery-point-offset-checkpoint`,
raft/storage/recovery_point.py). Apache Kafka does not know it: it must not mind the file, and what it writes
behind the mark, or the log and snapshots that it deletes before it, must neither keep ours from starting nor
be cut.
"""

from __future__ import annotations

import re
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from barnabas.host.disk import HostDisk
from barnabas.raft.storage.recovery_point import marked_offset
from tests.interop.quorum_nodes import QuorumNodes

pytestmark = [
    pytest.mark.process,
    pytest.mark.java,
    pytest.mark.slow,
    pytest.mark.peers("kafka"),
    pytest.mark.timeout(400),
]
NODE = 1
COMPLAINTS = re.compile(r"^(\[.*\] )?(ERROR|FATAL) |^\S+ error |^Traceback|raft\.log_cut", re.M)
"""A log that ours cuts is a complaint here, too."""


@pytest.fixture(params=[False, True], ids=["static", "dynamic"])
def voter(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[QuorumNodes]:
    nodes = QuorumNodes(tmp_path, java=set(), voters=1, dynamic=request.param)
    yield nodes
    nodes.close()


def mark_of(nodes: QuorumNodes) -> int:
    return marked_offset(HostDisk(), str(nodes.log_directory(NODE)))


def lead(nodes: QuorumNodes, *, java: bool) -> int:
    """Start the node as Apache Kafka or as ours; where its log ends when it has written something."""
    nodes.java = {NODE} if java else set()
    log = nodes.directory / f"{NODE}.log"
    told = len(log.read_text()) if log.exists() else 0
    nodes.start(NODE)
    nodes.wait_for_leader(NODE)
    if java:  # an idle controller of it writes a record every half second
        begun = nodes.end_of(NODE)
        nodes.wait_for("six records", lambda: nodes.end_of(NODE) >= begun + 6)
    complaints = COMPLAINTS.findall(log.read_text()[told:])
    assert not complaints, log.read_text()[told:]
    return nodes.end_of(NODE)


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM], ids=["killed", "stopped"])
def test_kafka_does_not_mind_the_mark_and_ours_starts_behind_it(
    voter: QuorumNodes, how: signal.Signals
) -> None:
    lead(voter, java=False)
    voter.wait_for("the mark", lambda: mark_of(voter) > 0)
    voter.stop(NODE, how)
    mark = mark_of(voter)

    first = lead(voter, java=True)
    assert first > mark and mark_of(voter) == mark
    voter.stop(NODE, how)

    second = lead(voter, java=False)
    assert second > first, "nothing of what Apache Kafka wrote is gone"
    voter.wait_for("a newer mark", lambda: mark_of(voter) >= first)
    voter.stop(NODE, how)

    third = lead(voter, java=True)
    assert third > second


def test_ours_starts_where_kafka_deleted_what_the_mark_is_about(voter: QuorumNodes) -> None:
    """Its snapshots let Apache Kafka drop the log up to them: the mark lies before all that is left."""
    lead(voter, java=False)
    voter.wait_for("the mark", lambda: mark_of(voter) > 0)
    voter.stop(NODE)
    mark = mark_of(voter)
    lead(voter, java=True)

    def first_segment() -> int:
        return min(int(path.stem) for path in voter.log_directory(NODE).glob("*.log"))

    voter.wait_for("the log begins behind the mark", lambda: first_segment() > mark)
    end = voter.end_of(NODE)
    voter.stop(NODE)
    assert mark_of(voter) == mark
    assert lead(voter, java=False) > end
