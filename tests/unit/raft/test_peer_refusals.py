"""Replicas among peers of another cluster: who says so, and who ends."""

from __future__ import annotations

from dataclasses import replace
from itertools import count

import pytest

from barnabas.raft.core.messages import FetchResponse, Response
from barnabas.raft.core.states import Observer
from barnabas.wire.errors import ErrorCode
from tests.unit.raft.quorum_world import CLUSTER, Quorum
from tests.unit.raft.script import Script
from tests.unit.raft.script_machines import Node, SteadyRng

OTHER = "b3RoZXItY2x1c3Rlci1pZA"


def quorum(*others: int, voters: int = 3, observers: int = 0) -> Quorum:
    """`others` are of another cluster."""
    world = Quorum(voters=voters, observers=observers)
    for node in others:
        world.nodes[node].settings = replace(world.nodes[node].settings, cluster_id=OTHER)
    world.start()
    return world


def said(world: Quorum, node: int) -> list[str]:
    process = world.nodes[node].process
    assert process is not None
    return [line for line in process.log_lines if "raft.peer_refuses" in line]


def test_a_voter_of_another_cluster_ends_with_a_sentence() -> None:
    world = quorum(3)
    world.run_until(lambda: bool(world.halts))
    (halt,) = world.halts
    assert halt.startswith(f"3: /data is of cluster {OTHER}, and n1:9093 is of another cluster")
    assert "controller.quorum.voters" in halt and "--cluster-id" in halt


@pytest.mark.slow
def test_the_majority_says_who_is_of_another_cluster_and_lives() -> None:
    world = quorum(3)
    world.commit(b"a")
    world.world.run(world.world.now_ms + 100_000)
    assert [node.id for node in world.up()] == [1, 2]
    first = [line for line in world.world.trace if "raft.peer_refuses node=3" not in line]
    first = [line for line in first if "raft.peer_refuses" in line]
    assert any(f"/data is of cluster {CLUSTER}, and n3:9093 is of" in line for line in first)
    assert len(first) <= 4


def test_a_voter_alone_among_strangers_ends_even_if_they_are_no_majority() -> None:
    """Two of five are right: they can never be three."""
    world = quorum(1, 2, 3, voters=5)
    world.run_until(lambda: len(world.halts) == 2)
    world.commit(b"a")
    assert sorted(halt[0] for halt in world.halts) == ["4", "5"]


def test_two_voters_of_two_clusters_do_not_wait_for_each_other() -> None:
    """The first one ends, the second one has said who the other was."""
    world = quorum(2, voters=2)
    world.run_until(lambda: bool(world.halts))
    (left,) = world.up()
    assert said(world, left.id)


def test_an_observer_of_another_cluster_ends() -> None:
    world = quorum(4, observers=1)
    world.run_until(lambda: bool(world.halts))
    assert world.halts[0].startswith("4: ")


@pytest.mark.slow
def test_a_voter_that_had_a_leader_outlives_what_its_peers_become() -> None:
    world = quorum()
    world.commit(b"a")
    for node in (1, 2):
        world.nodes[node].kill()
        world.nodes[node].settings = replace(world.nodes[node].settings, cluster_id=OTHER)
        world.nodes[node].start()
    world.world.run(world.world.now_ms + 60_000)
    assert world.nodes[3].is_up and not any(halt.startswith("3") for halt in world.halts)
    assert said(world, 3)


@pytest.mark.parametrize(("ms", "is_said"), [(4_000, False), (9_000, True)])
def test_an_observer_that_hears_older_epochs_alone_meets_another_quorum(
    ms: int, is_said: bool
) -> None:
    """Three fetch time-outs long: a voter that lags behind is no other quorum."""
    told = Script().run(f"> voters 1 2 3 observers 4\n> saved 4 7 leader 1\n> start\n> run {ms}\n")
    sentence = "4 meets another quorum: it is in epoch 1, and this node has seen epoch 7"
    assert (sentence in told) == is_said


@pytest.mark.slow
def test_an_observer_says_rarely_that_two_nodes_lead_in_its_epoch() -> None:
    """It asks every 20 ms."""
    world = quorum(observers=1)
    world.commit(b"a")
    observer = world.nodes[4]
    world.run_until(lambda: observer.journal.values == [b"a"])
    assert observer.replica is not None and observer.process is not None
    machine = observer.replica.machine
    assert isinstance(machine.state, Observer)
    machine.become(replace(machine.state, leader_id=machine.leader_id % 3 + 1))
    for minutes in (1, 2):
        world.world.run(world.world.now_ms + 59_000)
        lines = [line for line in observer.process.log_lines if "raft.other_quorum" in line]
        assert len(lines) == minutes
        assert "both lead in epoch" in lines[0]


class SomeAnswersLag(Script):
    """While `lag` holds, every answer to a fetch is that of a voter in epoch 0."""

    lag = False

    def _resolved(self, node: Node, response: Response) -> Response:
        if self.lag and isinstance(response, FetchResponse):
            return FetchResponse(ErrorCode.NONE, 0, -1, None)
        return super()._resolved(node, response)


@pytest.mark.slow
def test_an_observer_that_has_its_leader_again_forgets_older_epochs() -> None:
    world = SomeAnswersLag()
    world.run("> voters 1 2 3 observers 4\n> start\n> run 3000\n")
    for _ in range(3):
        world.lag = True
        world.run("> run 600\n")
        world.lag = False
        world.run("> run 60000\n")
    assert world.nodes[4].machine is not None
    assert world.nodes[4].machine.leader_id == 1
    assert not [line for line in world.lines if "another quorum" in line]


@pytest.mark.slow
def test_a_silence_between_older_epochs_is_no_evidence() -> None:
    world = Script()
    text = "> voters 1 2 3 observers 4\n> saved 4 7 leader 1\n> start\n> run 4000\n"
    world.run(text + "> isolate 4\n> run 60000\n> heal\n> run 4000\n")
    assert not [line for line in world.lines if "another quorum" in line]
    world.run("> run 5000\n")
    assert [line for line in world.lines if "4 meets another quorum" in line]


def test_a_server_that_never_answers_hides_no_other_quorum() -> None:
    """Each question to it takes a fetch time-out."""
    world = Script()
    world.run("> voters 1 2 3 observers 4\n> saved 4 7 leader 1\n> start\n> isolate 2\n")
    machine = world.nodes[4].machine
    assert machine is not None
    machine.rng = InTurn()  # type: ignore[assignment]
    world.run("> run 12000\n")
    assert [line for line in world.lines if "4 meets another quorum" in line]


class InTurn(SteadyRng):
    """Asks one server after the other."""

    def __init__(self) -> None:
        super().__init__(4)
        self._turn = count()

    def randrange(self, start: int, stop: int | None = None) -> int:
        return next(self._turn) % start
