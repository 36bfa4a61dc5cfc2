"""A member of a group, whatever its protocol: settings, subscription, life, failure, farewell. Sans-IO.

:mod:`~barnabas.client.consumers.classic_protocol_member` and
:mod:`~barnabas.client.consumers.consumer_protocol_member` say how each protocol joins, stays and leaves.

Invariants: a member that failed stays failed, and has given up its partitions; `on_failed` comes once.
Source: Kafka's ``AbstractCoordinator`` and ``AbstractMembershipManager``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

from barnabas.client.client import GROUP, Client
from barnabas.client.network.channels import ChannelError
from barnabas.client.network.tasks import Cancelled, Task, TaskOutcome
from barnabas.client.offsets import GroupIdentity
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.schema import Message

GROUP_RETRY_MS = 50.0
CLASSIC, CONSUMER = "classic", "consumer"
"""Protocols of groups."""


class TopicPattern(NamedTuple):
    """A subscription to all topics whose whole names match, also to those that come later. In the consumer
    protocol the coordinator matches, by RE2; in the classic one the member does, by Python's rules."""

    regex: str


Subscription: TypeAlias = Sequence[str] | TopicPattern


@dataclass(frozen=True, slots=True)
class GroupMemberSettings:
    """Kafka's consumer configuration where it has it."""

    session_timeout_ms: int = 45_000
    rebalance_timeout_ms: int = 300_000
    heartbeat_interval_ms: float = 3_000.0
    assignors: Sequence[str] = ("range", "roundrobin")
    instance_id: str | None = None
    protocol: str = CLASSIC
    """``group.protocol``: with `CONSUMER` the coordinator assigns (KIP-848), says how often heartbeats are
    due, and how long a session lasts."""
    remote_assignor: str | None = None
    """``group.remote.assignor``: the coordinator's default where there is none."""
    rack_id: str | None = None

    def __post_init__(self) -> None:
        if self.protocol not in (CLASSIC, CONSUMER):
            raise ValueError(f"there is no group protocol {self.protocol!r}")


class GroupMember(ABC):
    """One member of a group."""

    def __init__(
        self,
        client: Client,
        identity: GroupIdentity,
        settings: GroupMemberSettings,
        on_failed: Callable[[KafkaError], None],
        purpose: str,
    ) -> None:
        """`on_failed`: the group refused it for good, and it is no member any more. `purpose` names a
        connection of its own: a JoinGroup that waits holds up all responses behind it."""
        self.identity = identity
        self.is_stable = False
        """Whether it has its partitions and knows of no rebalance."""
        self.failure: KafkaError | None = None
        """Why it is no member any more, where the group refused it for good."""
        self._client = client
        self._settings = settings
        self._on_failed = on_failed
        self._left = False
        self._task: Task[None] | None = None
        self._purpose = purpose or f"group {identity.group_id}"

    @abstractmethod
    def subscribe(self, to: Subscription) -> None:
        """To these topics, instead."""

    @abstractmethod
    async def _stay(self) -> None:
        """Join and be a member until it leaves or fails."""

    @abstractmethod
    def _give_up_all(self) -> None:
        """It has no partitions any more."""

    @abstractmethod
    def _farewell(self) -> Message | None:
        """The request by which it leaves; None where it says nothing."""

    def start(self) -> None:
        self._task = self._client.tasks.start(self._live())

    async def leave(self) -> None:
        """Give up the partitions and leave the group, which rebalances at once."""
        self._left = True
        if self._task is not None:
            self._task.cancel()
        try:
            self._give_up_all()
        finally:  # what the program's callback raises is no reason for the others to wait
            request = self._farewell()
            if request is not None:
                try:
                    await self._ask(request)
                except (ChannelError, KafkaError) as error:
                    self._log("group.leave_failed", error, "warning")  # its session ends by itself

    async def _live(self) -> None:
        try:
            await self._stay()
        except Cancelled:
            raise
        except Exception as fault:  # noqa: BLE001 - a callback's: others get its partitions soon
            self._client.tasks.on_lost(fault)
            why = f"its member ended with {fault!r}"
            self._fail(KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, why))

    def _fail(self, error: KafkaError) -> None:
        """It is a member no longer, for good."""
        try:
            self._give_up_all()
        finally:
            self.failure = error
            self._log("group.refused", error, "error")
            self._on_failed(error)

    async def _ask(self, request: Any, timeout_ms: float | None = None) -> Any:
        endpoint = await self._client.coordinator(GROUP, self.identity.group_id)
        outcome: TaskOutcome[Any] = TaskOutcome()
        timeout = self._settings.session_timeout_ms if timeout_ms is None else timeout_ms
        self._client.channels.send(
            endpoint, request, outcome.complete, timeout_ms=float(timeout), purpose=self._purpose
        )
        return await outcome

    def _log(self, event: str, error: Exception, level: str = "debug") -> None:
        self._client.ports.log(level, event, group=self.identity.group_id, error=str(error))
