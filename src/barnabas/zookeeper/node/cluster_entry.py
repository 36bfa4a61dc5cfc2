"""Finds a starting broker's cluster id and broker id in ZooKeeper, once per process.

Creates the persistent znodes that every broker needs, and the cluster id where the ensemble has none.
Generates a broker id where neither the configuration nor ``meta.properties`` has one. A cluster id in
``meta.properties``, from an earlier start, must equal the ensemble's; otherwise the node halts.

Source: Kafka 3.9's ``KafkaServer.startup`` (getOrGenerateClusterId, getOrGenerateBrokerId).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from barnabas.config.meta_properties import random_uuid
from barnabas.config.node import NodeConfig
from barnabas.ports import Ports
from barnabas.types import uuid_text
from barnabas.zookeeper.config.coordination import ensemble_of
from barnabas.zookeeper.config.settings import GENERATED
from barnabas.zookeeper.errors import NodeExists, ZooKeeperError
from barnabas.zookeeper.layout.broker_znodes import SEQUENCE
from barnabas.zookeeper.layout.cluster_state_znodes import CLUSTER_ID, ClusterIdZnode
from barnabas.zookeeper.layout.json_bytes import MalformedZnode
from barnabas.zookeeper.layout.znode_table import PERSISTENT_PATHS
from barnabas.zookeeper.operations import Create, GetData, NodeData, SetData, Stat
from barnabas.zookeeper.session import WatchEvent
from barnabas.zookeeper.session_keeper import SessionKeeper


class ClusterEntry:
    """Begins when the session is connected; calls `on_known` with the cluster id and the broker id."""

    def __init__(
        self,
        ports: Ports,
        sessions: SessionKeeper,
        config: NodeConfig,
        directories: Mapping[str, tuple[str, int]],
        on_known: Callable[[str, int], None],
    ) -> None:
        """`directories`: the cluster id and broker id in the ``meta.properties`` of each log directory, by
        path."""
        self._ports = ports
        self._sessions = sessions
        self._config = config
        self._directories = directories
        self._on_known = on_known
        self._asked = False

    def on_connected(self, is_new: bool) -> None:
        if self._asked:
            return
        self._asked = True
        for path in _parents_first([*PERSISTENT_PATHS, CLUSTER_ID])[:-1]:
            self._sessions.ask(Create(path), self._on_made)
        cluster_id = uuid_text(random_uuid(self._ports.rng("zookeeper.cluster").randbytes))
        known = next(iter(self._directories.values()), None)
        if known is not None:
            cluster_id = known[0]
        self._sessions.ask(
            Create(CLUSTER_ID, ClusterIdZnode(cluster_id).encode()),
            lambda _: self._sessions.ask(GetData(CLUSTER_ID), self._on_cluster_id),
        )

    def on_expired(self) -> None:
        return

    def on_watch(self, event: WatchEvent) -> None:
        return

    def _on_made(self, result: object) -> None:
        if isinstance(result, ZooKeeperError) and not isinstance(result, NodeExists):
            self._ports.halt(f"ZooKeeper refuses what every broker needs: {result}")

    def _on_cluster_id(self, result: NodeData | ZooKeeperError) -> None:
        if isinstance(result, ZooKeeperError):
            self._ports.halt(f"{CLUSTER_ID} cannot be read: {result}")
            return
        try:
            cluster_id = ClusterIdZnode.decode(CLUSTER_ID, result.data).cluster_id
        except MalformedZnode as error:
            self._ports.halt(str(error))
            return
        for path, (known, _) in self._directories.items():
            if known != cluster_id:
                self._ports.halt(
                    f"{path} is of cluster {known}, but the ZooKeeper ensemble of {cluster_id}"
                )
                return
        broker = int(self._config.node_id)
        if broker == GENERATED:
            broker = next((known for _, known in self._directories.values()), GENERATED)
        if broker == GENERATED:
            self._sessions.ask(SetData(SEQUENCE, b""), partial(self._on_number, cluster_id))
        else:
            self._on_known(cluster_id, broker)

    def _on_number(self, cluster_id: str, result: Stat | ZooKeeperError) -> None:
        if isinstance(result, ZooKeeperError):
            self._ports.halt(f"{SEQUENCE} gives no broker id: {result}")
            return
        broker = ensemble_of(self._config).reserved_id_max + result.version
        self._ports.log("info", "broker.id_generated", broker=broker)
        self._on_known(cluster_id, broker)

    def __repr__(self) -> str:
        return f"ClusterEntry({'asked' if self._asked else 'waits for the ensemble'})"


def _parents_first(paths: Sequence[str]) -> list[str]:
    """`paths` and all their parents, each parent before its children."""
    every: dict[str, None] = {}
    for path in paths:
        parts = path.strip("/").split("/")
        for count in range(1, len(parts) + 1):
            every["/" + "/".join(parts[:count])] = None
    return list(every)
