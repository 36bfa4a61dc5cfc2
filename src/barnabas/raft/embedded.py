"""A replica of an application's own quorum, opened in a few lines, without a broker or a properties file.

Owns what a :class:`RaftNode` needs: the directory's identity (``meta.properties``, as Kafka writes it), the
lock on the directory, the connections to the peers, and the listener for their requests. The voters are
static: the nodes in `peers`. A node with another id is an observer.
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
    """A replica with its surroundings. Call `open`, then `start`; propose to `replica`."""

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
        listen: bool = True,
        **settings: Any,
    ) -> EmbeddedReplica:
        """Open or create the replica in `directory`, an absolute path, which keeps its vote and its log.

        `peers` names each voter's listener, this one's included; without `listen` it is not opened, for a
        voter that is alone. `settings` are further fields of `ReplicaSettings`. `state_machine` is not called
        before `start`. Raises ``DirectoryError`` (the directory belongs to another node), ``OSError``
        (another process has the directory, or the port), and the errors of `RaftNode.open`."""
        ports.disk.make_dirs(directory)
        if not ports.disk.try_lock(f"{directory}/{LOCK_FILE}"):
            raise OSError(0, "another process uses this directory", directory)
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
        if own is not None and listen:
            table = ApiTable()
            handlers.add_to(table, replica)
            try:
                listener = ports.network.listen(own, RequestServer(ports, LISTENER, table).accept)
            except BaseException:
                replica.close()
                raise
        return cls(replica, channels, listener)

    def start(self) -> None:
        """Take part in the quorum; from now on the state machine is called."""
        self.replica.start()

    def shutdown(self, on_done: Callable[[], None]) -> None:
        """Give up leadership, sync and close; takes at most two seconds, then calls `on_done`."""

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
    """The ``meta.properties`` of `directory`, written if missing. Raises DirectoryError if they name another
    cluster or node."""
    meta = read_meta_properties(disk, directory)
    if meta is None:
        meta = MetaProperties(cluster_id, NodeId(node_id), random_uuid(random_bytes))
        disk.write_atomic(f"{directory}/{FILE_NAME}", meta.format_text().encode())
    if (meta.cluster_id, meta.node_id) != (cluster_id, node_id):
        raise DirectoryError(
            f"{directory} belongs to node {meta.node_id} of cluster {meta.cluster_id}"
        )
    return meta
