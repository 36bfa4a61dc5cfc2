"""Dynamic configuration as brokers learn of it: notifications below ``/config/changes``, then the znode
itself.

Every broker watches the notifications and reads what each names. In a new session, in which some may
have been missed, everything that is in use is read again: the configurations of its topics and brokers,
and those of all users, clients and IP addresses (quotas, SCRAM credentials). What is read goes to
`on_config`, which compares it with what it has.

Source: Kafka's ``ZkConfigManager`` and ``ZkNodeChangeNotificationListener``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial

from barnabas.ports import Ports
from barnabas.zookeeper.errors import NoNode, ZooKeeperError
from barnabas.zookeeper.layout.config_znodes import (
    CHANGES,
    CONFIG,
    ConfigChangeZnode,
    ConfigZnode,
)
from barnabas.zookeeper.layout.json_bytes import MalformedZnode
from barnabas.zookeeper.operations import (
    ChildNames,
    Delete,
    GetChildren,
    GetData,
    NodeData,
    SyncPath,
)
from barnabas.zookeeper.session import WatchEvent
from barnabas.zookeeper.session_keeper import SessionKeeper

OnConfig = Callable[[str, Mapping[str, str]], None]
KEPT_MS = 15 * 60 * 1000
"""How long a notification stays, for brokers that were away; then any broker removes it."""
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
        self._seen = ""
        """The last notification that was followed."""

    def on_connected(self, is_new: bool) -> None:
        if is_new:
            self._sessions.ask(
                GetChildren(CHANGES, watch=True), partial(self._on_changes, follow=False)
            )
            for entity in list(self._in_use()):
                self.read(entity, self._on_config)
            for kind in CLIENT_ENTITIES:
                self._sessions.ask(
                    GetChildren(f"{CONFIG}/{kind}"), partial(self._on_entities, kind)
                )

    def on_expired(self) -> None:
        return

    def on_watch(self, event: WatchEvent) -> None:
        if event.path == CHANGES:
            self._sessions.ask(
                GetChildren(CHANGES, watch=True), partial(self._on_changes, follow=True)
            )

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

    def _on_changes(self, result: ChildNames | ZooKeeperError, *, follow: bool) -> None:
        if isinstance(result, ZooKeeperError):
            self._ports.log("warning", "config.changes_unreadable", error=result)
            return
        for name in result.names:
            path = f"{CHANGES}/{name}"
            is_new = follow and name > self._seen
            self._sessions.ask(GetData(path), partial(self._on_change, path, is_new))
        self._seen = max([self._seen, *result.names])

    def _on_change(self, path: str, is_new: bool, result: NodeData | ZooKeeperError) -> None:
        if isinstance(result, ZooKeeperError):
            return
        if self._ports.clock.wall_ms() - result.stat.ctime > KEPT_MS:
            self._sessions.submit(Delete(path), lambda _: None)
        try:
            entity = ConfigChangeZnode.decode(path, result.data).entity
        except MalformedZnode as error:
            self._ports.log("error", "zookeeper.znode_unreadable", error=error)
            return
        if is_new:
            self.read(entity, self._on_config)

    def read(self, entity: str, then: OnConfig) -> None:
        """One entity; without a znode it has no values."""
        path = f"{CONFIG}/{entity}"

        def on_answer(result: NodeData | ZooKeeperError) -> None:
            values: Mapping[str, str] = {}
            try:
                if isinstance(result, NodeData):
                    values = ConfigZnode.decode(path, result.data).config
            except MalformedZnode as error:
                self._ports.log("error", "zookeeper.znode_unreadable", error=error)
            then(entity, values)

        self._sessions.ask(GetData(path), on_answer)

    def read_topics(
        self, names: Sequence[str], then: Callable[[dict[str, Mapping[str, str]]], None]
    ) -> None:
        """Of several topics, together: what was written before now, also where this session's server lags
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
        return f"ConfigWatch(after {self._seen or 'none'})"
