"""Registers this controller with the active one, so that others know its endpoints (KIP-919).

Each process registers once, with its incarnation, the endpoints of its controller listeners, and
its supported feature levels. The active controller writes its own registration. Another controller
sends a request, and sends it again until the committed log has the registration.

The records also show if two processes have one controller id: the registration of this process is
replaced while it lives. It registers again, so that the other process sees that, too. Then the
second process, which saw the other registration before its own, ends and names the holder of the
id. A late request of a dead process may replace a registration once, so a process ends only when it
is replaced a second time. Apache Kafka lets both run.

Source: Kafka's ``ControllerRegistrationManager``.
"""

from __future__ import annotations

from collections.abc import Mapping

from barnabas.config.listeners import PROTOCOLS
from barnabas.controller.active.unclean_recovery import QuerySender
from barnabas.controller.brokers.register_controller import register_controller
from barnabas.controller.duties import DutyController
from barnabas.metadata.features import CONTROLLER_REGISTRATION_SINCE, accepted
from barnabas.metadata.image.registrations import ControllerRegistration, holder_of_controller_id
from barnabas.ports import Wakeup
from barnabas.types import Endpoint, Uuid
from barnabas.wire.messages.controller_registration_request import (
    ControllerRegistrationRequest,
    Feature,
    Listener,
)
from barnabas.wire.messages.controller_registration_response import ControllerRegistrationResponse

REGISTRATION_RETRY_MS = 250.0
RETRY_MS_MAX = 30_000.0
CLAIMS_MAX = 2
"""How often a process registers again after another process with its id has replaced its
registration."""


class ControllerRegistrar:
    """The registration of this process."""

    def __init__(
        self,
        controller: DutyController,
        sender: QuerySender,
        endpoints: Mapping[str, Endpoint],
        *,
        migrates: bool,
    ) -> None:
        """`endpoints`: the endpoints of the controller listeners, by name. `migrates`: whether this
        controller is ready to migrate its cluster (KIP-866)."""
        self._migrates = migrates
        self._controller = controller
        self._endpoints = endpoints
        self._sender = sender
        self.incarnation = Uuid(controller.ports.rng("controller.incarnation").randbytes(16))
        self._asked = False
        self._retry_ms = REGISTRATION_RETRY_MS
        self._retry: Wakeup | None = None
        self._known: ControllerRegistration | None = None
        """The last registration of this controller's id in the image."""
        self._before: ControllerRegistration | None = None
        """The registration that this process found at its start: its former process's, or that of
        another process which lives."""
        self._was_done = False
        self._replaced: dict[Uuid, int] = {}
        """How often each other incarnation has replaced this one's registration."""

    @property
    def done(self) -> bool:
        known = self._controller.image.controllers.get(self._controller.node_id)
        return known is not None and known.incarnation == self.incarnation

    def request(self) -> ControllerRegistrationRequest:
        """The request by which this controller registers itself."""
        controller = self._controller
        return ControllerRegistrationRequest(
            controller_id=controller.node_id,
            incarnation_id=self.incarnation,
            listeners=self._listeners(),
            features=[
                Feature(name=name, min_supported_version=low, max_supported_version=high)
                for name, (low, high) in sorted(accepted().items())
            ],
            zk_migration_ready=self._migrates,
        )

    def _listeners(self) -> list[Listener]:
        specs = self._controller.config.controller_listeners
        return [
            Listener(
                name=spec.name,
                host=at.host,
                port=at.port,
                security_protocol=PROTOCOLS.index(spec.protocol),
            )
            for spec in specs
            for at in [self._endpoints[spec.name]]
        ]

    def on_activation(self) -> None:
        """The active controller writes its own registration."""
        controller = self._controller
        if not self.done and self._is_known:
            now = controller.ports.clock.wall_ms()
            controller.commit(register_controller(controller.cluster, self.request(), now))

    def on_leader(self) -> None:
        """Another controller leads: send it this controller's registration, unless that is done or under
        way. A request that an earlier leader refused or did not answer is sent again at once."""
        if self._retry is not None:
            self._retry.cancel()
            self._retry, self._asked, self._retry_ms = None, False, REGISTRATION_RETRY_MS
        controller = self._controller
        endpoint = controller.quorum.leader_endpoint
        if self.done or self._asked or controller.is_active:
            return
        self._asked = True
        if endpoint is None:  # no event reports that the endpoint becomes known: retry
            self._ask_again(REGISTRATION_RETRY_MS)
            return
        self._sender.send(
            endpoint,
            self.request(),
            self._answered,
            timeout_ms=5000.0,
            purpose="controller registration",
        )

    def on_levels(self) -> None:
        """Feature levels changed: a request that was refused may be accepted now, so it is sent without a
        delay."""
        if self._retry is not None and self._is_known:
            self.on_leader()

    def on_image(self) -> None:
        """The image may have another registration of this controller's id."""
        known = self._controller.image.controllers.get(self._controller.node_id)
        if known is self._known:
            return
        self._known = known
        if known is None:
            if self._was_done:  # an operator has unregistered it
                self._controller.ports.wakeups.call_soon(self._claim)
            return
        if known.incarnation == self.incarnation:
            self._was_done = True
        elif self._was_done:
            self._on_replaced(known)
        else:
            self._before = known

    def _on_replaced(self, other: ControllerRegistration) -> None:
        controller = self._controller
        times = self._replaced[other.incarnation] = self._replaced.get(other.incarnation, 0) + 1
        controller.ports.log(
            "error",
            "controller.id_is_taken",
            controller=controller.node_id,
            by=holder_of_controller_id(other),
        )
        before = self._before
        if before is not None and before.incarnation == other.incarnation and times >= CLAIMS_MAX:
            controller.ports.halt(
                f"another process has the controller id {controller.node_id}: "
                f"{holder_of_controller_id(before)}. Give one of the two another node.id"
            )
        elif times <= CLAIMS_MAX:
            controller.ports.wakeups.call_soon(self._claim)

    def _claim(self) -> None:
        if self._controller.may_decide:
            self.on_activation()
        else:
            self.on_leader()

    @property
    def _is_known(self) -> bool:
        """Whether the metadata version has registrations of controllers."""
        return self._controller.image.metadata_version >= CONTROLLER_REGISTRATION_SINCE

    def _answered(self, response: object) -> None:
        if isinstance(response, ControllerRegistrationResponse) and not response.error_code:
            self._asked = False
            return
        self._ask_again(self._retry_ms)
        self._retry_ms = min(self._retry_ms * 2, RETRY_MS_MAX)

    def _ask_again(self, wait_ms: float) -> None:
        controller = self._controller
        self._retry = controller.ports.wakeups.call_at(controller.now_ms() + wait_ms, self._again)

    def _again(self) -> None:
        self._retry, self._asked = None, False
        self.on_leader()
