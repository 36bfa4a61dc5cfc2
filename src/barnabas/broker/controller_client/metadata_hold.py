"""Holds back metadata about leaders that were lost a moment ago, until the next leader is known.

A client that loses its leader or its coordinator asks for the next one at once, some milliseconds
before the controller has chosen it. Many clients ask again only after a second (librdkafka's
timer). So a broker that has itself lost its connection to that leader holds the answer until the
next leader is known, for `NEWS_MS_MAX` at most. When a process dies, its youngest connections end
first, so the client may notice before this broker does. If a client that has been connected for a
while asks about partitions that others lead, its request waits for `HOLD_POLL_MS`. Within that time
this broker notices the death as well: its own connection ends or, if it has none, its probe of that
broker's listener is refused.

A fenced broker stays in the list of brokers for `SHOWN_MS`; in Kafka it stays until its session
expires. A client that learns in one answer of a new leader and of the old one's disappearance may
lose a second, too. This module decides only when clients receive metadata, and which.
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
"""Age of a connection from which on its requests may be held: a starting client is never held."""
ASKS_AGAIN_MS = 10.0
"""The same age for FindCoordinator. A starting client asks as soon as it is connected; one that
asks later has most likely lost its coordinator. If librdkafka cannot connect to the coordinator in
the answer, it asks again only after a second."""
SHOWN_MS = 9_000.0
"""Kafka's default session time-out."""
PROBED_MAX = 1_000
"""The partitions of a request whose leaders are probed, at most."""

Answer = Callable[[Working], object]
Probe = Callable[[int, Callable[[bool], None]], None]
"""Finds out whether a broker's listener accepts connections: False if it refuses them."""


class Led(NamedTuple):
    """A topic whose leaders a client asks for, or only the leader of one `partition`."""

    topic: Topic
    partition: int | None = None

    def leaders(self) -> Iterable[int]:
        leaders = self.topic.leader
        at = self.partition
        return leaders if at is None else leaders[at : at + 1]


class _Waiting:
    """A held request about topics whose leader was lost, or may have been lost (`looks`)."""

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
    """The brokers that one broker has lost lately, and the requests that it holds."""

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
        """The instant of the last probe, by broker."""
        self._clock = clock
        self._deadlines = deadlines
        self._image = image
        self._lost: dict[int, float] = {}
        """The instant until which requests wait for the next leader, by lost broker."""
        self._alive: dict[int, None] = {}
        self._left: dict[int, float] = {}
        """The instant until which it is listed, by fenced broker."""
        self._waiting: dict[_Waiting, None] = {}

    def on_lost(self, broker: int) -> None:
        """A leader has closed the connection."""
        self._lost[broker] = self._clock.now_ms() + NEWS_MS_MAX

    def on_reached(self, broker: int) -> None:
        """The broker answers again: no request waits for it."""
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
        """Whether the broker seems to be dead, and the metadata do not say so yet."""
        return self._clock.now_ms() < self._lost.get(broker, 0.0)

    def park(
        self,
        led: Iterable[Led],
        connected_at_ms: float,
        answer: Answer,
        settled_ms: float = SETTLED_MS,
    ) -> Parked | None:
        """Hold the request if the leader of one of `led` was lost or may have been lost; `answer`
        completes it later. None: answer at once. The client connected at `connected_at_ms` and
        counts as starting until `settled_ms` after that."""
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
        """Probe the leaders, each at most once within `HOLD_POLL_MS`."""
        leaders = islice(chain.from_iterable(one.leaders() for one in concerned), PROBED_MAX)
        for broker in sorted({*leaders} - {self._node_id, NO_LEADER}):
            if now_ms >= self._probed.get(broker, -HOLD_POLL_MS) + HOLD_POLL_MS:
                self._probed[broker] = now_ms
                self._probe(broker, partial(self._on_probed, broker))

    def _on_probed(self, broker: int, accepts: bool) -> None:
        if not accepts:
            self.on_lost(broker)

    def on_deadline(self, waiting: _Waiting) -> None:
        """Answer the request, unless a probe has found a reason to wait."""
        until_ms = self._news_until(waiting.led) if waiting.looks else None
        if until_ms is None:
            self._let_go(waiting)
        else:
            waiting.looks = False
            self._deadlines.add(waiting, until_ms)

    def shown(self) -> list[int]:
        """Fenced brokers that are still listed."""
        if not self._left:
            return []
        now_ms = self._clock.now_ms()
        for broker in [b for b, until_ms in self._left.items() if until_ms <= now_ms]:
            del self._left[broker]
        return sorted(broker for broker in self._left if broker in self._image.brokers)

    def _is_led_elsewhere(self, led: Led) -> bool:
        return any(leader not in (self._node_id, NO_LEADER) for leader in led.leaders())

    def _news_until(self, concerned: list[Led]) -> float | None:
        """The time until which requests about `concerned` wait; None if none of their leaders was
        lost."""
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
        """Answer the requests whose topics have leaders again."""
        for waiting in list(self._waiting):
            if not waiting.looks and self._news_until(waiting.led) is None:
                self._let_go(waiting)

    def _let_go(self, waiting: _Waiting) -> None:
        self._waiting.pop(waiting, None)
        self._deadlines.remove(waiting)
        waiting.answer()

    def describe(self) -> dict[str, object]:
        return {"lost": sorted(self._lost), "shown": self.shown(), "waiting": len(self._waiting)}
