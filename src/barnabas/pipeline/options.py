"""Options of ``format("barnabas")``: those of Spark's Kafka connector, checked and typed.

Owns names, defaults and one-sentence errors. Options under ``kafka.`` are Kafka's client
configuration: those that mean something here are honoured, security settings among them, and the
rest (group, linger, buffers ...) has no effect.

Source: Spark's structured-streaming Kafka integration guide.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from barnabas.pipeline.errors import OptionError
from barnabas.pipeline.formats.value_options import (
    ValueOptions,
    value_options,
    write_value_options,
)
from barnabas.pipeline.offsets import (
    EARLIEST,
    LATEST,
    READ_COMMITTED,
    READ_UNCOMMITTED,
    PartitionOffsets,
    parse_assignment,
    parse_offsets,
)
from barnabas.types import Endpoint, TopicPartition, is_int32

if TYPE_CHECKING:
    from barnabas.pipeline.cluster_client import ClusterClient
    from barnabas.pipeline.formats.resolved_schema import ReaderSchema
    from barnabas.pipeline.formats.writing.writer_schema import WriterSchema
    from barnabas.security.client_security import ClientSecurity

DEFAULT_PORT = 9092
LISTENER = re.compile(r"^[0-9A-Za-z%._-]*://")
"""Before an address: the name or the protocol of its listener."""
SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")
DELIVERIES = ("exactly-once", "at-least-once", "transactions", "manifest")
TASK_TRANSACTIONS = ("auto", "always", "never")
OFFSETS_IN_DRIVER = 4096
EACH_USE, FIRST_USE = "each-use", "first-use"
"""When places of a batch read are found that move."""
CODECS = {"none": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}


@dataclass(frozen=True, slots=True)
class Everywhere:
    """The same place in every partition: `EARLIEST`, `LATEST` or a timestamp in ms."""

    timestamp: int


@dataclass(frozen=True, slots=True)
class AtOffsets:
    """A place per partition; `EARLIEST` and `LATEST` may stand for offsets."""

    offsets: PartitionOffsets


@dataclass(frozen=True, slots=True)
class AtTimestamps:
    """The first offset at or after a timestamp in ms, per partition."""

    timestamps: PartitionOffsets


Place: TypeAlias = Everywhere | AtOffsets | AtTimestamps


@dataclass(frozen=True, slots=True)
class Subscription:
    """Which partitions: `topics` by name, `pattern` for names, or `partitions` one by one."""

    topics: tuple[str, ...] = ()
    pattern: str | None = None
    partitions: tuple[TopicPartition, ...] = ()


@dataclass(frozen=True, slots=True)
class ClusterOptions:
    """How to reach the cluster. Durations in ms."""

    bootstrap: tuple[Endpoint, ...]
    client_id: str = "barnabas-pipeline"
    request_timeout_ms: int = 30_000
    patience_ms: int = 120_000
    security: ClientSecurity | None = None
    """None: PLAINTEXT."""

    def connect(self) -> ClusterClient:
        """This process's cluster object. Imports it here: options are read where nothing connects."""
        from barnabas.pipeline.cluster_client import ClusterClient

        return ClusterClient.shared(
            self.bootstrap,
            self.client_id,
            request_timeout_ms=self.request_timeout_ms,
            patience_ms=self.patience_ms,
            security=self.security,
        )


