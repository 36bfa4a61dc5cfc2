"""ZooKeeper servers on this machine: `barnabas up --coordination zookeeper`, and the tests.

One server, or an ensemble of several. The server is Apache ZooKeeper 3.9, from the jars that the pyspark
package has with it, or from another class path; it needs Java. Or it is this project's own, which needs
nothing. Each server is a process of its own that ends with its parent, listens on loopback, and keeps its
data in a directory, so that a killed one comes back with it. What is missing is said in one sentence
(`ZooKeeperMissing`).

Source: ZooKeeper's administrator's guide; ``ZooKeeperServerMain``, ``QuorumPeerMain``.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from importlib.util import find_spec
from pathlib import Path

from barnabas.cli.local.free_ports import FreePorts
from barnabas.host.system.processes import end_with_parent

HOST = "127.0.0.1"
APACHE, OWN = "apache", "barnabas"
"""Whose server."""
OWN_MAIN = "barnabas.host.zookeeper.server_process"
MAIN = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
JARS = (
    "zookeeper-", "slf4j-api-", "log4j-slf4j2-impl-", "log4j-api-", "log4j-core-", "netty-", "metrics-core-",
    "snappy-java-", "commons-cli-", "commons-io-", "audience-annotations-",
)  # fmt: skip
"""The jars that a server loads; a class path of all of pyspark's jars takes longer to open."""
JAVA_OPTIONS = (
    "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto", "-Djava.awt.headless=true",
    "-Dzookeeper.admin.enableServer=false", "-Dzookeeper.jmx.log4j.disable=true",
)  # fmt: skip
READY_S = 30.0
LOOK_S = 0.05
TICK_MS = 2_000


class ZooKeeperMissing(Exception):
    """No server can be started here; the message is the one sentence that says why."""


class ZooKeeperFailed(Exception):
    """A server ended, or did not become ready in time."""


def class_path() -> str:
    """ZooKeeper 3.9 as pyspark carries it. Raises `ZooKeeperMissing`."""
    spec = find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise ZooKeeperMissing(
            "ZooKeeper's server is in the jars of pyspark, which is not installed: "
            "pip install 'barnabas[spark]', or name a running ensemble by --zookeeper host:port"
        )
    jars = sorted(Path(spec.origin).with_name("jars").glob("*.jar"))
    wanted = [str(jar) for jar in jars if jar.name.startswith(JARS)]
    if not any(Path(jar).name.startswith("zookeeper-3") for jar in wanted):
        raise ZooKeeperMissing(
            f"the installed pyspark has no ZooKeeper server in its jars ({spec.origin})"
        )
    return os.pathsep.join(wanted)


def java() -> str:
    """The command. Raises `ZooKeeperMissing`."""
    home = os.environ.get("JAVA_HOME")
    found = str(Path(home, "bin", "java")) if home else shutil.which("java")
    if found is None or not os.access(found, os.X_OK):
        raise ZooKeeperMissing(
            "ZooKeeper's server needs Java, and none is found: install one (e.g. openjdk-17-jre-headless), "
            "set JAVA_HOME, or name a running ensemble by --zookeeper host:port"
        )
    return found


class ZooKeeperServer:
    """One server: its directory, its ports, its process while it runs."""

    def __init__(self, number: int, directory: Path, ports: tuple[int, int, int]) -> None:
        self.number = number
        self.directory = directory
        self.client_port, self.quorum_port, self.election_port = ports
        self.process: subprocess.Popen[bytes] | None = None

    def __repr__(self) -> str:
        return f"ZooKeeperServer({self.number} {self.address} {'runs' if self.pid else 'is down'})"

    @property
    def address(self) -> str:
        return f"{HOST}:{self.client_port}"

    @property
    def log(self) -> Path:
        return self.directory / "server.log"

    @property
    def pid(self) -> int | None:
        return None if self.process is None or self.process.poll() is not None else self.process.pid

    def start(self, command: Sequence[str]) -> None:
        """Start the process; it is ready later (`mode`)."""
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [*command, str(self.directory / "zoo.cfg")],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,  # Ctrl-C is for the parent
                preexec_fn=partial(end_with_parent, os.getpid()),  # noqa: PLW1509 - nothing is locked in a child that only sets a signal
            )

    def mode(self) -> str | None:
        """standalone, leader or follower; None where it serves no client (yet)."""
        for line in four_letter_word("srvr", self.client_port).splitlines():
            if line.startswith("Mode: "):
                return line.removeprefix("Mode: ").strip()
        return None

    def signal(self, number: int) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(number)

    def kill(self) -> None:
        """kill -9, and wait until it is gone."""
        self.signal(signal.SIGKILL)
        self._wait(None)

    def stop(self) -> None:
        """Ask it to end; after 5 s it has no choice."""
        self.signal(signal.SIGCONT)
        self.signal(signal.SIGTERM)
        self._wait(5.0)

    def _wait(self, timeout_s: float | None) -> None:
        if self.process is None:
            return
        try:
            self.process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process = None

    def last_lines(self) -> str:
        with suppress(OSError):
            return "\n".join(self.log.read_text(errors="replace").splitlines()[-8:])
        return ""


