"""A KRaft controller's claim on a ZooKeeper cluster: `/controller`, `/controller_epoch`, `/migration`.

Every write under the claim is a transaction that checks the version of `/controller_epoch` and replaces
`/migration` at the version that this controller left there. A controller that the quorum has replaced can
therefore change nothing.

A quorum whose log has the copy of the znodes may claim again only if no other controller has ruled since its
last write: what its log says is out of date otherwise, and would be written over what others did
(`why_out_of_date`).
Each election and each claim sets `/controller_epoch`, and each write under a claim, the claim itself
included, sets `/migration`; so the znode that was changed last tells who wrote last. Kafka's driver does not
look. A claim of another quorum is refused as far as `/migration` shows it (`_why_of_other_quorum`).

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
    """Another controller of this quorum has a later claim, or others have ruled since; the message is a
    sentence."""


@dataclass(frozen=True, slots=True)
class MigrationLeadership:
    """A claim that was written: epochs, and the versions on which the next writes are conditional.

    Source: Kafka 3.9's ``ZkMigrationLeadershipState``.
    """

    controller_epoch: int
    """The controller epoch in requests to brokers in ZooKeeper mode."""
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
        """The operations, cut into transactions that the ensemble accepts. The last one sets `/migration` to
        `metadata_offset` and `metadata_epoch`: the znodes have the log up to there."""
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

    def after(self, transactions: Sequence[Multi]) -> MigrationLeadership:
        """The claim when all of `transactions` are done."""
        if not transactions:
            return self
        last = transactions[-1].operations[1]
        assert isinstance(last, SetData)
        return replace(
            self,
            migration=MigrationZnode.decode(MIGRATION, last.data),
            migration_version=self.migration_version + len(transactions),
        )


def held_leadership(znodes: Mapping[str, NodeData]) -> MigrationLeadership:
    """The claim that `znodes` have. `znodes` has all `PATHS`. Raises `MalformedZnode`."""
    epoch, mark = znodes[CONTROLLER_EPOCH], znodes[MIGRATION]
    return MigrationLeadership(
        ControllerEpochZnode.decode(CONTROLLER_EPOCH, epoch.data).epoch,
        epoch.stat.version,
        MigrationZnode.decode(MIGRATION, mark.data),
        mark.stat.version,
    )


WAY_OUT = (
    f"what ZooKeeper says holds, so begin a new attempt: stop the controllers, delete {MIGRATION} where it is"
    " left, remove the controllers' directories, format them again by `barnabas migrate start`, and restart"
    " the brokers of Apache Kafka that have the migration enabled (others take over the new quorum)"
)


def why_out_of_date(znodes: Mapping[str, NodeData]) -> str:
    """Why a quorum whose log has the copy may not claim the znodes, in a sentence; empty if it may. `znodes`
    has those of `PATHS` that exist. Raises `MalformedZnode`."""
    mark_node, epoch_node = znodes.get(MIGRATION), znodes.get(CONTROLLER_EPOCH)
    if mark_node is None:
        return (
            f"{MIGRATION} is gone, so the way back to ZooKeeper was taken since this quorum's last write;"
            f" {WAY_OUT}"
        )
    if epoch_node is None or epoch_node.stat.mzxid <= mark_node.stat.mzxid:
        return ""
    if _is_unmarked_claim(znodes, epoch_node, MigrationZnode.decode(MIGRATION, mark_node.data)):
        return ""
    epoch = ControllerEpochZnode.decode(CONTROLLER_EPOCH, epoch_node.data).epoch
    return (
        f"another controller has ruled since this quorum's last write: {CONTROLLER_EPOCH} was raised to"
        f" {epoch} after {MIGRATION} was written; {WAY_OUT}"
    )


def _is_unmarked_claim(
    znodes: Mapping[str, NodeData], epoch_node: NodeData, mark: MigrationZnode
) -> bool:
    """Whether the last epoch is that of a KRaft controller of Apache Kafka that has written nothing else: its
    claim is a transaction without `/migration`."""
    node = znodes.get(CONTROLLER)
    if node is None or node.stat.czxid != epoch_node.stat.mzxid:
        return False
    holder = ControllerZnode.decode(CONTROLLER, node.data)
    is_later = holder.kraft_epoch is not None and holder.kraft_epoch >= mark.controller_epoch
    return holder.is_held_by_kraft(node.stat.ephemeral_owner) and is_later


def _why_of_other_quorum(
    znodes: Mapping[str, NodeData], kraft_epoch: int, *, has_copy: bool
) -> str:
    """Why `/migration` is another quorum's, in a sentence; empty where nothing shows that. The znode names no
    quorum: a quorum of a later epoch that has the copy, too, is not recognised."""
    node = znodes.get(MIGRATION)
    if node is None:
        return ""
    mark = MigrationZnode.decode(MIGRATION, node.data)
    has_another_ruled = _has_another_ruled(znodes, node)
    if not has_copy and has_another_ruled and not _is_held_by_kraft(znodes):
        return ""  # an earlier attempt left it, of whatever epoch
    if not has_copy and mark.metadata_offset >= 0 and not has_another_ruled:
        return (
            f"another quorum has migrated these znodes: {MIGRATION} has offset {mark.metadata_offset} of its"
            f" log, and this quorum has no copy yet; let that quorum continue, or stop it: {WAY_OUT}"
        )
    if mark.controller_epoch > kraft_epoch:
        return (
            f"another quorum migrates these znodes: {MIGRATION} was written in epoch"
            f" {mark.controller_epoch}, and this quorum is in epoch {kraft_epoch}; stop this quorum and let"
            f" that one continue, or stop both: {WAY_OUT}"
        )
    return ""


def _is_held_by_kraft(znodes: Mapping[str, NodeData]) -> bool:
    """Whether a KRaft controller has `/controller` now."""
    node = znodes.get(CONTROLLER)
    if node is None:
        return False
    return ControllerZnode.decode(CONTROLLER, node.data).is_held_by_kraft(node.stat.ephemeral_owner)


def _has_another_ruled(znodes: Mapping[str, NodeData], mark_node: NodeData) -> bool:
    """Whether the last claim is of a controller that writes no `/migration`."""
    epoch_node = znodes.get(CONTROLLER_EPOCH)
    return epoch_node is not None and epoch_node.stat.mzxid > mark_node.stat.mzxid


def take(
    znodes: Mapping[str, NodeData],
    controller: int,
    kraft_epoch: int,
    wall_ms: int,
    *,
    has_copy: bool = False,
) -> tuple[Multi, MigrationLeadership]:
    """The transaction that makes the claim, and the claim after it. `znodes` has those of `PATHS` that exist.
    `has_copy`: whether the quorum's log has the copy of the znodes already. Raises `ClaimRefusedError`,
    `MalformedZnode`, and `KeyError` if there is no `/controller_epoch`."""
    why = why_out_of_date(znodes) if has_copy else ""
    why = why or _why_of_other_quorum(znodes, kraft_epoch, has_copy=has_copy)
    if why:
        raise ClaimRefusedError(why)
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
        if has_copy:  # otherwise the offset is of another log
            mark = replace(known, controller_id=controller, controller_epoch=kraft_epoch)
        operations.append(SetData(MIGRATION, mark.encode(), before.stat.version))
        version = before.stat.version + 1
    held = MigrationLeadership(epoch, epoch_node.stat.version + 1, mark, version)
    return Multi(tuple(operations)), held


def release(znodes: Mapping[str, NodeData]) -> Multi:
    """End the claim: brokers in ZooKeeper mode elect a controller again."""
    return Multi(
        (
            CheckVersion(CONTROLLER_EPOCH, znodes[CONTROLLER_EPOCH].stat.version),
            Delete(CONTROLLER),
            Delete(MIGRATION),
        )
    )


def end_of_way_back(znodes: Mapping[str, NodeData]) -> Multi:
    """Delete `/migration` and keep the claim: `release` and `copying.way_back` are refused from then on."""
    check = CheckVersion(CONTROLLER_EPOCH, znodes[CONTROLLER_EPOCH].stat.version)
    return Multi((check, Delete(MIGRATION)))
