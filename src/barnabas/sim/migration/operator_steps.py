"""The steps of a migration's operator: waits, notes, stops of nodes, znodes."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from barnabas.client.network.tasks import Tasks
from barnabas.sim.migration.cluster import MigratingSimNode, MigrationCluster
from barnabas.sim.migration.znode_client import ZnodeClient

POLL_MS = 20.0
SHUTDOWN_MS_MAX = 20_000.0
"""The time for a controlled shutdown, before the process is killed."""


class OperatorSteps:
    """The operator's machine never fails."""

    def __init__(self, cluster: MigrationCluster) -> None:
        process = cluster.add_machine("operator").start_process()
        self.cluster = cluster
        self.step = "it has not begun"
        """The step that it takes or waits for."""
        self.is_done = False
        self._tasks = Tasks(process, self._end_with)
        self._rng = process.rng("migration")
        self.znodes = ZnodeClient(process, cluster.ensemble.connect + "/kafka")

    def _end_with(self, error: BaseException) -> None:
        def end() -> None:
            raise error

        self.cluster.world.at(self.cluster.world.now_ms, end)

    def note(self, line: str) -> None:
        self.cluster.world.note(f"operator: {line}")

    def wait_for(self, step: str) -> None:
        self.step = step

    async def pause(self, share: float = 1.0) -> None:
        """Shorter once everything has healed."""
        mean_ms = 50.0 if self.cluster.is_healed else self.cluster.topology.pause_ms
        await self._tasks.sleep(self._rng.uniform(0.1, 1.9) * mean_ms * share)

    async def until(
        self, happened: Callable[[], bool], what: str, within_ms: float = float("inf")
    ) -> None:
        self.wait_for(what)
        until_ms = self.cluster.world.now_ms + within_ms
        while not happened() and self.cluster.world.now_ms < until_ms:
            await self._tasks.sleep(POLL_MS)

    async def sleep(self, ms: float) -> None:
        await self._tasks.sleep(ms)

    def shuffled(self, nodes: Sequence[MigratingSimNode]) -> list[MigratingSimNode]:
        found = list(nodes)
        self._rng.shuffle(found)
        return found

    async def stop(
        self, node: MigratingSimNode, is_over: Callable[[], bool] = lambda: False
    ) -> None:
        """Stop a node by a controlled shutdown, which may take too long, or by a kill."""
        if self._rng.random() < 0.75:
            node.shut_down()
            await self.until(lambda: not node.is_up or is_over(), "a shutdown", SHUTDOWN_MS_MAX)
        if node.is_up and not is_over():
            node.kill()
