"""Fills new coordinators from their partitions' logs, without keeping the loop from other work.

One shard after the other, in slices of at most ``SLICE_MS``; bytes that are not in memory are read in the
background. A shard whose leadership ended meanwhile is dropped; one whose log cannot be read fails, and
stays so until the next leadership.

Source: ``CoordinatorLoaderImpl`` of Apache Kafka 4.3.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from struct import error as StructError
from typing import Generic

from barnabas.broker.coordinator_shard import M, Shard
from barnabas.limits import SLICE_MS
from barnabas.ports import Ports
from barnabas.record.batch import iterate
from barnabas.record.builder import CONTROL_KEY, ControlType
from barnabas.record.decode import Record, records_of
from barnabas.types import Buffer
from barnabas.wire.errors import KafkaError

RECORDS_PER_LOOK = 64
"""Records replayed between two looks at the clock."""


class _Load(Generic[M]):
    """How far a shard has been read."""

    __slots__ = ("offset", "pending", "shard")

    def __init__(self, shard: Shard[M]) -> None:
        self.shard = shard
        self.offset = shard.log.log_start_offset
        self.pending: Iterator[None] | None = None
        """Replays the run that was read, one record per step."""


class Loader(Generic[M]):
    """The shards of one topic that are being loaded, the first one at work."""

    __slots__ = ("_is_current", "_loads", "_on_loaded", "_ports", "_read_bytes", "_running")

    def __init__(
        self,
        ports: Ports,
        read_bytes: int,
        is_current: Callable[[Shard[M]], bool],
        on_loaded: Callable[[Shard[M]], None],
    ) -> None:
        """`is_current` says whether a shard is still wanted; `on_loaded` is told of each that is
        read to its end."""
        self._ports = ports
        self._read_bytes = read_bytes
        self._is_current = is_current
        self._on_loaded = on_loaded
        self._loads: deque[_Load[M]] = deque()
        self._running = False
        """A slice, or a read in the background, is under way."""

    def add(self, shard: Shard[M]) -> None:
        """Load `shard` after those that were added before."""
        self._loads.append(_Load(shard))
        self._go_on()

    def _go_on(self) -> None:
        if self._loads and not self._running:
            self._running = True
            self._ports.wakeups.call_soon(self._slice)

    def _slice(self) -> None:
        self._running = False
        until_ms = self._ports.clock.now_ms() + SLICE_MS
        while self._loads:
            load = self._loads[0]
            if not self._is_current(load.shard):
                self._loads.popleft()
                continue
            try:
                if not self._step(load, until_ms):
                    return
            except (ValueError, StructError, KafkaError, OSError) as error:
                self._fail(load, error)
            if self._ports.clock.now_ms() >= until_ms:
                break
        self._go_on()

    def _step(self, load: _Load[M], until_ms: float) -> bool:
        """One read, or a slice of what was read. False where the disk has to be waited for."""
        if load.pending is not None:
            clock = self._ports.clock
            for count, _ in enumerate(load.pending, 1):
                if count % RECORDS_PER_LOOK == 0 and clock.now_ms() >= until_ms:
                    return True
            load.pending = None
        log = load.shard.log
        if load.offset >= log.log_end_offset:
            self._loads.popleft()
            self._on_loaded(load.shard)
            return True
        run = log.read(load.offset, self._read_bytes)
        if run is None:
            self._running = True
            job = log.read_job(load.offset, self._read_bytes)
            self._ports.background.run("coordinators", job, partial(self._on_read, load))
            return False
        load.pending = _replay(load, run)
        return True

    def _on_read(self, load: _Load[M], run: Buffer | BaseException) -> None:
        self._running = False
        if self._is_current(load.shard):
            if isinstance(run, BaseException):
                self._fail(load, run)
            else:
                load.pending = _replay(load, run)
        self._go_on()

    def _fail(self, load: _Load[M], error: BaseException) -> None:
        load.shard.failed = True
        if self._loads and self._loads[0] is load:
            self._loads.popleft()
        self._ports.log(
            "error", "coordinator could not be loaded", partition=load.shard.partition,
            offset=load.offset, error=str(error),
        )  # fmt: skip


def _replay(load: _Load[M], run: Buffer) -> Iterator[None]:
    """Replay the whole batches of `run`, a record per step."""
    machine, before = load.shard.machine, load.offset
    for batch in iterate(run):
        header = batch.header
        if header.last_offset < load.offset:
            continue
        producer_id = header.producer_id if header.is_transactional else -1
        for record in records_of(batch):
            if header.is_control:
                _replay_control(load.shard, header.producer_id, record)
            elif (decoded := machine.decode(record.key, record.value)) is not None:
                machine.replay(record.offset, producer_id, decoded)
            yield
        load.offset = header.next_offset
    if load.offset == before:
        raise ValueError(f"no whole batch at offset {before}")


def _replay_control(shard: Shard[M], producer_id: int, record: Record) -> None:
    """The end of a transaction; other control records say nothing to a coordinator."""
    kind = CONTROL_KEY.unpack_from(record.key or b"")[1]
    if kind in (ControlType.COMMIT, ControlType.ABORT):
        shard.machine.replay_marker(record.offset, producer_id, kind == ControlType.COMMIT)
