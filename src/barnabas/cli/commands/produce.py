"""``barnabas produce``: lines of a file or of standard input become records."""

from __future__ import annotations

import json
import os
import select
import sys
from collections.abc import Iterator
from pathlib import Path

import typer

from barnabas.cli.connection.connect import USAGE, AsJson, Bootstrap, Data, cluster, show, table_of
from barnabas.cli.failure import Failure
from barnabas.client.producers.producer import ProducerSettings
from barnabas.client.records import ProducerRecord
from barnabas.record.compression import Codec

IDLE_MS = 20.0
ACKS = {"all": -1, "-1": -1, "0": 0, "1": 1}


def command(
    topic: str = typer.Argument(...),
    file: Path | None = typer.Argument(None, help="Read this (default: standard input)."),
    key_separator: str | None = typer.Option(
        None, "--key-separator", "-k", help="The separator of key and value in a line."
    ),
    json_records: bool = typer.Option(
        False, "--json-records", help='Lines are {"key": ..., "value": ..., "partition": ...}.'
    ),
    partition: int | None = typer.Option(None, "--partition", "-p"),
    acks: str = typer.Option("all", help="all, 1 or 0."),
    compression: str = typer.Option("none", help="none, gzip, snappy, lz4 or zstd."),
    bootstrap: Bootstrap = None,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Write one record per line; ends when all are acknowledged."""
    settings = settings_of(acks, compression)
    sent = 0
    with cluster(bootstrap, data) as connected:
        connected.topic(topic)
        with connected.producer(settings) as producer:
            for line in lines_of(file):
                if line is None:
                    connected.run_for(IDLE_MS)
                    if producer.failures:
                        break  # told now: the input may never end
                    continue
                record = record_of(topic, line, key_separator, json_records, partition)
                producer.send(record)
                sent += 1
                if sent % 1000 == 0:
                    connected.run_for(0)
    table = table_of(None, "topic", "acknowledged")
    table.add_row(topic, str(sent))
    show(as_json, {"topic": topic, "acknowledged": sent}, table)


def settings_of(acks: str, compression: str) -> ProducerSettings:
    if acks not in ACKS:
        raise Failure(f"--acks is all, 1 or 0, not {acks!r}", USAGE)
    try:
        codec = Codec[compression.upper()]
    except KeyError:
        names = ", ".join(c.name.lower() for c in Codec)
        raise Failure(f"--compression is one of {names}, not {compression!r}", USAGE) from None
    return ProducerSettings(acks=ACKS[acks], idempotent=ACKS[acks] == -1, linger_ms=20, codec=codec)


def lines_of(file: Path | None) -> Iterator[bytes | None]:
    """Lines without their ends; None where standard input has nothing yet. Raises `Failure`."""
    if file is None:
        yield from lines_of_input(sys.stdin.fileno())
        return
    try:
        source = file.open("rb")
    except OSError as error:
        raise Failure(f"{file} cannot be read: {error.strerror}", USAGE) from error
    with source:
        for line in source:
            yield line.removesuffix(b"\n")


def lines_of_input(descriptor: int) -> Iterator[bytes | None]:
    """Yield lines as they come: what was typed or piped in is sent while the next line is awaited."""
    rest = b""
    while True:
        if not select.select([descriptor], [], [], 0)[0]:
            yield None
            continue
        data = os.read(descriptor, 1 << 16)
        if not data:
            break
        *lines, rest = (rest + data).split(b"\n")
        yield from lines
    if rest:
        yield rest


def record_of(
    topic: str, line: bytes, separator: str | None, json_records: bool, partition: int | None
) -> ProducerRecord:
    """The record of a line. Raises `Failure` for a line that is none."""
    if json_records:
        try:
            reported = json.loads(line)
            key, value = reported.get("key"), reported.get("value")
            return ProducerRecord(
                topic,
                None if value is None else _bytes(value),
                None if key is None else _bytes(key),
                reported.get("partition", partition),
                reported.get("timestamp"),
            )
        except (ValueError, AttributeError) as error:
            raise Failure(f"not a JSON record: {line[:80]!r}: {error}", USAGE) from error
    if separator is None:
        return ProducerRecord(topic, line, partition=partition)
    key, found, value = line.partition(separator.encode())
    if not found:
        raise Failure(f"a line without {separator!r}: {line[:80]!r}", USAGE)
    return ProducerRecord(topic, value, key, partition)


def _bytes(value: object) -> bytes:
    return (value if isinstance(value, str) else json.dumps(value)).encode()
