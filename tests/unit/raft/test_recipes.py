"""Keys, sessions, watches, a lock and an election on three simulated replicas."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from barnabas.ports import Connection, Ports, Wakeup
from barnabas.raft.core.messages import BeginEpochRequest
from barnabas.raft.recipes import (
    Change,
    Election,
    InLineError,
    Lock,
    ProposalError,
    RefusedError,
    SessionOverError,
)
from barnabas.raft.recipes.store import COMMAND_BYTES_MAX
from barnabas.types import Endpoint
from barnabas.wire.messages.vote_response import VoteResponse
from tests.unit.raft.store_quorum import STORE_PORT, StoreQuorum


def test_a_value_written_on_one_replica_is_read_on_all() -> None:
    quorum = StoreQuorum()
    for node in quorum.nodes:
        store = quorum.stores[node]
        key = f"/from/{node}"
        assert quorum.result(lambda done, s=store, k=key: s.create(k, b"v", done)) == key  # type: ignore[misc]
    quorum.settle()
    for store in quorum.stores.values():
        assert [key for key, _ in store.tree.under("/from/")] == ["/from/1", "/from/2", "/from/3"]


def test_only_the_expected_version_is_written_over() -> None:
    quorum = StoreQuorum()
    store = quorum.stores[quorum.follower()]
    version = quorum.result(lambda done: store.put("/a", b"1", done))
    second = quorum.result(lambda done: store.put("/a", b"2", done, version=version))
    refused = quorum.result(lambda done: store.put("/a", b"3", done, version=version))
    assert isinstance(refused, RefusedError) and refused.reason == "version"
    quorum.result(store.barrier)
    assert store.tree.entries["/a"].value == b"2"
    assert store.tree.entries["/a"].version == second


def test_ephemeral_keys_go_with_their_session() -> None:
    quorum = StoreQuorum()
    owner = quorum.follower()
    session = quorum.session(owner)
    quorum.result(lambda done: quorum.stores[owner].create("/here", b"", done, session=session.id))
    quorum.wait(5_000)
    assert session.alive and "/here" in quorum.stores[quorum.leader()].tree.entries
    quorum.nodes[owner].kill()
    quorum.wait(1_500)
    assert "/here" not in quorum.stores[quorum.leader()].tree.entries


def test_a_session_survives_a_change_of_leaders() -> None:
    quorum = StoreQuorum()
    owner = quorum.follower()
    session = quorum.session(owner)
    quorum.result(lambda done: quorum.stores[owner].create("/here", b"", done, session=session.id))
    quorum.nodes[quorum.leader()].kill()
    quorum.elect()
    quorum.wait(5_000)
    assert session.alive
    assert "/here" in quorum.stores[quorum.leader()].tree.entries


def test_a_cut_off_owner_knows_that_its_session_is_over_before_others_do() -> None:
    quorum = StoreQuorum()
    owner = quorum.follower()
    session = quorum.session(owner)
    ended_at: list[float] = []
    session.on_end.append(lambda: ended_at.append(quorum.world.now_ms))
    for other in quorum.nodes:
        quorum.network.cut(f"n{owner}", f"n{other}")
    leader = quorum.stores[quorum.leader()]
    quorum.run_until(lambda: session.id not in leader.tree.sessions)
    assert ended_at and ended_at[0] <= quorum.world.now_ms


def test_a_watch_receives_every_change_in_order() -> None:
    quorum = StoreQuorum()
    watcher, writer = quorum.follower(), quorum.leader()
    told: list[Change] = []
    quorum.stores[watcher].watch("/w/", told.append)
    for number in range(5):
        value = b"%d" % number
        quorum.result(lambda done, v=value: quorum.stores[writer].put("/w/x", v, done))  # type: ignore[misc]
    quorum.result(lambda done: quorum.stores[writer].delete("/w/x", done))
    quorum.settle()
    shown = [change.entry.value if change.entry else None for change in told]
    assert shown == [b"0", b"1", b"2", b"3", b"4", None]


def test_a_watch_that_fails_costs_no_other_watch_a_change() -> None:
    quorum = StoreQuorum()
    store = quorum.stores[quorum.leader()]
    told: list[Change] = []

    def fail(change: Change) -> None:
        raise ValueError("its own")

    store.watch("/w", fail)
    store.watch("/w", told.append)
    assert quorum.result(lambda done: store.create("/w", b"1", done)) == "/w"
    assert [change.key for change in told] == ["/w"]


def test_a_lock_passes_on_in_order_when_its_holder_dies() -> None:
    quorum = StoreQuorum()
    first, second = quorum.follower(), quorum.leader()
    holder = Lock(quorum.stores[first], quorum.session(first), "l")
    waiter = Lock(quorum.stores[second], quorum.session(second), "l")
    acquired: list[str] = []
    holder.acquire(lambda: acquired.append("first"))
    quorum.run_until(lambda: holder.held)
    fence = holder.fence
    waiter.acquire(lambda: acquired.append("second"))
    quorum.wait(3_000)
    assert acquired == ["first"]
    quorum.nodes[first].kill()
    quorum.run_until(lambda: waiter.held)
    assert acquired == ["first", "second"]
    assert waiter.fence > fence


def test_a_released_lock_is_taken_at_once() -> None:
    quorum = StoreQuorum()
    store = quorum.stores[quorum.follower()]
    session = quorum.session(quorum.follower(), 10_000)
    one, two = Lock(store, session, "a"), Lock(store, quorum.session(quorum.follower()), "a")
    one.acquire(lambda: None)
    two.acquire(lambda: None)
    quorum.run_until(lambda: one.held or two.held)
    held, other = (one, two) if one.held else (two, one)
    held.release()
    assert quorum.run_until(lambda: other.held) < 100


def test_an_election_has_one_leader_whom_all_know() -> None:
    quorum = StoreQuorum()
    candidates = {
        node: Election(quorum.stores[node], quorum.session(node), "e", b"%d" % node)
        for node in quorum.nodes
    }
    for candidate in candidates.values():
        candidate.run(lambda: None)
    quorum.run_until(lambda: any(c.leads for c in candidates.values()))
    quorum.settle()
    [winner] = [node for node, c in candidates.items() if c.leads]
    assert all(c.leader == b"%d" % winner for c in candidates.values())
    candidates[winner].withdraw()
    quorum.run_until(lambda: any(c.leads for n, c in candidates.items() if n != winner))


def test_two_locks_of_one_session_contend() -> None:
    quorum = StoreQuorum()
    node = quorum.follower()
    store, session = quorum.stores[node], quorum.session(node, 10_000)
    one, two = Lock(store, session, "l"), Lock(store, session, "l")
    one.acquire(lambda: None)
    quorum.run_until(lambda: one.held)
    two.acquire(lambda: None)
    quorum.wait(500)
    assert [one.held, two.held] == [True, False]
    fence = one.fence
    one.release()
    quorum.run_until(lambda: two.held)
    assert one.fence == -1 and two.fence > fence


def test_a_lock_released_and_acquired_at_once_queues_behind_the_waiting() -> None:
    quorum = StoreQuorum()
    node, other = quorum.follower(), quorum.leader()
    lock = Lock(quorum.stores[node], quorum.session(node, 10_000), "l")
    waiter = Lock(quorum.stores[other], quorum.session(other, 10_000), "l")
    told: list[tuple[str, int]] = []
    lock.acquire(lambda: told.append(("first", lock.fence)))
    quorum.run_until(lambda: lock.held)
    waiter.acquire(lambda: told.append(("waiter", waiter.fence)))
    quorum.wait(500)
    lock.release()
    lock.acquire(lambda: told.append(("again", lock.fence)), lambda: told.append(("lost", 0)))
    quorum.wait(1_000)
    assert waiter.held and not lock.held
    waiter.release()
    quorum.run_until(lambda: lock.held)
    names, fences = zip(*told, strict=True)
    assert names == ("first", "waiter", "again")
    assert 0 < fences[0] < fences[1] < fences[2]
    assert len(quorum.stores[node].tree.entries) == 1


@pytest.mark.parametrize("after_ms", [0, 1, 5, 20])
@pytest.mark.parametrize("waits", [False, True])
def test_a_release_that_meets_a_dying_leader_is_not_forgotten(after_ms: int, waits: bool) -> None:
    quorum = StoreQuorum()
    node = quorum.follower()
    other = next(n for n in quorum.nodes if n not in (node, quorum.leader()))
    lock = Lock(quorum.stores[node], quorum.session(node, 10_000), "l")
    waiter = Lock(quorum.stores[other], quorum.session(other, 10_000), "l")
    lock.acquire(lambda: None)
    if not waits:
        quorum.run_until(lambda: lock.held)
        waiter.acquire(lambda: None)
        quorum.wait(500)
    quorum.nodes[quorum.leader()].kill()
    quorum.wait(after_ms)
    lock.release()
    if waits:
        waiter.acquire(lambda: None)
    assert quorum.run_until(lambda: waiter.held) < 3_000
    quorum.wait(5_000)
    assert len(quorum.stores[node].tree.entries) == 1


def test_a_create_that_comes_after_its_release_is_taken_back() -> None:
    quorum = StoreQuorum()
    node = quorum.follower()
    store, session = quorum.stores[node], quorum.session(node, 10_000)
    asked: list[dict[str, object]] = []
    create = store.create

    def unanswered(key, value, on_done, **rest) -> None:  # type: ignore[no-untyped-def]
        asked.append({"key": key, "value": value, **rest})
        on_done(ProposalError("the connection ended", definite=False))

    store.create = unanswered  # type: ignore[method-assign]
    lock = Lock(store, session, "l")
    lock.acquire(lambda: None)
    lock.release()
    quorum.wait(2_000)
    for late in asked:
        quorum.result(lambda done, late=late: create(on_done=done, **late))  # type: ignore[misc]
    quorum.settle()
    quorum.run_until(lambda: not store.tree.entries)
    other = Lock(store, session, "l")
    store.create = create  # type: ignore[method-assign]
    other.acquire(lambda: None)
    quorum.run_until(lambda: other.held)


def test_a_lock_without_an_answer_is_asked_for_again_and_held_once() -> None:
    quorum = StoreQuorum()
    node = quorum.follower()
    store, session = quorum.stores[node], quorum.session(node, 10_000)
    create, lost = store.create, iter([True, True])

    def unanswered(key, value, on_done, **rest) -> None:  # type: ignore[no-untyped-def]
        if next(lost, False):
            create(key, value, lambda result: None, **rest)
            on_done(ProposalError("the connection ended", definite=False))
        else:
            create(key, value, on_done, **rest)

    store.create = unanswered  # type: ignore[method-assign]
    lock = Lock(store, session, "l")
    acquired: list[int] = []
    lock.acquire(lambda: acquired.append(lock.fence))
    quorum.run_until(lambda: lock.held)
    quorum.wait(5_000)
    assert len(acquired) == len(store.tree.entries) == 1 and lock.held


def test_a_lost_lock_may_be_acquired_again_or_says_why_not() -> None:
    quorum = StoreQuorum()
    node = quorum.follower()
    store, session = quorum.stores[node], quorum.session(node, 10_000)
    lock, lost = Lock(store, session, "l"), list[int]()
    lock.acquire(lambda: None, lambda: lost.append(1))
    with pytest.raises(InLineError):
        lock.acquire(lambda: None)
    quorum.run_until(lambda: lock.held)
    fence = lock.fence
    [(key, _)] = store.tree.under("/locks/l/")
    quorum.result(lambda done: store.delete(key, done))
    quorum.run_until(lambda: bool(lost))
    assert not lock.held and lock.fence == -1
    lock.acquire(lambda: None, lambda: lost.append(2))
    quorum.run_until(lambda: lock.held)
    assert lock.fence > fence
    session.close()
    assert lost == [1, 2] and not lock.held
    with pytest.raises(SessionOverError):
        lock.acquire(lambda: None)
    assert not session.on_end
    assert store.describe()["watches"] == 0


def test_a_candidate_that_withdraws_and_runs_again_comes_last() -> None:
    quorum = StoreQuorum()
    node = quorum.follower()
    store, session = quorum.stores[node], quorum.session(node, 10_000)
    one, two = Election(store, session, "e", b"one"), Election(store, session, "e", b"two")
    one.run(lambda: None)
    quorum.run_until(lambda: one.leads)
    two.run(lambda: None)
    quorum.wait(500)
    one.withdraw()
    one.run(lambda: None)
    with pytest.raises(InLineError):
        one.run(lambda: None)
    quorum.run_until(lambda: two.leads)
    quorum.wait(500)
    assert two.leader == b"two" and not one.leads
    two.withdraw()
    quorum.run_until(lambda: one.leads)


def test_a_name_below_another_is_another_lock() -> None:
    quorum = StoreQuorum()
    node = quorum.follower()
    store, session = quorum.stores[node], quorum.session(node, 10_000)
    below, above = Lock(store, session, "a/b"), Lock(store, session, "a")
    below.acquire(lambda: None)
    quorum.run_until(lambda: below.held)
    above.acquire(lambda: None)
    quorum.run_until(lambda: above.held)


@pytest.mark.parametrize("on_the_leader", [False, True])
def test_a_leader_that_was_cut_off_confirms_no_session(on_the_leader: bool) -> None:
    """It believes in itself for three seconds; another may have ended the session by then."""
    quorum = StoreQuorum(voters=5)
    leader = quorum.leader()
    node = leader if on_the_leader else quorum.follower()
    lock = Lock(quorum.stores[node], quorum.session(node), "l")
    lock.acquire(lambda: None)
    quorum.run_until(lambda: lock.held)
    others = [n for n in quorum.nodes if n not in (node, leader)]
    waiter = Lock(quorum.stores[others[0]], quorum.session(others[0], 20_000), "l")
    waiter.acquire(lambda: None)
    quorum.wait(500)
    quorum.world.after_event.append(lambda: _not_both(lock, waiter))
    for outside in others:
        for inside in {node, leader}:
            quorum.network.cut(f"n{outside}", f"n{inside}")
            quorum.network.cut(f"n{inside}", f"n{outside}")
    quorum.wait(1_100)
    assert not lock.held
    quorum.run_until(lambda: waiter.held)


def _not_both(one: Lock, other: Lock) -> None:
    assert not (one.held and other.held)


def _replaced_leader(quorum: StoreQuorum) -> tuple[int, int]:
    """(a leader that was cut off and can be heard again, the one that the others have elected)."""
    old = quorum.leader()
    for other in quorum.nodes:
        if other != old:
            quorum.network.cut(f"n{old}", f"n{other}")
            quorum.network.cut(f"n{other}", f"n{old}")
    quorum.run_until(lambda: quorum.leader() != old)
    quorum.network.heal()
    assert quorum.stores[old].leads, "it believes in itself"
    return old, quorum.leader()


def _tell_who_leads(quorum: StoreQuorum, old: int, new: int) -> None:
    """BeginQuorumEpoch reaches `old`; its disk takes long to remember the epoch."""
    replica, successor = quorum.nodes[old].replica, quorum.nodes[new].replica
    assert replica is not None and successor is not None
    listeners = quorum.nodes[new].settings.listeners
    replica.ask(BeginEpochRequest(successor.epoch, new, None, listeners), lambda _: VoteResponse())
    assert not quorum.stores[old].leads


def test_a_leader_that_was_replaced_since_it_was_asked_confirms_no_session() -> None:
    quorum = StoreQuorum(2)
    session = quorum.session(quorum.follower(), 6_000)
    old, new = _replaced_leader(quorum)
    answers: list[Any] = []
    quorum.stores[old].clock.touch(session.id, answers.append)
    _tell_who_leads(quorum, old, new)
    quorum.run_until(lambda: bool(answers))
    assert isinstance(answers[0], ProposalError)


def test_a_replaced_leader_ends_no_session_of_its_successor() -> None:
    quorum = StoreQuorum(2)
    owner = quorum.follower()
    session = quorum.session(owner, 4_000)
    old, new = _replaced_leader(quorum)
    quorum.nodes[old].machine.sync_ms_max = 1_000_000.0
    _tell_who_leads(quorum, old, new)
    quorum.wait(6_000)
    assert session.alive


def test_a_short_session_ends_in_time_beside_a_long_one() -> None:
    quorum = StoreQuorum()
    quorum.session(quorum.leader(), 3_600_000)
    quorum.wait(200)
    owner = quorum.follower()
    session = quorum.session(owner)
    quorum.nodes[owner].kill()
    leader = quorum.stores[quorum.leader()]
    quorum.run_until(lambda: session.id not in leader.tree.sessions, 1_500)


def test_a_session_counts_from_when_it_was_asked_for() -> None:
    quorum = StoreQuorum()
    node = quorum.follower()
    quorum.network.conditions.slow_chance = 1.0
    quorum.network.conditions.slow_ms_max = 400.0
    asked = quorum.world.now_ms
    opened = quorum.result(lambda done: quorum.stores[node].open_session(60, done))
    late = quorum.world.now_ms - asked >= 60
    assert isinstance(opened, ProposalError) is late
    quorum.run_until(lambda: not quorum.stores[quorum.leader()].tree.sessions)


def test_a_request_to_a_silent_leader_is_answered_when_another_leads() -> None:
    quorum = StoreQuorum()
    node, leader = quorum.follower(), quorum.leader()
    process = quorum.nodes[leader].process
    assert process is not None
    process.pause(60_000)
    answers: list[object] = []
    quorum.stores[node].put("/a", b"1", answers.append)
    quorum.run_until(lambda: bool(answers), 15_000)
    [answer] = answers
    assert isinstance(answer, ProposalError) and not answer.definite


def test_a_change_that_is_too_large_is_refused() -> None:
    quorum = StoreQuorum()
    for store in quorum.stores.values():
        value = bytes(COMMAND_BYTES_MAX)
        answer = quorum.result(lambda done, s=store, v=value: s.put("/a", v, done))  # type: ignore[misc]
        assert isinstance(answer, RefusedError) and answer.reason == "too large"


def test_a_proposal_without_a_leader_says_so() -> None:
    quorum = StoreQuorum()
    survivor = quorum.follower()
    for node in quorum.nodes.values():
        if node.id != survivor:
            node.kill()
    quorum.wait(5_000)
    answer = quorum.result(lambda done: quorum.stores[survivor].put("/a", b"", done))
    assert isinstance(answer, ProposalError)


def test_a_snapshot_carries_keys_and_sessions() -> None:
    quorum = StoreQuorum(bytes_between_snapshots=2_000, retention_bytes=3_000, segment_bytes=2_048)
    owner = quorum.leader()
    session = quorum.session(owner, 30_000)
    store = quorum.stores[owner]
    quorum.result(lambda done: store.create("/e", b"", done, session=session.id))
    late = quorum.follower()
    quorum.nodes[late].kill()
    for number in range(100):
        quorum.result(lambda done, n=number: store.put(f"/k{n % 7}", b"%d" % n, done))  # type: ignore[misc]
    quorum.nodes[late].start()
    quorum.settle()
    assert quorum.nodes[late].installed or quorum.stores[late].tree.entries
    assert quorum.stores[late].tree.entries == store.tree.entries
    assert quorum.stores[late].tree.sessions == store.tree.sessions


@pytest.mark.parametrize(
    "command",
    [
        {"do": "put", "key": "/k", "value": "abc"},
        {"do": "put", "key": "/k", "value": 5},
        {"do": "open", "timeout_ms": float("inf")},
        {"do": "open", "timeout_ms": 10**400},
        {"do": "open", "timeout_ms": -5},
    ],
    ids=["no bytes", "a number", "no end", "too long", "over before"],
)
def test_no_command_stops_the_replicas(command: dict[str, Any]) -> None:
    """Once it is committed it comes to all of them, after every start."""
    quorum = StoreQuorum()
    store = quorum.stores[quorum.leader()]
    assert isinstance(quorum.result(lambda done: store.propose(command, done)), RefusedError)
    quorum.result(lambda done: store.put("/after", b"1", done))
    quorum.settle()
    assert all("/after" in other.tree.entries for other in quorum.stores.values())


@pytest.mark.parametrize(
    "frame, ends",
    [
        (b"[" * 100_000, True),
        (b"\xff", True),
        (b'{"number":1,"touch":"abc"}', True),
        (b'{"touch":null}', True),
        (b'{"touch":1e400}', True),
        (json.dumps({"propose": '{"do":"put","key":"k","value":5}'}).encode(), False),
        (json.dumps({"propose": "[" * 200_000}).encode(), False),
        (json.dumps({"propose": None, "number": []}).encode(), False),
    ],
)
def test_no_frame_ends_more_than_its_connection(frame: bytes, *, ends: bool) -> None:
    quorum = StoreQuorum()
    leader = quorum.nodes[quorum.leader()]
    stranger = Stranger(len(frame).to_bytes(4, "big") + frame)
    at = Endpoint(f"n{leader.id}", STORE_PORT)
    process = quorum.nodes[quorum.follower()].process
    assert process is not None
    process.network.connect(at, stranger)
    quorum.run_until(lambda: stranger.ended or bool(stranger.heard))
    assert stranger.ended == ends
    assert not quorum.halts
    store = quorum.stores[leader.id]
    quorum.result(lambda done: store.put("/after", b"1", done))


class Stranger:
    """Sends bytes and listens."""

    def __init__(self, data: bytes) -> None:
        self.ended = False
        self.heard = 0
        self._data = data
        self._space = memoryview(bytearray(4096))

    def on_connected(self, connection: Connection) -> None:
        connection.send([self._data])

    def get_buffer(self) -> memoryview:
        return self._space

    def buffer_updated(self, size: int) -> None:
        self.heard += size

    def on_closed(self, error: OSError | None) -> None:
        self.ended = True


def test_a_callback_that_raises_hides_no_session_end_from_the_others() -> None:
    quorum = StoreQuorum(3)
    node = quorum.follower()
    session = quorum.session(node)
    told: list[str] = []

    def faulty() -> None:
        raise RuntimeError("a user's fault")

    lock = Lock(quorum.stores[node], session, "mine")
    lock.acquire(lambda: told.append("held"), faulty)
    session.on_end.append(faulty)
    session.on_end.append(lambda: told.append("over"))
    quorum.run_until(lambda: told == ["held"])
    session.close(lambda result: told.append("ended"))
    quorum.run_until(lambda: told == ["held", "over", "ended"])
    assert not quorum.stores[quorum.leader()].tree.entries


def test_a_callback_that_raises_costs_no_other_caller_its_answer() -> None:
    quorum = StoreQuorum(4)
    leader, node = quorum.leader(), quorum.follower()
    told: list[object] = []

    def faulty(result: object) -> None:
        told.append(result)
        raise RuntimeError("a user's fault")

    for number in range(3):
        quorum.stores[node].put(f"/{number}", b"v", faulty)
    quorum.nodes[leader].kill()
    quorum.run_until(lambda: len(told) == 3)


class Counting:
    """The ports of a store, and when it asked to be woken."""

    def __init__(self, ports: Ports) -> None:
        self._ports = ports
        self.wakeups = self
        self.asked: list[float] = []

    def call_at(self, when_ms: float, callback: Callable[[], None]) -> Wakeup:
        self.asked.append(when_ms)
        return self._ports.wakeups.call_at(when_ms, callback)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._ports, name)


def test_a_store_that_is_closed_ends_its_sessions_and_is_not_woken_any_more() -> None:
    quorum = StoreQuorum()
    store = quorum.stores[quorum.leader()]
    session = quorum.session(quorum.leader(), 300)
    store.close()
    quorum.wait(400)
    assert not session.alive
    counting = Counting(store.ports)
    store.ports = counting
    quorum.wait(1_000)
    store.on_leader_change(store.replica.node_id, store.replica.epoch)
    quorum.wait(1_000)
    assert counting.asked == []


@pytest.mark.parametrize("proposed", [False, True])
def test_a_request_to_a_store_that_is_closed_is_answered(proposed: bool) -> None:
    """Before the quorum has it, or once this replica would have to see it."""
    quorum = StoreQuorum()
    store = quorum.stores[quorum.leader()]
    answers: list[Any] = []
    if proposed:
        store.create("/a", b"", answers.append)
    else:
        store._when_applied(1 << 40, answers.append)
    store.close()
    quorum.wait(10)
    assert [(type(answer), answer.definite) for answer in answers] == [(ProposalError, False)]
    store.create("/b", b"", answers.append)
    assert answers[-1].definite


def fail(answer: Any) -> None:
    raise ZeroDivisionError


def test_a_callback_that_raises_on_a_session_leaves_the_others_their_answers() -> None:
    quorum = StoreQuorum()
    store, told = quorum.stores[quorum.leader()], list[Any]()
    session = quorum.session(quorum.leader(), 5_000)
    for on_done in (fail, told.append):
        store.touch(session.id, on_done, timeout_ms=1_000)
    with pytest.raises(ZeroDivisionError):
        quorum.wait(1_000)
    assert told == [True]


@pytest.mark.slow
def test_a_callback_that_raises_at_an_end_leaves_the_others_their_answers() -> None:
    quorum = StoreQuorum()
    store, told = quorum.stores[quorum.follower()], list[Any]()
    voter = quorum.leader()
    for on_done in (fail, told.append):
        store.ask_epoch(voter, on_done, 1_000)
    store._when_applied(1 << 40, told.append)
    with pytest.raises(ZeroDivisionError):
        store.close()
    quorum.wait(10)
    assert told[0] is None and isinstance(told[1], ProposalError)
