"""A folder of sequential znodes that name what has changed: read in order, removed when old.

A broker follows each notification once. It cannot know what a notification named that was removed before it
was read, or that is malformed: then it reads everything again. The folder's stat has the number of znodes
ever made there, so that a removed notification is noticed even if this broker never listed it.

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
        """`prefix` is the path of a notification without its ten digits. `on_change` gets path and data of
        each new one, and may raise `MalformedZnode`. `on_missed` reads everything again. `on_unread` gets the
        error of a folder that cannot be listed."""
        self._ports = ports
        self._sessions = sessions
        self.path = prefix.rpartition("/")[0]
        self._name = re.compile(re.escape(prefix.rpartition("/")[2]) + r"\d{10}")
        """Other names are ignored: one that sorts after all notifications would hide them."""
        self._on_change = on_change
        self._on_missed = on_missed
        self._on_unread = on_unread
        self._last = ""
        """Name of the newest notification that was listed."""
        self._made = 0
        """How many znodes were ever made in the folder, by the last listing."""

    def look(self, *, follow: bool) -> None:
        """List and watch the folder. Without `follow`, its notifications are only checked for their age."""
        listed = partial(self._on_children, follow)
        self._sessions.ask(GetChildren(self.path, watch=True), listed)

    def _on_children(self, follow: bool, result: ChildNames | ZooKeeperError) -> None:
        if not isinstance(result, ChildNames):
            self._on_unread(result)
            return
        names = [name for name in result.names if self._name.fullmatch(name)]
        new = [name for name in names if name > self._last]
        for name in names:
            path = f"{self.path}/{name}"
            is_new = follow and name > self._last
            self._sessions.ask(GetData(path), partial(self._on_data, path, is_new))
        made = (result.stat.cversion + result.stat.num_children) // 2
        if follow and made - self._made > len(new):
            self._on_missed()  # a broker whose date is ahead has removed some
        self._last = max([self._last, *names])
        self._made = max(self._made, made)

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
