"""Records of a topic for a page: where to begin, what to leave out, and how bytes are shown.

A search reads at most `SCANNED_MAX` records and `SEARCH_S` seconds, and says where it stopped. A record's
bytes are hostile: they are decoded here, and a template escapes them.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from heapq import heappush, heappushpop
from typing import NamedTuple

from barnabas.cli.moments import parse_date
from barnabas.cli.records.record_filter import RecordFilter, text_of
from barnabas.client.consumers.fetch_requests import FetchedRun
from barnabas.client.network.cluster_metadata import TopicMetadata
from barnabas.client.offsets import EARLIEST, LATEST
from barnabas.host.client import Connected
from barnabas.record.decode import Record
from barnabas.types import TopicPartition

SCANNED_MAX = 20_000
SEARCH_S = 4.0
FETCH_BYTES = 4 * 1024 * 1024
SHOWN_BYTES_MAX = 16 * 1024
"""Bytes of a value that a page shows."""
JSON_CHARS_MAX = 4 * SHOWN_BYTES_MAX
"""Indentation may make a value so long: nested deeply, a small one would become a thousand times as long."""
BEGINS = ("latest", "earliest", "offset", "time")
FORMATS = ("auto", "json", "text", "hex")
REGISTRY = "registry"
"""The form of a value that a schema registry describes; it is offered where the console has one."""
Decode = Callable[[bytes], tuple[str | None, str]]
"""A value as text, or None and a sentence that says why it has none."""
_ENCODER = json.JSONEncoder(indent=2, ensure_ascii=False)


class ShownRecord(NamedTuple):
    """One record as a page shows it."""

    partition: int
    offset: int
    timestamp: int
    key: str | None
    value: str | None
    kind: str
    """The form of the value: json, text, hex or null."""
    size: int
    is_cut: bool
    headers: list[tuple[str, str]]
    problem: str = ""
    """Why it is not shown as its schema says."""


class SearchResult(NamedTuple):
    """`stopped` says why the search ended before the log's end; empty where it did not."""

    records: list[ShownRecord]
    scanned: int
    stopped: str


def begins(
    connected: Connected, partitions: Sequence[TopicPartition], begin: str, at: str, count: int
) -> tuple[dict[TopicPartition, int], dict[TopicPartition, int]]:
    """The offset to begin at in each partition, and its end. Raises ``ValueError``."""
    ends = {tp: found.offset for tp, found in connected.offsets(partitions, LATEST).items()}
    starts = {tp: found.offset for tp, found in connected.offsets(partitions, EARLIEST).items()}
    if begin == "earliest":
        wanted = starts
    elif begin == "latest":
        wanted = {tp: ends[tp] - count for tp in partitions}
    elif begin == "time":
        found_at = connected.offsets(partitions, parse_date(at))
        wanted = {
            tp: found.offset if found.offset >= 0 else ends[tp] for tp, found in found_at.items()
        }
    elif begin == "offset" and at.isdecimal() and len(at) < 20:
        wanted = dict.fromkeys(partitions, int(at))
    else:
        raise ValueError(f"records begin at {', '.join(BEGINS)}; an offset is a number, not {at!r}")
    return {tp: min(max(wanted[tp], starts[tp]), ends[tp]) for tp in partitions}, ends


class Sieve:
    """A search's progress, and the records that it keeps: the first `count` that pass, or the newest."""

    def __init__(self, wanted: RecordFilter, count: int, *, newest: bool) -> None:
        self.scanned = 0
        self._wanted = wanted
        self._count = count
        self._newest = newest
        self._deadline = time.monotonic() + SEARCH_S
        self._kept: list[tuple[int, int, int, int, Record]] = []
        """Each behind its timestamp, its offset, its number among the scanned, and its partition. Where the
        newest are kept, this is a heap."""

    @property
    def is_full(self) -> bool:
        """Whether no further record can be kept."""
        return not self._newest and len(self._kept) >= self._count

    @property
    def is_spent(self) -> bool:
        """Whether the search has read as much, or taken as long, as it may."""
        return self.scanned >= SCANNED_MAX or time.monotonic() > self._deadline

    def scan(self, run: FetchedRun, partition: int, start: int, end: int) -> int:
        """Read the records of `run` from `start` to before `end`; returns the offset at which to continue."""
        for record in run.records(start):
            if record.offset >= end or self.is_full:
                break
            if self.is_spent:
                return record.offset
            self.scanned += 1
            if self._wanted.passes(record):
                self._keep((record.timestamp, record.offset, self.scanned, partition, record))
        return run.next_offset

    def _keep(self, entry: tuple[int, int, int, int, Record]) -> None:
        if not self._newest:
            self._kept.append(entry)
        elif len(self._kept) < self._count:
            heappush(self._kept, entry)
        else:
            heappushpop(self._kept, entry)

    def shown(self, form: str, decode: Decode | None = None) -> list[ShownRecord]:
        """In the order in which they were read, or the newest first."""
        kept = sorted(self._kept, reverse=True) if self._newest else self._kept
        return [shown_record(partition, record, form, decode) for *_, partition, record in kept]


