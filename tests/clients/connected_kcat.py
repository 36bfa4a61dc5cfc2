"""kcat as a producer and as a group's member that stay connected: processes with pipes.

kcat reads its input by the kilobyte, and learns whether a record was acknowledged when it reads the next
line. A line has therefore `LINE_BYTES`, and the producer is given the same one again until it has said that
the first was delivered.

kcat ends when librdkafka has no broker left that answers ("All broker connections are down: terminating"), as
it may where the only broker that it is connected to dies. It is started again, as scripts do.
"""

from __future__ import annotations

import queue
import subprocess
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import IO

from tests.clients.access import Access
from tests.clients.connected import PARTITIONS, PATIENCE_S, Client, Member

LINE_BYTES = 1024
AGAIN_S = 0.05
RECONNECT_MS_MAX = "500"


def kcat(access: Access, *arguments: str) -> subprocess.Popen[bytes]:
    """A kcat with pipes, connected as `access` says. It has no way to give a token of OAUTHBEARER."""
    settings = {"reconnect.backoff.max.ms": RECONNECT_MS_MAX, **access.librdkafka()}
    given = [word for key, value in settings.items() for word in ("-X", f"{key}={value}")]
    return subprocess.Popen(
        ["kcat", *given, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        bufsize=0,
    )


def end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()
    for pipe in (process.stdin, process.stdout, process.stderr):
        if pipe is not None:
            pipe.close()


class PartitionWriter:
    """kcat that writes to one partition."""

    def __init__(self, access: Access, topic: str, partition: int, key: str) -> None:
        self._access = access
        self._arguments = [
            "-P", "-t", topic, "-p", str(partition), "-k", key, "-vv", "-X", "linger.ms=0",
            "-X", "acks=all",
        ]  # fmt: skip
        self._start()

    def _start(self) -> None:
        self._process = kcat(self._access, *self._arguments)
        self._delivered = self._written = 0
        assert self._process.stderr is not None
        self._thread = threading.Thread(target=self._listen, args=(self._process.stderr,))
        self._thread.start()

    def _listen(self, said: IO[bytes]) -> None:
        for line in said:
            self._delivered += b"Message delivered to partition" in line

    def write(self, number: int) -> None:
        """Until it is acknowledged."""
        deadline = time.monotonic() + PATIENCE_S
        wanted = self._written + 1
        while self._delivered < wanted:
            if time.monotonic() > deadline:
                raise TimeoutError(f"kcat has {self._delivered} of {wanted} delivered")
            try:
                assert self._process.stdin is not None
                self._process.stdin.write(b"%0*d\n" % (LINE_BYTES - 1, number))
                self._written += 1
            except BrokenPipeError:
                self.close()
                self._start()
                wanted = 1
            time.sleep(AGAIN_S)

    def close(self) -> None:
        self._process.kill()
        self._thread.join(PATIENCE_S)
        end(self._process)


class KcatProducer:
    name = "kcat producer"

    def __init__(self, access: Access, topic: str) -> None:
        self._writers = [
            PartitionWriter(access, topic, partition, self.name) for partition in range(PARTITIONS)
        ]
        self._threads = ThreadPoolExecutor(PARTITIONS)

    def act(self, number: int) -> None:
        list(self._threads.map(lambda writer: writer.write(number), self._writers))

    def close(self) -> None:
        for writer in self._writers:
            writer.close()
        self._threads.shutdown()


class KcatMember(Member):
    """kcat commits by itself what it has printed; `commit` has nothing to do."""

    def __init__(self, access: Access, topic: str, group: str) -> None:
        self._access = access
        self._arguments = [
            "-G", group, "-u", "-q", "-f", "%p %s\n", "-X", "auto.offset.reset=earliest",
            "-X", "session.timeout.ms=6000", topic,
        ]  # fmt: skip
        self._lines: queue.Queue[bytes] = queue.Queue()
        self._start()
        super().__init__("kcat member", self._read, lambda: None)

    def _start(self) -> None:
        self._process = kcat(self._access, *self._arguments)
        assert self._process.stdout is not None
        self._listener = threading.Thread(target=self._listen, args=(self._process.stdout,))
        self._listener.start()

    def _listen(self, printed: IO[bytes]) -> None:
        for line in printed:
            self._lines.put(line)

    def _read(self) -> list[tuple[int, int]]:
        if self._process.poll() is not None:
            self._end()
            self._start()
        try:
            line = self._lines.get(timeout=0.05)
        except queue.Empty:
            return []
        partition, _, number = line.partition(b" ")
        return [(int(partition), int(number))]

    def _end(self) -> None:
        self._process.kill()
        self._listener.join(PATIENCE_S)
        end(self._process)

    def close(self) -> None:
        super().close()
        self._end()


def kcat_clients(access: Access, topic: str, group: str) -> list[Client]:
    return [KcatProducer(access, topic), KcatMember(access, topic, group)]
