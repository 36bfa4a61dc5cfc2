"""Three simulated replicas of the recipes' store, which call each other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from barnabas.raft.recipes import Session, Store
from barnabas.raft.state_machine import StateMachine
from barnabas.sim.world.process import SimProcess
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
