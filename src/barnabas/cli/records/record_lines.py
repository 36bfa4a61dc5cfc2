"""The formats of ``barnabas consume``: which function makes bytes of a record."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace

from barnabas.cli.plain_text import json_line, say, visible_bytes
from barnabas.cli.records.format_string import FormatString, compiled, parse_format
from barnabas.cli.records.record_json import Line, kcat_json, plain, to_json, with_value
from barnabas.cli.records.registered_values import RegisteredValues
from barnabas.client.admin import TOPIC
from barnabas.client.network.channels import ChannelError
from barnabas.client.records import ConsumerRecord
from barnabas.host.client import Connected
from barnabas.types import TopicPartition
from barnabas.wire.errors import KafkaError

VALUE, KEYS = FormatString(("s", b"\n")), FormatString(("k", b"\t", "s", b"\n"))
NAMED = {"value": VALUE, "keys": KEYS, "raw": FormatString(("s",))}
JSON, KCAT, HEX = "json", "kcat-json", "hex"
FORMATS = (*NAMED, HEX, JSON, KCAT)
APPENDED = "LogAppendTime"
STAMP_TYPE = "message.timestamp.type"


@dataclass(frozen=True)
class RecordFormat:
    """How records are printed: by a name of `FORMATS`, or by a format string."""

    name: str = ""
    string: FormatString = VALUE
    null: bytes = b""
    is_raw: bool = True
    """Bytes as they are; else control characters of a format string become escapes."""
    registry: RegisteredValues | None = None

    @property
    def is_plain(self) -> bool:
        """Whether nothing but its format string decides what a record's bytes are."""
        return not self.name and self.is_raw and self.registry is None

    def line(self, connected: Connected) -> Line:
        """The function that prints a record. A value that the registry does not know stays as it is."""
        values = None if self.registry is None else ValueDecoder(self.registry)
        if self.name == JSON:
            return to_json if values is None else _decoded_json(values)
        if self.name == KCAT:
            return _kcat_line(connected, values)
        if self.name == HEX:
            return lambda record: (
                (b"" if record.value is None else record.value.hex().encode()) + b"\n"
            )
        line = compiled(self.string, self.null)
        if values is not None:
            line = _decoded(line, values)
        return line if self.is_raw else _visible(line)


def chosen_format(text: str | None, *, as_json: bool = False, keys: bool = False) -> RecordFormat:
    """The format that the options name. Raises ``ValueError``."""
    if as_json or text == JSON:
        return RecordFormat(JSON)
    if text in (KCAT, HEX):
        return RecordFormat(text)
    if text is None:
        return RecordFormat(string=KEYS if keys else VALUE)
    if text in NAMED:
        return RecordFormat(string=NAMED[text])
    if "%" not in text and "\\" not in text:
        names = ", ".join(FORMATS)
        raise ValueError(f"a format is one of {names}, or has tokens such as %s, not {text!r}")
    return RecordFormat(string=parse_format(text))


class ValueDecoder:
    """Values as JSON on one line by their schemas. It says once why one is not decoded."""

    def __init__(self, registry: RegisteredValues) -> None:
        self._registry = registry
        self._told: set[str] = set()

    def __call__(self, value: bytes | None) -> str | None:
        """None where the value stays as it is."""
        if value is None:
            return None
        text, problem = self._registry.text_of(value)
        if text is None:
            if problem not in self._told:
                self._told.add(problem)
                say(f"a value is shown as it is: {problem}", err=True)
            return None
        return json_line(json.dumps(json.loads(text), ensure_ascii=False))


def _decoded(line: Line, values: ValueDecoder) -> Line:
    def decode(record: ConsumerRecord) -> bytes:
        text = values(record.value)
        return line(record if text is None else record._replace(value=text.encode()))

    return decode


def _decoded_json(values: ValueDecoder) -> Line:
    def decode(record: ConsumerRecord) -> bytes:
        told = plain(record)
        text = values(record.value)
        if text is not None:
            told = with_value(told, text)
        return json_line(json.dumps(told, ensure_ascii=False)).encode() + b"\n"

    return decode


def _visible(line: Line) -> Line:
    return lambda record: visible_bytes(line(record))


def _kcat_line(connected: Connected, values: ValueDecoder | None) -> Line:
    types = _StampTypes(connected)
    leader: Callable[[TopicPartition], int | None] = connected.client.cluster.leader

    def line(record: ConsumerRecord) -> bytes:
        text = None if values is None else values(record.value)
        found = leader(TopicPartition(record.topic, record.partition))
        broker = -1 if found is None else found
        written = None if text is None else text.encode()
        return kcat_json(record, broker, types.of(record.topic), written)

    return line


class _StampTypes:
    """Who gives records of a topic their timestamps, by its configuration."""

    def __init__(self, connected: Connected) -> None:
        self._connected = connected
        self._known: dict[str, str] = {}

    def of(self, topic: str) -> str:
        if topic not in self._known:
            self._known[topic] = self._asked(topic)
        return self._known[topic]

    def _asked(self, topic: str) -> str:
        connected = self._connected
        try:
            found = connected.call(connected.admin.describe_configs(TOPIC, topic))
        except (KafkaError, ChannelError):
            return "unknown"
        values = {entry.name: entry.value for entry in found}
        return "logappend" if values.get(STAMP_TYPE) == APPENDED else "create"


def with_options(
    chosen: RecordFormat,
    *,
    null: str | None,
    is_raw: bool,
    registry: RegisteredValues | None,
) -> RecordFormat:
    return replace(chosen, null=(null or "").encode(), is_raw=is_raw, registry=registry)
