"""Proposals on their way into the log: those of one turn of the loop travel in one batch.

Offsets are given out at once, so nothing else may be appended while proposals wait: the replica
drains them before every step of the machine.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from barnabas.ports import Ports
from barnabas.raft import events as on
from barnabas.raft.batches import data_batch
from barnabas.raft.machine import Machine
from barnabas.raft.state_machine import BatchTooLargeError
from barnabas.types import Buffer

RECORD_OVERHEAD_BYTES = 32
"""At most this much stands around a value in a batch."""
BATCH_OVERHEAD_BYTES = 61


class Proposals:
    """`step` takes the event that appends a batch."""

    def __init__(
        self, ports: Ports, machine: Machine, batch_bytes_max: int, step: Callable[[on.Event], None]
    ) -> None:
        self._ports = ports
        self._machine = machine
        self._bytes_max = batch_bytes_max - BATCH_OVERHEAD_BYTES
        self._step = step
        self._values: list[Buffer] = []
        self._bytes = 0

    def __len__(self) -> int:
        """Records that wait."""
        return len(self._values)

    def add(self, values: Sequence[Buffer]) -> int:
        """The offset of the last one. Raises ``BatchTooLargeError``."""
        size = sum(map(len, values)) + RECORD_OVERHEAD_BYTES * len(values)
        if size > self._bytes_max or not values:
            raise BatchTooLargeError(f"{len(values)} values of {size} bytes, {self._bytes_max} fit")
        if self._bytes + size > self._bytes_max:
            self.drain()
        if not self._values:
            self._ports.wakeups.call_soon(self.drain)
        self._values += values
        self._bytes += size
        return self._machine.log.end_offset + len(self._values) - 1

    def drain(self) -> None:
        """Append what waits as one batch."""
        if self._values:
            values, self._values = self._values, []
            self._bytes = 0
            machine = self._machine
            wall_ms = self._ports.clock.wall_ms()
            batch = data_batch(values, machine.log.end_offset, machine.epoch, wall_ms)
            self._step(on.Propose(batch, len(values)))
