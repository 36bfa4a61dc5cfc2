"""The index of entries against a model that looks at every entry, as Kafka's rules are written down."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.metadata.records.access_control_entry_record import AccessControlEntryRecord
from barnabas.security.authorization.acl_index import AclIndex
from barnabas.security.authorization.acls import (
    Acl,
    AclResourceType,
    Operation,
    PatternType,
    Permission,
    matches,
)
from barnabas.types import Uuid
from barnabas.wire.messages.describe_acls_request import DescribeAclsRequest

NAMES = ("a", "ab", "abc", "b", "*", "")
PRINCIPALS = ("User:x", "User:y", "User:*")
HOSTS = ("1.1.1.1", "2.2.2.2", "*", "1.0.0.0/8", "::/0")
acls = st.builds(
    Acl,
    st.sampled_from((AclResourceType.TOPIC, AclResourceType.GROUP)),
    st.sampled_from(NAMES),
    st.sampled_from((PatternType.LITERAL, PatternType.PREFIXED)),
    st.sampled_from(PRINCIPALS),
    st.sampled_from(HOSTS),
    st.sampled_from([o for o in Operation if o > Operation.ANY]),
    st.sampled_from((Permission.DENY, Permission.ALLOW)),
)
tables = st.dictionaries(
    st.integers(1, 60).map(lambda n: Uuid(n.to_bytes(16, "big"))), acls, max_size=12
)


def records(table: dict[Uuid, Acl]) -> dict[Uuid, AccessControlEntryRecord]:
    return {i: AccessControlEntryRecord(id=i, **acl._asdict()) for i, acl in table.items()}


def names(acl: Acl, kind: int, name: str) -> bool:
    if acl.resource_type != kind:
        return False
    if acl.pattern_type == PatternType.PREFIXED:
        return name.startswith(acl.resource_name)
    return acl.resource_name in (name, "*")


def model(
    table: dict[Uuid, Acl], principal: str, host: str, op: Operation, kind: int, name: str
) -> bool | None:
    """None: no entry names the resource."""
    implied = {
        Operation.DESCRIBE: {"DESCRIBE", "READ", "WRITE", "DELETE", "ALTER"},
        Operation.DESCRIBE_CONFIGS: {"DESCRIBE_CONFIGS", "ALTER_CONFIGS"},
    }
    named = [acl for acl in table.values() if names(acl, kind, name)]
    if not named:
        return None
    mine = [
        acl
        for acl in named
        if acl.principal in (principal, "User:*")
        and (acl.host in (host, "*") or (acl.host, host) == ("1.0.0.0/8", "1.1.1.1"))
    ]
    if any(
        a.permission_type == Permission.DENY and a.operation in (op, Operation.ALL) for a in mine
    ):
        return False
    allowing = {op.name, "ALL"} | implied.get(op, set())
    return any(
        a.permission_type == Permission.ALLOW and Operation(a.operation).name in allowing
        for a in mine
    )


@pytest.mark.slow
@given(
    tables,
    tables,
    st.sampled_from(PRINCIPALS[:2]),
    st.sampled_from(HOSTS[:2]),
    st.sampled_from(list(Operation)[3:]),
    st.sampled_from(("a", "ab", "abcd", "b", "c")),
    st.booleans(),
)
def test_the_index_decides_as_the_model_after_any_change(
    before: dict[Uuid, Acl], table: dict[Uuid, Acl], principal: str, host: str,
    operation: Operation, name: str, unnamed: bool,
) -> None:  # fmt: skip
    index = AclIndex()
    index.follow(records({i: acl for i, acl in before.items() if i not in table}))
    index.follow(records(table))
    expected = model(table, principal, host, operation, AclResourceType.TOPIC, name)
    found = index.decide(principal, host, operation, AclResourceType.TOPIC, name, unnamed=unnamed)
    assert found is (unnamed if expected is None else expected)
    assert list(index) == sorted(table.values())


def test_a_literal_denial_does_not_hide_a_prefix_that_is_allowed() -> None:
    index = AclIndex()
    allow = Acl(2, "a", PatternType.PREFIXED, "User:x", "*", Operation.WRITE, Permission.ALLOW)
    deny = allow._replace(pattern_type=PatternType.LITERAL, permission_type=Permission.DENY)
    ids = [Uuid(n.to_bytes(16, "big")) for n in (1, 2, 3)]
    index.follow(records({ids[0]: allow, ids[1]: deny}))
    assert index.decide_any("User:x", "h", Operation.WRITE, AclResourceType.TOPIC)
    whole = deny._replace(pattern_type=PatternType.PREFIXED)
    index.follow(records({ids[0]: allow, ids[2]: whole}))
    assert not index.decide_any("User:x", "h", Operation.WRITE, AclResourceType.TOPIC)


def test_a_match_filter_names_all_that_decides_about_a_resource() -> None:
    literal = Acl(2, "ab", 3, "User:x", "*", 3, 3)
    wanted = DescribeAclsRequest(
        resource_type_filter=2, resource_name_filter="ab", pattern_type_filter=2,
        principal_filter=None, host_filter=None, operation=1, permission_type=1,
    )  # fmt: skip
    found = {
        (name, pattern): matches(wanted, literal._replace(resource_name=name, pattern_type=pattern))
        for name in ("ab", "a", "*", "abc")
        for pattern in (3, 4)
    }
    assert [key for key, named in found.items() if named] == [
        ("ab", 3),
        ("ab", 4),
        ("a", 4),
        ("*", 3),
    ]
