"""``barnabas reassign``: plan, execute, watch and cancel moving replicas (KIP-455).

A plan is a file in the form of Apache Kafka's ``kafka-reassign-partitions``: ``{"version": 1, "partitions":
[{"topic", "partition", "replicas"}]}``, so either tool executes what the other planned. Nothing is
moved before `execute`; a reassignment under way is the cluster's own and survives this command.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from barnabas.cli.failure import Failure
from barnabas.cli.reaching import USAGE, AsJson, Bootstrap, Data, cluster, show, table_of
from barnabas.controller.plans import Assignment, balance, drain, moved_replicas, with_factor
from barnabas.host.client import Connected
from barnabas.types import TopicPartition
from barnabas.wire.errors import KafkaError, code_of
from barnabas.wire.messages.alter_partition_reassignments_request import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from barnabas.wire.messages.list_partition_reassignments_request import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)

app = typer.Typer(help="Move replicas between brokers.", no_args_is_help=True)
POLL_S = 0.5
PlanFile = typer.Argument(..., metavar="FILE", help="A plan; - is standard input.")
Wanted = dict[TopicPartition, tuple[int, ...] | None]
"""The replicas that each partition should have; None cancels."""


@app.command()
def plan(
    drain_: str = typer.Option("", "--drain", metavar="ID,...", help="Empty these brokers."),
    even: bool = typer.Option(False, "--balance", help="Even out replicas and leaders."),
    factor: int = typer.Option(0, "--replication-factor", "-r", help="Change the factor."),
    topic: list[str] = typer.Option([], "--topic", "-t", help="Only these; may be repeated."),
    out: Path | None = typer.Option(None, "--out", "-o", help="Write the plan to a file."),
    bootstrap: Bootstrap = None,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Work out where replicas should go, and move nothing."""
    leaving = _ids(drain_)
    if sum([bool(leaving), even, factor > 0]) != 1:
        raise Failure("say one of --drain, --balance and --replication-factor", USAGE)
    with cluster(bootstrap, data) as connected:
        assignment = _assignment(connected, topic)
        racks = _racks(connected)
    try:
        if leaving:
            planned = drain(assignment, racks, leaving)
        elif even:
            planned = balance(assignment, racks)
        else:
            planned = with_factor(assignment, racks, factor)
    except ValueError as error:
        raise Failure(str(error)) from error
    text = json.dumps(_document(planned), indent=1)
    if out is not None:
        out.write_text(text + "\n")
    table = table_of(
        f"{len(planned)} of {len(assignment)} partitions change,"
        f" {moved_replicas(assignment, planned)} replicas are copied",
        "partition", "now", "then",
    )  # fmt: skip
    for partition in sorted(planned):
        table.add_row(str(partition), _list(assignment[partition]), _list(planned[partition]))
    if as_json or (out is None and not sys.stdout.isatty()):
        typer.echo(text)
    else:
        show(False, None, table)


