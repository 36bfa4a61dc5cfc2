"""A queue of replicas whose metadata changed: many changes are applied over several turns.

A new log costs half a millisecond of system calls. Creating some thousand partitions in one turn
would hold the loop for seconds: requests would go unanswered, and followers would not learn that
the creation is committed. A change of leadership costs a tenth of that, but a failover, a broker's
start or a snapshot brings thousands. The broker applies a few changes in the turn in which they
arrive. Many changes wait in a queue, and requests are served in between; replicas that the broker
leads come first. Until its turn a replica keeps its old state, as if the metadata came a little
later. A replica that does not exist yet answers NOT_LEADER_OR_FOLLOWER, and clients ask again.

Invariant: a replica takes the state of the image at its turn, not of the image when it was queued.

Source: Kafka's ``ReplicaManager.applyDelta``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import chain, islice

from barnabas.metadata.image.image import MetadataImage
from barnabas.ports import Ports, call_all
from barnabas.types import Uuid

SLICE_MS = 5.0
"""A turn begins no further change after this. One log takes 20 ms on a busy disk."""

Key = tuple[Uuid, int]


class MetadataApplyQueue:
    """The replicas of the broker `node_id` that wait for their turn."""

    def __init__(
        self,
        ports: Ports,
        image: MetadataImage,
        node_id: int,
        is_known: Callable[[Key], bool],
        follow: Callable[[Key], None],
        followed: Callable[[], None],
    ) -> None:
        """`follow` applies the image to one replica; `is_known` tells whether this broker has the
        replica; `followed` is called after each slice."""
        self._ports = ports
        self._bounds = ports.bounds.replicas
        self._image = image
        self._node_id = node_id
        self._is_known = is_known
        self._follow = follow
        self._followed = followed
        self._led: dict[Key, None] = {}
        self._others: dict[Key, None] = {}
        self._gone: dict[Key, None] = {}
        self._scheduled = False
        self._when_done: list[Callable[[], None]] = []

    def __len__(self) -> int:
        return len(self._led) + len(self._others) + len(self._gone)

    def __contains__(self, key: Key) -> bool:
        return key in self._led or key in self._others or key in self._gone

    def add(self, named: Iterable[Key]) -> None:
        """Add replicas that changed, in the order of the metadata."""
        known: dict[Key, None] = {}
        new: dict[Key, None] = {}
        for key in named:
            (known if self._is_known(key) else new)[key] = None
        now: dict[Key, None] = {}
        bounds = self._bounds
        for keys, at_once in (
            (known, len(known) <= bounds.changed_per_turn),
            (new, len(self) + len(new) <= bounds.created_per_turn),
        ):
            if at_once:
                now.update(keys)
            else:
                self._wait(keys)
        left = iter(now)
        try:
            for key in left:
                self._follow(key)
        finally:  # an error of one replica must not keep the others in their old state
            self._wait(left)
            self._schedule()

    def _wait(self, keys: Iterable[Key]) -> None:
        for key in keys:
            self._line_of(key)[key] = None

    def _line_of(self, key: Key) -> dict[Key, None]:
        topic = self._image.topics_by_id.get(key[0])
        if topic is None or not topic.has(key[1]):
            return self._gone
        return self._led if topic.leader[key[1]] == self._node_id else self._others

    def when_done(self, callback: Callable[[], None]) -> None:
        """Call back when no replica waits, at once if that is so now."""
        if len(self):
            self._when_done.append(callback)
        else:
            callback()

    def clear(self) -> None:
        """Drop all replicas: the broker ends."""
        for line in (self._led, self._others, self._gone):
            line.clear()
        self._when_done.clear()

    def _schedule(self) -> None:
        if len(self) and not self._scheduled:
            self._scheduled = True
            self._ports.wakeups.call_soon(self._apply_slice)

    def _remove(self, key: Key) -> bool:
        """Take `key` out of every queue, and return whether it waited."""
        lines = [line for line in (self._led, self._others, self._gone) if key in line]
        for line in lines:
            del line[key]
        return bool(lines)

    def _apply_slice(self) -> None:
        self._scheduled = False
        now_ms = self._ports.clock.now_ms
        until_ms = now_ms() + SLICE_MS
        left = most = self._bounds.changed_per_turn
        new_cost = most // self._bounds.created_per_turn
        # One iterator for all: a new one for each key would step over every key that was removed
        # before.
        try:
            for key in list(islice(chain(self._led, self._others, self._gone), most)):
                if left <= 0 or now_ms() >= until_ms:
                    break
                if not self._remove(key):
                    continue
                left -= 1 if self._is_known(key) else new_cost
                self._follow(key)
        finally:
            self._schedule()
            self._followed()
        if not len(self):
            done, self._when_done = self._when_done, []
            call_all(done)
