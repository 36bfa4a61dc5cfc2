"""The coordinator of a node's cluster, as far as the node's configuration depends on it.

`ClusterCoordination` is the seam: a node's configuration asks it which keys a file must have, which id the
node has and which further keys are known. `QUORUM` is the one of KRaft. The composition root chooses another
where the file names another coordinator.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Protocol

from barnabas.config.definition import ConfigError
from barnabas.config.listeners import Voter
from barnabas.types import NodeId

STANDARD_AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"


class ClusterCoordination(Protocol):
    """The coordinator's part in the configuration of a node. Each check raises :class:`ConfigError`."""

    @property
    def is_formatted(self) -> bool:
        """Whether the node's directories are formatted for a cluster before its first start."""

    def check_authorizer(self, class_name: str) -> None:
        """Check the value of ``authorizer.class.name``; it is empty where the key is not set."""

    def completed(self, texts: Mapping[str, str]) -> Mapping[str, str]:
        """`texts` with values of keys that the table requires and that mean nothing to this coordinator."""

    def own_id(
        self,
        properties: Mapping[str, str],
        node_id: NodeId,
        voters: Sequence[Voter],
        servers: Sequence[str],
        *,
        is_controller: bool,
    ) -> NodeId:
        """The node's id. `node_id` is the value of ``node.id``; `voters` and `servers` are those of the
        quorum that the file names."""

    def check_roles(self, *, is_broker: bool, is_controller: bool) -> None:
        """Check that nodes of these roles can be coordinated so."""

    def check_listeners(self, advertised: Collection[str], inter_broker: str) -> None:
        """Check the coordinator's own listener; `advertised` are the names of the node's listeners."""

    def knows(self, key: str) -> bool:
        """Whether `key`, which is in no table of a node's keys, is one of the coordinator's."""


class QuorumCoordination:
    """A quorum of controllers coordinates the cluster (KRaft)."""

    is_formatted = True

    def check_authorizer(self, class_name: str) -> None:
        if class_name not in ("", STANDARD_AUTHORIZER):
            why = f"the only authorizer here is {STANDARD_AUTHORIZER}"
            raise ConfigError("authorizer.class.name", class_name, why)

    def completed(self, texts: Mapping[str, str]) -> Mapping[str, str]:
        return texts

    def own_id(
        self,
        properties: Mapping[str, str],
        node_id: NodeId,
        voters: Sequence[Voter],
        servers: Sequence[str],
        *,
        is_controller: bool,
    ) -> NodeId:
        key = "controller.quorum.voters"
        if not voters and not servers:
            why = "it or controller.quorum.bootstrap.servers must be given"
            raise ConfigError(key, "", why)
        named = any(voter.node_id == node_id for voter in voters)
        shown = ",".join(map(str, voters))
        if is_controller and voters and not named:
            raise ConfigError(key, shown, f"it must name this controller, node.id {node_id}")
        if not is_controller and named:
            why = f"node.id {node_id} is a broker only and may not be a voter"
            raise ConfigError(key, shown, why)
        return node_id

    def check_roles(self, *, is_broker: bool, is_controller: bool) -> None:
        return

    def check_listeners(self, advertised: Collection[str], inter_broker: str) -> None:
        return

    def knows(self, key: str) -> bool:
        return False

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


QUORUM = QuorumCoordination()
"""KRaft."""
