"""Combined nodes, mostly three, in one layout of directories, each run by Apache Kafka or by Barnabas.

Both systems get the same ``server.properties`` and the same directories: the system that runs a node takes
over what the other left. Starts only what a test names and ends it.
"""

from __future__ import annotations

import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

from barnabas.cli.local.cluster_directory import ClusterDirectory, NodeFiles, bootstrap
from barnabas.client.network.channels import ChannelError
from barnabas.host.client import connect
from barnabas.wire.errors import KafkaError
from tests.peers import CLASS_PATH, OUR_LEVEL

System = Literal["kafka", "barnabas"]
CLUSTER_ID = "4L6g3nShT-eMCtK--X86sw"
PATIENCE_S = 90.0
JVM = ["java", "-Xmx300m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
LOG4J = """rootLogger.level=info
rootLogger.appenderRef.console.ref=console
appender.console.type=Console
appender.console.name=console
appender.console.layout.type=PatternLayout
appender.console.layout.pattern=%p %c %m%n
"""
KAFKA_COMPLAINTS = re.compile(
    r"^(ERROR|FATAL) \S*\.(log|storage|snapshot|image|coordinator|fault)\."
    r"|^WARN .*([Cc]orrupt|[Rr]ecover|rebuild|[Mm]ismatch)"
)
"""About what a node reads from its files. Nodes that all stop at once log errors of their requests."""
OUR_COMPLAINTS = re.compile(r"^\S+ error |^Traceback|corrupt")


class Trio:
    """`settings` go into every node's properties. Ports stay the same for a copy."""

    def __init__(self, directory: Path, settings: Mapping[str, str], nodes: int = 3) -> None:
        self.directory = directory
        self.settings = dict(settings)
        self.nodes: dict[int, NodeFiles] = {
            node.node_id: node for node in ClusterDirectory(directory).lay_out(nodes, settings)
        }
        self.outputs: dict[int, Path] = {}
        self._processes: dict[int, subprocess.Popen[bytes]] = {}
        self._systems: dict[int, System] = {}
        self._starts = 0
        (directory / "log4j2.properties").write_text(LOG4J)

    @property
    def bootstrap(self) -> str:
        return bootstrap(list(self.nodes.values()))

    def client(self) -> dict[str, Any]:
        """What a client of librdkafka needs."""
        return {"bootstrap.servers": self.bootstrap, "log_level": 0}

    def data(self, node_id: int) -> Path:
        return self.nodes[node_id].data

    def copy_to(self, directory: Path) -> Trio:
        """What the stopped nodes left, in another place."""
        assert not self._processes
        for node in self.nodes.values():
            home = directory / node.home.name
            home.mkdir(parents=True)
            shutil.copy(node.properties, home)
            shutil.copytree(node.data, home / node.data.name)
        return Trio(directory, self.settings, len(self.nodes))

    # -- processes ---------------------------------------------------------------------------------

    def format(self, system: System) -> None:
        for node in self.nodes.values():
            if system == "kafka":
                command = [*self._java(), "kafka.tools.StorageTool", "format", "-t", CLUSTER_ID]
                command += ["-c", str(node.properties)]
            else:
                command = [sys.executable, "-m", "barnabas", "storage", "format"]
                command += ["--cluster-id", CLUSTER_ID, str(node.properties), *OUR_LEVEL]
            subprocess.run(command, check=True, capture_output=True, timeout=PATIENCE_S)

    def _java(self) -> list[str]:
        configured = f"-Dlog4j2.configurationFile={self.directory / 'log4j2.properties'}"
        return [*JVM, configured, "-cp", CLASS_PATH]

    def start(self, node_id: int, system: System, *, stops_alone: bool = False) -> None:
        """A node that `stops_alone` hands its leadership over before."""
        node = self.nodes[node_id]
        if system == "kafka":
            # Where all stop at once it would wait five minutes for a controller.
            override = ["--override", f"controlled.shutdown.enable={str(stops_alone).lower()}"]
            command = [*self._java(), "kafka.Kafka", str(node.properties), *override]
        else:
            command = [sys.executable, "-m", "barnabas", "node", "start", str(node.properties)]
        self._starts += 1
        self.outputs[node_id] = node.home / f"{self._starts:02d}-{system}.log"
        self._systems[node_id] = system
        with self.outputs[node_id].open("wb") as output:
            self._processes[node_id] = subprocess.Popen(command, stdout=output, stderr=output)

    def kill(self, node_id: int) -> None:
        """kill -9."""
        process = self._processes.pop(node_id)
        process.kill()
        process.wait()

    def kill_all(self) -> None:
        """kill -9 of everybody, at once."""
        for process in self._processes.values():
            process.kill()
        for node_id in list(self._processes):
            self.kill(node_id)

    def terminate(self, node_id: int) -> None:
        """In order, to its end."""
        process = self._processes.pop(node_id)
        process.terminate()
        assert process.wait(PATIENCE_S) in (0, 143), self.tail(node_id)

    def wait_for_end(self, node_id: int) -> int:
        """A node ends by itself; its exit status."""
        return self._processes.pop(node_id).wait(PATIENCE_S)

    def stop(self) -> None:
        """All at once, in order: a clean shutdown of each."""
        for process in self._processes.values():
            process.send_signal(signal.SIGTERM)
        for node_id, process in self._processes.items():
            assert process.wait(PATIENCE_S) in (0, 143), self.tail(node_id)
        self._processes.clear()

    @contextmanager
    def running(self, system: System) -> Iterator[None]:
        """All of them by `system`; stopped in order at the end, killed where something failed."""
        try:
            for node_id in self.nodes:
                self.start(node_id, system)
            yield
            self.stop()
        finally:
            for node_id in list(self._processes):
                self.kill(node_id)

    # -- what they say -----------------------------------------------------------------------------

    def output(self, node_id: int) -> str:
        """Of its newest run."""
        return self.outputs[node_id].read_text(errors="replace")

    def tail(self, node_id: int) -> str:
        return self.output(node_id)[-3000:]

    def complaints(self) -> list[str]:
        """Lines of the newest run of every node that speak of an error or a recovery that went wrong."""
        found = []
        for node_id, output in self.outputs.items():
            pattern = KAFKA_COMPLAINTS if self._systems[node_id] == "kafka" else OUR_COMPLAINTS
            lines = output.read_text(errors="replace").splitlines()
            found += [f"{output.name} {line}" for line in lines if pattern.search(line)]
        return found

    def wait_for(self, condition: Callable[[], object], what: str) -> None:
        """Also while no node answers. Fails with the ends of the nodes' logs."""
        deadline = time.monotonic() + PATIENCE_S
        last: Exception | None = None
        while True:
            try:
                if condition():
                    return
            except (ChannelError, KafkaError, OSError) as error:
                last = error
            if time.monotonic() > deadline:
                tails = "\n".join(f"== {n}\n{self.tail(n)}" for n in self.outputs)
                raise AssertionError(f"waited for {what} ({last})\n{tails}")
            time.sleep(0.1)

    def wait_for_brokers(self) -> None:
        """All of them serve: none is fenced."""

        def all_serve() -> bool:
            with connect(self.bootstrap) as client:
                brokers = client.describe_cluster().brokers
            return sum(not broker.fenced for broker in brokers) == len(self.nodes)

        self.wait_for(all_serve, f"{len(self.nodes)} brokers")

    def wait_for_isr(self, topics: Iterable[str], size: int = 3) -> None:
        """Every partition of `topics` has a leader and `size` members in its ISR."""
        wanted = set(topics)

        def whole() -> bool:
            with connect(self.bootstrap) as client:
                views = {view.name: view for view in client.topics() if view.name in wanted}
            partitions = [p for view in views.values() for p in view.partitions.values()]
            return views.keys() == wanted and all(
                p.leader in self._processes and len(p.isr) == size for p in partitions
            )

        self.wait_for(whole, f"ISRs of {size}")
