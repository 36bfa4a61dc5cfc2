"""The partitions of a consumer group that have an owner: one undoable bit each, in words of 4,096.

100,000 partitions of a member are 25 words, so a change of many partitions costs little more than a
change of a few.

Invariant: a partition is owned while some member's record has it, as assigned or as revoking. In
the decided state at most one member's record has it. In a compacted log the record of a partition's
next owner may come before the record in which the last owner gives it up: until both are replayed
the partition has two owners. If compaction has removed a member's tombstone before this replica
fetched it, both remain until the member's session ends, as in Kafka.

Source: ``ConsumerGroup.currentPartitionEpoch`` of Apache Kafka 4.3, where it is a map of epochs.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence

from barnabas.group.consumer.member import Assigned
from barnabas.timeline import Journal, TimelineMap
from barnabas.types import Uuid

WORD_BITS = 4096
_LINEAR_MAX = 8
Word = tuple[Uuid, int]
"""A topic, and the index of a word of its partitions."""


class OwnedPartitions:
    """The owned partitions of one group."""

    __slots__ = ("_contested", "_words")

    def __init__(self, journal: Journal) -> None:
        self._words: TimelineMap[Word, int] = TimelineMap(journal)
        self._contested: TimelineMap[tuple[Uuid, int], int] = TimelineMap(journal)
        """The number of owners beside the first, of partitions that have several."""

    def __repr__(self) -> str:
        return f"OwnedPartitions({len(self)}, {len(self._contested)} contested)"

    def __len__(self) -> int:
        return sum(bits.bit_count() for _, bits in self._words.items())

    def __iter__(self) -> Iterator[tuple[Uuid, int]]:
        for (topic_id, word), bits in self._words.items():
            for partition in _partitions(word, bits):
                yield topic_id, partition

    def __contains__(self, place: tuple[Uuid, int]) -> bool:
        topic_id, partition = place
        word, bit = divmod(partition, WORD_BITS)
        return bool((self._words.get((topic_id, word)) or 0) >> bit & 1)

    @property
    def has_contested(self) -> bool:
        """Whether some partition has two owners."""
        return len(self._contested) > 0

    def contested(self) -> frozenset[tuple[Uuid, int]]:
        """The partitions that have two owners or more."""
        return frozenset(place for place, _ in self._contested.items())

    def among(self, topic_id: Uuid, partitions: Iterable[int]) -> frozenset[int]:
        """The partitions among `partitions` that have an owner."""
        found: list[int] = []
        for word, bits in _words_of(partitions).items():
            owned = bits & (self._words.get((topic_id, word)) or 0)
            if owned:
                found += _partitions(word, owned)
        return frozenset(found)

    def change(self, before: Sequence[Assigned], after: Sequence[Assigned]) -> None:
        """Note that a member owns `after` in place of `before`."""
        old, new = _by_word(before), _by_word(after)
        for key in {**old, **new}:
            had, has = old.get(key, 0), new.get(key, 0)
            if had != has:
                self._change(key, had & ~has, has & ~had)

    def _change(self, key: Word, gone: int, come: int) -> None:
        owned = self._words.get(key) or 0
        topic_id, word = key
        for partition in _partitions(word, owned & come):
            place = topic_id, partition
            self._contested.put(place, (self._contested.get(place) or 0) + 1)
        if gone and len(self._contested):
            gone &= ~self._concede(key, gone)
        if left := (owned & ~gone) | come:
            self._words.put(key, left)
        else:
            self._words.remove(key)

    def _concede(self, key: Word, gone: int) -> int:
        """Take one owner from those partitions in `gone` that have several, and return their
        bits."""
        topic_id, word = key
        kept = 0
        for partition in _partitions(word, gone):
            others = self._contested.get((topic_id, partition))
            if others is None:
                continue
            kept |= 1 << partition % WORD_BITS
            if others > 1:
                self._contested.put((topic_id, partition), others - 1)
            else:
                self._contested.remove((topic_id, partition))
        return kept


def _by_word(owned: Sequence[Assigned]) -> dict[Word, int]:
    found: dict[Word, int] = {}
    for assigned in owned:
        for topic_id, partitions in assigned.items():
            for word, bits in _words_of(partitions).items():
                found[topic_id, word] = found.get((topic_id, word), 0) | bits
    return found


def _words_of(partitions: Iterable[int]) -> dict[int, int]:
    """The bits of the partitions, by word."""
    ordered, words = sorted(partitions), {}
    start, end = 0, len(ordered)
    while start < end:
        word = ordered[start] // WORD_BITS
        stop = bisect_left(ordered, (word + 1) * WORD_BITS, start)
        words[word] = _bits(ordered[start:stop])
        start = stop
    return words


def _bits(ordered: list[int]) -> int:
    """The bits of partitions in one word; no partition occurs twice."""
    first, count = ordered[0], len(ordered)
    if ordered[-1] - first == count - 1:  # a range
        return (1 << count) - 1 << first % WORD_BITS
    if count <= _LINEAR_MAX:
        return sum(1 << partition % WORD_BITS for partition in ordered)
    digits = bytearray(b"0" * WORD_BITS)
    for partition in ordered:
        digits[~(partition % WORD_BITS)] = 49
    return int(digits, 2)


def _partitions(word: int, bits: int) -> list[int]:
    if not bits:
        return []
    base = word * WORD_BITS
    return [base + index for index, digit in enumerate(reversed(f"{bits:b}")) if digit == "1"]
