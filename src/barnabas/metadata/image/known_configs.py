"""Which configurations an image keeps: those that this software knows of.

The log may hold keys that were taken away since, such as a topic's ``message.format.version`` of Kafka
before 4.0. Nothing may come of them: no later change of the topic could be valid with one. Brokers' keys
are kept whatever their name: listeners and plug-ins have names of their own.

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
"""By the number of the resource's type."""


def is_kept(resource_type: int, name: str) -> bool:
    """Whether a key of such a resource is one that may be set."""
    return resource_type == _BROKER or name in _KNOWN.get(resource_type, ())
