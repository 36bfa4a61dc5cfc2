"""Small programs on Kafka's own libraries, run beside our nodes: ``tests/interop/java``."""

from __future__ import annotations

import queue
import subprocess
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import IO

from tests.peers import CLASS_PATH

PROGRAMS = Path(__file__).parent / "java"
PATIENCE_S = 120.0
FLINK_OPTIONS = (
    "-Xmx400m",
    "-XX:+IgnoreUnrecognizedVMOptions",
    "--add-opens=java.base/java.lang=ALL-UNNAMED",
    "--add-opens=java.base/java.util=ALL-UNNAMED",
    "--add-opens=java.base/java.time=ALL-UNNAMED",
)


class JavaProcess:
    """One process of ``java WORDS``; `lines` has what it printed on its standard output."""

    def __init__(
        self,
        *words: str,
        log: Path,
        class_path: str = CLASS_PATH,
        options: Sequence[str] = ("-Xmx300m",),
    ) -> None:
        """`words` are a main class or a source file, and its arguments. Standard error goes to `log`."""
        self._log: IO[bytes] = log.open("ab")
        self.log = log
        self.process = subprocess.Popen(
            ["java", *options, "-cp", class_path, *words],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
        )
        self.lines: list[str] = []
        self._queue: queue.Queue[str] = queue.Queue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._queue.put(line.rstrip())

    def wait_for_lines(self, start: str, count: int = 1) -> None:
        """Until `count` lines that begin with `start` have come."""
        deadline = time.monotonic() + PATIENCE_S
        while sum(line.startswith(start) for line in self.lines) < count:
            left = deadline - time.monotonic()
            try:
                self.lines.append(self._queue.get(timeout=max(left, 0.001)))
            except queue.Empty:
                text = self.log.read_text(errors="replace")[-2_000:]
                raise AssertionError(
                    f"no {count} lines {start!r}: {self.lines[-10:]}\n{text}"
                ) from None

    def say(self, line: str) -> None:
        """One line of its standard input."""
        assert self.process.stdin is not None
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def wait(self, timeout_s: float = PATIENCE_S) -> int:
        return self.process.wait(timeout_s)

    def wait_for_all_lines(self, timeout_s: float = PATIENCE_S) -> list[str]:
        """Everything that it printed until its own end, which has to be in order."""
        code = self.wait(timeout_s)
        self._reader.join(timeout_s)
        while not self._queue.empty():
            self.lines.append(self._queue.get())
        text = self.log.read_text(errors="replace")[-2_000:]
        assert code == 0, f"exit {code}: {self.lines[-10:]}\n{text}"
        return self.lines

    def end_input(self) -> None:
        """Ask it to end in order."""
        assert self.process.stdin is not None
        self.process.stdin.close()

    def kill(self) -> None:
        """kill -9, where it runs still."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(10)
        self._reader.join(10)
        self._log.close()


class Program(JavaProcess):
    """One process of ``java PROGRAM.java ARGUMENTS``, from the folder `PROGRAMS`."""

    def __init__(
        self,
        name: str,
        *arguments: str,
        log: Path,
        class_path: str = CLASS_PATH,
        options: Sequence[str] = ("-Xmx300m",),
    ) -> None:
        words = [str(PROGRAMS / f"{name}.java"), *arguments]
        super().__init__(*words, log=log, class_path=class_path, options=options)
