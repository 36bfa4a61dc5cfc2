"""Dynamic configuration as brokers learn of it: notifications below ``/config/changes``, then the znode
itself.

Every broker watches the notifications and reads what each names. In a new session, in which some may
have been missed, everything that is in use is read again. What is read goes to `on_config`, which
compares it with what it has.

Source: Kafka's ``ZkConfigManager`` and ``ZkNodeChangeNotificationListener``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial

from barnabas.metadata.image.image import TOPIC
from barnabas.ports import Ports
from barnabas.zookeeper.errors import ZooKeeperError
from barnabas.zookeeper.layout.config_znodes import (
    CHANGES,
    CONFIG,
    ConfigChangeZnode,
    ConfigZnode,
    entity_of,
    resource_of,
)
from barnabas.zookeeper.layout.json_bytes import MalformedZnode
from barnabas.zookeeper.operations import ChildNames, Delete, GetChildren, GetData, NodeData
from barnabas.zookeeper.session import WatchEvent
from barnabas.zookeeper.session_keeper import SessionKeeper

Resource = tuple[int, str]
OnConfig = Callable[[int, str, Mapping[str, str]], None]
KEPT_MS = 15 * 60 * 1000
"""How long a notification stays, for brokers that were away; then any broker removes it."""


class ConfigWatch:
    """The configurations of this node's resources."""

    def __init__(
        self,
        ports: Ports,
        sessions: SessionKeeper,
        in_use: Callable[[], Iterable[Resource]],
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
            for resource in list(self._in_use()):
                self.read(resource, self._on_config)

    def on_expired(self) -> None:
        return

    def on_watch(self, event: WatchEvent) -> None:
        if event.path == CHANGES:
            self._sessions.ask(
                GetChildren(CHANGES, watch=True), partial(self._on_changes, follow=True)
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
            resource = resource_of(ConfigChangeZnode.decode(path, result.data).entity)
        except MalformedZnode as error:
            self._ports.log("error", "zookeeper.znode_unreadable", error=error)
            return
        if is_new and resource is not None:
            self.read(resource, self._on_config)

    def read(self, resource: Resource, then: OnConfig) -> None:
        """One resource; without a znode it has no values."""
        path = f"{CONFIG}/{entity_of(*resource)}"

        def on_answer(result: NodeData | ZooKeeperError) -> None:
            values: Mapping[str, str] = {}
            try:
                if isinstance(result, NodeData):
                    values = ConfigZnode.decode(path, result.data).config
            except MalformedZnode as error:
                self._ports.log("error", "zookeeper.znode_unreadable", error=error)
            then(*resource, values)

        self._sessions.ask(GetData(path), on_answer)

    def read_topics(
        self, names: Sequence[str], then: Callable[[dict[str, Mapping[str, str]]], None]
    ) -> None:
        """Of several topics, together."""
        found: dict[str, Mapping[str, str]] = {}

        def on_one(kind: int, name: str, values: Mapping[str, str]) -> None:
            found[name] = values
            if len(found) == len(wanted):
                then(found)

        wanted = dict.fromkeys(names)
        for name in wanted:
            self.read((TOPIC, name), on_one)

    def __repr__(self) -> str:
        return f"ConfigWatch(after {self._seen or 'none'})"
