"""``barnabas topics``: creates, lists and describes topics; `commands.topic_changes` changes them."""

from __future__ import annotations

from typing import Any

import typer

from barnabas.cli.commands import topic_changes
from barnabas.cli.connection.connect import USAGE, AsJson, Bootstrap, Data, cluster, show, table_of
from barnabas.cli.connection.controller_events import states_of
from barnabas.cli.failure import Failure
from barnabas.cli.plain_text import say
from barnabas.cli.reports.partition_history import (
    history_of,
    lines_of,
    topics_going,
)
from barnabas.client.admin import TOPIC
from barnabas.client.network.cluster_metadata import TopicMetadata
from barnabas.client.offsets import EARLIEST, LATEST
from barnabas.host.client import Connected
from barnabas.metadata.image import partition_states
from barnabas.types import TopicPartition, is_int32, uuid_text
from barnabas.wire.errors import ErrorCode, KafkaError

GOING = "being deleted"
app = typer.Typer(help="Create, list, describe, change and delete topics.", no_args_is_help=True)


@app.command()
def create(
    names: list[str] = typer.Argument(..., metavar="NAME..."),
    partitions: int = typer.Option(-1, "--partitions", "-p", help="Default: the cluster's."),
    replication_factor: int = typer.Option(-1, "--replication-factor", "-r"),
    replica_assignment: str = typer.Option(
        "",
        metavar="ID:ID,ID:ID,...",
        help="Brokers of each partition by hand, in order; the first of each leads.",
    ),
    config: list[str] = typer.Option([], "--config", "-c", metavar="KEY=VALUE"),
    if_not_exists: bool = typer.Option(False, help="A topic that exists is no failure."),
    bootstrap: Bootstrap = None,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Create topics."""
    configs = parse_configs(config)
    assignments = parse_assignments(replica_assignment)
    if assignments and max(partitions, replication_factor) >= 0:
        raise Failure(
            "--replica-assignment determines the number of partitions and replicas: leave out"
            " --partitions and --replication-factor",
            USAGE,
        )
    created: list[dict[str, Any]] = []
    with cluster(bootstrap, data) as connected:
        known = {view.name for view in connected.topics()} if if_not_exists else set()
        for name in names:
            if name in known:
                continue
            outcome = connected.create_topic(
                name, partitions, replication_factor, configs, assignments
            )
            created.append(
                {
                    "name": name,
                    "topic_id": uuid_text(outcome.topic_id),
                    "partitions": outcome.partitions,
                    "replication_factor": outcome.replication_factor,
                }
            )
    table = table_of(None, "created", "id", "partitions", "replicas")
    for row in created:
        table.add_row(*map(str, row.values()))
    show(as_json, created, table)


def parse_assignments(text: str) -> dict[int, list[int]]:
    """Parse ``1:2,2:3``, the brokers of each partition, as in Kafka's tool. Raises `Failure`."""
    partitions = text.split(",") if text else []
    brokers = [[word.strip() for word in partition.split(":")] for partition in partitions]
    if not all(is_int32(word) for words in brokers for word in words):
        raise Failure(f"--replica-assignment takes ID:ID,ID:ID,..., not {text!r}", USAGE)
    return {index: [int(word) for word in words] for index, words in enumerate(brokers)}


@app.command("list")
def list_(
    internal: bool = typer.Option(False, help="Include internal topics."),
    bootstrap: Bootstrap = None,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """All topics with their number of partitions, replication factor and state."""
    with cluster(bootstrap, data) as connected:
        views = [view for view in connected.topics() if internal or not view.internal]
    table = table_of(None, "topic", "partitions", "replicas", "state", right=("partitions",))
    for view in views:
        table.add_row(view.name, str(len(view.partitions)), str(replicas_of(view)), state_of(view))
    show(as_json, [summary(view) for view in views], table)


@app.command()
def describe(
    names: list[str] = typer.Argument(None, metavar="[NAME...]", help="Default: every topic."),
    partition: int | None = typer.Option(None, "--partition", "-p", help="Only this partition."),
    internal: bool = typer.Option(False, help="Without names: include internal topics."),
    offsets: bool = typer.Option(False, help="With start and end offset of each partition."),
    reasons: bool = typer.Option(
        True, help="With the last change of each partition and its reason."
    ),
    states: bool = typer.Option(False, help="With the state of each replica and its reason."),
    bootstrap: Bootstrap = None,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """The configuration of topics, and state, leader, replicas and ISR of their partitions."""
    described = []
    with cluster(bootstrap, data) as connected:
        views, going = views_and_going(connected, names or [], internal)
        history = history_of(connected, views, names) if reasons and views else None
        for view in views:
            topic = summary(view)
            topic["configs"] = configs_of(connected, view.name)
            topic["partition_list"] = partitions_of(connected, view, offsets, partition)
            if history is not None:
                history.add_to(topic["partition_list"], view)
            described.append(topic)
    if as_json:
        gone = [{"name": name, "state": GOING, "partition_list": going[name]} for name in going]
        show(True, [*described, *gone], table_of(None))
    else:
        _show(described, offsets, reasons, states)
        for name, rows in going.items():
            say(f"{name} is being deleted")
            for line in lines_of(name, rows, online=True):
                say(line)


def _show(described: list[dict[str, Any]], offsets: bool, reasons: bool, states: bool) -> None:
    """A table for each topic, and below it which replicas are not Online, and why."""
    columns = ["partition", "state", "leader", "epoch", "replicas", "isr"]
    columns += ["start", "end"] if offsets else []
    columns += ["last_change"] if reasons else []
    for topic in described:
        settings = ", ".join(f"{k}={v}" for k, v in topic["configs"].items())
        title = f"{topic['name']}  id {topic['topic_id']}  {topic['state']}  {settings}".rstrip()
        headings = [column.replace("_", " ") for column in columns]
        table = table_of(title, *headings, right=("partition", "leader", "epoch", "start", "end"))
        for row in topic["partition_list"]:
            table.add_row(*(_cell(column, row[column]) for column in columns))
        show(False, None, table)
        for line in lines_of(topic["name"], topic["partition_list"], online=states):
            say(line)


app.command()(topic_changes.alter)
app.command()(topic_changes.delete)
app.command("delete-records")(topic_changes.remove_records)


def parse_configs(given: list[str]) -> dict[str, str | None]:
    """Parse items of the form ``KEY=VALUE``. Raises `Failure`."""
    configs: dict[str, str | None] = {}
    for item in given:
        key, equals, value = item.partition("=")
        if not equals or not key:
            raise Failure(f"a configuration is KEY=VALUE, not {item!r}", USAGE)
        configs[key] = value
    return configs


def views_of(connected: Connected, names: list[str], internal: bool) -> list[TopicMetadata]:
    """The topics of these names, or all. Raises `KafkaError` for one that does not exist."""
    if names:
        return connected.call(connected.admin.describe_topics(names))
    return [view for view in connected.topics() if internal or not view.internal]


def views_and_going(
    connected: Connected, names: list[str], internal: bool
) -> tuple[list[TopicMetadata], dict[str, list[dict[str, Any]]]]:
    """The views of `views_of`, and beside them the partitions of `names` that are being deleted
    (ZooKeeper mode)."""
    try:
        return views_of(connected, names, internal), {}
    except KafkaError as error:
        if error.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION or not names:
            raise
        going = topics_going(states_of(connected, names))
        left = [name for name in names if name not in going]
        if not going:
            raise
    return views_of(connected, left, internal) if left else [], going


def summary(view: TopicMetadata) -> dict[str, Any]:
    return {
        "name": view.name,
        "topic_id": uuid_text(view.topic_id),
        "internal": view.internal,
        "partitions": len(view.partitions),
        "replication_factor": replicas_of(view),
        "state": state_of(view),
    }


def replicas_of(view: TopicMetadata) -> int:
    return max((len(p.replicas) for p in view.partitions.values()), default=0)


def state_of(view: TopicMetadata) -> str:
    """The worst state among the topic's partitions: offline, under-replicated or healthy."""
    partitions = view.partitions.values()
    if any(p.leader < 0 for p in partitions):
        return "offline"
    if any(len(p.isr) < len(p.replicas) for p in partitions):
        return "under-replicated"
    return "healthy"


def configs_of(connected: Connected, name: str) -> dict[str, str | None]:
    """The configurations that are set on the topic itself."""
    entries = connected.call(connected.admin.describe_configs(TOPIC, name))
    return {e.name: e.value for e in entries if e.source == 1}


def partitions_of(
    connected: Connected, view: TopicMetadata, offsets: bool, only: int | None = None
) -> list[dict[str, Any]]:
    """One row per partition; with `offsets` also its start and end, None if it has no leader. Raises
    `Failure` if partition `only` does not exist."""
    rows = []
    indexes = sorted(view.partitions) if only is None else [only]
    if only is not None and only not in view.partitions:
        there = f"partitions 0 to {max(view.partitions, default=0)}"
        raise Failure(f"topic {view.name} has {there}, no partition {only}")
    partitions = [TopicPartition(view.name, index) for index in indexes]
    # A request about a partition without a leader would wait for its time-out.
    led = [tp for tp in partitions if offsets and view.partitions[tp.partition].leader >= 0]
    starts = connected.offsets(led, EARLIEST) if led else {}
    ends = connected.offsets(led, LATEST) if led else {}
    for tp in partitions:
        partition = view.partitions[tp.partition]
        row: dict[str, Any] = {
            "partition": tp.partition,
            "state": partition_states.state_of(partition.leader, partition.leader_epoch),
            "leader": partition.leader,
            "epoch": partition.leader_epoch,
            "replicas": list(partition.replicas),
            "isr": list(partition.isr),
        }
        if offsets:
            row["start"] = starts[tp].offset if tp in starts else None
            row["end"] = ends[tp].offset if tp in ends else None
        rows.append(row)
    return rows


def _cell(column: str, value: Any) -> str:
    if value is None:
        return "not known any more" if column == "last_change" else "-"
    if isinstance(value, dict):
        return f"{value['what']}: {value['reason']}" if value["reason"] else str(value["what"])
    return ",".join(map(str, value)) if isinstance(value, list) else str(value)
