"""Follows dynamic configuration: notifications below ``/config/changes`` name the znodes to read.

Where notifications may have been missed, and so in each new session, a broker reads again all that it uses:
the configurations of its topics and brokers, and those of all users, clients and IP addresses (quotas, SCRAM
credentials). `on_config` gets what was read, and compares it with what it has.

Source: Kafka's ``ZkConfigManager``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial

from barnabas.ports import Ports
from barnabas.zookeeper.errors import NoNode, ZooKeeperError
from barnabas.zookeeper.layout.config_znodes import (
    CHANGE_PREFIX,
    CHANGES,
    CONFIG,
    ConfigChangeZnode,
    ConfigZnode,
)
from barnabas.zookeeper.layout.json_bytes import MalformedZnode
from barnabas.zookeeper.notification_folder import NotificationFolder
from barnabas.zookeeper.operations import (
    ChildNames,
    GetChildren,
    GetData,
    NodeData,
    SyncPath,
)
from barnabas.zookeeper.session import WatchEvent
from barnabas.zookeeper.session_keeper import SessionKeeper

OnConfig = Callable[[str, Mapping[str, str]], None]
CLIENT_ENTITIES = ("users", "clients", "ips")


class ConfigWatch:
    """The configurations of this node's entities (as `ConfigZnode` names them)."""

    def __init__(
        self,
        ports: Ports,
        sessions: SessionKeeper,
        in_use: Callable[[], Iterable[str]],
        on_config: OnConfig,
    ) -> None:
        self._ports = ports
        self._sessions = sessions
        self._in_use = in_use
        self._on_config = on_config
        self._last: dict[str, Mapping[str, str]] = {}
        """The values that were read last, by entity, where there are any."""
        self._notifications = NotificationFolder(
            ports,
            sessions,
            CHANGE_PREFIX,
            self._on_notification,
            self._read_all,
            self._on_unread,
        )

    def on_connected(self, is_new: bool) -> None:
        if is_new:
            self._notifications.look(follow=False)
            self._read_all()

    def _read_all(self) -> None:
        for entity in list(self._in_use()):
            self.read(entity, self._on_config)
        for kind in CLIENT_ENTITIES:
            self._sessions.ask(GetChildren(f"{CONFIG}/{kind}"), partial(self._on_entities, kind))

    def on_expired(self) -> None:
        return

    def on_watch(self, event: WatchEvent) -> None:
        if event.path == CHANGES:
            self._notifications.look(follow=True)

    def _on_entities(self, folder: str, result: ChildNames | ZooKeeperError) -> None:
        """All users, clients or addresses; below a user its clients."""
        if isinstance(result, ZooKeeperError):
            if not isinstance(result, NoNode):
                self._ports.log("warning", "config.entities_unreadable", error=result)
            return
        for name in result.names:
            entity = f"{folder}/{name}"
            self.read(entity, self._on_config)
            if folder == "users":
                clients = f"{entity}/clients"
                self._sessions.ask(
                    GetChildren(f"{CONFIG}/{clients}"), partial(self._on_entities, clients)
                )

    def _on_notification(self, path: str, data: bytes) -> None:
        self.read(ConfigChangeZnode.decode(path, data).entity, self._on_config)

    def _on_unread(self, error: ZooKeeperError) -> None:
        self._ports.log("warning", "config.changes_unreadable", error=error)

    def read(self, entity: str, then: OnConfig) -> None:
        """One entity; without a znode it has no values. From one that cannot be read it has those that were
        read before: defaults in their place could delete records."""
        path = f"{CONFIG}/{entity}"

        def on_answer(result: NodeData | ZooKeeperError) -> None:
            values: Mapping[str, str] = {}
            try:
                if isinstance(result, NodeData) and result.data:
                    values = ConfigZnode.decode(path, result.data).config
            except MalformedZnode as error:
                self._ports.log("error", "zookeeper.znode_unreadable", error=error)
                values = self._last.get(entity, {})
            if values:
                self._last[entity] = values
            else:
                self._last.pop(entity, None)
            then(entity, values)

        self._sessions.ask(GetData(path), on_answer)

    def read_topics(
        self, names: Sequence[str], then: Callable[[dict[str, Mapping[str, str]]], None]
    ) -> None:
        """Read several topics together: what was written before now, also where this session's server lags
        behind. Topics and their configurations are written in one transaction, and orders that name a topic
        may come before that server has applied it."""
        found: dict[str, Mapping[str, str]] = {}

        def on_one(entity: str, values: Mapping[str, str]) -> None:
            found[entity.removeprefix("topics/")] = values
            if len(found) == len(wanted):
                then(found)

        def on_synced(_: object) -> None:
            for name in wanted:
                self.read(f"topics/{name}", on_one)

        wanted = dict.fromkeys(names)
        self._sessions.ask(SyncPath(CONFIG), on_synced)

    def __repr__(self) -> str:
        return f"ConfigWatch({self._notifications!r})"
