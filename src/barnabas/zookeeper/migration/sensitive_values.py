"""Which values of `/config` are never shown, and which Kafka encrypts.

Not shown is what DescribeConfigs hides, and users' SCRAM credentials.
"""

from __future__ import annotations

from barnabas.config.broker import broker_key
from barnabas.config.definition import ConfigType
from barnabas.config.topic import TOPIC as TOPIC_KEYS
from barnabas.security.scram import TYPES
from barnabas.zookeeper.layout.config_znodes import BROKER, TOPIC, resource_of


def is_sensitive(entity: str, key: str) -> bool:
    """Whether a key of an entity, as in `ConfigZnode`, is sensitive. A key that no table knows may be a
    secret."""
    resource = resource_of(entity)
    if resource is None:
        return key in TYPES
    known = TOPIC_KEYS.keys.get(key) if resource[0] == TOPIC else broker_key(key)
    return known is None or known.sensitive


def is_encrypted(entity: str, key: str) -> bool:
    """Whether a broker of Kafka with ``password.encoder.secret`` keeps the value encrypted: its passwords.
    Source: ``DynamicBrokerConfig.toPersistentProps``."""
    resource = resource_of(entity)
    known = broker_key(key) if resource is not None and resource[0] == BROKER else None
    return known is not None and known.type is ConfigType.PASSWORD
