"""Reads the keys and values that dead letters copy, once for all letters whose records one read brings.

Letters of one batch often begin together: a member's acknowledgements differ, and so do the counts of
deliveries. Those that wait for the same share partition are read in one go, where the log may block; the next
read follows when it is over. A leader reads records only once its high watermark is past them.

Source: ``ShareGroupDLQRecordFetcher`` of Apache Kafka 4.4.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from barnabas.broker.share.led_partitions import LedSharePartition
from barnabas.broker.share.letters.letter_records import Copied, keys_and_values
from barnabas.log.errors import CorruptLogError
from barnabas.ports import Ports
from barnabas.share.key import SharePartitionKey
from barnabas.types import Buffer
from barnabas.wire.errors import KafkaError

COPY_BYTES_MAX = 1 << 20
"""Bytes that are read from the log at a time."""


class Copies(NamedTuple):
    """The keys and values of a letter's next records. Those that the log no longer has are missing."""

    by_offset: Copied
    end: int
    """The offset from which on nothing is known yet; the first wanted one where nothing was read."""


CopyResult = Copies | KafkaError | CorruptLogError | None
"""None: it cannot be read now."""
OnCopies = Callable[[CopyResult], None]


class _Wanted(NamedTuple):
    """The records that one letter wants."""

    led: LedSharePartition
    first: int
    last: int
    on_copies: OnCopies


class LetterCopies:
    """All reads of one broker's dead letters."""

    def __init__(self, ports: Ports) -> None:
        self._ports = ports
        self._waiting: dict[SharePartitionKey, list[_Wanted]] = {}
        self._reading: set[SharePartitionKey] = set()

    def __repr__(self) -> str:
        return f"LetterCopies({len(self._waiting)} wait, {len(self._reading)} read)"

    def read(self, led: LedSharePartition, first: int, last: int, on_copies: OnCopies) -> None:
        """Read the records from `first` to `last`, or as many of them as one read brings; `on_copies` is
        called later."""
        self._wait(_Wanted(led, first, last, on_copies))

    def _wait(self, wanted: _Wanted) -> None:
        key = wanted.led.key
        waiting = self._waiting.get(key)
        if waiting is not None:
            waiting.append(wanted)
            return
        self._waiting[key] = [wanted]
        if key not in self._reading:
            self._ports.wakeups.call_soon(partial(self._begin, key))

    def _begin(self, key: SharePartitionKey) -> None:
        """Read from the first wanted record on. A letter that cannot be read now receives that."""
        waiting = sorted(self._waiting.pop(key, ()), key=lambda wanted: wanted.first)
        while waiting:
            first = waiting.pop(0)
            try:
                read = _reading(first)
            except KafkaError as error:
                first.on_copies(error)
                continue
            except OSError:
                read = None
            if read is None:
                first.on_copies(None)
                continue
            together = [first, *(wanted for wanted in waiting if _may_read(wanted))]
            for wanted in waiting:
                if wanted not in together:
                    self._wait(wanted)
            self._read(key, together, read)
            return

    def _read(
        self, key: SharePartitionKey, together: list[_Wanted], read: Callable[[], Buffer]
    ) -> None:
        self._reading.add(key)
        spans = [(wanted.first, wanted.last) for wanted in together]
        self._ports.background.run(
            "dead letters",
            lambda: keys_and_values(read(), spans),
            partial(self._on_read, key, together),
        )

    def _on_read(self, key: SharePartitionKey, together: list[_Wanted], result: Any) -> None:
        """Letters behind the read records wait for the next read, and so do the others where it failed."""
        self._reading.discard(key)
        first, *others = together
        answered: list[tuple[_Wanted, CopyResult]]
        if isinstance(result, (OSError, CorruptLogError)):
            answered = [(first, None if isinstance(result, OSError) else result)]
            later = others
        else:
            copied, end = ({}, first.first) if isinstance(result, Exception) else result
            answered = [(first, Copies(copied, max(end, first.first)))]
            answered += [(wanted, Copies(copied, end)) for wanted in others if wanted.first < end]
            later = [wanted for wanted in others if wanted.first >= end]
        for wanted in later:
            self._wait(wanted)
        if not later and key in self._waiting:
            self._ports.wakeups.call_soon(partial(self._begin, key))
        for wanted, answer in answered:
            wanted.on_copies(answer)


def _reading(wanted: _Wanted) -> Callable[[], Buffer] | None:
    """Reads the records; None where this leader has them and cannot say yet that they are committed."""
    log = wanted.led.partition.readable_log(-1, leader_only=True)
    if log.log_start_offset > wanted.last or log.log_end_offset <= wanted.first:
        return bytes
    if log.high_watermark <= min(wanted.last, log.log_end_offset - 1):
        return None
    begin = max(wanted.first, log.log_start_offset)
    return log.read_job(begin, COPY_BYTES_MAX, up_to=log.high_watermark)


def _may_read(wanted: _Wanted) -> bool:
    """Whether all of the records are there and committed."""
    try:
        log = wanted.led.partition.readable_log(-1, leader_only=True)
    except (KafkaError, OSError):
        return False
    return log.log_start_offset <= wanted.first and wanted.last < log.high_watermark
