"""Leaders that were lost a moment ago: what clients receive until the metadata name the next leader.

A client that loses its leader or its coordinator asks for it at once, some milliseconds before the
controller has chosen another, and many then look again only after a second (librdkafka's timer). So a
broker that has itself just lost its connection to that leader holds the answer until the news is there,
`NEWS_MS_MAX` at most. The end of a process is not one moment (its youngest connections end first), so the
client may have noticed before this broker: a request of a client that has been connected for a while, about
what others lead, waits `HOLD_POLL_MS`. Within that time this broker notices as well: by the end of its own
connection, or, as it may follow nothing there, by a probe of that broker's listener that is refused.

And a broker that was fenced stays in the list of brokers for `SHOWN_MS`, as in Kafka it stays until
its session runs out: a client that learns of a new leader and of the old one's disappearance in one
answer may lose a second over it, too.

Decides nothing about the cluster: only when clients receive metadata, and how much.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from itertools import chain, islice
from typing import NamedTuple

from barnabas.broker.deadlines import Deadlines
from barnabas.metadata.image.image import MetadataImage
from barnabas.metadata.image.image_changes import ImageChanges
from barnabas.metadata.image.topic import NO_LEADER, Topic
from barnabas.ports import Clock
from barnabas.wire.request import Parked, Working

NEWS_MS_MAX = 1_000.0
HOLD_POLL_MS = 20.0
SETTLED_MS = 300.0
"""A client that has been connected for this long knows its topics: a starting client is never held."""
ASKS_AGAIN_MS = 10.0
"""The same for who asks for a coordinator: a starting client asks as soon as it is connected, one that asks
later has most likely lost its coordinator. librdkafka asks again only after a second where it is named a
coordinator to which it cannot connect."""
SHOWN_MS = 9_000.0
"""Kafka's session time-out by default."""
PROBED_MAX = 1_000
"""The partitions of a larger request whose leaders are probed."""

Answer = Callable[[Working], object]
Probe = Callable[[int, Callable[[bool], None]], None]
"""Finds out whether a broker's listener accepts connections: False where it refuses."""


class Led(NamedTuple):
    """A topic whose leaders a client asks for, or only that of one `partition`."""

    topic: Topic
    partition: int | None = None

    def leaders(self) -> Iterable[int]:
        leaders = self.topic.leader
        at = self.partition
        return leaders if at is None else leaders[at : at + 1]


class _Waiting:
    """A request about topics whose leader was lost, or may have been (`looks`)."""

    __slots__ = ("_answer", "_hold", "bucket", "led", "looks", "working")

    def __init__(self, hold: MetadataHold, led: list[Led], answer: Answer, looks: bool) -> None:
        self.led = led
        self.bucket = -1
        self.looks = looks
        self.working = Working(holds=False)
        self._answer = answer
        self._hold = hold

    def answer(self) -> None:
        if not self.working.done:
            self._answer(self.working)

    def on_deadline(self) -> None:
        self._hold.on_deadline(self)


class MetadataHold:
    """The memory that one broker has of brokers that went away lately."""

    def __init__(
        self,
        node_id: int,
        clock: Clock,
        deadlines: Deadlines,
        image: MetadataImage,
        probe: Probe = lambda broker, on_done: None,
    ) -> None:
        self._node_id = node_id
        self._probe = probe
        self._probed: dict[int, float] = {}
        """Broker to the instant at which it was probed last."""
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

    def on_metadata(self, changes: ImageChanges) -> None:
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

    def is_lost(self, broker: int) -> bool:
        """Whether it seems to be dead, and the metadata do not say so yet."""
        return self._clock.now_ms() < self._lost.get(broker, 0.0)

    def park(
        self,
        led: Iterable[Led],
        connected_at_ms: float,
        answer: Answer,
        settled_ms: float = SETTLED_MS,
    ) -> Parked | None:
        """The request to hold, where one of `led` is led by a broker that was lost or may have been;
        `answer` completes it when its time has come. None: answer at once. The client was connected at
        `connected_at_ms`; from `settled_ms` on it does not count as a starting one."""
        now_ms = self._clock.now_ms()
        settled = connected_at_ms <= now_ms - settled_ms
        if not self._lost and not settled:
            return None
        concerned = list(led)
        until_ms, looks = self._news_until(concerned), False
        if until_ms is None:
            if not settled or not any(self._is_led_elsewhere(one) for one in concerned):
                return None
            until_ms, looks = now_ms + HOLD_POLL_MS, True
            self._look_at(concerned, now_ms)
        waiting = _Waiting(self, concerned, answer, looks)
        self._waiting[waiting] = None
        self._deadlines.add(waiting, until_ms)
        return waiting.working

    def _look_at(self, concerned: list[Led], now_ms: float) -> None:
        """Probe who leads, each at most once within `HOLD_POLL_MS`."""
        leaders = islice(chain.from_iterable(one.leaders() for one in concerned), PROBED_MAX)
        for broker in sorted({*leaders} - {self._node_id, NO_LEADER}):
            if now_ms >= self._probed.get(broker, -HOLD_POLL_MS) + HOLD_POLL_MS:
                self._probed[broker] = now_ms
                self._probe(broker, partial(self._on_probed, broker))

    def _on_probed(self, broker: int, accepts: bool) -> None:
        if not accepts:
            self.on_lost(broker)

    def on_deadline(self, waiting: _Waiting) -> None:
        """Its time has come, unless looking has found a reason to wait."""
        until_ms = self._news_until(waiting.led) if waiting.looks else None
        if until_ms is None:
            self._let_go(waiting)
        else:
            waiting.looks = False
            self._deadlines.add(waiting, until_ms)

    def shown(self) -> list[int]:
        """Fenced brokers that are still to be listed."""
        if not self._left:
            return []
        now_ms = self._clock.now_ms()
        for broker in [b for b, until_ms in self._left.items() if until_ms <= now_ms]:
            del self._left[broker]
        return sorted(broker for broker in self._left if broker in self._image.brokers)

    def _is_led_elsewhere(self, led: Led) -> bool:
        return any(leader not in (self._node_id, NO_LEADER) for leader in led.leaders())

    def _news_until(self, concerned: list[Led]) -> float | None:
        """How long news of `concerned` is waited for; None where no leader of theirs was lost."""
        now_ms = self._clock.now_ms()
        for broker in [b for b, until_ms in self._lost.items() if until_ms <= now_ms]:
            del self._lost[broker]
        found = [
            until_ms
            for broker, until_ms in self._lost.items()
            if any(broker in one.leaders() for one in concerned)
        ]
        return max(found, default=None)

    def _release(self) -> None:
        """Answer those whose topics have leaders again."""
        for waiting in list(self._waiting):
            if not waiting.looks and self._news_until(waiting.led) is None:
                self._let_go(waiting)

    def _let_go(self, waiting: _Waiting) -> None:
        self._waiting.pop(waiting, None)
        self._deadlines.remove(waiting)
        waiting.answer()

    def describe(self) -> dict[str, object]:
        return {"lost": sorted(self._lost), "shown": self.shown(), "waiting": len(self._waiting)}
