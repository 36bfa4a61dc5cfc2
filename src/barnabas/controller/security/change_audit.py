"""The audit log of changes of access control: ACLs, SCRAM users, client quotas, delegation tokens.

Each change is one event with the requesting principal, written when it is decided. The rate of
events is bounded; changes above it are counted (``authorization.changes_left_out``), and the
metadata log still has them. No event has a secret.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from barnabas.controller.decision import Decision
from barnabas.metadata.records.access_control_entry_record import AccessControlEntryRecord
from barnabas.metadata.records.client_quota_record import ClientQuotaRecord
from barnabas.metadata.records.delegation_token_record import DelegationTokenRecord
from barnabas.metadata.records.remove_delegation_token_record import RemoveDelegationTokenRecord
from barnabas.metadata.records.remove_user_scram_credential_record import (
    RemoveUserScramCredentialRecord,
)
from barnabas.metadata.records.user_scram_credential_record import UserScramCredentialRecord
from barnabas.security.authorization.acls import Acl, acl_of
from barnabas.security.authorization.authorizer import AuditLog
from barnabas.security.authorization.event_rate import EventRate
from barnabas.security.scram_credentials import MECHANISM_OF
from barnabas.wire.request import RequestContext

CHANGES_LOGGED_PER_SECOND = 500


class ChangeAudit:
    """The audit of one controller."""

    def __init__(self, log: AuditLog, now_ms: Callable[[], float]) -> None:
        self._write = log
        self._now_ms = now_ms
        self._rate = EventRate(CHANGES_LOGGED_PER_SECOND)

    def of(self, ctx: RequestContext) -> Callable[[Decision[Any], int], None]:
        """A callback for `QuorumController.decide` that logs what the request of `ctx` changes. Removed
        ACLs, whose records have ids only, are for `log_deleted_acls`."""
        return lambda decision, offset: self.log_records(decision.records, ctx.principal)

    def log_records(self, records: Iterable[object], by: str) -> None:
        for record in records:
            self._log_record(record, by)

    def log_created_acls(self, acls: Iterable[Acl], by: str) -> None:
        for acl in acls:
            self._log("info", "acl.created", entry=str(acl), by=by)

    def log_deleted_acls(self, acls: Iterable[Acl], by: str) -> None:
        for acl in acls:
            self._log("info", "acl.deleted", entry=str(acl), by=by)

    def _log_record(self, record: object, by: str) -> None:
        match record:
            case AccessControlEntryRecord():
                self.log_created_acls([acl_of(record)], by)
            case UserScramCredentialRecord(name=name, mechanism=code):
                mechanism = MECHANISM_OF.get(code, "unknown")
                self._log("info", "user.credential_set", user=name, mechanism=mechanism, by=by)
            case RemoveUserScramCredentialRecord(name=name, mechanism=code):
                mechanism = MECHANISM_OF.get(code, "unknown")
                self._log("info", "user.credential_removed", user=name, mechanism=mechanism, by=by)
            case ClientQuotaRecord(key=key):
                entity = ",".join(
                    f"{part.entity_type}={'<default>' if part.entity_name is None else part.entity_name}"
                    for part in record.entity
                )
                limit = None if record.remove else record.value
                self._log("info", "quota.set" if limit is not None else "quota.removed",
                          entity=entity, quota=key, limit=limit, by=by)  # fmt: skip
            case DelegationTokenRecord(token_id=token_id, owner=owner):
                ends_ms = record.expiration_timestamp
                self._log("info", "token.set", id=token_id, owner=owner, expires_ms=ends_ms, by=by)
            case RemoveDelegationTokenRecord(token_id=token_id):
                self._log("info", "token.removed", id=token_id, by=by)

    def _log(self, level: str, event: str, **fields: object) -> None:
        if count := self._rate.left_out(self._now_ms()):
            self._write("warning", "authorization.changes_left_out", count=count)
        if self._rate.admits():
            self._write(level, event, **fields)
