"""Who coordinates the cluster of ``barnabas up``: its own quorum, or ZooKeeper.

A directory stays with what it began with. Without an ensemble to use (`--zookeeper`) servers are started in
the directory itself, ``DIR/zookeeper-1`` and so on, and end with ``up``; their client ports are kept. They
are Apache ZooKeeper's where Java and its jars are found, and otherwise this project's own."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from barnabas.cli.failure import Failure
from barnabas.config.meta_properties import FILE_NAME as META_PROPERTIES

if TYPE_CHECKING:
    from barnabas.cli.local.zookeeper_servers import ZooKeeperServers

QUORUM, ZOOKEEPER = "kraft", "zookeeper"
OWN_PREFIX = "zookeeper-"


class Coordination(NamedTuple):
    """`connect` is empty where the cluster has a quorum; `servers` are those that ``up`` runs."""

    connect: str = ""
    servers: ZooKeeperServers | None = None
    note: str = ""
    """Why the servers are this project's own, where that was not asked for."""

    def start(self) -> None:
        """Start the servers and wait until they serve. Raises :class:`Failure`."""
        if self.servers is None:
            return
        from barnabas.cli.local.zookeeper_servers import ZooKeeperFailed

        try:
            self.servers.start()
        except (ZooKeeperFailed, OSError) as error:
            raise Failure(f"ZooKeeper cannot be started: {error}") from error

    def stop(self) -> None:
        if self.servers is not None:
            self.servers.stop()


def coordination_of(
    directory: Path,
    present: str | None,
    *,
    has_cluster: bool,
    wanted: str,
    ensemble: str,
    servers: int | None,
    server: str = "",
) -> Coordination:
    """`present`: what the directory's nodes connect to; `wanted`, `ensemble`, `servers` and `server`: what
    was asked for. Raises :class:`Failure`."""
    if present is None and wanted in ("", QUORUM) and not (ensemble or servers or server):
        return Coordination()
    from barnabas.cli.local.zookeeper_servers import (
        APACHE,
        OWN,
        ZooKeeperMissing,
        ZooKeeperServers,
    )

    wanted = wanted or (ZOOKEEPER if ensemble or servers or server else "")
    if server not in ("", APACHE, OWN):
        raise Failure(f"--zookeeper-server is {OWN} or {APACHE}, not {server!r}", 2)
    if wanted not in ("", QUORUM, ZOOKEEPER):
        raise Failure(f"--coordination is {QUORUM} or {ZOOKEEPER}, not {wanted!r}", 2)
    if has_cluster and wanted and (wanted == ZOOKEEPER) != (present is not None):
        held = "ZooKeeper" if present is not None else "a quorum"
        raise Failure(f"{directory} holds a cluster that {held} coordinates: it stays so")
    if present is None and wanted != ZOOKEEPER:
        return Coordination()
    own = sorted(directory.glob(f"{OWN_PREFIX}*/zoo.cfg"))
    if ensemble or (present is not None and not own):
        return Coordination(ensemble or present or "")
    if servers is not None and own and servers != len(own):
        raise Failure(f"{directory} has {len(own)} ZooKeeper servers, not {servers}")
    number = len(own) or servers or 1
    kept = [int(at.rpartition(":")[2]) for at in (present or "").split(",") if ":" in at]
    kind = _kind_of(own[0].parent) if own else ""
    if kind and server not in ("", kind):
        raise Failure(f"the ZooKeeper servers in {directory} are {kind}'s: they stay so")
    note = ""
    try:
        made = ZooKeeperServers(directory, number, client_ports=kept, kind=kind or server or APACHE)
    except ZooKeeperMissing as error:
        if kind or server:
            raise Failure(str(error)) from error
        note = f"{error}; the ZooKeeper servers are Barnabas' own"
        made = ZooKeeperServers(directory, number, client_ports=kept, kind=OWN)
    return Coordination(made.connect, made, note)


def _kind_of(server: Path) -> str:
    """Whose data the directory of a server has; empty where it has none yet."""
    from barnabas.cli.local.zookeeper_servers import APACHE, OWN

    if (server / "data" / "version-2").exists():
        return APACHE
    return OWN if (server / "data" / META_PROPERTIES).exists() else ""
