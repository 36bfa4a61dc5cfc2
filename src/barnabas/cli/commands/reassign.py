"""``barnabas reassign``: plan, execute, watch and cancel moving replicas (KIP-455).

A plan is a file in the form of Apache Kafka's ``kafka-reassign-partitions``: ``{"version": 1, "partitions":
[{"topic", "partition", "replicas"}]}``, so either tool executes what the other planned. Nothing is
moved before `execute`; a reassignment under way is the cluster's own and survives this command.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import typer

from barnabas.cli.connection.connect import USAGE, AsJson, Bootstrap, Data, cluster, show, table_of
from barnabas.cli.failure import Failure
from barnabas.cli.plain_text import say
from barnabas.cli.reassignment import reassignment_throttle as throttling
from barnabas.cli.reassignment.reassignment_plans import (
    Assignment,
    balance,
    drain,
    moved_replicas,
    with_factor,
)
from barnabas.cli.reassignment.reassignment_progress import (
    Estimate,
    Ongoing,
    check,
    estimate,
    ongoing,
    placed,
    under_way,
    waiting_for,
    watch,
)
from barnabas.cli.watching import watched
from barnabas.client.network.connection import ChannelError
from barnabas.host.client import Connected
from barnabas.types import TopicPartition, by_topic
from barnabas.wire.errors import KafkaError, code_of
from barnabas.wire.messages.alter_partition_reassignments_request import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from barnabas.wire.messages.describe_log_dirs_request import DescribeLogDirsRequest

app = typer.Typer(help="Move replicas between brokers.", no_args_is_help=True)
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
        present = placed(connected, topic)
        racks, closed = takers(connected)
    assignment = {partition: state.target for partition, state in present.items()}
    _check_known(leaving, racks, assignment)
    try:
        if leaving:
            planned = drain(assignment, racks, leaving, closed)
        elif even:
            planned = balance(assignment, racks, closed)
        else:
            planned = with_factor(assignment, racks, factor, closed)
    except ValueError as error:
        raise Failure(str(error)) from error
    moving = sum(state.is_moving for state in present.values())
    if moving:
        say(f"{moving} partitions are on the way: planned from where they go", err=True)
    text = json.dumps(_document(planned), indent=1)
    if out is not None:
        _write(out, text)
    table = table_of(
        f"{len(planned)} of {len(assignment)} partitions change,"
        f" {moved_replicas({p: s.replicas for p, s in present.items()}, planned)} replicas are copied",
        "partition", "now", "then",
    )  # fmt: skip
    for partition in sorted(planned):
        table.add_row(str(partition), _list(assignment[partition]), _list(planned[partition]))
    if as_json or (out is None and not sys.stdout.isatty()):
        say(text)
    else:
        show(False, None, table)


@app.command()
def execute(
    file: Path = PlanFile,
    dry_run: bool = typer.Option(False, help="Say what would be asked, and ask nothing."),
    wait: bool = typer.Option(
        False, help="Stay until it is done, with its progress; then lift the throttle."
    ),
    throttle: str = typer.Option(
        "", "--throttle", metavar="BYTES/S", help="Copy no faster on any broker, as 50M."
    ),
    bootstrap: Bootstrap = None,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Ask the cluster to carry a plan out."""
    wanted = read_plan(file)
    rate = throttling.parse_rate(throttle) if throttle else None
    with cluster(bootstrap, data) as connected:
        present = placed(connected, sorted({p.topic for p in wanted}))
        missing = sorted(str(p) for p in wanted if p not in present)
        if missing:
            raise Failure(f"the plan names what does not exist: {', '.join(missing)}")
        changed: Wanted = {p: r for p, r in wanted.items() if r != present[p].target}
        going: Wanted = {
            p: r for p, r in wanted.items() if p not in changed and present[p].is_moving
        }
        if rate is not None and not dry_run:
            targets = {p: (present[p], r) for p, r in changed.items()}
            throttling.throttle(connected, throttling.moves_of(under_way(connected), targets), rate)
        refused = {} if dry_run else ask_for(connected, changed)
        _print_result(as_json, "would move" if dry_run else "asked", changed, refused, going)
        if wait and not dry_run:
            watch(connected, [p for p in (*changed, *going) if p not in refused], as_json=as_json)
            if rate is not None and not under_way(connected):
                throttling.lift(connected)
    if refused:
        raise typer.Exit(1)


