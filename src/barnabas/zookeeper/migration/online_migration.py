"""Migrates a running cluster from ZooKeeper to KRaft: performs the effects of the `driver` machine.

`OnlineMigration` is a duty of the quorum's controller and reads the committed image. It uses this node's
ZooKeeper session. An answer that comes after the claim has ended is ignored.

In dual write, the changes of the committed image are written to the znodes. Changes that are committed while
a transaction is under way go into the next one. Brokers in ZooKeeper mode receive orders after the znodes
are written, as from Kafka's controller: what a broker reads in ZooKeeper is never older than its orders.

Source: Kafka 3.9's ``KRaftMigrationDriver`` (its events) and ``MigrationPropagator``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from barnabas.config.meta_properties import random_uuid
from barnabas.controller.active.first_records import first_decisions
from barnabas.controller.active.quorum_controller import QuorumController
from barnabas.controller.brokers.broker_heartbeat import reconciled
from barnabas.controller.migration_state import ZkMigrationState
from barnabas.metadata.image.image import MetadataImage
from barnabas.metadata.image.image_changes import ImageChanges
from barnabas.metadata.records.zk_migration_state_record import ZkMigrationStateRecord
from barnabas.ports import Ports
from barnabas.types import Uuid
from barnabas.zookeeper.controller.broker_orders import BrokerOrders, OrdersListener
from barnabas.zookeeper.errors import ZooKeeperError
from barnabas.zookeeper.layout.json_bytes import MalformedZnode
from barnabas.zookeeper.migration import claim, driver, readiness
from barnabas.zookeeper.migration.changes import merge
from barnabas.zookeeper.migration.driver import Effect, Migration, MigrationPhase
from barnabas.zookeeper.migration.dual_write import DualWriter, Writes
from barnabas.zookeeper.migration.pending_work import PendingWork, Work
from barnabas.zookeeper.migration.running_copy import namings, records_of
from barnabas.zookeeper.migration.znode_walk import Znodes, ZnodeWalk
from barnabas.zookeeper.operations import Multi, Operation
from barnabas.zookeeper.session import WatchEvent
from barnabas.zookeeper.session_keeper import SessionKeeper

REASON = "the metadata of a ZooKeeper cluster"
CLAIMED = frozenset(
    {MigrationPhase.ZK_MIGRATION, MigrationPhase.SYNC_KRAFT_TO_ZK, MigrationPhase.DUAL_WRITE}
)
"""The phases in which `/controller` is this controller's, but for the delay after a failure."""


class _OrdersOfMigration(OrdersListener):
    def __init__(
        self, migration: OnlineMigration, on_event: Callable[[driver.EffectFailed], None]
    ) -> None:
        self._migration = migration
        self._on_event = on_event

    def is_written(self, topic_id: Uuid) -> bool:
        return self._migration.is_written(topic_id)

    def on_stale(self, epoch: int) -> None:
        why = f"a broker obeys a newer controller than epoch {epoch}"
        self._on_event(driver.EffectFailed(why))


