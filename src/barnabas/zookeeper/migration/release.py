"""The way back of a running cluster to ZooKeeper: what is written before the claim on it is released.

The controllers are stopped, and the brokers run in ZooKeeper mode. The znodes get what the log has and they
lack, in the transactions of `written_before`; then `claim.release` ends the claim, and a broker is elected.

A log without the copy of the znodes says nothing about the cluster: its topics are in the znodes alone, and
nothing is written.
"""

from __future__ import annotations

from collections.abc import Mapping

from barnabas.controller.migration_state import ZkMigrationState
from barnabas.limits import ZookeeperBounds
from barnabas.metadata.image.image import MetadataImage
from barnabas.zookeeper.migration import claim, findings
from barnabas.zookeeper.migration.dual_write import DualWriter
from barnabas.zookeeper.operations import Multi, NodeData


class NoWayBackError(Exception):
    """The claim cannot be released; the message is one sentence."""


def written_before(
    znodes: Mapping[str, NodeData], image: MetadataImage, bounds: ZookeeperBounds
) -> list[Multi]:
    """The transactions after which `znodes` say what `image` says. `image` is that of the stopped controller
    with the longest log. Raises `NoWayBackError`, `MalformedZnode`."""
    why = findings.why_no_way_back(znodes)
    if why:
        raise NoWayBackError(why)
    under_kraft = [
        broker.id
        for broker in image.brokers.values()
        if not broker.is_on_zookeeper and not broker.fenced
    ]
    if under_kraft:
        names = ", ".join(map(str, sorted(under_kraft)))
        raise NoWayBackError(
            f"brokers {names} run under KRaft: restart them in ZooKeeper mode first"
        )
    if image.zk_migration_state == ZkMigrationState.POST_MIGRATION:
        raise NoWayBackError(
            "the migration is final by the controllers' log: what was decided since is not in the znodes"
        )
    if image.zk_migration_state == ZkMigrationState.PRE_MIGRATION:
        return []
    held = claim.held_leadership(znodes)
    if held.migration.metadata_offset > image.offset:
        raise NoWayBackError(
            f"the znodes have the log up to offset {held.migration.metadata_offset}, and this one ends at"
            f" {image.offset}: name the directory of the controller with the longest log"
        )
    operations = DualWriter(znodes, held.controller_epoch).everything(image).operations
    return held.transactions(operations, image.offset, image.epoch, bounds)


def znodes_in(transactions: list[Multi]) -> int:
    """How many operations of `transactions` are of the cluster, not of the claim."""
    return sum(len(transaction.operations) - 2 for transaction in transactions)
