"""What a line of ``barnabas produce`` becomes: a value, key and value, or a record as JSON.

JSON is that of ``consume --json`` or of ``kcat -J``. Options give what a line does not say.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from random import Random

from barnabas.cli.records.record_json import parse_json
from barnabas.client.records import ProducerRecord, partition_for
from barnabas.record.decode import Headers

PARTITIONERS = ("murmur2", "crc32", "round-robin", "random")
"""``murmur2`` is the one of Kafka's clients, ``crc32`` the one of librdkafka's (``consistent``)."""
SHOWN_BYTES = 80


@dataclass(frozen=True)
class RecordInput:
    """How lines become records of `topic`."""

    topic: str
    separator: bytes | None = None
    is_json: bool = False
    key: bytes | None = None
    """The key of records whose line has none."""
    null: bytes | None = None
    """Keys and values that are this are null."""
    headers: Headers = ()
    """They follow those of the line."""
    partition: int | None = None

    def record(self, line: bytes) -> ProducerRecord:
        """Raises ``ValueError`` for a line that is no record."""
        if self.is_json:
            return self._of_json(line)
        key, value = self.key, line
        if self.separator is not None:
            found, separator, rest = line.partition(self.separator)
            if separator:
                key, value = found, rest
            elif self.key is None:
                raise ValueError(f"a line without {self.separator.decode()!r}: {_shown(line)}")
        null = self.null
        return ProducerRecord(
            self.topic,
            None if value == null else value,
            None if key == null else key,
            self.partition,
            None,
            self.headers,
        )

    def _of_json(self, line: bytes) -> ProducerRecord:
        try:
            record = parse_json(self.topic, line, self.partition)
        except (ValueError, RecursionError) as error:
            raise ValueError(f"not a JSON record: {_shown(line)}: {error}") from error
        if record.key is None and self.key is not None:
            record = record._replace(key=self.key)
        return record._replace(headers=record.headers + self.headers) if self.headers else record


def _shown(line: bytes) -> str:
    return repr(line[:SHOWN_BYTES])


def parse_headers(texts: list[str]) -> Headers:
    """``NAME=VALUE``, or ``NAME`` for one without a value. Raises ``ValueError``."""
    found = []
    for text in texts:
        name, equals, value = text.partition("=")
        if not name:
            raise ValueError(f"a header is NAME=VALUE, not {text!r}")
        found.append((name, value.encode("utf-8", "surrogateescape") if equals else None))
    return tuple(found)


def partitioner(name: str, partitions: int, seed: int) -> Callable[[ProducerRecord], int | None]:
    """A function that chooses a record's partition; None leaves it to the producer. Raises ``ValueError``."""
    if name not in PARTITIONERS:
        raise ValueError(f"--partitioner is one of {', '.join(PARTITIONERS)}, not {name!r}")
    if name == "round-robin":
        numbers = count()
        return lambda record: next(numbers) % partitions
    if name == "random":
        chance = Random(seed)
        return lambda record: chance.randrange(partitions)
    if name == "crc32":
        return lambda record: None if record.key is None else zlib.crc32(record.key) % partitions
    return lambda record: None if record.key is None else partition_for(record.key, partitions)
