"""Applies changes of dynamic configuration to the TLS stores of a node that runs: those of its listeners, and
of its own connections to brokers and to controllers.

A new store holds from the next connection on; where it cannot be used the former one stays, and the log says
why. Values may have variables of the providers that the node's own file names (``config.providers``): the
metadata log has the variable, and each node answers it when a configuration is applied. Providers that are
named by dynamic configuration are not used: a right to alter configurations is no right to read files.

Source: Kafka's ``DynamicBrokerConfig``, KIP-226, 421.
"""

from __future__ import annotations

from collections.abc import Mapping

from barnabas.client.network.channels import Channels
from barnabas.config.definition import ConfigError
from barnabas.config.node import NodeConfig
from barnabas.config.providers import PROVIDERS, Resolved
from barnabas.node.listeners import Listeners
from barnabas.ports import HasSecrets, Ports
from barnabas.security.listener_security import prefix_of
from barnabas.security.tls_settings import SecurityKeys, tls_settings


class DynamicSecurity:
    """The security of one node, which changes while it runs. `outgoing` are its connections, by the listener
    that they lead to."""

    def __init__(
        self,
        ports: Ports,
        config: NodeConfig,
        listeners: Listeners,
        outgoing: Mapping[str, Channels],
    ) -> None:
        self._ports = ports
        self._config = config
        self._listeners = listeners
        self._outgoing = outgoing

    def follow(self, texts: Mapping[str, str]) -> None:
        """The node's configuration has changed; `texts` are its values by key."""
        try:
            answered = self._answer_variables(texts)
        except ConfigError as error:
            self._ports.log("error", "broker.config_refused", reason=str(error))
            return
        self._listeners.follow(answered)
        for listener, channels in self._outgoing.items():
            self._follow_stores(listener, channels, answered)

    def _answer_variables(self, texts: Mapping[str, str]) -> Resolved:
        """Raises :class:`ConfigError`."""
        own, ports = self._config.texts, self._ports
        dynamic = {
            key: text
            for key, text in texts.items()
            if own.get(key) != text and not key.startswith(PROVIDERS)
        }
        if not isinstance(ports, HasSecrets) or not any("${" in text for text in dynamic.values()):
            return Resolved(dict(texts))
        providers = {key: text for key, text in own.items() if key.startswith(PROVIDERS)}
        answered: Resolved = ports.secrets.answer_variables({**providers, **dynamic})
        return answered._replace(values={**texts, **answered.values})

    def _follow_stores(self, listener: str, channels: Channels, answered: Resolved) -> None:
        former, ports = channels.security, self._ports
        if former.tls is None or not isinstance(ports, HasSecrets):
            return
        try:
            keys = SecurityKeys(answered.values, prefix_of(listener))
            changed = former.with_stores_of(tls_settings(keys, is_server=False))
            if changed == former:
                return
            assert changed.tls is not None
            ports.secrets.check_tls(changed.tls, is_server=False)
        except ConfigError as error:
            ports.log("error", "broker.config_refused", reason=str(answered.hide(error)))
            return
        channels.secure(changed)
        ports.log("info", "tls.replaced", listener=f"connections to {listener}")
