"""``barnabas topics``: creates, lists and describes topics; `commands.topic_changes` changes them."""

from __future__ import annotations

from typing import Any, NamedTuple

import typer

from barnabas.cli.commands import topic_changes
from barnabas.cli.connection.connect import USAGE, AsJson, Bootstrap, Data, cluster, show, table_of
from barnabas.cli.connection.controller_events import states_of
from barnabas.cli.failure import Failure
from barnabas.cli.measures.partition_figures import PartitionFigures, measure
from barnabas.cli.measures.topic_figures import (
    COLUMNS,
    PROBLEMS,
    cells,
    figures_of_partition,
    figures_of_topic,
    headings,
    problems_of,
)
from barnabas.cli.measures.topic_settings import OF_TOPIC, min_isr_of, settings_of_topics
from barnabas.cli.plain_text import say
from barnabas.cli.reports.partition_history import (
    history_of,
    lines_of,
    topics_going,
)
from barnabas.cli.watching import watched
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


Sizes = typer.Option(
    False, "--sizes", "--wide", help="With records and bytes, of the leader and of all replicas."
)
Rates = typer.Option(False, "--rates", help="With records and bytes per second, by two looks.")
Sample = typer.Option(
    2.0, "--sample", min=0.1, metavar="SECONDS", help="Between the two looks of --rates."
)


