"""Adding, removing and updating voters while the quorum runs (KIP-853)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from barnabas.raft.core import events as on
from barnabas.raft.core import messages
from barnabas.raft.core.inflight import Pending
from barnabas.raft.core.membership_change import CAUGHT_UP_WITHIN_MS, on_own_change_answer
from barnabas.raft.core.voters import ReplicaKey
from barnabas.types import Endpoint, Uuid
from barnabas.wire.errors import ErrorCode
from tests.unit.raft.quorum_world import LISTENER, Quorum, QuorumNode


def voters_of(quorum: Quorum, node: int) -> list[int]:
    replica = quorum.nodes[node].replica
    assert replica is not None
    return list(replica.machine.voters)


def test_a_standalone_voter_leads_and_others_join_it() -> None:
    quorum = Quorum(first_voters=1)
    quorum.start()
    quorum.commit(b"alone")
    assert quorum.add_voter(2).error is ErrorCode.NONE
    assert quorum.add_voter(3).error is ErrorCode.NONE
    quorum.commit(b"together")
    quorum.settle()
    assert [voters_of(quorum, node) for node in (1, 2, 3)] == [[1, 2, 3]] * 3
    quorum.nodes[1].kill()
    quorum.commit(b"without the first")
    quorum.settle()
    assert quorum.nodes[2].journal.values == [b"alone", b"together", b"without the first"]


@pytest.mark.slow
def test_a_replica_that_is_not_there_is_not_added() -> None:
    quorum = Quorum(first_voters=2)
    quorum.nodes[1].start()
    quorum.nodes[2].start()
    began = quorum.world.now_ms
    answer = quorum.add_voter(3, timeout_ms=20_000)
    assert answer.error is ErrorCode.REQUEST_TIMED_OUT
    assert quorum.world.now_ms - began < 19_500  # the caller still waits
    assert "could not be asked" in answer.message
    quorum.commit(b"continues")


def test_a_voter_that_is_there_is_not_added_twice() -> None:
    quorum = Quorum(first_voters=3)
    quorum.start()
    quorum.commit(b"1")
    assert quorum.add_voter(2).error is ErrorCode.DUPLICATE_VOTER


def test_a_removed_leader_hands_over_and_stays_an_observer() -> None:
    quorum = Quorum(first_voters=3)
    quorum.start()
    quorum.commit(b"1")
    leader = quorum.elect()
    assert quorum.remove_voter(leader.id).error is ErrorCode.NONE
    quorum.run_until(lambda: (a := quorum.active()) is not None and a.id != leader.id)
    quorum.commit(b"2")
    quorum.settle()
    assert leader.replica is not None
    assert leader.id not in leader.replica.machine.voters
    assert leader.replica.describe()["state"] == "Observer"
    assert leader.journal.values == [b"1", b"2"]


def test_only_the_voter_with_that_directory_is_removed() -> None:
    quorum = Quorum(first_voters=3)
    quorum.start()
    quorum.commit(b"1")
    other = ReplicaKey(2, Uuid(bytes(15) + b"\x77"))
    assert quorum.ask(messages.RemoveVoterRequest(other)).error is ErrorCode.VOTER_NOT_FOUND


@pytest.mark.parametrize("static", [False, True])
def test_a_change_that_names_no_voter_is_refused_at_once(static: bool) -> None:
    quorum = Quorum(voters=3, first_voters=None if static else 2)
    quorum.start()
    quorum.commit(b"1")
    at = {LISTENER: Endpoint("n3", 9093)}
    no_id, no_directory = ReplicaKey(-1, Uuid(b"d" * 16)), ReplicaKey(3)
    valid = ReplicaKey(3, Uuid(b"d" * 16))
    leader = quorum.elect().replica
    assert leader is not None
    senseless: list[messages.Request] = [
        messages.AddVoterRequest(valid, {"OTHER": at[LISTENER]}, 30_000),
        messages.UpdateVoterRequest(leader.epoch, valid, {}, (0, 1)),
        messages.UpdateVoterRequest(leader.epoch, valid, at, (-1, 1)),
        messages.UpdateVoterRequest(leader.epoch, valid, at, (1, 0)),
    ]
    for key in (no_id, no_directory):
        senseless += [
            messages.AddVoterRequest(key, at, 30_000),
            messages.RemoveVoterRequest(key),
            messages.UpdateVoterRequest(leader.epoch, key, at, (0, 1)),
        ]
    for request in senseless:
        answer = quorum.ask(request, limit_ms=10)
        assert answer.error is ErrorCode.INVALID_REQUEST, request
        assert answer.message


def test_the_last_voter_stays() -> None:
    quorum = Quorum(voters=1, first_voters=1)
    quorum.start()
    quorum.commit(b"1")
    refused = quorum.remove_voter(1)
    assert refused.error is ErrorCode.VOTER_NOT_FOUND and "last voter" in refused.message


def test_static_voters_cannot_be_changed() -> None:
    quorum = Quorum()
    quorum.start()
    quorum.commit(b"1")
    assert quorum.remove_voter(2).error is ErrorCode.UNSUPPORTED_VERSION


@pytest.mark.parametrize(
    ("error", "again"),
    [
        (ErrorCode.NONE, False),
        (ErrorCode.UNSUPPORTED_VERSION, False),
        (ErrorCode.REQUEST_TIMED_OUT, True),
    ],
)
def test_a_leader_without_memory_of_static_voters_learns_them_once(
    error: ErrorCode, again: bool
) -> None:
    quorum = Quorum()
    quorum.start()
    quorum.commit(b"1")
    leader = quorum.elect().replica
    follower = next(n.replica for n in quorum.up() if n.replica is not leader)
    assert leader is not None and follower is not None
    quorum.run_until(lambda: follower.machine.announced_static_voter == leader.epoch)
    machine, at = follower.machine, leader.leader_endpoint
    assert at is not None
    machine.announced_static_voter = -1
    sent = messages.UpdateVoterRequest(machine.epoch, machine.me, {}, (0, 1))
    answer = messages.ChangeVoterResponse(error, machine.epoch, leader.node_id, at)
    on_own_change_answer(machine, Pending(leader.node_id, at, sent), answer)
    assert (machine.announced_static_voter != machine.epoch) is again


def test_a_static_quorum_becomes_dynamic() -> None:
    quorum = Quorum()
    quorum.start()
    quorum.commit(b"1")
    leader = quorum.elect()
    assert leader.replica is not None
    quorum.world.run(quorum.world.now_ms + 5_000)
    answers: list[messages.Response] = []
    replica = leader.replica

    def keep(response: messages.Response) -> messages.Response:
        answers.append(response)
        return response

    replica.upgrade_kraft_version(1, keep)  # type: ignore[arg-type]
    quorum.run_until(lambda: bool(answers))
    assert answers[0].error is ErrorCode.NONE
    follower = next(n for n in quorum.nodes.values() if n is not leader)
    assert quorum.remove_voter(follower.id).error is ErrorCode.NONE
    quorum.settle()
    assert voters_of(quorum, leader.id) == sorted(set(quorum.nodes) - {follower.id})
    for node in quorum.nodes.values():
        node.kill()
        node.start()
    quorum.commit(b"2")
    assert voters_of(quorum, leader.id) == sorted(set(quorum.nodes) - {follower.id})


def test_an_upgrade_that_is_not_committed_yet_is_not_there() -> None:
    """A caller that asks again had learned that it is, and it was truncated later."""
    quorum = Quorum()
    quorum.start()
    quorum.commit(b"1")
    leader = quorum.elect()
    assert leader.replica is not None
    quorum.world.run(quorum.world.now_ms + 6_000)
    for node in set(quorum.nodes) - {leader.id}:
        quorum.network.cut(f"n{node}", f"n{leader.id}")
        quorum.network.cut(f"n{leader.id}", f"n{node}")
    answers: list[messages.Response] = []

    def keep(response: messages.Response) -> messages.Response:
        answers.append(response)
        return response

    leader.replica.upgrade_kraft_version(1, keep)  # type: ignore[arg-type]
    quorum.world.run(quorum.world.now_ms + 100)
    assert not answers
    leader.replica.upgrade_kraft_version(1, keep)  # type: ignore[arg-type]
    assert [answer.error for answer in answers] == [ErrorCode.REQUEST_TIMED_OUT]
    quorum.world.run(quorum.world.now_ms + 20_000)
    quorum.network.heal()
    quorum.settle()
    assert [n.replica.kraft_version for n in quorum.up() if n.replica is not None] == [0, 0, 0]


def test_a_node_that_lost_its_disk_joins_again_by_itself() -> None:
    quorum = Quorum(first_voters=3)
    for node in quorum.nodes.values():
        node.settings = replace(node.settings, auto_join=True)
    quorum.start()
    quorum.commit(b"1")
    lost = next(n for n in quorum.nodes.values() if n is not quorum.elect())
    lost.kill()
    disk = lost.machine.disk.open_for_process()
    disk.remove_tree("/data")
    lost.settings = replace(lost.settings, directory_id=Uuid(b"a new directory!"))
    lost.start()

    def rejoined() -> bool:
        return all(
            n.replica is not None
            and n.replica.machine.voters.key(lost.id).directory_id == b"a new directory!"
            for n in quorum.up()
        )

    quorum.run_until(rejoined)
    quorum.commit(b"2")
    quorum.settle()
    assert lost.journal.values == [b"1", b"2"]


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_a_leader_that_was_alone_for_long_waits_for_its_first_follower(seed: int) -> None:
    quorum = Quorum(seed, first_voters=1)
    quorum.start()
    quorum.commit(b"1")
    leader = quorum.elect()
    assert leader.replica is not None
    epoch = leader.replica.epoch
    quorum.world.run(quorum.world.now_ms + 60_000)
    assert quorum.add_voter(2).error is ErrorCode.NONE
    assert quorum.elect() is leader and leader.replica.epoch == epoch


def test_new_controllers_join_by_themselves_where_they_may() -> None:
    quorum = Quorum(first_voters=1, observers=1)
    for node in quorum.nodes.values():
        node.settings = replace(node.settings, auto_join=True)
    quorum.start()
    quorum.commit(b"1")

    def joined() -> bool:
        return all(voters_of(quorum, node) == [1, 2, 3] for node in quorum.nodes)

    quorum.run_until(joined)
    quorum.nodes[quorum.elect().id].kill()
    quorum.commit(b"2")


@pytest.mark.slow
def test_an_auto_joining_replica_far_behind_gets_the_snapshot_first() -> None:
    """What waits for it to catch up must not hold up that by which it does."""
    quorum = Quorum(
        voters=4,
        first_voters=3,
        bytes_between_snapshots=1_500,
        segment_bytes=1_024,
        retention_bytes=1_000,
        fetch_snapshot_bytes_max=500,
    )
    quorum.start()
    late = quorum.nodes[4]
    for number in range(90):
        quorum.commit(b"%90d" % number)
        if number == 30:
            quorum.settle()
            late.kill()
    quorum.world.run(quorum.world.now_ms + CAUGHT_UP_WITHIN_MS)
    late.settings = replace(late.settings, auto_join=True)
    late.start()
    quorum.run_until(lambda: 4 in voters_of(quorum, 1), 5_000)
    assert late.installed


@pytest.mark.slow
def test_an_auto_joining_replica_out_of_reach_leaves_others_their_turn() -> None:
    quorum = Quorum(voters=4, first_voters=3)
    stray = quorum.nodes[4]
    nowhere = {LISTENER: Endpoint("n4", 1)}
    stray.settings = replace(stray.settings, auto_join=True, listeners=nowhere)
    quorum.start()
    quorum.commit(b"1")
    busy = 0
    for _ in range(1_000):
        quorum.world.run(quorum.world.now_ms + 10)
        leader = quorum.elect().replica
        assert leader is not None
        busy += leader.machine.change is not None
    assert busy < 100


@pytest.mark.parametrize("by_itself", [False, True])
def test_an_auto_joining_replica_that_is_behind_is_refused_at_once(by_itself: bool) -> None:
    """A replica of Apache Kafka fetches nothing before it has its answer, and asks again when that is late:
    it would never catch up."""
    quorum = Quorum(voters=4, first_voters=3)
    quorum.start()
    quorum.commit(b"1")
    other = ReplicaKey(4, Uuid(b"other directory."))
    asked = messages.AddVoterRequest(
        other, quorum.voter(4).endpoints, 2_000, ack_when_committed=not by_itself
    )
    began = quorum.world.now_ms
    answer = quorum.ask(asked)
    assert answer.error is ErrorCode.REQUEST_TIMED_OUT and "caught up" in answer.message
    assert (quorum.world.now_ms - began < 1_000) is by_itself
    leader = quorum.elect().replica
    assert leader is not None and leader.machine.change is None


def test_no_replica_joins_by_itself_by_default() -> None:
    quorum = Quorum(first_voters=1)
    quorum.start()
    quorum.commit(b"1")
    quorum.world.run(quorum.world.now_ms + 30_000)
    assert voters_of(quorum, 2) == voters_of(quorum, 1) == [1]


def test_a_voter_that_moved_is_found_at_its_new_endpoint() -> None:
    quorum = Quorum(first_voters=3)
    quorum.start()
    quorum.commit(b"1")
    moved = next(n for n in quorum.nodes.values() if n is not quorum.elect())
    moved.kill()
    endpoint = Endpoint(f"n{moved.id}", 9999)
    moved.settings = replace(moved.settings, listeners={LISTENER: endpoint})
    moved.port = 9999
    moved.start()

    def known() -> bool:
        return all(
            n.replica is not None
            and n.replica.machine.voters.endpoint(moved.id, LISTENER) == endpoint
            for n in quorum.up()
        )

    quorum.run_until(known)
    quorum.commit(b"2")
    quorum.settle()


def test_a_voter_that_moved_is_answered_before_its_new_endpoint_is_committed() -> None:
    """A follower of Apache Kafka fetches nothing while it waits for that answer: where nothing commits
    without it, neither would come."""
    quorum = Quorum(voters=2, first_voters=2)
    quorum.start()
    quorum.commit(b"1")
    leader = quorum.elect().replica
    assert leader is not None
    waits = next(node for node in quorum.nodes.values() if node.replica is not leader)
    waits.kill()
    key, moved = quorum.voter(waits.id).key, {LISTENER: Endpoint("elsewhere", 9)}
    update = messages.UpdateVoterRequest(leader.epoch, key, moved, (0, 1))
    answer = quorum.ask(update, limit_ms=1_000)
    assert answer.error is ErrorCode.NONE and answer.leader_id == leader.machine.me.id
    assert leader.machine.voters.endpoint(waits.id, LISTENER) == moved[LISTENER]
    assert leader.high_watermark < leader.machine.log.end_offset
    again = quorum.ask(update, limit_ms=1_000)
    assert again.error is ErrorCode.REQUEST_TIMED_OUT
    waits.settings = replace(waits.settings, listeners=moved)
    waits.start()
    quorum.run_until(lambda: leader.high_watermark == leader.machine.log.end_offset)
    assert leader.machine.change is None


def move(node: QuorumNode) -> None:
    """It will be started elsewhere."""
    node.kill()
    node.port = 9999
    listeners = {LISTENER: Endpoint(f"n{node.id}", node.port)}
    node.settings = replace(node.settings, listeners=listeners)


def test_a_voter_while_whose_absence_all_have_moved_asks_a_bootstrap_server() -> None:
    quorum = Quorum(first_voters=3)
    quorum.start()
    quorum.commit(b"1")
    servers = tuple(Endpoint(f"n{node}", 9999) for node in quorum.nodes)
    absent = quorum.nodes[3]
    move(absent)
    for node in (quorum.nodes[1], quorum.nodes[2]):
        move(node)
        node.start()
        quorum.commit(b"2")
        quorum.world.run(quorum.world.now_ms + 6_000)
    absent.settings = replace(absent.settings, bootstrap_servers=servers)
    absent.start()

    def known() -> bool:
        leader = quorum.elect().replica
        return leader is not None and leader.machine.voters.endpoint(3, LISTENER) == servers[2]

    quorum.run_until(known)
    quorum.settle()


def test_the_last_voter_is_found_where_no_bootstrap_server_is_any_more() -> None:
    """All others left the quorum, and it had moved since the servers were written down (seed 603492)."""
    quorum = Quorum(first_voters=3)
    quorum.start()
    quorum.commit(b"1")
    quorum.settle()
    for node in quorum.nodes.values():
        node.kill()
        node.settings = replace(node.settings, bootstrap_servers=(Endpoint("gone", 9999),))
    quorum.start()
    for _ in range(2):
        assert quorum.remove_voter(quorum.elect().id).error is ErrorCode.NONE
        quorum.commit(b"2")
    wanted = [b"1", b"2", b"2"]
    quorum.run_until(lambda: all(n.journal.values == wanted for n in quorum.nodes.values()))


def test_a_leader_that_answers_a_voter_which_took_it_for_gone_is_followed_again() -> None:
    quorum = Quorum(first_voters=3)
    quorum.start()
    quorum.commit(b"1")
    leader = quorum.elect()
    other = next(node for node in quorum.nodes.values() if node is not leader)
    other.kill()
    at = Endpoint(f"n{leader.id}", leader.port)
    other.settings = replace(other.settings, bootstrap_servers=(at,))
    other.start()
    quorum.settle()
    assert other.replica is not None
    other.replica.step(on.PeerGone(at))
    quorum.run_until(lambda: other.replica is not None and other.replica.leader_id == -1)
    taken = quorum.run_until(lambda: other.replica is not None and other.replica.leader_id >= 0)
    assert taken < 1_000
    quorum.commit(b"2")
    quorum.settle()
