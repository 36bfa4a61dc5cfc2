"""Watches which brokers are alive, by sessions, connections and probes of the active controller.

There are three ways to notice the end of a broker, the quickest first: its listener refuses
connections after its heartbeat connection ended (the process is gone); a new incarnation registers;
its session expires (the host is gone or the process is stuck).

Source: Kafka's ``BrokerHeartbeatManager``.
"""

from __future__ import annotations

from collections.abc import Callable

from barnabas.controller.active.listener_probe import ListenerProbe
from barnabas.controller.decision import Decision
from barnabas.controller.duties import DutyController
from barnabas.metadata.image.registrations import BrokerRegistration
from barnabas.types import Endpoint
from barnabas.wire.messages.broker_heartbeat_response import BrokerHeartbeatResponse

LATE_MS = 1000.0
"""A wake-up that is later than this shows that this controller was stuck, not a broker."""


class BrokerLiveness:
    """Watches brokers, and has a broker fenced when it ends."""

    def __init__(self, controller: DutyController, fence: Callable[[int, str], None]) -> None:
        self._controller = controller
        self._fence = fence
        self._probes: dict[int, ListenerProbe] = {}

    def on_activation(self) -> None:
        """A new controller has had no heartbeat yet: every broker gets a session from now, and a broker
        that is not connected is probed."""
        controller = self._controller
        now_ms = controller.now_ms()
        for broker in sorted(controller.image.brokers):
            known = controller.image.brokers[broker]
            if known.fenced:
                continue
            session = controller.sessions.start(broker, known.epoch, now_ms)
            if known.in_controlled_shutdown:
                session.shutdown_offset = controller.image.offset
            self.probe(known)
        controller.arm(self.deadline_ms())

    def clear(self) -> None:
        for probe in self._probes.values():
            probe.cancel()
        self._probes.clear()
        self._controller.sessions.clear()

    def on_broker_connection_closed(self, broker: int) -> None:
        """The connection over which the broker sent heartbeats ended."""
        known = self._controller.image.brokers.get(broker)
        if known is not None and not known.fenced:
            self.probe(known)

    def on_heartbeat(self, broker: int, epoch: int, metadata_offset: int, connection: int) -> None:
        """Note a broker's heartbeat: the broker has not ended."""
        sessions = self._controller.sessions
        sessions.touch(broker, epoch, self._controller.now_ms(), metadata_offset)
        sessions.seen_on(broker, connection)
        self._controller.arm(self.deadline_ms())
        probe = self._probes.pop(broker, None)
        if probe is not None:
            probe.cancel()

    def on_heartbeat_decided(
        self, broker: int, decision: Decision[BrokerHeartbeatResponse], offset: int
    ) -> None:
        """Note the offset at which a broker gave up its leaderships: the other brokers must have reached it
        before this one stops."""
        sessions = self._controller.sessions
        session = sessions.get(broker)
        known = self._controller.image.brokers.get(broker)
        if known is None or session is None:
            return
        if known.in_controlled_shutdown and not known.fenced:
            if decision.records or session.shutdown_offset < 0:
                session.shutdown_offset = max(session.shutdown_offset, offset)

    def on_registered(self, broker: int, epoch: int) -> None:
        """A new incarnation registered: its session begins with its first heartbeat's time-out."""
        controller = self._controller
        session = controller.sessions.get(broker)
        if session is None or session.epoch != epoch:
            controller.sessions.start(broker, epoch, controller.now_ms())
        probe = self._probes.pop(broker, None)
        if probe is not None:
            probe.cancel()

    def probe(self, known: BrokerRegistration) -> None:
        """Probe whether the broker's process is gone. This node's own broker is not probed."""
        controller = self._controller
        endpoint = self.probe_endpoint(known)
        if known.id == int(controller.config.node_id) or endpoint is None:
            return
        earlier = self._probes.pop(known.id, None)
        if earlier is not None:
            earlier.cancel()

        def refused(broker: int = known.id, epoch: int = known.epoch) -> None:
            self._on_refused(broker, epoch, endpoint)

        probe = ListenerProbe(
            controller.ports.network, controller.ports.wakeups, controller.now_ms, endpoint, refused
        )
        self._probes[known.id] = probe
        probe.start()

    def probe_endpoint(self, known: BrokerRegistration) -> Endpoint | None:
        """The advertised listener for other brokers, else the first one."""
        found = known.endpoint(self._controller.config.inter_broker_listener_name)
        if found is not None:
            return found
        return next((to.endpoint for to in known.listeners.values()), None)

    def _on_refused(self, broker: int, epoch: int, endpoint: Endpoint) -> None:
        controller = self._controller
        self._probes.pop(broker, None)
        known = controller.image.brokers.get(broker)
        if controller.may_decide and known is not None and known.epoch == epoch:
            self._fence(broker, f"broker {broker} is gone: {endpoint} refuses connections")

    def deadline_ms(self) -> float | None:
        return self._controller.sessions.deadline_ms()

    def on_time(self, now_ms: float) -> None:
        """Fence the brokers that sent no heartbeat within the session time-out."""
        controller = self._controller
        timeout = controller.sessions.timeout_ms
        due = controller.sessions.deadline_ms()
        if due is not None and now_ms - due > LATE_MS:
            # This process was stuck while the deadline passed: heartbeats wait to be read.
            controller.ports.log("warning", "controller.late", late_ms=round(now_ms - due))
            controller.sessions.forgive(now_ms - due + LATE_MS)
            return
        for broker in controller.sessions.expired(now_ms):
            controller.sessions.end(broker)
            self._fence(broker, f"broker {broker} sent no heartbeat for {timeout:.0f} ms")
