"""Prints records until something says that it is enough: of a group's member, or of partitions.

Partitions with a known end and a large backlog are printed by columns
(:mod:`barnabas.cli.records.columnar_lines`), where the format and the options allow it.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec

from barnabas.cli.failure import Failure
from barnabas.cli.progress import ProgressLine, has_onlooker
from barnabas.cli.records.read_range import ReadRange, ends_of
from barnabas.cli.records.record_filter import RecordFilter
from barnabas.cli.records.record_json import Line
from barnabas.cli.records.record_lines import RecordFormat
from barnabas.client.consumers.consumer import ConsumerSettings
from barnabas.client.offsets import EARLIEST, LATEST
from barnabas.client.records import ConsumerRecord
from barnabas.host.client import BlockingConsumer, Connected
from barnabas.host.process.end_request import EndRequest
from barnabas.record.batch import CorruptBatchError
from barnabas.types import TopicPartition

POLL_MS = 200.0
RECORDS_A_POLL = 2_000
COLUMNS_FROM = 100_000
"""From so many records on, columns are faster: loading what decodes them takes half a second."""
COLUMNS_NEED = ("numpy", "pyarrow", "numba")
COLUMN_TOKENS = frozenset("tpoTksKS")
"""The tokens of format strings that columns have."""


@dataclass
class Printing:
    """What is printed, and when it is enough."""

    line: Line
    range: ReadRange
    wanted: RecordFilter
    max_records: int | None = None
    timeout_s: float | None = None
    commits: bool = False
    """A group's positions are committed once their records are printed; it reads no part of a partition."""

    def lines(self, records: list[ConsumerRecord], room: int | None) -> list[bytes]:
        """At most `room` lines of the records that belong to the range and pass the filter."""
        line = self.line
        if not self.commits and (self.range.ends or self.range.until_ms is not None):
            has = self.range.has
            records = [
                record
                for record in records
                if has(TopicPartition(record[0], record[1]), record[2], record[3])
            ]
        if self.wanted != RecordFilter():
            records = [record for record in records if self.wanted.passes(record)]
        return [line(record) for record in records[:room]]


def pump(
    connected: Connected,
    consumer: BlockingConsumer,
    printing: Printing,
    progress: ProgressLine | None = None,
) -> None:
    """Print until it is enough, and commit what was printed."""
    read, printed, heard_s = 0, 0, time.monotonic()
    end_request = EndRequest()  # it leaves its group then, too
    most = printing.max_records
    write, flush = sys.stdout.buffer.write, sys.stdout.buffer.flush
    try:
        while not end_request.is_made and (most is None or printed < most):
            printing.range.on_time(connected, consumer.inner.assignment, wall_ms())
            if printing.range.ends and is_at_end(consumer, printing):
                break
            room = None if most is None else most - printed
            # A group must not commit beyond what is printed.
            records = consumer.poll(POLL_MS, min(room or RECORDS_A_POLL, RECORDS_A_POLL))
            lines = printing.lines(records, room)
            write(b"".join(lines))
            flush()
            printed += len(lines)
            read += len(records)
            if records and printing.commits:
                consumer.commit()
            if progress is not None:
                progress.update(read)
            if records:
                heard_s = time.monotonic()
            if printing.timeout_s is not None and time.monotonic() - heard_s >= printing.timeout_s:
                break
    except OSError:  # the pipe is closed: leave, so that the group need not wait for this member
        consumer.close()
        raise
    consumer.close()


def wall_ms() -> int:
    return time.time_ns() // 1_000_000


def is_at_end(consumer: BlockingConsumer, printing: Printing) -> bool:
    """Whether everything was read: in a group all that this member was given."""
    inner, ends = consumer.inner, printing.range.ends
    if printing.commits and not inner.is_stable:
        return False
    for tp in inner.assignment if printing.commits else ends:
        position = inner.position(tp)
        if position is None or position < ends.get(tp, 0):
            return False
    return True


def print_partitions(
    connected: Connected,
    starts: Mapping[TopicPartition, int],
    printing: Printing,
    shown: RecordFormat,
    settings: ConsumerSettings,
) -> None:
    """Print from `starts` on: by columns where that is possible and worth it, else by records."""
    total, known = None, dict(starts)
    if printing.range.ends and printing.max_records is None:
        known = _known(connected, starts)
        total = sum(max(end - known[tp], 0) for tp, end in printing.range.ends.items())
    is_shown = has_onlooker() and not sys.stdout.isatty()
    with ProgressLine("records", total, is_shown=is_shown) as progress:
        if total is not None and total >= COLUMNS_FROM and has_columns(printing, shown, settings):
            _print_columns(connected, known, printing, shown, progress)
            return
        consumer = connected.consumer(settings=settings)
        consumer.inner.assign(known)
        pump(connected, consumer, printing, progress)


def _known(connected: Connected, starts: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
    """`starts` with the offsets that `EARLIEST` and `LATEST` stand for."""
    found = dict(starts)
    for meant in (EARLIEST, LATEST):
        asked = [tp for tp, at in starts.items() if at == meant]
        if asked:
            found |= ends_of(connected, asked, meant)
    return found


def has_columns(printing: Printing, shown: RecordFormat, settings: ConsumerSettings) -> bool:
    """Whether columns hold all that is printed, and what decodes them is installed."""
    return (
        shown.is_plain
        and shown.string.tokens <= COLUMN_TOKENS
        and printing.wanted == RecordFilter()
        and printing.range.until_ms is None
        and not settings.fetch.read_committed
        and all(find_spec(name) is not None for name in COLUMNS_NEED)
    )


def _print_columns(
    connected: Connected,
    starts: Mapping[TopicPartition, int],
    printing: Printing,
    shown: RecordFormat,
    progress: ProgressLine,
) -> None:
    from barnabas.cli.records.columnar_lines import print_columns

    end_request = EndRequest()

    def on_printed(count: int) -> bool:
        progress.update(count)
        return not end_request.is_made

    output, line = sys.stdout.buffer, (shown.string, shown.null)
    try:
        print_columns(connected, starts, printing.range.ends, line, output.write, on_printed)
    except CorruptBatchError as error:
        raise Failure(f"a batch is damaged: {error}") from error
    output.flush()
