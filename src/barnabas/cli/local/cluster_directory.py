"""The directory of a cluster that ``barnabas up`` keeps: nodes, ports, ``cluster.json``.

    DIR/cluster.json              what runs where; true at every moment, replaced atomically
    DIR/node-1/server.properties  the node's configuration
    DIR/node-1/node.log           what it says
    DIR/node-1/data/              its log directory

Ports stay below the range from which outgoing connections take theirs, so that none takes a node's
port while the node is dead; they are kept from start to start and replaced where someone else has
them. Does not start processes.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from barnabas.cli.failure import Failure
from barnabas.cli.local.free_ports import HOST, FreePorts, require_free
from barnabas.cli.local.local_security import LocalSecurity
from barnabas.config.properties import FAULTS_KEY, format_properties, parse_properties
from barnabas.types import Endpoint

CLIENT_LISTENER = "PLAINTEXT"
SECURE_LISTENER = "SASL_SSL"
CONTROLLER_LISTENER = "CONTROLLER"
VOTERS_KEY = "controller.quorum.voters"
ZOOKEEPER_KEY = "zookeeper.connect"
METRICS_KEY = "metrics.listeners"
KEPT_KEYS = (
    "node.id",
    "listeners",
    "advertised.listeners",
    "listener.security.protocol.map",
    "inter.broker.listener.name",
    "controller.listener.names",
    VOTERS_KEY,
    ZOOKEEPER_KEY,
    "broker.id",
    "log.dirs",
    METRICS_KEY,
)
"""The keys that this module writes itself; users cannot set these."""


class NodeFiles(NamedTuple):
    """One node of the directory."""

    node_id: int
    home: Path
    client_port: int
    controller_port: int
    metrics_port: int
    advertised_port: int = 0
    """The port that the node advertises, if a relay is in front of it; else 0."""

    @property
    def properties(self) -> Path:
        return self.home / "server.properties"

    @property
    def log(self) -> Path:
        return self.home / "node.log"

    @property
    def data(self) -> Path:
        return self.home / "data"

    @property
    def client_endpoint(self) -> Endpoint:
        """The address at which clients find the node."""
        return Endpoint(HOST, self.advertised_port or self.client_port)

    @property
    def client_listener(self) -> Endpoint:
        """The address at which the node listens for clients."""
        return Endpoint(HOST, self.client_port)

    @property
    def controller_endpoint(self) -> Endpoint:
        return Endpoint(HOST, self.controller_port)

    @property
    def metrics_url(self) -> str:
        """The address that serves metrics and health."""
        return f"http://{Endpoint(HOST, self.metrics_port)}"

    @property
    def listeners(self) -> dict[str, str]:
        """The listeners by name; without a quorum no listener is the controllers' own."""
        found = {CLIENT_LISTENER: str(self.client_endpoint)}
        if self.controller_port:
            found[CONTROLLER_LISTENER] = str(self.controller_endpoint)
        return found


