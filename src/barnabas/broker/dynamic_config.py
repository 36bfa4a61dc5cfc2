"""A running broker's own settings, as far as they may change without a restart (KIP-226).

What holds for one topic, and min.insync.replicas, is read where it is used (`topic_configs`), and so are
the replication throttle and cordoned directories. Here is the rest: how many fetchers follow one leader
(``num.replica.fetchers``), how the cleaner works (`log.cleaner.*`), and how long producer ids are kept
(``producer.id.expiration.ms``); the node's listeners follow the rest. Which keys the
controller refuses to change: `barnabas.config.broker`.

Source: Kafka's ``DynamicBrokerConfig``.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING

from barnabas.config.broker import BROKER as BROKER_KEYS
from barnabas.config.broker import broker_key
from barnabas.config.definition import ConfigError
from barnabas.config.settings import LogManagerSettings, ReplicationSettings
from barnabas.metadata.image.image import BROKER, CLUSTER_DEFAULT

if TYPE_CHECKING:
    from barnabas.broker.roles import DynamicConfigRole


@lru_cache(64)
def _settings_of(texts: tuple[tuple[str, str], ...]) -> tuple[LogManagerSettings, int]:
    """The settings that may change while a broker runs: those of the logs, and fetchers for each leader.
    They rest on the texts alone, which are mostly those of before. Raises :class:`ConfigError`."""
    values = BROKER_KEYS.typed(dict(texts))
    return LogManagerSettings(values), max(ReplicationSettings(values).fetchers, 1)


def valid_values(values: Mapping[str, str]) -> dict[str, str]:
    """The entries of dynamic configuration that are values of their keys. A controller of Apache Kafka
    takes whatever it is given for brokers, whose own work it is to judge it: they pass over what they
    cannot read, one by one."""
    return {name: text for name, text in values.items() if _fits(name, text)}


def _fits(name: str, text: str) -> bool:
    key = broker_key(name)
    try:
        if key is not None:
            key.parse(text)
    except ConfigError:
        return False
    return True


def apply_dynamic(broker: DynamicConfigRole) -> None:
    """The metadata changed a broker's configuration: live by it."""
    for layer in (CLUSTER_DEFAULT, str(broker.node_id)):
        given = broker.image.config(BROKER, layer)
        for name in sorted(given.keys() - valid_values(given)):
            broker.ports.log("error", "broker.config_refused", key=name)
    try:
        logs, fetchers = _settings_of(tuple(broker.broker_texts().items()))
    except ConfigError as error:  # set by another program: keep the previous settings
        broker.ports.log("error", "broker.config_refused", reason=str(error))
        return
    broker.logs.settings = broker.logs.cleaner.settings = logs
    broker.replicas.fetchers.resize(fetchers)
    broker.listeners.follow(broker.broker_texts())
