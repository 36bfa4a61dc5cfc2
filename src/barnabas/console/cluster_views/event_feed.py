"""Decisions and refusals of the controllers, kept as they are read: the time line, and why something is so.

The feed reads the metadata log as an observer, from its beginning and then what is new, with a client of its
own. A controller of Barnabas writes a reason on each decision; one of Apache Kafka writes none, and
`has_reasons` says so. In ZooKeeper mode the brokers are asked for what they remember. Memory is bounded: the
newest `EVENTS_MAX` stay.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from typing import NamedTuple

from barnabas.cli.commands.cluster_events import RefusalReader
from barnabas.cli.connection.connect import sentence
from barnabas.cli.connection.controller_events import ControllerEvents
from barnabas.cli.connection.metadata_log_reader import MetadataLogReader, NoMetadataLog
from barnabas.cli.failure import Failure
from barnabas.client.network.connection import ChannelError
from barnabas.host.client import Connected
from barnabas.metadata.views.cluster_events import ClusterEvent, EventReader
from barnabas.wire.errors import KafkaError

EVENTS_MAX = 5_000
FRESH_S = 0.9
"""Seconds in which nothing is read again."""
RETRY_S = 10.0
"""After a failure the feed waits so long before it reads again."""
DECISIONS = ("election", "isr", "reassignment", "partition", "broker")
"""Kinds of event to which a controller of Barnabas gives a reason."""


class TimelineEntry(NamedTuple):
    """Events of one kind that have one cause, as one line of a time line."""

    first: ClusterEvent
    others: list[ClusterEvent]


def moments_of(events: Iterable[ClusterEvent]) -> list[TimelineEntry]:
    """Neighbours of one kind with one reason and one date become a moment."""
    found: list[TimelineEntry] = []
    for event in events:
        last = found[-1].first if found else None
        if last is not None and event.reason and _cause(last) == _cause(event):
            found[-1].others.append(event)
        else:
            found.append(TimelineEntry(event, []))
    return found


def _cause(event: ClusterEvent) -> tuple[str, str, int]:
    return event.kind, event.reason, event.at_ms // 1_000


class EventFeed:
    """The events of one cluster as one user may read them."""

    def __init__(self, new_client: Callable[[], Connected]) -> None:
        self._new_client = new_client
        self._client: Connected | None = None
        self._read: Callable[[], list[ClusterEvent]] | None = None
        self._lock = threading.Lock()
        self._next_read_s = 0.0
        self._closed = False
        self.events: deque[ClusterEvent] = deque(maxlen=EVENTS_MAX)
        """In the order of their dates as they were read."""
        self.problem = ""
        """Why events are missing; empty where none are."""
        self.has_reasons = False
        """Whether any decision came with its reason."""
        self.last_of: dict[tuple[str, str], ClusterEvent] = {}
        """The last event of each kind and subject that is among `events` or was."""

    def refresh(self) -> None:
        """Read what is new. A failure becomes `problem`; the next call begins again."""
        with self._lock:
            if self._closed or time.monotonic() < self._next_read_s:
                return
            try:
                self._take(self._reader()())
                self.problem, pause_s = "", FRESH_S
            except (KafkaError, ChannelError, Failure) as error:
                self.problem, pause_s = self._why(error), RETRY_S
                self._drop_client()
            self._next_read_s = time.monotonic() + pause_s

    def why(self, kind: str, subject: str) -> ClusterEvent | None:
        """The last event of this kind about `subject`."""
        return self.last_of.get((kind, subject))

    def story(self, subject: str) -> list[ClusterEvent]:
        """The events about one subject, the newest first."""
        return [event for event in reversed(self.events) if event.subject == subject]

    def close(self) -> None:
        with self._lock:
            self._closed = True
            self._drop_client()

    def _take(self, found: Iterable[ClusterEvent]) -> None:
        for event in found:
            self.events.append(event)
            self.last_of[event.kind, event.subject] = event
            if event.reason and event.kind in DECISIONS:
                self.has_reasons = True

    def _reader(self) -> Callable[[], list[ClusterEvent]]:
        if self._read is None:
            self.events.clear()
            self.last_of.clear()
            self._client = self._new_client()
            self._client.call(self._client.client.cluster.refresh(timeout_ms=5_000.0))
            self._read = _source(self._client)
        return self._read

    def _drop_client(self) -> None:
        self._read = None
        client, self._client = self._client, None
        if client is not None:
            client.close()

    def _why(self, error: Exception) -> str:
        text = sentence(error) if isinstance(error, KafkaError) else str(error)
        return f"What was decided, and why, cannot be read: {text}"


def _source(connected: Connected) -> Callable[[], list[ClusterEvent]]:
    """A function that reads what is new since its last call."""
    try:
        log = MetadataLogReader(connected)
    except NoMetadataLog:
        return ControllerEvents(connected).read
    reader, refusals = EventReader(), RefusalReader(connected)

    def read() -> list[ClusterEvent]:
        found = refusals.read(log.quorum)
        found += log.read(reader)
        while not log.at_end:
            found += log.read(reader)
        return sorted(found, key=lambda event: event.at_ms)

    return read
