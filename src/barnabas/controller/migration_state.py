"""The effect of a migration from ZooKeeper on the controller's decisions (KIP-866).

The state is a record. NONE: the cluster never was on ZooKeeper. PRE_MIGRATION: the first records of a quorum
whose controllers migrate; brokers in ZooKeeper mode register, and nothing else is decided. MIGRATION: the log
has what the znodes had, and both are written. POST_MIGRATION: final. A controller that becomes active without
``zookeeper.metadata.migration.enable`` writes the last state.

Source: Kafka 3.9's ``ActivationRecordsGenerator``, ``ZkMigrationState``, ``ClusterControlManager``.
"""

from __future__ import annotations

from enum import IntEnum

from barnabas.metadata.features import metadata_version_name
from barnabas.metadata.image.image import MetadataImage
from barnabas.metadata.records.zk_migration_state_record import ZkMigrationStateRecord
from barnabas.wire.api_table import ApiKey
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.schema import Message

LOWEST_LEVEL = 14
"""metadata.version 3.6-IV2, which has all that znodes have, and metadata transactions."""
SERVED_BEFORE = frozenset(
    {
        ApiKey.BROKER_REGISTRATION,
        ApiKey.BROKER_HEARTBEAT,
        ApiKey.CONTROLLER_REGISTRATION,
        ApiKey.UNREGISTER_BROKER,
    }
)
"""The requests that are decided before the znodes are copied."""


class ZkMigrationState(IntEnum):
    """The states of ZkMigrationStateRecord."""

    NONE = 0
    PRE_MIGRATION = 1
    MIGRATION = 2
    POST_MIGRATION = 3


class MigrationModeError(Exception):
    """The controller's file and its log contradict each other; the message is one sentence."""


def check_served(image: MetadataImage, api: ApiKey) -> None:
    """Raises NOT_CONTROLLER while the znodes are not copied yet: the controller in ZooKeeper
    decides."""
    if image.zk_migration_state == ZkMigrationState.PRE_MIGRATION and api not in SERVED_BEFORE:
        raise KafkaError(
            ErrorCode.NOT_CONTROLLER, "this quorum waits for the metadata of a ZooKeeper cluster"
        )


def check_mode(image: MetadataImage, broker: int, *, on_zookeeper: bool) -> None:
    """Raises BROKER_ID_NOT_REGISTERED if a broker of this mode cannot register now."""
    state = image.zk_migration_state
    if on_zookeeper and state not in (ZkMigrationState.PRE_MIGRATION, ZkMigrationState.MIGRATION):
        raise KafkaError(
            ErrorCode.BROKER_ID_NOT_REGISTERED,
            f"broker {broker} is a ZooKeeper broker; this cluster takes no migration",
        )
    if on_zookeeper and image.metadata_version < LOWEST_LEVEL:
        raise KafkaError(
            ErrorCode.BROKER_ID_NOT_REGISTERED,
            f"a migration needs metadata.version {metadata_version_name(LOWEST_LEVEL)} or later",
        )
    if not on_zookeeper and state == ZkMigrationState.PRE_MIGRATION:
        raise KafkaError(
            ErrorCode.BROKER_ID_NOT_REGISTERED,
            f"broker {broker} is a KRaft broker; this quorum waits for the metadata of a ZooKeeper"
            " cluster",
        )


def records_of_activation(image: MetadataImage, *, is_first: bool, migrates: bool) -> list[Message]:
    """The records of the migration that a controller writes when it becomes active; `is_first`: the log
    has no records yet. Raises `MigrationModeError`."""
    state = image.zk_migration_state
    if is_first:
        wanted = ZkMigrationState.PRE_MIGRATION if migrates else ZkMigrationState.NONE
        return [ZkMigrationStateRecord(zk_migration_state=wanted)] if migrates else []
    if migrates and state == ZkMigrationState.NONE:
        raise MigrationModeError(
            "zookeeper.metadata.migration.enable is true, and this quorum has begun without a migration:"
            " migrate into a quorum that has not begun"
        )
    if not migrates and state == ZkMigrationState.PRE_MIGRATION:
        raise MigrationModeError(
            "zookeeper.metadata.migration.enable is not true, and this quorum waits for the metadata of a"
            " ZooKeeper cluster: set it, or format the controllers again"
        )
    if not migrates and state == ZkMigrationState.MIGRATION:
        return [ZkMigrationStateRecord(zk_migration_state=ZkMigrationState.POST_MIGRATION)]
    return []
