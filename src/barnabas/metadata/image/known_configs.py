"""The configuration keys that an image keeps: those that this version of Barnabas knows.

The log may have keys that were removed since, such as a topic's ``message.format.version`` of Kafka before
4.0. They are ignored, since no later change of the topic would be valid with one. Brokers' keys are kept
under any name: listeners and plug-ins have keys of their own.

Source: Apache Kafka's SupportedConfigChecker (4.3).
"""

from __future__ import annotations

from barnabas.config.client_metrics import SUBSCRIPTION
from barnabas.config.group import GROUP
from barnabas.config.topic import TOPIC

_BROKER = 4
_KNOWN = {
    2: frozenset((*TOPIC.keys, "unclean.recovery.strategy")),
    16: frozenset(SUBSCRIPTION.keys),
    32: frozenset(GROUP.keys),
}
"""Known keys by resource type."""


def is_kept(resource_type: int, name: str) -> bool:
    """Whether the image keeps a key of this resource type."""
    return resource_type == _BROKER or name in _KNOWN.get(resource_type, ())
