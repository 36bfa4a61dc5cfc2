"""The users of ``barnabas up --secure``, and their ACLs, where ZooKeeper coordinates: znodes, made once.

A quorum's directories are formatted with them; here they have to be in the ensemble before the
first client comes.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from barnabas.cli.failure import Failure
from barnabas.metadata.records.access_control_entry_record import AccessControlEntryRecord
from barnabas.metadata.records.user_scram_credential_record import UserScramCredentialRecord
from barnabas.security.authorization.acls import Operation
from barnabas.zookeeper.layout.acl_znodes import AclPattern, AclRule, AclZnode, acl_of_record
from barnabas.zookeeper.layout.cluster_znodes import MECHANISMS
from barnabas.zookeeper.layout.config_znodes import ConfigZnode, sanitize
from barnabas.zookeeper.layout.quota_texts import scram_text

if TYPE_CHECKING:
    from collections.abc import Iterable

    from barnabas.wire.schema import Message

TIMEOUT_S = 20.0


def _znode(user: str, texts: dict[str, str]) -> ConfigZnode:
    return ConfigZnode(f"users/{sanitize(user)}", texts)


def write_users(connect: str, records: Iterable[Message]) -> None:
    """Make the users of `records` that the ensemble does not know, and the entries that let them in; those
    it knows stay as they are. Raises :class:`Failure`."""
    try:
        from kazoo.client import KazooClient
        from kazoo.exceptions import KazooException, NodeExistsError
        from kazoo.handlers.threading import KazooTimeoutError
    except ImportError as error:
        raise Failure("ZooKeeper needs a package: pip install 'barnabas[zookeeper]'") from error
    users: dict[str, dict[str, str]] = {}
    entries: list[tuple[AclPattern, AclRule]] = []
    for one in records:
        if isinstance(one, UserScramCredentialRecord):
            users.setdefault(one.name, {})[MECHANISMS[one.mechanism]] = scram_text(one)
        elif isinstance(one, AccessControlEntryRecord):
            if one.operation == Operation.TWO_PHASE_COMMIT:
                continue  # Kafka 3.9 has no such operation, and its ACLs in ZooKeeper no name for it
            entries.append(acl_of_record(one))
    client = KazooClient(hosts=connect)
    try:
        client.start(timeout=TIMEOUT_S)
        known = {name for name in users if client.exists(_znode(name, {}).path)}
        known_principals = {f"User:{name}" for name in known}
        wanted: dict[AclPattern, list[AclRule]] = {}
        for pattern, rule in entries:
            if rule.principal not in known_principals:
                wanted.setdefault(pattern, []).append(rule)
        made: list[AclZnode | ConfigZnode] = [
            AclZnode(pattern, tuple(rules)) for pattern, rules in wanted.items()
        ]
        made += [_znode(name, texts) for name, texts in users.items() if name not in known]
        for znode in made:
            with suppress(NodeExistsError):  # by a start that ended early
                client.create(znode.path, znode.encode(), makepath=True)
    except (KazooException, KazooTimeoutError) as error:
        raise Failure(f"the users cannot be written to ZooKeeper at {connect}: {error}") from error
    finally:
        client.stop()
        client.close()
