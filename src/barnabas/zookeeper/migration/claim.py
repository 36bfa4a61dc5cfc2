"""`/controller`, `/controller_epoch` and `/migration` as a KRaft controller takes and keeps them.

Every write of its office is a transaction that checks the version of `/controller_epoch` and replaces
`/migration` at the version that it left there: of two controllers of a quorum the one that was replaced
changes nothing.

Source: Kafka 3.9's ``KafkaZkClient.tryRegisterKRaftControllerAsActiveController`` and
``retryMigrationRequestsUntilConnected``.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from barnabas.limits import ZookeeperBounds
from barnabas.zookeeper.cut_operations import take_operations
from barnabas.zookeeper.layout.cluster_state_znodes import (
    CONTROLLER,
    CONTROLLER_EPOCH,
    MIGRATION,
    ControllerEpochZnode,
    ControllerZnode,
    MigrationZnode,
)
from barnabas.zookeeper.operations import (
    CheckVersion,
    Create,
    Delete,
    Multi,
    NodeData,
    Operation,
    SetData,
)

PATHS = (CONTROLLER, CONTROLLER_EPOCH, MIGRATION)


class ClaimRefusedError(Exception):
    """Another controller of this quorum has a later claim."""


@dataclass(frozen=True, slots=True)
class Office:
    """A claim that holds."""

    controller_epoch: int
    """With which brokers are commanded."""
    epoch_version: int
    migration: MigrationZnode
    migration_version: int

    def transactions(
        self,
        operations: Sequence[Operation],
        metadata_offset: int,
        metadata_epoch: int,
        bounds: ZookeeperBounds,
    ) -> list[Multi]:
        """The operations, cut where one transaction cannot hold them; the last one says that the znodes are
        at `metadata_offset` of the log."""
        left = deque(operations)
        check = CheckVersion(CONTROLLER_EPOCH, self.epoch_version)
        found: list[Multi] = []
        while left or not found:
            part = take_operations(left, bounds, besides=2)
            mark = self.migration
            if not left:
                mark = replace(mark, metadata_offset=metadata_offset, metadata_epoch=metadata_epoch)
            keep = SetData(MIGRATION, mark.encode(), self.migration_version + len(found))
            found.append(Multi((check, keep, *part)))
        return found

    def after(self, transactions: Sequence[Multi]) -> Office:
        """When all of `transactions` are done."""
        if not transactions:
            return self
        last = transactions[-1].operations[1]
        assert isinstance(last, SetData)
        return replace(
            self,
            migration=MigrationZnode.decode(MIGRATION, last.data),
            migration_version=self.migration_version + len(transactions),
        )


def held_office(znodes: Mapping[str, NodeData]) -> Office:
    """The office that was taken and is not released. `znodes` has `PATHS`. Raises `MalformedZnode`."""
    epoch, mark = znodes[CONTROLLER_EPOCH], znodes[MIGRATION]
    return Office(
        ControllerEpochZnode.decode(CONTROLLER_EPOCH, epoch.data).epoch,
        epoch.stat.version,
        MigrationZnode.decode(MIGRATION, mark.data),
        mark.stat.version,
    )


def take(
    znodes: Mapping[str, NodeData], controller: int, kraft_epoch: int, wall_ms: int
) -> tuple[Multi, Office]:
    """The transaction that claims the office, and the office that it gives. `znodes` has `PATHS`, as far as
    they are there. Raises `ClaimRefusedError`, `MalformedZnode`, `KeyError` for a cluster without epochs."""
    epoch_node = znodes[CONTROLLER_EPOCH]
    epoch = ControllerEpochZnode.decode(CONTROLLER_EPOCH, epoch_node.data).epoch + 1
    operations: list[Operation] = [
        SetData(CONTROLLER_EPOCH, ControllerEpochZnode(epoch).encode(), epoch_node.stat.version)
    ]
    present = znodes.get(CONTROLLER)
    if present is not None:
        holder = ControllerZnode.decode(CONTROLLER, present.data)
        other = holder.kraft_epoch if holder.kraft_epoch is not None else -1
        if other > kraft_epoch and not present.stat.ephemeral_owner:
            raise ClaimRefusedError(
                f"controller {holder.broker_id} has claimed {CONTROLLER} in epoch {other} of its"
                f" quorum, and this one is in {kraft_epoch}"
            )
        operations.append(Delete(CONTROLLER, present.stat.version))
    operations.append(
        Create(CONTROLLER, ControllerZnode(controller, wall_ms, kraft_epoch).encode())
    )
    before = znodes.get(MIGRATION)
    mark = MigrationZnode(controller, kraft_epoch, -1, -1)
    if before is None:
        operations.append(Create(MIGRATION, mark.encode()))
        version = 0
    else:
        known = MigrationZnode.decode(MIGRATION, before.data)
        mark = replace(known, controller_id=controller, controller_epoch=kraft_epoch)
        operations.append(SetData(MIGRATION, mark.encode(), before.stat.version))
        version = before.stat.version + 1
    office = Office(epoch, epoch_node.stat.version + 1, mark, version)
    return Multi(tuple(operations)), office


def release(znodes: Mapping[str, NodeData]) -> Multi:
    """The end of the claim: brokers on ZooKeeper rule again."""
    return Multi(
        (
            CheckVersion(CONTROLLER_EPOCH, znodes[CONTROLLER_EPOCH].stat.version),
            Delete(CONTROLLER),
            Delete(MIGRATION),
        )
    )


def end_of_way_back(znodes: Mapping[str, NodeData]) -> Multi:
    """The claim stays, its mark goes: `release` and `copying.way_back` are refused from then on."""
    check = CheckVersion(CONTROLLER_EPOCH, znodes[CONTROLLER_EPOCH].stat.version)
    return Multi((check, Delete(MIGRATION)))