def search(
    connected: Connected,
    positions: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int],
    wanted: RecordFilter,
    count: int,
    form: str,
    *,
    newest: bool = False,
    decode: Decode | None = None,
) -> SearchResult:
    """The first `count` records from `positions` on that pass the filter, up to `ends`; with `newest` those
    with the latest timestamps of all that pass."""
    left = {tp: at for tp, at in positions.items() if at < ends[tp]}
    sieve = Sieve(wanted, count, newest=newest)
    while left and not sieve.is_full:
        if sieve.is_spent:
            at = ", ".join(f"{tp.partition}: {offset}" for tp, offset in sorted(left.items())[:6])
            stopped = f"the search stopped before (partition: offset) {at}"
            return SearchResult(sieve.shown(form, decode), sieve.scanned, stopped)
        runs = connected.fetch(left, max_bytes=FETCH_BYTES, wait_ms=200)
        for tp, run in runs.items():
            if run.error is not None:
                raise run.error
            left[tp] = sieve.scan(run, tp.partition, left[tp], ends[tp])
        left = {tp: at for tp, at in left.items() if at < ends[tp]}
    return SearchResult(sieve.shown(form, decode), sieve.scanned, "")


def shown_record(
    partition: int, record: Record, form: str, decode: Decode | None = None
) -> ShownRecord:
    """A record with its bytes as text in the form that is asked for; in the form ``registry`` as `decode`
    has it."""
    problem = ""
    value, kind = None, ""
    if form == REGISTRY and decode is not None and record.value is not None:
        if len(record.value) <= SHOWN_BYTES_MAX:
            value, problem = decode(bytes(record.value))
            kind = "registry"
    if value is None or len(value) > JSON_CHARS_MAX:
        value, kind = _value(record.value, "auto" if form == REGISTRY else form)
    key = None if record.key is None else text_of(record.key)[:SHOWN_BYTES_MAX]
    size = 0 if record.value is None else len(record.value)
    headers = [(name, text_of(content)[:1_000]) for name, content in record.headers]
    return ShownRecord(
        partition, record.offset, record.timestamp, key, value, kind, size,
        size > SHOWN_BYTES_MAX, headers, problem,
    )  # fmt: skip


def _value(data: bytes | None, form: str) -> tuple[str | None, str]:
    if data is None:
        return None, "null"
    whole = bytes(data)
    if form in ("auto", "json") and len(whole) <= SHOWN_BYTES_MAX:
        indented = _indented(whole)
        if indented is not None:
            return indented, "json"
    cut = whole[:SHOWN_BYTES_MAX]
    if form == "hex" or (form == "auto" and b"\x00" in cut):
        return _hex(cut[:4096]), "hex"
    return text_of(cut), "text"


def _indented(data: bytes) -> str | None:
    """JSON on lines; None where it is no JSON, or becomes too long by its indentation."""
    pieces: list[str] = []
    length = 0
    try:
        for piece in _ENCODER.iterencode(json.loads(data)):
            length += len(piece)
            if length > JSON_CHARS_MAX:
                return None
            pieces.append(piece)
    except (ValueError, RecursionError):
        return None
    return "".join(pieces)


def _hex(data: bytes) -> str:
    """Lines of sixteen bytes: position, hexadecimal, printable characters."""
    lines = []
    for at in range(0, len(data), 16):
        row = data[at : at + 16]
        readable = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in row)
        lines.append(f"{at:06x}  {row.hex(' '):<47}  {readable}")
    return "\n".join(lines)


def readable(view: TopicMetadata, chosen: Sequence[int]) -> list[TopicPartition]:
    """The partitions that have a leader, only those of `chosen` if there are any. Raises ``ValueError``."""
    for index in chosen:
        if index not in view.partitions:
            raise ValueError(f"topic {view.name} has no partition {index}")
    return [
        TopicPartition(view.name, index)
        for index in sorted(chosen or view.partitions)
        if view.partitions[index].leader >= 0
    ]
