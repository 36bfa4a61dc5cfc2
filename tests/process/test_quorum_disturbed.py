"""Three processes of a bare quorum: a killed voter is replaced; one that pauses or is slow disturbs no
other."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.quorum_processes import NODES, Leads, Processes

pytestmark = [pytest.mark.process, pytest.mark.slow]
PAUSE_S = 3.5
"""Longer than the fetch time-out (2 s) and than a leader continues without a majority (3 s)."""


@pytest.fixture
def quorum(tmp_path: Path) -> Iterator[Processes]:
    with Processes(tmp_path) as quorum:
        quorum.start()
        quorum.wait_for(quorum.agreed)
        yield quorum


def leader_of(quorum: Processes) -> Leads:
    assert quorum.leader is not None
    return quorum.leader


def followers(quorum: Processes) -> list[int]:
    return [node for node in NODES if node != leader_of(quorum).node]


def test_a_killed_leader_is_replaced_and_returns_quietly(quorum: Processes) -> None:
    for _ in range(10):
        quorum.wait_for(quorum.agreed)
        before = leader_of(quorum)
        quorum.kill(before.node)
        quorum.wait_for(lambda: quorum.leader is not None)
        after = leader_of(quorum)
        assert after.epoch > before.epoch
        quorum.start(before.node)
        quorum.wait_for(quorum.agreed)
        assert leader_of(quorum) == after, "the one that returned disturbed the quorum"


def test_a_follower_that_pauses_disturbs_no_other_replica(quorum: Processes) -> None:
    before = leader_of(quorum)
    paused = followers(quorum)[0]
    quorum.send(paused, signal.SIGSTOP)
    quorum.watch(PAUSE_S)
    quorum.send(paused, signal.SIGCONT)
    quorum.watch(PAUSE_S)
    quorum.wait_for(quorum.agreed)
    assert leader_of(quorum) == before
    assert max(seen.epoch for seen in quorum.seen) == before.epoch


def test_a_leader_that_pauses_is_replaced_and_returns_quietly(quorum: Processes) -> None:
    before = leader_of(quorum)
    quorum.send(before.node, signal.SIGSTOP)
    quorum.wait_for(lambda: any(seen.epoch > before.epoch for seen in quorum.seen))
    quorum.watch(PAUSE_S)
    quorum.send(before.node, signal.SIGCONT)
    quorum.wait_for(quorum.agreed)
    after = leader_of(quorum)
    assert after.node != before.node and after.epoch > before.epoch
    assert not [seen for seen in quorum.watch(PAUSE_S) if seen.epoch > after.epoch]


def test_a_slow_follower_disturbs_no_other_replica(quorum: Processes) -> None:
    """It runs for a moment every now and then, as on a machine that is much too busy."""
    before = leader_of(quorum)
    slow = followers(quorum)[1]
    for pause_s in (0.3, 1.9, 2.1, 2.5, 1.0, 2.2):
        quorum.send(slow, signal.SIGSTOP)
        quorum.watch(pause_s)
        quorum.send(slow, signal.SIGCONT)
        quorum.watch(0.1)
    quorum.wait_for(quorum.agreed)
    assert leader_of(quorum) == before
    assert max(seen.epoch for seen in quorum.seen) == before.epoch
