"""What goes wrong in a seed: a schedule drawn from its generator, within the fault budget of the design.

kill -9 comes without limit. Power loss takes at most a minority of nodes between two heals, and a node
that lost power is given time to catch up before the next one loses it. Every fault ends: the schedule
heals what it broke.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from barnabas.ports import Rng
from barnabas.sim.cluster import SimCluster, SimNode


@dataclass(frozen=True)
class Mix:
    """How likely each kind of fault is in a seed; 0 switches it off."""

    kill: float = 1.0
    power: float = 0.4
    shutdown: float = 0.5
    pause: float = 0.5
    netsplit: float = 0.8
    one_way: float = 0.4
    slow: float = 0.5
    resets: float = 0.4
    clock: float = 0.2


def draw_mix(rng: Rng) -> Mix:
    """A seed's own mix: some kinds left out, others often."""

    def weight() -> float:
        return 0.0 if rng.random() < 0.3 else rng.uniform(0.2, 1.0)

    kinds = [weight() for _ in range(9)]
    if sum(kinds) == 0:
        kinds[0] = 1.0
    return Mix(*kinds)


class FaultSchedule:
    """Breaks something every now and then until `stop`."""

    def __init__(self, cluster: SimCluster, mix: Mix, rng: Rng, interval_ms: float) -> None:
        self.cluster = cluster
        self.world = cluster.world
        self.mix = mix
        self.rng = rng
        self.interval_ms = interval_ms
        self.stopped = False
        self.count = 0
        self._powerless_until: dict[int, float] = {}

    def start(self) -> None:
        self._schedule()

    def _schedule(self) -> None:
        delay = self.rng.uniform(0.3, 1.7) * self.interval_ms
        self.world.after(delay, self._strike)

    def _strike(self) -> None:
        if self.stopped:
            return
        kinds: list[tuple[float, Callable[[], bool]]] = [
            (self.mix.kill, self._kill),
            (self.mix.power, self._power_loss),
            (self.mix.shutdown, self._shut_down),
            (self.mix.pause, self._pause),
            (self.mix.netsplit, self._netsplit),
            (self.mix.one_way, self._one_way),
            (self.mix.slow, self._slow),
            (self.mix.resets, self._resets),
            (self.mix.clock, self._clock),
        ]
        pick = self.rng.random() * sum(weight for weight, _ in kinds)
        for weight, action in kinds:
            pick -= weight
            if pick <= 0 and weight > 0:
                if action():
                    self.count += 1
                    self.world.totals["faults"] += 1
                break
        self._schedule()

    def _victim(self) -> SimNode | None:
        up = self.cluster.up()
        return self.rng.choice(up) if up else None

    def _restart_later(self, node: SimNode) -> None:
        delay = self.rng.choice([20.0, 200.0, 1500.0, 6000.0]) * self.rng.uniform(0.5, 1.5)
        self.world.after(delay, node.start)

    def _kill(self) -> bool:
        node = self._victim()
        if node is None:
            return False
        node.kill()
        self._restart_later(node)
        return True

    def _power_loss(self) -> bool:
        """Of one machine, while the others have theirs and have had it for a while."""
        node = self._victim()
        now = self.world.now_ms
        busy = [until for until in self._powerless_until.values() if until > now]
        if node is None or busy or len(self.cluster.up()) < len(self.cluster.nodes):
            return False
        self._powerless_until[node.id] = now + 20_000
        node.kill(power_loss=True)
        self._restart_later(node)
        return True

    def _shut_down(self) -> bool:
        node = self._victim()
        if node is None:
            return False
        node.shut_down(lambda: self._restart_later(node))
        return True

    def _pause(self) -> bool:
        node = self._victim()
        if node is None or node.process is None:
            return False
        duration = self.rng.choice([50.0, 500.0, 4000.0]) * self.rng.uniform(0.5, 1.5)
        self.world.note(f"pause node {node.id} for {duration:.0f} ms")
        node.process.pause(duration)
        return True

    def _netsplit(self) -> bool:
        hosts = [f"n{node_id}" for node_id in self.cluster.nodes]
        alone = self.rng.choice(hosts)
        others = [host for host in hosts if host != alone]
        self.world.note(f"netsplit: {alone} is cut off")
        self.world.totals["netsplits"] += 1
        for host in others:
            self.cluster.network.cut(alone, host)
            self.cluster.network.cut(host, alone)
        self._heal_later([(alone, host) for host in others] + [(host, alone) for host in others])
        return True

    def _one_way(self) -> bool:
        hosts = [f"n{node_id}" for node_id in self.cluster.nodes]
        source = self.rng.choice(hosts)
        target = self.rng.choice([host for host in hosts if host != source])
        self.world.note(f"netsplit: nothing gets from {source} to {target}")
        self.world.totals["netsplits"] += 1
        self.cluster.network.cut(source, target)
        self._heal_later([(source, target)])
        return True

    def _heal_later(self, links: list[tuple[str, str]]) -> None:
        def heal() -> None:
            self.world.note("netsplit heals")
            for source, target in links:
                self.cluster.network.heal(source, target)

        self.world.after(
            self.rng.choice([300.0, 3000.0, 9000.0]) * self.rng.uniform(0.5, 1.5), heal
        )

    def _slow(self) -> bool:
        conditions = self.cluster.network.conditions
        conditions.slow_chance = self.rng.uniform(0.01, 0.2)
        conditions.slow_ms_max = self.rng.choice([20.0, 200.0, 1000.0])
        self.world.note(f"slow network: up to {conditions.slow_ms_max} ms")

        def heal() -> None:
            conditions.slow_chance = 0.0

        self.world.after(self.rng.uniform(1000, 6000), heal)
        return True

    def _resets(self) -> bool:
        conditions = self.cluster.network.conditions
        conditions.reset_chance = self.rng.uniform(0.0005, 0.01)
        self.world.note("connections reset at random")

        def heal() -> None:
            conditions.reset_chance = 0.0

        self.world.after(self.rng.uniform(1000, 5000), heal)
        return True

    def _clock(self) -> bool:
        node = self._victim()
        if node is None:
            return False
        jump = self.rng.choice([-1, 1]) * self.rng.choice([100.0, 10_000.0, 3_600_000.0])
        self.world.note(f"the clock of node {node.id} jumps by {jump:.0f} ms")
        node.machine.clock_offset_ms += jump
        return True

    def heal_everything(self) -> None:
        """No more faults: links, conditions and nodes are whole again."""
        self.stopped = True
        conditions = self.cluster.network.conditions
        conditions.slow_chance = conditions.reset_chance = 0.0
        self.cluster.network.heal()
        self.world.note("everything heals")
        for node in self.cluster.nodes.values():
            node.start()