@dataclass(frozen=True, slots=True)
class FetchOptions:
    """How a task fetches. Sizes in bytes, durations in ms."""

    wait_ms_max: int = 500
    bytes_min: int = 1
    bytes_max: int = 64 << 20
    partition_bytes_max: int = 8 << 20
    check_crcs: bool = True
    isolation: int = READ_UNCOMMITTED
    rack: str = ""
    """The rack of the reader: a leader may name a replica in the same rack to fetch from (KIP-392)."""


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """All that a reader needs."""

    cluster: ClusterOptions
    subscription: Subscription = field(default_factory=Subscription)
    starting: Place = field(default_factory=lambda: Everywhere(EARLIEST))
    ending: Place = field(default_factory=lambda: Everywhere(LATEST))
    fail_on_data_loss: bool = True
    include_headers: bool = False
    rows_per_trigger_max: int | None = None
    rows_per_trigger_min: int | None = None
    bytes_per_trigger_max: int | None = None
    trigger_delay_ms_max: int = 15 * 60_000
    offsets_in_driver_max: int = 0
    """A micro-batch of up to so many offsets is read with its plan, in the driver."""
    batch_offsets: str = ""
    """When a batch read finds places that move: `EACH_USE`, `FIRST_USE`, or empty: as its session is."""
    partitions_min: int | None = None
    rows_per_task_max: int | None = None
    without_timestamp: Literal["error", "latest"] = "error"
    columns: tuple[str, ...] = ()
    """Names of the columns that are read; none means all."""
    values: ValueOptions | None = None
    """How values are decoded; None where they stay bytes."""
    reader_schema: ReaderSchema | None = None
    """The reader's schema of `values`, once it was found."""
    group: str | None = None
    """The consumer group to which a stream commits how far it is."""
    group_prefix: str | None = None
    """The beginning of that group's name where `group` is None; the query's id follows."""
    checkpoint: str | None = None
    """The query's checkpoint, where topic ids and losses are kept; absolute."""
    fetch: FetchOptions = field(default_factory=FetchOptions)


@dataclass(frozen=True, slots=True)
class SinkOptions:
    """All that a writer needs. `staging` is a directory that driver and executors share, `checkpoint`
    the query's; both are absolute."""

    cluster: ClusterOptions
    topic: str | None = None
    staging: str | None = None
    checkpoint: str | None = None
    new_ledger: int | None = None
    """The batch with which a ledger may begin that is not there, however late in the query's life."""
    application: str | None = None
    version: int | None = None
    codec: int = 0
    batch_bytes_max: int = 512 << 10
    inline_bytes_max: int = 512 << 10
    """The bytes that a task hands to the driver itself, more goes through `staging`: Spark takes 1 GiB of
    all tasks together, and there may be two thousand of them."""
    produce_timeout_ms: int = 30_000
    delivery: str = "manifest"
    """One of `DELIVERIES`."""
    transactional_id: str | None = None
    transaction_timeout_ms: int = 300_000
    task_transactions: str = "never"
    """Whether tasks write in transactions of their own: one of `TASK_TRANSACTIONS`."""
    values: ValueOptions | None = None
    """How column `value` is encoded; None where it is bytes or text."""
    writer_schema: WriterSchema | None = None
    """The writer's schema of `values`, once it was found."""


Options: TypeAlias = Mapping[str, str]


def source_options(options: Options, *, streaming: bool) -> SourceOptions:
    """Read and check a reader's options. Raises `OptionError`."""
    starting = place_of(options, "starting", Everywhere(LATEST if streaming else EARLIEST))
    ending = place_of(options, "ending", Everywhere(LATEST))
    check_places(starting, ending, options, streaming=streaming)
    strategy = options.get("startingOffsetsByTimestampStrategy", "error").lower()
    if strategy not in ("error", "latest"):
        raise OptionError(
            f"startingOffsetsByTimestampStrategy is error or latest, not {strategy!r}"
        )
    return SourceOptions(
        cluster=cluster_options(options),
        subscription=subscription_of(options),
        starting=starting,
        ending=ending,
        fail_on_data_loss=boolean(options, "failOnDataLoss", True),
        include_headers=boolean(options, "includeHeaders", False),
        rows_per_trigger_max=number(options, "maxOffsetsPerTrigger", None),
        rows_per_trigger_min=number(options, "minOffsetsPerTrigger", None),
        bytes_per_trigger_max=number(options, "maxBytesPerTrigger", None),
        trigger_delay_ms_max=duration_ms(options, "maxTriggerDelay", 15 * 60_000),
        offsets_in_driver_max=number(options, "maxOffsetsInDriver", OFFSETS_IN_DRIVER, least=0),
        batch_offsets=batch_offsets(options),
        partitions_min=number(options, "minPartitions", None),
        rows_per_task_max=number(options, "maxRecordsPerPartition", None),
        without_timestamp="latest" if strategy == "latest" else "error",
        group=options.get("kafka.group.id"),
        group_prefix=options.get("groupIdPrefix"),
        checkpoint=absolute(options.get("checkpointLocation")),
        columns=columns_of(options),
        values=value_options(options),
        fetch=fetch_options(options),
    )


