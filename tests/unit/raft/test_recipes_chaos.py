"""Locks and elections under faults: never two holders, fences that grow, nothing left behind."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from barnabas.raft.recipes import Election, Lock, Session, SessionOverError, Store
from barnabas.sim.world.process import SimProcess
from tests.unit.raft.chaos import Chaos
from tests.unit.raft.quorum_world import QuorumNode
from tests.unit.raft.store_quorum import StoreQuorum

WANT_MS_MAX = 400.0


class Contender:
    """One object that takes the lock again and again, holds it for a while, and lets it go."""

    def __init__(self, chaos: RecipeChaos, store: Store, session: Session, elects: bool) -> None:
        self.chaos = chaos
        self.store = store
        self.session = session
        election, lock = Election(store, session, "one", b""), Lock(store, session, "one")
        self.one: Election | Lock = election if elects else lock
        self.ask = election.run if elects else lock.acquire
        self.let_go = election.withdraw if elects else lock.release
        self.tried = 0
        self.later(0)

    @property
    def held(self) -> bool:
        return self.one.held if isinstance(self.one, Lock) else self.one.leads

    @property
    def fence(self) -> int:
        return self.one.fence

    def later(self, ms: float) -> None:
        """In this process's own time: a paused one waits."""
        wakeups, clock = self.store.ports.wakeups, self.store.ports.clock
        tried = self.tried
        wakeups.call_at(clock.now_ms() + ms, lambda: self.turn(tried))

    def turn(self, tried: int) -> None:
        if self.tried == tried:
            self.stand()

    def stand(self) -> None:
        if self.chaos.over:
            return
        self.tried += 1
        tried, rng = self.tried, self.chaos.rng
        self.chaos.maybe_kill_leader()
        try:
            self.ask(lambda: self.got(tried), lambda: self.lost(tried))
        except SessionOverError:
            return
        if rng.random() < 0.3:  # a change of mind while it waits, or just when it gets it
            self.give_up_later(rng.choice([0.0, 1.0, 5.0, rng.uniform(0, WANT_MS_MAX)]), tried)

    def got(self, tried: int) -> None:
        self.chaos.expect(self.held and tried == self.tried, "it is got by who holds it")
        self.chaos.on_got(self)
        self.give_up_later(self.chaos.rng.choice([0.0, self.chaos.rng.uniform(0, 200)]), tried)

    def lost(self, tried: int) -> None:
        self.chaos.expect(not self.held and self.fence == -1, "it is lost by who does not hold it")
        if tried == self.tried:
            self.chaos.totals["lost"] += 1
            self.later(self.chaos.rng.uniform(0, 50))

    def give_up_later(self, ms: float, tried: int) -> None:
        clock = self.store.ports.clock
        self.store.ports.wakeups.call_at(clock.now_ms() + ms, lambda: self.give_up(tried))

    def give_up(self, tried: int) -> None:
        if tried != self.tried:
            return
        self.chaos.maybe_kill_leader()
        self.let_go()
        self.tried += 1
        if self.chaos.rng.random() < 0.5:
            self.stand()
        else:
            self.later(self.chaos.rng.uniform(0, WANT_MS_MAX))


class RecipeQuorum(StoreQuorum):
    """Every life of every replica has contenders of its own."""

    chaos: RecipeChaos | None = None

    def opened(self, node: QuorumNode) -> None:
        super().opened(node)
        if self.chaos is not None:
            self.chaos.on_life(node)


