"""The messages of Kafka 3.9 that Kafka 4 no longer has: bytes that Apache Kafka 3.9.1 writes as it reads.

``kafka39.txt.gz`` holds random messages of every version; ``Kafka39.java`` compares them with its classes.
"""

from __future__ import annotations

import gzip
from importlib import import_module
from pathlib import Path

from barnabas.wire.api_table import API_SCHEMAS
from barnabas.wire.codec import decode, encode_bytes

LINES = gzip.decompress(Path(__file__).with_name("kafka39.txt.gz").read_bytes()).decode()


def test_every_version_is_read_and_written_as_by_kafka_3_9_1() -> None:
    seen = set()
    for line in LINES.splitlines():
        name, version, *rest = line.split()
        given = bytes.fromhex(rest[0]) if rest else b""
        kind = "Request" if name.endswith("Request") else "Response"
        schema = next(s for s in API_SCHEMAS.values() if s.name == name.removesuffix(kind))
        module = schema.request_module if kind == "Request" else schema.response_module
        message = getattr(import_module(f"barnabas.wire.messages.{module}"), name)
        assert encode_bytes(decode(message, int(version), given), int(version)) == given, line
        seen.add((name, int(version)))
    assert len(seen) == 2 * (8 + 5 + 9 + 4)
