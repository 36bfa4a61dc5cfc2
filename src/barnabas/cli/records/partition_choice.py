"""The partitions that a command reads: of topics, of those that a pattern matches, and only some of them."""

from __future__ import annotations

from collections.abc import Sequence

from barnabas.cli.confirming import USAGE
from barnabas.cli.failure import Failure
from barnabas.client.consumers.classic_protocol_member import check_pattern, matched_topics
from barnabas.client.consumers.group_member import TopicPattern
from barnabas.host.client import Connected
from barnabas.types import TopicPartition, is_int32

NUMBERS_MAX = 1_000_000
"""Partitions that a list of numbers may name: a typing error must not fill the memory."""


def matched(connected: Connected, pattern: TopicPattern) -> list[str]:
    """Topics that exist now; later ones are for groups. Raises `Failure`."""
    try:
        check_pattern(pattern)
    except ValueError as fault:
        raise Failure(str(fault), USAGE) from fault
    return matched_topics(pattern, {topic.name: topic for topic in connected.topics()})


def chosen(
    connected: Connected, topics: Sequence[str], only: Sequence[str]
) -> list[TopicPartition]:
    """The partitions of the topics, only those of the lists `only` if there are any. Raises `Failure`."""
    partitions = connected.partitions_of(topics)
    try:
        numbers = {number for text in only for number in parse_numbers(text)}
    except ValueError as fault:
        raise Failure(str(fault), USAGE) from fault
    known = {tp.partition for tp in partitions}
    for number in sorted(numbers - known):
        raise Failure(f"there is no partition {number} of {', '.join(topics)}")
    return [tp for tp in partitions if not numbers or tp.partition in numbers]


def parse_numbers(text: str) -> list[int]:
    """The numbers of ``0,3-5``. Raises ``ValueError``."""
    found: list[int] = []
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        last = last if dash else first
        if not is_int32(first) or not is_int32(last) or int(last) < int(first):
            raise ValueError(f"partitions are numbers such as 0,3-5, not {text!r}")
        if int(last) - int(first) > NUMBERS_MAX:
            raise ValueError(f"{part.strip()} names too many partitions")
        found += range(int(first), int(last) + 1)
    return found
