"""``barnabas consume``: records of a topic to standard output, one per line."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import typer

from barnabas.cli.connection.connect import USAGE, AsJson, Bootstrap, Data, cluster
from barnabas.cli.failure import Failure
from barnabas.cli.plain_text import json_line, visible_bytes
from barnabas.client.consumers.classic_protocol_member import check_pattern, matched_topics
from barnabas.client.consumers.consumer import ConsumerSettings
from barnabas.client.consumers.fetch_requests import FetchSettings
from barnabas.client.consumers.group_member import TopicPattern
from barnabas.client.offsets import EARLIEST, LATEST
from barnabas.client.records import ConsumerRecord
from barnabas.host.client import BlockingConsumer, Connected
from barnabas.host.process.end_request import EndRequest
from barnabas.types import TopicPartition

POLL_MS = 200.0


def command(
    topics: list[str] = typer.Argument(None, metavar="TOPIC...", show_default=False),
    include: str | None = typer.Option(
        None, "--include", help="All topics whose whole name this regular expression matches."
    ),
    group: str | None = typer.Option(None, "--group", "-g", help="Share the work and commit."),
    from_beginning: bool = typer.Option(False, "--from-beginning", "-f"),
    partition: list[int] = typer.Option([], "--partition", "-p", help="Only these."),
    offset: int | None = typer.Option(None, "--offset", "-o", help="Begin here."),
    max_records: int | None = typer.Option(None, "--max-records", "-n", min=1),
    exit_at_end: bool = typer.Option(False, "--exit", "-e", help="End where the topic ends now."),
    timeout_s: float | None = typer.Option(
        None, "--timeout", help="End when nothing came for so many seconds."
    ),
    read_committed: bool = typer.Option(False, help="Only committed records."),
    show_keys: bool = typer.Option(False, "--keys", "-k", help="Key, tab, value."),
    raw: bool = typer.Option(
        False,
        "--raw",
        help="Bytes as they are; a terminal gets control characters as escapes otherwise.",
    ),
    bootstrap: Bootstrap = None,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Print values; with --json every record whole, one JSON object per line."""
    if group and (partition or offset is not None):
        raise Failure("a group chooses partitions and offsets itself", USAGE)
    if bool(topics) == (include is not None):
        raise Failure("name topics, or --include with a regular expression", USAGE)
    reset = "earliest" if from_beginning or exit_at_end else "latest"
    settings = ConsumerSettings(
        auto_offset_reset=reset, fetch=FetchSettings(read_committed=read_committed)
    )
    with cluster(bootstrap, data) as connected:
        consumer = connected.consumer(group, settings)
        pattern = None if include is None else TopicPattern(include)
        if pattern is not None:
            topics = _matched(connected, pattern)
        # A group may wait for topics that do not exist yet.
        partitions = chosen(connected, topics, partition) if exit_at_end or not group else []
        ends = ends_of(connected, partitions) if exit_at_end else {}
        if group:
            consumer.inner.subscribe(topics if pattern is None else pattern)
        else:
            begin = offset if offset is not None else EARLIEST if reset == "earliest" else LATEST
            consumer.inner.assign(dict.fromkeys(partitions, begin))
        line = partial(
            line_of, as_json=as_json, show_keys=show_keys, raw=raw or not sys.stdout.isatty()
        )
        pump(connected, consumer, ends, max_records, timeout_s, line, bool(group))


def _matched(connected: Connected, pattern: TopicPattern) -> list[str]:
    """Topics that exist now; later ones are for groups."""
    try:
        check_pattern(pattern)
    except ValueError as fault:
        raise Failure(str(fault), USAGE) from fault
    return matched_topics(pattern, {topic.name: topic for topic in connected.topics()})


def chosen(connected: Connected, topics: list[str], only: list[int]) -> list[TopicPartition]:
    partitions = connected.partitions_of(topics)
    for number in only:
        if not any(tp.partition == number for tp in partitions):
            raise Failure(f"there is no partition {number} of {', '.join(topics)}")
    return [tp for tp in partitions if not only or tp.partition in only]


def ends_of(connected: Connected, partitions: list[TopicPartition]) -> dict[TopicPartition, int]:
    return {tp: found.offset for tp, found in connected.offsets(partitions).items()}


def pump(
    connected: Connected,
    consumer: BlockingConsumer,
    ends: dict[TopicPartition, int],
    max_records: int | None,
    timeout_s: float | None,
    line: Callable[[ConsumerRecord], bytes],
    commits: bool,
) -> None:
    """Print until something says that it is enough; commit what was printed."""
    printed, silent_ms = 0, 0.0
    end_request = EndRequest()  # it leaves its group then, too
    write = sys.stdout.buffer.write
    try:
        while not end_request.is_made and (max_records is None or printed < max_records):
            if ends and _is_at(ends, consumer, in_group=commits):
                break
            limit = 500 if max_records is None else min(500, max_records - printed)
            records = consumer.poll(POLL_MS, limit)
            for record in records:
                write(line(record))
            printed += len(records)
            sys.stdout.buffer.flush()
            if records and commits:
                consumer.commit()
            silent_ms = 0.0 if records else silent_ms + POLL_MS
            if timeout_s is not None and silent_ms >= timeout_s * 1000:
                break
    except OSError:  # the pipe is closed: leave, so that the group need not wait for this member
        consumer.close()
        raise
    consumer.close()


def _is_at(ends: dict[TopicPartition, int], consumer: BlockingConsumer, *, in_group: bool) -> bool:
    """Whether everything was read: in a group all that this member was given."""
    inner = consumer.inner
    if in_group and not inner.is_stable:
        return False
    for tp in inner.assignment if in_group else ends:
        position = inner.position(tp)
        if position is None or position < ends.get(tp, 0):
            return False
    return True


def line_of(record: ConsumerRecord, *, as_json: bool, show_keys: bool, raw: bool) -> bytes:
    """The record as a line of bytes. JSON has no control character in any case."""
    if as_json:
        return json_line(json.dumps(plain(record), ensure_ascii=False)).encode() + b"\n"
    value = b"" if record.value is None else record.value
    if show_keys:
        value = (b"" if record.key is None else record.key) + b"\t" + value
    return (value if raw else visible_bytes(value)) + b"\n"


def plain(record: ConsumerRecord) -> dict[str, Any]:
    return {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp": record.timestamp_ms,
        "key": _text(record.key),
        "value": _text(record.value),
        "headers": [[name, _text(content)] for name, content in record.headers],
    }


def _text(data: bytes | None) -> str | None:
    return None if data is None else data.decode("utf-8", "backslashreplace")
