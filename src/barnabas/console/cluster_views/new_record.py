"""One record that a form describes: its key, value and headers as text, JSON or hexadecimal."""

from __future__ import annotations

import json
from collections.abc import Mapping

from barnabas.cli.commands.produce import settings_of
from barnabas.client.records import Delivery, ProducerRecord
from barnabas.host.client import Connected
from barnabas.types import is_int32

FORMS = ("text", "json", "hex")


def record_in(topic: str, form: Mapping[str, str]) -> ProducerRecord:
    """The record of a form's fields. An empty key is none; without a partition the key chooses it. Raises
    ``ValueError``."""
    key, partition = form.get("key", ""), form.get("partition", "").strip()
    if partition and not is_int32(partition):
        raise ValueError(f"a partition is a number, not {partition!r}")
    value = None
    if form.get("null") != "1":
        value = bytes_in("the value", form.get("value", ""), form.get("as", "text"))
    return ProducerRecord(
        topic,
        value,
        bytes_in("the key", key, form.get("key_as", "text")) if key else None,
        int(partition) if partition else None,
        headers=headers_in(form.get("headers", "")),
    )


def bytes_in(what: str, text: str, form: str) -> bytes:
    """The bytes of a field. JSON is checked, and sent as it was typed. Raises ``ValueError``."""
    if form not in FORMS:
        raise ValueError(f"{what} is given as {', '.join(FORMS)}, not {form!r}")
    if form == "hex":
        try:
            return bytes.fromhex(text)
        except ValueError:
            raise ValueError(f"{what} is no hexadecimal: two digits make a byte") from None
    if form == "json":
        try:
            json.loads(text)
        except (ValueError, RecursionError) as error:
            raise ValueError(f"{what} is no JSON: {error}") from None
    # A browser ends the lines of a text box by CR LF.
    return text.replace("\r\n", "\n").encode("utf-8", "surrogateescape")


def headers_in(text: str) -> tuple[tuple[str, bytes | None], ...]:
    """Headers from lines ``name: value``; a line without a colon has no value. Raises ``ValueError``."""
    found: list[tuple[str, bytes | None]] = []
    for line in text.splitlines():
        if not line.strip():
            continue
        name, colon, value = line.partition(":")
        if not name.strip():
            raise ValueError(f"a header has a name before its colon, not {line!r}")
        found.append((name.strip(), value.strip().encode() if colon else None))
    return tuple(found)


def write(connected: Connected, record: ProducerRecord) -> Delivery:
    """Write the record, and wait until all replicas in sync have it. Raises ``KafkaError``,
    ``ChannelError``."""
    with connected.producer(settings_of("all", "none")) as producer:
        outcome = producer.send(record)
        producer.flush()
    return outcome.result()
