"""The seam for what a controller does beside its duties while its cluster comes from another coordinator.

`Node` makes the addition that its composition root names, and starts and closes it. It knows nothing of it.
"""

from __future__ import annotations

from typing import Protocol

from barnabas.client.network.channels import Channels
from barnabas.config.node import NodeConfig
from barnabas.controller.active.quorum_controller import QuorumController
from barnabas.node.metadata_loader import MetadataLoader
from barnabas.ports import Ports


class ControllerAddition(Protocol):
    """An addition to the controller of one node."""

    def start(self) -> None:
        """Begin; the quorum has been started. Raises ``ConfigError``."""

    def close(self) -> None:
        """End; the quorum has been left."""

    def validate(self) -> None:
        """Raises AssertionError where its parts contradict each other."""

    def describe(self) -> dict[str, object]:
        """State for metrics, logs and the CLI."""


class MakesAddition(Protocol):
    """Makes the addition of a controller. Raises ``OSError``."""

    def __call__(
        self,
        ports: Ports,
        config: NodeConfig,
        controller: QuorumController,
        metadata: MetadataLoader,
        to_brokers: Channels,
        /,
    ) -> ControllerAddition: ...
