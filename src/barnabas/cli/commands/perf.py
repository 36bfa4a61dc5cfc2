"""``barnabas perf``: how fast a cluster takes and gives records, as Kafka's ``*-perf-test`` tools measure it.

One client of Python on one core is measured with the cluster: it is the limit of small records.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, Any

import typer

from barnabas.cli.commands.produce import settings_of
from barnabas.cli.connection.connect import USAGE, AsJson, Bootstrap, Data, cluster, show, table_of
from barnabas.cli.failure import Failure
from barnabas.cli.progress import ProgressLine, has_onlooker
from barnabas.cli.reports.perf_figures import Latencies, payloads, rates
from barnabas.client.network.tasks import TaskOutcome
from barnabas.client.offsets import EARLIEST, LATEST
from barnabas.client.producers.producer import ProducerSettings
from barnabas.client.records import Delivery, ProducerRecord
from barnabas.host.client import BlockingConsumer, Connected

app = typer.Typer(help="Measure throughput and latency.", no_args_is_help=True)
TURN_RECORDS = 200
POLL_MS = 200.0
SILENT_S_MAX = 10.0
Records = Annotated[int, typer.Option("--records", "-n", min=1, help="How many.")]
Size = Annotated[int, typer.Option("--size", min=1, help="Bytes of a value.")]
Payload = Annotated[
    Path | None,
    typer.Option("--payload-file", metavar="FILE", help="Its lines are the values, in turn."),
]
Acks = Annotated[str, typer.Option(help="all, 1 or 0.")]
Compression = Annotated[
    str, typer.Option("--compression", "-z", help="none, gzip, snappy, lz4 or zstd.")
]


@app.command()
def produce(
    topic: str = typer.Argument(...),
    records: Records = 100_000,
    size: Size = 100,
    payload: Payload = None,
    rate: float = typer.Option(
        0.0, min=0.0, help="Records per second at most; 0 is without limit."
    ),
    acks: Acks = "all",
    compression: Compression = "none",
    bootstrap: Bootstrap = None,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Write records as fast as the cluster takes them, or at a rate. Latencies are those of
    acknowledgements."""
    values = _values(size, payload)
    latencies, written = Latencies(), 0
    with cluster(bootstrap, data) as connected:
        connected.topic(topic)
        producer = connected.producer(settings_of(acks, compression))
        began_s = time.monotonic()
        with ProgressLine("records", records, is_shown=has_onlooker(as_json)) as line:
            for number in range(records):
                if rate:
                    _wait_until(connected, began_s + number / rate)
                value = next(values)
                written += len(value)
                producer.send(ProducerRecord(topic, value)).when_done(_noting(latencies))
                if rate == 0 and number % TURN_RECORDS == 0:
                    connected.run_for(0)
                line.update(number)
            producer.flush()
        passed_s = time.monotonic() - began_s
    _show(as_json, rates(records, written, passed_s), latencies)


