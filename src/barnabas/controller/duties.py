"""The interfaces between the active controller and its services.

`DutyController` is what a service uses of the controller; `Duty` is what the controller calls on a service. A
service that needs another service gets a function of it, and does not reach it through the controller.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Protocol

from barnabas.controller.decision import Decision

if TYPE_CHECKING:
    from barnabas.config.node import NodeConfig
    from barnabas.controller.active.refusals import Refusals
    from barnabas.controller.brokers.broker_sessions import BrokerSessions
    from barnabas.controller.decision_context import ControllerContext
    from barnabas.controller.quorum import Quorum
    from barnabas.metadata.image.image import MetadataImage
    from barnabas.ports import Ports


class DutyController(Protocol):
    """The controller as its services see it."""

    @property
    def ports(self) -> Ports: ...
    @property
    def config(self) -> NodeConfig: ...
    @property
    def node_id(self) -> int: ...
    @property
    def quorum(self) -> Quorum: ...
    @property
    def image(self) -> MetadataImage: ...
    @property
    def cluster(self) -> ControllerContext: ...
    @property
    def sessions(self) -> BrokerSessions: ...
    @property
    def refusals(self) -> Refusals: ...
    @property
    def is_active(self) -> bool: ...
    @property
    def may_decide(self) -> bool: ...

    def now_ms(self) -> float: ...

    def arm(self, deadline_ms: float | None) -> None:
        """Have `on_time` called at `deadline_ms` at the latest."""

    def begin(self, work: Iterator[Decision[Any]]) -> None:
        """Run long work in slices: each decision is appended before the next one is made."""

    def commit(self, decision: Decision[Any]) -> int:
        """Append a decision's records. Returns the offset of the last one."""


class Duty(Protocol):
    """A service that acts on its own deadlines while this controller is active."""

    def on_activation(self) -> None: ...

    def clear(self) -> None:
        """Forget all state: this controller is not active any more."""

    def deadline_ms(self) -> float | None: ...

    def on_time(self, now_ms: float) -> None: ...
