"""``barnabas topics alter | delete | delete-records``: what changes a topic that is there.

Deleting asks first (`--yes`, `--dry-run`). Source: KIP-107 (DeleteRecords), KIP-195 (CreatePartitions).
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import typer

from barnabas.cli.confirming import DryRun, Yes, confirm
from barnabas.cli.connection.connect import (
    USAGE,
    AsJson,
    Bootstrap,
    Data,
    cluster,
    sentence,
    show,
    table_of,
)
from barnabas.cli.failure import Failure
from barnabas.cli.moments import parse_date
from barnabas.cli.plain_text import counted, say
from barnabas.client.network.cluster_metadata import TopicMetadata
from barnabas.client.offsets import EARLIEST, LATEST
from barnabas.client.operations import delete_records
from barnabas.host.client import Connected
from barnabas.types import TopicPartition
from barnabas.wire.errors import KafkaError


def alter(
    names: list[str] = typer.Argument(..., metavar="NAME..."),
    partitions: int = typer.Option(
        ..., "--partitions", "-p", min=1, help="How many there shall be; never fewer than now."
    ),
    dry_run: bool = DryRun,
    bootstrap: Bootstrap = None,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Grow topics. Keys change by `barnabas configs alter`, replicas by `barnabas reassign`."""
    rows = []
    with cluster(bootstrap, data) as connected:
        for view in connected.call(connected.admin.describe_topics(names)):
            before = len(view.partitions)
            grow = connected.admin.create_partitions(view.name, partitions, validate_only=dry_run)
            connected.call(grow)
            rows.append({"name": view.name, "before": before, "partitions": partitions})
    table = table_of(None, "would grow" if dry_run else "grown", "from", "to")
    for row in rows:
        table.add_row(*map(str, row.values()))
    show(as_json, rows, table)
    say("records with keys: the same key may go to another partition from now on", err=True)


def delete(
    names: list[str] = typer.Argument(..., metavar="NAME..."),
    yes: bool = Yes,
    dry_run: bool = DryRun,
    bootstrap: Bootstrap = None,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Delete topics with all they hold."""
    with cluster(bootstrap, data) as connected:
        views = connected.call(connected.admin.describe_topics(names))
        held = ", ".join(
            f"{view.name} ({counted(len(view.partitions), 'partition')})" for view in views
        )
        if not dry_run:
            confirm(f"Delete {held}, with all records?", yes)
            for view in views:
                connected.delete_topic(view.name)
    table = table_of(None, "would be deleted" if dry_run else "deleted", "partitions")
    for view in views:
        table.add_row(view.name, str(len(view.partitions)))
    show(as_json, names, table)


def remove_records(
    topic: str | None = typer.Argument(None, metavar="[NAME]"),
    partition: list[int] = typer.Option([], "--partition", "-p", help="Only these."),
    before: int | None = typer.Option(
        None, "--before", "-o", min=0, help="The first offset that is kept."
    ),
    before_date: str | None = typer.Option(
        None, "--before-datetime", metavar="2026-11-24T17:00:00", help="UTC if without a zone."
    ),
    every: bool = typer.Option(False, "--all", help="All records that there are now."),
    file: Path | None = typer.Option(
        None, "--file", "--offset-json-file",
        help='As Kafka\'s tool: {"partitions": [{"topic", "partition", "offset"}]}',
    ),
    yes: bool = Yes,
    dry_run: bool = DryRun,
    bootstrap: Bootstrap = None,
    data: Data = None,
    as_json: AsJson = False,
) -> None:  # fmt: skip
    """Delete the records before an offset. The topic stays; consumers continue at its new start."""
    ways = [before is not None, before_date is not None, every, file is not None]
    if sum(ways) != 1 or (topic is None) == (file is None):
        raise Failure("say NAME and one of --before, --before-datetime and --all; or --file", USAGE)
    named = None if file is None else offsets_in(file)
    with cluster(bootstrap, data) as connected:
        if named is not None:
            cut = named
        else:
            chosen = _chosen(connected, topic or "", partition)
            cut = _cut_at(connected, chosen, before, before_date)
        starts = connected.offsets(list(cut), EARLIEST)
        ends = connected.offsets(list(cut), LATEST)
        until = {tp: ends[tp].offset if at < 0 else at for tp, at in cut.items()}
        count = sum(
            max(min(at, ends[tp].offset) - starts[tp].offset, 0) for tp, at in until.items()
        )
        answer: dict[TopicPartition, int | KafkaError] = {}
        if not dry_run:
            confirm(f"Delete {counted(count, 'record')} of {counted(len(cut), 'partition')}?", yes)
            answer = connected.call(delete_records(connected.client, cut))
    rows = []
    table = table_of(
        f"{counted(count, 'record')} would be deleted" if dry_run else None,
        "partition", "start", "delete before", "end", "outcome", right=("start", "end"),
    )  # fmt: skip
    for tp, at in until.items():
        row = _row(tp, starts[tp].offset, at, ends[tp].offset, answer.get(tp))
        rows.append(row)
        table.add_row(*map(str, row.values()))
    show(as_json, rows, table)
    if any(isinstance(outcome, KafkaError) for outcome in answer.values()):
        raise typer.Exit(1)


def offsets_in(file: Path) -> dict[TopicPartition, int]:
    """Raises `Failure`."""
    try:
        document = json.loads(file.read_text())
        return {
            TopicPartition(str(entry["topic"]), int(entry["partition"])): int(entry["offset"])
            for entry in document["partitions"]
        }
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise Failure(f"{file} names no offsets: {error}", USAGE) from error


def _chosen(connected: Connected, topic: str, only: list[int]) -> list[TopicPartition]:
    view: TopicMetadata = connected.topic(topic)
    for index in only:
        if index not in view.partitions:
            raise Failure(f"there is no partition {index} of {topic}")
    return [TopicPartition(topic, index) for index in sorted(only or view.partitions)]


def _cut_at(
    connected: Connected, partitions: list[TopicPartition], before: int | None, date: str | None
) -> dict[TopicPartition, int]:
    """The first offset to keep of each; -1 is the end. Raises `Failure`."""
    if date is None:
        return dict.fromkeys(partitions, -1 if before is None else before)
    try:
        found = connected.offsets(partitions, parse_date(date))
    except ValueError as error:
        raise Failure(str(error), USAGE) from error
    return {tp: at.offset for tp, at in found.items()}


def _row(
    tp: TopicPartition, start: int, until: int, end: int, answer: int | KafkaError | None
) -> dict[str, Any]:
    if isinstance(answer, KafkaError):
        outcome = sentence(answer)
        if until > end:
            outcome += f": the log ends at {end}"
    elif answer is None:
        outcome = "would begin there" if start < until <= end else "nothing would be deleted"
    else:
        outcome = f"begins at {answer}"
    return {"partition": str(tp), "start": start, "before": until, "end": end, "outcome": outcome}
