"""What a replica measures of itself, under Kafka's names."""

from __future__ import annotations

from barnabas.raft.core.quorum_math import Tally
from barnabas.raft.core.states import Prospective
from barnabas.raft.core.voters import ReplicaKey
from barnabas.raft.metrics import WINDOW_MS, Window, _state_of
from barnabas.types import ZERO_UUID
from tests.unit.raft.quorum_world import Quorum

KAFKAS_NAMES = {
    "current-state",
    "current-leader",
    "current-vote",
    "current-vote-directory-id",
    "current-epoch",
    "high-watermark",
    "log-end-offset",
    "log-end-epoch",
    "number-unknown-voter-connections",
    "number-of-voters",
    "number-of-observers",
    "uncommitted-voter-change",
    "commit-latency-avg",
    "commit-latency-max",
    "election-latency-avg",
    "election-latency-max",
    "append-records-rate",
    "fetch-records-rate",
    "poll-idle-ratio-avg",
}


def test_a_window_forgets_what_is_old() -> None:
    window = Window(0.0)
    window.add(8.0, 1.0)
    window.add(2.0, 2.0)
    assert (window.average(3.0), window.maximum(3.0)) == (5.0, 8.0)
    window.add(4.0, WINDOW_MS * 0.6)
    assert window.maximum(WINDOW_MS * 0.7) == 8.0
    window.add(4.0, WINDOW_MS * 1.2)
    assert window.maximum(WINDOW_MS * 1.2) == 4.0
    assert (window.average(WINDOW_MS * 3), window.rate(WINDOW_MS * 3)) == (0.0, 0.0)


def test_a_rate_is_per_second() -> None:
    window = Window(0.0)
    for at in range(10):
        window.add(5.0, at * 1_000.0)
    assert window.rate(10_000.0) == 5.0


def test_leader_and_follower_tell_what_they_do() -> None:
    quorum = Quorum(observers=1)
    quorum.start()
    for number in range(50):
        quorum.commit(b"%d" % number)
    quorum.settle()
    leader = quorum.elect()
    assert leader.replica is not None
    told = leader.replica.describe()["metrics"]
    assert set(told) == KAFKAS_NAMES
    assert told["current-state"] == "leader"
    assert told["current-leader"] == told["current-vote"] == leader.id
    assert told["high-watermark"] == told["log-end-offset"] == 51
    assert (told["number-of-voters"], told["number-of-observers"]) == (3, 1)
    assert 0 < told["commit-latency-avg"] <= told["commit-latency-max"] < 100
    assert 0 < told["election-latency-avg"] < 1_000
    assert told["append-records-rate"] > 0 and told["fetch-records-rate"] == 0
    assert 0 <= told["poll-idle-ratio-avg"] <= 1
    other = next(n for n in quorum.up() if n is not leader and n.settings.can_vote)
    assert other.replica is not None
    told = other.replica.describe()["metrics"]
    assert told["current-state"] == "follower" and told["current-leader"] == leader.id
    assert told["fetch-records-rate"] > 0 and told["commit-latency-max"] == 0


def test_a_candidate_reports_its_own_vote() -> None:
    tally = Tally(frozenset({1, 2, 3}))
    assert _state_of(Prospective(5, 0.0, tally, 0)) == "prospective"
    voted = Prospective(5, 0.0, tally, 0, voted=ReplicaKey(2, ZERO_UUID))
    assert _state_of(voted) == "prospective-voted"
