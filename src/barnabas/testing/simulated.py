"""``@simulated``: a test whose program runs on a simulated cluster and a virtual clock.

The program is a coroutine that is written against `barnabas.client`. One seed gives one run: every delay,
every draw and every fault comes from it. A run takes as long as its computation; a sleep costs nothing. The
program awaits what `barnabas.client` and `SimulatedCluster` offer, and nothing of asyncio.

A seed that fails prints the line that replays it; the environment variable `VARIABLE` has a test play only
that seed.
"""

from __future__ import annotations

import functools
import inspect
import os
from collections.abc import Callable, Collection, Coroutine, Iterable, Mapping
from typing import Any, NamedTuple, TypeAlias

from barnabas.client.admin import Admin
from barnabas.client.client import Client
from barnabas.client.network.channels import ChannelError
from barnabas.ports import Rng
from barnabas.sim.cluster import SimCluster, Topology
from barnabas.sim.faults import KINDS
from barnabas.sim.faults.schedule import FaultSchedule
from barnabas.sim.world.world import World
from barnabas.wire.errors import KafkaError

VARIABLE = "BARNABAS_SEED"
READY_MS = 60_000.0
CHECK_INTERVAL_MS = 20.0
Program: TypeAlias = Callable[..., Coroutine[Any, Any, None]]


class SimulatedTest(NamedTuple):
    """The form of the runs of one program."""

    seeds: tuple[int, ...]
    nodes: int
    settings: Mapping[str, str]
    faults: tuple[str, ...]
    """Kinds of fault that the seed draws while the program runs."""
    fault_interval_s: float
    limit_s: float


class UnfinishedError(AssertionError):
    """The program has not ended within its virtual time."""


class SimulatedCluster:
    """The cluster that a program gets. Times are virtual seconds."""

    def __init__(self, seed: int, form: SimulatedTest) -> None:
        self.seed = seed
        self.world = World(seed)
        self.cluster = SimCluster(self.world, Topology(form.nodes, settings=form.settings))
        self._faults = FaultSchedule(
            self.cluster,
            dict.fromkeys(form.faults, 1.0),
            self.world.rng,
            form.fault_interval_s * 1000,
        )
        self._own = self.client("harness")

    def __repr__(self) -> str:
        return f"SimulatedCluster(seed {self.seed}, {self.now_s:.3f} s)"

    @property
    def now_s(self) -> float:
        return self.world.now_ms / 1000

    @property
    def node_ids(self) -> list[int]:
        return sorted(self.cluster.nodes)

    def rng(self, concern: str) -> Rng:
        """Random numbers of the seed, for the program."""
        return self.world.rng(f"program {concern}")

    def client(self, name: str) -> Client:
        """A client in a process of its own."""
        return self.cluster.client(name)

    def admin(self, name: str = "admin") -> Admin:
        return Admin(self.client(name))

    async def sleep(self, duration_s: float) -> None:
        await self._own.tasks.sleep(duration_s * 1000)

    async def wait_for(self, condition: Callable[[], Any], limit_s: float = 60.0) -> Any:
        """Wait until `condition` returns a true value, and return that. Raises `UnfinishedError`."""
        until_s = self.now_s + limit_s
        while not (value := condition()):
            if self.now_s > until_s:
                raise UnfinishedError(f"waited {limit_s} virtual seconds in vain")
            await self._own.tasks.sleep(CHECK_INTERVAL_MS)
        return value

    # -- faults --------------------------------------------------------------------------------------

    def kill(self, node_id: int, *, power_loss: bool = False) -> None:
        """kill -9 of a node; with `power_loss` its disk loses what was not synced."""
        self.cluster.nodes[node_id].kill(power_loss=power_loss)

    def start(self, node_id: int) -> None:
        """Start a node that has ended; does nothing where it runs."""
        self.cluster.nodes[node_id].start()

    def cut(self, one: int, other: int) -> None:
        """Nothing goes between these two nodes, either way, until `heal`."""
        self.cluster.network.cut(f"n{one}", f"n{other}")
        self.cluster.network.cut(f"n{other}", f"n{one}")

    def heal(self) -> None:
        """All links are whole, no further fault of the seed comes, and every node runs."""
        self._faults.heal_everything()

    # -- running -------------------------------------------------------------------------------------

    def run(self, program: Coroutine[Any, Any, None], limit_s: float) -> None:
        """Start the nodes, then run `program` to its end. Raises what it raises, or `UnfinishedError`."""
        self.cluster.start_all()
        try:
            self._run(self._until_ready(), READY_MS)
            self._faults.start()
            self._run(program, limit_s * 1000)
        finally:
            program.close()
            self.world.let_go()

    def _run(self, coroutine: Coroutine[Any, Any, None], limit_ms: float) -> None:
        task = self._own.tasks.start(coroutine, lambda _: None)
        if not self.world.run(self.world.now_ms + limit_ms, lambda: task.done):
            raise UnfinishedError(
                f"the program has not ended after {limit_ms / 1000:.0f} virtual s"
            )
        task.result()

    async def _until_ready(self) -> None:
        admin = Admin(self._own)
        while True:
            try:
                brokers = (await admin.describe_cluster()).brokers
            except (ChannelError, KafkaError):
                brokers = []
            if sum(not broker.fenced for broker in brokers) == len(self.cluster.nodes):
                return
            await self._own.tasks.sleep(CHECK_INTERVAL_MS)


