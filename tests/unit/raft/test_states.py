"""States have only their legal moves, and the table in the docs is the one in the code."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from barnabas.raft.core import states
from barnabas.raft.core.machine import Machine
from barnabas.raft.core.quorum_math import Tally
from barnabas.raft.core.states import (
    Follower,
    IllegalMoveError,
    Prospective,
    Resigned,
    Unattached,
    Voted,
)
from barnabas.raft.core.voters import ReplicaKey
from barnabas.raft.transitions import STATES, mermaid, moves
from barnabas.types import Endpoint
from tests.unit.raft.chaos import Chaos
from tests.unit.raft.quorum_world import Quorum

AT = Endpoint("n2", 1)


def test_the_docstrings_table_is_the_codes() -> None:
    assert states.__doc__ is not None
    names = {state.__name__ for state in STATES}
    written = {}
    for line in states.__doc__.splitlines():
        first, _, rest = line.partition(" ")
        if first in names:
            written[first] = {word for word in re.findall(r"\w+", rest) if word in names}
    assert written == {state: set(targets) for state, targets in moves().items()}


def test_the_diagram_has_every_move() -> None:
    assert mermaid().count("-->") == sum(map(len, moves().values()))


def test_an_epoch_never_goes_back() -> None:
    state = Unattached(5, 0.0)
    with pytest.raises(IllegalMoveError):
        state.to_unattached(5, 0.0)
    with pytest.raises(IllegalMoveError):
        state.to_follower(4, 2, AT, 0.0)


def test_an_epoch_has_one_leader() -> None:
    state = Follower(5, 0.0, 2, AT)
    with pytest.raises(IllegalMoveError):
        state.to_follower(5, 3, AT, 0.0)


def test_a_replica_votes_once_in_an_epoch() -> None:
    voted = Unattached(5, 0.0).to_voted(ReplicaKey(2), 0.0)
    assert not hasattr(voted, "to_voted")
    standing = Voted(5, 0.0, ReplicaKey(2)).to_prospective(Tally(frozenset({1, 2})), 0.0)
    with pytest.raises(IllegalMoveError):
        standing.to_voted(ReplicaKey(3), 0.0)


def test_a_leader_has_voted_for_itself_whatever_it_becomes() -> None:
    resigned = Resigned(5, 0.0, ReplicaKey(2))
    assert resigned.to_observer(0.0).voted == ReplicaKey(2)


def test_no_replica_is_candidate_without_pre_vote_or_leader_without_votes() -> None:
    tally = Tally(frozenset({1, 2, 3})).with_vote(1, True)
    standing = Prospective(5, 0.0, tally, 0)
    with pytest.raises(IllegalMoveError):
        standing.to_candidate(ReplicaKey(1), tally, 0.0)


def test_only_a_candidate_can_come_to_lead() -> None:
    assert [state for state, targets in moves().items() if "Leader" in targets] == ["Candidate"]


def test_the_diagram_in_the_docs_is_the_codes() -> None:
    page = Path(__file__).parents[3] / "docs" / "quorum.md"
    assert mermaid() in page.read_text()


@pytest.mark.slow
def test_replicas_make_only_moves_of_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also not by a state that was made elsewhere than by a move of the one before."""
    made: set[tuple[str, str]] = set()
    become, update_state = Machine.become, Machine.update_state

    def watched_become(machine: Machine, state: states.State) -> None:
        made.add((type(machine.state).__name__, type(state).__name__))
        become(machine, state)

    def watched_refine(machine: Machine, state: states.State) -> None:
        assert type(state) is type(machine.state)
        update_state(machine, state)

    monkeypatch.setattr(Machine, "become", watched_become)
    monkeypatch.setattr(Machine, "update_state", watched_refine)
    for seed in (1, 2, 3):
        Chaos(Quorum(seed, voters=5, first_voters=3), duration_ms=6_000).play()
    legal = {(state, target) for state, targets in moves().items() for target in targets}
    assert made <= legal
    assert len(made) >= len(legal) / 2, sorted(legal - made)
