"""Single znodes of the cluster: controller, epochs, id, features, producer ids, migration.

Source: ``ControllerZNode``, ``ControllerEpochZNode``, ``ClusterIdZNode``, ``FeatureZNode``,
``ProducerIdBlockZNode``, ``MigrationZNode`` of ``kafka.zk.ZkData``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from barnabas.zookeeper.layout.java_order import scala_immutable, scala_mutable
from barnabas.zookeeper.layout.json_bytes import JsonReader, decimal_text, to_json

CONTROLLER = "/controller"
CONTROLLER_EPOCH = "/controller_epoch"
CLUSTER_ID = "/cluster/id"
FEATURE = "/feature"
PRODUCER_IDS = "/latest_producer_id_block"
MIGRATION = "/migration"


@dataclass(frozen=True, slots=True)
class ControllerZnode:
    """The broker that is the controller; ephemeral. Of a KRaft controller that has taken over: persistent,
    with its epoch."""

    broker_id: int
    timestamp_ms: int
    kraft_epoch: int | None = -1
    """-1 for a broker; None where the znode is of version 1, which has no such field."""
    path = CONTROLLER

    def is_held_by_kraft(self, ephemeral_owner: int) -> bool:
        """Whether a KRaft controller has taken the cluster over: the znode is then persistent."""
        return not ephemeral_owner and self.kraft_epoch is not None and self.kraft_epoch >= 0

    def encode(self) -> bytes:
        fields: dict[str, object] = {
            "version": 2 if self.kraft_epoch is not None else 1,
            "brokerid": self.broker_id,
            "timestamp": str(self.timestamp_ms),
        }
        if self.kraft_epoch is not None:
            fields["kraftControllerEpoch"] = self.kraft_epoch
        return to_json(scala_immutable(fields))

    @classmethod
    def decode(cls, path: str, data: bytes) -> ControllerZnode:
        """Raises `MalformedZnode`, as the others do."""
        fields = JsonReader.parse(path, data)
        epoch = fields.integer("kraftControllerEpoch", -1)
        return cls(
            fields.integer("brokerid"),
            fields.number_text("timestamp"),
            epoch if fields.check_version(1, 2) == 2 else None,
        )


@dataclass(frozen=True, slots=True)
class ControllerEpochZnode:
    """Counts the controllers. Every write of a controller is conditional on this znode's version."""

    epoch: int
    path = CONTROLLER_EPOCH

    def encode(self) -> bytes:
        return str(self.epoch).encode()

    @classmethod
    def decode(cls, path: str, data: bytes) -> ControllerEpochZnode:
        return cls(decimal_text(path, data))


@dataclass(frozen=True, slots=True)
class ClusterIdZnode:
    cluster_id: str
    path = CLUSTER_ID

    def encode(self) -> bytes:
        return to_json({"version": "1", "id": self.cluster_id})

    @classmethod
    def decode(cls, path: str, data: bytes) -> ClusterIdZnode:
        return cls(JsonReader.parse(path, data).text("id"))


@dataclass(frozen=True, slots=True)
class FeatureZnode:
    """Finalized features (KIP-584). Version 1, of brokers before 3.3, has a lowest level as well."""

    levels: Mapping[str, int]
    is_enabled: bool = True
    version: int = 2
    path = FEATURE

    def encode(self) -> bytes:
        levels = {}
        for name, level in self.levels.items():
            levels[name] = {"max_version_level": level}
            if self.version == 1:
                levels[name]["min_version_level"] = level
        fields = {
            "version": self.version,
            "status": int(self.is_enabled),
            "features": scala_immutable(levels),
        }
        return to_json(scala_mutable(fields, first=len(fields)))

    @classmethod
    def decode(cls, path: str, data: bytes) -> FeatureZnode:
        fields = JsonReader.parse(path, data)
        version = fields.check_version(1, 2)
        status = fields.integer("status")
        if status not in (0, 1):
            raise fields.wrong("status", f"{status}, and 0 and 1 are known")
        features = fields.object("features")
        levels = {}
        for name in features.keys():  # noqa: SIM118 - no mapping
            levels[name] = features.object(name).integer("max_version_level", bits=16)
            if levels[name] < 1:
                raise fields.wrong("features", f"below 1 for {name}")
        return cls(levels, status == 1, version)


@dataclass(frozen=True, slots=True)
class ProducerIdBlockZnode:
    """The block of producer ids that was given out last, and to which broker."""

    broker_id: int
    first: int
    last: int
    path = PRODUCER_IDS

    def encode(self) -> bytes:
        return to_json(
            {
                "version": 1,
                "broker": self.broker_id,
                "block_start": str(self.first),
                "block_end": str(self.last),
            }
        )

    @classmethod
    def decode(cls, path: str, data: bytes) -> ProducerIdBlockZnode:
        fields = JsonReader.parse(path, data)
        return cls(
            fields.integer("broker"),
            fields.number_text("block_start"),
            fields.number_text("block_end"),
        )


@dataclass(frozen=True, slots=True)
class MigrationZnode:
    """How far a migration to KRaft has been copied, and by which controller (KIP-866)."""

    controller_id: int
    controller_epoch: int
    metadata_offset: int
    metadata_epoch: int
    path = MIGRATION

    def encode(self) -> bytes:
        fields = {
            "version": 0,
            "kraft_controller_id": self.controller_id,
            "kraft_controller_epoch": self.controller_epoch,
            "kraft_metadata_offset": self.metadata_offset,
            "kraft_metadata_epoch": self.metadata_epoch,
        }
        return to_json(scala_immutable(fields))

    @classmethod
    def decode(cls, path: str, data: bytes) -> MigrationZnode:
        fields = JsonReader.parse(path, data)
        fields.check_version(0, 0)
        return cls(
            fields.integer("kraft_controller_id"),
            fields.integer("kraft_controller_epoch"),
            fields.integer("kraft_metadata_offset", bits=64),
            fields.integer("kraft_metadata_epoch"),
        )