def simulated(
    *,
    seed: int | None = None,
    seeds: int | Iterable[int] = 5,
    nodes: int = 3,
    settings: Mapping[str, str] | None = None,
    faults: Collection[str] = (),
    fault_interval_s: float = 2.0,
    limit_s: float = 600.0,
) -> Callable[[Program], Callable[..., None]]:
    """Make a test of a coroutine whose first parameter is a `SimulatedCluster`; pytest fills the others.

    Args:
        seed: The only seed; None plays `seeds`.
        seeds: How many, from 1 on, or which.
        nodes: Number of nodes, each of them broker and controller.
        settings: Configuration keys of every node.
        faults: Kinds of fault that strike while the program runs until `SimulatedCluster.heal`, such as
            ``kill``, ``pause``, ``netsplit``, ``power`` (`barnabas.sim.faults.KINDS`).
        fault_interval_s: The mean time between two of them.
        limit_s: Virtual time after which the program counts as hung.
    """
    unknown = sorted(set(faults) - set(KINDS))
    if unknown:
        raise ValueError(f"{', '.join(unknown)}: no such fault; there are {', '.join(KINDS)}")
    chosen = (
        (seed,) if seed is not None else range(1, seeds + 1) if isinstance(seeds, int) else seeds
    )
    form = SimulatedTest(
        tuple(chosen), nodes, dict(settings or {}), tuple(faults), fault_interval_s, limit_s
    )

    def decorate(program: Program) -> Callable[..., None]:
        @functools.wraps(program)
        def play(*arguments: Any, **named: Any) -> None:
            wanted = os.environ.get(VARIABLE)
            for number in form.seeds if wanted is None else (int(wanted),):
                _play(number, form, program, arguments, named)

        del play.__wrapped__  # pytest reads the parameters of this
        _, *others = inspect.signature(program).parameters.values()
        play.__signature__ = inspect.Signature(others)  # type: ignore[attr-defined]
        return play

    return decorate


def _play(
    seed: int,
    form: SimulatedTest,
    program: Program,
    arguments: tuple[Any, ...],
    named: dict[str, Any],
) -> None:
    cluster = SimulatedCluster(seed, form)
    try:
        cluster.run(program(cluster, *arguments, **named), form.limit_s)
    except BaseException as error:
        error.add_note(
            f"seed {seed} fails after {cluster.now_s:.3f} virtual seconds; replay it with\n"
            f"    {VARIABLE}={seed} {_command(program)}"
        )
        raise


def _command(program: Program) -> str:
    """The command that runs the present test alone."""
    running = os.environ.get("PYTEST_CURRENT_TEST", "").rpartition(" ")[0]
    if running:
        return f"python -m pytest '{running}'"
    return f"python -c 'from {program.__module__} import {program.__name__} as t; t()'"
