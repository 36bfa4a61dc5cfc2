"""The Spark job as a process: started early, it gets its settings later and reports progress line by line."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

JAVA_MIN = 17
END_S = 20.0
NICENESS = 2


class JobFailedError(Exception):
    """The Spark job failed; the message has the end of its log."""


def missing_java() -> str | None:
    """A sentence if there is no Java of 17 or newer, else None."""
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home, "bin", "java")) if home else shutil.which("java")
    wanted = f"Spark needs Java {JAVA_MIN} or newer"
    if java is None or shutil.which(java) is None:
        return f"{wanted}, and none is found: install one (e.g. openjdk-17-jre-headless) or set JAVA_HOME."
    shown = subprocess.run([java, "-version"], capture_output=True, text=True, check=False)
    version = re.search(r'version "(\d+)', shown.stderr + shown.stdout)
    if version is None or int(version[1]) < JAVA_MIN:
        return f"{wanted}, and {java} is version {version[1] if version else 'unknown'}."
    return None


class SparkProcess:
    """Runs ``python -m barnabas.demo.job`` in `directory`. `latest` has its last message of each event."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.log_file = directory / "spark.log"
        self.latest: dict[str, dict[str, Any]] = {}
        self._heard = threading.Condition()
        self._is_silent = False
        """Whether it closed its output, which happens when it ends."""
        with open(self.log_file, "wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "barnabas.demo.job", str(directory)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        # A lower priority than nodes and producer, since Spark uses all cores.
        os.setpriority(os.PRIO_PROCESS, self._process.pid, NICENESS)
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            try:
                said = json.loads(line)
            except ValueError:
                continue  # something in the JVM wrote to stdout
            if not isinstance(said, dict) or "event" not in said:
                continue
            with self._heard:
                self.latest[said["event"]] = said
                if said["event"] == "finished":
                    self.latest["progress"] = said
                self._heard.notify_all()
        with self._heard:
            self._is_silent = True
            self._heard.notify_all()

    def tell(self, **fields: Any) -> None:
        """Send the job one line. Raises `JobFailedError` if it has failed."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(fields) + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            self._await_end()
            self.check()
            raise

    def _await_end(self) -> None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(END_S)

    def check(self) -> None:
        """Raises `JobFailedError` if the job ended with an error."""
        if self._process.poll():
            tail = self.log_file.read_text(errors="replace").splitlines()[-30:]
            raise JobFailedError("\n".join(["the Spark job ended:", *tail]))

    def heard(self, event: str, wait_s: float = 0.0) -> dict[str, Any] | None:
        """The job's last message of `event`; waits up to `wait_s` for the first one. None if there is none.
        Raises `JobFailedError`."""
        with self._heard:
            self._heard.wait_for(lambda: event in self.latest or self._is_silent, wait_s)
        if event not in self.latest:
            if self._is_silent:
                self._await_end()
            self.check()
        return self.latest.get(event)

    def rows(self, query: str) -> int:
        return int(self.latest.get("progress", {}).get(query, {}).get("rows", 0))

    def end(self) -> None:
        """End the process: wait for it if it has finished its work, otherwise terminate it."""
        if self._process.poll() is None and "finished" in self.latest:
            try:
                self._process.wait(END_S)
            except subprocess.TimeoutExpired:
                self._process.terminate()
        if self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(END_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
        self._process.wait()
