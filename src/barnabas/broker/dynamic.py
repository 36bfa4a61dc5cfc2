"""A running broker's own settings, as far as they may change without a restart (KIP-226).

What holds for one topic, and min.insync.replicas, is read where it is used (`topic_configs`), and so are
the replication throttle and cordoned directories. Here is the rest: how many fetchers follow one leader
(`num.replica.fetchers`), how the cleaner works (`log.cleaner.*`), and how long producer ids are kept
(`producer.id.expiration.ms`). Which keys the controller refuses to change: `barnabas.config.broker`.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from barnabas.config.broker import BROKER
from barnabas.config.definition import ConfigError
from barnabas.config.settings import LogManagerSettings, ReplicationSettings

if TYPE_CHECKING:
    from barnabas.broker.broker import Broker


@lru_cache(64)
def _settings_of(texts: tuple[tuple[str, str], ...]) -> tuple[LogManagerSettings, int]:
    """What may change while a broker runs: settings of the logs, fetchers for each leader. They rest on
    the texts alone, which are mostly those of before. Raises :class:`ConfigError`."""
    values = BROKER.typed(dict(texts))
    return LogManagerSettings(values), max(ReplicationSettings(values).fetchers, 1)


def apply_dynamic(broker: Broker) -> None:
    """The metadata changed a broker's configuration: live by it."""
    try:
        logs, fetchers = _settings_of(tuple(broker.broker_texts().items()))
    except ConfigError as error:  # set by another program: what held goes on holding
        broker.ports.log("error", "broker.config_refused", reason=str(error))
        return
    broker.logs.settings = broker.logs.cleaner.settings = logs
    broker.replicas.fetchers.resize(fetchers)
