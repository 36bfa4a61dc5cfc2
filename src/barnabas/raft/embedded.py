"""One replica of a quorum of one's own, wired to the world in a few lines: no broker, no properties file.

Owns what surrounds a :class:`RaftNode`: the directory's identity (``meta.properties``, as Kafka
writes it), the lock on it, the connections to the peers, and the listener on which they reach this one.
The voters are static: those of `peers`; any other node id observes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from barnabas.client.network.channels import Channels
from barnabas.config.meta_properties import (
    FILE_NAME,
    DirectoryError,
    MetaProperties,
    random_uuid,
    read_meta_properties,
)
from barnabas.ports import Disk, Listener, Ports
from barnabas.raft import handlers
from barnabas.raft.raft_node import RaftNode
from barnabas.raft.settings import ReplicaSettings
from barnabas.raft.state_machine import StateMachine
from barnabas.types import Endpoint, NodeId
from barnabas.wire.dispatch import ApiTable
from barnabas.wire.server import RequestServer

LISTENER = "CONTROLLER"
LOCK_FILE = ".lock"


class EmbeddedReplica:
    """`open`, then `start`; what is proposed goes to `replica`."""

    def __init__(self, replica: RaftNode, channels: Channels, listener: Listener | None) -> None:
        self.replica = replica
        self._channels = channels
        self._listener = listener

    @classmethod
    def open(
        cls,
        ports: Ports,
        directory: str,
        *,
        cluster_id: str,
        node_id: int,
        peers: Mapping[int, Endpoint],
        state_machine: StateMachine,
        **settings: Any,
    ) -> EmbeddedReplica:
        """`directory` (absolute) is made where it is missing and is this replica's from then on: it keeps
        its vote and its log. `peers` says where each voter listens, this one included. `settings`
        are further fields of `ReplicaSettings`. `state_machine` is not called before `start`.
        Raises ``DirectoryError``, ``OSError`` (another process has the directory, or the port), and
        what `RaftNode.open` does."""
        ports.disk.make_dirs(directory)
        if not ports.disk.try_lock(f"{directory}/{LOCK_FILE}"):
            raise OSError(0, "another process has it", directory)
        meta = _identity(
            ports.disk, directory, cluster_id, node_id, ports.rng("directory").randbytes
        )
        own = peers.get(node_id)
        complete = ReplicaSettings(
            cluster_id=cluster_id,
            node_id=node_id,
            directory_id=meta.directory_id,
            can_vote=own is not None,
            listeners={LISTENER: own} if own is not None else {},
            static_voters=dict(peers),
            listener_name=LISTENER,
        )
        complete = replace(complete, **settings)
        channels = Channels(ports, f"{cluster_id}-{node_id}")
        replica = RaftNode.open(ports, complete, directory, channels, state_machine)
        listener = None
        if own is not None:
            table = ApiTable()
            handlers.add_to(table, replica)
            try:
                listener = ports.network.listen(own, RequestServer(ports, LISTENER, table).accept)
            except BaseException:
                replica.close()
                raise
        return cls(replica, channels, listener)

    def start(self) -> None:
        """Take part from now on; callbacks follow."""
        self.replica.start()

    def shutdown(self, on_done: Callable[[], None]) -> None:
        """Hand leadership over, sync, close, within two seconds."""

        def left() -> None:
            if self._listener is not None:
                self._listener.close()
            self._channels.close()
            on_done()

        self.replica.shutdown(left)


def _identity(
    disk: Disk,
    directory: str,
    cluster_id: str,
    node_id: int,
    random_bytes: Callable[[int], bytes],
) -> MetaProperties:
    """What `directory` says of itself; it is given an identity where it has none."""
    meta = read_meta_properties(disk, directory)
    if meta is None:
        meta = MetaProperties(cluster_id, NodeId(node_id), random_uuid(random_bytes))
        disk.write_atomic(f"{directory}/{FILE_NAME}", meta.format_text().encode())
    if (meta.cluster_id, meta.node_id) != (cluster_id, node_id):
        raise DirectoryError(
            f"{directory} belongs to node {meta.node_id} of cluster {meta.cluster_id}"
        )
    return meta
