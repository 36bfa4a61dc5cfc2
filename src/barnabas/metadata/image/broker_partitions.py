"""Which partitions a broker has a replica of, in little memory.

Each broker has one array of 64-bit keys (topic slot << 32 | partition). A key is appended when an
assignment begins to name the broker. When an assignment ends, its key is only counted as stale. Before
the array is read the next time, its keys are compared with the topics' columns, and stale ones are dropped.

Three million replicas take 24 MB. A read costs time in proportion to the broker's replicas, not to the
cluster's.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence

from barnabas.metadata.image.topic import Topic

INDEX_BITS = 32
INDEX_MASK = (1 << INDEX_BITS) - 1
KEYS_PER_SLICE = 2000
"""Keys compared with the topics' columns in one go: half a millisecond."""


class BrokerPartitions:
    """Brokers → partitions with a replica on them. `slots` is the image's list of topics."""

    __slots__ = ("_keys", "_slots", "_stale")

    def __init__(self, slots: Sequence[Topic | None]) -> None:
        self._slots = slots
        self._keys: dict[int, array[int]] = {}
        self._stale: dict[int, int] = {}

    def add(self, brokers: Iterable[int], slot: int, index: int) -> None:
        key = slot << INDEX_BITS | index
        keys = self._keys
        for broker in brokers:
            try:
                keys[broker].append(key)
            except KeyError:
                keys[broker] = array("Q", (key,))

    def add_rows(self, replicas: Iterable[Iterable[int]], slot: int, first: int) -> None:
        """Add the partitions from `first` on, each as `add` does."""
        keys = self._keys
        for key, brokers in enumerate(replicas, slot << INDEX_BITS | first):
            for broker in brokers:
                try:
                    keys[broker].append(key)
                except KeyError:
                    keys[broker] = array("Q", (key,))

    def remove(self, brokers: Iterable[int], count: int = 1) -> None:
        """`count` entries of each of `brokers` are no longer true."""
        stale = self._stale
        for broker in brokers:
            stale[broker] = stale.get(broker, 0) + count

    def brokers(self) -> list[int]:
        """The brokers that have replicas, or had some until lately, ascending; also brokers that are not
        registered any more."""
        return sorted(self._keys)

    def count(self, broker: int) -> int:
        """How many partitions `broker` has a replica of; stale keys are counted too."""
        return len(self._keys.get(broker, ()))

    def keys(self, broker: int) -> array[int]:
        """The keys of the partitions that `broker` has a replica of, in the order they came to
        it. A copy: it stays as it is while the image moves on."""
        for _ in self.sift(broker):
            pass
        return self._keys.get(broker, array("Q"))[:]

    def sift(self, broker: int) -> Iterator[None]:
        """Drop what is stale, `KEYS_PER_SLICE` keys at a time; the image may move in between."""
        stale = self._stale.get(broker)
        keys = self._keys.get(broker)
        if not stale or keys is None:
            return
        slots = self._slots
        kept: dict[int, None] = {}
        start = 0
        while start < len(keys):
            end = min(start + KEYS_PER_SLICE, len(keys))
            for key in keys[start:end]:
                slot = key >> INDEX_BITS
                topic = slots[slot] if slot < len(slots) else None
                index = key & INDEX_MASK
                if topic is not None and index < len(topic.replicas):
                    if broker in topic.replicas[index]:
                        kept[key] = None
            start = end
            if start < len(keys):
                yield
                if self._keys.get(broker) is not keys:
                    return  # another call has replaced the keys meanwhile
        self._keys[broker] = array("Q", kept)
        self._stale[broker] -= stale
