"""Copies a topic by Pathway: BOOTSTRAP SOURCE TARGET GROUP."""

import sys

import pathway as pw

bootstrap, source, target, group = sys.argv[1:]
settings = {"bootstrap.servers": bootstrap}
taken = pw.io.kafka.read(
    {**settings, "group.id": group, "auto.offset.reset": "earliest"},
    topic=source,
    format="plaintext",
    autocommit_duration_ms=200,
)
given = {**settings, "enable.idempotence": "true"}
pw.io.kafka.write(taken, given, target, format="plaintext", value=taken.data)
pw.run(monitoring_level=pw.MonitoringLevel.NONE)
