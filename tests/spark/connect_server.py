"""A Spark Connect server on loopback, from pip's pyspark alone."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from barnabas.pipeline.workers.compiled_pyspark import compiled_pyspark
from tests.spark.loopback_session import LOOPBACK
from tests.spark.standalone import free_port, kill_group, wait_until

START_S = 300.0
MAIN = "org.apache.spark.sql.connect.service.SparkConnectServer"


@contextmanager
def connect_server(directory: Path) -> Iterator[str]:
    """The address of a server that is killed at the end; its log is ``server.log`` in `directory`."""
    import pyspark

    port = free_port()
    settings = {
        **LOOPBACK,
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": str(port),
        "spark.local.dir": str(directory / "tmp"),
        "spark.sql.warehouse.dir": str(directory / "warehouse"),
    }
    words = [word for name, value in settings.items() for word in ("--conf", f"{name}={value}")]
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    with compiled_pyspark(environment):
        home = environment.setdefault("SPARK_HOME", pyspark.__path__[0])
        command = [f"{home}/bin/spark-submit", "--class", MAIN, "--master", "local[2]"]
        log = directory / "server.log"
        with log.open("wb") as output:
            server = subprocess.Popen(
                [*command, *words, "spark-internal"], env=environment, cwd=directory,
                stdout=output, stderr=output, start_new_session=True,
            )  # fmt: skip

    def answers() -> bool:
        assert server.poll() is None, log.read_text()[-3000:]
        with suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return True
        return False

    try:
        wait_until(answers, "the Spark Connect server", START_S)
        yield f"sc://127.0.0.1:{port}"
    finally:
        kill_group(server)