class ClusterDirectory:
    """One directory. Locked by the ``up`` that runs its cluster."""

    def __init__(self, path: Path) -> None:
        self.path = path.absolute()
        self._lock: int | None = None
        self.security = LocalSecurity(self.path)

    @property
    def state_file(self) -> Path:
        return self.path / "cluster.json"

    def lock(self) -> None:
        """Lock the directory for this process's life. Raises :class:`Failure` where another one has it."""
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(self.path / ".up.lock", os.O_RDWR | os.O_CREAT, 0o644)
        except OSError as error:
            raise Failure(f"{self.path} cannot be used: {error.strerror}") from error
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            raise Failure(f"another `barnabas up` runs the cluster in {self.path}") from None
        self._lock = descriptor

    def nodes(self) -> list[NodeFiles]:
        """Those that are there, by id, with the ports in their files."""
        found = []
        for home in self.path.glob("node-*"):
            number = home.name.removeprefix("node-")
            if number.isdigit() and (home / "server.properties").exists():
                found.append(_read_node(int(number), home))
        return sorted(found)

    def lay_out(
        self,
        count: int | None,
        settings: Mapping[str, str],
        port: int | None = None,
        racks: Sequence[str] = (),
        *,
        secure: bool = False,
        zookeeper: str = "",
    ) -> list[NodeFiles]:
        """Bring the directory to `count` nodes (None: as many as there are, or 1) with `settings`
        over what they have, and with ports that are free; with `port` clients find the first node there and
        the others behind it. `racks` are dealt out in turn; `secure` lets listeners
        encrypt and authenticate, and stays; `zookeeper` is the ensemble that coordinates the cluster, which
        then has no quorum. Raises :class:`Failure`."""
        for key in KEPT_KEYS:
            if key in settings:
                raise Failure(f"{key} cannot be set: `barnabas up` chooses it")
        present = self.nodes()
        if not settings.get(FAULTS_KEY) and any(_has_faults(node) for node in present):
            raise Failure(
                f"{self.path} holds a cluster with faults; only barnabas.testing starts it"
            )
        known = self._known_nodes(present)
        if count is not None and known and count != known:
            raise Failure(f"{self.path} holds a cluster of {known} nodes, not {count}")
        number = known or count or 1
        ports, advertised = FreePorts(), ports_of_relay(settings)
        homes = {node.node_id: node for node in present}
        nodes = []
        for node_id in range(1, number + 1):
            old = homes.get(node_id)
            home = self.path / f"node-{node_id}"
            nodes.append(
                NodeFiles(
                    node_id,
                    home,
                    _client_port(ports, old, None if port is None else port + node_id - 1, node_id),
                    0 if zookeeper else ports.keep_or_take(old.controller_port if old else None),
                    ports.keep_or_take(old.metrics_port or None if old else None),
                    advertised.get(node_id, 0),
                )
            )
        if secure:
            if present and not self.security.is_there:
                raise Failure(f"{self.path} holds an open cluster: --secure is for a new one")
            self.security.create([node.node_id for node in nodes])
        for node in nodes:
            rack = {"broker.rack": racks[(node.node_id - 1) % len(racks)]} if racks else {}
            chosen = {**settings, **rack}
            security = self.security if secure else None
            values = (
                _zookeeper_mode_properties(node, len(nodes), chosen, zookeeper, security)
                if zookeeper
                else _properties(node, nodes, chosen, security)
            )
            _write_properties(node, values)
        return nodes

    @property
    def zookeeper(self) -> str | None:
        """The ensemble that coordinates the cluster of this directory; None where a quorum does, or where
        there is no cluster yet."""
        for node in self.nodes():
            return parse_properties(node.properties.read_text()).get(ZOOKEEPER_KEY)
        return None

    def _known_nodes(self, present: list[NodeFiles]) -> int:
        """How many nodes the cluster has, including those whose directories were removed: a quorum
        must not become smaller because a disk was lost."""
        ids = [node.node_id for node in present]
        for node in present:
            voters = parse_properties(node.properties.read_text()).get(VOTERS_KEY, "")
            ids += [int(voter.partition("@")[0]) for voter in voters.split(",") if voter]
        return max(ids, default=0)

    # -- cluster.json ------------------------------------------------------------------------------

    def write_state(self, nodes: list[NodeFiles], pids: Mapping[int, int | None]) -> None:
        """Write down the nodes that run: replaces the file. `pids` has None for a node that is dead."""
        state = {
            "bootstrap": bootstrap(nodes),
            "up": os.getpid(),
            **({"zookeeper": self.zookeeper} if self.zookeeper else {}),
            "nodes": [
                {
                    "id": node.node_id,
                    "pid": pids.get(node.node_id),
                    "listeners": node.listeners,
                    **({"metrics": node.metrics_url} if node.metrics_port else {}),
                    "properties": str(node.properties),
                    "log": str(node.log),
                }
                for node in nodes
            ],
        }
        with self._updating():
            self._replace(state)

    def read_state(self) -> dict[str, Any] | None:
        """The file's content; None if there is no file, or a power loss left it incomplete (`up`
        finds out its content again and rewrites it)."""
        try:
            state: dict[str, Any] = json.loads(self.state_file.read_text())
        except (FileNotFoundError, ValueError):
            return None
        return state

    def set_pid(self, node_id: int, pid: int) -> None:
        """One node came."""
        self._update_node(lambda entry: entry["id"] == node_id, lambda old: pid)

    def clear_pid(self, node_id: int, pid: int) -> None:
        """One node went. Its successor may have told of itself already."""
        self._update_node(lambda entry: entry["id"] == node_id, _without(pid))

    def announce(self, properties: Path, pid: int) -> None:
        """A node was started without ``up``; tell the ``up`` that runs the rest, where one does."""
        file = str(properties.absolute())
        state = self._update_node(lambda entry: entry["properties"] == file, lambda old: pid)
        if state is not None and self._is_run():
            with contextlib.suppress(ProcessLookupError):
                os.kill(state["up"], signal.SIGUSR1)

    def withdraw(self, properties: Path, pid: int) -> None:
        """The node that `announce` told of ended."""
        file = str(properties.absolute())
        self._update_node(lambda entry: entry["properties"] == file, _without(pid))

    def _is_run(self) -> bool:
        """Whether an ``up`` holds the lock now."""
        try:
            descriptor = os.open(self.path / ".up.lock", os.O_RDWR)
        except OSError:
            return False
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(descriptor)
        return False

    def _update_node(
        self,
        chosen: Callable[[dict[str, Any]], bool],
        new_pid: Callable[[int | None], int | None],
    ) -> dict[str, Any] | None:
        with self._updating():
            state = self.read_state()
            if state is None:
                return None
            for entry in filter(chosen, state["nodes"]):
                entry["pid"] = new_pid(entry["pid"])
            self._replace(state)
            return state

    def _replace(self, state: dict[str, Any]) -> None:
        replace_file(self.state_file, json.dumps(state, indent=2) + "\n")

    @contextlib.contextmanager
    def _updating(self) -> Iterator[None]:
        """Holds the lock: no other process changes cluster.json meanwhile."""
        descriptor = os.open(self.path / ".cluster.lock", os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)


