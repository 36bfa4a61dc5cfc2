"""The SCRAM users of ``barnabas up --secure`` where ZooKeeper coordinates the cluster: znodes, made once.

A quorum's directories are formatted with them; here they have to be in the ensemble before the
first client comes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.cli.failure import Failure
from barnabas.metadata.records.user_scram_credential_record import UserScramCredentialRecord
from barnabas.zookeeper.layout.cluster_znodes import MECHANISMS
from barnabas.zookeeper.layout.config_znodes import ConfigZnode, sanitize
from barnabas.zookeeper.layout.quota_texts import scram_text

if TYPE_CHECKING:
    from collections.abc import Iterable

    from barnabas.wire.schema import Message

TIMEOUT_S = 20.0


def write_users(connect: str, credentials: Iterable[Message]) -> None:
    """Make the users that the ensemble does not know; those it knows stay. Raises :class:`Failure`."""
    try:
        from kazoo.client import KazooClient
        from kazoo.exceptions import KazooException, NodeExistsError
        from kazoo.handlers.threading import KazooTimeoutError
    except ImportError as error:
        raise Failure("ZooKeeper needs a package: pip install 'barnabas[zookeeper]'") from error
    users: dict[str, dict[str, str]] = {}
    for one in credentials:
        if isinstance(one, UserScramCredentialRecord):
            users.setdefault(one.name, {})[MECHANISMS[one.mechanism]] = scram_text(one)
    client = KazooClient(hosts=connect)
    try:
        client.start(timeout=TIMEOUT_S)
        client.ensure_path("/config/users")
        for name, texts in users.items():
            znode = ConfigZnode(f"users/{sanitize(name)}", texts)
            try:
                client.create(znode.path, znode.encode())
            except NodeExistsError:
                continue
    except (KazooException, KazooTimeoutError) as error:
        raise Failure(f"the users cannot be written to ZooKeeper at {connect}: {error}") from error
    finally:
        client.stop()
        client.close()