@app.command("throttle")
def change_throttle(
    rate: str = typer.Argument("", metavar="[BYTES/S]", help="As 50M."),
    remove: bool = typer.Option(False, "--remove", help="Copy as fast as it goes."),
    bootstrap: Bootstrap = None,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Change how fast the reassignments under way copy, or lift the throttle; else tell it."""
    if rate and remove:
        raise Failure("say a rate or --remove, not both", USAGE)
    with cluster(bootstrap, data) as connected:
        if remove:
            throttling.lift(connected)
        elif rate:
            moves = throttling.moves_of(under_way(connected), {})
            if not moves:
                raise Failure("nothing is being moved")
            throttling.throttle(connected, moves, throttling.parse_rate(rate))
        rates = throttling.rates_in_force(connected)
    table = table_of(None, "broker", "bytes/s", right=("broker", "bytes/s"))
    for broker, value in sorted(rates.items()):
        table.add_row(str(broker), str(value))
    show(as_json, rates, table)


@app.command()
@watched
def status(
    topic: list[str] = typer.Option([], "--topic", "-t", help="Only these; may be repeated."),
    wait: bool = typer.Option(False, help="Stay until nothing is under way."),
    bootstrap: Bootstrap = None,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Show what is being moved, how far it is, and when it will be done."""
    with cluster(bootstrap, data) as connected:
        rows = ongoing(connected, topic)
        if wait:
            watch(connected, [row.partition for row in rows], as_json=as_json)
            rows = ongoing(connected, topic)
        rates = throttling.rates_in_force(connected)
        estimated = estimate(connected, topic, rows, rates)
    title = _title(estimated, rows, rates) if rows else "nothing is under way" + _throttled(rates)
    table = table_of(
        title, "partition", "replicas", "adding", "removing", "caught up", "bytes left",
        "waits for", right=("bytes left",),
    )  # fmt: skip
    for row in rows:
        table.add_row(
            str(row.partition), _list(row.replicas), _list(row.adding), _list(row.removing),
            f"{len(row.caught_up)}/{len(row.adding)}", str(row.bytes_left), row.waits_for or "",
        )  # fmt: skip
    show(as_json, [row.as_dict() for row in rows], table)


def _title(estimated: Estimate, rows: list[Ongoing], rates: dict[int, int]) -> str:
    when = "nothing moves now"
    if estimated.seconds_left is not None:
        when = f"about {estimated.seconds_left:.0f} s left"
    speed = f"{estimated.bytes_left} bytes left, {estimated.rate / 1e6:.1f} MB/s, {when}"
    return "; ".join([speed, *waiting_for(rows)]) + _throttled(rates)


def _throttled(rates: dict[int, int]) -> str:
    """A hint: a throttle that outlives its reassignment slows the next one down."""
    return f"; throttled to {min(rates.values())} bytes/s" if rates else ""


@app.command()
def cancel(
    file: Path | None = typer.Argument(None, metavar="[FILE]", help="Of this plan only."),
    topic: list[str] = typer.Option([], "--topic", "-t", help="Only these; may be repeated."),
    dry_run: bool = typer.Option(False, help="Say what would be asked, and ask nothing."),
    preserve_throttles: bool = typer.Option(
        False, "--preserve-throttles", help="Leave the throttle as it is."
    ),
    bootstrap: Bootstrap = None,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Go back to where each reassignment began; lift the throttle once nothing is moved any more."""
    with cluster(bootstrap, data) as connected:
        under_way = [row.partition for row in ongoing(connected, topic, sizes=False)]
        named = None if file is None else read_plan(file)
        chosen: Wanted = {p: None for p in under_way if named is None or p in named}
        refused = {} if dry_run else ask_for(connected, chosen)
        _print_result(as_json, "would cancel" if dry_run else "cancelled", chosen, refused)
        if not dry_run:
            _after_cancel(connected, preserve_throttles)
    if refused:
        raise typer.Exit(1)


def _after_cancel(connected: Connected, preserve_throttles: bool) -> None:
    """Remove throttles that were set for it, unless others are still under way. Says what stays and how
    it goes."""
    if not throttling.is_throttled(connected):
        return
    if preserve_throttles or under_way(connected):
        why = "it was asked for" if preserve_throttles else "others are still being moved"
        say(
            f"the throttle stays, since {why}; `barnabas reassign throttle --remove` lifts it",
            err=True,
        )
        return
    throttling.lift(connected)
    say("the throttle is lifted", err=True)


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


def _write(file: Path, text: str) -> None:
    try:
        file.write_text(text + "\n")
    except OSError as error:
        raise Failure(f"{file} cannot be written: {error.strerror}", USAGE) from error


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


def takers(connected: Connected) -> tuple[dict[int, str | None], set[int]]:
    """The racks of all brokers, and those that take no replica: fenced, or wholly cordoned (KIP-1066)."""
    brokers = connected.describe_cluster().brokers
    closed = {
        broker.node_id
        for broker in brokers
        if broker.fenced or _is_cordoned(connected, broker.node_id)
    }
    return {broker.node_id: broker.rack for broker in brokers}, closed


def _is_cordoned(connected: Connected, broker: int) -> bool:
    """Every log directory that is online takes no new replicas, as the broker says itself."""
    try:
        request = DescribeLogDirsRequest(topics=[])
        answer = connected.call(
            connected.client.ask_node(broker, request, timeout_ms=throttling.REQUEST_TIMEOUT_MS)
        )
    except (ChannelError, KafkaError):
        return False
    online = [directory for directory in answer.results if not directory.error_code]
    return bool(online) and all(directory.is_cordoned for directory in online)


def _check_known(
    leaving: list[int], racks: Mapping[int, str | None], assignment: Assignment
) -> None:
    """Raises `Failure` for brokers that are not registered and hold nothing either."""
    holders = {broker for replicas in assignment.values() for broker in replicas}
    strangers = sorted(set(leaving) - set(racks) - holders)
    if strangers:
        raise Failure(f"there is no broker {_list(strangers)}: the brokers are {_list(racks)}")


def ask_for(connected: Connected, wanted: Wanted) -> dict[TopicPartition, KafkaError]:
    """Ask; the refusals by partition."""
    if not wanted:
        return {}
    topics = by_topic(
        (
            partition.topic,
            ReassignablePartition(
                partition_index=partition.partition,
                replicas=None if replicas is None else list(replicas),
            ),
        )
        for partition, replicas in sorted(wanted.items(), key=lambda item: item[0])
    )

    def request() -> AlterPartitionReassignmentsRequest:
        return AlterPartitionReassignmentsRequest(
            topics=[ReassignableTopic(name=n, partitions=p) for n, p in topics.items()]
        )

    answer = connected.call(connected.client.ask_any(request, check))
    return {
        TopicPartition(topic.name, one.partition_index): KafkaError(
            code_of(one.error_code), one.error_message or ""
        )
        for topic in answer.responses
        for one in topic.partitions
        if one.error_code
    }


def _print_result(
    as_json: bool,
    verb: str,
    wanted: Wanted,
    refused: dict[TopicPartition, KafkaError],
    going: Wanted | None = None,
) -> None:
    """`going`: what need not be asked, since it is on its way already."""
    reported = sorted({**(going or {}), **wanted}.items(), key=lambda item: item[0])
    rows = [
        {
            "partition": str(partition),
            "replicas": None if replicas is None else list(replicas),
            "refused": str(refused[partition]) if partition in refused else None,
        }
        for partition, replicas in reported
    ]
    table = table_of(None, "partition", "replicas", "outcome")
    for partition, replicas in reported:
        outcome = verb if partition in wanted else "is on its way already"
        if partition in refused:
            outcome = str(refused[partition])
        table.add_row(str(partition), _list(replicas or ()), outcome)
    show(as_json, rows, table)
