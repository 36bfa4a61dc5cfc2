"""The audit log: an event per denial and per change with who asked for it, at a bounded rate, no secret."""

from __future__ import annotations

from typing import Any

from barnabas.controller.decision import Decision
from barnabas.controller.security.change_audit import CHANGES_LOGGED_PER_SECOND, ChangeAudit
from barnabas.metadata.records.access_control_entry_record import AccessControlEntryRecord
from barnabas.metadata.records.client_quota_record import ClientQuotaRecord, EntityData
from barnabas.metadata.records.delegation_token_record import DelegationTokenRecord
from barnabas.metadata.records.remove_delegation_token_record import RemoveDelegationTokenRecord
from barnabas.metadata.records.remove_user_scram_credential_record import (
    RemoveUserScramCredentialRecord,
)
from barnabas.metadata.records.user_scram_credential_record import UserScramCredentialRecord
from barnabas.security.authorization.acls import Acl
from barnabas.security.authorization.authorizer import DENIALS_LOGGED_PER_SECOND, DenialAudit
from barnabas.types import Endpoint
from barnabas.wire.request import RequestContext

CTX = RequestContext(api_key=0, api_version=9, principal="User:admin", peer=Endpoint("10.0.0.1", 1))


class Lines:
    """Events that were written, and a clock that is moved by hand."""

    def __init__(self) -> None:
        self.now = 0.0
        self.written: list[tuple[str, dict[str, object]]] = []

    def __call__(self, level: str, event: str, **fields: object) -> None:
        self.written.append((event, fields))

    def now_ms(self) -> float:
        return self.now

    def counts(self) -> dict[str, int]:
        found: dict[str, int] = {}
        for event, _ in self.written:
            found[event] = found.get(event, 0) + 1
        return found


def log_records(lines: Lines, *records: Any) -> None:
    ChangeAudit(lines, lines.now_ms).of(CTX)(Decision(None, list(records)), 0)


def test_each_change_is_an_event_with_who_asked_for_it() -> None:
    lines = Lines()
    entity = [EntityData(entity_type="user", entity_name="alice"),
              EntityData(entity_type="client-id", entity_name=None)]  # fmt: skip
    log_records(
        lines,
        AccessControlEntryRecord(
            resource_type=2, resource_name="t", pattern_type=3, principal="User:alice", host="*",
            operation=3, permission_type=3,
        ),
        UserScramCredentialRecord(
            name="bob", mechanism=2, salt=b"the salt", stored_key=b"the key", server_key=b"other"
        ),
        RemoveUserScramCredentialRecord(name="bob", mechanism=2),
        ClientQuotaRecord(entity=entity, key="producer_byte_rate", value=5.0),
        ClientQuotaRecord(entity=entity, key="producer_byte_rate", remove=True),
        DelegationTokenRecord(token_id="abc", owner="User:alice", expiration_timestamp=7),
        RemoveDelegationTokenRecord(token_id="abc"),
    )  # fmt: skip
    assert [event for event, _ in lines.written] == [
        "acl.created", "user.credential_set", "user.credential_removed", "quota.set",
        "quota.removed", "token.set", "token.removed",
    ]  # fmt: skip
    assert {fields["by"] for _, fields in lines.written} == {"User:admin"}
    assert lines.written[3][1] == {
        "entity": "user=alice,client-id=<default>", "quota": "producer_byte_rate", "limit": 5.0,
        "by": "User:admin",
    }  # fmt: skip
    assert "the salt" not in str(lines.written) and "the key" not in str(lines.written)


def test_changes_beyond_the_rate_are_counted() -> None:
    lines, more = Lines(), 70
    audit = ChangeAudit(lines, lines.now_ms)
    acls = [
        Acl(2, f"t{n}", 3, "User:a", "*", 3, 3) for n in range(CHANGES_LOGGED_PER_SECOND + more)
    ]
    audit.log_deleted_acls(acls, "User:admin")
    assert lines.counts() == {"acl.deleted": CHANGES_LOGGED_PER_SECOND}
    lines.now = 1000.0
    audit.log_deleted_acls(acls[:1], "User:admin")
    assert lines.written[-2:] == [
        ("authorization.changes_left_out", {"count": more}),
        ("acl.deleted", {"entry": str(acls[0]), "by": "User:admin"}),
    ]


def test_denials_beyond_the_rate_are_counted() -> None:
    lines = Lines()
    audit = DenialAudit(lines, lines.now_ms)
    for turn in range(3):
        for _ in range(DENIALS_LOGGED_PER_SECOND + turn):
            audit.log_denial(CTX, 4, 2, "t")
        lines.now += 1000.0
    assert lines.counts() == {
        "authorization.denied": 3 * DENIALS_LOGGED_PER_SECOND,
        "authorization.denials_left_out": 1,
    }
