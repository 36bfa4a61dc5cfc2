"""Loads new coordinators from their partitions' logs without blocking the loop.

The loader reads one shard after the other, in slices of at most ``SLICE_MS``; it brings bytes that are not in
memory there in the background, while other shards load. It drops a shard whose leadership ended meanwhile. It
retries a shard whose log cannot be read and loads others meanwhile: after a corrupt batch it continues behind
what was replayed, once the batch is repaired; after any other error it starts from the beginning. The
partition has no coordinator until then.

Source: ``CoordinatorLoaderImpl`` of Apache Kafka 4.3, where such a shard waits for the next leadership.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from struct import error as StructError
from typing import Generic

from barnabas.broker.coordinator.coordinator_shard import CoordinatorShard, M
from barnabas.limits import SLICE_MS
from barnabas.ports import Ports
from barnabas.record.batch import iterate
from barnabas.record.builder import CONTROL_KEY, ControlType
from barnabas.record.decode import Record, records_of
from barnabas.types import Buffer
from barnabas.wire.errors import ErrorCode, KafkaError

LOAD_RETRY_MS = 500.0
"""The delay after a log could not be read. It doubles each time, up to `LOAD_RETRY_MS_MAX`."""
LOAD_RETRY_MS_MAX = 16_000.0


class _Load(Generic[M]):
    """The progress of one shard's loading."""

    __slots__ = ("attempts", "is_warm", "offset", "pending", "shard")

    def __init__(self, shard: CoordinatorShard[M]) -> None:
        self.shard = shard
        self.offset = shard.log.log_start_offset
        self.pending: Iterator[None] | None = None
        """Replays the batches that were read, one record per step."""
        self.is_warm = False
        """Whether a job has just read the next bytes: they are in memory."""
        self.attempts = 0
        """The number of failed attempts to read the log."""

    def begin_again(self, machine: M) -> None:
        """Begin again with an empty `machine`."""
        self.shard.begin_again(machine)
        self.offset = self.shard.log.log_start_offset


class CoordinatorLoader(Generic[M]):
    """The shards of one topic that are being loaded. The first one is read now."""

    __slots__ = (
        "_is_current",
        "_loads",
        "_on_loaded",
        "_ports",
        "_read_bytes",
        "_running",
        "make_machine",
    )

    def __init__(
        self,
        ports: Ports,
        read_bytes: int,
        make_machine: Callable[[], M],
        is_current: Callable[[CoordinatorShard[M]], bool],
        on_loaded: Callable[[CoordinatorShard[M]], None],
    ) -> None:
        """`make_machine` gives an empty machine, `is_current` says whether a shard is still wanted;
        `on_loaded` gets each shard that is read to its end."""
        self._ports = ports
        self._read_bytes = read_bytes
        self.make_machine = make_machine
        self._is_current = is_current
        self._on_loaded = on_loaded
        self._loads: deque[_Load[M]] = deque()
        self._running = False
        """Whether the next slice is scheduled."""

    def add(self, shard: CoordinatorShard[M]) -> None:
        """Load `shard` after those that were added before."""
        self._loads.append(_Load(shard))
        self._schedule()

    def _schedule(self) -> None:
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
                self._step(load, until_ms)
            except (ValueError, StructError, KafkaError, OSError) as error:
                self._on_error(load, error)
            except Exception as error:
                self._on_error(load, error)
                self._schedule()
                raise  # a bug: raise it, and load the others
            if self._ports.clock.now_ms() >= until_ms:
                break
        self._schedule()

    def _step(self, load: _Load[M], until_ms: float) -> None:
        """Read once, or replay a slice of what was read."""
        if load.pending is not None:
            clock, most = self._ports.clock, self._ports.bounds.replicas.records_per_look
            for count, _ in enumerate(load.pending, 1):
                if count % most == 0 and clock.now_ms() >= until_ms:
                    return
            load.pending = None
        log = load.shard.log
        if load.offset >= log.log_end_offset:
            self._end(load)
            return
        # Read the present log: compaction may have removed what the job has read.
        block, load.is_warm = load.is_warm, False
        run = log.read(load.offset, self._read_bytes, block=block)
        if run is None:
            job = log.read_job(load.offset, self._read_bytes)
            self._loads.popleft()
            done = partial(self._on_read, load)
            self._ports.background.run(f"coordinators {log.log_dir}", job, done)
        elif not run:  # compaction has removed the last records
            self._end(load)
        else:
            load.pending = _replay(load, run)

    def _end(self, load: _Load[M]) -> None:
        """The whole log was replayed."""
        self._loads.popleft()
        self._on_loaded(load.shard)

    def _on_read(self, load: _Load[M], result: object) -> None:
        # The next read finds an error of the disk again, and reports it.
        load.is_warm = True
        self._loads.appendleft(load)
        self._schedule()

    def _on_error(self, load: _Load[M], error: Exception) -> None:
        """The log could not be read; it is read again later."""
        if self._loads and self._loads[0] is load:
            self._loads.popleft()
        load.pending = None
        is_storage = isinstance(error, KafkaError) and error.code == ErrorCode.KAFKA_STORAGE_ERROR
        if not is_storage:  # else a batch is being mended: what was replayed before it stays
            load.shard.failed = True
        delay = min(LOAD_RETRY_MS * 2.0 ** min(load.attempts, 10), LOAD_RETRY_MS_MAX)
        load.attempts += 1
        self._ports.log(
            "error", "coordinator.load_failed", partition=load.shard.partition,
            offset=load.offset, error=str(error), again_in_ms=delay,
        )  # fmt: skip
        when = self._ports.clock.now_ms() + delay
        self._ports.wakeups.call_at(when, partial(self._try_again, load))

    def _try_again(self, load: _Load[M]) -> None:
        if not self._is_current(load.shard):
            return
        if load.shard.failed:
            load.begin_again(self.make_machine())
        self._loads.append(load)
        self._schedule()


def _replay(load: _Load[M], run: Buffer) -> Iterator[None]:
    """Replay the whole batches of `run`, a record per step."""
    machine, before = load.shard.machine, load.offset
    for batch in iterate(run, crc=True):  # batches that this process wrote are not checked yet
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


def _replay_control(shard: CoordinatorShard[M], producer_id: int, record: Record) -> None:
    """Replay the end of a transaction; coordinators ignore other control records."""
    kind = CONTROL_KEY.unpack_from(record.key or b"")[1]
    if kind in (ControlType.COMMIT, ControlType.ABORT):
        shard.machine.replay_marker(record.offset, producer_id, kind == ControlType.COMMIT)
