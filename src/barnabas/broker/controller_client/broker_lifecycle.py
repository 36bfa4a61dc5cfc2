"""A broker's lifecycle: registration, heartbeats, unfencing, controlled shutdown.

STARTING → (registered) FENCED → (caught up with its registration) RUNNING → LEAVING → STOPPED. The
broker only asks: the active controller decides, fences and unfences. Heartbeats have a connection
of their own, because its end tells the controller that this process died.

Behaviour: Kafka's BrokerLifecycleManager; KIP-631, KIP-841, KIP-858 (offline directories), KIP-966
(the epoch of the last clean shutdown). Two differences are deliberate (docs/divergence.md): a
heartbeat does not wait for the next interval when the metadata have caught up, another broker
leaves or a new controller is found; and a shutdown does not wait for a controller that is gone.

Source: Kafka's ``BrokerLifecycleManager``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from typing import NamedTuple, Protocol

from barnabas.broker.controller_client.controller_channel import ControllerChannel
from barnabas.metadata.features import accepted
from barnabas.ports import Ports, Wakeup
from barnabas.types import Endpoint, Uuid, uuid_text
from barnabas.wire.errors import ErrorCode, KafkaError, code_of
from barnabas.wire.messages.broker_heartbeat_request import BrokerHeartbeatRequest
from barnabas.wire.messages.broker_heartbeat_response import BrokerHeartbeatResponse
from barnabas.wire.messages.broker_registration_request import (
    BrokerRegistrationRequest,
    Feature,
    Listener,
)
from barnabas.wire.messages.broker_registration_response import BrokerRegistrationResponse

PURPOSE = "heartbeat"
REGISTRATION_RETRY_MS = 100.0
REGISTRATION_ASK_MS_MAX = 10_000.0
COMPLAINT_MS = 10_000.0
"""The shortest time between two log lines about the same refusal."""
LEAVING_POLL_MS = 100.0
LEAVE_MS_MAX = 2_500.0
"""The longest controlled shutdown; the logs are closed after it in any case. The quorum's replica
leaves after that, and both end within `limits.SHUTDOWN_MS_MAX`."""
FINAL_REFUSALS = frozenset(
    {
        ErrorCode.DUPLICATE_BROKER_REGISTRATION,
        ErrorCode.INCONSISTENT_CLUSTER_ID,
        ErrorCode.UNSUPPORTED_VERSION,
        ErrorCode.INVALID_REGISTRATION,
    }
)
"""The refusals of a registration that no retry can mend."""
CONTROLLER_GONE_MS = 700.0
"""A shutdown stops waiting for a controller that it could not reach for this long, or that did not
answer a heartbeat for as long (it has lost its majority)."""


class LifecyclePhase(Enum):
    STARTING = "starting"
    FENCED = "fenced"
    RUNNING = "running"
    LEAVING = "leaving"
    STOPPED = "stopped"


class BrokerIdentity(NamedTuple):
    """The facts about itself that this broker registers."""

    node_id: int
    cluster_id: str
    incarnation: Uuid
    listeners: Mapping[str, tuple[Endpoint, int]]
    """Advertised endpoint and Kafka's number of the security protocol, by listener."""
    rack: str | None
    directories: Sequence[Uuid]
    previous_broker_epoch: int


class Lifecycle(Protocol):
    """The lifecycle of a broker's registration, at a quorum or in ZooKeeper."""

    @property
    def broker_epoch(self) -> int: ...
    @property
    def phase(self) -> LifecyclePhase: ...
    @property
    def cordoned(self) -> tuple[Uuid, ...]: ...
    def start(self) -> None: ...
    def register_again(self) -> None: ...
    def on_metadata(self, concerns_me: bool, /) -> None: ...
    def on_controller_change(self) -> None: ...
    def on_directory_offline(self, directory: Uuid, /) -> None: ...
    def set_cordoned(self, directories: Sequence[Uuid], /) -> None: ...
    def begin_shutdown(self, on_left: Callable[[], None], *, controlled: bool) -> None: ...
    def describe(self) -> dict[str, object]: ...


