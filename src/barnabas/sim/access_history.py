"""The rights that each node's own metadata gave the guests, and when; judged against what it answered them.

The entries are looked through one by one here, without the index and the remembered answers of
:class:`~barnabas.security.authorization.authorizer.Authorizer`.
"""

from __future__ import annotations

from typing import cast

from barnabas.metadata.image.image import MetadataImage
from barnabas.metadata.records.access_control_entry_record import AccessControlEntryRecord
from barnabas.security.authorization.acls import (
    AclResourceType,
    Operation,
    PatternType,
    Permission,
)
from barnabas.sim.checkers.checker import Checker
from barnabas.sim.cluster import SimCluster, SimNode
from barnabas.sim.history import Violation
from barnabas.sim.secured import GUEST_PRINCIPAL

TOPIC = "guarded"
HOSTS = {Operation.WRITE: "guest write", Operation.READ: "guest read"}
"""The machine from which a guest asks for each operation."""


def is_allowed(image: MetadataImage, operation: Operation) -> bool:
    """Whether the entries of `image` let the guest do `operation` with the guarded topic."""
    allowed = False
    for entry in cast("dict[object, AccessControlEntryRecord]", image.acls).values():
        if not _concerns(entry, operation):
            continue
        if entry.permission_type == Permission.DENY:
            return False
        allowed = True
    return allowed


def _concerns(entry: AccessControlEntryRecord, operation: Operation) -> bool:
    if entry.resource_type != AclResourceType.TOPIC:
        return False
    if entry.pattern_type == PatternType.PREFIXED:
        named = TOPIC.startswith(entry.resource_name)
    else:
        named = entry.resource_name in (TOPIC, "*")
    return (
        named
        and entry.principal in (GUEST_PRINCIPAL, "User:*")
        and entry.host in ("*", HOSTS[operation])
        and entry.operation in (operation, Operation.ALL)
    )


class AccessHistory(Checker):
    """Follows every node's image, and judges what guests were answered."""

    LOOKS_AT_IMAGE = True

    def __init__(self) -> None:
        self._changes: dict[tuple[int, Operation], list[tuple[float, bool]]] = {}
        """The changes by node and operation: (virtual ms, whether it is allowed from then on)."""

    def check(self, cluster: SimCluster, node: SimNode) -> None:
        if node.broker is None:
            return
        image = node.broker.image
        for operation in HOSTS:
            changes = self._changes.setdefault((node.id, operation), [])
            allowed = image.offset >= 0 and is_allowed(image, operation)
            if not changes or changes[-1][1] != allowed:
                changes.append((cluster.world.now_ms, allowed))

    def judge(
        self, node: int, operation: Operation, began_ms: float, ended_ms: float, *, denied: bool
    ) -> None:
        """`node` answered a request that was sent at `began_ms`. Raises `Violation`."""
        seen: set[bool] = set()
        for at_ms, allowed in self._changes.get((node, operation), []):
            if at_ms > ended_ms:
                break
            if at_ms < began_ms:
                seen.clear()  # what held before the request
            seen.add(allowed)
        if (not denied) not in seen:
            raise Violation(
                f"node {node} {'denied' if denied else 'let pass'} a guest's {operation.name} of"
                f" {began_ms:.3f} to {ended_ms:.3f} ms; its own entries never said so"
            )
