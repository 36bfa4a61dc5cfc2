"""Prints the records that a share group delivers, and acknowledges each of them.

A record is accepted once its line is written. One whose value the registry cannot decode is released or
rejected, as the user says. Records that were not printed, because the command ends or its output is closed,
are released.

Source: KIP-932; Kafka's ``kafka-console-share-consumer``.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass

from barnabas.cli.connection.connect import USAGE
from barnabas.cli.failure import Failure
from barnabas.cli.plain_text import say
from barnabas.cli.records.record_json import Line
from barnabas.cli.records.registered_values import RegisteredValues
from barnabas.client.consumers.share_consumer import EXPLICIT, ShareConsumerSettings
from barnabas.client.consumers.share_runs import Acknowledge
from barnabas.client.consumers.share_session import ShareFetchSettings
from barnabas.client.records import ConsumerRecord, DeliveredRecord
from barnabas.host.client import BlockingShareConsumer, Connected
from barnabas.host.process.end_request import EndRequest

POLL_MS = 200.0
RECORDS_A_POLL = 500
ON_ERROR = {"release": Acknowledge.RELEASE, "reject": Acknowledge.REJECT}


def checked_kind(on_error: str, *, others: bool) -> Acknowledge:
    """The acknowledgement that ``--on-error`` names. Raises `Failure` for another word, and where there are
    `others`: options that a share group has no use for."""
    if on_error not in ON_ERROR:
        raise Failure("--on-error is release or reject", USAGE)
    if others:
        raise Failure("a share group chooses records itself: give topics only", USAGE)
    return ON_ERROR[on_error]


@dataclass
class SharedPrinting:
    """What is printed of a share group's records, and when it is enough."""

    line: Line
    on_error: Acknowledge
    registry: RegisteredValues | None = None
    max_records: int | None = None
    timeout_s: float | None = None

    def kind_of(self, record: DeliveredRecord) -> Acknowledge:
        """What becomes of the record; a value that cannot be decoded is reported. Raises `Failure` where the
        fault is the registry's."""
        if self.registry is None or record.value is None:
            return Acknowledge.ACCEPT
        text, why = self.registry.text_of(record.value)
        if text is not None:
            return Acknowledge.ACCEPT
        if self.registry.problem:
            raise Failure(self.registry.problem)
        place = f"{record.topic}-{record.partition}, offset {record.offset}"
        done = "released" if self.on_error is Acknowledge.RELEASE else "rejected"
        say(f"{place} is {done}: {why}", err=True)
        return self.on_error


def print_shared(
    connected: Connected, group: str, topics: Sequence[str], printing: SharedPrinting
) -> None:
    """Print until it is enough, and acknowledge what was printed."""
    most = printing.max_records
    fetch = ShareFetchSettings(
        records_max=min(most or RECORDS_A_POLL, RECORDS_A_POLL), strict=most is not None
    )
    settings = ShareConsumerSettings(EXPLICIT, fetch)
    printed, silent_ms = 0, 0.0
    end_request = EndRequest()
    with connected.share_consumer(group, settings) as consumer:
        consumer.subscribe(topics)
        while not end_request.is_made and (most is None or printed < most):
            room = RECORDS_A_POLL if most is None else min(most - printed, RECORDS_A_POLL)
            records = consumer.poll(POLL_MS, room)
            if records:
                printed += _print(consumer, records, printing)
            silent_ms = 0.0 if records else silent_ms + POLL_MS
            if printing.timeout_s is not None and silent_ms >= printing.timeout_s * 1000:
                break


def _print(
    consumer: BlockingShareConsumer, records: Sequence[DeliveredRecord], printing: SharedPrinting
) -> int:
    """Print the records, then acknowledge each. Returns how many were printed."""
    kinds = [printing.kind_of(record) for record in records]
    accepted = [
        record for record, kind in zip(records, kinds, strict=True) if kind is Acknowledge.ACCEPT
    ]
    output, line = sys.stdout.buffer, printing.line
    output.write(b"".join(line(ConsumerRecord(*record[:7])) for record in accepted))
    output.flush()
    for record, kind in zip(records, kinds, strict=True):
        consumer.acknowledge(record, kind)
    for tp, error in consumer.commit().items():
        if error is not None:
            say(f"what was acknowledged of {tp} may be delivered again: {error}", err=True)
    return len(accepted)