@app.command("list")
@watched
def list_(
    internal: bool = typer.Option(False, help="Include internal topics."),
    sizes: bool = Sizes,
    rates: bool = Rates,
    sample: float = Sample,
    bootstrap: Bootstrap = None,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """All topics with their number of partitions, replication factor and state."""
    with cluster(bootstrap, data) as connected:
        views = [view for view in connected.topics() if internal or not view.internal]
        figures = None
        if sizes or rates:
            figures = measure(connected, views, sample if rates else None)
    shown = headings(sizes, rates)
    titles = [COLUMNS[name][0] for name in shown]
    table = table_of(
        None, "topic", "partitions", "replicas", "state", "under-replicated", "offline", *titles,
        right=("partitions", "replicas", "under-replicated", "offline", *titles),
    )  # fmt: skip
    rows = [summary(view) | figures_of_topic(view, figures) for view in views]
    for row in rows:
        table.add_row(
            row["name"], str(row["partitions"]), str(row["replication_factor"]), row["state"],
            str(row["under_replicated"]), str(row["offline"]), *cells(row, shown),
        )  # fmt: skip
    show(as_json, rows, table)


@app.command()
@watched
def describe(
    names: list[str] = typer.Argument(None, metavar="[NAME...]", help="Default: every topic."),
    partition: int | None = typer.Option(None, "--partition", "-p", help="Only this partition."),
    internal: bool = typer.Option(False, help="Without names: include internal topics."),
    offsets: bool = typer.Option(False, help="With start and end offset of each partition."),
    sizes: bool = Sizes,
    rates: bool = Rates,
    sample: float = Sample,
    under_replicated: bool = typer.Option(
        False, "--under-replicated", "--under-replicated-partitions",
        help="Only partitions that lack a replica in the ISR.",
    ),
    unavailable: bool = typer.Option(
        False, "--unavailable", "--unavailable-partitions", help="Only those without a leader."
    ),
    under_min_isr: bool = typer.Option(
        False, "--under-min-isr", "--under-min-isr-partitions",
        help="Only those with an ISR smaller than min.insync.replicas.",
    ),
    at_min_isr: bool = typer.Option(
        False, "--at-min-isr", "--at-min-isr-partitions",
        help="Only those with an ISR as small as min.insync.replicas.",
    ),
    with_overrides: bool = typer.Option(
        False, "--with-overrides", "--topics-with-overrides",
        help="Only topics with a configuration of their own.",
    ),
    reasons: bool = typer.Option(
        True, help="With the last change of each partition and its reason."
    ),
    states: bool = typer.Option(False, help="With the state of each replica and its reason."),
    bootstrap: Bootstrap = None,
    data: Data = None,
    as_json: AsJson = False,
) -> None:  # fmt: skip
    """The configuration of topics, and state, leader, replicas and ISR of their partitions."""
    wanted = frozenset(
        name
        for name, is_wanted in zip(
            PROBLEMS, (under_replicated, unavailable, under_min_isr, at_min_isr), strict=True
        )
        if is_wanted
    )
    shown = Shown(offsets, reasons, states, headings(sizes, rates))
    with cluster(bootstrap, data) as connected:
        views, going = views_and_going(connected, names or [], internal)
        figures = None
        if sizes or rates:
            figures = measure(connected, views, sample if rates else None)
        choice = Choice(partition, wanted, with_overrides)
        described = _described(connected, views, names or [], choice, shown, figures)
    if as_json:
        gone = [{"name": name, "state": GOING, "partition_list": going[name]} for name in going]
        show(True, [*described, *gone], table_of(None))
    else:
        _show(described, shown)
        for name, rows in going.items():
            say(f"{name} is being deleted")
            for line in lines_of(name, rows, online=True):
                say(line)


class Shown(NamedTuple):
    """The figures that a description has beside state, leader, replicas and ISR."""

    offsets: bool
    reasons: bool
    states: bool
    figures: list[str]


class Choice(NamedTuple):
    """Which topics and partitions are described: those with one of the `problems`, where there are any."""

    partition: int | None
    problems: frozenset[str]
    with_overrides: bool


def _described(
    connected: Connected,
    views: list[TopicMetadata],
    names: list[str],
    choice: Choice,
    shown: Shown,
    figures: PartitionFigures | None,
) -> list[dict[str, Any]]:
    settings = settings_of_topics(connected, [view.name for view in views], None)
    history = history_of(connected, views, names) if shown.reasons and views else None
    described = []
    for view in views:
        own = settings.get(view.name, {})
        topic = summary(view) | figures_of_topic(view, figures)
        topic["configs"] = {key: s.value for key, s in own.items() if s.source == OF_TOPIC}
        topic["min_insync_replicas"] = min_isr_of(settings, view.name)
        rows = partitions_of(connected, view, shown.offsets, choice.partition)
        for row in rows:
            at = view.partitions[row["partition"]]
            row["problems"] = problems_of(at, topic["min_insync_replicas"])
            row |= figures_of_partition(view, row["partition"], figures)
        if choice.problems:
            rows = [row for row in rows if choice.problems.intersection(row["problems"])]
        topic["partition_list"] = rows
        if (choice.problems and not rows) or (choice.with_overrides and not topic["configs"]):
            continue
        if history is not None:
            history.add_to(rows, view)
        described.append(topic)
    return described


def _show(described: list[dict[str, Any]], shown: Shown) -> None:
    """A table for each topic, and below it which replicas are not Online, and why."""
    columns = ["partition", "state", "leader", "epoch", "replicas", "isr"]
    columns += ["start", "end"] if shown.offsets else []
    figures = {name: COLUMNS[name][0] for name in shown.figures}
    columns += shown.figures
    columns += ["last_change"] if shown.reasons else []
    numbers = ("partition", "leader", "epoch", "start", "end", *figures.values())
    for topic in described:
        settings = ", ".join(f"{k}={v}" for k, v in topic["configs"].items())
        title = f"{topic['name']}  id {topic['topic_id']}  {topic['state']}  {settings}".rstrip()
        titles = [figures.get(column, column.replace("_", " ")) for column in columns]
        table = table_of(title, *titles, right=numbers)
        for row in topic["partition_list"]:
            read = {name: COLUMNS[name][1](row[name]) for name in figures}
            table.add_row(*(_cell(column, read.get(column, row[column])) for column in columns))
        show(False, None, table)
        for line in lines_of(topic["name"], topic["partition_list"], online=shown.states):
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
        "under_replicated": sum(len(p.isr) < len(p.replicas) for p in view.partitions.values()),
        "offline": sum(p.leader < 0 for p in view.partitions.values()),
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