class BrokerLifecycle:
    """One incarnation of one broker."""

    def __init__(
        self,
        ports: Ports,
        controller: ControllerChannel,
        identity: BrokerIdentity,
        *,
        heartbeat_interval_ms: float,
        registration_timeout_ms: float,
        metadata_offset: Callable[[], int],
        id_holder: Callable[[], str] = lambda: "",
        is_migrating: bool = False,
    ) -> None:
        """`id_holder` describes the other process that has this broker's id, as far as the metadata
        tell. `is_migrating`: this broker serves in a cluster that migrates to the quorum (KIP-866);
        its process does not end if the quorum refuses it."""
        self._is_migrating = is_migrating
        self.ports = ports
        self.identity = identity
        self.phase = LifecyclePhase.STARTING
        self.broker_epoch = -1
        self.on_unfenced: Callable[[], None] = lambda: None
        self._controller = controller
        self._interval_ms = heartbeat_interval_ms
        self._registration_deadline_ms = ports.clock.now_ms() + registration_timeout_ms
        self._complaint: tuple[str, ErrorCode] | None = None
        self._complain_again_ms = 0.0
        self._metadata_offset = metadata_offset
        self._id_holder = id_holder
        self._offline: dict[Uuid, None] = {}
        self._cordoned: tuple[Uuid, ...] | None = None
        self._in_flight = False
        self._asked_ms = 0.0
        """The time at which the heartbeat under way was sent."""
        self._urgent = False
        self._again = False
        """Whether the registration lacks something that this broker knows now."""
        self._wakeup: Wakeup | None = None
        self._on_left: Callable[[], None] | None = None
        self._leave_deadline_ms = 0.0
        self._leave_check: Wakeup | None = None

    @property
    def is_fenced(self) -> bool:
        return self.phase in (LifecyclePhase.STARTING, LifecyclePhase.FENCED)

    # -- registration ----------------------------------------------------------------------------

    def start(self) -> None:
        """Register this process as soon as there is a controller."""
        self._register()

    def register_again(self) -> None:
        """Register as the same incarnation, under the same epoch, with all that this broker has
        now. If it is refused, the earlier registration stays."""
        if self.phase not in (LifecyclePhase.LEAVING, LifecyclePhase.STOPPED):
            self._again = True
            if self.broker_epoch >= 0:
                self._hurry()  # else the request under way may have been decided before

    def _register(self) -> None:
        if self._in_flight or self.phase is LifecyclePhase.STOPPED:
            return
        self._in_flight = True
        self._again = False
        timeout_ms = REGISTRATION_ASK_MS_MAX
        if self.phase is LifecyclePhase.STARTING:
            left_ms = self._registration_deadline_ms - self.ports.clock.now_ms()
            timeout_ms = min(timeout_ms, max(left_ms, REGISTRATION_RETRY_MS))
        self._controller.send(
            self._registration(), self._on_registered, purpose=PURPOSE, timeout_ms=timeout_ms
        )

    def _registration(self) -> BrokerRegistrationRequest:
        me = self.identity
        return BrokerRegistrationRequest(
            broker_id=me.node_id,
            cluster_id=me.cluster_id,
            incarnation_id=me.incarnation,
            listeners=[
                Listener(name=name, host=at.host, port=at.port, security_protocol=protocol)
                for name, (at, protocol) in me.listeners.items()
            ],
            features=[
                Feature(name=name, min_supported_version=low, max_supported_version=high)
                for name, (low, high) in sorted(accepted().items())
            ],
            rack=me.rack,
            log_dirs=self._directories(),
            previous_broker_epoch=me.previous_broker_epoch,
            is_migrating_zk_broker=self._is_migrating,
        )

    def _directories(self) -> list[Uuid]:
        """The ids of the directories that work. A directory has an id since its first start under
        KRaft (KIP-858)."""
        if self._is_migrating:
            return []
        return [d for d in self.identity.directories if d not in self._offline]

    def _on_registered(self, response: BrokerRegistrationResponse | KafkaError) -> None:
        self._in_flight = False
        if self.phase is LifecyclePhase.STOPPED:
            return
        code = code_of(response.code if isinstance(response, KafkaError) else response.error_code)
        if code == ErrorCode.NONE and not isinstance(response, KafkaError):
            self.broker_epoch = response.broker_epoch
            if self.phase is LifecyclePhase.STARTING:
                self.phase = LifecyclePhase.FENCED
            self._complaint = None
            self.ports.log("info", "broker.registered", epoch=self.broker_epoch)
            self._heartbeat()
            return
        if code is not ErrorCode.REQUEST_TIMED_OUT:
            self._complain("broker.registration_refused", code)
        elif self.broker_epoch >= 0:  # no controller has answered
            self._again = True
        is_late = self.ports.clock.now_ms() >= self._registration_deadline_ms
        never = self.phase is LifecyclePhase.STARTING or code in FINAL_REFUSALS
        if self.broker_epoch < 0 and is_late and never and not self._is_migrating:
            self.ports.halt(self._why_not_registered(code))
            return
        self._after(REGISTRATION_RETRY_MS)

    def _why_not_registered(self, code: ErrorCode) -> str:
        me, at = self.identity, self._controller.endpoint
        text = (
            f"broker {me.node_id} did not register within initial.broker.registration.timeout.ms: "
        )
        if code is ErrorCode.INCONSISTENT_CLUSTER_ID:
            return text + f"the controller at {at} is of another cluster than {me.cluster_id}"
        if code is not ErrorCode.REQUEST_TIMED_OUT:
            held = code is ErrorCode.DUPLICATE_BROKER_REGISTRATION and self._id_holder()
            return text + f"the controller at {at} says {code.name}{f' ({held})' if held else ''}"
        if at is None:
            return text + "no active controller was found"
        return text + f"the controller at {at} did not answer"

    # -- heartbeats ------------------------------------------------------------------------------

    def on_metadata(self, matters: bool) -> None:
        """The image moved. `matters`: this broker's registration changed, or another broker leaves;
        the controller waits until every broker has reported that it knows."""
        caught_up = self._metadata_offset() >= self.broker_epoch >= 0
        if (self.phase is LifecyclePhase.FENCED and caught_up) or (
            matters and self.phase in (LifecyclePhase.RUNNING, LifecyclePhase.LEAVING)
        ):
            self._hurry()

    def on_controller_change(self) -> None:
        """Send a heartbeat to the new controller at once."""
        if self.broker_epoch >= 0:
            self._hurry()

    def on_directory_offline(self, directory: Uuid) -> None:
        """Report the failed directory now: the controller moves its leaderships once it knows."""
        self._offline[directory] = None
        if self.broker_epoch >= 0:
            self._hurry()

    @property
    def cordoned(self) -> tuple[Uuid, ...]:
        """The directories that take no new replicas, by this broker's present configuration."""
        return self._cordoned or ()

    def set_cordoned(self, directories: Sequence[Uuid]) -> None:
        """Set the directories that take no new replicas (KIP-1066)."""
        wanted = tuple(sorted(directories))
        if wanted != self.cordoned:
            self._cordoned = wanted
            self._hurry()

    def _hurry(self) -> None:
        """Send a heartbeat now, or right after the one under way."""
        if self._in_flight:
            self._urgent = True
        else:
            self._heartbeat()

    def _heartbeat(self) -> None:
        if self._in_flight or self.phase is LifecyclePhase.STOPPED:
            return
        if self.broker_epoch < 0 or (self._again and self.phase is not LifecyclePhase.LEAVING):
            self._register()
            return
        self._in_flight = True
        self._asked_ms = self.ports.clock.now_ms()
        self._urgent = False
        if self._wakeup is not None:
            self._wakeup.cancel()
            self._wakeup = None
        request = BrokerHeartbeatRequest(
            broker_id=self.identity.node_id,
            broker_epoch=self.broker_epoch,
            current_metadata_offset=self._metadata_offset(),
            want_fence=False,
            want_shut_down=self.phase is LifecyclePhase.LEAVING,
            offline_log_dirs=list(self._offline),
        )
        if self._cordoned is not None:
            request.cordoned_log_dirs = list(self._cordoned)
        self._controller.send(
            request, self._on_heartbeat, purpose=PURPOSE, timeout_ms=max(self._interval_ms, 1000.0)
        )

    def _on_heartbeat(self, response: BrokerHeartbeatResponse | KafkaError) -> None:
        self._in_flight = False
        if self.phase is LifecyclePhase.STOPPED:
            return
        code = code_of(response.code if isinstance(response, KafkaError) else response.error_code)
        if isinstance(response, KafkaError) or code:
            self._on_heartbeat_failed(code)
            return
        if self.phase is LifecyclePhase.LEAVING:
            if response.should_shut_down:
                self._left("the controller said so")
                return
        elif response.is_fenced and self.phase is LifecyclePhase.RUNNING:
            self.phase = LifecyclePhase.FENCED
            self.ports.log("warning", "broker.fenced", epoch=self.broker_epoch)
            self._urgent = True
        elif not response.is_fenced and self.phase is LifecyclePhase.FENCED:
            self.phase = LifecyclePhase.RUNNING
            self.ports.log("info", "broker.unfenced", epoch=self.broker_epoch)
            try:
                self.on_unfenced()
            finally:  # a bug in there must not end this broker
                self._schedule_next_heartbeat()
            return
        self._schedule_next_heartbeat()

    def _schedule_next_heartbeat(self) -> None:
        if self._urgent:
            self._heartbeat()
        else:
            self._after(
                LEAVING_POLL_MS if self.phase is LifecyclePhase.LEAVING else self._interval_ms
            )

    def _on_heartbeat_failed(self, code: ErrorCode) -> None:
        if code in (ErrorCode.STALE_BROKER_EPOCH, ErrorCode.BROKER_ID_NOT_REGISTERED):
            self.ports.log(
                "warning", "broker.registration_lost", epoch=self.broker_epoch, error=code.name
            )
            if self.phase is LifecyclePhase.LEAVING:
                self._left("the controller knows this incarnation no longer")
                return
            self.phase = LifecyclePhase.FENCED
            self.broker_epoch = -1
            self._after(REGISTRATION_RETRY_MS)
            return
        if code is not ErrorCode.REQUEST_TIMED_OUT:
            self._complain("broker.heartbeat_refused", code)
        self._after(REGISTRATION_RETRY_MS)

    def _complain(self, event: str, code: ErrorCode) -> None:
        now_ms = self.ports.clock.now_ms()
        if (event, code) != self._complaint or now_ms >= self._complain_again_ms:
            self._complaint, self._complain_again_ms = (event, code), now_ms + COMPLAINT_MS
            held = code is ErrorCode.DUPLICATE_BROKER_REGISTRATION and self._id_holder()
            self.ports.log("warning", event, error=code.name, **({"held_by": held} if held else {}))

    def _after(self, delay_ms: float) -> None:
        if self._wakeup is not None:
            self._wakeup.cancel()
        self._wakeup = self.ports.wakeups.call_at(
            self.ports.clock.now_ms() + delay_ms, self._on_wakeup
        )

    def _on_wakeup(self) -> None:
        self._wakeup = None
        self._heartbeat()

    # -- the end ---------------------------------------------------------------------------------

    def begin_shutdown(self, on_left: Callable[[], None], *, controlled: bool) -> None:
        """Hand the leaderships over, then call `on_left` (once, in a later turn)."""
        self._on_left = on_left
        if not controlled or self.broker_epoch < 0 or self.phase is LifecyclePhase.STARTING:
            self.ports.wakeups.call_soon(lambda: self._left("there is nothing to hand over"))
            return
        self.phase = LifecyclePhase.LEAVING
        now_ms = self.ports.clock.now_ms()
        self._leave_deadline_ms = now_ms + LEAVE_MS_MAX
        self._asked_ms = now_ms  # counts for a heartbeat that was under way before, too
        self._hurry()
        self._check_leaving()

    def _check_leaving(self) -> None:
        if self.phase is LifecyclePhase.STOPPED:
            return
        now_ms = self.ports.clock.now_ms()
        gone_since = self._controller.unreachable_since_ms
        if now_ms >= self._leave_deadline_ms:
            self._left("it took too long")
        elif gone_since is not None and now_ms - gone_since >= CONTROLLER_GONE_MS:
            self._left("no controller answers")
        elif self._in_flight and now_ms - self._asked_ms >= CONTROLLER_GONE_MS:
            self._left("the controller does not answer")
        else:
            self._leave_check = self.ports.wakeups.call_at(now_ms + 100.0, self._check_leaving)

    def _left(self, why: str) -> None:
        if self.phase is LifecyclePhase.STOPPED:
            return
        self.phase = LifecyclePhase.STOPPED
        self.ports.log("info", "broker.left", why=why)
        for wakeup in (self._wakeup, self._leave_check):
            if wakeup is not None:
                wakeup.cancel()
        on_left, self._on_left = self._on_left, None
        if on_left is not None:
            on_left()

    def describe(self) -> dict[str, object]:
        return {
            "phase": self.phase.value,
            "broker_epoch": self.broker_epoch,
            "incarnation": uuid_text(self.identity.incarnation),
            "offline_directories": [uuid_text(d) for d in self._offline],
        }

    def __repr__(self) -> str:
        return f"Lifecycle({self.phase.value}, broker epoch {self.broker_epoch})"
