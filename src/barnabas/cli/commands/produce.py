"""``barnabas produce``: lines of files or of standard input become records."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from uuid import uuid4

import typer

from barnabas.cli.connection.connect import USAGE, AsJson, Bootstrap, Data, cluster, show, table_of
from barnabas.cli.failure import Failure
from barnabas.cli.progress import ProgressLine, has_onlooker
from barnabas.cli.records.format_string import unescape
from barnabas.cli.records.input_lines import contents_of, lines_of
from barnabas.cli.records.record_input import (
    PARTITIONERS,
    RecordInput,
    parse_headers,
    partitioner,
)
from barnabas.cli.records.record_writer import RecordWriter
from barnabas.client.producers.producer import ProducerSettings
from barnabas.client.records import ProducerRecord
from barnabas.host.client import Connected
from barnabas.record.compression import Codec

IDLE_MS = 20.0
TURN_RECORDS = 1000
"""After so many records the client looks at what has come."""
ACKS = {"all": -1, "-1": -1, "0": 0, "1": 1}


def command(
    topic: str = typer.Argument(...),
    files: list[Path] = typer.Argument(
        None, metavar="FILE...", help="Read these (default: standard input, -).", show_default=False
    ),
    more: list[Path] = typer.Option([], "--lines", "-l", metavar="FILE", help="Read this, too."),
    whole: bool = typer.Option(False, "--whole", help="Each file is one record."),
    delimiter: str = typer.Option("\\n", "--delimiter", "-D", help="What ends a line."),
    key_separator: str | None = typer.Option(
        None, "--key-separator", "-k", "-K", help="The separator of key and value in a line."
    ),
    json_records: bool = typer.Option(
        False, "--json-records", help="Lines are those of consume --json, or of kcat -J."
    ),
    key: str | None = typer.Option(None, "--key", help="The key where a line has none."),
    null: str | None = typer.Option(None, "--null", help="Keys and values that are this are null."),
    headers: list[str] = typer.Option(
        [], "--header", "--headers", "-H", metavar="NAME=VALUE", help="May be repeated."
    ),
    partition: int | None = typer.Option(None, "--partition", "-p", min=0),
    chosen_by: str = typer.Option("murmur2", "--partitioner", help=", ".join(PARTITIONERS) + "."),
    acks: str = typer.Option("all", help="all, 1 or 0."),
    compression: str = typer.Option(
        "none", "--compression", "-z", help="none, gzip, snappy, lz4 or zstd."
    ),
    transaction: bool = typer.Option(False, "--transaction", help="All records or none."),
    transactional_id: str | None = typer.Option(
        None, "--transactional-id", help="For --transaction (default: one that is used once)."
    ),
    bootstrap: Bootstrap = None,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Write one record per line; ends when all are acknowledged."""
    settings = settings_of(acks, compression)
    paths = [*(files or ()), *more]
    if whole and not paths:
        raise Failure("--whole needs files", USAGE)
    if transaction and settings.acks != -1:
        raise Failure("a transaction needs --acks all", USAGE)
    try:
        form = RecordInput(
            topic, _bytes(key_separator), json_records, _raw(key), _raw(null),
            parse_headers(headers), partition,
        )  # fmt: skip
        partitioner(chosen_by, 1, 0)
        end = unescape(_raw(delimiter) or b"")
        if not end:
            raise ValueError("--delimiter is at least one byte")
    except ValueError as error:
        raise Failure(str(error), USAGE) from error
    if transactional_id is None and transaction:
        transactional_id = f"barnabas-produce-{uuid4()}"
    with cluster(bootstrap, data) as connected:
        count = len(connected.topic(topic).partitions)
        choose = partitioner(chosen_by, count, uuid4().int)

        def record_of(line: bytes) -> ProducerRecord:
            return _record(form, choose, count, line)

        lines = contents_of(paths) if whole else lines_of(paths, end)
        with RecordWriter(connected, settings, transactional_id) as writer:
            is_shown = has_onlooker(as_json) and not sys.stdin.isatty()
            _write(connected, writer, lines, record_of, is_shown=is_shown)
    table = table_of(None, "topic", "acknowledged")
    table.add_row(topic, str(writer.sent))
    show(as_json, {"topic": topic, "acknowledged": writer.sent}, table)


def _write(
    connected: Connected,
    writer: RecordWriter,
    lines: Iterator[bytes | None],
    record_of: Callable[[bytes], ProducerRecord],
    *,
    is_shown: bool,
) -> None:
    """Send every line. A failure ends it at once: the input may never end."""
    with ProgressLine("records", is_shown=is_shown) as line:
        for content in lines:
            if content is None:
                connected.run_for(IDLE_MS)
                if writer.failure is not None:
                    return
                continue
            writer.send(record_of(content))
            if writer.sent % TURN_RECORDS == 0:
                connected.run_for(0)
                line.update(writer.acknowledged)
                if writer.failure is not None:
                    return


def _record(
    form: RecordInput, choose: Callable[[ProducerRecord], int | None], count: int, line: bytes
) -> ProducerRecord:
    """The record of a line, with its partition of `count`. Raises `Failure`."""
    try:
        record = form.record(line)
    except ValueError as error:
        raise Failure(str(error), USAGE) from error
    if record.partition is None:
        return record._replace(partition=choose(record))
    if not 0 <= record.partition < count:
        raise Failure(f"there is no partition {record.partition} of {record.topic}")
    return record


def _bytes(text: str | None) -> bytes | None:
    """A separator, with the escapes of format strings. Raises ``ValueError`` for an empty one."""
    if text == "":
        raise ValueError("--key-separator is at least one byte")
    return None if text is None else unescape(text.encode("utf-8", "surrogateescape"))


def _raw(text: str | None) -> bytes | None:
    return None if text is None else text.encode("utf-8", "surrogateescape")


def settings_of(acks: str, compression: str) -> ProducerSettings:
    """Raises `Failure`."""
    if acks not in ACKS:
        raise Failure(f"--acks is all, 1 or 0, not {acks!r}", USAGE)
    try:
        codec = Codec[compression.upper()]
    except KeyError:
        names = ", ".join(c.name.lower() for c in Codec)
        raise Failure(f"--compression is one of {names}, not {compression!r}", USAGE) from None
    return ProducerSettings(acks=ACKS[acks], idempotent=ACKS[acks] == -1, linger_ms=20, codec=codec)
