"""``barnabas quorum``: the metadata quorum as its leader sees it, and who votes in it."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterable
from typing import Any

import typer
from rich.table import Table

from barnabas.cli.commands import voters
from barnabas.cli.commands.dynamic_voters import make_dynamic
from barnabas.cli.connection.connect import USAGE, AsJson, Bootstrap, Data, show, table_of
from barnabas.cli.connection.quorum_client import Controllers, quorum_client
from barnabas.cli.failure import Failure
from barnabas.cli.moments import ago
from barnabas.cli.plain_text import say
from barnabas.cli.reports.quorum_view import QuorumView, ReplicaRow, metrics_of, view_of
from barnabas.cli.watching import watched

app = typer.Typer(help="The quorum that holds the cluster's metadata.", no_args_is_help=True)

app.command("add-controller")(voters.add_controller)
app.command("remove-controller")(voters.remove_controller)
app.command("make-dynamic")(make_dynamic)
app.command("recover")(voters.recover_quorum)

NUMBERS = ("LogEndOffset", "Lag", "LastFetchTimestamp", "LastCaughtUpTimestamp")
COLUMNS = ("NodeId", "DirectoryId", *NUMBERS, "Status")


@app.callback()
def group() -> None:
    """The quorum that holds the cluster's metadata."""


@app.command()
@watched
def describe(
    status: bool = typer.Option(False, "--status", help="Leader, epoch, lag, who votes."),
    replication: bool = typer.Option(False, "--replication", help="How far each replica is."),
    metrics: bool = typer.Option(False, "--metrics", help="What the leader measures of itself."),
    human: bool = typer.Option(
        True, "--human-readable/--exact", help="How long ago that was, or milliseconds since 1970."
    ),
    bootstrap: Bootstrap = None,
    controllers: Controllers = None,
    data: Data = None,
    as_json: AsJson = False,
    dry_run: bool = typer.Option(
        False, "--dry-run", help="Say what would be asked, and of which nodes; send nothing."
    ),
) -> None:
    """The quorum as its leader sees it, with the figures of kafka-metadata-quorum: its status and how far
    each replica is, where no part is chosen."""
    if status + replication + metrics > 1:
        raise Failure("choose one of --status, --replication and --metrics", USAGE)
    with quorum_client(bootstrap, controllers, data, dry_run=dry_run) as client:
        if dry_run:
            say(client.would_describe())
            return
        response = client.describe(metrics=metrics)
        view = view_of(response, client.cluster_id)
    if metrics:
        reported = metrics_of(response)
        show(as_json, reported, _pairs((name, str(value)) for name, value in reported.items()))
    elif as_json:
        rows = [dataclasses.asdict(row) for row in view.replicas]
        show(True, rows if replication else _as_json(view, status), table_of(None))
    else:
        if not replication:
            show(False, None, _pairs(view.status()))
        if not status:
            show(False, None, _progress(view, human))


def _pairs(lines: Iterable[tuple[str, str]]) -> Table:
    """A name and a value per line."""
    table = table_of(None, "", "")
    table.show_header = False
    for name, value in lines:
        table.add_row(f"{name}:" if name else "", value)
    return table


def _as_json(view: QuorumView, status_only: bool) -> dict[str, Any]:
    reported = dataclasses.asdict(view)
    if status_only:
        for kind in ("voters", "observers"):
            reported[kind] = [
                {name: row[name] for name in ("node_id", "directory_id", "endpoints")}
                for row in reported[kind]
            ]
    return reported


def _progress(view: QuorumView, human: bool) -> Table:
    table = table_of(None, *COLUMNS, right=("NodeId", *NUMBERS))
    now_ms = time.time_ns() // 1_000_000
    for row in view.replicas:
        table.add_row(*_cells(row, now_ms if human else None))
    for column, name in zip(table.columns, COLUMNS, strict=True):
        # Whole, also where that is wider than the terminal: programs read it, too.
        column.min_width = max(len(name), *(len(str(cell)) for cell in column.cells))
    return table


def _cells(row: ReplicaRow, now_ms: int | None) -> tuple[str, ...]:
    return (
        str(row.node_id),
        row.directory_id or "-",
        str(row.log_end_offset),
        str(row.lag),
        _instant(row.last_fetch_timestamp, now_ms),
        _instant(row.last_caught_up_timestamp, now_ms),
        row.status,
    )


def _instant(timestamp: int, now_ms: int | None) -> str:
    """How long before `now_ms` it was, or where that is None the timestamp."""
    return str(timestamp) if now_ms is None else ago(timestamp, now_ms)
