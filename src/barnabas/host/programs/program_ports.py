"""The ports that every program on a real machine has: :class:`ProgramPorts`.

Every Python worker of Spark begins with them, so this module loads nothing that only a node or a secured
connection needs.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from barnabas.host.loop import Loop, Timer
from barnabas.ports import Rng

if TYPE_CHECKING:
    from barnabas.host.tls_contexts import HostSecrets
    from barnabas.host.web import HostWeb


class HostClock:
    """``ports.Clock``, with the monotonic clock of the loop."""

    def now_ms(self) -> float:
        return time.monotonic() * 1000

    def wall_ms(self) -> int:
        return time.time_ns() // 1_000_000


class HostWakeups:
    """``ports.Wakeups`` over the loop."""

    def __init__(self, loop: Loop) -> None:
        self._loop = loop

    def call_soon(self, callback: Callable[[], None]) -> None:
        self._loop.call_soon(callback)

    def callback_began_ms(self) -> float:
        return self._loop.callback_began * 1000

    def call_at(self, when_ms: float, callback: Callable[[], None]) -> Timer:
        return self._loop.call_at(when_ms / 1000, callback)


class ProgramPorts:
    """Time, chance, secrets and identity providers of one program, over its loop."""

    def __init__(self, loop: Loop) -> None:
        self.loop = loop
        self.clock = HostClock()
        self.wakeups = HostWakeups(loop)
        self._seed = os.urandom(16).hex()
        self._secrets: HostSecrets | None = None
        self._web: HostWeb | None = None

    @property
    def secrets(self) -> HostSecrets:
        """Created on first use, since TLS takes 10 ms to import."""
        if self._secrets is None:
            from barnabas.host.tls_contexts import HostSecrets

            self._secrets = HostSecrets(self.log)
        return self._secrets

    @property
    def web(self) -> HostWeb:
        """Created on first use, when an identity provider is asked."""
        if self._web is None:
            from barnabas.host.web import HostWeb

            self._web = HostWeb(self.secrets.client_context)
        return self._web

    def rng(self, concern: str) -> Rng:
        return random.Random(f"{self._seed}/{concern}")

    def log(self, level: str, event: str, **fields: object) -> None:
        """One line of the program's log; a subclass writes it."""
        raise NotImplementedError
