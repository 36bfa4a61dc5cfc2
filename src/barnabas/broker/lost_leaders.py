"""Leaders that were lost a moment ago: what clients are told until the metadata say who follows.

A client that loses its leader asks for metadata at once, some milliseconds before the controller has
chosen another, and many then look again only after a second (librdkafka's timer). So a broker that has
itself just lost its connection to that leader holds the answer until the news is there, `NEWS_MS_MAX`
at most. And a broker that was fenced stays in the list of brokers for `SHOWN_MS`, as in Kafka it
stays until its session runs out: a client that learns of a new leader and of the old one's
disappearance in one answer may lose a second over it as well.

Decides nothing about the cluster: it is about when, and how much, is told.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from barnabas.broker.deadlines import Deadlines
from barnabas.metadata.changes import Changes
from barnabas.metadata.image import MetadataImage
from barnabas.metadata.topic import Topic
from barnabas.ports import Clock
from barnabas.wire.request import Parked
from barnabas.wire.schema import Message

NEWS_MS_MAX = 500.0
SHOWN_MS = 9_000.0
"""Kafka's session time-out by default."""


class _Waiting:
    """A request for metadata of topics whose leader was lost."""

    __slots__ = ("_answer", "_forget", "bucket", "parked", "topics")

    def __init__(
        self,
        topics: list[Topic],
        answer: Callable[[], Message],
        forget: Callable[[_Waiting], None],
    ) -> None:
        self.topics = topics
        self.bucket = -1
        self.parked = Parked()
        self._answer = answer
        self._forget = forget

    def release(self) -> None:
        self._forget(self)
        if not self.parked.done:
            self.parked.complete(self._answer())

    def on_deadline(self) -> None:
        self.release()


class LostLeaders:
    """What one broker knows of brokers that went away lately."""

    def __init__(self, clock: Clock, deadlines: Deadlines, image: MetadataImage) -> None:
        self._clock = clock
        self._deadlines = deadlines
        self._image = image
        self._lost: dict[int, float] = {}
        """Broker to the instant until which its successor's news is waited for."""
        self._alive: dict[int, None] = {}
        self._left: dict[int, float] = {}
        """Fenced broker to the instant until which it is shown."""
        self._waiting: dict[_Waiting, None] = {}

    def on_lost(self, broker: int) -> None:
        """The connection to a leader ended by its side."""
        self._lost[broker] = self._clock.now_ms() + NEWS_MS_MAX

    def on_reached(self, broker: int) -> None:
        """It answers again: nothing to wait for."""
        if self._lost.pop(broker, None) is not None:
            self._release()

    def on_metadata(self, changes: Changes) -> None:
        """The image moved."""
        brokers = self._image.brokers
        for broker in sorted(brokers) if changes.everything else changes.brokers:
            known = brokers.get(broker)
            if known is not None and not known.fenced:
                self._alive[broker] = None
                self._left.pop(broker, None)
            elif broker in self._alive:
                del self._alive[broker]
                if known is not None:
                    self._left[broker] = self._clock.now_ms() + SHOWN_MS
        if self._waiting:
            self._release()

    def park(self, topics: Iterable[Topic], answer: Callable[[], Message]) -> Parked | None:
        """The request to hold, where one of `topics` is led by a lost broker; `answer` makes the
        response when its time has come. None: answer at once."""
        if not self._lost:
            return None
        concerned = [topic for topic in topics if self._concerns(topic)]
        if not concerned:
            return None
        waiting = _Waiting(concerned, answer, self._forget)
        self._waiting[waiting] = None
        self._deadlines.add(waiting, max(self._lost.values()))
        return waiting.parked

    def shown(self) -> list[int]:
        """Fenced brokers that are still to be listed."""
        if not self._left:
            return []
        now_ms = self._clock.now_ms()
        for broker in [b for b, until_ms in self._left.items() if until_ms <= now_ms]:
            del self._left[broker]
        return sorted(broker for broker in self._left if broker in self._image.brokers)

    def _concerns(self, topic: Topic) -> bool:
        now_ms = self._clock.now_ms()
        for broker in [b for b, until_ms in self._lost.items() if until_ms <= now_ms]:
            del self._lost[broker]
        return any(broker in topic.leader for broker in self._lost)

    def _release(self) -> None:
        """Answer those whose topics have leaders again."""
        for waiting in list(self._waiting):
            if not any(map(self._concerns, waiting.topics)):
                waiting.release()

    def _forget(self, waiting: _Waiting) -> None:
        self._waiting.pop(waiting, None)
        self._deadlines.remove(waiting)

    def describe(self) -> dict[str, object]:
        return {"lost": sorted(self._lost), "shown": self.shown(), "waiting": len(self._waiting)}
