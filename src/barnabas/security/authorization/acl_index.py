"""The ACLs of a cluster, indexed by resource, and the decision by them.

Invariant: a matching DENY wins over every ALLOW. An operation that no ACL allows is denied; if no ACL names
the resource at all, the configuration decides (``allow.everyone.if.no.acl.found``).

Source: Kafka's StandardAuthorizerData (findAclRule, findResult) and Authorizer.authorizeByResourceType.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from barnabas.metadata.records.access_control_entry_record import AccessControlEntryRecord
from barnabas.security.authorization.acls import (
    WILDCARD,
    WILDCARD_PRINCIPAL,
    Acl,
    Operation,
    PatternType,
    Permission,
    acl_of,
)
from barnabas.security.authorization.networks import contains, is_network
from barnabas.types import Uuid

_IMPLIED_BY = {
    Operation.DESCRIBE: frozenset(
        (Operation.DESCRIBE, Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER)
    ),
    Operation.DESCRIBE_CONFIGS: frozenset((Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS)),
}
"""The operations whose ALLOW allows an operation, too."""


class AclIndex:
    """ACLs by resource type and name. `follow` brings it up to date with the image's records."""

    def __init__(self) -> None:
        self._known: dict[Uuid, Acl] = {}
        self._literal: dict[tuple[int, str], dict[Acl, int]] = {}
        self._prefixed: dict[tuple[int, str], dict[Acl, int]] = {}
        self._lengths: dict[int, dict[int, int]] = {}
        """Resource type → length of a prefix → number of ACLs with such a prefix."""

    def __len__(self) -> int:
        return len(self._known)

    def follow(self, records: dict[Uuid, AccessControlEntryRecord]) -> None:
        """Add and remove the ACLs that were added to `records`, and removed from them, since the last
        call."""
        known = self._known
        for acl_id in [acl_id for acl_id in known if acl_id not in records]:
            self._remove(known.pop(acl_id))
        for acl_id, record in records.items():
            if acl_id not in known:
                known[acl_id] = acl = acl_of(record)
                self._add(acl)

    def _add(self, acl: Acl) -> None:
        key = (acl.resource_type, acl.resource_name)
        if acl.pattern_type == PatternType.LITERAL:
            entries = self._literal.setdefault(key, {})
        elif acl.pattern_type == PatternType.PREFIXED:
            entries = self._prefixed.setdefault(key, {})
            lengths = self._lengths.setdefault(acl.resource_type, {})
            length = len(acl.resource_name)
            lengths[length] = lengths.get(length, 0) + 1
        else:
            return
        entries[acl] = entries.get(acl, 0) + 1

    def _remove(self, acl: Acl) -> None:
        key = (acl.resource_type, acl.resource_name)
        literal = acl.pattern_type == PatternType.LITERAL
        if not literal and acl.pattern_type != PatternType.PREFIXED:
            return
        table = self._literal if literal else self._prefixed
        entries = table[key]
        entries[acl] -= 1
        if not entries[acl]:
            del entries[acl]
        if not entries:
            del table[key]
        if not literal:
            lengths, length = self._lengths[acl.resource_type], len(acl.resource_name)
            lengths[length] -= 1
            if not lengths[length]:
                del lengths[length]

    def entries_for(self, resource_type: int, name: str) -> Iterator[Acl]:
        """Every entry whose pattern matches the resource."""
        yield from self._literal.get((resource_type, name), ())
        if name != WILDCARD:
            yield from self._literal.get((resource_type, WILDCARD), ())
        for length in self._lengths.get(resource_type, ()):
            if length <= len(name):
                yield from self._prefixed.get((resource_type, name[:length]), ())

    def decide(
        self,
        principal: str,
        host: str,
        operation: int,
        resource_type: int,
        name: str,
        *,
        unnamed: bool = False,
    ) -> bool:
        """Whether the operation is allowed; `unnamed` is the answer if no ACL names the resource."""
        named = allowed = False
        for acl in self.entries_for(resource_type, name):
            named = True
            if _applies(acl, principal, host, operation):
                if acl.permission_type != Permission.ALLOW:
                    return False
                allowed = True
        return allowed or (unnamed and not named)

    def decide_any(self, principal: str, host: str, operation: int, resource_type: int) -> bool:
        """Whether the operation is allowed on any resource of the type. ACLs for the operation itself and for
        ALL count, implied operations do not."""
        deny_names: set[str] = set()
        deny_prefixes: set[str] = set()
        allows: list[Acl] = []
        for acl in self._of_type(resource_type):
            if acl.operation not in (operation, Operation.ALL):
                continue
            if not _is_from(acl, principal, host):
                continue
            literal = acl.pattern_type == PatternType.LITERAL
            if acl.permission_type == Permission.ALLOW:
                allows.append(acl)
            elif not literal:
                deny_prefixes.add(acl.resource_name)
            elif acl.resource_name == WILDCARD:
                return False
            else:
                deny_names.add(acl.resource_name)
        return any(not _is_dominated(acl, deny_names, deny_prefixes) for acl in allows)

    def _of_type(self, resource_type: int) -> Iterator[Acl]:
        for table in (self._literal, self._prefixed):
            for (kind, _), entries in table.items():
                if kind == resource_type:
                    yield from entries

    def __iter__(self) -> Iterator[Acl]:
        """All entries, sorted."""
        return iter(sorted(self._known.values()))


def _is_from(acl: Acl, principal: str, host: str) -> bool:
    if acl.principal not in (principal, WILDCARD_PRINCIPAL):
        return False
    return acl.host in (host, WILDCARD) or (is_network(acl.host) and contains(acl.host, host))


def _applies(acl: Acl, principal: str, host: str, operation: int) -> bool:
    if not _is_from(acl, principal, host):
        return False
    if acl.operation in (operation, Operation.ALL):
        return True
    if acl.permission_type != Permission.ALLOW:
        return False
    return acl.operation in _IMPLIED_BY.get(Operation(operation), ())


def _is_dominated(acl: Acl, deny_names: set[str], deny_prefixes: set[str]) -> bool:
    """Whether a DENY covers all resources that an ALLOW names."""
    name = acl.resource_name
    if acl.pattern_type == PatternType.LITERAL:
        if name == WILDCARD:
            return False
        if name in deny_names:
            return True
    return _has_prefix(name, deny_prefixes)


def _has_prefix(name: str, prefixes: Iterable[str]) -> bool:
    return any(name.startswith(prefix) for prefix in prefixes)
