"""Keeps decisions and refusals of the controllers for the time line and for reasons.

The feed reads the metadata log as an observer with a client of its own: first from its beginning,
then what is new. A long log takes several refreshes. A controller of Barnabas writes a reason on
each decision; one of Apache Kafka writes none, and `has_reasons` says so. In ZooKeeper mode the
feed asks the brokers for the events that they remember. It keeps the newest `EVENTS_MAX` events.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from functools import partial
from typing import NamedTuple

from barnabas.cli.commands.cluster_events import RefusalReader
from barnabas.cli.connection.connect import sentence
from barnabas.cli.connection.controller_events import ControllerEvents
from barnabas.cli.connection.metadata_log_reader import MetadataLogReader, NoMetadataLog
from barnabas.cli.plain_text import INTERNAL_PREFIX
from barnabas.console.cluster_views.parts import EXPECTED
from barnabas.host.client import Connected
from barnabas.metadata.views.cluster_events import ClusterEvent, EventReader
from barnabas.wire.errors import KafkaError

EVENTS_MAX = 5_000
FRESH_S = 0.9
"""The seconds after a read in which no further read begins."""
READ_S = 3.0
"""The seconds after which a refresh stops; the next one continues. A page waits as long for the
refresh of another page."""
RETRY_S = 10.0
"""The seconds after a failure before the feed reads again."""
DECISIONS = ("election", "isr", "reassignment", "partition", "broker")
"""Kinds of event to which a controller of Barnabas gives a reason."""


class TimelineEntry(NamedTuple):
    """Events of one kind that have one cause, as one line of a time line."""

    first: ClusterEvent
    others: list[ClusterEvent]


def moments_of(events: Iterable[ClusterEvent]) -> list[TimelineEntry]:
    """Events of one kind with one reason and one date become a moment, also with others between them: the
    death of a broker elects leaders by several reasons in turn. It is where the first of them was, and
    an event of a user's topic speaks for it before one of an internal topic."""
    found: list[list[ClusterEvent]] = []
    by_cause: dict[tuple[str, str, int], list[ClusterEvent]] = {}
    for event in events:
        together = by_cause.setdefault(_cause(event), []) if event.reason else []
        if not together:
            found.append(together)
        together.append(event)
    return [_entry(together) for together in found]


def _entry(together: list[ClusterEvent]) -> TimelineEntry:
    is_internal = [event.subject.startswith(INTERNAL_PREFIX) for event in together]
    first = is_internal.index(False) if False in is_internal else 0
    return TimelineEntry(together[first], together[:first] + together[first + 1 :])


def _cause(event: ClusterEvent) -> tuple[str, str, int]:
    return event.kind, event.reason, event.at_ms // 1_000


class FeedRead(NamedTuple):
    """New events; `is_whole` is false if there are more."""

    events: list[ClusterEvent]
    is_whole: bool


class EventFeed:
    """The events of one cluster as one user may read them. Threads of several pages share it."""

    def __init__(self, new_client: Callable[[], Connected]) -> None:
        self._new_client = new_client
        self._connected: Connected | None = None
        self._read: Callable[[], FeedRead] | None = None
        self._reading = threading.Lock()
        """Held while the cluster is asked: it guards the client and the reader."""
        self._next_read_s = 0.0
        self._closed = False
        self._changing = threading.Lock()
        """Held for moments: it guards the events."""
        self._events: deque[ClusterEvent] = deque(maxlen=EVENTS_MAX)
        self._last_of: dict[tuple[str, str], ClusterEvent] = {}
        """The last event of each kind and subject, even if it is no longer kept among the
        events."""
        self.problem = ""
        """The reason why events are missing; empty if none are."""
        self.has_reasons = False
        """Whether any decision had a reason."""
        self.is_behind = False
        """Whether the last refresh had no time for all new events; the next one continues."""

    def refresh(self) -> None:
        """Read what is new, or wait for another thread that does. A failure becomes `problem`; the next call
        begins again."""
        if not self._reading.acquire(timeout=READ_S):
            return
        try:
            if not self._closed and time.monotonic() >= self._next_read_s:
                pause_s = self._read_new()
                self._next_read_s = time.monotonic() + pause_s
        finally:
            self._reading.release()
            if self._closed:
                self.close()

    def snapshot(self) -> list[ClusterEvent]:
        """The events in the order of their dates as they were read."""
        with self._changing:
            return list(self._events)

    def why(self, kind: str, subject: str) -> ClusterEvent | None:
        """The last event of this kind about `subject`."""
        return self._last_of.get((kind, subject))

    def close(self) -> None:
        """Close the client without waiting: a refresh that uses it closes it when it ends."""
        self._closed = True
        if self._reading.acquire(blocking=False):
            try:
                self._drop_client()
            finally:
                self._reading.release()

    def _read_new(self) -> float:
        """Read once; returns the seconds to the next time."""
        try:
            found = self._reader()()
        except EXPECTED as error:
            self._drop_client()
            self.problem, self.is_behind = self._why(error), False
            return RETRY_S
        except BaseException:
            self._drop_client()
            raise
        self._take(found.events)
        self.problem, self.is_behind = "", not found.is_whole
        return FRESH_S if found.is_whole else 0.0

    def _take(self, found: Iterable[ClusterEvent]) -> None:
        with self._changing:
            for event in found:
                self._events.append(event)
                self._last_of[event.kind, event.subject] = event
                if event.reason and event.kind in DECISIONS:
                    self.has_reasons = True

    def _reader(self) -> Callable[[], FeedRead]:
        if self._read is None:
            self._connected = self._new_client()
            self._connected.call(self._connected.client.cluster.refresh(timeout_ms=5_000.0))
            read = _source(self._connected)
            with self._changing:
                self._events.clear()
                self._last_of.clear()
            self._read = read
        return self._read

    def _drop_client(self) -> None:
        self._read = None
        client, self._connected = self._connected, None
        if client is not None:
            client.close()

    def _why(self, error: Exception) -> str:
        text = sentence(error) if isinstance(error, KafkaError) else str(error)
        return f"What was decided, and why, cannot be read: {text}"


def _source(connected: Connected) -> Callable[[], FeedRead]:
    """A function that reads what is new since its last call."""
    try:
        log = MetadataLogReader(connected)
    except NoMetadataLog:
        brokers = ControllerEvents(connected)
        return lambda: FeedRead(brokers.read(), is_whole=True)
    return partial(read_log, log, EventReader(), RefusalReader(connected))


def read_log(log: MetadataLogReader, reader: EventReader, refusals: RefusalReader) -> FeedRead:
    """The events of the log from where `log` is, for at most about `READ_S`; at its end the refusals, too."""
    deadline = time.monotonic() + READ_S
    found = log.read(reader)
    while not log.at_end and time.monotonic() < deadline:
        found += log.read(reader)
    if log.at_end:
        found += refusals.read(log.quorum)
    return FeedRead(sorted(found, key=lambda event: event.at_ms), log.at_end)
