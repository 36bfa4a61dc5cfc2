"""Which options there are, for reading and for writing, and what a misspelt one was meant to be.

Owns the names. An option that is not there is an error that names the nearest one, at ``.load()``: a
misspelt ``startingOffset`` would otherwise begin a query somewhere else in silence. A ``kafka.`` key that
Kafka's clients know and that means nothing here is a warning, because queries move here with their
options. One for the other direction (``topic`` of a reader) is an error too.

Source: Spark's structured-streaming Kafka integration guide; ``ConsumerConfig`` and ``ProducerConfig``.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

from barnabas.config.nearest import hint
from barnabas.pipeline.errors import OptionError
from barnabas.pipeline.kafka_client_keys import KAFKA_CLIENT_KEYS

log = logging.getLogger(__name__)

LAND = "land"
"""Of a reader whose tasks write files: their plan. :mod:`barnabas.pipeline.jobs.landing` sets it."""
GROUP_PREFIX = "groupIdPrefix"
CHECKPOINT = "checkpointLocation"
BOTH = (
    "kafka.bootstrap.servers",
    "kafka.client.id",
    "kafka.request.timeout.ms",
    "kafkaConsumer.pollTimeoutMs",
    CHECKPOINT,
    "csv.delimiter",
    "value.format",
    "value.schema",
    "value.schema.message",
    "value.schema.registry",
    "value.schema.registry.password",
    "value.schema.registry.ssl.key.password",
    "value.schema.registry.ssl.keystore.location",
    "value.schema.registry.ssl.truststore.location",
    "value.schema.registry.token",
    "value.schema.registry.user",
    "value.schema.subject",
    "value.schema.version",
)
READING = (
    "assign",
    "batchOffsets",
    "columns",
    "endingOffsets",
    "endingOffsetsByTimestamp",
    "endingTimestamp",
    "failOnDataLoss",
    GROUP_PREFIX,
    "includeHeaders",
    "kafka.check.crcs",
    "kafka.client.rack",
    "kafka.fetch.max.bytes",
    "kafka.fetch.max.wait.ms",
    "kafka.fetch.min.bytes",
    "kafka.group.id",
    "kafka.isolation.level",
    "kafka.max.partition.fetch.bytes",
    LAND,
    "maxBytesPerTrigger",
    "maxOffsetsInDriver",
    "maxOffsetsPerTrigger",
    "maxRecordsPerPartition",
    "maxTriggerDelay",
    "minOffsetsPerTrigger",
    "minPartitions",
    "pushFilters",
    "startingOffsets",
    "startingOffsetsByTimestamp",
    "startingOffsetsByTimestampStrategy",
    "startingTimestamp",
    "subscribe",
    "subscribePattern",
)
WRITING = (
    "delivery",
    "includeHeaders",
    "kafka.acks",
    "kafka.batch.size",
    "kafka.compression.type",
    "kafka.transaction.timeout.ms",
    "kafka.transactional.id",
    "newLedger",
    "stagingLocation",
    "taskTransactions",
    "topic",
    "txnAppId",
    "txnVersion",
)
SPARKS = ("queryName",)
"""What Spark itself puts among the options of a writer."""
FREE = ("kafka.security.", "kafka.sasl.", "kafka.ssl.", "kafka.config.providers")
"""Begins of names that are checked elsewhere."""
FIXED = (
    "kafka.auto.offset.reset",
    "kafka.enable.auto.commit",
    "kafka.key.deserializer",
    "kafka.key.serializer",
    "kafka.value.deserializer",
    "kafka.value.serializer",
)
"""What Spark decides and no option may."""
_EFFECTIVE = {each.lower() for each in (*BOTH, *READING, *WRITING, *FIXED)}
WITHOUT_EFFECT = (
    "fetchOffset.numRetries",
    "fetchOffset.retryIntervalMs",
    *(
        name
        for name in (f"kafka.{each}" for each in KAFKA_CLIENT_KEYS)
        if name not in _EFFECTIVE and not name.startswith(FREE)
    ),
)
"""Names of Spark's connector and of Kafka's clients that mean nothing here."""


def check_names(given: Iterable[str]) -> None:
    """Raises `OptionError` for the first name that no reader and no writer knows; warns of those that
    have no effect."""
    known = {each.lower(): each for each in (*BOTH, *READING, *WRITING, *FIXED, *SPARKS)}
    given = {each.lower(): each for each in given}
    if GROUP_PREFIX.lower() in given and CHECKPOINT.lower() not in given:
        log.warning(
            "pipeline.option_without_effect: %s has an effect beside %s only, where the query's id is",
            GROUP_PREFIX,
            CHECKPOINT,
        )
    idle = {each.lower(): each for each in WITHOUT_EFFECT}
    for lower, name in sorted(given.items()):
        if lower in known or lower.startswith(FREE):
            continue
        if lower in idle:
            log.warning(
                "pipeline.option_without_effect: %s has no effect in format barnabas", idle[lower]
            )
            continue
        names = sorted([*known.values(), *idle.values()])
        raise OptionError(f"there is no option {name}{hint(name, names)}")


def check_direction(given: Iterable[str], *, reading: bool) -> None:
    """Raises `OptionError` for an option of the other direction."""
    here, there = (READING, WRITING) if reading else (WRITING, READING)
    mine = {each.lower() for each in (*BOTH, *here, *FIXED)}
    other = {each.lower(): each for each in there}
    for name in sorted(given, key=str.lower):
        lower = name.lower()
        if lower in other and lower not in mine and not lower.startswith("kafka."):
            raise OptionError(
                f"option {other[lower]} is for {'writing' if reading else 'reading'}, not for"
                f" {'reading' if reading else 'writing'}"
            )
