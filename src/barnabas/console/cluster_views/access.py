"""Access to the cluster: users, access control entries, quotas, and the expiry of certificates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import Any, NamedTuple

from barnabas.cli.certificates.days_left import TimeLeft, certificates_of
from barnabas.cli.commands.quotas import UNITS
from barnabas.cli.failure import Failure
from barnabas.client.acls import AclEntry, AclQuery, list_acls
from barnabas.client.quotas import Entity, QuotaFilter, describe_quotas
from barnabas.config.group import ADDRESS_QUOTAS, CLIENT_QUOTAS
from barnabas.host.client import Connected
from barnabas.security.authorization.acls import (
    CLUSTER_NAME,
    SUPPORTED_OPERATIONS,
    WILDCARD,
    AclResourceType,
    Operation,
    PatternType,
    Permission,
    name_of,
)
from barnabas.types import Endpoint

RESOURCES = {
    "topic": (AclResourceType.TOPIC, "--topic"),
    "group": (AclResourceType.GROUP, "--group"),
    "transactional-id": (AclResourceType.TRANSACTIONAL_ID, "--transactional-id"),
    "cluster": (AclResourceType.CLUSTER, "--cluster"),
}
"""Resources of an entry that a page adds: their number and the option of ``barnabas acls``."""
PATTERNS = {"literal": PatternType.LITERAL, "prefixed": PatternType.PREFIXED}
PERMISSIONS = {"allow": Permission.ALLOW, "deny": Permission.DENY}
ENTITY_KINDS = {"user": "user", "client-id": "client", "ip": "ip"}
"""Kinds of entity with a quota, and the word of the option for their default."""


class AclRow(NamedTuple):
    """One entry in words."""

    resource: str
    name: str
    pattern: str
    principal: str
    host: str
    operation: str
    permission: str

    @property
    def command(self) -> list[str]:
        """The options that name the entry to ``barnabas acls``; empty where none can."""
        if self.resource not in RESOURCES:
            return []
        option = RESOURCES[self.resource][1]
        named = [option] if self.resource == "cluster" else [option, self.name]
        if self.pattern != "literal":
            named += ["--resource-pattern-type", self.pattern]
        who = f"--{self.permission}"
        return [
            *named, f"{who}-principal", self.principal, f"{who}-host", self.host,
            "--operation", self.operation,
        ]  # fmt: skip


def word_of(kind: type[IntEnum], code: int) -> str:
    """A name of the protocol as a word: ``describe-configs``."""
    return name_of(kind, code).lower().replace("_", "-")


def row_of(entry: AclEntry) -> AclRow:
    return AclRow(
        word_of(AclResourceType, entry.resource_type),
        entry.resource_name,
        word_of(PatternType, entry.pattern_type),
        entry.principal,
        entry.host,
        word_of(Operation, entry.operation),
        word_of(Permission, entry.permission_type),
    )


def acl_rows(connected: Connected, text: str) -> list[AclRow]:
    """The entries that have `text` in their principal or in their resource's name."""
    found = connected.call(list_acls(connected.client, AclQuery()))
    return [
        row_of(entry)
        for entry in found
        if text.lower() in entry.principal.lower() or text.lower() in entry.resource_name.lower()
    ]


def entry_named(row: AclRow) -> AclEntry:
    """The entry that a page's address names. Raises ``ValueError``."""
    kind = _code(AclResourceType, row.resource, "a resource")
    name = CLUSTER_NAME if kind is AclResourceType.CLUSTER else row.name
    if not name:
        raise ValueError("an entry names its resource; * is every one")
    if ":" not in row.principal:
        raise ValueError(f"a principal has a type and a name, as User:{row.principal or 'alice'}")
    operation = _code(Operation, row.operation, "an operation")
    if operation is not Operation.ALL and operation not in SUPPORTED_OPERATIONS[kind]:
        raise ValueError(f"{row.operation} is no operation on a {row.resource}")
    pattern = PatternType.LITERAL
    if kind is not AclResourceType.CLUSTER:
        pattern = _code(PatternType, row.pattern, "a pattern")
    permission = _code(Permission, row.permission, "a permission")
    return AclEntry(kind, name, pattern, row.principal, row.host or WILDCARD, operation, permission)