def bootstrap(nodes: list[NodeFiles]) -> str:
    """The bootstrap servers for clients."""
    return ",".join(str(node.client_endpoint) for node in nodes)


def owner_of(properties: Path) -> ClusterDirectory | None:
    """The cluster directory that has this properties file as one of its nodes'."""
    home = properties.absolute().parent
    directory = ClusterDirectory(home.parent)
    if not home.name.startswith("node-") or not directory.state_file.exists():
        return None
    return directory


def replace_file(path: Path, text: str) -> None:
    """Write a file as a whole: a reader sees the old or the new one."""
    temporary = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    try:
        temporary.write_text(text)
        os.replace(temporary, path)
    except OSError:
        with contextlib.suppress(OSError):  # the first error is the one to tell
            temporary.unlink()
        raise


def _without(pid: int) -> Callable[[int | None], int | None]:
    """A function from an entry's pid to its pid once this process has ended."""
    return lambda old: None if old == pid else old


def _client_port(ports: FreePorts, old: NodeFiles | None, wanted: int | None, node_id: int) -> int:
    """The one that was asked for, or that the node had, or another."""
    if wanted is not None:
        return require_free(wanted, f"node {node_id}")
    return ports.keep_or_take(old.client_port if old else None)


def _read_node(node_id: int, home: Path) -> NodeFiles:
    path = home / "server.properties"
    try:
        values = parse_properties(path.read_text())
        listeners = dict(item.split("://", 1) for item in values["listeners"].split(","))
        ports = {name: int(address.rpartition(":")[2]) for name, address in listeners.items()}
        return NodeFiles(
            node_id,
            home,
            ports.get(SECURE_LISTENER) or ports[CLIENT_LISTENER],
            0 if ZOOKEEPER_KEY in values else ports[CONTROLLER_LISTENER],
            int(values.get(METRICS_KEY, ":0").rpartition(":")[2]),
        )
    except (OSError, ValueError, KeyError) as error:
        raise Failure(f"{path} is not what `barnabas up` writes: {error}") from error


