"""The authorizer that ``authorizer.class.name`` names, with a cache of its decisions.

Owns the index of the image's ACLs, the decisions since the last change of an ACL, and the audit log of
denials. A node has one authorizer for its broker's image and one for its controller's.

Invariants: a decision is never older than the image's ACLs (each call compares `acl_version`, so a change
also affects open connections). Super users may do everything. While the image has no metadata, others may do
nothing.

Source: Kafka's StandardAuthorizer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Protocol, cast

from barnabas.metadata.image.image import MetadataImage
from barnabas.metadata.records.access_control_entry_record import AccessControlEntryRecord
from barnabas.security.authorization.acl_index import AclIndex
from barnabas.security.authorization.acls import (
    SUPPORTED_OPERATIONS,
    Acl,
    AclResourceType,
    Operation,
    acl_of,
    name_of,
)
from barnabas.security.authorization.event_rate import EventRate
from barnabas.types import Uuid
from barnabas.wire.api_table import API_SCHEMAS
from barnabas.wire.request import RequestContext

SUPER_USERS = "super.users"
ALLOW_IF_NO_ACL = "allow.everyone.if.no.acl.found"
REMEMBERED_MAX = 20_000
"""Cached decisions; all are dropped when there are more."""
DENIALS_LOGGED_PER_SECOND = 20


class AuditLog(Protocol):
    def __call__(self, level: str, event: str, **fields: object) -> None: ...


class DenialAudit:
    """Logs denials at a bounded rate; those above it are counted, and the number is logged later."""

    def __init__(self, log: AuditLog, now_ms: Callable[[], float]) -> None:
        self._log = log
        self._now_ms = now_ms
        self._rate = EventRate(DENIALS_LOGGED_PER_SECOND)

    def log_denial(
        self, ctx: RequestContext, operation: int, resource_type: int, name: str
    ) -> None:
        if count := self._rate.left_out(self._now_ms()):
            self._log("warning", "authorization.denials_left_out", count=count)
        if not self._rate.admits():
            return
        self._log(
            "info",
            "authorization.denied",
            principal=ctx.principal,
            host=ctx.peer.host,
            operation=name_of(Operation, operation),
            resource=f"{name_of(AclResourceType, resource_type)}:{name}",
            api=API_SCHEMAS[ctx.api_key].name,
        )


class Authorizer:
    """Decides whether the sender of a request may do an operation."""

    def __init__(
        self,
        image: MetadataImage,
        *,
        super_users: Iterable[str] = (),
        allow_if_no_acl: bool = False,
        audit: DenialAudit | None = None,
    ) -> None:
        self.image = image
        self._super_users = frozenset(super_users)
        self._allow_if_no_acl = allow_if_no_acl
        self._audit = audit
        self._index = AclIndex()
        self._version = -1
        self._answers: dict[tuple[str, str, int, int, str | None], bool] = {}

    @property
    def version(self) -> int:
        """Grows with each change of an ACL."""
        return self.image.acl_version

    def may(
        self,
        ctx: RequestContext,
        operation: int,
        resource_type: int,
        name: str,
        *,
        audited: bool = True,
    ) -> bool:
        """Whether `ctx`'s principal may do `operation` from its host. With `audited` a denial is logged;
        checks of what is visible pass False."""
        if self._version != self.image.acl_version:
            self._follow()
        key = (ctx.principal, ctx.peer.host, operation, resource_type, name)
        allowed = self._answers.get(key)
        if allowed is None:
            allowed = self._decide(*key)
        if not allowed and audited and self._audit is not None:
            self._audit.log_denial(ctx, operation, resource_type, name)
        return allowed

    def may_on_any(self, ctx: RequestContext, operation: int, resource_type: int) -> bool:
        """Whether the principal may do `operation` on some resource of the type."""
        if self._version != self.image.acl_version:
            self._follow()
        key = (ctx.principal, ctx.peer.host, operation, resource_type, None)
        allowed = self._answers.get(key)
        if allowed is None:
            allowed = self._decide(*key)
        return allowed

    def operations(self, ctx: RequestContext, resource_type: AclResourceType, name: str) -> int:
        """The operations that the principal may do, a bit for each code (KIP-430)."""
        return sum(
            1 << operation
            for operation in SUPPORTED_OPERATIONS[resource_type]
            if self.may(ctx, operation, resource_type, name, audited=False)
        )

    def entries(self) -> list[tuple[Uuid, Acl]]:
        """(id, ACL) of all ACLs, sorted by ACL."""
        return sorted(
            ((acl_id, acl_of(record)) for acl_id, record in self._records().items()),
            key=lambda entry: entry[1],
        )

    def _records(self) -> dict[Uuid, AccessControlEntryRecord]:
        return cast("dict[Uuid, AccessControlEntryRecord]", self.image.acls)

    def _follow(self) -> None:
        self._index.follow(self._records())
        self._version = self.image.acl_version
        self._answers.clear()

    def _decide(
        self, principal: str, host: str, operation: int, resource_type: int, name: str | None
    ) -> bool:
        if principal in self._super_users:
            allowed = True
        elif self.image.offset < 0:
            return False  # nothing is known yet, and nothing is remembered
        elif name is None:
            allowed = self._decide_any(principal, host, operation, resource_type)
        else:
            allowed = self._index.decide(
                principal, host, operation, resource_type, name, unnamed=self._allow_if_no_acl
            )
        if len(self._answers) >= REMEMBERED_MAX:
            self._answers.clear()
        self._answers[principal, host, operation, resource_type, name] = allowed
        return allowed

    def _decide_any(self, principal: str, host: str, operation: int, resource_type: int) -> bool:
        """Decide as Kafka does: first for a name that no ACL has, which
        ``allow.everyone.if.no.acl.found`` may allow."""
        return self._index.decide(
            principal, host, operation, resource_type, "hardcode", unnamed=self._allow_if_no_acl
        ) or self._index.decide_any(principal, host, operation, resource_type)

    def __repr__(self) -> str:
        return f"Authorizer({len(self._index)} ACLs, {len(self._super_users)} super users)"


def authorizer_of(
    properties: Mapping[str, str], image: MetadataImage, log: AuditLog, now_ms: Callable[[], float]
) -> Authorizer | None:
    """The configured authorizer; None without ``authorizer.class.name``."""
    if not properties.get("authorizer.class.name", "").strip():
        return None
    return Authorizer(
        image,
        super_users=super_users_of(properties.get(SUPER_USERS, "")),
        allow_if_no_acl=properties.get(ALLOW_IF_NO_ACL, "false").strip().lower() == "true",
        audit=DenialAudit(log, now_ms),
    )


def super_users_of(value: str) -> list[str]:
    """The principals of ``super.users``, which semicolons separate (names may hold commas)."""
    return [name.strip() for name in value.split(";") if name.strip()]
