"""Znodes of Kafka 3.9 that hold no metadata record: paths, and their contents as values.

Who is controller, who is registered, what has changed (notifications), what an administrator asks for.
JSON is written as Kafka writes it: compact, with its field names and versions. What metadata records
become is in `layout`. Source: ``kafka.zk.ZkData`` of Apache Kafka 3.9.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from barnabas.types import Endpoint

CONTROLLER = "/controller"
CONTROLLER_EPOCH = "/controller_epoch"
CLUSTER_ID = "/cluster/id"
BROKER_IDS = "/brokers/ids"
BROKER_SEQUENCE = "/brokers/seqid"
TOPICS = "/brokers/topics"
CONFIG = "/config"
CONFIG_CHANGES = "/config/changes"
CONFIG_CHANGE = "/config/changes/config_change_"
DELETE_TOPICS = "/admin/delete_topics"
REASSIGNMENTS = "/admin/reassign_partitions"
PREFERRED_ELECTION = "/admin/preferred_replica_election"
ISR_CHANGES = "/isr_change_notification"
LOG_DIR_EVENTS = "/log_dir_event_notification"
LOG_DIR_EVENT = "/log_dir_event_notification/log_dir_event_"
PRODUCER_IDS = "/latest_producer_id_block"

PERSISTENT = (
    "/consumers",
    BROKER_IDS,
    TOPICS,
    CONFIG_CHANGES,
    DELETE_TOPICS,
    BROKER_SEQUENCE,
    ISR_CHANGES,
    PRODUCER_IDS,
    LOG_DIR_EVENTS,
    "/config/topics",
    "/config/clients",
    "/config/users",
    "/config/brokers",
    "/config/ips",
)
"""Paths that every broker makes at its start, with their parents."""
INITIAL_EPOCH = 0


class ZnodeError(ValueError):
    """One sentence: what a znode holds that is none of Kafka's forms."""


class BrokerInfo(NamedTuple):
    """A broker's registration. `listeners`: endpoint and security protocol by listener name."""

    id: int
    listeners: Mapping[str, tuple[Endpoint, str]]
    rack: str | None


def encode(value: object) -> bytes:
    """Compact JSON, in the order given."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


def decode(data: bytes, path: str) -> dict[str, Any]:
    """A JSON object. Raises :class:`ZnodeError`."""
    try:
        found = json.loads(data)
    except ValueError as error:
        raise ZnodeError(f"{path} holds no JSON: {error}") from error
    if not isinstance(found, dict):
        raise ZnodeError(f"{path} holds no JSON object")
    return found


def parents_first(paths: Sequence[str]) -> list[str]:
    """All of `paths` with their parents, each before its children."""
    every: dict[str, None] = {}
    for path in paths:
        parts = path.strip("/").split("/")
        for count in range(1, len(parts) + 1):
            every["/" + "/".join(parts[:count])] = None
    return list(every)


def broker_path(broker: int) -> str:
    return f"{BROKER_IDS}/{broker}"


def encode_broker(info: BrokerInfo, wall_ms: int) -> bytes:
    """Version 5."""
    plain = next((at for at, kind in info.listeners.values() if kind == "PLAINTEXT"), None)
    fields: dict[str, object] = {
        "features": {},
        "listener_security_protocol_map": {n: kind for n, (_, kind) in info.listeners.items()},
        "endpoints": [f"{name}://{at.host}:{at.port}" for name, (at, _) in info.listeners.items()],
        "jmx_port": -1,
        "port": -1 if plain is None else plain.port,
        "host": None if plain is None else plain.host,
        "version": 5,
        "timestamp": str(wall_ms),
    }
    if info.rack is not None:
        fields["rack"] = info.rack
    return encode(fields)


def decode_broker(broker: int, data: bytes) -> BrokerInfo:
    """Every version. Raises :class:`ZnodeError`."""
    path = broker_path(broker)
    fields = decode(data, path)
    try:
        if "endpoints" not in fields:
            at = Endpoint(fields["host"], int(fields["port"]))
            return BrokerInfo(broker, {"PLAINTEXT": (at, "PLAINTEXT")}, None)
        protocols = fields.get("listener_security_protocol_map") or {}
        listeners = {}
        for text in fields["endpoints"]:
            name, _, address = text.partition("://")
            host, _, port = address.rpartition(":")
            listeners[name] = (Endpoint(host, int(port)), protocols.get(name, name))
        return BrokerInfo(broker, listeners, fields.get("rack"))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ZnodeError(f"{path} is no registration: {error!r}") from error


def encode_controller(broker: int, wall_ms: int) -> bytes:
    return encode(
        {"version": 2, "brokerid": broker, "timestamp": str(wall_ms), "kraftControllerEpoch": -1}
    )


def decode_controller(data: bytes) -> int:
    """The controller's broker id. Raises :class:`ZnodeError`."""
    try:
        return int(decode(data, CONTROLLER)["brokerid"])
    except (KeyError, TypeError, ValueError) as error:
        raise ZnodeError(f"{CONTROLLER} names no broker") from error


def encode_cluster_id(cluster_id: str) -> bytes:
    return encode({"version": "1", "id": cluster_id})


def decode_cluster_id(data: bytes) -> str:
    return str(decode(data, CLUSTER_ID).get("id", ""))


def encode_config_change(entity_path: str) -> bytes:
    """`entity_path`: as ``topics/name``, sanitized."""
    return encode({"version": 2, "entity_path": entity_path})


def decode_config_change(data: bytes, path: str) -> str:
    """The entity path; versions 1 and 2. Raises :class:`ZnodeError`."""
    fields = decode(data, path)
    if "entity_path" in fields:
        return str(fields["entity_path"])
    if fields.get("entity_type") and fields.get("entity_name"):
        return f"{fields['entity_type']}/{fields['entity_name']}"
    raise ZnodeError(f"{path} names no entity")


def encode_log_dir_event(broker: int) -> bytes:
    return encode({"version": 1, "broker": broker, "event": 1})
