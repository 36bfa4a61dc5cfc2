"""Keys, sessions, watches, a lock and an election on three simulated replicas."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from barnabas.raft.recipes import (
    Change,
    Election,
    Lock,
    ProposalError,
    RefusedError,
    Session,
    Store,
)
from barnabas.raft.state_machine import StateMachine
from barnabas.sim.process import SimProcess
from barnabas.types import Endpoint
from tests.unit.raft.quorum_world import Quorum, QuorumNode

STORE_PORT = 7000


class StoreQuorum(Quorum):
    """Three replicas of a store that call each other."""

    def __init__(self, seed: int = 1, **settings: int) -> None:
        self.stores: dict[int, Store] = {}
        super().__init__(seed, **settings)
        self.start()
        self.elect()

    def state_machine(self, node: QuorumNode, process: SimProcess) -> StateMachine:
        self.stores[node.id] = Store(process)
        return self.stores[node.id]

    def opened(self, node: QuorumNode) -> None:
        assert node.replica is not None
        peers = {n: Endpoint(f"n{n}", STORE_PORT) for n in self.nodes}
        self.stores[node.id].attach(node.replica, peers)

    def leader(self) -> int:
        return self.elect().id

    def follower(self) -> int:
        return next(n for n in self.nodes if n != self.leader() and self.nodes[n].is_up)

    def result(self, ask: Callable[[Callable[[Any], None]], None]) -> Any:
        found: list[Any] = []
        ask(found.append)
        self.run_until(lambda: bool(found))
        return found[0]

    def session(self, node: int, timeout_ms: int = 1_000) -> Session:
        opened = self.result(lambda done: self.stores[node].open_session(timeout_ms, done))
        assert isinstance(opened, Session), opened
        return opened

    def wait(self, ms: float) -> None:
        self.world.run(self.world.now_ms + ms)


def test_what_is_written_on_one_replica_is_read_on_all() -> None:
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


def test_a_watch_is_told_of_every_change_in_order() -> None:
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


def test_nobody_leads_and_a_proposal_says_so() -> None:
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