def sink_options(options: Options, *, streaming: bool) -> SinkOptions:
    """Read and check a writer's options. Raises `OptionError`."""
    # Made absolute here, in one process on the driver: each executor has a working directory of its own.
    staging = absolute(options.get("stagingLocation"))
    checkpoint = absolute(options.get("checkpointLocation"))
    if staging is None and checkpoint is not None:
        staging = checkpoint.rstrip("/") + "/barnabas"
    codec = options.get("kafka.compression.type", "none").lower()
    if codec not in CODECS:
        raise OptionError(f"kafka.compression.type is one of {', '.join(CODECS)}, not {codec!r}")
    if options.get("kafka.acks", "all") not in ("all", "-1"):
        raise OptionError("kafka.acks is all: what is written exactly once is acknowledged by all")
    application, version = options.get("txnAppId"), number(options, "txnVersion", None, least=0)
    if (application is None) != (version is None):
        raise OptionError("txnAppId and txnVersion are given together or not at all")
    delivery = delivery_of(options, is_named=streaming or application is not None)
    if application is not None and staging is None and delivery == "manifest":
        raise OptionError("txnAppId needs stagingLocation, where it is kept what was written")
    return SinkOptions(
        cluster=cluster_options(options),
        topic=options.get("topic"),
        staging=staging,
        checkpoint=checkpoint,
        new_ledger=number(options, "newLedger", None, least=0),
        application=application,
        version=version,
        codec=CODECS[codec],
        batch_bytes_max=number(options, "kafka.batch.size", 512 << 10),
        produce_timeout_ms=number(options, "kafka.request.timeout.ms", 30_000),
        delivery=delivery,
        transactional_id=options.get("kafka.transactional.id"),
        transaction_timeout_ms=number(options, "kafka.transaction.timeout.ms", 300_000),
        task_transactions=task_transactions_of(options, delivery),
        values=write_value_options(options),
    )


RECORD_COLUMNS = (
    "key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers"
)  # fmt: skip


def columns_of(options: Options) -> tuple[str, ...]:
    """The columns of option ``columns``, in the order of the record's columns. Raises `OptionError`."""
    text = options.get("columns")
    if text is None:
        return ()
    names = {column.lower(): column for column in RECORD_COLUMNS}
    asked = [column.strip().lower() for column in text.split(",") if column.strip()]
    for column in asked:
        if column not in names:
            raise OptionError(f"columns has names of {', '.join(RECORD_COLUMNS)}, not {column!r}")
    if not asked:
        raise OptionError("columns is empty")
    return tuple(column for column in RECORD_COLUMNS if column.lower() in asked)


def batch_offsets(options: Options) -> str:
    """The value of option ``batchOffsets``. Raises `OptionError`."""
    chosen = options.get("batchOffsets", "").lower()
    if chosen not in (EACH_USE, FIRST_USE) and "batchOffsets" in options:
        raise OptionError(f"batchOffsets is {EACH_USE} or {FIRST_USE}, not {chosen!r}")
    return chosen


def delivery_of(options: Options, *, is_named: bool) -> str:
    """How rows are written: exactly once where a write has a name under which it may be repeated."""
    delivery = options.get("delivery", "exactly-once" if is_named else "at-least-once").lower()
    if delivery not in DELIVERIES:
        raise OptionError(f"delivery is one of {', '.join(DELIVERIES)}, not {delivery!r}")
    if delivery == "at-least-once" and options.get("txnAppId") is not None:
        raise OptionError("txnAppId has no use with delivery at-least-once")
    return delivery


def task_transactions_of(options: Options, delivery: str) -> str:
    """The value of option ``taskTransactions``. Raises `OptionError`."""
    chosen = options.get("taskTransactions", "never").lower()
    if chosen not in TASK_TRANSACTIONS:
        raise OptionError(
            f"taskTransactions is one of {', '.join(TASK_TRANSACTIONS)}, not {chosen!r}"
        )
    if chosen == "always" and delivery not in ("exactly-once", "transactions"):
        raise OptionError(f"taskTransactions=always has no use with delivery {delivery}")
    return chosen


