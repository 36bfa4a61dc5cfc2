"""Takes the steps of a migration, as an operator with files and commands does, at drawn times.

Each attempt starts the controllers, restarts the brokers one by one with the migration enabled, waits for
dual write, restarts brokers under KRaft, and then ends the migration or takes the way back. Faults continue
meanwhile: whatever dies is started again in the mode that its file has by then.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from barnabas.sim.migration import stopped_bridge, stopped_log
from barnabas.sim.migration.cluster import AttemptPlan, MigratingSimNode, Mode
from barnabas.sim.migration.operator_steps import OperatorSteps
from barnabas.zookeeper.errors import ZooKeeperError
from barnabas.zookeeper.migration import claim, findings
from barnabas.zookeeper.migration.driver import MigrationPhase
from barnabas.zookeeper.migration.findings import MigrationState
from barnabas.zookeeper.migration.release import NoWayBackError, written_before

WHOLE_MS_MAX = 5_000.0
"""A careful operator waits no longer for whole ISRs."""
ELECTED_MS = 3_000.0
"""After a release, before it is looked at again whether a broker is controller."""


class MigrationOperator(OperatorSteps):
    """The one that migrates."""

    def start(self) -> None:
        self._tasks.start(self._run())

    async def _run(self) -> None:
        for plan in self.cluster.topology.attempts:
            await self.pause()
            if plan.is_stopped:
                await self._bridge(plan)
                continue
            await self._begin()
            if plan.waits:
                await self.until(self._is_dual, "both to be written")
                self.cluster.world.totals["dual writes reached"] += 1
                await self.pause()
            if plan.ends == "final":
                await self._end_migration()
            elif plan.ends == "back":
                await self._go_back(plan)
            else:
                await self._change_some(plan)
        self.step, self.is_done = "it is done", True
        self.cluster.world.note("the operator is done")

    # -- steps -------------------------------------------------------------------------------------

    async def _bridge(self, plan: AttemptPlan) -> None:
        """An attempt with a stopped cluster."""
        await stopped_bridge.to_kraft(self)
        await self.pause(4.0)
        if plan.ends == "back":
            await stopped_bridge.back_to_zookeeper(self)
        elif plan.ends == "final":
            await self._end_way_back()

    async def _begin(self) -> None:
        """Controllers start, and brokers again with the migration enabled; in any order."""
        work: list[MigratingSimNode] = self.cluster.begin_attempt()
        self.note(f"attempt {self.cluster.attempt}: controllers and brokers begin to migrate")
        if self._rng.random() < 0.3:
            work = [*work, *self.cluster.migrating_brokers]
            self._rng.shuffle(work)
        else:
            brokers = self.cluster.migrating_brokers
            self._rng.shuffle(brokers)
            work = [*work, *brokers]
        for node in work:
            await self._change(node, Mode.MIGRATING)

    async def _change_some(self, plan: AttemptPlan) -> None:
        brokers = self.cluster.migrating_brokers
        self._rng.shuffle(brokers)
        for node in brokers[: plan.under_kraft]:
            await self._change(node, Mode.KRAFT)

    async def _end_migration(self) -> None:
        brokers = self.cluster.migrating_brokers
        self._rng.shuffle(brokers)
        for node in brokers:
            await self._change(node, Mode.KRAFT)
        await self.until(partial(self._all_are, on_zookeeper=False), "brokers under KRaft")
        await self.pause()
        controllers = self.cluster.controllers
        self._rng.shuffle(controllers)
        for node in controllers:
            await self._change(node, Mode.KRAFT)
        await self.until(lambda: self.cluster.is_final, "the migration to be final")
        self.cluster.world.totals["migrations ended"] += 1
        await self._end_way_back()

    async def _end_way_back(self) -> None:
        while True:
            self.wait_for("the end of the way back")
            try:
                znodes = await self.znodes.read()
                if findings.state_of(znodes) is MigrationState.FINAL:
                    return
                await self.znodes.write([claim.end_of_way_back(znodes)])
            except ZooKeeperError:
                await self._tasks.sleep(200)

    async def _go_back(self, plan: AttemptPlan) -> None:
        await self._change_some(plan)
        await self.pause()
        brokers = self.cluster.migrating_brokers
        self._rng.shuffle(brokers)
        for node in brokers:
            if node.mode is Mode.KRAFT:
                await self._change(node, Mode.MIGRATING)
        await self.until(partial(self._all_are, on_zookeeper=True), "brokers in ZooKeeper mode")
        await self.pause()
        self.note("the way back is taken")
        self.cluster.world.totals["ways back"] += 1
        controllers = self.cluster.controllers
        for node in controllers:
            node.is_wanted = False
        for node in controllers:
            await self.stop(node)
        while not await self._release(controllers):
            await self._tasks.sleep(200)
        self.cluster.end_attempt()
        for node in brokers:
            await self._change(node, Mode.ZOOKEEPER)

    async def _release(self, controllers: Sequence[MigratingSimNode]) -> bool:
        """``barnabas migrate revert``. Whether a broker is controller afterwards: a claim that was on its
        way when its controller was stopped may be taken later."""
        self.wait_for("the claim to be released")
        cluster = self.cluster
        try:
            znodes = await self.znodes.read()
            if findings.state_of(znodes) is not MigrationState.NONE:
                image = stopped_log.longest(controllers)
                await self.znodes.write(written_before(znodes, image, cluster.bounds.zookeeper))
                await self.znodes.write([claim.release(await self.znodes.read())])
        except ZooKeeperError:
            return False
        except NoWayBackError as error:
            raise AssertionError(f"the way back is refused: {error}") from error
        at_ms = cluster.world.now_ms + ELECTED_MS
        await self.until(
            lambda: cluster.world.now_ms > at_ms and cluster.active_controller() is not None,
            "a broker to be controller",
        )
        return not cluster.is_claimed

    # -- one node ----------------------------------------------------------------------------------

    async def _change(self, node: MigratingSimNode, mode: Mode) -> None:
        """Start `node` again in `mode`."""
        self.wait_for(f"node {node.id} to be started as {mode.value}")
        self.cluster.world.note(f"operator: node {node.id} becomes {mode.value}")
        if self.cluster.topology.is_careful and not node.is_controller:
            await self.until(self._is_whole, "whole ISRs", WHOLE_MS_MAX)
        node.mode = mode
        if node.is_up and node.runs_in is not mode:
            await self.stop(node, lambda: node.runs_in is mode)
        node.start()
        await self.until(
            lambda: node.is_up and node.runs_in is mode, f"node {node.id} as {mode.value}"
        )
        await self.pause(0.3)

    # -- waiting -----------------------------------------------------------------------------------

    def _is_dual(self) -> bool:
        leader = self.cluster.quorum_leader()
        migration = None if leader is None else leader.migration
        return migration is not None and migration.migration.phase is MigrationPhase.DUAL_WRITE

    def _all_are(self, *, on_zookeeper: bool) -> bool:
        """Whether all are, by the quorum's log, where it rules; else nothing is known of that."""
        log = self.cluster.committed_image
        if log is None or not self.cluster.quorum_rules:
            return True
        return all(
            broker.is_on_zookeeper is on_zookeeper and (on_zookeeper or not broker.fenced)
            for broker in log.brokers.values()
        )

    def _is_whole(self) -> bool:
        cluster = self.cluster
        return all(
            len(isr) == len(replicas)
            for topic in cluster.truth.topics_by_id.values()
            for isr, replicas in zip(topic.isr, topic.replicas, strict=True)
        )
