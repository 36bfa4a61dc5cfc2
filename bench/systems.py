"""The two systems under measurement, started the same way: three nodes, combined roles, fresh data.

`Kafka` is Apache Kafka 4.3.0 from ``peers/libs`` with the JVM options its own scripts use;
`Barnabas` is ``barnabas up`` of this checkout. Both give bootstrap servers and the nodes' pids.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

from barnabas.cli.local.free_ports import FreePorts

ROOT = Path(__file__).resolve().parent.parent
LIBS = ROOT / "peers" / "libs"
JVM = [
    "-Xmx1G", "-Xms1G", "-server", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35", "-XX:+ExplicitGCInvokesConcurrent",
    "-XX:MaxInlineLevel=15", "-Djava.awt.headless=true",
]  # fmt: skip
CLUSTER_ID = "4L6g3nShT-eMCtK--X86sw"


class System:
    """Three nodes on loopback."""

    name = ""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.bootstrap = ""

    def start(self) -> None:
        """Start all processes; returns at once. Readiness is what the workload sees."""
        raise NotImplementedError

    def pids(self) -> dict[int, int]:
        raise NotImplementedError

    def kill(self, node_id: int) -> None:
        os.kill(self.pids()[node_id], signal.SIGKILL)

    def restart(self, node_id: int) -> None:
        raise NotImplementedError

    def stop(self) -> None:
        raise NotImplementedError

    def resident_bytes(self) -> list[int]:
        """Resident memory per node."""
        sizes = []
        for pid in self.pids().values():
            for line in Path(f"/proc/{pid}/status").read_text().splitlines():
                if line.startswith("VmRSS:"):
                    sizes.append(int(line.split()[1]) * 1024)
        return sizes

    def cpu_seconds(self) -> float:
        """CPU time that all nodes have used."""
        ticks = 0
        for pid in self.pids().values():
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            ticks += int(fields[11]) + int(fields[12])
        return ticks / os.sysconf("SC_CLK_TCK")


class Kafka(System):
    """Apache Kafka 4.3.0, KRaft, combined roles."""

    name = "kafka"
    libs = LIBS

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        if not self.libs.is_dir():
            raise SystemExit(f"peers/{self.libs.name} is missing: run `make peers` first")
        self.ports = FreePorts().take(6)
        self.processes: dict[int, subprocess.Popen[bytes]] = {}

    def start(self) -> None:
        shutil.rmtree(self.directory, ignore_errors=True)
        voters = ",".join(f"{i}@127.0.0.1:{self.ports[3 + i]}" for i in range(3))
        for node in range(3):
            home = self.directory / str(node)
            home.mkdir(parents=True)
            (home / "server.properties").write_text(
                f"process.roles=broker,controller\nnode.id={node}\n"
                f"controller.quorum.voters={voters}\ncontroller.listener.names=CONTROLLER\n"
                f"listeners=PLAINTEXT://127.0.0.1:{self.ports[node]},"
                f"CONTROLLER://127.0.0.1:{self.ports[3 + node]}\n"
                f"log.dirs={home}/data\noffsets.topic.replication.factor=3\n"
                "transaction.state.log.replication.factor=3\n"
                "transaction.state.log.min.isr=2\nshare.coordinator.state.topic.replication.factor=3\n"
                "share.coordinator.state.topic.min.isr=2\n"
            )
        self.bootstrap = ",".join(f"127.0.0.1:{port}" for port in self.ports[:3])
        for node in range(3):
            self._java("kafka.tools.StorageTool", "format", "-t", CLUSTER_ID, "-c",
                       str(self.directory / str(node) / "server.properties"))  # fmt: skip

    def launch(self) -> None:
        for node in range(3):
            self.restart(node)

    def restart(self, node_id: int) -> None:
        home = self.directory / str(node_id)
        with open(home / "server.log", "ab") as log:
            self.processes[node_id] = subprocess.Popen(
                ["java", *JVM, "-cp", f"{self.libs}/*", "kafka.Kafka", str(home / "server.properties")],
                stdout=log, stderr=log, cwd=home,
            )  # fmt: skip

    def _java(self, *arguments: str) -> None:
        subprocess.run(
            ["java", "-cp", f"{self.libs}/*", *arguments], check=True, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )  # fmt: skip

    def pids(self) -> dict[int, int]:
        return {node: process.pid for node, process in self.processes.items()}

    def stop(self) -> None:
        for process in self.processes.values():
            process.kill()
        for process in self.processes.values():
            process.wait()
        shutil.rmtree(self.directory, ignore_errors=True)


class Kafka44(Kafka):
    """Apache Kafka 4.4.0."""

    libs = ROOT / "peers" / "libs44"


class Barnabas(System):
    """This checkout, by its everyday command."""

    name = "barnabas"

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.up: subprocess.Popen[bytes] | None = None
        self.restarted: dict[int, subprocess.Popen[bytes]] = {}

    def start(self) -> None:
        """Format and reserve ports, so that `launch` only starts processes, as with the peer."""
        shutil.rmtree(self.directory, ignore_errors=True)
        self.directory.mkdir(parents=True)

    def launch(self) -> None:
        log = open(self.directory / "up.log", "ab")  # noqa: SIM115 - lives as long as the process
        self.up = subprocess.Popen(
            [sys.executable, "-m", "barnabas", "up", "--nodes", "3", "--data",
             str(self.directory / "data")],
            stdout=log, stderr=log,
        )  # fmt: skip
        path = self.directory / "data" / "cluster.json"
        while not path.exists():
            if self.up.poll() is not None:
                raise SystemExit((self.directory / "up.log").read_text())
            time.sleep(0.005)
        self.bootstrap = str(self._cluster()["bootstrap"])

    def _cluster(self) -> dict[str, object]:
        cluster: dict[str, object] = json.loads(
            (self.directory / "data" / "cluster.json").read_text()
        )
        return cluster

    def pids(self) -> dict[int, int]:
        nodes = {n["id"]: n["pid"] for n in self._cluster()["nodes"]}  # type: ignore[attr-defined]
        return nodes | {node: process.pid for node, process in self.restarted.items()}

    def restart(self, node_id: int) -> None:
        node = next(n for n in self._cluster()["nodes"] if n["id"] == node_id)  # type: ignore[attr-defined]
        with open(node["log"], "ab") as log:
            self.restarted[node_id] = subprocess.Popen(
                [sys.executable, "-m", "barnabas", "node", "start", node["properties"]],
                stdout=log, stderr=log,
            )  # fmt: skip

    def stop(self) -> None:
        if self.up is not None:
            self.up.terminate()
            self.up.wait()
        for process in self.restarted.values():
            process.terminate()
            process.wait()
        shutil.rmtree(self.directory, ignore_errors=True)


SYSTEMS: dict[str, type[System]] = {"kafka": Kafka, "barnabas": Barnabas}
