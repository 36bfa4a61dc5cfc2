"""The order in which Kafka 3.9 writes the keys of a JSON object: that of the map it comes from.

Kafka's objects are Scala and Java maps, whose iteration goes by hash. The bytes of a znode are Kafka's
only if the order is. Sources: Scala 2.13's ``mutable.HashMap`` and ``immutable.HashMap`` (CHAMP), Java 17's
``HashMap`` and `Properties` (a ``ConcurrentHashMap``).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeVar

V = TypeVar("V")
_MASK = 0xFFFFFFFF
SMALL_MAP = 4
"""Scala's immutable maps up to this size keep the order of insertion."""


def string_hash(text: str) -> int:
    """``String.hashCode``, unsigned."""
    value = 0
    data = text.encode("utf-16-be", "surrogatepass")
    for at in range(0, len(data), 2):
        value = (31 * value + (data[at] << 8 | data[at + 1])) & _MASK
    return value


def _spread(text: str) -> int:
    value = string_hash(text)
    return value ^ (value >> 16)


def _signed(value: int) -> int:
    return value - (1 << 32) if value >> 31 else value


def scala_mutable(entries: Mapping[str, V], first: int | None = None) -> dict[str, V]:
    """A ``mutable.Map``, filled one by one. `first`: how many it was made of at once, if so."""
    size = 16
    if first:
        size = 1 << max(int((first + 1) / 0.75) - 1, 4).bit_length()
    for count in range(first or 0, len(entries)):
        if count + 1 >= size * 0.75:
            size *= 2
    keys = sorted(entries, key=lambda key: (_spread(key) & (size - 1), _signed(_spread(key))))
    return {key: entries[key] for key in keys}


def scala_immutable(entries: Mapping[str, V]) -> dict[str, V]:
    """An immutable ``Map``, made of the entries in their order."""
    if len(entries) <= SMALL_MAP:
        return dict(entries)
    return {key: entries[key] for key in _champ(list(entries), 0)}


def _improve(value: int) -> int:
    value = (value + (~(value << 9) & _MASK)) & _MASK
    value ^= value >> 14
    value = (value + (value << 4)) & _MASK
    return value ^ (value >> 10)


def _champ(keys: Iterable[str], shift: int) -> list[str]:
    """A node's own entries by their five bits, then its sub-nodes by theirs."""
    places: dict[int, list[str]] = {}
    for key in keys:
        places.setdefault((_improve(string_hash(key)) >> shift) & 31, []).append(key)
    if shift >= 35:
        return [key for place in places.values() for key in place]
    order = [places[at][0] for at in sorted(places) if len(places[at]) == 1]
    for at in sorted(places):
        if len(places[at]) > 1:
            order += _champ(places[at], shift + 5)
    return order


def java_map(entries: Mapping[str, V]) -> dict[str, V]:
    """A ``HashMap`` or `Properties`, filled one by one in the order of the entries."""
    size = 16
    while len(entries) >= size * 0.75 + (size == 16 and len(entries) == 12):
        size *= 2
    keys = sorted(entries, key=lambda key: _spread(key) & (size - 1))
    return {key: entries[key] for key in keys}
