"""Proposals on their way into the log: those of one turn of the loop travel in one batch, or those of the
linger, where one is set.

Offsets are given out at once, so nothing else may be appended while proposals wait: the replica
drains them before every step of the machine that could append or end the leadership. A batch that is full
goes in the next turn; nothing is appended within `add`: a step may commit or end the leadership, and the
caller does not know its offset yet.

Source: Kafka's ``BatchAccumulator``.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence

from barnabas.ports import Ports, Wakeup
from barnabas.raft.core import events as on
from barnabas.raft.core.batches import data_batch
from barnabas.raft.core.machine import Machine
from barnabas.raft.core.messages import FetchRequest
from barnabas.raft.state_machine import BatchTooLargeError
from barnabas.types import Buffer

RECORD_OVERHEAD_BYTES = 32
"""Upper bound of a record's overhead around its value in a batch."""
BATCH_OVERHEAD_BYTES = 61


class BatchAccumulator:
    """`step` takes the event that appends a batch. Where `linger_ms` is 0 nothing waits beyond its turn."""

    def __init__(
        self,
        ports: Ports,
        machine: Machine,
        batch_bytes_max: int,
        linger_ms: int,
        step: Callable[[on.Event], None],
    ) -> None:
        self._ports = ports
        self._machine = machine
        self._bytes_max = batch_bytes_max - BATCH_OVERHEAD_BYTES
        self._linger_ms = linger_ms
        self._step = step
        self._wakeup: Wakeup | None = None
        self._full: deque[list[Buffer]] = deque()
        """Batches that take no more."""
        self._in_full = 0
        """Records in them."""
        self.values: list[Buffer] = []
        """The values that wait in the last batch; it is never empty where there are full ones."""
        self._bytes = 0
        self._is_held = False
        self.is_draining = False
        """Whether what was proposed within a step is being appended at its end."""

    def __enter__(self) -> None:
        """Begin one batch: what is proposed from here on is appended together at the end."""
        self._is_held = True

    def __exit__(self, *_: object) -> None:
        """At once, not in a turn of its own, unless it lingers. What is proposed because of that (the only
        voter commits within) waits for the next turn."""
        self._is_held = False
        if not self.values:
            return
        if self._linger_ms or self.is_draining:
            if self._wakeup is None:
                self._drain_later()
            return
        self.is_draining = True
        try:
            self.drain()
        finally:
            self.is_draining = False

    def add(self, values: Sequence[Buffer]) -> int:
        """The offset of the last one. Raises ``BatchTooLargeError``."""
        size = sum(map(len, values)) + RECORD_OVERHEAD_BYTES * len(values)
        if size > self._bytes_max or not values:
            raise BatchTooLargeError(f"{len(values)} values of {size} bytes, {self._bytes_max} fit")
        if self._bytes + size > self._bytes_max:
            self._close_batch()
        elif not self.values and not self._is_held:
            self._drain_later()
        self.values += values
        self._bytes += size
        return self._machine.log.end_offset + self._in_full + len(self.values) - 1

    def __len__(self) -> int:
        """Records that wait."""
        return self._in_full + len(self.values)

    def _close_batch(self) -> None:
        """The next values go into another batch. The end of the turn, or of the step, takes all; where
        batches linger, full ones go before."""
        self._full.append(self.values)
        self._in_full += len(self.values)
        self.values, self._bytes = [], 0
        if self._linger_ms:
            self._ports.wakeups.call_soon(self._drain_full)

    def _drain_later(self) -> None:
        if self._linger_ms:
            due_ms = self._ports.clock.now_ms() + self._linger_ms
            self._wakeup = self._ports.wakeups.call_at(due_ms, self.drain)
        else:
            self._ports.wakeups.call_soon(self.drain)

    def go_before(self, event: on.Event) -> bool:
        """Whether what waits must be appended before the machine steps with `event`. While there is a
        linger to wait for: where that may append something itself, or gives up the leadership."""
        if not self.values or type(event) is on.Propose:
            return False
        if not self._linger_ms:
            return True
        if self._machine.change is not None:  # it appends when a fetch says that it can
            return True
        if type(event) is on.Asked:
            return type(event.request) is not FetchRequest
        return type(event) in (on.Resign, on.UpgradeKraftVersion)

    def end_of_turn(self) -> None:
        """Append what waits, unless it lingers."""
        if not self._linger_ms:
            self.drain()

    def drop(self) -> None:
        """This replica leads no more: what still waits will never have been in the log."""
        self._full.clear()
        self._in_full = 0
        self.values, self._bytes = [], 0
        self._disarm()

    def _disarm(self) -> None:
        if self._wakeup is not None:
            self._wakeup.cancel()
            self._wakeup = None

    def drain(self) -> None:
        """Append what waits: one batch, mostly."""
        if self._wakeup is not None:
            self._disarm()
        if self._full:
            self._drain_full()
        if self.values:
            values, self.values = self.values, []
            self._bytes = 0
            self._propose(values)

    def _drain_full(self) -> None:
        while self._full:  # a step may end the leadership, and with it what waits
            values = self._full.popleft()
            self._in_full -= len(values)
            self._propose(values)

    def _propose(self, values: list[Buffer]) -> None:
        machine = self._machine
        wall_ms = self._ports.clock.wall_ms()
        batch = data_batch(values, machine.log.end_offset, machine.epoch, wall_ms)
        self._step(on.Propose(batch, len(values)))
