"""The rights that an ACL gives, and the ACLs that a server takes.

Pure. An identity is a pair (scheme, id): `("ip", "10.0.0.1")` of every connection, `("digest", "user:hash")`
of one that has sent the password. The schemes are ZooKeeper's own that need no further set-up: `world`,
`digest`, `ip`.

Source: ``PrepRequestProcessor.checkACL``, ``fixupACL``; ``DigestAuthenticationProvider``,
``IPAuthenticationProvider``."""

from __future__ import annotations

import base64
import hashlib
import ipaddress
from collections.abc import Collection

from barnabas.zookeeper.errors import InvalidACL
from barnabas.zookeeper.operations import OPEN_ACL, Perms, ZnodeAcl

Identity = tuple[str, str]
ANYONE = ("world", "anyone")
SERVED_SCHEMES = frozenset(("world", "digest", "ip"))


def allows(acl: tuple[ZnodeAcl, ...], wanted: int, identities: Collection[Identity]) -> bool:
    """Whether one entry of `acl` gives one of the permissions `wanted` to one of `identities`, or to
    anyone."""
    return acl is OPEN_ACL or any(
        entry.perms & wanted and _is_of(entry, identities) for entry in acl
    )


def _is_of(entry: ZnodeAcl, identities: Collection[Identity]) -> bool:
    if (entry.scheme, entry.id) == ANYONE:
        return True
    if entry.scheme == "ip":
        return any(scheme == "ip" and _is_within(id, entry.id) for scheme, id in identities)
    return (entry.scheme, entry.id) in identities


def _is_within(address: str, network: str) -> bool:
    try:
        return ipaddress.ip_address(address) in ipaddress.ip_network(network, strict=False)
    except ValueError:
        return False


def taken_acl(
    acl: tuple[ZnodeAcl, ...],
    path: str,
    identities: Collection[Identity],
    schemes: Collection[str] | None,
) -> tuple[ZnodeAcl, ...]:
    """`acl` as it is kept: `auth` becomes the identities that were proved. `schemes` are those that are
    served; None takes all but `auth`. Raises `InvalidACL`."""
    taken: dict[ZnodeAcl, None] = {}
    for entry in acl:
        if entry.scheme == "auth":
            proved = [identity for identity in identities if identity[0] != "ip"]
            if not proved:
                raise InvalidACL(path)
            taken.update((ZnodeAcl(entry.perms, *identity), None) for identity in proved)
        elif schemes is None or (entry.scheme in schemes and _is_valid(entry)):
            taken[entry] = None
        else:
            raise InvalidACL(path)
    if not taken:
        raise InvalidACL(path)
    kept = tuple(taken)
    return OPEN_ACL if kept == OPEN_ACL else kept


def _is_valid(entry: ZnodeAcl) -> bool:
    if entry.scheme == "world":
        return entry.id == "anyone"
    if entry.scheme == "digest":
        return entry.id.count(":") == 1
    try:
        ipaddress.ip_network(entry.id, strict=False)
    except ValueError:
        return False
    return True


def masked_acl(acl: tuple[ZnodeAcl, ...], identities: Collection[Identity]) -> tuple[ZnodeAcl, ...]:
    """`acl` as `identities` may see it: hashes of passwords are for those with ADMIN."""
    if allows(acl, Perms.ADMIN, identities):
        return acl
    return tuple(
        entry._replace(id=f"{entry.id.partition(':')[0]}:x") if entry.scheme == "digest" else entry
        for entry in acl
    )


def digest_identity(user_and_password: bytes) -> Identity:
    """The identity of `user:password`."""
    user = user_and_password.partition(b":")[0].decode("utf-8", "replace")
    hashed = base64.b64encode(hashlib.sha1(user_and_password).digest()).decode()
    return "digest", f"{user}:{hashed}"
