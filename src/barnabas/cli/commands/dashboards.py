"""``barnabas dashboards``: boards for Grafana and alert rules for Prometheus, made of the metrics' table."""

from __future__ import annotations

import json
from pathlib import Path

import typer

from barnabas.cli.connection.connect import AsJson, answer
from barnabas.cli.failure import Failure
from barnabas.monitoring.boards.alerts import RUNBOOK, rules_text
from barnabas.monitoring.boards.boards import BOARDS
from barnabas.monitoring.boards.panels import board_json

RULES_FILE = "barnabas.rules.yml"
app = typer.Typer(help="Boards and alert rules for the metrics of nodes.", no_args_is_help=True)


@app.callback()
def dashboards() -> None:
    """Boards and alert rules for the metrics of nodes."""


@app.command()
def write(
    directory: Path = typer.Argument(..., metavar="DIR", help="Made where it is missing."),
    runbook: str = typer.Option(
        RUNBOOK, metavar="URL", help="Where docs/troubleshooting.md is, for the links of alerts."
    ),
    as_json: AsJson = False,
) -> None:
    """Write boards for Grafana (cluster, topics, groups, quorum, transactions, Spark) and a file of alert
    rules for Prometheus; files of these names are replaced."""
    files = {
        f"barnabas-{board.name}.json": json.dumps(board_json(board), indent=2) + "\n"
        for board in BOARDS
    }
    files[RULES_FILE] = rules_text(runbook)
    try:
        directory.mkdir(parents=True, exist_ok=True)
        for name, text in files.items():
            (directory / name).write_text(text, encoding="utf-8")
    except OSError as error:
        raise Failure(f"{error.filename} cannot be written: {error.strerror}") from error
    written = [str(directory / name) for name in files]
    answer(as_json, written, *written)
