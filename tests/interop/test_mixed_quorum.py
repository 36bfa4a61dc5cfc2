"""One quorum of both systems: a guest among two hosts, Kafka's with ours and ours with Kafka's.

The guest votes, follows, leads while the hosts are stopped in turn and follow it, steps back, and
installs the hosts' snapshot after its directory was emptied. And as observers: a broker of one system
under a controller of the other.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from tests.interop.quorum_nodes import QuorumNodes

pytestmark = [
    pytest.mark.process,
    pytest.mark.peers("kafka"),
    pytest.mark.java,
    pytest.mark.slow,
    pytest.mark.timeout(600),
]
HOSTS = (1, 2)
GUEST = 3
CONTROLLER, OBSERVER = 1, 4
FETCH_WAIT_S = 0.5
"""How long a leader keeps a replica's fetch at most where nothing is new."""
SYSTEMS = [
    pytest.param({GUEST}, id="Kafka as guest"),
    pytest.param(set(HOSTS), id="Kafka as hosts"),
]


@pytest.fixture
def nodes(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[QuorumNodes]:
    nodes = QuorumNodes(tmp_path, request.param)
    try:
        yield nodes
    finally:
        nodes.close()


def a_host_leads(nodes: QuorumNodes) -> tuple[int, int]:
    """All three follow one of the hosts; the leading one and the other."""
    if nodes.wait_for_leader(*HOSTS, GUEST) == GUEST:
        nodes.stop(GUEST, signal.SIGTERM)
        nodes.wait_for_leader(*HOSTS)
        nodes.start(GUEST)
    nodes.all_follow()
    first = nodes.wait_for_leader(*HOSTS)
    return first, HOSTS[0] + HOSTS[1] - first


@pytest.mark.parametrize("nodes", SYSTEMS, indirect=True)
def test_a_guest_in_a_quorum(nodes: QuorumNodes) -> None:
    for node in (*HOSTS, GUEST):
        nodes.start(node)
    nodes.all_follow()
    guest_votes(nodes)
    guest_leads(nodes)
    guest_steps_back(nodes)
    guest_installs_a_snapshot(nodes)


def guest_votes(nodes: QuorumNodes) -> None:
    """The leader died, the guest lacks a record of the other host's: only that one can lead, and only with
    the guest's vote."""
    leader, other = a_host_leads(nodes)
    nodes.pause(GUEST)
    time.sleep(3 * FETCH_WAIT_S)  # what it finds when it continues is an empty answer
    nodes.restart(other)
    nodes.stop(leader)
    nodes.resume(GUEST)
    assert nodes.wait_for_leader(other, GUEST) == other
    nodes.start(leader)
    nodes.all_follow()


def guest_leads(nodes: QuorumNodes) -> None:
    """Where a host lacks a record; then the hosts stop in turn and the others continue to follow it."""
    leader, behind = a_host_leads(nodes)
    nodes.stop(behind)
    nodes.restart(GUEST)
    nodes.stop(leader)
    nodes.start(behind)
    assert nodes.wait_for_leader(GUEST, behind) == GUEST
    nodes.start(leader)
    nodes.all_follow()
    for host in HOSTS:
        nodes.stop(host)
        nodes.all_follow(HOSTS[0] + HOSTS[1] - host)
        assert nodes.leader() == GUEST
        nodes.start(host)
        nodes.all_follow()
        assert nodes.leader() == GUEST


def guest_steps_back(nodes: QuorumNodes) -> None:
    """Stopped in order, it hands over; back again, it follows."""
    nodes.stop(GUEST, signal.SIGTERM)
    nodes.wait_for_leader(*HOSTS)
    nodes.start(GUEST)
    nodes.all_follow()
    assert nodes.leader() in HOSTS


def guest_installs_a_snapshot(nodes: QuorumNodes) -> None:
    nodes.stop(GUEST)
    leader = nodes.wait_for_leader(*HOSTS)
    for _ in range(20):  # records, where the leader writes none by itself
        if nodes.snapshots(leader):
            break
        other = HOSTS[0] + HOSTS[1] - leader
        nodes.restart(other)
    nodes.wait_for("the leader's log begins later", lambda: nodes.begins_later(leader))
    nodes.empty(GUEST)
    nodes.start(GUEST)
    nodes.wait_for("the guest's log begins with a snapshot", lambda: nodes.begins_later(GUEST))
    nodes.all_follow()
    assert nodes.leader() in HOSTS


@pytest.mark.parametrize(
    "java",
    [pytest.param({OBSERVER}, id="Kafka observes"), pytest.param({CONTROLLER}, id="Kafka leads")],
)
def test_an_observer_follows_and_installs_a_snapshot(tmp_path: Path, java: set[int]) -> None:
    nodes = QuorumNodes(tmp_path, java, voters=1, observers=(OBSERVER,))
    try:
        nodes.start(CONTROLLER)
        nodes.start(OBSERVER)
        nodes.all_follow(OBSERVER)
        client = AdminClient({"bootstrap.servers": str(nodes.endpoints[OBSERVER]), "log_level": 0})
        for number in range(12):
            topic = NewTopic(f"t{number}", 3, 1)
            client.create_topics([topic])[topic.topic].result(30)
        nodes.all_follow(OBSERVER)
        nodes.stop(OBSERVER)
        nodes.wait_for("the log begins later", lambda: nodes.begins_later(CONTROLLER))
        nodes.empty(OBSERVER)
        nodes.start(OBSERVER)
        nodes.wait_for("its log begins with a snapshot", lambda: nodes.begins_later(OBSERVER))
        nodes.all_follow(OBSERVER)

        def sees_all() -> bool:
            known = set(client.list_topics(timeout=10).topics)
            return {f"t{n}" for n in range(12)} <= known

        nodes.wait_for("it knows every topic", sees_all)
    finally:
        nodes.close()
