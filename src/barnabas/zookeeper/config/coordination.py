"""ZooKeeper's part in the configuration of a node.

A broker's file with ``zookeeper.connect`` and without ``process.roles`` has an `EnsembleCoordination`. The
file of a controller that migrates a cluster to KRaft has a `MigratingCoordination`. Every other file has
`config.coordination.QUORUM`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from barnabas.config.coordination import QUORUM, ClusterCoordination, QuorumCoordination
from barnabas.config.definition import ConfigError
from barnabas.config.listeners import Voter
from barnabas.config.node import NodeConfig
from barnabas.types import NodeId
from barnabas.zookeeper.config.settings import (
    ACL_AUTHORIZER,
    MIGRATION,
    ZOOKEEPER,
    ZookeeperSettings,
    broker_id_of,
    check_control_plane,
    is_in_zookeeper_mode,
    is_migrating,
    migration_settings,
    with_quorum_keys,
    zookeeper_settings,
)


class EnsembleCoordination:
    """A ZooKeeper ensemble coordinates the cluster."""

    is_formatted = False

    def __init__(self, settings: ZookeeperSettings) -> None:
        self.settings = settings

    def check_authorizer(self, class_name: str) -> None:
        if class_name not in ("", ACL_AUTHORIZER):
            why = (
                f"where ZooKeeper coordinates the cluster it is {ACL_AUTHORIZER} (Kafka's"
                " StandardAuthorizer reads a metadata log, which there is none of)"
            )
            raise ConfigError("authorizer.class.name", class_name, why)

    def completed(self, texts: Mapping[str, str]) -> Mapping[str, str]:
        return with_quorum_keys(texts)

    def own_id(
        self,
        properties: Mapping[str, str],
        node_id: NodeId,
        voters: Sequence[Voter],
        servers: Sequence[str],
        *,
        is_controller: bool,
    ) -> NodeId:
        """The id in the file; `GENERATED` where the ensemble gives one."""
        return NodeId(broker_id_of(properties))

    def check_roles(self, *, is_broker: bool, is_controller: bool) -> None:
        return

    def check_listeners(self, advertised: Collection[str], inter_broker: str) -> None:
        check_control_plane(self.settings, advertised, inter_broker)

    def knows(self, key: str) -> bool:
        return key in ZOOKEEPER.keys

    def __repr__(self) -> str:
        return f"EnsembleCoordination({self.settings.connect})"


class MigratingCoordination(QuorumCoordination):
    """A quorum coordinates the cluster, and its controllers migrate the cluster from ZooKeeper (KIP-866)."""

    def __init__(self, settings: ZookeeperSettings) -> None:
        self.settings = settings

    def check_roles(self, *, is_broker: bool, is_controller: bool) -> None:
        if is_broker:
            why = "a controller that migrates a cluster is no broker: process.roles=controller"
            raise ConfigError(MIGRATION, "true", why)

    def knows(self, key: str) -> bool:
        return key in ZOOKEEPER.keys


def coordination_of(properties: Mapping[str, str]) -> ClusterCoordination:
    """The coordination that a node's file names. Raises :class:`ConfigError`."""
    if is_in_zookeeper_mode(properties):
        return EnsembleCoordination(zookeeper_settings(properties))
    roles = [role.strip() for role in properties.get("process.roles", "").split(",")]
    if "controller" in roles and is_migrating(properties):
        return MigratingCoordination(migration_settings(properties))
    return QUORUM


def node_config(properties: Mapping[str, str]) -> NodeConfig:
    """The configuration in a node's file, whatever coordinates its cluster. Raises :class:`ConfigError`."""
    return NodeConfig.from_properties(properties, coordination_of(properties))


def ensemble_of(config: NodeConfig) -> ZookeeperSettings:
    """The settings of a broker that ZooKeeper coordinates."""
    assert isinstance(config.coordination, EnsembleCoordination), config
    return config.coordination.settings


def migration_of(config: NodeConfig) -> ZookeeperSettings | None:
    """The settings of a controller that migrates a cluster from ZooKeeper; None for every other node."""
    coordination = config.coordination
    return coordination.settings if isinstance(coordination, MigratingCoordination) else None