class ZooKeeperServers:
    """An ensemble on this machine: use it as a context, or call `start` and `stop`."""

    def __init__(
        self,
        directory: Path,
        servers: int = 1,
        *,
        client_ports: Sequence[int] = (),
        libraries: str | None = None,
        tick_ms: int = TICK_MS,
        session_timeout_ms: tuple[int, int] | None = None,
        settings: Sequence[str] = (),
        kind: str = APACHE,
    ) -> None:
        """Raises `ZooKeeperMissing`. `libraries`: a class path other than pyspark's. `session_timeout_ms`:
        the bounds, where not 2 and 20 ticks. `settings`: further lines of every server's file. `kind`:
        `APACHE` or `OWN`. Ports that are not named are free ones, and stay the same for this object's
        life."""
        if servers < 1:
            raise ValueError("an ensemble has at least one server")
        self.kind = kind
        self._command = [sys.executable, "-m", OWN_MAIN]
        if kind == APACHE:
            jars = class_path() if libraries is None else libraries
            self._command = [java(), *JAVA_OPTIONS, "-cp", jars, MAIN]
        free = FreePorts().take(3 * servers)
        ports = [
            (
                client_ports[at] if at < len(client_ports) else free[3 * at],
                free[3 * at + 1],
                free[3 * at + 2],
            )
            for at in range(servers)
        ]
        self.servers = [
            ZooKeeperServer(at + 1, directory / f"zookeeper-{at + 1}", ports[at])
            for at in range(servers)
        ]
        low, high = session_timeout_ms or (2 * tick_ms, 20 * tick_ms)
        self._settings = [
            f"tickTime={tick_ms}", f"minSessionTimeout={low}", f"maxSessionTimeout={high}",
            "maxClientCnxns=0", "4lw.commands.whitelist=*", f"clientPortAddress={HOST}", *settings,
        ]  # fmt: skip
        if kind == APACHE:
            self._settings += ["initLimit=20", "syncLimit=5", "admin.enableServer=false"]

    def __enter__(self) -> ZooKeeperServers:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def connect(self) -> str:
        """The value of ``zookeeper.connect``."""
        return ",".join(server.address for server in self.servers)

    def start(self) -> None:
        """Start those that do not run and wait until all serve. Raises `ZooKeeperFailed`."""
        try:
            for server in self.servers:
                self.start_server(server)
            for server in self.servers:
                self.wait_ready(server)
        except BaseException:
            self.stop()
            raise

    def start_server(self, server: ZooKeeperServer) -> None:
        if server.pid is None:
            self._write(server)
            server.start(self._command)

    def wait_ready(self, server: ZooKeeperServer, timeout_s: float = READY_S) -> str:
        """Until `server` serves; gives its mode. Raises `ZooKeeperFailed`."""
        until = time.monotonic() + timeout_s
        while (mode := server.mode()) is None:
            if server.pid is None or time.monotonic() > until:
                state = "ended" if server.pid is None else "is not ready"
                raise ZooKeeperFailed(
                    f"ZooKeeper's server {server.number} {state} ({server.log}):\n{server.last_lines()}"
                )
            time.sleep(LOOK_S)
        return mode

    def leader(self) -> ZooKeeperServer | None:
        """The server that leads, or the only one; None during an election."""
        for server in self.servers:
            if server.pid is not None and server.mode() in ("leader", "standalone"):
                return server
        return None

    def stop(self) -> None:
        for server in self.servers:
            server.stop()

    def _write(self, server: ZooKeeperServer) -> None:
        server.directory.mkdir(parents=True, exist_ok=True)
        lines = [
            *self._settings,
            f"dataDir={server.directory / 'data'}",
            f"clientPort={server.client_port}",
        ]
        if len(self.servers) > 1:
            lines += [
                f"server.{one.number}={HOST}:{one.quorum_port}:{one.election_port}"
                for one in self.servers
            ]
        (server.directory / "data").mkdir(exist_ok=True)
        (server.directory / "data" / "myid").write_text(f"{server.number}\n")
        (server.directory / "zoo.cfg").write_text("\n".join(lines) + "\n")


def four_letter_word(word: str, port: int, timeout_s: float = 1.0) -> str:
    """The answer of the server on `port` to `word`; empty where none answers."""
    answer = b""
    with suppress(OSError), socket.create_connection((HOST, port), timeout_s) as connection:
        connection.sendall(word.encode())
        connection.settimeout(timeout_s)
        while part := connection.recv(4096):
            answer += part
    return answer.decode(errors="replace")
