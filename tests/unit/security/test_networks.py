"""Networks as hosts of ACLs. The table of networks and their hosts was asked of Kafka 4.4.0's CidrUtils."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas.controller.security.acls import checked_acl
from barnabas.metadata.features import NETWORKS_IN_ACLS_SINCE
from barnabas.metadata.records.access_control_entry_record import AccessControlEntryRecord
from barnabas.security.authorization.acl_index import AclIndex
from barnabas.security.authorization.acls import AclResourceType, Operation, Permission
from barnabas.security.authorization.networks import contains, network_of
from barnabas.types import Uuid
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.messages.create_acls_request import AclCreation

HOSTS = [
    "10.1.2.3", "10.0.0.0", "10.255.255.255", "11.0.0.0", "255.255.255.255", "10.0.0.4",
    "2001:db8:0:0:0:0:0:1", "2001:db9:0:0:0:0:0:1", "0:0:0:0:0:0:0:1", "::1",
    "fe80:0:0:0:0:0:0:1%eth0", "host", "", "0:0:0:0:0:0:0:0",
]  # fmt: skip
TEN = {"10.1.2.3", "10.0.0.0", "10.255.255.255", "10.0.0.4"}
V4 = TEN | {"11.0.0.0", "255.255.255.255"}
DB8 = {"2001:db8:0:0:0:0:0:1"}
V6 = DB8 | {
    "2001:db9:0:0:0:0:0:1", "0:0:0:0:0:0:0:1", "::1", "fe80:0:0:0:0:0:0:1%eth0", "0:0:0:0:0:0:0:0",
}  # fmt: skip
NETWORKS: dict[str, set[str]] = {
    "10.0.0.0/8": TEN, "10.1.2.3/8": TEN, "010.0.0.0/8": TEN, "10.0.0.0/08": TEN,
    "10.0.0.0/0": V4, "0.0.0.0/0": V4, "10.0.0.0/32": {"10.0.0.0"}, "10.0.0.5/31": {"10.0.0.4"},
    "2001:db8::/32": DB8, "2001:db8::1/32": DB8, "2001:DB8::/32": DB8, "2001:db8::/032": DB8,
    "::/0": V6, "::1/128": {"0:0:0:0:0:0:0:1", "::1"}, "[::1]/128": {"0:0:0:0:0:0:0:1", "::1"},
    "fe80::1%eth0/64": {"fe80:0:0:0:0:0:0:1%eth0"}, "::10.0.0.0/104": set(),
}  # fmt: skip
NONE = [
    "10.0.0.0/33", "10.0.0/8", "256.0.0.0/8", "10.0.0.0/255.0.0.0", "10.0.0.0/", "/8", "10.0.0.0/8 ",
    " 10.0.0.0/8", "10.0.0.0/-1", "10.0.0.0/8/8", "a/8", "::/129", "2001:db8::/", "2001:db8::/32 ",
    "::ffff:10.0.0.0/104", "1::2::3/64", "*/8", "12345::/16", ":/8",
]  # fmt: skip


@pytest.mark.parametrize("network", NETWORKS)
def test_a_network_contains_the_hosts_that_kafka_finds_in_it(network: str) -> None:
    assert {host for host in HOSTS if contains(network, host)} == NETWORKS[network]


@pytest.mark.parametrize("text", NONE)
def test_a_text_that_is_no_network_is_refused_and_contains_nothing(text: str) -> None:
    with pytest.raises(ValueError, match="Invalid CIDR notation"):
        network_of(text)
    assert not any(contains(text, host) for host in HOSTS)


def test_an_address_of_version_4_is_one_in_every_form() -> None:
    assert contains("10.0.0.0/8", "::ffff:10.1.2.3")
    assert not contains("::/0", "::ffff:10.1.2.3")


def creation(host: str) -> AclCreation:
    return AclCreation(
        resource_type=AclResourceType.TOPIC, resource_name="t", resource_pattern_type=3,
        principal="User:x", host=host, operation=Operation.READ, permission_type=Permission.DENY,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("host", "level", "code"),
    [
        ("10.0.0.0/8", NETWORKS_IN_ACLS_SINCE, None),
        ("10.0.0.0/8", NETWORKS_IN_ACLS_SINCE - 1, ErrorCode.UNSUPPORTED_VERSION),
        ("10.0.0.0/33", NETWORKS_IN_ACLS_SINCE, ErrorCode.INVALID_REQUEST),
        ("10.1.2.3", NETWORKS_IN_ACLS_SINCE - 1, None),
    ],
)
def test_an_acl_for_a_network_needs_the_level_that_has_them(
    host: str, level: int, code: ErrorCode | None
) -> None:
    if code is None:
        assert checked_acl(creation(host), level).host == host
        return
    with pytest.raises(KafkaError) as refused:
        checked_acl(creation(host), level)
    assert refused.value.code is code


def test_a_denial_for_a_network_denies_those_in_it() -> None:
    index = AclIndex()
    allow = checked_acl(creation("*"), 33)._replace(permission_type=Permission.ALLOW)
    deny = checked_acl(creation("10.0.0.0/8"), 33)
    acls: Any = {
        Uuid(bytes([n]) * 16): AccessControlEntryRecord(id=Uuid(bytes([n]) * 16), **acl._asdict())
        for n, acl in enumerate((allow, deny))
    }
    index.follow(acls)
    for host, is_allowed in (("10.1.2.3", False), ("11.0.0.0", True), ("::1", True)):
        asked = ("User:x", host, Operation.READ, AclResourceType.TOPIC)
        assert index.decide(*asked, "t") is is_allowed
        assert index.decide_any(*asked) is is_allowed