def query_of(entry: AclEntry) -> AclQuery:
    """The query that finds exactly this entry."""
    return AclQuery(*entry)


def operations_of(resource: str) -> list[str]:
    """The operations of a resource's entries, in words."""
    if resource not in RESOURCES:
        return []
    known = SUPPORTED_OPERATIONS[RESOURCES[resource][0]]
    return [
        word_of(Operation, Operation.ALL),
        *(word_of(Operation, code) for code in sorted(known)),
    ]


def _code(kind: Any, text: str, what: str) -> Any:
    for code in kind:
        if code > 1 and word_of(kind, code) == text:  # 0 and 1 are "unknown" and "any"
            return code
    known = ", ".join(word_of(kind, code) for code in kind if code > 1)
    raise ValueError(f"{what} is one of {known}, not {text!r}")


# -- quotas ---------------------------------------------------------------------------------------


def quota_rows(connected: Connected) -> list[dict[str, Any]]:
    """Every limit that is set, by entity."""
    found = connected.call(describe_quotas(connected.client, QuotaFilter({})))
    return [
        {
            "entity": entity, "query": query_of_entity(entity), "key": key, "limit": limit,
            "unit": UNITS.get(key, ""),
        }
        for entity, limits in found.items()
        for key, limit in sorted(limits.items())
    ]  # fmt: skip


def query_of_entity(entity: Entity) -> dict[str, str]:
    """The query of an address for an entity: ``user=alice``, or ``user-default=1``."""
    return {
        kind if name is not None else f"{kind}-default": "1" if name is None else name
        for kind, name in entity
    }


def entity_in(query: Mapping[str, str]) -> Entity:
    """The entity that an address names. Raises ``ValueError``."""
    found: list[tuple[str, str | None]] = []
    for kind in sorted(ENTITY_KINDS):
        if query.get(f"{kind}-default") == "1":
            found.append((kind, None))
        elif query.get(kind):
            found.append((kind, query[kind]))
    if not found:
        raise ValueError("say whose quota: a user, a client id or an address, or their default")
    if len(found) > 1 and any(kind == "ip" for kind, _ in found):
        raise ValueError("an address goes with no user and no client id")
    return tuple(found)


def quota_keys(entity: Entity) -> list[str]:
    return [*(ADDRESS_QUOTAS if entity[0][0] == "ip" else CLIENT_QUOTAS).defaults()]


def entity_options(entity: Entity) -> list[str]:
    """The options of ``barnabas quotas`` that name an entity."""
    words: list[str] = []
    for kind, name in entity:
        words += [f"--{ENTITY_KINDS[kind]}-default"] if name is None else [f"--{kind}", name]
    return words


# -- certificates ---------------------------------------------------------------------------------


class CertificateRow(NamedTuple):
    """The certificate of one listener; `problem` says why its expiry is not known."""

    node: int
    listener: str
    days: int | None
    problem: str = ""


def certificate_rows(connected: Connected, *, is_tls: bool) -> list[CertificateRow]:
    """The certificates of the cluster. Barnabas' brokers report theirs. Those of other brokers come
    from a handshake with the listeners to which this console connects by TLS."""
    brokers = connected.describe_cluster().brokers
    counted: Sequence[TimeLeft] = certificates_of(connected, brokers)
    if counted or not is_tls:
        return [CertificateRow(left.node_id, left.listener, left.days) for left in counted]
    return [
        _presented(broker.node_id, Endpoint(broker.host, broker.port))
        for broker in brokers
        if not broker.fenced
    ]


def _presented(node: int, at: Endpoint) -> CertificateRow:
    try:
        from barnabas.cli.certificates.presented import presented, seconds_left
        from barnabas.security.certificate_watch import DAY_S

        return CertificateRow(node, str(at), seconds_left(presented(at)[0]) // DAY_S)
    except ImportError:
        needed = "reading it needs a package: pip install 'barnabas[security]'"
        return CertificateRow(node, str(at), None, needed)
    except Failure as failure:
        return CertificateRow(node, str(at), None, str(failure))
