"""The metrics of clients: which ones they shall push, and what they pushed last (KIP-714).

Owns the client instances that this broker has talked to, and of each its last push, decompressed and
undecoded (OpenTelemetry's MetricsData). Subscriptions are ``client-metrics`` configurations of the metadata
image. Both the number of instances and the bytes of their pushes are bounded: the instance that was heard
from least recently goes first. Nothing is kept on disk: clients push again.

Source: Kafka's ClientMetricsManager, ClientMetricsInstance and ClientMetricsInstanceMetadata.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Iterator

import crc32c

from barnabas.config.client_metrics import SUBSCRIPTION
from barnabas.metadata.image.image import MetadataImage
from barnabas.ports import Ports, Rng
from barnabas.record.compression import Codec, CompressionError, UnpacksTooFarError, decompress
from barnabas.types import ZERO_UUID, Buffer, Uuid, uuid_text
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.request import RequestContext

CLIENT_METRICS = 16
"""The resource type of subscriptions."""
ALL_METRICS = "*"
PUSH_INTERVAL_MS = 300_000
"""The interval of a client that no subscription matches."""
INSTANCES_MAX = 16_384
PUSHED_BYTES_MAX = 32 << 20
EXPIRY_MS_MIN = 60_000.0
ACCEPTED_CODECS = (Codec.ZSTD, Codec.LZ4, Codec.GZIP, Codec.SNAPPY)
RESERVED = frozenset({ZERO_UUID, Uuid(bytes(15) + b"\x01")})
FORGIVEN = (ErrorCode.UNKNOWN_SUBSCRIPTION_ID, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)
"""After these a client may ask for its subscription before its interval has passed."""


class ClientInstance:
    """One client. `labels` is what subscriptions match, by Kafka's names."""

    __slots__ = (
        "error", "id", "interval_ms", "labels", "last_get_ms", "last_push_ms", "last_seen_ms",
        "metrics", "pushed", "pushed_at_ms", "subscription_id", "terminating", "version",
    )  # fmt: skip

    def __init__(self, instance_id: Uuid, labels: dict[str, str]) -> None:
        self.id = instance_id
        self.labels = labels
        self.version = -1
        """The image's configuration version when the subscription was computed."""
        self.subscription_id = 0
        self.metrics: tuple[str, ...] = ()
        self.interval_ms = PUSH_INTERVAL_MS
        self.last_get_ms = self.last_push_ms = float("-inf")
        self.last_seen_ms = 0.0
        self.terminating = False
        self.error = ErrorCode.NONE
        self.pushed: Buffer = b""
        self.pushed_at_ms = 0

    def maybe_accept_get(self, now_ms: float) -> bool:
        """Whether a request for the subscription comes no sooner than the interval allows."""
        if now_ms - max(self.last_get_ms, self.last_push_ms) < self.interval_ms:
            return False
        self.last_get_ms = now_ms
        return True

    def maybe_accept_push(self, now_ms: float) -> bool:
        """Whether a push follows a request for the subscription, or comes an interval after the last."""
        is_first = self.last_get_ms > self.last_push_ms
        if not is_first and now_ms - self.last_push_ms < self.interval_ms:
            return False
        self.last_push_ms = now_ms
        return True

    @property
    def expires_at_ms(self) -> float:
        return self.last_seen_ms + max(EXPIRY_MS_MIN, 3.0 * self.interval_ms)

    def __repr__(self) -> str:
        return f"ClientInstance({uuid_text(self.id)} {self.labels.get('client_id')!r})"


