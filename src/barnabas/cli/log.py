"""``barnabas log``: what stands in the files of a log directory."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer

from barnabas.cli.failure import Failure
from barnabas.cli.reaching import USAGE
from barnabas.record.batch import BatchView, CorruptBatchError, iterate
from barnabas.record.compression import Codec
from barnabas.record.decode import records_of

app = typer.Typer(help="The files of a log directory.", no_args_is_help=True)


@app.callback()
def group() -> None:
    """The files of a log directory."""


@app.command()
def dump(
    file: Path = typer.Argument(..., help="A segment (.log) or snapshot (.checkpoint)."),
    records: bool = typer.Option(False, "--records", help="With the records of each batch."),
    as_json: bool = typer.Option(False, "--json", help="One JSON object per line."),
) -> None:
    """Every batch with its header; says where the file is damaged and ends with 1."""
    try:
        data = memoryview(file.read_bytes())
    except OSError as error:
        raise Failure(f"{file} cannot be read: {error.strerror}", USAGE) from error
    try:
        for told in batches_of(data, records):
            typer.echo(json.dumps(told) if as_json else line_of(told))
    except CorruptBatchError as error:
        raise Failure(f"{file}: {error}") from error


def batches_of(data: memoryview, with_records: bool) -> Iterator[dict[str, Any]]:
    """One dictionary per batch. Raises `CorruptBatchError`."""
    for batch in iterate(data, crc=True, partial_tail=False):
        told = describe(batch)
        if with_records:
            told["records"] = [
                {
                    "offset": r.offset,
                    "timestamp": r.timestamp,
                    "key": _text(r.key),
                    "value": _text(r.value),
                    "headers": [[name, _text(content)] for name, content in r.headers],
                }
                for r in records_of(batch)
            ]
        yield told


def describe(batch: BatchView) -> dict[str, Any]:
    header = batch.header
    return {
        "position": batch.position,
        "base_offset": header.base_offset,
        "last_offset": header.last_offset,
        "count": header.count,
        "size": header.size,
        "leader_epoch": header.leader_epoch,
        "codec": Codec(header.codec).name.lower(),
        "base_timestamp": header.base_timestamp,
        "max_timestamp": header.max_timestamp,
        "producer_id": header.producer_id,
        "producer_epoch": header.producer_epoch,
        "base_sequence": header.base_sequence,
        "transactional": header.is_transactional,
        "control": header.is_control,
    }


def line_of(told: dict[str, Any]) -> str:
    """One line per batch, and one per record behind it."""
    parts = [f"{k}={v}" for k, v in told.items() if k != "records" and v is not False]
    lines = ["  ".join(parts)]
    for record in told.get("records", ()):
        lines.append(f"    {record['offset']} {record['key']!r} {record['value']!r}")
    return "\n".join(lines)


def _text(data: bytes | None) -> str | None:
    return None if data is None else data.decode("utf-8", "backslashreplace")
