"""Replicas that are new here, made a few per turn of the loop.

A log costs half a millisecond of system calls, so the creation of some thousand partitions held the loop
for seconds: requests went unanswered, and followers did not learn that the creation was committed. Few are
made at once, in the turn in which they are told; many wait in line, those that this broker leads
first, and others are served in between. Until its turn a replica answers NOT_LEADER_OR_FOLLOWER, upon
which clients ask again.

Invariant: what is made is what the image says when it is made, not when it was told.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain, islice

from barnabas.metadata.image import MetadataImage
from barnabas.metadata.topic import Topic
from barnabas.ports import Ports
from barnabas.types import Uuid

SLICE = 8
"""Made in one turn at most."""
SLICE_MS = 5.0
"""A turn ends after this, though a busy disk takes 20 ms for one log."""

Key = tuple[Uuid, int]


class NewReplicas:
    """Those that wait to be made on the broker `node_id`."""

    def __init__(
        self,
        ports: Ports,
        image: MetadataImage,
        node_id: int,
        make: Callable[[Topic, int], None],
        made: Callable[[], None],
    ) -> None:
        """`make` takes one up, whether it is there by now or not; `made` is called after each slice."""
        self._ports = ports
        self._image = image
        self._node_id = node_id
        self._make = make
        self._made = made
        self._led: dict[Key, None] = {}
        self._followed: dict[Key, None] = {}
        self._scheduled = False

    def __len__(self) -> int:
        return len(self._led) + len(self._followed)

    def add(self, told: dict[Key, None]) -> None:
        """The metadata name these, in order."""
        if len(self) + len(told) <= SLICE:
            for key in told:
                self._take_up(key)
            return
        for topic_id, index in told:
            topic = self._image.topics_by_id[topic_id]
            led = topic.leader[index] == self._node_id
            (self._led if led else self._followed)[topic_id, index] = None
        self._schedule()

    def clear(self) -> None:
        """Make no more: the broker ends."""
        self._led.clear()
        self._followed.clear()

    def _schedule(self) -> None:
        if len(self) and not self._scheduled:
            self._scheduled = True
            self._ports.wakeups.call_soon(self._go_on)

    def _go_on(self) -> None:
        self._scheduled = False
        now_ms = self._ports.clock.now_ms
        until_ms = now_ms() + SLICE_MS
        for key in list(islice(chain(self._led, self._followed), SLICE)):
            self._led.pop(key, None)
            self._followed.pop(key, None)
            self._take_up(key)
            if now_ms() >= until_ms:
                break
        self._made()
        self._schedule()

    def _take_up(self, key: Key) -> None:
        topic = self._image.topics_by_id.get(key[0])
        if topic is not None and topic.has(key[1]) and self._node_id in topic.replicas[key[1]]:
            self._make(topic, key[1])