@app.command()
def consume(
    topic: str = typer.Argument(...),
    records: Records = 100_000,
    bootstrap: Bootstrap = None,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Read records from the beginning of a topic; ends early where no more come."""
    with cluster(bootstrap, data) as connected:
        consumer = connected.consumer()
        consumer.inner.assign(dict.fromkeys(connected.partitions_of([topic]), EARLIEST))
        read = size = 0
        began_s = last_s = time.monotonic()
        with ProgressLine("records", records, is_shown=has_onlooker(as_json)) as line:
            while read < records and time.monotonic() - last_s < SILENT_S_MAX:
                found = consumer.poll(POLL_MS, min(5_000, records - read))
                if found:
                    last_s = time.monotonic()
                read += len(found)
                size += sum(len(r.value or b"") + len(r.key or b"") for r in found)
                line.update(read)
        consumer.close()
    _show(as_json, rates(read, size, last_s - began_s), Latencies())


@app.command()
def latency(
    topic: str = typer.Argument(...),
    records: Records = 1_000,
    size: Size = 100,
    payload: Payload = None,
    acks: Acks = "all",
    compression: Compression = "none",
    bootstrap: Bootstrap = None,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Write records one after the other: how long each acknowledgement takes."""
    sending, where = settings_of(acks, compression), (bootstrap, data)
    _one_by_one(topic, records, _values(size, payload), sending, where, as_json, is_read=False)


@app.command("end-to-end")
def end_to_end(
    topic: str = typer.Argument(...),
    records: Records = 1_000,
    size: Size = 100,
    payload: Payload = None,
    acks: Acks = "all",
    compression: Compression = "none",
    bootstrap: Bootstrap = None,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Write records one after the other: how long each takes until a consumer has it."""
    sending, where = settings_of(acks, compression), (bootstrap, data)
    if sending.acks == 0:
        raise Failure(
            "without an acknowledgement no record can be found again: --acks all or 1", USAGE
        )
    _one_by_one(topic, records, _values(size, payload), sending, where, as_json, is_read=True)


def _one_by_one(
    topic: str,
    records: int,
    values: Any,
    settings: ProducerSettings,
    where: tuple[str | None, Path | None],
    as_json: bool,
    *,
    is_read: bool,
) -> None:
    latencies, size = Latencies(), 0
    with cluster(*where) as connected:
        partitions = connected.partitions_of([topic])
        consumer = connected.consumer() if is_read else None
        if consumer is not None:
            ends = {tp: at.offset for tp, at in connected.offsets(partitions, LATEST).items()}
            consumer.inner.assign(ends)
            consumer.poll(POLL_MS)  # its first fetch is on its way
        producer = connected.producer(settings)
        began_s = time.monotonic()
        with ProgressLine("records", records, is_shown=has_onlooker(as_json)) as line:
            for number in range(records):
                value = next(values)
                size += len(value)
                sent_s = time.monotonic()
                outcome = producer.send(ProducerRecord(topic, value))
                connected.call(producer.inner.flush())
                delivery = connected.wait(outcome)
                if consumer is not None:
                    _await(consumer, delivery)
                latencies.add((time.monotonic() - sent_s) * 1000)
                line.update(number)
        passed_s = time.monotonic() - began_s
    _show(as_json, rates(records, size, passed_s), latencies)


def _await(consumer: BlockingConsumer, delivery: Delivery) -> None:
    """Read until this record has come; others may write to the topic, too. Raises `Failure`."""
    heard_s = time.monotonic()
    while time.monotonic() - heard_s < SILENT_S_MAX:
        found = consumer.poll(POLL_MS)
        if found:
            heard_s = time.monotonic()
        if any(r.partition == delivery.partition and r.offset >= delivery.offset for r in found):
            return
    raise Failure(f"record {delivery.offset} of partition {delivery.partition} has not come")


def _values(size: int, payload: Path | None) -> Any:
    try:
        values = payloads(size, payload)
        first = next(values)
    except (OSError, ValueError) as error:
        raise Failure(str(error), USAGE) from error
    return _behind(first, values)


def _behind(first: bytes, values: Any) -> Any:
    yield first
    yield from values


def _noting(latencies: Latencies) -> Any:
    sent_s = time.monotonic()

    def note(outcome: TaskOutcome[Delivery]) -> None:
        latencies.add((time.monotonic() - sent_s) * 1000)

    return note


def _wait_until(connected: Connected, at_s: float) -> None:
    """Run the client until then."""
    left_s = at_s - time.monotonic()
    if left_s > 0:
        connected.run_for(left_s * 1000)


def _show(as_json: bool, found: dict[str, Any], latencies: Latencies) -> None:
    summary = latencies.summary()
    table = table_of(None, "what", "figure", right=("figure",))
    for name, value in found.items():
        table.add_row(name.replace("_", " "), f"{value:,}")
    for name, value in summary.items():
        table.add_row(f"latency {name}", f"{value:,} ms")
    show(as_json, found | ({"latency_ms": summary} if summary else {}), table)
