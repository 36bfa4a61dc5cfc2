"""When faults strike and which: drawn from the seed, until everything is to heal."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from barnabas.ports import Rng
from barnabas.sim.cluster import SimCluster, SimNode
from barnabas.sim.faults import KINDS, Kind, Strike, Struck
from barnabas.sim.faults.budget import Budget
from barnabas.sim.faults.injection import Repair

RARER_AFTER = 25
"""After so many strikes they come half as often as at first."""
SUPERVISOR_MS = 1_000.0
"""After how long, at most twice this, the supervisor restarts a node that ended itself."""


class FaultSchedule:
    """Breaks something every now and then until `heal_everything`."""

    def __init__(
        self,
        cluster: SimCluster,
        weights: Mapping[str, float],
        rng_of: Callable[[str], Rng],
        interval_ms: float,
        skipped: Collection[int] = (),
        *,
        kinds: Mapping[str, Kind] = KINDS,
        budget: Budget | None = None,
    ) -> None:
        """`weights` says how often each kind comes, `skipped` which strikes, by number, do not; `kinds` has
        the functions by name."""
        self.cluster = cluster
        self.world = cluster.world
        self.weights = {kind: weights[kind] for kind in sorted(weights) if weights[kind] > 0}
        self.interval_ms = interval_ms
        self.skipped = frozenset(skipped)
        self.stopped = False
        self.struck: list[Struck] = []
        """The strikes that really happened."""
        self.kinds = kinds
        self.budget = Budget(cluster) if budget is None else budget
        self._rng_of = rng_of
        self._times = rng_of("fault times")
        self._supervisor = rng_of("supervisor")
        self._next = 0
        self._repairs: dict[int, list[Repair]] = {}
        cluster.halt_followers.append(self._supervise)

    @property
    def count(self) -> int:
        return len(self.struck)

    def start(self) -> None:
        if self.weights:
            self._schedule()

    def _schedule(self) -> None:
        # Ever rarer, so that clients make progress in a seed that breaks everything all the time.
        delay = self._times.uniform(0.3, 1.7) * self.interval_ms * (1 + self._next / RARER_AFTER)
        self.world.after(delay, self._strike)

    def _strike(self) -> None:
        if self.stopped:
            return
        self._next += 1
        self._schedule()
        if self._next in self.skipped:
            return
        rng = self._rng_of(f"fault {self._next}")
        kind = self._kind(rng)
        strike = Strike(self._next, self.cluster, self.budget, rng, self._repairs)
        if self.kinds[kind](strike):
            self.struck.append(Struck(self._next, self.world.now_ms, kind))
            self.world.totals["faults"] += 1
            self.world.totals[f"fault {kind}"] += 1

    def _kind(self, rng: Rng) -> str:
        left = rng.random() * sum(self.weights.values())
        for kind, weight in self.weights.items():
            left -= weight
            if left <= 0:
                return kind
        return next(reversed(self.weights))

    def _supervise(self, node: SimNode) -> None:
        delay = self._supervisor.uniform(0.1, 2.0) * SUPERVISOR_MS
        self.world.after(delay, node.start)

    def heal_everything(self) -> None:
        """No more faults: links, conditions, disks and nodes are whole again."""
        self.stopped = self.cluster.is_healed = True
        self.cluster.network.conditions.heal()
        self.cluster.network.heal()
        for number in sorted(self._repairs):
            repairs = self._repairs[number]
            while repairs:
                repairs.pop(0)()
        self.world.note("everything heals")
        for node in self.cluster.nodes.values():
            node.start()
