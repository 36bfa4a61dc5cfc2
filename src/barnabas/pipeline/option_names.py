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

log = logging.getLogger(__name__)

LAND = "land"
"""The option of a reader whose tasks write files: their plan. :mod:`barnabas.pipeline.jobs.landing` sets
it."""
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
"""The names that Spark itself puts among the options of a writer."""
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
"""The names that Spark decides and no option may."""
KAFKA_CLIENT_KEYS = (
    "acks",
    "allow.auto.create.topics",
    "auto.commit.interval.ms",
    "auto.offset.reset",
    "batch.size",
    "bootstrap.controllers",
    "bootstrap.resolve.timeout.ms",
    "bootstrap.servers",
    "buffer.memory",
    "buffer.memory.allocation.strategy",
    "check.crcs",
    "client.dns.lookup",
    "client.id",
    "client.rack",
    "compression.gzip.level",
    "compression.lz4.level",
    "compression.type",
    "compression.zstd.level",
    "config.providers",
    "connections.max.idle.ms",
    "default.api.timeout.ms",
    "delivery.timeout.ms",
    "enable.auto.commit",
    "enable.idempotence",
    "enable.metrics.push",
    "exclude.internal.topics",
    "fetch.max.bytes",
    "fetch.max.wait.ms",
    "fetch.min.bytes",
    "group.id",
    "group.instance.id",
    "group.protocol",
    "group.remote.assignor",
    "heartbeat.interval.ms",
    "interceptor.classes",
    "internal.throw.on.fetch.stable.offset.unsupported",
    "isolation.level",
    "key.deserializer",
    "key.serializer",
    "linger.ms",
    "max.block.ms",
    "max.in.flight.requests.per.connection",
    "max.partition.fetch.bytes",
    "max.poll.interval.ms",
    "max.poll.records",
    "max.request.size",
    "metadata.cluster.check.enable",
    "metadata.max.age.ms",
    "metadata.max.idle.ms",
    "metadata.recovery.rebootstrap.trigger.ms",
    "metadata.recovery.strategy",
    "metric.reporters",
    "metrics.num.samples",
    "metrics.recording.level",
    "metrics.sample.window.ms",
    "partition.assignment.strategy",
    "partitioner.adaptive.partitioning.enable",
    "partitioner.availability.timeout.ms",
    "partitioner.class",
    "partitioner.ignore.keys",
    "partitioner.rack.aware",
    "receive.buffer.bytes",
    "reconnect.backoff.max.ms",
    "reconnect.backoff.ms",
    "request.timeout.ms",
    "retries",
    "retry.backoff.max.ms",
    "retry.backoff.ms",
    "sasl.client.callback.handler.class",
    "sasl.jaas.config",
    "sasl.kerberos.kinit.cmd",
    "sasl.kerberos.min.time.before.relogin",
    "sasl.kerberos.service.name",
    "sasl.kerberos.ticket.renew.jitter",
    "sasl.kerberos.ticket.renew.window.factor",
    "sasl.login.callback.handler.class",
    "sasl.login.class",
    "sasl.login.connect.timeout.ms",
    "sasl.login.read.timeout.ms",
    "sasl.login.refresh.buffer.seconds",
    "sasl.login.refresh.min.period.seconds",
    "sasl.login.refresh.window.factor",
    "sasl.login.refresh.window.jitter",
    "sasl.login.retry.backoff.max.ms",
    "sasl.login.retry.backoff.ms",
    "sasl.mechanism",
    "sasl.oauthbearer.allow.unverified.audience",
    "sasl.oauthbearer.allow.unverified.issuer",
    "sasl.oauthbearer.assertion.algorithm",
    "sasl.oauthbearer.assertion.claim.aud",
    "sasl.oauthbearer.assertion.claim.exp.seconds",
    "sasl.oauthbearer.assertion.claim.iss",
    "sasl.oauthbearer.assertion.claim.jti.include",
    "sasl.oauthbearer.assertion.claim.nbf.seconds",
    "sasl.oauthbearer.assertion.claim.sub",
    "sasl.oauthbearer.assertion.file",
    "sasl.oauthbearer.assertion.private.key.file",
    "sasl.oauthbearer.assertion.private.key.passphrase",
    "sasl.oauthbearer.assertion.template.file",
    "sasl.oauthbearer.client.credentials.client.id",
    "sasl.oauthbearer.client.credentials.client.secret",
    "sasl.oauthbearer.clock.skew.seconds",
    "sasl.oauthbearer.expected.audience",
    "sasl.oauthbearer.expected.issuer",
    "sasl.oauthbearer.header.urlencode",
    "sasl.oauthbearer.jwks.endpoint.refresh.ms",
    "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms",
    "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms",
    "sasl.oauthbearer.jwks.endpoint.url",
    "sasl.oauthbearer.jwt.retriever.class",
    "sasl.oauthbearer.jwt.validator.class",
    "sasl.oauthbearer.scope",
    "sasl.oauthbearer.scope.claim.name",
    "sasl.oauthbearer.sub.claim.name",
    "sasl.oauthbearer.token.endpoint.url",
    "security.protocol",
    "security.providers",
    "send.buffer.bytes",
    "session.timeout.ms",
    "share.acknowledgement.mode",
    "share.acquire.mode",
    "socket.connection.setup.timeout.max.ms",
    "socket.connection.setup.timeout.ms",
    "ssl.cipher.suites",
    "ssl.enabled.protocols",
    "ssl.endpoint.identification.algorithm",
    "ssl.engine.factory.class",
    "ssl.key.password",
    "ssl.keymanager.algorithm",
    "ssl.keystore.certificate.chain",
    "ssl.keystore.key",
    "ssl.keystore.location",
    "ssl.keystore.password",
    "ssl.keystore.type",
    "ssl.protocol",
    "ssl.provider",
    "ssl.secure.random.implementation",
    "ssl.trustmanager.algorithm",
    "ssl.truststore.certificates",
    "ssl.truststore.location",
    "ssl.truststore.password",
    "ssl.truststore.type",
    "transaction.timeout.ms",
    "transaction.two.phase.commit.enable",
    "transactional.id",
    "value.deserializer",
    "value.serializer",
)
"""Every key of the producer, consumer and admin client of Apache Kafka 4.4.0, as printed by
``tools/KafkaClientKeys.java`` with the jars of Kafka and slf4j in `peers/libs44`."""
_EFFECTIVE = {name.lower() for name in (*BOTH, *READING, *WRITING, *FIXED)}
WITHOUT_EFFECT = (
    "fetchOffset.numRetries",
    "fetchOffset.retryIntervalMs",
    *(
        name
        for name in (f"kafka.{key}" for key in KAFKA_CLIENT_KEYS)
        if name not in _EFFECTIVE and not name.startswith(FREE)
    ),
)
"""Names of Spark's connector and of Kafka's clients that mean nothing here."""


def check_names(given: Iterable[str]) -> None:
    """Raises `OptionError` for the first name that no reader and no writer knows; warns of those that
    have no effect."""
    known = {name.lower(): name for name in (*BOTH, *READING, *WRITING, *FIXED, *SPARKS)}
    given = {name.lower(): name for name in given}
    if GROUP_PREFIX.lower() in given and CHECKPOINT.lower() not in given:
        log.warning(
            "pipeline.option_without_effect: %s has an effect beside %s only, where the query's id is",
            GROUP_PREFIX,
            CHECKPOINT,
        )
    idle = {name.lower(): name for name in WITHOUT_EFFECT}
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
    mine = {name.lower() for name in (*BOTH, *here, *FIXED)}
    other = {name.lower(): name for name in there}
    for name in sorted(given, key=str.lower):
        lower = name.lower()
        if lower in other and lower not in mine and not lower.startswith("kafka."):
            raise OptionError(
                f"option {other[lower]} is for {'writing' if reading else 'reading'}, not for"
                f" {'reading' if reading else 'writing'}"
            )