class OnlineMigration:
    """This controller's part in the migration."""

    def __init__(
        self,
        ports: Ports,
        sessions: SessionKeeper,
        controller: QuorumController,
        image: MetadataImage,
        orders: BrokerOrders,
    ) -> None:
        """`image` is the committed one."""
        self._ports = ports
        self._sessions = sessions
        self._controller = controller
        self._image = image
        self._orders = orders
        self.migration = Migration()
        self._leadership: claim.MigrationLeadership | None = None
        self.work = PendingWork()
        self._writer: DualWriter | None = None
        """Set once all znodes are read; from then on `_changes` collects what is committed."""
        self._changes = ImageChanges()
        self._random_bytes = ports.rng("zookeeper.topic_ids").randbytes
        orders.listen(_OrdersOfMigration(self, self._on))

    def is_written(self, topic_id: Uuid) -> bool:
        """Whether the znodes have the topic; asked while no write is under way."""
        return self._writer is not None and topic_id in self._writer.layout.topic_names

    def validate(self) -> None:
        """Each part is there in the phases and states of work that need it, and in no other. Raises
        AssertionError."""
        phase, leadership, work = self.migration.phase, self._leadership, self.work.kind
        self.work.validate()
        assert leadership is None or phase in CLAIMED, f"{self!r} has claimed /controller"
        assert leadership is None or work is not Work.WAITING, f"{self!r} waits with a claim"
        if self._writer is None:
            assert not self._changes, f"{self!r} collects changes that nothing writes"
        else:
            assert leadership is not None, f"{self!r} writes without a claim"
        commands = phase is MigrationPhase.DUAL_WRITE and leadership is not None
        epoch = leadership.controller_epoch if commands and leadership is not None else -1
        assert self._orders.controller_epoch == epoch, f"{self._orders!r}: not epoch {epoch}"
        if commands and work is Work.NONE:
            assert not self._changes, f"{self!r} has changes that nothing will write"
        self._orders.validate()

    # -- the controller's duty -------------------------------------------------------------------

    def on_activation(self) -> None:
        self._on(self._log_moved())
        self._on(driver.LeadershipWon(self._controller.epoch))

    def clear(self) -> None:
        self._on(driver.LeadershipLost())

    def deadline_ms(self) -> float | None:
        return None

    def on_time(self, now_ms: float) -> None:
        return

    def on_metadata(self, image: MetadataImage, changes: ImageChanges) -> None:
        """The committed image has moved."""
        if self._writer is not None:
            merge(self._changes, changes)
        if self._controller.is_active:
            self._on(self._log_moved())
        self._write()

    def _log_moved(self) -> driver.LogStateSeen:
        image, config = self._image, self._controller.config
        voters = [int(voter.node_id) for voter in config.voters]
        unready = readiness.unready_controllers(image, voters)
        return driver.LogStateSeen(image.zk_migration_state, tuple(unready))

    @property
    def is_idle(self) -> bool:
        """Both are written, and nothing that is committed waits for its znodes, as far as is known here."""
        return (
            self.migration.phase is MigrationPhase.DUAL_WRITE
            and self._writer is not None
            and self.work.kind is Work.NONE
            and not self._changes
        )

    @property
    def leadership(self) -> claim.MigrationLeadership | None:
        """The claim of this controller; None where it has none."""
        return self._leadership

    # -- the session -----------------------------------------------------------------------------

    def on_connected(self, is_new: bool) -> None:
        return

    def on_expired(self) -> None:
        return

    def on_watch(self, event: WatchEvent) -> None:
        return

    # -- the machine -----------------------------------------------------------------------------

    def _on(self, event: driver.Event) -> None:
        before = self.migration
        self.migration, effects = driver.step(before, event)
        if self.migration.phase is not before.phase or self.migration.waits_for != before.waits_for:
            self._ports.log(
                "info",
                "migration.moved",
                phase=self.migration.phase.value,
                state=ZkMigrationState(self.migration.state).name,
                waits_for="; ".join(self.migration.waits_for),
            )
        for effect in effects:
            self._do(effect)

    def _do(self, effect: Effect) -> None:
        match effect:
            case Effect.SURVEY:
                self._read(self._on_surveyed, "/")
            case Effect.CLAIM:
                self._stop()
                self._read(self._on_claimable, *claim.PATHS)
            case Effect.COPY:
                self._read(self._copy, "/")
            case Effect.CATCH_UP:
                self._read(self._catch_up, "/")
            case Effect.COMMAND:
                assert self._leadership is not None
                self._orders.begin(self._leadership.controller_epoch)
            case Effect.FOLLOW:
                self._write()
            case Effect.STOP:
                self._stop()
            case Effect.WAIT:
                at_ms = self._ports.clock.now_ms() + driver.RETRY_MS
                self.work.wait(self._ports.wakeups.call_at(at_ms, self._on_retry_due))

    def _stop(self) -> None:
        self.work.stop()
        self._writer = self._leadership = None
        self._changes = ImageChanges()
        self._orders.end()

    def _on_retry_due(self) -> None:
        self.work.end()
        self._on(driver.RetryDue())

    def _read(self, then: Callable[[Znodes], None], *roots: str) -> None:
        turn = self.work.turn

        def done(found: Znodes | ZooKeeperError) -> None:
            if turn != self.work.turn:
                return
            self.work.end()
            if isinstance(found, ZooKeeperError):
                self._on(driver.EffectFailed(f"ZooKeeper cannot be read: {found}"))
                return
            try:
                then(found)
            except MalformedZnode as error:
                self._on(driver.EffectFailed(str(error)))

        walk = ZnodeWalk(self._sessions, done)
        self.work.read(walk)
        walk.start(*roots)

    # -- taking over -----------------------------------------------------------------------------

    def _on_surveyed(self, znodes: Znodes) -> None:
        self._on(driver.Surveyed(tuple(readiness.missing(znodes, self._image))))

    def _on_claimable(self, znodes: Znodes) -> None:
        try:
            wall_ms = self._ports.clock.wall_ms()
            transaction, leadership = claim.take(
                znodes,
                self._controller.node_id,
                self._controller.epoch,
                wall_ms,
                has_copy=self.migration.state == ZkMigrationState.MIGRATION,
            )
        except (claim.ClaimRefusedError, KeyError) as error:
            why = f"{claim.PATHS[0]} cannot be taken: {error}"
            if self.migration.waits_for != (
                why,
            ):  # said once; an operator may mend what prevents it
                self._ports.log("error", "migration.refused", why=why)
                self._controller.refusals.add("migration", "CLAIM_REFUSED", why)
            self._on(driver.EffectFailed(why))
            return

        def claimed() -> None:
            self._leadership = leadership
            self._ports.log("info", "migration.claimed", epoch=leadership.controller_epoch)
            self._on(driver.Claimed())

        self._submit([transaction], claimed)

    def _copy(self, znodes: Znodes) -> None:
        """Append the znodes' records to the log as one metadata transaction. A controller that takes over
        aborts it."""
        assert self._leadership is not None
        controller = self._controller
        operations = namings(znodes, lambda name: random_uuid(self._random_bytes))
        if operations:
            self._write_namings(operations)
            return
        done = ZkMigrationStateRecord(zk_migration_state=ZkMigrationState.MIGRATION)
        records = [*records_of(znodes), done]
        level = controller.image.metadata_version
        most = controller.config.metadata_log.batch_bytes_max
        controller.begin(first_decisions(records, level, most, REASON))
        # A broker that died meanwhile is in ISRs of the copy.
        controller.begin(reconciled(controller.cluster, controller.sessions))
        self._ports.log("info", "migration.copying", records=len(records))
        self._on(driver.CopyAppended())

    def _write_namings(self, operations: Sequence[Operation]) -> None:
        """Give topics their ids, then read again."""
        leadership = self._leadership
        assert leadership is not None
        mark, bounds = leadership.migration, self._ports.bounds.zookeeper
        transactions = leadership.transactions(
            operations, mark.metadata_offset, mark.metadata_epoch, bounds
        )

        def done() -> None:
            self._leadership = leadership.after(transactions)
            self._do(Effect.COPY)

        self._submit(transactions, done)

    def _catch_up(self, znodes: Znodes) -> None:
        assert self._leadership is not None
        controller = self._controller
        controller.begin(reconciled(controller.cluster, controller.sessions))
        self._changes = ImageChanges()
        writer = DualWriter(znodes, self._leadership.controller_epoch)
        writes = writer.everything(self._image)
        self._writer = writer

        def caught_up() -> None:
            self._on(driver.CaughtUp())
            self._command(ImageChanges(), writes)

        self._write_all(writes, caught_up)

    # -- dual write ------------------------------------------------------------------------------

    def _write(self) -> None:
        """Write what has changed since the last write, unless a write is under way."""
        writer, changes = self._writer, self._changes
        is_busy = self.work.kind is not Work.NONE
        if self.migration.phase is not MigrationPhase.DUAL_WRITE or is_busy or writer is None:
            return
        if not changes:
            return
        self._changes = ImageChanges()
        image = self._image
        writes = writer.everything(image) if changes.everything else writer.of(image, changes)

        def written() -> None:
            self._command(changes, writes)
            self._write()

        self._write_all(writes, written)

    def _command(self, changes: ImageChanges, writes: Writes) -> None:
        for name, topic_id, partitions in writes.removed:
            self._orders.on_removed(name, topic_id, partitions)
        self._orders.on_written(changes, (), writes.assigned)
        for broker, partition in writes.stopped:
            self._orders.stop_replicas(broker, [partition])

    def _write_all(self, writes: Writes, then: Callable[[], None]) -> None:
        leadership = self._leadership
        assert leadership is not None
        image = self._image
        bounds = self._ports.bounds.zookeeper
        transactions = leadership.transactions(writes.operations, image.offset, image.epoch, bounds)

        def done() -> None:
            self._leadership = leadership.after(transactions)
            then()

        self._submit(transactions, done)

    def _submit(self, transactions: Sequence[Multi], then: Callable[[], None]) -> None:
        """Submit one after the other. A failure or an unknown outcome ends the claim."""
        turn, (first, *rest) = self.work.turn, transactions
        self.work.write()

        def on_done(result: object) -> None:
            if turn != self.work.turn:
                return
            self.work.end()
            if isinstance(result, ZooKeeperError):
                self._on(driver.EffectFailed(f"a write to ZooKeeper failed: {result}"))
            elif rest:
                self._submit(rest, then)
            else:
                then()

        self._sessions.submit(first, on_done)

    def describe(self) -> dict[str, object]:
        """State for people, metrics and logs."""
        return {
            "phase": self.migration.phase.value,
            "state": ZkMigrationState(self.migration.state).name,
            "waits_for": list(self.migration.waits_for),
            "written_offset": -1
            if self._leadership is None
            else self._leadership.migration.metadata_offset,
            "orders": self._orders.describe(),
        }

    def __repr__(self) -> str:
        return f"OnlineMigration({self.migration.phase.value}, {self.work.kind.value})"