def absolute(location: str | None) -> str | None:
    """A path in full; a URI is that already."""
    return location if not location or SCHEME.match(location) else os.path.abspath(location)


def cluster_options(options: Options) -> ClusterOptions:
    refuse_fixed(options)
    bootstrap = options.get("kafka.bootstrap.servers")
    if not bootstrap:
        raise OptionError("kafka.bootstrap.servers is missing: host:port,host:port")
    return ClusterOptions(
        bootstrap=endpoints(bootstrap),
        client_id=options.get("kafka.client.id", "barnabas-pipeline"),
        request_timeout_ms=number(options, "kafka.request.timeout.ms", 30_000),
        patience_ms=number(options, "kafkaConsumer.pollTimeoutMs", 120_000),
        security=security(options),
    )


def fetch_options(options: Options) -> FetchOptions:
    isolation = options.get("kafka.isolation.level", "read_uncommitted").lower()
    if isolation not in ("read_uncommitted", "read_committed"):
        raise OptionError(
            f"kafka.isolation.level is read_uncommitted or read_committed, not {isolation!r}"
        )
    return FetchOptions(
        wait_ms_max=number(options, "kafka.fetch.max.wait.ms", 500),
        bytes_min=number(options, "kafka.fetch.min.bytes", 1),
        bytes_max=number(options, "kafka.fetch.max.bytes", 64 << 20),
        partition_bytes_max=number(options, "kafka.max.partition.fetch.bytes", 8 << 20),
        check_crcs=boolean(options, "kafka.check.crcs", True),
        isolation=READ_COMMITTED if isolation == "read_committed" else READ_UNCOMMITTED,
        rack=options.get("kafka.client.rack", ""),
    )


def security(options: Options) -> ClientSecurity | None:
    """The security of ``kafka.security.protocol``, ``kafka.sasl.*`` and ``kafka.ssl.*``, whose variables
    the providers of ``kafka.config.providers`` answer on the driver. Stores are files that every executor
    must have, or inline PEM. None where no such option is given. Raises :class:`OptionError`."""
    start = "kafka."
    given = {
        name.lower().removeprefix(start): options[name]
        for name in options
        if name.lower().startswith(_SECURITY)
    }
    if not given:
        return None
    from barnabas.config.definition import ConfigError  # not loaded where nothing is secured
    from barnabas.host.secrets.config_files import security_of

    try:
        found = security_of(given)
    except ConfigError as error:
        raise OptionError(f"{start}{error}") from error
    if found.is_open and any(not name.startswith("security.") for name in given):
        name = next(name for name in given if not name.startswith("security."))
        raise OptionError(f"{start}{name} has no use: {start}security.protocol is PLAINTEXT")
    return found


def refuse_fixed(options: Options) -> None:
    """Refuse the options that Spark decides."""
    for name in ("kafka.key.deserializer", "kafka.value.deserializer", "kafka.auto.offset.reset",
                 "kafka.key.serializer", "kafka.value.serializer", "kafka.enable.auto.commit"):  # fmt: skip
        if name in options:
            raise OptionError(f"{name} cannot be set: keys and values are bytes, offsets Spark's")


_SECURITY = ("kafka.security.", "kafka.sasl.", "kafka.ssl.", "kafka.config.providers")


def endpoints(text: str) -> tuple[Endpoint, ...]:
    """``host:port,host:port`` (``[v6]:port`` too); a missing port is 9092. What is before ``://`` says
    nothing, as in Kafka's clients."""
    found = []
    for part in filter(None, (item.strip() for item in text.split(","))):
        address = LISTENER.sub("", part)
        host, colon, port = address.rpartition(":")
        if not colon or port.endswith("]"):
            host, port = address, str(DEFAULT_PORT)
        if not host or not is_int32(port) or not 0 < int(port) < 65536:
            raise OptionError(f"kafka.bootstrap.servers has host:port, not {part!r}")
        found.append(Endpoint(host.strip("[]"), int(port)))
    if not found:
        raise OptionError(f"kafka.bootstrap.servers has host:port, not {text!r}")
    return tuple(found)


