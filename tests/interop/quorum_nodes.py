"""Controllers and brokers of Apache Kafka and of ours around one quorum, as processes."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from barnabas.cli.local.free_ports import FreePorts
from barnabas.types import METADATA_TOPIC, Endpoint
from barnabas.wire.messages.describe_quorum_request import (
    DescribeQuorumRequest,
    PartitionData,
    TopicData,
)
from barnabas.wire.messages.describe_quorum_response import DescribeQuorumResponse
from barnabas.wire.messages.describe_quorum_response import PartitionData as QuorumState
from bench.wire import ask
from tests.peers import CLASS_PATH, OUR_LEVEL

PATIENCE_S = 120.0
"""Apache Kafka looks for snapshots that it may delete once a minute."""
JVM = ["java", "-Xmx300m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
CLUSTER_ID = "bWl4ZWQtcXVvcnVtLXRlcw"


class QuorumNodes:
    """Controllers 1 to `voters` and the brokers in `observers`; `java` says which are Apache Kafka's. In a
    `dynamic` quorum controller 1 votes alone at first, and the others wait to be added; all of them listen on
    every address and advertise none, so that they are known by the machine's name."""

    def __init__(
        self,
        directory: Path,
        java: set[int],
        voters: int = 3,
        observers: tuple[int, ...] = (),
        *,
        dynamic: bool = False,
    ) -> None:
        self.directory = directory
        self.java = java
        self.dynamic = dynamic
        self.voters = tuple(range(1, voters + 1))
        nodes = (*self.voters, *observers)
        ports = FreePorts().take(len(nodes))
        self.endpoints = {n: Endpoint("127.0.0.1", at) for n, at in zip(nodes, ports, strict=True)}
        self.processes: dict[int, subprocess.Popen[bytes]] = {}
        self.started_ms: dict[int, float] = {}
        for node in nodes:
            self.file(node).write_text(self._properties(node))
            self.format(node)

    def _properties(self, node: int) -> str:
        voters = "voters=" + ",".join(f"{n}@{self.endpoints[n]}" for n in self.voters)
        if self.dynamic:
            voters = f"bootstrap.servers={self.controllers}"
        is_voter = node in self.voters
        bound = f":{self.endpoints[node].port}" if self.dynamic else self.endpoints[node]
        return (
            f"process.roles={'controller' if is_voter else 'broker'}\n"
            f"node.id={node}\n"
            f"controller.quorum.{voters}\n"
            "controller.listener.names=CONTROLLER\n"
            "listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT\n"
            f"listeners={'CONTROLLER' if is_voter else 'PLAINTEXT'}://{bound}\n"
            f"log.dirs={self.data(node)}\n"
            "metadata.log.max.record.bytes.between.snapshots=1000\n"
            "metadata.max.retention.bytes=2000\n"
            "metadata.log.segment.ms=1000\n"
        )

    @property
    def controllers(self) -> str:
        """For ``--bootstrap-controller``."""
        return ",".join(str(self.endpoints[n]) for n in self.voters)

    def file(self, node: int) -> Path:
        return self.directory / f"{node}.properties"

    def data(self, node: int) -> Path:
        return self.directory / str(node)

    def log_directory(self, node: int) -> Path:
        return self.data(node) / f"{METADATA_TOPIC}-0"

    # -- processes ---------------------------------------------------------------------------------

    def format(self, node: int, first: bool | None = None, *, again: bool = False) -> None:
        """In a dynamic quorum as its `first` voter or as one that waits. `again`: it has run before."""
        how: list[str] = []
        if self.dynamic:
            first = node == 1 if first is None else first
            how = ["--standalone" if first else "--no-initial-controllers"]
        if node in self.java:
            command = [*JVM, "-cp", CLASS_PATH, "kafka.tools.StorageTool", "format"]
            command += ["-t", CLUSTER_ID, "-c", str(self.file(node)), *how]
        else:
            command = [sys.executable, "-m", "barnabas", "storage", "format"]
            if again and not self.dynamic:
                how.append("--replace-lost")
            command += ["--cluster-id", CLUSTER_ID, str(self.file(node)), *how, *OUR_LEVEL]
        subprocess.run(command, check=True, capture_output=True, timeout=PATIENCE_S)

    def start(self, node: int) -> None:
        if node in self.java:
            command = [*JVM, "-cp", CLASS_PATH, "kafka.Kafka", str(self.file(node))]
        else:
            command = [sys.executable, "-m", "barnabas", "node", "start", str(self.file(node))]
        self.started_ms[node] = time.time() * 1000
        with open(self.directory / f"{node}.log", "ab") as log:
            self.processes[node] = subprocess.Popen(command, stdout=log, stderr=log)

    def stop(self, node: int, how: signal.Signals = signal.SIGKILL) -> None:
        process = self.processes.pop(node)
        process.send_signal(how)
        process.wait(PATIENCE_S)

    def restart(self, node: int) -> None:
        """kill -9, and again; until the record of its registration is in its log."""
        leader = self.leader()
        before = self.end_of(leader) if leader is not None else -1
        self.stop(node)
        self.start(node)
        self.wait_for(f"the registration of {node}", lambda: self.end_of(node) > before)

    def pause(self, node: int) -> None:
        self.processes[node].send_signal(signal.SIGSTOP)

    def resume(self, node: int) -> None:
        self.processes[node].send_signal(signal.SIGCONT)

    def empty(self, node: int) -> None:
        """A new disk for a stopped node."""
        shutil.rmtree(self.data(node))
        self.format(node, first=False, again=True)

    def close(self) -> None:
        for node in list(self.processes):
            self.resume(node)
            self.stop(node)

    # -- what the quorum says ------------------------------------------------------------------------

    def describe(self, node: int) -> QuorumState | None:
        """What `node` says of the quorum; None where it does not lead or says nothing."""
        topic = TopicData(topic_name=METADATA_TOPIC, partitions=[PartitionData(partition_index=0)])
        request = DescribeQuorumRequest(topics=[topic])
        try:
            answer = ask(str(self.endpoints[node]), request, 2, DescribeQuorumResponse)
        except OSError:
            return None
        if answer.error_code or not answer.topics:
            return None
        partition = answer.topics[0].partitions[0]
        return None if partition.error_code else partition

    def voting(self) -> list[int]:
        """Who votes, as the leader says."""
        leader = self.leader()
        state = self.describe(leader) if leader is not None else None
        return sorted(v.replica_id for v in state.current_voters) if state is not None else []

    def leader(self) -> int | None:
        for node in self.voters:
            state = self.describe(node) if self._speaks(node) else None
            if state is not None:
                return state.leader_id
        return None

    def _speaks(self, node: int) -> bool:
        """Runs, and is not paused."""
        if node not in self.processes:
            return False
        stat = Path(f"/proc/{self.processes[node].pid}/stat").read_text()
        return stat.rpartition(")")[2].split()[0] != "T"

    def follows(self, node: int) -> bool:
        """Whether `node` has fetched in its present life and lacks next to nothing."""
        leader = self.leader()
        state = self.describe(leader) if leader is not None else None
        if state is None:
            return False
        replicas = [*state.current_voters, *state.observers]
        end = next(r.log_end_offset for r in replicas if r.replica_id == state.leader_id)
        return node == leader or any(
            r.replica_id == node
            and r.last_fetch_timestamp > self.started_ms[node]
            and 0 <= end - r.log_end_offset <= 3
            for r in replicas
        )

    def end_of(self, node: int) -> int:
        """How far its log goes as the leader knows; -1 without a leader or before its first fetch."""
        leader = self.leader()
        state = self.describe(leader) if leader is not None else None
        if state is None:
            return -1
        replicas = [*state.current_voters, *state.observers]
        return max((r.log_end_offset for r in replicas if r.replica_id == node), default=-1)

    def all_follow(self, *nodes: int) -> None:
        self.wait_for(
            f"{nodes or self.voters} follow", lambda: all(map(self.follows, nodes or self.voters))
        )

    def wait_for_leader(self, *nodes: int) -> int:
        """One of `nodes` leads; which."""
        self.wait_for(f"one of {nodes} leads", lambda: self.leader() in nodes)
        leader = self.leader()
        assert leader in nodes
        return leader

    def wait_for(self, what: str, condition: Callable[[], bool]) -> None:
        begun = time.monotonic()
        while not condition():
            if time.monotonic() - begun > PATIENCE_S:
                logs = [f"{node}: {self._tail(node)}" for node in self.endpoints]
                raise AssertionError("\n".join([what, *logs]))
            time.sleep(0.1)

    def _tail(self, node: int) -> str:
        path = self.directory / f"{node}.log"
        return path.read_text()[-2_000:] if path.exists() else ""

    # -- its files -----------------------------------------------------------------------------------

    def snapshots(self, node: int) -> list[str]:
        """Those taken or installed, not the one that formatting leaves."""
        found = sorted(path.name for path in self.log_directory(node).glob("*.checkpoint"))
        return [name for name in found if int(name.partition("-")[0]) > 0]

    def begins_later(self, node: int) -> bool:
        """Its log does not reach back to the first record any more."""
        logs = sorted(self.log_directory(node).glob("*.log"))
        return bool(logs) and int(logs[0].stem) > 0 and bool(self.snapshots(node))
