"""Barnabas and Apache Kafka behind TLS: one node each, the same file, certificate and client, in turn.

Usage: ``python -m bench.tls [--rounds 5] [--records 150000]``. Prints medians over the rounds after one
warm-up with the spread, and the ratio; writes the same to ``bench/results/tls.txt``. A connection is a TCP
connection, a full TLS 1.3 handshake, an ApiVersions request and its answer.
"""

from __future__ import annotations

import argparse
import os
import shutil
import socket
import ssl
import struct
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from barnabas.cli.local.certificate_authority import Authority
from barnabas.cli.local.free_ports import FreePorts
from bench.cluster import Samples, table
from bench.systems import CLUSTER_ID, JVM, LIBS, ROOT
from bench.workloads import RECORD, Figures, bulk_consumer, produce_all

PARTITIONS = 6
CONNECTION_S = 3.0
CONNECTION_THREADS = 4
READY_S = 90.0
LOAD_S = 120.0
API_VERSIONS = struct.pack(">hhih5s", 18, 0, 1, 5, b"bench")


class TlsNode:
    """One process, broker and controller, with a TLS listener; `name` is ``kafka`` or ``barnabas``."""

    def __init__(self, name: str, folder: Path, ca: Path, identity: Path) -> None:
        self.name = name
        self.ca = ca
        self._folder = folder
        self._identity = identity
        self.port, self._control = FreePorts().take(2)
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def client(self) -> dict[str, object]:
        return {
            "bootstrap.servers": f"127.0.0.1:{self.port}",
            "security.protocol": "ssl",
            "ssl.ca.location": str(self.ca),
            "log_level": 0,
        }

    def start(self) -> None:
        self._folder.mkdir(parents=True)
        file = self._folder / "server.properties"
        file.write_text(
            "process.roles=broker,controller\nnode.id=1\ncontroller.listener.names=CONTROLLER\n"
            f"controller.quorum.voters=1@127.0.0.1:{self._control}\n"
            f"listeners=SSL://127.0.0.1:{self.port},CONTROLLER://127.0.0.1:{self._control}\n"
            "inter.broker.listener.name=SSL\n"
            "listener.security.protocol.map=SSL:SSL,CONTROLLER:PLAINTEXT\n"
            f"ssl.keystore.type=PEM\nssl.keystore.location={self._identity}\n"
            f"ssl.truststore.type=PEM\nssl.truststore.location={self.ca}\n"
            f"log.dirs={self._folder}/data\noffsets.topic.replication.factor=1\n"
            "transaction.state.log.replication.factor=1\ntransaction.state.log.min.isr=1\n"
        )
        if self.name == "kafka":
            java = ["java", "-cp", f"{LIBS}/*"]
            form = [*java, "kafka.tools.StorageTool", "format", "-t", CLUSTER_ID, "-c", str(file)]
            run = ["java", *JVM, "-cp", f"{LIBS}/*", "kafka.Kafka", str(file)]
        else:
            own = [sys.executable, "-m", "barnabas"]
            form = [*own, "storage", "format", str(file), "--cluster-id", CLUSTER_ID]
            run = [*own, "node", "start", str(file)]
        subprocess.run(form, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        with open(self._folder / "server.log", "ab") as log:
            self.process = subprocess.Popen(run, stdout=log, stderr=log, cwd=self._folder)

    def create_topic(self, name: str) -> None:
        """As soon as the node serves."""
        deadline = time.monotonic() + READY_S
        while True:
            admin = AdminClient(self.client)
            created = admin.create_topics([NewTopic(name, PARTITIONS, 1)], request_timeout=10)
            try:
                created[name].result(20)
                return
            except (KafkaException, TimeoutError) as error:
                if "TOPIC_ALREADY_EXISTS" in str(error):
                    return
                if time.monotonic() > deadline:
                    raise

    def usage(self) -> tuple[float, float]:
        """(resident MB, CPU seconds so far)."""
        assert self.process is not None
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        resident = next(line for line in status.splitlines() if line.startswith("VmRSS:"))
        stat = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        ticks = int(stat[11]) + int(stat[12])
        return int(resident.split()[1]) / 1000, ticks / os.sysconf("SC_CLK_TCK")

    def stop(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()
        shutil.rmtree(self._folder, ignore_errors=True)


def load(node: TlsNode, records: int) -> Figures:
    """Produce `records` of 1 KB, then consume them."""
    topic = f"load-{time.monotonic_ns()}"
    node.create_topic(topic)
    settings = {"linger.ms": 5, "batch.size": 1_000_000, "acks": "all"}
    size_gb = records * len(RECORD) / 1e9
    client = Producer(node.client | settings | {"queue.buffering.max.messages": 1_000_000})
    client.produce(topic, RECORD)
    client.flush(30)
    before, began = node.usage()[1], time.monotonic()
    produce_all(client, topic, records)
    produce_s, produce_cpu = time.monotonic() - began, node.usage()[1] - before
    consumer = Consumer(bulk_consumer("") | node.client)
    consumer.assign([TopicPartition(topic, number, 0) for number in range(PARTITIONS)])
    before, began, count = node.usage()[1], time.monotonic(), 0
    while count < records:
        if time.monotonic() - began > LOAD_S:
            raise SystemExit(f"{node.name}: {count:,} of {records:,} records after {LOAD_S:g} s")
        count += len(consumer.consume(10_000, timeout=1))
    consume_s, consume_cpu = time.monotonic() - began, node.usage()[1] - before
    consumer.close()
    return {
        "TLS produce, MB/s": size_gb * 1e3 / produce_s,
        "TLS consume, MB/s": size_gb * 1e3 / consume_s,
        "TLS produce, CPU s per GB": produce_cpu / size_gb,
        "TLS consume, CPU s per GB": consume_cpu / size_gb,
    }


def connections(node: TlsNode) -> Figures:
    """New connections per second, of several threads at once."""
    counts = [0] * CONNECTION_THREADS
    until = time.monotonic() + CONNECTION_S
    before = node.usage()[1]

    def connect_again(index: int) -> None:
        context = ssl.create_default_context(cafile=str(node.ca))
        request = struct.pack(">i", len(API_VERSIONS)) + API_VERSIONS
        while time.monotonic() < until:
            raw = socket.create_connection(("127.0.0.1", node.port), 10)
            raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # as Kafka's clients do
            with context.wrap_socket(raw, server_hostname="127.0.0.1") as secured:
                secured.sendall(request)
                assert secured.recv(4), "the connection ended"
            counts[index] += 1

    with ThreadPoolExecutor(CONNECTION_THREADS) as threads:
        list(threads.map(connect_again, range(CONNECTION_THREADS)))  # raises what a thread raised
    cpu = node.usage()[1] - before
    return {
        "TLS connections/s": sum(counts) / CONNECTION_S,
        "CPU ms per TLS connection": 1000 * cpu / max(sum(counts), 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--warm-up", type=int, default=1)
    parser.add_argument("--records", type=int, default=150_000)
    options = parser.parse_args()
    if not LIBS.is_dir():
        raise SystemExit("peers/libs is missing: run `make peers` first")
    samples: Samples = {}
    with tempfile.TemporaryDirectory(prefix="bench-") as scratch:
        folder = Path(scratch)
        authority = Authority()
        ca, identity = folder / "ca.pem", folder / "node.pem"
        ca.write_text(authority.pem)
        identity.write_text(authority.identity("node-1").pem())
        nodes = [TlsNode(name, folder / name, ca, identity) for name in ("kafka", "barnabas")]
        try:
            for node in nodes:
                node.start()
            for round_ in range(options.warm_up + options.rounds):
                for node in nodes:
                    figures = load(node, options.records) | connections(node)
                    figures["resident after load, MB"] = node.usage()[0]
                    print(node.name, {k: round(v, 2) for k, v in figures.items()}, flush=True)
                    if round_ >= options.warm_up:
                        for figure, value in figures.items():
                            samples.setdefault(figure, {}).setdefault(node.name, []).append(value)
        finally:
            for node in nodes:
                node.stop()
    text = table(samples, ["kafka", "barnabas"])
    print(text)
    target = ROOT / "bench" / "results" / "tls.txt"
    target.write_text(
        f"{options.rounds} rounds in turn after {options.warm_up} warm-up on {os.cpu_count()} cores; ratio is"
        f" barnabas / kafka, of medians\n{text}\n"
    )


if __name__ == "__main__":
    main()
