"""Access control entries in znodes: read at the start, followed by notifications, changed with versions.

Every broker has all of them. One znode holds the entries of one resource pattern; a change of it is
conditional on its version, and comes with a notification in the same transaction, which every other broker
follows by reading the znode again. In a new session, in which notifications may have been missed, all is
read again.

Source: Kafka 3.9's ``AclAuthorizer``, ``ZkAclStore``, ``ZkAclChangeStore``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial

from barnabas.metadata.records.remove_access_control_entry_record import (
    RemoveAccessControlEntryRecord,
)
from barnabas.ports import Ports
from barnabas.wire.schema import Message
from barnabas.zookeeper.errors import NodeExists, NoNode, ZooKeeperError
from barnabas.zookeeper.layout.acl_znodes import (
    CHANGE_NAME,
    EXTENDED_CHANGES,
    EXTENDED_ROOT,
    LITERAL_CHANGES,
    LITERAL_ROOT,
    RESOURCE_TYPES,
    AclChangeZnode,
    AclPattern,
    AclRule,
    AclZnode,
    acl_id,
    acl_record,
    pattern_of,
)
from barnabas.zookeeper.layout.json_bytes import MalformedZnode
from barnabas.zookeeper.notification_folder import NotificationFolder
from barnabas.zookeeper.operations import (
    ChildNames,
    Create,
    Delete,
    GetChildren,
    GetData,
    Multi,
    NodeData,
    Operation,
    SetData,
)
from barnabas.zookeeper.session import WatchEvent
from barnabas.zookeeper.session_keeper import SessionKeeper
from barnabas.zookeeper.znode_store import WRITE_RETRIES_MAX, ZnodeStore

Rules = tuple[AclRule, ...]
Change = Callable[[Rules], Rules]
CHANGES = (LITERAL_CHANGES, EXTENDED_CHANGES)
FOLDERS = (LITERAL_ROOT, f"{EXTENDED_ROOT}/prefixed")
"""Below them one folder for each resource type."""


def _record(pattern: AclPattern, rule: AclRule) -> Message:
    return acl_record(acl_id(pattern, rule), pattern, rule)


class AclStore(ZnodeStore):
    """The entries as this broker knows them, by resource pattern."""

    def __init__(self, ports: Ports, sessions: SessionKeeper) -> None:
        super().__init__(ports, sessions, "zookeeper.acls")
        self._notifications = {
            folder: NotificationFolder(
                ports,
                sessions,
                f"{folder}/{CHANGE_NAME}",
                self._on_notification,
                self._read_all,
                self._on_unread,
            )
            for folder in CHANGES
        }
        self._found: set[AclPattern] = set()
        self.rules: dict[AclPattern, Rules] = {}

    def records(self) -> list[Message]:
        """All entries."""
        return [_record(pattern, rule) for pattern, rules in self.rules.items() for rule in rules]

    def on_watch(self, event: WatchEvent) -> None:
        if event.path in CHANGES:
            self._notifications[event.path].look(follow=True)

    # -- reading -----------------------------------------------------------------------------------

    def _ask_for_all(self) -> None:
        self._found = set()
        for path in _folders():
            self._ask(Create(path), self._on_made)
        for notified in self._notifications.values():
            notified.look(follow=False)
        for root in FOLDERS:
            self._ask(GetChildren(root), partial(self._on_types, root))

    def _on_all_read(self) -> None:
        for pattern in [one for one in self.rules if one not in self._found]:
            self.read(pattern)  # its znode was deleted, or created after the listing

    def _on_made(self, result: object) -> None:
        if isinstance(result, ZooKeeperError) and not isinstance(result, NodeExists):
            self._ports.log("error", "acl.folder_refused", error=result)

    def _names(self, result: ChildNames | ZooKeeperError) -> tuple[str, ...]:
        """None of a znode that is not there. A broker that may not read all entries does not start: what it
        does not know of it would allow."""
        if isinstance(result, ChildNames):
            return result.names
        self._on_unread(result)
        return ()

    def _on_unread(self, error: ZooKeeperError) -> None:
        if isinstance(error, NoNode):
            return
        self._ports.log("error", "acl.folder_refused", error=error)
        if self._on_loaded is not None:
            self._ports.halt(f"access control entries cannot be read: {error}")

    def _on_types(self, folder: str, result: ChildNames | ZooKeeperError) -> None:
        for kind in self._names(result):
            self._ask(
                GetChildren(f"{folder}/{kind}"), partial(self._on_resources, f"{folder}/{kind}")
            )

    def _on_resources(self, folder: str, result: ChildNames | ZooKeeperError) -> None:
        for name in self._names(result):
            try:
                pattern = pattern_of(f"{folder}/{name}")
            except MalformedZnode as error:
                self._ports.log("warning", "zookeeper.znode_unreadable", error=error)
                return  # a resource type that is not known here
            self._found.add(pattern)
            self._ask(GetData(pattern.path), partial(self._on_rules, pattern))

    def read(self, pattern: AclPattern) -> None:
        """Read what the znode says now."""
        self._sessions.ask(GetData(pattern.path), partial(self._on_rules, pattern))

    def _on_rules(self, pattern: AclPattern, result: NodeData | ZooKeeperError) -> None:
        if isinstance(result, NoNode):
            self._set_rules(pattern, ())
        elif isinstance(result, NodeData):
            try:
                self._set_rules(pattern, AclZnode.decode(pattern.path, result.data).rules)
            except MalformedZnode as error:
                self._ports.log("error", "zookeeper.znode_unreadable", error=error)
                if self._on_loaded is not None:
                    self._ports.halt(f"access control entries cannot be read: {error}")
        else:
            self._on_unread(result)

    def _set_rules(self, pattern: AclPattern, rules: Rules) -> None:
        before = self.rules.get(pattern, ())
        if rules:
            self.rules[pattern] = rules
        else:
            self.rules.pop(pattern, None)
        records: list[Message] = [
            RemoveAccessControlEntryRecord(id=acl_id(pattern, rule))
            for rule in before
            if rule not in rules
        ]
        records += [_record(pattern, rule) for rule in rules if rule not in before]
        if records:
            self._report(records)

    def _on_notification(self, path: str, data: bytes) -> None:
        self.read(AclChangeZnode.decode(path, data).pattern)

    # -- changing ----------------------------------------------------------------------------------

    def update(
        self, pattern: AclPattern, change: Change, done: Callable[[str], None], attempt: int = 0
    ) -> None:
        """Write what `change` makes of the entries of `pattern`, from their present state, again after
        another one's write. `done` gets an empty text, or why it was given up."""
        again = partial(self._again, pattern, change, done, attempt)

        def on_read(result: NodeData | ZooKeeperError) -> None:
            if isinstance(result, NodeData):
                try:
                    present = AclZnode.decode(pattern.path, result.data).rules
                except MalformedZnode as error:
                    done(str(error))
                    return
                self._write(pattern, present, change(present), result.stat.version, done, again)
            elif isinstance(result, NoNode):
                self._write(pattern, (), change(()), None, done, again)
            else:
                again()

        self._sessions.submit(GetData(pattern.path), on_read)

    def _write(
        self,
        pattern: AclPattern,
        present: Rules,
        wanted: Rules,
        version: int | None,
        done: Callable[[str], None],
        again: Callable[[], None],
    ) -> None:
        if wanted == present:
            self._set_rules(pattern, present)
            done("")
            return
        data = AclZnode(pattern, wanted).encode()
        write: Operation
        if version is None:
            write = Create(pattern.path, data)
        elif wanted:
            write = SetData(pattern.path, data, version)
        else:
            write = Delete(pattern.path, version)
        change = AclChangeZnode(pattern)
        notice = Create(change.path, change.encode(), sequential=True)

        def on_written(result: object) -> None:
            if isinstance(result, ZooKeeperError):
                again()  # another broker wrote, or it is unknown whether this one did
                return
            self._set_rules(pattern, wanted)
            done("")

        self._sessions.submit(Multi((write, notice)), on_written)

    def _again(
        self, pattern: AclPattern, change: Change, done: Callable[[str], None], attempt: int
    ) -> None:
        if not self._try_later(attempt, partial(self.update, pattern, change, done, attempt + 1)):
            done(
                f"Failed to update ACLs for {pattern.path} after trying a maximum of"
                f" {WRITE_RETRIES_MAX} times"
            )

    def __repr__(self) -> str:
        return f"AclStore({len(self.rules)} patterns)"


def _folders() -> Iterable[str]:
    """Parents first."""
    yield LITERAL_ROOT
    yield EXTENDED_ROOT
    yield f"{EXTENDED_ROOT}/prefixed"
    for folder in FOLDERS:
        for kind in RESOURCE_TYPES.values():
            yield f"{folder}/{kind}"
    yield from CHANGES
