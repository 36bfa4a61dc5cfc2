"""How far the migration of a running cluster is, by its znodes and by the log of its quorum."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field

from barnabas.controller.migration_state import ZkMigrationState
from barnabas.metadata.image.image import MetadataImage
from barnabas.zookeeper.layout.broker_znodes import IDS
from barnabas.zookeeper.layout.cluster_state_znodes import (
    CONTROLLER,
    MIGRATION,
    ControllerZnode,
    MigrationZnode,
)
from barnabas.zookeeper.migration import claim, comparison, findings, readiness
from barnabas.zookeeper.migration.driver import MigrationPhase
from barnabas.zookeeper.migration.findings import MigrationState
from barnabas.zookeeper.operations import NodeData

DIFFERENCES_SHOWN_MAX = 10
NOT_BEGUN, FINAL = "not begun", "final"
MIGRATING, UNDER_KRAFT = "in ZooKeeper mode, migrating", "under KRaft"


@dataclass(frozen=True, slots=True)
class Progress:
    """The progress that a command can see."""

    phase: str
    state: str
    """The log's record; empty where the log was not read."""
    controller: int | None
    """Who holds `/controller`; None where it is missing."""
    is_kraft: bool
    """Whether that is a KRaft controller."""
    writer: int
    """The controller of the quorum that has written `/migration` last; -1 where it is missing."""
    written_offset: int
    """Up to which offset of the log `/migration` says that the znodes are; -1 where it is missing."""
    log_offset: int
    brokers: Mapping[int, str] = field(default_factory=dict)
    missing: tuple[str, ...] = ()
    differing: tuple[str, ...] = ()
    next_step: str = ""

    def describe(self) -> dict[str, object]:
        return asdict(self)

    @property
    def summary(self) -> str:
        """How much is done, in one line."""
        modes = list(self.brokers.values())
        done = [
            f"{sum(mode.startswith(UNDER_KRAFT) for mode in modes)} of {len(modes)} brokers under KRaft",
            f"{sum(mode.startswith(MIGRATING) for mode in modes)} migrating in ZooKeeper mode",
        ]
        if self.written_offset >= 0 and self.log_offset >= 0:
            done.append(f"znodes at offset {self.written_offset} of {self.log_offset} of the log")
        return ", ".join(done)


def progress_of(
    znodes: Mapping[str, NodeData], image: MetadataImage | None, unreached: str
) -> Progress:
    """`image` is None where the log cannot be read, and `unreached` says why. Raises `MalformedZnode`."""
    holder, mark = znodes.get(CONTROLLER), znodes.get(MIGRATION)
    controller = None if holder is None else ControllerZnode.decode(CONTROLLER, holder.data)
    is_kraft = findings.state_of(znodes) in (MigrationState.BEGUN, MigrationState.FINAL)
    written = None if mark is None else MigrationZnode.decode(MIGRATION, mark.data)
    state = -1 if image is None else image.zk_migration_state
    missing = _missing(znodes, image, unreached)
    differing: tuple[str, ...] = ()
    if image is not None and state == ZkMigrationState.MIGRATION:
        found = comparison.differences(znodes, image)
        differing = tuple(
            f"{d.what}: znodes {d.znodes!r}, log {d.log!r}" for d in found[:DIFFERENCES_SHOWN_MAX]
        )
    phase = _phase(state, is_kraft, missing, differing)
    out_of_date = _why_out_of_date(znodes, state)
    if out_of_date:
        phase, missing = MigrationPhase.BECOME_CONTROLLER.value, (*missing, out_of_date)
    if image is None and is_kraft and written is not None and written.metadata_offset >= 0:
        phase = MigrationPhase.DUAL_WRITE.value  # as the controller says that holds the znodes
    return Progress(
        phase=phase,
        state="" if state < 0 else ZkMigrationState(state).name,
        controller=None if controller is None else controller.broker_id,
        is_kraft=is_kraft,
        writer=-1 if written is None else written.controller_id,
        written_offset=-1 if written is None else written.metadata_offset,
        log_offset=-1 if image is None else image.offset,
        brokers=_modes(znodes, image),
        missing=missing,
        differing=differing,
        next_step=_next_step(phase, image),
    )


def _why_out_of_date(znodes: Mapping[str, NodeData], state: int) -> str:
    """Why the quorum's controllers refuse to claim the znodes."""
    if state != ZkMigrationState.MIGRATION or findings.state_of(znodes) is MigrationState.FINAL:
        return ""
    return claim.why_out_of_date(znodes)


def _missing(
    znodes: Mapping[str, NodeData], image: MetadataImage | None, unreached: str
) -> tuple[str, ...]:
    if image is None:
        return (f"the quorum's log cannot be read: {unreached}",)
    if image.zk_migration_state != ZkMigrationState.PRE_MIGRATION:
        return ()
    controllers = readiness.unready_controllers(image, sorted(image.controllers))
    return (*controllers, *readiness.missing(znodes, image))


def _phase(state: int, is_kraft: bool, missing: tuple[str, ...], differing: tuple[str, ...]) -> str:
    if state == ZkMigrationState.POST_MIGRATION:
        return FINAL
    if state == ZkMigrationState.MIGRATION:
        dual = is_kraft and not differing
        return str((MigrationPhase.DUAL_WRITE if dual else MigrationPhase.SYNC_KRAFT_TO_ZK).value)
    if state != ZkMigrationState.PRE_MIGRATION:
        return NOT_BEGUN
    if missing:
        return MigrationPhase.WAIT_FOR_BROKERS.value
    return str(
        (MigrationPhase.ZK_MIGRATION if is_kraft else MigrationPhase.BECOME_CONTROLLER).value
    )


def _modes(znodes: Mapping[str, NodeData], image: MetadataImage | None) -> dict[int, str]:
    """The mode of every broker that is registered anywhere."""
    modes = {
        int(path.rpartition("/")[2]): "in ZooKeeper mode, without migration"
        for path in znodes
        if path.startswith(f"{IDS}/")
    }
    for broker in image.brokers.values() if image is not None else ():
        mode = MIGRATING if broker.is_on_zookeeper else UNDER_KRAFT
        modes[broker.id] = f"{mode}, not heard of" if broker.fenced else mode
    return modes


def _next_step(phase: str, image: MetadataImage | None) -> str:
    if image is None and phase == NOT_BEGUN:
        return (
            "next: start the controllers, and give the brokers zookeeper.metadata.migration.enable"
        )
    if phase == FINAL:
        return "the migration is final: ZooKeeper is needed no more"
    if phase != MigrationPhase.DUAL_WRITE.value or image is None:
        return ""
    left = sorted(broker.id for broker in image.brokers.values() if broker.is_on_zookeeper)
    if left:
        names = ", ".join(map(str, left))
        return f"next: restart brokers {names} under KRaft, one after the other"
    return (
        "next: restart the controllers without zookeeper.metadata.migration.enable; that is final"
    )
