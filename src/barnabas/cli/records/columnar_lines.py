"""Prints many records by a format string without a Python object per record.

For a backlog whose end is known, and format strings without headers. Runs of batches become Arrow
columns (:mod:`barnabas.record.columnar`), which are joined to the bytes of the lines; while one answer is
printed, the next one is on its way. Needs ``barnabas[fast]``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from barnabas.cli.records.format_string import FormatString
from barnabas.cli.records.read_range import ends_of
from barnabas.client.consumers.fetch_requests import FetchedRun, FetchSettings, fetch
from barnabas.client.network.tasks import TaskOutcome
from barnabas.client.offsets import EARLIEST
from barnabas.host.client import Connected
from barnabas.record.columnar import KEY, TIMESTAMP, VALUE, Binary, Columns, decode_groups, numbers
from barnabas.record.unpacking import Unpacker
from barnabas.types import TopicPartition
from barnabas.wire.errors import ErrorCode, KafkaError

SETTINGS = FetchSettings(
    wait_ms_max=200, bytes_max=16 * 1024 * 1024, partition_bytes_max=4 * 1024 * 1024
)
_COLUMNS = {"k": KEY, "K": KEY, "s": VALUE, "S": VALUE, "T": TIMESTAMP}
Write = Callable[[Any], Any]


def print_columns(
    connected: Connected,
    starts: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int],
    line: tuple[FormatString, bytes],
    write: Write,
    on_printed: Callable[[int], bool],
) -> int:
    """Print the records from `starts` to before `ends`, in the order of their arrival; `line` is the format
    and the text of null. `on_printed` takes the number so far and says whether to continue. Returns how many
    were printed. Raises what a fetch raises."""
    wanted = frozenset(_COLUMNS[token] for token in line[0].tokens if token in _COLUMNS) | {
        "offset"
    }
    left = {tp: at for tp, at in starts.items() if at < ends[tp]}
    unpacker, printed = Unpacker(), 0
    asked = _ask(connected, left)
    while left:
        runs = connected.wait(asked)
        begun = {tp: left[tp] for tp in runs if tp in left}
        for tp, run in runs.items():
            if run.error is not None:
                left[tp] = _start_after(connected, tp, left.get(tp, 0), run.error)
                continue
            left[tp] = max(left[tp], run.next_offset)
        left = {tp: at for tp, at in left.items() if at < ends[tp]}
        if left:
            asked = _ask(connected, left)
            connected.run_for(0)
        for tp, run in runs.items():
            if run.error is not None:
                continue
            groups = decode_groups(run.data, begun[tp], ends[tp], wanted=wanted, unpacker=unpacker)
            for columns in groups:
                write(lines_of(columns, tp, *line))
                printed += len(columns)
        if not on_printed(printed):
            break
    return printed


def _start_after(
    connected: Connected, partition: TopicPartition, position: int, error: KafkaError
) -> int:
    """The beginning of the log where retention has removed `position`. Raises any other error."""
    if error.code is not ErrorCode.OFFSET_OUT_OF_RANGE:
        raise error
    start = ends_of(connected, [partition], EARLIEST)[partition]
    if start <= position:  # it is behind the log's end
        raise error
    return start


def _ask(
    connected: Connected, positions: Mapping[TopicPartition, int]
) -> TaskOutcome[dict[TopicPartition, FetchedRun]]:
    outcome: TaskOutcome[dict[TopicPartition, FetchedRun]] = TaskOutcome()

    def take(done: TaskOutcome[dict[TopicPartition, FetchedRun]]) -> None:
        try:
            outcome.resolve(done.result())
        except BaseException as error:  # noqa: BLE001 - raised again where the caller waits
            outcome.reject(error)

    if positions:
        connected.client.tasks.start(fetch(connected.client, dict(positions), SETTINGS), take)
    return outcome


def lines_of(columns: Columns, partition: TopicPartition, line: FormatString, null: bytes) -> Any:
    """The bytes of all rows, one after the other."""
    rows = len(columns)
    if not rows:
        return b""
    parts = [_column(part, columns, partition, null) for part in line.parts]
    if all(isinstance(part, pa.Scalar) for part in parts):
        return b"".join(part.as_py() for part in parts) * rows
    joined = pc.binary_join_element_wise(
        *parts, pa.scalar(b"", pa.binary()), null_handling="replace", null_replacement=""
    )
    _, ends, data = joined.buffers()
    bounds = np.frombuffer(ends, np.int32)
    return memoryview(data)[bounds[joined.offset] : bounds[joined.offset + rows]]


def _column(part: bytes | str, columns: Columns, partition: TopicPartition, null: bytes) -> Any:
    if isinstance(part, bytes):
        return pa.scalar(part, pa.binary())
    match part:
        case "t":
            return pa.scalar(partition.topic.encode(), pa.binary())
        case "p":
            return pa.scalar(b"%d" % partition.partition, pa.binary())
        case "o":
            return _digits(columns.offsets)
        case "T":
            return _digits(columns.timestamps_us // 1000)
        case "K" | "S":
            field = columns.keys if part == "K" else columns.values
            return _digits(_lengths(field))
        case _:
            found = (columns.keys if part == "k" else columns.values).to_arrow()
            return found if not null else pc.fill_null(found, null)


def _digits(values: Any) -> Any:
    return (
        numbers(np.ascontiguousarray(values, np.int64), pa.int64())
        .cast(pa.string())
        .cast(pa.binary())
    )


def _lengths(field: Binary) -> Any:
    sizes = np.diff(field.ends).astype(np.int64)
    sizes[field.valid == 0] = -1
    return sizes