@app.command()
def execute(
    file: Path = PlanFile,
    dry_run: bool = typer.Option(False, help="Say what would be asked, and ask nothing."),
    wait: bool = typer.Option(False, help="Stay until it is done, with its progress."),
    bootstrap: Bootstrap = None,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Ask the cluster to carry a plan out."""
    wanted = read_plan(file)
    with cluster(bootstrap, data) as connected:
        present = _assignment(connected, sorted({p.topic for p in wanted}))
        missing = sorted(str(p) for p in wanted if p not in present)
        if missing:
            raise Failure(f"the plan names what does not exist: {', '.join(missing)}")
        changed: Wanted = {p: r for p, r in wanted.items() if r != present[p]}
        refused = {} if dry_run else _alter(connected, changed)
        _tell(as_json, "would move" if dry_run else "asked", changed, refused)
        if wait and not dry_run:
            _watch(connected, [p for p in changed if p not in refused])
    if refused:
        raise typer.Exit(1)


@app.command()
def status(
    topic: list[str] = typer.Option([], "--topic", "-t", help="Only these; may be repeated."),
    wait: bool = typer.Option(False, help="Stay until nothing is under way."),
    bootstrap: Bootstrap = None,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """What is being moved, and how far it is."""
    with cluster(bootstrap, data) as connected:
        ongoing = _ongoing(connected, topic)
        if wait:
            _watch(connected, [row["partition"] for row in ongoing])
            ongoing = _ongoing(connected, topic)
    table = table_of(None, "partition", "replicas", "adding", "removing", "caught up")
    for row in ongoing:
        table.add_row(
            str(row["partition"]), _list(row["replicas"]), _list(row["adding"]),
            _list(row["removing"]), f"{len(row['caught_up'])}/{len(row['adding'])}",
        )  # fmt: skip
    shown = [{**row, "partition": str(row["partition"])} for row in ongoing]
    show(as_json, shown, table)


@app.command()
def cancel(
    file: Path | None = typer.Argument(None, metavar="[FILE]", help="Of this plan only."),
    topic: list[str] = typer.Option([], "--topic", "-t", help="Only these; may be repeated."),
    dry_run: bool = typer.Option(False, help="Say what would be asked, and ask nothing."),
    bootstrap: Bootstrap = None,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Go back to where each reassignment began."""
    with cluster(bootstrap, data) as connected:
        under_way = [row["partition"] for row in _ongoing(connected, topic)]
        named = None if file is None else read_plan(file)
        chosen: Wanted = {p: None for p in under_way if named is None or p in named}
        refused = {} if dry_run else _alter(connected, chosen)
        _tell(as_json, "would cancel" if dry_run else "cancelled", chosen, refused)
    if refused:
        raise typer.Exit(1)


# -- plans ---------------------------------------------------------------------------------------


def read_plan(file: Path) -> dict[TopicPartition, tuple[int, ...]]:
    """The plan in a file. Raises `Failure` for what is none."""
    try:
        text = sys.stdin.read() if str(file) == "-" else file.read_text()
        document = json.loads(text)
        wanted = {
            TopicPartition(str(entry["topic"]), int(entry["partition"])): tuple(
                int(broker) for broker in entry["replicas"]
            )
            for entry in document["partitions"]
        }
        if document.get("version") != 1 or not all(wanted.values()):
            raise ValueError("a plan has version 1 and a list of replicas for each partition")
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise Failure(f"{file} is no plan: {error}", USAGE) from error
    return wanted


def _document(planned: Assignment) -> dict[str, Any]:
    return {
        "version": 1,
        "partitions": [
            {"topic": p.topic, "partition": p.partition, "replicas": list(planned[p])}
            for p in sorted(planned)
        ],
    }


def _ids(text: str) -> list[int]:
    try:
        return [int(part) for part in text.split(",") if part.strip()]
    except ValueError:
        raise Failure(f"broker ids are numbers, not {text!r}", USAGE) from None


def _list(brokers: Iterable[int]) -> str:
    return ",".join(map(str, brokers)) or "-"


# -- the cluster ---------------------------------------------------------------------------------


def _assignment(connected: Connected, topics: list[str]) -> Assignment:
    views = (
        connected.call(connected.admin.describe_topics(topics)) if topics else connected.topics()
    )
    return {
        TopicPartition(view.name, index): tuple(view.partitions[index].replicas)
        for view in views
        for index in sorted(view.partitions)
    }


def _racks(connected: Connected) -> dict[int, str | None]:
    described = connected.call(connected.admin.describe_cluster(fenced=False))
    return {broker.node_id: broker.rack for broker in described.brokers if not broker.fenced}


def _alter(connected: Connected, wanted: Wanted) -> dict[TopicPartition, KafkaError]:
    """Ask; the refusals by partition."""
    if not wanted:
        return {}
    by_topic: dict[str, list[ReassignablePartition]] = {}
    for partition, replicas in sorted(wanted.items(), key=lambda item: item[0]):
        by_topic.setdefault(partition.topic, []).append(
            ReassignablePartition(
                partition_index=partition.partition,
                replicas=None if replicas is None else list(replicas),
            )
        )

    def request() -> AlterPartitionReassignmentsRequest:
        return AlterPartitionReassignmentsRequest(
            topics=[ReassignableTopic(name=n, partitions=p) for n, p in by_topic.items()]
        )

    answer = connected.call(connected.client.ask_any(request, _check))
    return {
        TopicPartition(topic.name, one.partition_index): KafkaError(
            code_of(one.error_code), one.error_message or ""
        )
        for topic in answer.responses
        for one in topic.partitions
        if one.error_code
    }


def _check(response: Any) -> None:
    if response.error_code:
        raise KafkaError(code_of(response.error_code), response.error_message or "")


def _ongoing(connected: Connected, topics: list[str]) -> list[dict[str, Any]]:
    """Each reassignment under way, with those added replicas that have caught up."""
    present = _assignment(connected, topics) if topics else {}
    asked = None
    if topics:
        asked = [
            ListPartitionReassignmentsTopics(
                name=name, partition_indexes=[p.partition for p in present if p.topic == name]
            )
            for name in topics
        ]

    def request() -> ListPartitionReassignmentsRequest:
        return ListPartitionReassignmentsRequest(topics=asked)

    answer = connected.call(connected.client.ask_any(request, _check))
    names = [topic.name for topic in answer.topics]
    views = connected.call(connected.admin.describe_topics(names)) if names else []
    isrs = {
        TopicPartition(view.name, index): tuple(state.isr)
        for view in views
        for index, state in view.partitions.items()
    }
    rows = []
    for topic in sorted(answer.topics, key=lambda topic: topic.name):
        for one in topic.partitions:
            at = TopicPartition(topic.name, one.partition_index)
            rows.append(
                {
                    "partition": at,
                    "replicas": list(one.replicas),
                    "adding": list(one.adding_replicas),
                    "removing": list(one.removing_replicas),
                    "caught_up": [b for b in one.adding_replicas if b in isrs.get(at, ())],
                }
            )
    return rows


def _watch(connected: Connected, partitions: list[TopicPartition]) -> None:
    """Stay until none of the partitions is under way; with a bar on a terminal."""
    topics = sorted({partition.topic for partition in partitions})
    columns = (
        TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(),
    )  # fmt: skip
    with Progress(*columns, console=Console(stderr=True), disable=not sys.stderr.isatty()) as bar:
        task = bar.add_task("partitions moved", total=len(partitions))
        while topics:
            left = {row["partition"] for row in _ongoing(connected, topics)} & set(partitions)
            bar.update(task, completed=len(partitions) - len(left))
            if not left:
                return
            time.sleep(POLL_S)


def _tell(
    as_json: bool, verb: str, wanted: Wanted, refused: dict[TopicPartition, KafkaError]
) -> None:
    rows = [
        {
            "partition": str(partition),
            "replicas": None if replicas is None else list(replicas),
            "refused": str(refused[partition]) if partition in refused else None,
        }
        for partition, replicas in sorted(wanted.items(), key=lambda item: item[0])
    ]
    table = table_of(None, "partition", "replicas", "outcome")
    for partition, replicas in sorted(wanted.items(), key=lambda item: item[0]):
        outcome = str(refused[partition]) if partition in refused else verb
        table.add_row(str(partition), _list(replicas or ()), outcome)
    show(as_json, rows, table)
