"""``barnabas transactions``: what producers have under way, and what hangs.

`abort` writes an abort marker in one partition, for a transaction that `find-hanging` has found: its
coordinator does not know of it and will never end it. One that its coordinator will end is refused unless
`--force` says otherwise; ending it here would tear it apart.
"""

from __future__ import annotations

import time
from typing import Any

import typer

from barnabas.cli.connection.connect import (
    REFUSED,
    USAGE,
    AsJson,
    Bootstrap,
    Data,
    cluster,
    show,
    table_of,
)
from barnabas.cli.failure import Failure
from barnabas.cli.moments import date_text
from barnabas.cli.watching import watched
from barnabas.client.transaction_admin import (
    HangingTransaction,
    ProducerView,
    TransactionFilter,
    abort_transaction,
    describe_producers,
    describe_transaction,
    find_hanging,
    list_transactions,
)
from barnabas.host.client import Connected
from barnabas.types import TopicPartition

MINUTE_MS = 60_000
app = typer.Typer(help="List, describe and repair transactions.", no_args_is_help=True)
Topic = typer.Option(None, "--topic", "-t", help="Only this topic.")
Partition = typer.Option(None, "--partition", "-p", help="Only this partition of it.")


@app.command("list")
@watched
def list_(
    state: list[str] = typer.Option([], "--state", help="Only these; may be repeated."),
    producer_id: list[int] = typer.Option([], "--producer-id", help="Likewise."),
    longer_than_ms: int = typer.Option(
        -1, "--duration-filter", metavar="MS", help="Only those under way for longer."
    ),
    pattern: str | None = typer.Option(
        None, "--transactional-id-pattern", help="A regular expression."
    ),
    bootstrap: Bootstrap = None,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Every transactional id of every coordinator."""
    wanted = TransactionFilter(state, producer_id, longer_than_ms, pattern)
    with cluster(bootstrap, data) as connected:
        listings = connected.call(list_transactions(connected.client, wanted))
    numbers = ("coordinator", "producer id")
    table = table_of(None, "transactional id", "coordinator", "producer id", "state", right=numbers)
    for listing in listings:
        table.add_row(*map(str, listing))
    show(as_json, [listing._asdict() for listing in listings], table)


@app.command()
@watched
def describe(
    transactional_id: str = typer.Argument(..., metavar="TRANSACTIONAL_ID"),
    bootstrap: Bootstrap = None,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Its state, its producer, and the partitions that wait for a marker."""
    with cluster(bootstrap, data) as connected:
        client = connected.client
        found = connected.call(describe_transaction(client, transactional_id))
        coordinator = client.coordinator_node(transactional_id)
    started = found.started_ms if found.started_ms >= 0 else None
    whole = {
        "transactional_id": found.transactional_id,
        "state": found.state,
        "coordinator": coordinator,
        "producer_id": found.producer_id,
        "producer_epoch": found.producer_epoch,
        "timeout_ms": found.timeout_ms,
        "started_ms": started,
        "running_ms": None if started is None else _wall_ms() - started,
        "partitions": [str(tp) for tp in found.partitions],
    }
    table = table_of(None, "what", "value")
    for name, value in whole.items():
        if isinstance(value, list):
            value = ", ".join(value)
        elif name == "started_ms" and started is not None:
            value = date_text(started)
        table.add_row(name.replace("_", " "), "-" if value in (None, "") else str(value))
    show(as_json, whole, table)


@app.command("find-hanging")
@watched
def find_hanging_(
    topic: str | None = Topic,
    partition: int | None = Partition,
    broker: int | None = typer.Option(None, "--broker-id", help="Only replicas on this broker."),
    minutes: float = typer.Option(
        15.0,
        "--max-transaction-timeout",
        metavar="MINUTES",
        help="The longest that a transaction may take (transaction.max.timeout.ms): those that"
        " were silent for less are left alone.",
    ),
    bootstrap: Bootstrap = None,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Open transactions that no coordinator will end, each with its reason."""
    if partition is not None and topic is None:
        raise Failure("--partition goes with --topic", USAGE)
    with cluster(bootstrap, data) as connected:
        found = connected.call(
            find_hanging(
                connected.client,
                _partitions(connected, topic, partition, broker),
                silent_ms_min=int(minutes * MINUTE_MS),
                wall_ms=_wall_ms(),
                broker=broker,
            )
        )
    numbers = ("partition", "producer id", "epoch", "start offset", "silent min")
    table = table_of(
        None, "topic", "partition", "producer id", "epoch", "start offset", "last record",
        "silent min", "reason", right=numbers,
    )  # fmt: skip
    for hanging in found:
        table.add_row(*_cells(hanging))
    show(as_json, [_plain(hanging) for hanging in found], table)


@app.command()
def abort(
    topic: str = typer.Option(..., "--topic", "-t"),
    partition: int = typer.Option(..., "--partition", "-p"),
    start_offset: int = typer.Option(
        ..., "--start-offset", help="Where it begins, as find-hanging says."
    ),
    force: bool = typer.Option(
        False, "--force", help="Also one that its coordinator knows of: it may be torn apart."
    ),
    bootstrap: Bootstrap = None,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """End one open transaction in one partition by an abort marker."""
    tp = TopicPartition(topic, partition)
    with cluster(bootstrap, data) as connected:
        producer = _open_at(connected, tp, start_offset)
        hanging = connected.call(
            find_hanging(connected.client, [tp], silent_ms_min=-1 << 62, wall_ms=_wall_ms())
        )
        reasons = {found.producer: found.reason for found in hanging}
        if producer not in reasons and not force:
            raise Failure(
                f"the coordinator of producer {producer.producer_id} knows of this transaction and will"
                " end it; --force aborts it in this partition only",
                REFUSED,
            )
        connected.call(abort_transaction(connected.client, tp, producer))
    whole = {
        "topic": topic,
        "partition": partition,
        "producer_id": producer.producer_id,
        "producer_epoch": producer.producer_epoch,
        "start_offset": start_offset,
        "reason": reasons.get(producer, "--force"),
    }
    table = table_of(None, "aborted", "producer id", "start offset", "reason")
    table.add_row(str(tp), str(producer.producer_id), str(start_offset), str(whole["reason"]))
    show(as_json, whole, table)


def _open_at(connected: Connected, tp: TopicPartition, start_offset: int) -> ProducerView:
    found = connected.call(describe_producers(connected.client, [tp]))
    for producer in found[tp]:
        if producer.transaction_start == start_offset:
            return producer
    raise Failure(f"no open transaction of {tp} begins at offset {start_offset}", REFUSED)


def _partitions(
    connected: Connected, topic: str | None, partition: int | None, broker: int | None
) -> list[TopicPartition]:
    if topic is not None and partition is not None:
        return [TopicPartition(topic, partition)]
    views = connected.topics() if topic is None else [connected.topic(topic)]
    return [
        TopicPartition(view.name, index)
        for view in views
        for index, placed in sorted(view.partitions.items())
        if broker is None or broker in placed.replicas
    ]


def _cells(hanging: HangingTransaction) -> list[str]:
    producer = hanging.producer
    return [
        hanging.partition.topic,
        str(hanging.partition.partition),
        str(producer.producer_id),
        str(producer.producer_epoch),
        str(producer.transaction_start),
        date_text(producer.last_timestamp),
        str(hanging.silent_ms // MINUTE_MS),
        hanging.reason,
    ]


def _plain(hanging: HangingTransaction) -> dict[str, Any]:
    producer = hanging.producer
    return {
        "topic": hanging.partition.topic,
        "partition": hanging.partition.partition,
        "transactional_id": hanging.transactional_id,
        "producer_id": producer.producer_id,
        "producer_epoch": producer.producer_epoch,
        "coordinator_epoch": producer.coordinator_epoch,
        "start_offset": producer.transaction_start,
        "last_timestamp": producer.last_timestamp,
        "silent_ms": hanging.silent_ms,
        "reason": hanging.reason,
    }


def _wall_ms() -> int:
    return time.time_ns() // 1_000_000
