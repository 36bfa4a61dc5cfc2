"""A folder whose sequential znodes say that something has changed: followed in order, removed when old.

Each broker follows each notification once. One that was removed before this broker has read it, or that
cannot be read, may have said anything: then everything is read again.

Source: Kafka's ``ZkNodeChangeNotificationListener``.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial

from barnabas.ports import Ports
from barnabas.zookeeper.errors import ZooKeeperError
from barnabas.zookeeper.layout.json_bytes import MalformedZnode
from barnabas.zookeeper.operations import ChildNames, Delete, GetChildren, GetData, NodeData
from barnabas.zookeeper.session_keeper import SessionKeeper

KEPT_MS = 15 * 60 * 1000
"""How long a notification stays, for brokers that were away; then any broker removes it."""


class NotificationFolder:
    """The notifications of one folder, as one broker follows them."""

    def __init__(
        self,
        ports: Ports,
        sessions: SessionKeeper,
        prefix: str,
        on_change: Callable[[str, bytes], None],
        on_missed: Callable[[], None],
        on_unread: Callable[[ZooKeeperError], None],
    ) -> None:
        """`prefix` is a path that ten digits follow. `on_change` gets a path and its data, and may raise
        `MalformedZnode`; `on_unread` the error of a folder that cannot be listed."""
        self._ports = ports
        self._sessions = sessions
        self.path = prefix.rpartition("/")[0]
        self._name = re.compile(re.escape(prefix.rpartition("/")[2]) + r"\d{10}")
        """Other names are none: a later one in the alphabet would hide all notifications."""
        self._on_change = on_change
        self._on_missed = on_missed
        self._on_unread = on_unread
        self._last = ""

    def look(self, *, follow: bool) -> None:
        """List and watch the folder. Without `follow` what is there is known already."""
        listed = partial(self._on_children, follow)
        self._sessions.ask(GetChildren(self.path, watch=True), listed)

    def _on_children(self, follow: bool, result: ChildNames | ZooKeeperError) -> None:
        if not isinstance(result, ChildNames):
            self._on_unread(result)
            return
        names = [name for name in result.names if self._name.fullmatch(name)]
        for name in names:
            is_new = follow and name > self._last
            path = f"{self.path}/{name}"
            self._sessions.ask(GetData(path), partial(self._on_data, path, is_new))
        self._last = max([self._last, *names])

    def _on_data(self, path: str, is_new: bool, result: NodeData | ZooKeeperError) -> None:
        if isinstance(result, ZooKeeperError):
            if is_new:
                self._on_missed()
            return
        if self._ports.clock.wall_ms() - result.stat.ctime > KEPT_MS:
            self._sessions.submit(Delete(path), lambda _: None)
        if not is_new:
            return
        try:
            self._on_change(path, result.data)
        except MalformedZnode as error:
            self._ports.log("error", "zookeeper.znode_unreadable", error=error)
            self._on_missed()

    def __repr__(self) -> str:
        return f"NotificationFolder({self.path}, followed to {self._last or 'none'})"