def _replication(nodes: int) -> dict[str, str]:
    """The replication of internal topics, as far as there are nodes."""
    replication = min(3, nodes)
    in_sync = max(1, replication - 1)
    return {
        "offsets.topic.replication.factor": str(replication),
        "offsets.topic.min.isr": str(in_sync),
        "transaction.state.log.replication.factor": str(replication),
        "transaction.state.log.min.isr": str(in_sync),
    }


def _zookeeper_mode_properties(
    node: NodeFiles,
    nodes: int,
    settings: Mapping[str, str],
    zookeeper: str,
    security: LocalSecurity | None,
) -> dict[str, str]:
    """The properties of a broker that ZooKeeper coordinates."""
    from barnabas.zookeeper.config.settings import ACL_AUTHORIZER

    values = _replication(nodes)
    if node.properties.exists():
        values.update(parse_properties(node.properties.read_text()))
    clients = CLIENT_LISTENER
    if security is not None:
        clients = SECURE_LISTENER
        values.update(security.node_properties(node.node_id))
        values["authorizer.class.name"] = ACL_AUTHORIZER
    at = f"{clients}://{node.client_endpoint}"
    return {
        **values,
        **settings,
        "broker.id": str(node.node_id),
        ZOOKEEPER_KEY: zookeeper,
        "listeners": at,
        "advertised.listeners": at,
        "listener.security.protocol.map": f"{clients}:{clients}",
        "inter.broker.listener.name": clients,
        "log.dirs": str(node.data),
        METRICS_KEY: node.metrics_url,
    }


def _properties(
    node: NodeFiles,
    nodes: list[NodeFiles],
    settings: Mapping[str, str],
    security: LocalSecurity | None,
) -> dict[str, str]:
    replication = min(3, len(nodes))
    in_sync = max(1, replication - 1)
    values = {
        "process.roles": "broker,controller",
        **_replication(len(nodes)),
        "transaction.two.phase.commit.enable": "true",
        "share.coordinator.state.topic.replication.factor": str(replication),
        "share.coordinator.state.topic.min.isr": str(in_sync),
    }
    if node.properties.exists():
        values.update(parse_properties(node.properties.read_text()))
    clients, protocol = CLIENT_LISTENER, "PLAINTEXT"
    if security is not None:
        clients, protocol = SECURE_LISTENER, "SSL"
        values.update(security.node_properties(node.node_id))
    values.update(settings)
    client, controller = node.client_listener, node.controller_endpoint
    values.update(
        {
            "node.id": str(node.node_id),
            "listeners": f"{clients}://{client},{CONTROLLER_LISTENER}://{controller}",
            "advertised.listeners": f"{clients}://{node.client_endpoint}",
            "listener.security.protocol.map": f"{clients}:{clients},"
            f"{CONTROLLER_LISTENER}:{protocol}",
            "inter.broker.listener.name": clients,
            "controller.listener.names": CONTROLLER_LISTENER,
            VOTERS_KEY: ",".join(f"{other.node_id}@{other.controller_endpoint}" for other in nodes),
            "log.dirs": str(node.data),
            METRICS_KEY: node.metrics_url,
        }
    )
    return values


def _write_properties(node: NodeFiles, values: Mapping[str, str]) -> None:
    try:
        node.home.mkdir(parents=True, exist_ok=True)
        replace_file(
            node.properties,
            format_properties(
                values, "Kept by `barnabas up`, which rewrites ports and directories at each start."
            ),
        )
    except OSError as error:
        raise Failure(f"{node.properties} cannot be written: {error.strerror}") from error


def _has_faults(node: NodeFiles) -> bool:
    """Whether the node's file names the relay and the directories of a cluster with faults."""
    return node.properties.exists() and FAULTS_KEY in parse_properties(node.properties.read_text())


def ports_of_relay(settings: Mapping[str, str]) -> Mapping[int, int]:
    """The ports at which clients find the nodes of a cluster with faults, by node id; else none. Raises
    :class:`Failure`."""
    if not settings.get(FAULTS_KEY):
        return {}
    from barnabas.testing.faults_file import read_faults_file

    try:
        return read_faults_file(settings[FAULTS_KEY]).advertised
    except (OSError, ValueError) as error:
        raise Failure(f"{FAULTS_KEY}: {error}") from error
