"""Java's producer, group member and admin client, of ``Connected.java``, that stay connected."""

from __future__ import annotations

import queue
import subprocess
import threading
from pathlib import Path

from tests.clients.access import Access
from tests.clients.connected import PARTITIONS, PATIENCE_S
from tests.peers import CLASS_PATH

PROGRAM = Path(__file__).parents[1] / "interop/Connected.java"
ROLES = ("producer", "member", "admin")


class Java:
    """The program of `PROGRAM`: three clients that stay connected."""

    def __init__(self, access: Access, topic: str, group: str, folder: Path) -> None:
        """`folder` gets the clients' properties, and what they say."""
        command = ["java", "-Xmx256m", "-XX:+UseSerialGC", *access.java_options()]
        properties = folder / f"{group}.properties"
        properties.write_text(access.file())
        self._said = folder / f"{group}.txt"
        self._errors = self._said.open("wb")
        self._process = subprocess.Popen(
            [*command, "-cp", CLASS_PATH, str(PROGRAM), str(properties), topic, group, str(PARTITIONS)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
        )  # fmt: skip
        self._lines: queue.Queue[str] = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._lines.put(line)

    def act(self, number: int) -> dict[str, int]:
        """All three act; the milliseconds that each took."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{number}\n")
        self._process.stdin.flush()
        took: dict[str, int] = {}
        while True:
            try:
                words = self._lines.get(timeout=PATIENCE_S).split()
            except queue.Empty:
                raise TimeoutError(f"{took}\n{self._said.read_text()[-3000:]}") from None
            if words[0] == "done":
                return took
            assert words[0] in ROLES, words
            took[words[0]] = int(words[2])

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        self._errors.close()


class JavaClients:
    """The three as one `Client`: it has acted when all of them have. Its name is the key of the records."""

    name = "java producer"

    def __init__(self, access: Access, topic: str, group: str, folder: Path) -> None:
        self._java = Java(access, topic, group, folder)

    def act(self, number: int) -> None:
        took = self._java.act(number)
        assert set(took) == set(ROLES), took

    def close(self) -> None:
        self._java.close()
