"""A broker of Apache Kafka in a cluster of ours."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

from barnabas.testing.cluster import Cluster
from tests.peers import CLASS_PATH

KAFKA_ID = 10
PATIENCE_S = 60.0


class KafkaBroker:
    """One process of Apache Kafka that is a broker only; `cluster` begins at `tests.peers.RELEASE`."""

    def __init__(self, cluster: Cluster, directory: Path) -> None:
        node = cluster.node(cluster.node_ids[0])
        properties = Path(node["properties"]).read_text()
        meta = (Path(_value(properties, "log.dirs")) / "meta.properties").read_text()
        self.file = directory / "server.properties"
        self.file.write_text(
            "process.roles=broker\n"
            f"node.id={KAFKA_ID}\n"
            f"controller.quorum.voters={_value(properties, 'controller.quorum.voters')}\n"
            "controller.listener.names=CONTROLLER\n"
            "listeners=PLAINTEXT://127.0.0.1:0\n"
            f"log.dirs={directory / 'data'},{directory / 'data2'}\n"
            "listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT\n"
        )
        self._run("kafka.tools.StorageTool", "format", "-t", _value(meta, "cluster.id"))
        self.log = (directory / "kafka.log").open("wb")
        self.process = subprocess.Popen(
            ["java", "-Xmx400m", "-cp", CLASS_PATH, "kafka.Kafka", str(self.file)],
            stdout=self.log,
            stderr=self.log,
        )

    def _run(self, main: str, *words: str) -> None:
        subprocess.run(
            ["java", "-cp", CLASS_PATH, main, *words, "-c", str(self.file)],
            check=True,
            capture_output=True,
            timeout=PATIENCE_S,
        )

    def kill(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self.log.close()


def _value(text: str, key: str) -> str:
    found = re.search(rf"^{re.escape(key)}=(.*)$", text, re.MULTILINE)
    assert found is not None, key
    return found.group(1).strip()