class RecipeChaos(Chaos):
    """Three replicas; in each life of each two sessions, one with two contenders and one with one."""

    def __init__(self, seed: int, *, elects: bool) -> None:
        quorum = RecipeQuorum(seed, **_settings(seed))
        super().__init__(quorum, duration_ms=8_000)
        self.stores = quorum
        self.elects = elects
        self.over = False
        self.contenders: list[tuple[SimProcess, Contender]] = []
        self.fence = -1
        self.broken: list[str] = []
        self.got_after_healing: set[int] = set()
        quorum.chaos = self
        for node in quorum.nodes.values():
            node.machine.sync_ms_max = self.rng.choice([node.machine.sync_ms_max, 30.0, 200.0])
        quorum.world.after_event.append(self.look)
        for node in quorum.nodes.values():
            self.on_life(node)

    def on_life(self, node: QuorumNode) -> None:
        process, store = node.process, self.stores.stores[node.id]
        assert process is not None
        for count in (2, 1):
            self.open_session(process, store, count)

    def open_session(self, process: SimProcess, store: Store, contenders: int) -> None:
        def opened(result: Any) -> None:
            if self.over or not process.alive:
                return
            if isinstance(result, Session):
                self.totals["sessions"] += 1
                result.on_end.append(lambda: self.open_session(process, store, contenders))
                for _ in range(contenders):
                    found = Contender(self, store, result, self.elects)
                    self.contenders.append((process, found))
            else:
                later(50)

        def later(ms: float) -> None:
            due = self.world.now_ms + ms
            process.wakeups.call_at(due, lambda: store.open_session(timeout, opened))

        timeout = self.rng.choice([600, 1_500, 6_000])
        later(0)

    def expect(self, held: bool, what: str) -> None:
        """For callbacks, whose faults end in the log."""
        if not held:
            self.broken.append(what)

    def look(self) -> None:
        assert not self.broken, self.broken
        self.contenders = [(p, c) for p, c in self.contenders if p.alive]
        holders = [c for _, c in self.contenders if c.held]
        assert len(holders) <= 1, holders
        for session in {c.session for _, c in self.contenders if c.session.alive}:
            for node in self.stores.up():
                assert node.replica is not None
                if node.replica.applied_offset > session.id:
                    assert session.id in self.stores.stores[node.id].tree.sessions, session

    def on_got(self, contender: Contender) -> None:
        self.expect(contender.fence > self.fence, f"fence {contender.fence} after {self.fence}")
        self.fence = contender.fence
        self.totals["acquired"] += 1
        if self._healing:
            self.got_after_healing.add(id(contender))

    def maybe_kill_leader(self) -> None:
        """Just before, during or after a request."""
        if self._healing or self.rng.random() > 0.12:
            return
        ms = self.rng.choice([0.0, self.rng.uniform(0, 2), self.rng.uniform(0, 10)])
        if ms:
            self.world.after(ms, self.kill_leader)
        else:
            self.kill_leader()

    def kill_leader(self) -> None:
        active = self.quorum.active()
        if active is not None and not self._healing:
            self._restart(active, power_loss=False)

    def play(self) -> None:
        self.world.after(100, self._fault)
        self.world.run(self.world.now_ms + self.duration_ms)
        self._heal()
        self.quorum.elect()
        self.world.run(self.world.now_ms + 10_000)
        living = {id(c) for p, c in self.contenders if p.alive and not c.session.is_over}
        assert living and living <= self.got_after_healing, "a caller waits for ever"
        self.over = True
        for process, contender in self.contenders:
            if process.alive:
                contender.tried += 1
                contender.let_go()
        self.world.run(self.world.now_ms + 5_000)
        self.quorum.settle()
        for store in self.stores.stores.values():
            assert not store.tree.under("/locks/") and not store.tree.under("/elections/")
            assert store.describe()["watches"] <= self.totals["sessions"]


def _settings(seed: int) -> dict[str, int]:
    """Every other seed with snapshots all the time."""
    if seed % 2:
        return {}
    return {"bytes_between_snapshots": 2_000, "retention_bytes": 3_000, "segment_bytes": 2_048}


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1, 9))
def test_never_two_holders_and_nothing_left_behind(seed: int) -> None:
    chaos = RecipeChaos(seed, elects=seed % 3 == 0)
    chaos.play()
    assert chaos.totals["acquired"] > 20, chaos.totals


def totals(seeds: range) -> Counter[str]:
    """For longer runs by hand."""
    found: Counter[str] = Counter()
    for seed in seeds:
        chaos = RecipeChaos(seed, elects=seed % 3 == 0)
        try:
            chaos.play()
        except AssertionError as error:
            print(seed, str(error)[-2000:])
            found["failed"] += 1
        found += chaos.totals
    return found
