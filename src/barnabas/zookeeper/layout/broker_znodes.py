"""`/brokers/ids/N`: a broker that is alive. Ephemeral; its creation zxid is the broker's epoch.

Versions 1 to 4 are read as well (older brokers in a rolling upgrade), and each is written as it was read.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from barnabas.metadata.records.register_broker_record import (
    BrokerEndpoint,
    BrokerFeature,
    RegisterBrokerRecord,
)
from barnabas.types import Endpoint
from barnabas.zookeeper.layout.java_order import java_map, scala_immutable, scala_mutable
from barnabas.zookeeper.layout.json_bytes import JsonReader, MalformedZnode, to_json

IDS = "/brokers/ids"
SEQUENCE = "/brokers/seqid"
"""Its version counts the ids that the ensemble has given."""
VERSION = 5
ID_MAX, PORT_MAX = (1 << 31) - 1, (1 << 16) - 1
PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
"""The protocols by Kafka's number."""
_ENDPOINT = re.compile(r"(.+)://(?:\[([0-9a-fA-F:%._]+)\]|([^:]*)):(-?[0-9]+)")


@dataclass(frozen=True, slots=True)
class BrokerListener:
    name: str
    host: str
    port: int
    protocol: str

    def __str__(self) -> str:
        return f"{self.name}://{Endpoint(self.host, self.port)}"


@dataclass(frozen=True, slots=True)
class BrokerZnode:
    """A broker's registration."""

    broker_id: int
    listeners: tuple[BrokerListener, ...]
    timestamp_ms: int
    rack: str | None = None
    jmx_port: int = -1
    features: tuple[tuple[str, int, int], ...] = ()
    """Name, lowest and highest version that the broker supports."""
    version: int = VERSION

    @property
    def path(self) -> str:
        return f"{IDS}/{self.broker_id}"

    def encode(self) -> bytes:
        plain = next((one for one in self.listeners if one.protocol == "PLAINTEXT"), None)
        fields: dict[str, object] = {
            "version": self.version,
            "host": None if plain is None else plain.host,
            "port": -1 if plain is None else plain.port,
            "endpoints": [str(one) for one in self.listeners],
            "jmx_port": self.jmx_port,
            "timestamp": str(self.timestamp_ms),
        }
        if self.version == 1:
            del fields["endpoints"]
        if self.rack is not None and self.version >= 3:
            fields["rack"] = self.rack
        if self.version >= 4:
            protocols = {one.name: one.protocol for one in self.listeners}
            fields["listener_security_protocol_map"] = scala_immutable(protocols)
        if self.version >= 5:
            ranges = {
                name: {"min_version": low, "max_version": high} for name, low, high in self.features
            }
            fields["features"] = java_map(ranges)
        return to_json(scala_mutable(fields, first=6))

    @classmethod
    def decode(cls, path: str, data: bytes) -> BrokerZnode:
        """Raises `MalformedZnode`."""
        fields = JsonReader.parse(path, data)
        version = fields.check_version(1, VERSION)
        features = fields.optional_object("features")
        return cls(
            broker_id=_broker_id(path),
            listeners=_listeners(fields, version),
            timestamp_ms=fields.number_text("timestamp"),
            rack=fields.optional_text("rack"),
            jmx_port=fields.integer("jmx_port"),
            features=tuple(
                (name, one.integer("min_version", bits=16), one.integer("max_version", bits=16))
                for name in features.keys()  # noqa: SIM118 - no mapping
                for one in (features.object(name),)
            ),
            version=version,
        )

    @classmethod
    def of_record(
        cls, record: RegisterBrokerRecord, timestamp_ms: int, jmx_port: int = -1
    ) -> BrokerZnode:
        return cls(
            broker_id=record.broker_id,
            listeners=tuple(
                BrokerListener(one.name, one.host, one.port, PROTOCOLS[one.security_protocol])
                for one in record.end_points
            ),
            timestamp_ms=timestamp_ms,
            rack=record.rack or None,
            jmx_port=jmx_port,
            features=tuple(
                (one.name, one.min_supported_version, one.max_supported_version)
                for one in record.features
            ),
        )

    @property
    def endpoints(self) -> dict[str, Endpoint]:
        """The endpoints by listener."""
        return {one.name: Endpoint(one.host, one.port) for one in self.listeners}

    def record(self, czxid: int, *, fenced: bool = False) -> RegisterBrokerRecord:
        """The registration as Kafka's brokers in ZooKeeper mode know each other: with the zxid as epoch."""
        return RegisterBrokerRecord(
            broker_id=self.broker_id,
            broker_epoch=czxid,
            end_points=tuple(
                BrokerEndpoint(
                    name=one.name,
                    host=one.host,
                    port=one.port,
                    security_protocol=PROTOCOLS.index(one.protocol),
                )
                for one in self.listeners
            ),
            features=tuple(
                BrokerFeature(name=name, min_supported_version=low, max_supported_version=high)
                for name, low, high in self.features
            ),
            rack=self.rack,
            fenced=fenced,
        )


def broker_path(broker: int) -> str:
    return f"{IDS}/{broker}"


def _broker_id(path: str) -> int:
    name = path.removeprefix(f"{IDS}/")
    if not name.isdecimal() or int(name) > ID_MAX:
        raise MalformedZnode(path, "a broker's id is a number")
    return int(name)


def _listeners(fields: JsonReader, version: int) -> tuple[BrokerListener, ...]:
    if version == 1:
        port = fields.integer("port")
        if not 0 <= port <= PORT_MAX:
            raise fields.wrong("port", f"{port}, which is no port")
        return (BrokerListener("PLAINTEXT", fields.text("host"), port, "PLAINTEXT"),)
    protocols = fields.optional_object("listener_security_protocol_map")
    listeners = []
    for text in fields.texts("endpoints"):
        match = _ENDPOINT.fullmatch(text)
        if match is None:
            raise fields.wrong("endpoints", f"with {text!r}, which is no NAME://host:port")
        if not 0 <= int(match[4]) <= PORT_MAX:
            raise fields.wrong("endpoints", f"with {text!r}, which has no port")
        name = match[1]
        protocol = protocols.text(name) if protocols.has(name) else name
        if protocol not in PROTOCOLS:
            raise fields.wrong("endpoints", f"with {text!r}, whose security protocol is unknown")
        listeners.append(BrokerListener(name, match[2] or match[3], int(match[4]), protocol))
    return tuple(listeners)