class ClientTelemetry:
    """All client instances of one broker, least recently heard from first."""

    def __init__(self, ports: Ports, image: MetadataImage, telemetry_bytes_max: int) -> None:
        """`telemetry_bytes_max`: ``telemetry.max.bytes``, of a push before and after decompression."""
        self.telemetry_bytes_max = telemetry_bytes_max
        self._clock = ports.clock
        self._rng: Rng = ports.rng("client.telemetry")
        self._image = image
        self._instances: OrderedDict[Uuid, ClientInstance] = OrderedDict()
        self._pushed_bytes = 0

    # -- requests --------------------------------------------------------------------------------

    def subscription(self, instance_id: Uuid, ctx: RequestContext) -> ClientInstance:
        """The metrics that this client shall push; `ZERO_UUID` is a client without an id yet. Raises
        KafkaError THROTTLING_QUOTA_EXCEEDED."""
        if instance_id == ZERO_UUID:
            instance_id = self._new_id()
        instance = self._instance(instance_id, ctx)
        is_accepted = instance.maybe_accept_get(self._clock.now_ms())
        if not is_accepted and instance.error not in FORGIVEN:
            raise KafkaError(
                ErrorCode.THROTTLING_QUOTA_EXCEEDED,
                f"Request from the client [{uuid_text(instance.id)}] arrived before the next push"
                " interval time",
            )
        instance.error = ErrorCode.NONE
        return instance

    def push(
        self, instance_id: Uuid, subscription_id: int, codec: int, metrics: Buffer,
        *, terminating: bool, ctx: RequestContext,
    ) -> None:  # fmt: skip
        """Keep what a client measured. Raises KafkaError: INVALID_REQUEST, THROTTLING_QUOTA_EXCEEDED,
        UNKNOWN_SUBSCRIPTION_ID, UNSUPPORTED_COMPRESSION_TYPE, TELEMETRY_TOO_LARGE, INVALID_RECORD."""
        if instance_id in RESERVED:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST,
                f"Invalid request from the client [{uuid_text(instance_id)}], invalid client"
                " instance id",
            )
        instance = self._instance(instance_id, ctx)
        try:
            self._check_push(instance, subscription_id, codec, metrics, terminating)
            if metrics:
                self._keep(instance, self._decompressed(codec, metrics))
        except KafkaError as error:
            instance.error = error.code
            raise
        finally:
            instance.terminating = terminating
        instance.error = ErrorCode.NONE

    def _check_push(
        self,
        instance: ClientInstance,
        subscription_id: int,
        codec: int,
        metrics: Buffer,
        terminating: bool,
    ) -> None:
        who = uuid_text(instance.id)
        if instance.terminating:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST,
                f"Client [{who}] sent the previous request with state terminating to TRUE, can not"
                " accept any requests after that",
            )
        if not instance.maybe_accept_push(self._clock.now_ms()) and not terminating:
            raise KafkaError(
                ErrorCode.THROTTLING_QUOTA_EXCEEDED,
                f"Request from the client [{who}] arrived before the next push interval time",
            )
        if subscription_id != instance.subscription_id:
            raise KafkaError(
                ErrorCode.UNKNOWN_SUBSCRIPTION_ID,
                f"Unknown client subscription id for the client [{who}]",
            )
        if codec != Codec.NONE and codec not in ACCEPTED_CODECS:
            raise KafkaError(
                ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
                f"Unknown compression type [{codec}] is received in telemetry request from [{who}]",
            )
        self._check_size(instance, len(metrics))

    def _check_size(self, instance: ClientInstance, size: int) -> None:
        if size > self.telemetry_bytes_max:
            raise KafkaError(
                ErrorCode.TELEMETRY_TOO_LARGE,
                f"Telemetry request from [{uuid_text(instance.id)}] is larger than the maximum"
                f" allowed size [{self.telemetry_bytes_max}]",
            )

    def _decompressed(self, codec: int, metrics: Buffer) -> Buffer:
        try:
            return bytes(decompress(codec, metrics, self.telemetry_bytes_max))
        except UnpacksTooFarError as error:
            raise KafkaError(ErrorCode.TELEMETRY_TOO_LARGE, str(error)) from error
        except CompressionError as error:
            raise KafkaError(ErrorCode.INVALID_RECORD, str(error)) from error

    # -- instances -------------------------------------------------------------------------------

    def pushes(self) -> Iterator[ClientInstance]:
        """Those of which there is a push, in the order of their last requests."""
        self._forget_expired()
        return (instance for instance in self._instances.values() if instance.pushed)

    def __len__(self) -> int:
        return len(self._instances)

    def _new_id(self) -> Uuid:
        while True:
            made = Uuid(self._rng.randbytes(16))
            if made not in self._instances and made not in RESERVED:
                return made

    def _instance(self, instance_id: Uuid, ctx: RequestContext) -> ClientInstance:
        """The instance, with its subscription as the configuration has it now."""
        self._forget_expired()
        instance = self._instances.get(instance_id)
        if instance is None:
            instance = ClientInstance(instance_id, labels_of(instance_id, ctx))
            self._instances[instance_id] = instance
            if len(self._instances) > INSTANCES_MAX:
                self._forget(next(iter(self._instances)))
        if instance.version != self._image.config_version:
            self._subscribe(instance)
        instance.last_seen_ms = self._clock.now_ms()
        self._instances.move_to_end(instance_id)
        return instance

    def _subscribe(self, instance: ClientInstance) -> None:
        """Compute the subscription. Where it changed the client may ask for it at once."""
        names: set[str] = set()
        interval_ms = PUSH_INTERVAL_MS
        for kind, name in self._image.configs:
            if kind != CLIENT_METRICS:
                continue
            texts = self._image.config(kind, name)
            values = {key: SUBSCRIPTION.parse(key, text) for key, text in texts.items()}
            if matches(instance.labels, _list(values.get("match"))):
                names.update(_list(values.get("metrics")))
                interval = values.get("interval.ms")
                interval_ms = min(
                    interval_ms, interval if isinstance(interval, int) else interval_ms
                )
        metrics = (ALL_METRICS,) if ALL_METRICS in names else tuple(sorted(names))
        checked = crc32c.crc32c(f"{metrics}{interval_ms}".encode())
        subscription_id = (checked ^ hash_of(instance.id)) & 0xFFFFFFFF
        signed = subscription_id - (1 << 32) if subscription_id >> 31 else subscription_id
        if signed != instance.subscription_id:
            instance.last_get_ms = instance.last_push_ms = float("-inf")
        instance.subscription_id, instance.metrics = signed, metrics
        instance.interval_ms, instance.version = interval_ms, self._image.config_version

    def _keep(self, instance: ClientInstance, metrics: Buffer) -> None:
        self._pushed_bytes += len(metrics) - len(instance.pushed)
        instance.pushed, instance.pushed_at_ms = metrics, self._clock.wall_ms()
        while self._pushed_bytes > PUSHED_BYTES_MAX:
            self._forget(next(iter(self._instances)))

    def _forget_expired(self) -> None:
        now_ms = self._clock.now_ms()
        while self._instances:
            oldest = next(iter(self._instances.values()))
            if oldest.expires_at_ms > now_ms:
                return
            self._forget(oldest.id)

    def _forget(self, instance_id: Uuid) -> None:
        self._pushed_bytes -= len(self._instances.pop(instance_id).pushed)


def labels_of(instance_id: Uuid, ctx: RequestContext) -> dict[str, str]:
    """The properties that a subscription's ``match`` may name."""
    name, _, version = ctx.software.partition(" ")
    return {
        "client_instance_id": uuid_text(instance_id),
        "client_id": ctx.client_id or "",
        "client_software_name": name,
        "client_software_version": version,
        "client_source_address": ctx.peer.host,
        "client_source_port": str(ctx.peer.port),
    }


def matches(labels: dict[str, str], patterns: list[str]) -> bool:
    """Whether every ``name=pattern`` fits its label as a whole."""
    for pattern in patterns:
        name, _, expression = pattern.partition("=")
        if not re.fullmatch(expression.strip(), labels.get(name.strip(), "")):
            return False
    return True


def hash_of(instance_id: Uuid) -> int:
    """The four 32-bit words of an id, combined by exclusive or: Java's hash of a UUID."""
    words = (int.from_bytes(instance_id[at : at + 4]) for at in range(0, 16, 4))
    value = 0
    for word in words:
        value ^= word
    return value


def _list(value: object) -> list[str]:
    return [str(item) for item in value] if isinstance(value, list) else []
