"""``barnabas leaders``: elections that an operator asks for, as ``kafka-leader-election`` does (KIP-460).

A preferred election gives a partition back to its first replica where that is in the ISR. An unclean one
gives a partition without a leader to a replica outside of the ISR, which loses what that one lacks.
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
from barnabas.client.network.cluster_metadata import TopicMetadata
from barnabas.client.operations import PREFERRED, UNCLEAN, elect
from barnabas.host.client import Connected
from barnabas.types import TopicPartition
from barnabas.wire.errors import ErrorCode, KafkaError

KINDS = {"preferred": PREFERRED, "unclean": UNCLEAN}

app = typer.Typer(help="Elections of partitions' leaders.", no_args_is_help=True)


@app.callback()
def group() -> None:
    """Elections of partitions' leaders."""


@app.command("elect")
def elect_leaders(
    kind: str = typer.Option(
        "preferred", "--type", "--election-type", help="preferred or unclean."
    ),
    topic: list[str] = typer.Option([], "--topic", "-t", help="May be repeated."),
    partition: list[int] = typer.Option([], "--partition", "-p", help="Of the one topic."),
    file: Path | None = typer.Option(
        None, "--file", "--path-to-json-file", help='{"partitions": [{"topic", "partition"}]}'
    ),
    every: bool = typer.Option(False, "--all", "--all-topic-partitions", help="Of all topics."),
    yes: bool = Yes,
    dry_run: bool = DryRun,
    bootstrap: Bootstrap = None,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Elect leaders; those left alone are listed with the reason."""
    number = KINDS.get(kind.lower())
    if number is None:
        raise Failure(f"--type is preferred or unclean, not {kind!r}", USAGE)
    if sum([bool(topic), file is not None, every]) != 1 or (partition and len(topic) != 1):
        raise Failure("say --topic NAME [--partition N], --file FILE or --all", USAGE)
    with cluster(bootstrap, data) as connected:
        before = {view.name: view for view in connected.topics()}
        chosen = _chosen(before, topic, partition, file)
        due = [tp for tp in chosen if why_no_election(before, tp, number) is None]
        if number == UNCLEAN and due and not dry_run:
            lost = ", ".join(map(str, due))
            confirm(f"Elect replicas outside of the ISR for {lost}? Records may be lost.", yes)
        outcomes = _predicted(before, chosen, number)
        if not dry_run and due:
            answer = connected.call(elect(connected.client, number, due))
            outcomes.update(_outcomes_of(connected, before, answer))
    table = table_of(None, "partition", "leader", "outcome")
    for row in outcomes.values():
        if not every or row["partition"] in map(str, due):
            table.add_row(row["partition"], str(row["leader"]), row["outcome"])
    alone = len(outcomes) - len(due)
    if every and alone:
        table.add_row(f"{alone} others", "", "no election was needed")
    show(as_json, list(outcomes.values()), table)
    if any(row["refused"] for row in outcomes.values()):
        raise typer.Exit(1)


def _chosen(
    known: dict[str, TopicMetadata], topics: list[str], only: list[int], file: Path | None
) -> list[TopicPartition]:
    """Raises `Failure`."""
    if file is not None:
        return partitions_in(file)
    chosen = []
    for name in topics or sorted(known):
        if name not in known:
            raise Failure(f"there is no topic {name}")
        chosen += [TopicPartition(name, index) for index in only or sorted(known[name].partitions)]
    return chosen


def partitions_in(file: Path) -> list[TopicPartition]:
    """The partitions in a file in the form of Kafka's tool. Raises `Failure`."""
    try:
        document = json.loads(file.read_text())
        found = {
            TopicPartition(str(entry["topic"]), int(entry["partition"]))
            for entry in document["partitions"]
        }
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise Failure(f"{file} names no partitions: {error}", USAGE) from error
    return sorted(found)


def why_no_election(known: dict[str, TopicMetadata], tp: TopicPartition, kind: int) -> str | None:
    """Why no election is due, as far as the metadata say."""
    view = known.get(tp.topic)
    at = None if view is None else view.partitions.get(tp.partition)
    if at is None:
        return None  # the controller says it
    if kind == PREFERRED and at.leader == at.replicas[0]:
        return f"the preferred replica {at.leader} leads already"
    if kind == UNCLEAN and at.leader >= 0:
        return (
            f"broker {at.leader} leads it: an unclean election is for partitions without a leader"
        )
    return None


def _predicted(
    known: dict[str, TopicMetadata], chosen: list[TopicPartition], kind: int
) -> dict[TopicPartition, dict[str, Any]]:
    rows = {}
    for tp in chosen:
        view = known.get(tp.topic)
        at = None if view is None else view.partitions.get(tp.partition)
        outcome = why_no_election(known, tp, kind)
        if outcome is None and at is not None:
            wanted = at.replicas[0] if kind == PREFERRED else "one of " + str(list(at.replicas))
            outcome = f"would be given to {wanted}; now {at.leader}, ISR {list(at.isr)}"
        rows[tp] = _row(tp, at.leader if at else -1, outcome or "there is no such partition", False)
    return rows


def _outcomes_of(
    connected: Connected,
    before: dict[str, TopicMetadata],
    answer: dict[TopicPartition, KafkaError | None],
) -> dict[TopicPartition, dict[str, Any]]:
    """The outcome of the elections. The broker that is asked may hear of one a moment later, so the leader
    named is the one that the metadata say now."""
    names = sorted({tp.topic for tp in answer if tp.topic in before})
    views = connected.call(connected.admin.describe_topics(names)) if names else []
    now = {view.name: view for view in views}
    rows = {}
    for tp, error in answer.items():
        view = now.get(tp.topic)
        at = None if view is None else view.partitions.get(tp.partition)
        needed = error is not None and error.code is not ErrorCode.ELECTION_NOT_NEEDED
        outcome = "elected" if error is None else sentence(error)
        rows[tp] = _row(tp, at.leader if at else -1, outcome, needed)
    return rows


def _row(tp: TopicPartition, leader: int, outcome: str, refused: bool) -> dict[str, Any]:
    return {"partition": str(tp), "leader": leader, "outcome": outcome, "refused": refused}
