"""A standalone Spark cluster on loopback: a master, and workers in working directories of their own."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import time
import urllib.request
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

START_S = 90.0


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port


def wait_until(is_so: Callable[[], bool], what: str, seconds: float = START_S) -> None:
    deadline = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < deadline, f"{what}: not within {seconds:.0f} s"
        time.sleep(0.05)


def kill_group(process: subprocess.Popen[bytes]) -> None:
    """SIGKILL for the process and all that it started."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


class StandaloneCluster:
    """A master and its workers, each of one core; killed at the end."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._port, self._web_port = free_port(), free_port()
        self._master: subprocess.Popen[bytes] | None = None
        self._workers: dict[Path, subprocess.Popen[bytes]] = {}
        self._started = 0

    @property
    def worker_pids(self) -> list[int]:
        """Of workers; their executors are their children."""
        return [each.pid for each in self._workers.values()]

    @property
    def url(self) -> str:
        return f"spark://127.0.0.1:{self._port}"

    def __enter__(self) -> StandaloneCluster:
        ports = ("--port", str(self._port), "--webui-port", str(self._web_port))
        self._master = self._start("master", "master.Master", "--host", "127.0.0.1", *ports)
        try:
            wait_until(lambda: self._state() is not None, "the master")
            self.start_worker()
            self.start_worker()
            self.wait_for_workers(2)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for each in (*self._workers.values(), self._master):
            if each is not None:
                kill_group(each)

    def _start(self, name: str, main: str, *arguments: str) -> subprocess.Popen[bytes]:
        import pyspark

        folder = self._directory / name
        folder.mkdir(parents=True)
        command = Path(pyspark.__file__).parent / "bin" / "spark-class"
        environment = {**os.environ, "SPARK_DAEMON_MEMORY": "256m", "SPARK_LOCAL_IP": "127.0.0.1"}
        with open(folder / "log", "wb") as log:
            return subprocess.Popen(
                [str(command), f"org.apache.spark.deploy.{main}", *arguments],
                cwd=folder,
                env=environment,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def start_worker(self) -> None:
        name = f"worker-{self._started}"
        self._started += 1
        work = self._directory / name / "work"
        arguments = ("--host", "127.0.0.1", "--webui-port", "0", "-c", "1", "-m", "600m")
        process = self._start(name, "worker.Worker", *arguments, "-d", str(work), self.url)
        self._workers[work.resolve()] = process

    def kill_worker_of(self, working_directory: str) -> None:
        """SIGKILL for the worker, and its executors, whose task is in that working directory."""
        (work,) = [each for each in self._workers if Path(working_directory).is_relative_to(each)]
        kill_group(self._workers.pop(work))

    def kill_oldest_worker(self) -> None:
        oldest = next(iter(self._workers))
        kill_group(self._workers.pop(oldest))

    def wait_for_workers(self, count: int) -> None:
        wait_until(lambda: self._alive() == count, f"{count} workers")

    def _alive(self) -> int:
        state = self._state() or {"workers": []}
        return sum(each["state"] == "ALIVE" for each in state["workers"])

    def _state(self) -> dict[str, Any] | None:
        try:
            with urllib.request.urlopen(
                f"http://127.0.0.1:{self._web_port}/json/", timeout=5
            ) as answer:
                found: dict[str, Any] = json.load(answer)
                return found
        except (OSError, ValueError):
            return None
