"""The node that a broker is part of, as the broker sees it: the listeners that its clients use, and its
membership in the cluster.

The node passes both when it makes its broker. They differ by what coordinates the cluster.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from barnabas.broker.cluster_traits import ClusterTraits
from barnabas.broker.controller_client.broker_lifecycle import BrokerIdentity, Lifecycle
from barnabas.broker.controller_client.controller_channel import ControllerChannel, Sender
from barnabas.security.quotas.client_quotas import ClientQuotas
from barnabas.types import Endpoint


class ClientListeners(Protocol):
    """The listeners of a broker."""

    @property
    def endpoints(self) -> Mapping[str, Endpoint]:
        """Their advertised endpoints by name, with the real ports."""

    def metrics(self) -> Mapping[str, int]:
        """The counts of the node's listeners."""

    def follow(self, texts: Mapping[str, str], /) -> None:
        """The configuration of this broker may have changed; `texts` are its values by key."""

    def measure(self, quotas: ClientQuotas, /) -> None:
        """The limits of clients have changed."""


class BrokerMembership(Protocol):
    """The way of one broker into its cluster: who is the controller, how it is reached, how the broker
    registers."""

    @property
    def traits(self) -> ClusterTraits:
        """Traits of the cluster."""

    @property
    def to_controllers(self) -> Sender:
        """The connections to controllers."""

    def controller_endpoint(self) -> tuple[int, Endpoint] | Endpoint | None:
        """The active controller; None while it is not known."""

    def named_controller(self) -> int | None:
        """The broker that clients hear of as the controller, -1 while it is not known; None where clients do
        not learn which one it is."""

    def open_lifecycle(
        self, identity: BrokerIdentity, controller: ControllerChannel, /
    ) -> Lifecycle:
        """The lifecycle of the registration of `identity`, not started yet. Called once, when the logs are
        open."""

    def on_ready(self) -> None:
        """Called once, when the metadata show this incarnation unfenced."""
