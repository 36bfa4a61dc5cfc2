"""Reads the topics to which a consumer subscribes from the metadata in its JoinGroup.

The coordinator needs nothing else of them: in the classic protocol the members compute the
assignment.

Source: ``ConsumerProtocolSubscription`` v0, with which all later versions begin (KIP-429).
"""

from __future__ import annotations

from struct import Struct, error

from barnabas.wire.text import java_text

_INT16 = Struct(">h")
_INT32 = Struct(">i")


class SubscriptionError(ValueError):
    """The metadata are no subscription of the consumer protocol."""


def subscribed_topics(metadata: bytes) -> list[str]:
    """The topics of a subscription. Raises :class:`SubscriptionError`."""
    try:
        version = _INT16.unpack_from(metadata, 0)[0]
        count = _INT32.unpack_from(metadata, 2)[0]
        if version < 0 or not 0 <= count <= len(metadata):
            raise SubscriptionError(f"version {version}, {count} topics in {len(metadata)} bytes")
        topics, position = [], 6
        for _ in range(count):
            size = _INT16.unpack_from(metadata, position)[0]
            position += 2
            if size < 0 or position + size > len(metadata):
                raise SubscriptionError(f"a topic's name claims {size} bytes")
            topics.append(java_text(metadata[position : position + size]))
            position += size
    except error as fault:
        raise SubscriptionError(str(fault)) from fault
    return topics