def subscription_of(options: Options) -> Subscription:
    given = [name for name in ("subscribe", "subscribePattern", "assign") if name in options]
    if len(given) != 1:
        raise OptionError(
            "exactly one of subscribe, subscribePattern and assign is needed, "
            + (f"not {' and '.join(given)}" if given else "none is given")
        )
    text = options[given[0]].strip()
    if not text:
        raise OptionError(f"{given[0]} is empty")
    match given[0]:
        case "subscribe":
            return Subscription(
                topics=tuple(sorted({name.strip() for name in text.split(",") if name.strip()}))
            )
        case "subscribePattern":
            try:
                re.compile(text)
            except re.error as error:
                raise OptionError(f"subscribePattern {text!r} is no pattern: {error}") from error
            return Subscription(pattern=text)
        case _:
            return Subscription(partitions=parse_assignment("assign", text))


def place_of(options: Options, which: str, default: Place) -> Place:
    """The place that options name; a time for all goes before times, times before offsets."""
    everywhere = options.get(f"{which}Timestamp")
    if everywhere is not None:
        return Everywhere(number(options, f"{which}Timestamp", None, least=0) or 0)
    by_time = options.get(f"{which}OffsetsByTimestamp")
    if by_time is not None:
        option = f"{which}OffsetsByTimestamp"
        return AtTimestamps(parse_offsets(option, by_time, least=0))
    text = options.get(f"{which}Offsets")
    match text.strip().lower() if text is not None else None:
        case None:
            return default
        case "earliest":
            return Everywhere(EARLIEST)
        case "latest":
            return Everywhere(LATEST)
        case _:
            return AtOffsets(parse_offsets(f"{which}Offsets", text or ""))


OF_BATCHES = ("batchOffsets", "endingOffsets", "endingOffsetsByTimestamp", "endingTimestamp")
OF_STREAMS = (
    "maxOffsetsPerTrigger", "maxBytesPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay",
)  # fmt: skip


def check_places(starting: Place, ending: Place, options: Options, *, streaming: bool) -> None:
    if streaming:
        for name in OF_BATCHES:
            if name in options:
                raise OptionError(f"{name} is for batch queries: a stream has no end")
        return
    for name in OF_STREAMS:
        if name in options:
            raise OptionError(f"{name} is for streams: a batch query has no trigger")
    if starting == Everywhere(LATEST):
        raise OptionError("startingOffsets is not latest in a batch query")
    if ending == Everywhere(EARLIEST):
        raise OptionError("endingOffsets is not earliest")
    if isinstance(starting, AtOffsets) and LATEST in starting.offsets.values():
        raise OptionError("startingOffsets has no -1 (latest) in a batch query")
    if isinstance(ending, AtOffsets) and EARLIEST in ending.offsets.values():
        raise OptionError("endingOffsets has no -2 (earliest)")


def number(options: Options, name: str, default: Any, *, least: int = 1) -> Any:
    text = options.get(name)
    if text is None:
        return default
    try:
        value = int(text)
    except ValueError:
        value = least - 1
    if value < least:
        raise OptionError(f"{name} is a whole number from {least} on, not {text!r}")
    return value


def boolean(options: Options, name: str, default: bool) -> bool:
    text = options.get(name)
    if text is None:
        return default
    if text.lower() not in ("true", "false"):
        raise OptionError(f"{name} is true or false, not {text!r}")
    return text.lower() == "true"


MINUTE_MS = 60_000
UNITS_MS = {
    "ms": 1,
    "s": 1000,
    "m": MINUTE_MS,
    "min": MINUTE_MS,
    "h": 60 * MINUTE_MS,
    "d": 1440 * MINUTE_MS,
}


def duration_ms(options: Options, name: str, default: int) -> int:
    """Spark's durations: ``15m``, ``90s``, ``1h``; a bare number is milliseconds."""
    text = options.get(name)
    if text is None:
        return default
    match = re.fullmatch(r"\s*(\d+)\s*([a-z]*)\s*", text.lower())
    if match is None or (match[2] and match[2] not in UNITS_MS):
        raise OptionError(f"{name} is a duration as 15m or 90s, not {text!r}")
    return int(int(match[1]) * UNITS_MS[match[2] or "ms"])
