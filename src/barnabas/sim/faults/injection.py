"""One fault about to happen: what it may use. Every kind of fault is a function of one `Strike`.

A strike has a number and draws all it needs from the generator of that number, so that leaving one out
changes nothing in the others: that is what shrinking a schedule rests on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from barnabas.ports import Rng
from barnabas.sim.cluster import SimCluster, SimNode
from barnabas.sim.faults.budget import Budget
from barnabas.sim.world.world import World

Repair = Callable[[], None]
Link = tuple[str, str]
"""From one machine to another, by their names."""


class Struck(NamedTuple):
    """One line of a run's schedule: what happened when."""

    number: int
    at_ms: float
    kind: str


@dataclass(frozen=True)
class Strike:
    """The things that a fault may look at, draw from and break."""

    number: int
    cluster: SimCluster
    budget: Budget
    rng: Rng
    open_repairs: dict[int, list[Repair]]
    """The repairs of what is broken, by number of strike: healing everything does it at once."""

    @property
    def world(self) -> World:
        return self.cluster.world

    def note(self, line: str) -> None:
        self.world.note(line)

    def count(self, name: str) -> None:
        self.world.totals[name] += 1

    def any_node(self) -> SimNode | None:
        """One that is up, or None."""
        up = self.cluster.up()
        return self.rng.choice(up) if up else None

    def any_broker(self) -> SimNode | None:
        brokers = [node for node in self.cluster.up() if node.broker]
        return self.rng.choice(brokers) if brokers else None

    def wait_ms(self, *typical: float) -> float:
        """One of `typical`, give or take half of it."""
        return self.rng.choice(typical) * self.rng.uniform(0.5, 1.5)

    def kill_later(self, delay_ms: float, node: SimNode) -> None:
        """kill -9 after `delay_ms`, unless everything has healed by then."""

        def due() -> None:
            if not self.cluster.is_healed:
                node.kill()

        self.world.after(delay_ms, due)

    def end(self, node: SimNode, then: Callable[[], None]) -> None:
        """kill -9 or a shutdown, and then `then`."""
        if self.rng.random() < 0.5:
            node.kill()
            then()
        else:
            node.shut_down(then)

    def cut(self, links: Iterable[Link]) -> Repair:
        """Nothing gets through these; what heals them is returned."""
        network, links = self.cluster.network, list(links)
        for link in links:
            network.cut(*link)

        def heal() -> None:
            for link in links:
                network.heal(*link)

        return heal

    def restart_later(self, node: SimNode) -> None:
        self.world.after(self.wait_ms(20, 200, 1500, 6000), node.start)

    def when(self, happened: Callable[[], bool], then: Repair, every_ms: float, looks: int) -> None:
        """Run `then` once a check finds that it `happened`. The check runs every `every_ms`, `looks` times at
        most, and not when everything has healed."""

        def look(left: int) -> None:
            if self.cluster.is_healed or not left:
                return
            if happened():
                then()
            else:
                self.world.after(every_ms, partial(look, left - 1))

        self.world.after(every_ms, partial(look, looks))

    def repair_later(self, delay_ms: float, repair: Repair) -> None:
        """`repair` once: after `delay_ms`, or when everything heals."""
        repairs = self.open_repairs.setdefault(self.number, [])
        repairs.append(repair)

        def due() -> None:
            if repair in repairs:
                repairs.remove(repair)
                repair()

        self.world.after(delay_ms, due)
