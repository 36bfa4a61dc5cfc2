"""Other people's programs beside a cluster whose nodes die and restart: what goes in has to come out.

A program takes numbers from a topic or from the lines of a file, and gives them to a topic or to the lines of
another file. Numbers are fed all the time. Meanwhile the leader of a partition is killed by kill -9, and then
each node is stopped and started in turn. At the end every number that was fed has come out, and the program
still runs.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from barnabas.host.client import connect
from barnabas.testing.cluster import Cluster
from tests.clients.checks import fresh, wait_for
from tests.clients.committed import read_committed
from tests.process.load import Load, view, wait_until_whole

PARTITIONS = 3
PATIENCE_S = 240.0
PACE_S = 0.02
"""Between two numbers."""
UNDER_WAY = 50
"""So many more numbers have come out before the next disturbance."""
END_S = 15.0


@dataclass(frozen=True)
class Work:
    """One run of a program: what it takes, and where it puts what it gives."""

    bootstrap: str
    source: str
    target: str
    group: str
    folder: Path

    @property
    def lines_in(self) -> Path:
        return self.folder / "in.txt"

    @property
    def lines_out(self) -> Path:
        return self.folder / "out.txt"


@dataclass(frozen=True)
class Program:
    """A program of other people.

    `missing` says what is not here, or None; `version` is asked after that. `command` starts it.
    """

    name: str
    tried: str
    command: Callable[[Work], list[str]]
    version: Callable[[], str]
    missing: Callable[[], str | None]
    takes_lines: bool = False
    gives_lines: bool = False
    never_doubles: bool = False
    target_prefix: str = ""
    """The program names its target itself: this and the source's name."""
    bends: str = ""
    """What a user has to know; empty where nothing is different from Apache Kafka."""


class Outcome(NamedTuple):
    """What came of a run."""

    numbers: int
    doubles: int


class Lines:
    """Appends numbers to a file until the block ends."""

    def __init__(self, path: Path) -> None:
        self.count = 0
        self._path = path
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Lines:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join(PATIENCE_S)

    def _run(self) -> None:
        with open(self._path, "a") as target:
            while not self._ended.wait(PACE_S):
                target.write(f"{self.count}\n")
                target.flush()
                self.count += 1


class Run:
    """A program at work on a cluster."""

    def __init__(self, cluster: Cluster, program: Program, folder: Path) -> None:
        self._cluster, self._program = cluster, program
        source, prefix = fresh("source"), program.target_prefix
        target = prefix + source if prefix else fresh("target")
        self.work = Work(cluster.bootstrap, source, target, fresh("group"), folder)
        self._log = folder / "program.log"
        self._process: subprocess.Popen[bytes] | None = None

    def through_deaths(self) -> Outcome:
        """Feed, disturb, and check what came out."""
        self._create_topics()
        self.work.lines_in.touch()
        self.work.lines_out.touch()
        with self._started():
            fed = self._feed_through_deaths()
            # A reader finds the end of a topic only when the program has stopped writing to it.
            self._wait_for(lambda: self._count() >= len(fed), "as many numbers to come out")
            self._wait_for(lambda: fed <= self._found(), "all numbers to come out")
        counts = Counter(self._given())
        assert set(counts) == fed
        return Outcome(len(fed), counts.total() - len(counts))

    def _create_topics(self) -> None:
        with connect(self.work.bootstrap) as client:
            for topic in (self.work.source, self.work.target):
                client.create_topic(topic, PARTITIONS, 3, {"min.insync.replicas": "2"})

    @contextlib.contextmanager
    def _started(self) -> Iterator[None]:
        with self._log.open("wb") as log:
            command = self._program.command(self.work)
            self._process = subprocess.Popen(
                command,
                stdout=log,
                stderr=log,
                cwd=self.work.folder,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            )
        try:
            yield
        finally:
            end(self._process)

    def _feed_through_deaths(self) -> set[int]:
        if self._program.takes_lines:
            with Lines(self.work.lines_in) as lines:
                self._disturb()
            return set(range(lines.count))
        load = Load(self._cluster, self.work.source, PARTITIONS, PACE_S)
        with load:
            self._disturb()
        return {number for numbers in load.acknowledged.values() for number in numbers}

    def _disturb(self) -> None:
        cluster = self._cluster
        self._wait_for_more()
        victim = view(cluster, self.work.target)[0].leader
        cluster.kill(victim)
        self._wait_for_more()
        cluster.restart(victim)
        self._wait_until_whole()
        for node_id in cluster.node_ids:
            cluster.terminate(node_id)
            cluster.restart(node_id)
            self._wait_until_whole()
        self._wait_for_more()

    def _wait_until_whole(self) -> None:
        for topic in (self.work.source, self.work.target):
            wait_until_whole(self._cluster, topic, PATIENCE_S)

    def _wait_for_more(self) -> None:
        before = self._count()
        self._wait_for(lambda: self._count() >= before + UNDER_WAY, "more numbers to come out")

    def _wait_for(self, condition: Callable[[], bool], what: str) -> None:
        def is_so() -> bool:
            assert self._process is not None
            assert self._process.poll() is None, f"the program has ended: {self._said()}"
            return condition()

        try:
            wait_for(is_so, what, PATIENCE_S)
        except AssertionError as error:
            raise AssertionError(f"{error}: {self._said()}") from error

    def _said(self) -> str:
        return self._log.read_text(errors="replace")[-3_000:]

    def _count(self) -> int:
        """How much has come out so far, markers of transactions among it."""
        if self._program.gives_lines:
            return self.work.lines_out.read_bytes().count(b"\n")
        with connect(self.work.bootstrap) as client:
            found = client.offsets(client.partitions_of([self.work.target]))
        return sum(end.offset for end in found.values())

    def _found(self) -> set[int]:
        """Empty while the program still writes, so that a reader does not find the end.

        A program with many transactions gives more markers than numbers.
        """
        try:
            return set(self._given())
        except AssertionError:
            return set()

    def _given(self) -> list[int]:
        if self._program.gives_lines:
            return [int(line) for line in self.work.lines_out.read_text().split()]
        found = read_committed(self.work.bootstrap, self.work.target, 0)
        return [int(record.value) for record in found]


def end(process: subprocess.Popen[bytes]) -> None:
    """End the program and what it started: it leads a session of its own."""
    for kind in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, kind)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(END_S)
